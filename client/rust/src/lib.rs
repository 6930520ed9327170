//! The Rust client of teamwire: send, subscribe, answer, and run a process as a member of a team.
//!
//! ```no_run
//! use teamwire_client::{Client, Event, Identity, SubscribeOptions, message};
//! use teamwire_client::v1::message::Body;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), teamwire_client::Error> {
//!     let client = Client::from_identity(&Identity::from_env())?;
//!     client.send(message::direct("team-lead", "Worker is up", "I take jobs now.")).await?;
//!
//!     let mut inbox = client.subscribe(SubscribeOptions::default());
//!     while let Some(event) = inbox.next().await {
//!         match event? {
//!             Event::Delivery(delivery) => {
//!                 match &delivery.message.body {
//!                     Some(Body::Message(text)) => println!("{}", text.content),
//!                     Some(Body::ShutdownRequest(_)) => {
//!                         client.approve_shutdown(&delivery.message.request_id).await?;
//!                     }
//!                     _ => {}
//!                 }
//!                 delivery.ack();
//!             }
//!             Event::ShutdownApproved { .. } => println!("goodbye"),
//!             Event::Closed(closed) => eprintln!("no longer a member: {closed}"),
//!             _ => {}
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! - [`Client`]: every call of the protocol, tried again with the same idempotency key until its outcome is known.
//! - [`Subscription`]: one's own inbox as it fills, through reconnects, each message once, with acknowledgements.
//! - [`message`]: the six kinds of messages; on [`Client`] the answers and what waits for them.
//! - [`HistoryFollower`]: the history as it is written. [`TaskFollower`]: the task board as it changes.
//! - [`Identity`]: where the coordinator is and who we are, out of the environment or the [`ContextFile`].
//! - [`ConnectOptions`], [`TlsOptions`]: whom to trust, what to show, how names are resolved.

mod answer;
mod client;
mod context;
mod error;
mod follow;
mod health;
mod history;
mod identity;
pub mod message;
mod pages;
mod retry;
mod subscription;
mod task;
mod transport;

pub use client::Client;
pub use context::{AS_VARIABLE, CONTEXT_VARIABLE, ContextFile, KeptIdentity};
pub use error::Error;
pub use history::HistoryFollower;
pub use identity::{
    ADDRESS_DEFAULT, ADDRESS_VARIABLE, CA_VARIABLE, CERT_VARIABLE, CREDENTIAL_VARIABLE, Identity, JOIN_VARIABLE,
    KEY_VARIABLE, MEMBER_VARIABLE, TEAM_VARIABLE,
};
pub use retry::Retry;
pub use subscription::{Acks, Closed, Delivery, Event, SubscribeOptions, Subscription};
pub use task::TaskFollower;
pub use teamwire_proto::{Reason, Refusal, dialect, v1};
#[doc(hidden)]
pub use transport::{Connect, Duplex};
pub use transport::{ConnectOptions, Pem, Resolve, SystemResolver, TlsOptions};
