//! Hosts that die, stop or run twice, runners that die before they have connected, and whatever else dies while an
//! order is pending.

use std::{env, io, process::Command, time::Duration};

use nix::{
    sys::signal::{Signal, kill as send},
    unistd::Pid,
};
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_client::{Client, v1};
use tokio::time::{sleep, timeout};

use super::{Draw, PATIENCE};
use crate::{
    cluster::{Cluster, Process},
    history::What,
    hosts::Hosts,
    orders,
    proxy::Direction,
};

/// The steps of a host from the delivery of an order to its acknowledgement, as its failpoints name them.
const STEPS: [&str; 7] = [
    "order-delivered",
    "order-taken",
    "order-recorded",
    "runner-started",
    "runner-recorded",
    "token-handed",
    "start-recorded",
];

/// How often a fault looks for what it waits for.
const OFTEN: Duration = Duration::from_millis(10);

fn hosts(cluster: &mut Cluster) -> io::Result<&mut Hosts> {
    cluster.hosts.as_mut().ok_or_else(|| io::Error::other("the cluster has no hosts"))
}

fn pick(cluster: &mut Cluster, random: &mut StdRng) -> io::Result<usize> {
    Ok(random.random_range(0..hosts(cluster)?.programs.len()))
}

/// Kills a host and starts it again.
pub(super) async fn kill(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let at = pick(cluster, random)?;
    hosts(cluster)?.programs[at].process.kill();
    sleep(draw.moment).await;
    hosts(cluster)?.restart(at)
}

/// Runs hosts that die at a step of taking an order, each at its next one or the one after. Starts them again once one
/// has died.
pub(super) async fn kill_at_step(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let step = STEPS.choose(random).unwrap_or(&STEPS[0]);
    let value = format!("{step}:{}", random.random_range(1..=2));
    let hosts = hosts(cluster)?;
    for at in 0..hosts.programs.len() {
        hosts.programs[at].process.kill();
        hosts.restart_with(at, &[], &[("FAILPOINT", value.clone().into())])?;
    }
    let died = timeout(2 * PATIENCE, async {
        while !hosts.programs.iter_mut().any(|program| program.process.ended().is_some()) {
            sleep(OFTEN).await;
        }
    });
    died.await
        .map_err(|_| io::Error::other(format!("no host reached {step}: is it a build with debug assertions?")))?;
    sleep(draw.moment).await;
    for at in 0..hosts.programs.len() {
        hosts.programs[at].process.kill();
        hosts.restart(at)?;
    }
    Ok(())
}

/// Stops a host's program, and nothing that it has started, until the coordinator counts it as lost.
pub(super) async fn pause(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let at = pick(cluster, random)?;
    note_cut_off(cluster)?;
    hosts(cluster)?.programs[at].process.signal(Signal::SIGSTOP);
    let lost = await_lost(cluster, at).await;
    sleep(draw.pause / 2).await;
    hosts(cluster)?.programs[at].process.signal(Signal::SIGCONT);
    lost
}

/// Stops a host with everything that it has started until the coordinator counts it as lost. Starts another host under
/// its name, continues with the first, and later puts the first back into its place.
pub(super) async fn replace(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let at = pick(cluster, random)?;
    let lead = cluster.lead.clone();
    note_cut_off(cluster)?;
    hosts(cluster)?.signal_machine(at, Signal::SIGSTOP);
    let lost = await_lost(cluster, at).await;
    let successor = match lost {
        Ok(()) => {
            sleep(draw.moment).await;
            succeed(cluster, at, &lead).await
        }
        Err(error) => Err(error),
    };
    sleep(draw.moment).await;
    let hosts = hosts(cluster)?;
    hosts.signal_machine(at, Signal::SIGCONT);
    let successor = successor?;
    // Its identity is void.
    expect_end(&mut hosts.programs[at].process, "the replaced host keeps running").await?;
    sleep(draw.moment).await;
    end_with_members(successor).await?;
    hosts.rejoin(at, &lead).await.map_err(io::Error::other)
}

/// Runs a second program under a host's identity for a while, and then the first one again.
pub(super) async fn run_twice(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let at = pick(cluster, random)?;
    let hosts = hosts(cluster)?;
    let twin = hosts.start_twin(at)?;
    expect_end(&mut hosts.programs[at].process, "the superseded host keeps running").await?;
    sleep(draw.pause).await;
    end_with_members(twin).await?;
    hosts.restart(at)
}

/// Drops everything in one direction between a host, with its members, and the coordinators: from it, until the
/// coordinators count it as lost, or to it.
pub(super) async fn cut(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let at = pick(cluster, random)?;
    note_cut_off(cluster)?;
    let direction = if random.random() { Direction::ToServer } else { Direction::ToClient };
    let set = |cluster: &mut Cluster, silent| {
        let links = &hosts(cluster)?.programs[at].links;
        links.iter().for_each(|link| link.set(|faults| faults.silent = silent));
        io::Result::Ok(())
    };
    set(cluster, Some(direction))?;
    let lost = match direction {
        Direction::ToServer => await_lost(cluster, at).await,
        Direction::ToClient => Ok(()),
    };
    sleep(draw.pause).await;
    set(cluster, None)?;
    lost
}

/// Kills the next runner that starts, mostly before its first session.
pub(super) async fn kill_runner(cluster: &mut Cluster, random: &mut StdRng) -> io::Result<()> {
    let hosts = hosts(cluster)?;
    let known = hosts.runners();
    let next = timeout(PATIENCE, async {
        loop {
            if let Some(runner) = hosts.runners().difference(&known).next() {
                return *runner;
            }
            sleep(OFTEN).await;
        }
    });
    let runner = next.await.map_err(|_| io::Error::other("no runner starts"))?;
    sleep(Duration::from_millis(random.random_range(0..150))).await;
    // It may have ended by itself.
    let _ = send(Pid::from_raw(runner), Signal::SIGKILL);
    Ok(())
}

/// Runs a lead's process that orders a member, and kills it at any moment.
pub(super) async fn kill_orderer(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let op = random.random_range(1_000_000..u64::from(u32::MAX)).to_string();
    let mut command = Command::new(env::current_exe()?);
    command.arg("order").arg(cluster.history()).args([&op, &orders::any_name(random), &cluster.address()]);
    command.env("TEAMWIRE_CREDENTIAL", &cluster.lead_credential);
    let mut orderer = Process::start(command, &cluster.directory.join("orderer.log"))?;
    sleep(draw.moment / 4).await;
    orderer.kill();
    Ok(())
}

/// Waits until an order is pending, and a moment longer, in which its host takes it or its runner starts.
pub(super) async fn await_order(cluster: &Cluster, random: &mut StdRng) -> io::Result<()> {
    let pending = v1::ListRequestsRequest {
        kind: v1::RequestKind::Spawn.into(),
        state: v1::RequestState::Pending.into(),
        ..Default::default()
    };
    let some = timeout(PATIENCE, async {
        while cluster.lead.list_requests(pending.clone()).await.map_err(io::Error::other)?.requests.is_empty() {
            sleep(OFTEN).await;
        }
        io::Result::Ok(())
    });
    some.await.map_err(|_| io::Error::other("no order is pending"))??;
    sleep(Duration::from_millis(random.random_range(0..100))).await;
    Ok(())
}

/// Records that a host and what it has started may be declared lost.
fn note_cut_off(cluster: &mut Cluster) -> io::Result<()> {
    let names = hosts(cluster)?.programs.iter().map(|program| program.name.clone());
    let members = names.chain(orders::all_names()).collect();
    cluster.note(What::CutOff { members })
}

/// Starts another host under the name of a lost one, and waits until it has joined.
async fn succeed(cluster: &mut Cluster, at: usize, lead: &Client) -> io::Result<Process> {
    let name = hosts(cluster)?.programs[at].name.clone();
    let life = |hosts: Vec<v1::Host>| hosts.into_iter().find(|host| host.name == name).map(|host| host.incarnation);
    let before = life(lead.all_hosts().await.map_err(io::Error::other)?);
    let successor = hosts(cluster)?.start_successor(at, lead).await.map_err(io::Error::other)?;
    let joined = timeout(2 * PATIENCE, async {
        while life(lead.all_hosts().await.map_err(io::Error::other)?) <= before {
            sleep(OFTEN).await;
        }
        io::Result::Ok(())
    });
    joined.await.map_err(|_| io::Error::other(format!("the successor of {name} does not join")))??;
    Ok(successor)
}

/// Waits until the coordinators count a host as lost.
async fn await_lost(cluster: &mut Cluster, at: usize) -> io::Result<()> {
    let name = hosts(cluster)?.programs[at].name.clone();
    let lead = cluster.lead.clone();
    let lost = timeout(2 * PATIENCE, async {
        loop {
            let known = lead.all_hosts().await.map_err(io::Error::other)?;
            if known.iter().any(|host| host.name == name && host.state() == v1::MemberState::Lost) {
                return io::Result::Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    lost.await.map_err(|_| io::Error::other(format!("{name} does not count as lost")))?
}

async fn expect_end(process: &mut Process, otherwise: &str) -> io::Result<()> {
    process.end(2 * PATIENCE).await.map(|_| ()).ok_or_else(|| io::Error::other(otherwise.to_owned()))
}

/// Asks a host that stops its members to end.
async fn end_with_members(mut host: Process) -> io::Result<()> {
    host.signal(Signal::SIGTERM);
    expect_end(&mut host, "a host that was asked to end keeps running").await
}
