//! The Rust client of teamwire: connect, send, subscribe, answer.
//!
//! # Connect
//!
//! A [`Client`] knows a coordinator (or several that share a store) and a credential. [`Identity`] finds both: in the
//! environment, where `teamwire run` puts them for its program, or in the [`ContextFile`] that the command line keeps.
//! [`join`] joins a team with what `teamwire invite` printed.
//!
//! # Send
//!
//! [`message`] builds messages. When [`Client::send`] returns, the message is in the recipient's inbox, as durable as
//! the reply says. Calls are retried with the same idempotency key until their outcome is known, as [`Retry`] says; an
//! [`Error`] is sorted by what you can do about it.
//!
//! After its first few calls, a connection carries further ones as frames of one stream, which costs both sides a
//! fraction. [`ConnectOptions::calls_before_frames`] changes when.
//!
//! # Subscribe and answer
//!
//! A [`Subscription`] delivers the member's inbox through reconnects, each message once. Acknowledge a message when it
//! is processed, not when it arrives: an unacknowledged message is delivered again, to the next process. Requests for a
//! shutdown or a plan approval are answered with one call, such as [`Client::approve_shutdown`].
//!
//! This program is a complete teammate. It replies to every message and approves its shutdown:
//!
//! ```no_run
//! use teamwire_client::v1::message::Body;
//! use teamwire_client::{Client, EndReason, Error, Event, Identity, SubscribeOptions, message};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let client = Client::from_identity(&Identity::find()?)?;
//!     client.send(message::direct("team-lead", "Worker is up", "I'm ready to take jobs.")).await?;
//!
//!     let mut inbox = client.subscribe(SubscribeOptions::default());
//!     while let Some(event) = inbox.next().await {
//!         match event? {
//!             Event::Delivery(delivery) => {
//!                 let received = &delivery.message;
//!                 match &received.body {
//!                     Some(Body::Message(text)) => {
//!                         client.reply(received, "Done", &format!("You said: {}", text.content)).await?;
//!                     }
//!                     Some(Body::ShutdownRequest(_)) => {
//!                         client.approve_shutdown(&received.request_id).await?;
//!                     }
//!                     _ => {}
//!                 }
//!                 delivery.ack();
//!             }
//!             _ => {}
//!         }
//!     }
//!     if inbox.end().is_some_and(|end| end.reason == EndReason::ShutdownApproved) {
//!         inbox.flush().await?;
//!         client.leave(0).await?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Lead
//!
//! An operator's client creates a team with [`Client::create_team`], which returns the lead's client. A lead invites
//! members with [`Client::invite`], ends them with [`Client::shutdown`] or [`Client::force_stop`], and answers their
//! plans with [`Client::answer_plan`].
//!
//! # Hosts
//!
//! A lead orders a member from a host with [`Client::spawn`]; [`Client::wait_decision`] waits for its start. A host
//! declares what it offers with [`Client::update_host`]. Its subscription yields the orders, as messages with the body
//! `SpawnOrder`. It answers each with [`Client::take_order`] or [`Client::refuse_order`], and reports with
//! [`Client::report_exit`] when no process of a member is left.
//!
//! # Watch
//!
//! [`Client::follow_history`] and [`Client::follow_tasks`] stream the history and the task board as they change, and
//! [`Client::follow_activity`] what a member's program does. [`Client::watch_team`] keeps a whole team up to date: its
//! members, hosts, pending requests, tasks, and the last activity line of each member. [`ConnectOptions`] and
//! [`TlsOptions`] set the authorities to trust, a client certificate, and how names are resolved.

mod activity;
mod answer;
mod backup;
mod client;
mod context;
mod error;
mod follow;
mod health;
#[rustfmt::skip]
mod helpers;
mod history;
mod identity;
mod lead;
pub mod message;
mod pages;
mod private_file;
mod retry;
mod runner;
mod subscription;
mod task;
mod transport;
mod waiting;
mod watch;

pub use activity::ActivityFollower;
pub use backup::BackupStream;
pub use client::{Client, join, join_host};
pub use context::{AS_VARIABLE, CONTEXT_VARIABLE, ContextFile, KeptIdentity};
pub use error::Error;
pub use history::HistoryFollower;
pub use identity::{
    ADDRESS_VARIABLE, CA_VARIABLE, CERT_VARIABLE, CREDENTIAL_VARIABLE, Identity, JOIN_VARIABLE, KEY_VARIABLE,
    MEMBER_VARIABLE, RUN_VARIABLE, SOCKET_FILE, STATE_DIR_VARIABLE, TEAM_VARIABLE, default_address, state_directory,
};
pub use lead::Shutdown;
pub use private_file::refuse_shared;
#[cfg(unix)]
pub use private_file::refuse_unowned;
pub use retry::Retry;
pub use runner::check_within_runner;
pub use subscription::{Acks, Closed, Delivery, End, EndReason, Event, SubscribeOptions, Subscription};
pub use task::TaskFollower;
pub use teamwire_proto::{Reason, Refusal, dialect, v1};
#[doc(hidden)]
pub use transport::{Connect, Duplex};
pub use transport::{ConnectOptions, FRAMES_VARIABLE, Pem, Resolve, SystemResolver, TlsOptions};
pub use waiting::Waiting;
pub use watch::{TeamChange, TeamWatcher};
