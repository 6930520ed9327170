//! Teamwire with the agent programs that people use, unmodified, and a scripted model instead of a maker's.
//!
//! Each scenario is written once and played with every program of [`program`]. A [`Setup`](setup::Setup) is a
//! coordinator, a scripted model, and users whose programs know no other model; [`world`](crate::world) is that of the
//! end-to-end tests.
//!
//! `cargo xtask agents` installs the programs. A test whose program is not installed is skipped with a notice; with
//! `CI` set, that is a failure for the programs that CI must test.

// They cut programs off from the network with a namespace, and find processes in /proc.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_debug_implementations)]

#[path = "../e2e/agents.rs"]
#[allow(dead_code)]
mod agents;
mod program;
mod setup;
#[path = "../e2e/world/mod.rs"]
#[allow(dead_code, unused_imports)]
mod world;

/// Declares each function as a test with every program.
macro_rules! scenarios {
    ($($scenario:ident),+ $(,)?) => {$(
        mod $scenario {
            $crate::program::with_each_program!(super::$scenario);
        }
    )+};
}

mod attaching;
mod budgets;
mod compactions;
mod crashes;
mod hosts;
mod interrupts;
mod makers;
mod mcp;
mod messages;
mod outages;
mod permissions;
mod plans;
mod readme;
mod reports;
mod session;
mod shutdowns;
mod tasks;
mod transcripts;
mod up;
mod work;
