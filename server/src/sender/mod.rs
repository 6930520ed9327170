//! Sends a notification to its receiver, once: to a server over HTTP, or to a program on its standard input. Decides
//! nothing, tries nothing again, and records nothing.

mod command;
mod public_address;
mod webhook;

use std::{fmt, io, time::Duration};

use http::StatusCode;

pub use self::{command::Command, public_address::is_public, webhook::Webhook};

/// Where notifications go.
#[derive(Debug)]
pub enum Target {
    /// A server.
    Webhook(Webhook),
    /// A program.
    Command(Command),
}

/// Why a notification was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The host name has no address.
    #[error("the host name cannot be resolved: {0}")]
    Resolve(io::Error),
    /// Every address is of a kind that is not allowed.
    #[error("the address is private; to allow it, set allow_private = true")]
    Private,
    /// No connection was opened.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// This machine's certificate authorities cannot be read.
    #[error("this machine has no certificate authorities that could be trusted")]
    NoAuthorities,
    /// The server did not answer as HTTP requires.
    #[error("the server did not answer properly: {0}")]
    Http(#[from] hyper::Error),
    /// The server refused it, or answered with a redirect, which is not followed.
    #[error("the server answered {status}{}", redirects(*.status))]
    Refused {
        /// What it answered.
        status: StatusCode,
    },
    /// The program did not start, or cannot be watched.
    #[error("the program cannot be run: {0}")]
    Run(io::Error),
    /// The program failed.
    #[error("the program failed ({status}){}", after_colon(.said))]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The beginning of its error output.
        said: String,
    },
    /// It took too long.
    #[error("it took longer than {} s{}", .limit.as_secs(), after_colon(.said))]
    TimedOut {
        /// The time limit.
        limit: Duration,
        /// The beginning of the program's error output.
        said: String,
    },
}

fn redirects(status: StatusCode) -> &'static str {
    if status.is_redirection() { ", and redirects are not followed" } else { "" }
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Target {
    /// Sends a notification. `id`: the same each time that it is sent. Takes no longer than `limit`.
    pub async fn send(&self, id: &str, body: &str, limit: Duration) -> Result<(), SendError> {
        match self {
            Self::Webhook(webhook) => webhook.send(id, body, limit).await,
            Self::Command(command) => command.send(body, limit).await,
        }
    }

    /// Returns what kind of receiver it is, for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Command(_) => "program",
        }
    }
}

/// Names the receiver in logs. Shows nothing that may be secret: no path of a URL, no argument of a program.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Webhook(webhook) => webhook.fmt(f),
            Self::Command(command) => command.fmt(f),
        }
    }
}
