//! What several commands use: asking before something, single keys, waiting for something, ids that a user may shorten, completion
//! and help.

pub(in crate::command) mod amount;
pub(in crate::command) mod approver;
pub(crate) mod complete;
pub(in crate::command) mod confirm;
pub(in crate::command) mod decision;
pub(crate) mod help;
pub(in crate::command) mod id;
pub(in crate::command) mod keys;
pub(in crate::command) mod line_loop;
pub(in crate::command) mod made_request;
#[cfg(test)]
mod reference;
pub(in crate::command) mod shown;
pub(in crate::command) mod stop_on_signal;
pub(in crate::command) mod successor;
pub(in crate::command) mod waiting;
