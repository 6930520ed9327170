//! Runs programs as members of a team.
//!
//! A [`Runner`] joins a team, starts a program, hands it the member's messages and tasks, acknowledges what the program
//! has proven to have processed, answers on its behalf, and ends it, with every process it has started, when its
//! shutdown is approved. [`agent_text`] holds what an agent reads.
//!
//! # How it is built
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `runner` | joins, starts an adapter for each incarnation, restarts, reports the exit | only modules below |
//! | [`programs`] | the agent programs that are known by name, and which of them are on this machine | `config`, `process` |
//! | `adapters` | drive a program, one module for each [`Mode`] | [`programs`], and modules below |
//! | [`attach`] | hands the session of an agent to a person at a terminal | `process` |
//! | `incarnation` | one life of the member: owns its state and talks to the coordinator | only modules below |
//! | `line_protocol` | the lines that a program reads and writes | [`agent_text`], [`visible`] |
//! | `process` | a process that never outlives its owner | `config`, `event`, `exit` |
//! | `config`, `event`, `exit` | what a runner is given, what it reports, and how it ends | [`agent_text`] |
//! | `hurry` | how a runner ends without a grace period | |
//! | [`mcp`] | the tools of a member, for agent programs | [`hooks`], `line_protocol`, `pending_replies`, [`agent_text`], [`visible`] |
//! | [`host`] | starts members on this machine when the lead orders them | [`programs`], `process`, `tls_environment`, [`work`] |
//! | [`work`] | what members change in git repositories | `process` |
//! | [`transcript`] | what an agent was given, wrote and did, in files | |
//! | `tls_environment` | the environment variables for TLS | |
//! | [`hooks`] | hands messages to the sessions that a person starts | [`setup`], [`agent_text`], [`visible`] |
//! | [`setup`] | edits the settings of agent programs | |
//! | `pending_replies` | finds the message that a program's message answers | |
//! | [`agent_text`] | the text form of messages and tasks | [`visible`] |
//! | [`visible`] | marks characters that a reader does not see | |
//!
//! One incarnation is one value with one owner, the adapter that runs it. There are no locks: besides the owner, only
//! the heartbeat, the reporter of activity and readers of the transcript see its state. Anything that takes time, such as a call that the program
//! asked for or a claim of the next task, runs separately, and its result comes back to the owner as an event.
//!
//! ```no_run
//! use teamwire_agents::{Runner, RunnerConfig};
//!
//! #[tokio::main]
//! async fn main() {
//!     let join_token = std::env::var("JOIN_TOKEN").expect("a join token");
//!     let command = vec!["python3".into(), "teammate.py".into()];
//!     let mut config = RunnerConfig::new("http://127.0.0.1:7420", join_token, command);
//!     config.name = "backend".to_owned();
//!     let exit = Runner::new(config).run().await;
//!     eprintln!("{}", exit.detail);
//!     std::process::exit(exit.code.into());
//! }
//! ```

mod adapters;
pub mod agent_text;
pub mod attach;
mod config;
mod event;
mod exit;
pub mod hooks;
pub mod host;
mod hurry;
mod incarnation;
mod line_protocol;
pub mod mcp;
mod pending_replies;
mod process;
pub mod programs;
mod runner;
pub mod setup;
mod tls_environment;
pub mod transcript;
pub mod visible;
pub mod work;

pub use self::{
    config::{
        AckPolicy, AgentOptions, AgentProtocol, BatchInput, Containment, Mode, OnEvent, OnJoined, OnShutdown,
        Permissions, Restart, RunnerConfig, TOOLS_LOADED_VARIABLE,
    },
    event::RunnerEvent,
    exit::{RunnerExit, exit_code},
    process::{Pid, check_program, start_in_new_session, watch},
    runner::Runner,
};
