//! Bad links, strangers who flood a coordinator, and members who harm it.

use std::{io, time::Duration};

use rand::{RngExt as _, rngs::StdRng};
use tokio::time::sleep;

use super::Draw;
use crate::{
    cluster::{Cluster, OPERATOR},
    flood::Flood,
    history::{Recorder, What},
    hostile::{Harm, HostileTeam, Target},
    proxy::{Direction, Proxy},
};

/// Chooses between the coordinator's link to its clients and the one to its store, where both have a proxy.
fn choose_link<'c>(cluster: &'c Cluster, draw: &Draw, random: &mut StdRng) -> &'c Proxy {
    let links = &cluster.coordinators[draw.coordinator].proxies;
    &links[random.random_range(0..links.len())]
}

pub(super) async fn slow(cluster: &Cluster, draw: &Draw, random: &mut StdRng) {
    let most = Duration::from_millis(random.random_range(50..300));
    let link = choose_link(cluster, draw, random);
    link.set(|faults| faults.latency = (most / 5, most));
    sleep(draw.pause).await;
    link.set(|faults| faults.latency = Default::default());
}

pub(super) async fn silence(cluster: &Cluster, draw: &Draw, random: &mut StdRng) {
    let direction = if random.random() { Direction::ToServer } else { Direction::ToClient };
    let link = choose_link(cluster, draw, random);
    link.set(|faults| faults.silent = Some(direction));
    sleep(draw.pause / 2).await;
    link.set(|faults| faults.silent = None);
}

pub(super) async fn reset(cluster: &Cluster, draw: &Draw, random: &mut StdRng) {
    let link = choose_link(cluster, draw, random);
    for _ in 0..5 {
        link.set(|faults| faults.resets += 1);
        sleep(draw.moment / 2).await;
    }
}

pub(super) async fn flood(cluster: &Cluster, draw: &Draw, flood: Flood) -> io::Result<()> {
    let duration = Duration::from_secs(1) + draw.pause / 2;
    cluster.note(What::FloodBegan)?;
    let port = cluster.coordinators[draw.coordinator].port();
    if flood == Flood::Connections {
        tokio::try_join!(flood.run(port, duration), Flood::HalfOpen.run(port, duration))?;
    } else {
        flood.run(port, duration).await?;
    }
    cluster.note(What::FloodEnded)
}

/// The shortest attack by hostile members.
const ATTACK_MIN: Duration = Duration::from_secs(5);

/// The name under which those record events who mean well beside hostile members.
const OTHERS: &str = "others";

pub(super) async fn harm(cluster: &Cluster, draw: &Draw, duration: Duration, harms: &[Harm]) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("the hostile team: {error}"));
    let coordinator = &cluster.coordinators[draw.coordinator];
    let target = Target { port: coordinator.port(), listeners: coordinator.listeners.clone() };
    cluster.note(What::FloodPrepared)?;
    let team = HostileTeam::create(target, OPERATOR, harms).await.map_err(failed)?;
    cluster.note(What::FloodBegan)?;
    let recorder = Recorder::open(&cluster.history(), OTHERS, rand::rng().random())?;
    let attack = team.run(duration.max(ATTACK_MIN), recorder, async || cluster.store_bytes().await);
    attack.await.map_err(failed)?;
    cluster.note(What::FloodEnded)
}
