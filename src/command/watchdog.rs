//! `teamwire watchdog`: what `teamwire run` starts beside itself.

use clap::Args;

/// Watch over a runner, and kill what is left of its programs when it dies; for `teamwire run` only
#[derive(Args, Debug)]
pub(crate) struct Watchdog {}

impl Watchdog {
    pub(crate) fn run(&self) {
        teamwire_agents::watch();
    }
}
