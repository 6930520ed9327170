//! Adapters: each drives a program in its own way and tells the [`Incarnation`] what the program does.
//!
//! An adapter gets an incarnation whose session is open, and runs it until it ends. It takes what waits from
//! [`Incarnation::next_line`] and [`Incarnation::next_task`], and reports with
//! - [`Incarnation::hand_over`]: the program has taken a message;
//! - [`Incarnation::processed`]: the program has proven that it processed a message;
//! - [`Incarnation::handle_line`]: the program has written a line;
//! - [`Incarnation::activity`] and [`Incarnation::usage`]: what the program does and uses, for people who watch;
//! - the returned [`End`]: why the incarnation ended and how the program exited.
//!
//! The incarnation does everything else: the session, acknowledgements, heartbeats, answers and tasks.

pub(crate) mod agent;
mod exec;
mod stdin;

use crate::{config::Mode, exit::End, incarnation::Incarnation};

/// Runs one incarnation of the member until it ends.
pub(crate) async fn run(mode: Mode, incarnation: &mut Incarnation<'_>) -> End {
    match mode {
        Mode::Stdin { ack } => stdin::run(incarnation, ack).await,
        Mode::Exec { batch_messages_max, input } => exec::run(incarnation, batch_messages_max, input).await,
        Mode::Agent(protocol) => agent::run(incarnation, protocol).await,
    }
}
