//! Budgets: how much of a coordinator each credential may use.
//!
//! Every credential has an [`Account`] at each coordinator. It counts sends, calls that change something, the bytes of
//! reads, open streams, connections, the bytes of requests that arrive, and those of replies that its clients have not
//! taken. A console credential has the account of all console credentials of its identity, so that no identity
//! multiplies its budget by signing in again.
//!
//! - [`bounds`]: how large budgets are. [`bucket`]: limits rates. [`account`]: what a credential has used.
//!   [`memory`]: the memory that calls take, and the look-ups of strangers.
//! - [`generations`]: the credentials of a member, one after the other, which share an account. [`open_connection`]:
//!   one of their connections. [`accounts`]: all accounts.
//! - [`shared`]: what all accounts share.
//! - [`known`]: the credentials that a connection has shown.
//!
//! Leads and the operator have the same budgets as others, and besides them a reserve that others cannot use up: an
//! eighth of what all share.
//!
//! Architecture invariant: nothing here knows calls, or what a credential may do.

mod account;
mod accounts;
mod bounds;
mod bucket;
mod generations;
mod known;
mod memory;
mod open_connection;
mod shared;

pub use self::{
    account::{Account, ConnectionGuard, OpenStream},
    accounts::{AccountKey, Budgets},
    bounds::{Class, Rates, Shares},
    generations::Generation,
    known::ShownCredentials,
    memory::{ByteLease, Guess, ReadPermit, RequestLease},
    open_connection::{OpenCall, OpenCalls, OpenConnection},
    shared::Refusals,
};

#[cfg(test)]
mod tests;
