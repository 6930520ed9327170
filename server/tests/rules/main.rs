//! The rules of teamwire, each as a sentence, through a coordinator over a store in memory.
//!
//! [`team`] is the language the tests are written in. A call that is refused is checked there for all that the error
//! table promises: its code, its reason, its field, a text that helps, and that nothing at all was changed.

#![allow(clippy::unwrap_used)]

mod access;
mod activity;
mod audit;
mod board;
mod board_check;
mod budgets_of_teams;
mod calls;
mod claims;
mod claims_together;
mod clock;
mod contention;
mod counting;
mod cursors;
mod detached;
mod diagnosis;
mod due_worker;
mod errors;
mod fillable;
mod hosts;
mod identity;
mod last_turn;
mod members;
mod notices;
mod overtaking;
mod pages;
mod permission_rules;
mod permissions;
mod quotas;
mod reconciler;
mod reply_bounds;
mod requests;
mod retention;
mod reviews;
mod runner_query;
mod same_files;
mod search;
mod send;
mod shares;
mod stores;
mod stories;
mod stream;
mod subscriptions;
mod tags;
mod task_errors;
mod task_paths;
mod tasks;
mod team;
mod teams;

use teamwire_test_redis as test_redis;
