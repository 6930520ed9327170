//! The rules by themselves, over literal records: no store, no coordinator, no clock.
//!
//! A test writes out a team's records, runs one rule over them, and looks at the refusal or at the transaction. Rules
//! that need several calls, races or a store belong in `tests/rules`.

#![allow(clippy::unwrap_used)]

mod access;
mod activity;
mod alerts;
mod audit;
mod members;
mod messages;
mod notices;
mod quotas;
mod requests;
mod sessions;
mod tasks;
mod world;
