//! Runs programs as members of a team, and holds the texts that an agent reads.

mod adapters;
mod process;
pub mod runner;
pub mod text;

pub use runner::{
    AckPolicy, Mode, OnEvent, OnJoined, OnShutdown, Restart, Runner, RunnerConfig, RunnerEvent, RunnerExit,
};
