//! Coordinators and members that die or stop for a while.

use std::io;

use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::{Draw, PATIENCE};
use crate::cluster::Cluster;

pub(super) async fn kill_coordinator(cluster: &mut Cluster, draw: &Draw) -> io::Result<()> {
    cluster.coordinators[draw.coordinator].process.kill();
    sleep(draw.moment).await;
    cluster.restart(draw.coordinator)
}

pub(super) async fn pause_coordinator(cluster: &mut Cluster, draw: &Draw) {
    cluster.coordinators[draw.coordinator].process.signal(Signal::SIGSTOP);
    sleep(draw.pause).await;
    cluster.coordinators[draw.coordinator].process.signal(Signal::SIGCONT);
}

pub(super) async fn pause_member(cluster: &mut Cluster, draw: &Draw) {
    let signal = |cluster: &mut Cluster, which| {
        let newest = cluster.members.get_mut(&draw.member).and_then(|member| member.processes.last_entry());
        newest.inspect(|process| process.get().signal(which));
    };
    signal(cluster, Signal::SIGSTOP);
    sleep(draw.pause).await;
    signal(cluster, Signal::SIGCONT);
}

/// Runs a single coordinator that dies when it reaches a failpoint for the `hit`th time, then restarts all of them.
pub(super) async fn die_at(cluster: &mut Cluster, draw: &Draw, place: &str, hit: u32) -> io::Result<()> {
    for each in &mut cluster.coordinators {
        each.process.kill();
    }
    cluster.restart_with(draw.coordinator, &[("FAILPOINT", format!("{place}:{hit}").into())])?;
    // Clients may first have to notice that an earlier connection is dead.
    let ended = cluster.coordinators[draw.coordinator].process.end(2 * PATIENCE).await;
    if ended.is_none() {
        let why = format!("the coordinator never reached {place}: is it a build with debug assertions?");
        return Err(io::Error::other(why));
    }
    (0..cluster.coordinators.len()).try_for_each(|each| cluster.restart(each))
}
