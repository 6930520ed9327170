//! Coordinators on a Redis Cluster whose slots change hands under load.

use std::collections::BTreeSet;

use tokio::runtime::Runtime;

use crate::{
    traffic::{ROOMY, Traffic},
    world::{TestCluster, World},
};

#[test]
fn slots_move_to_other_nodes_under_many_streams_and_no_application_notices() {
    let runtime = Runtime::new().unwrap();
    let Some(cluster) = runtime.block_on(TestCluster::start()) else { return };
    let world = World::on(&cluster.url(), ROOMY);
    let other = world.another_coordinator();
    let traffic = Traffic::gather(&world, &[world.coordinator.address(), other.address()].join(","));
    traffic.goes_on("messages flow");
    let before = runtime.block_on(places(&cluster));
    let at: BTreeSet<_> = before.iter().map(|(node, _, _)| node).collect();
    assert_eq!(at.len(), cluster.nodes.len(), "not all nodes have a team: {before:?}");
    for (from, slot, tag) in &before {
        let to = (from + 1) % cluster.nodes.len();
        runtime.block_on(cluster.begin_move(*slot, *from, to));
        // Long enough for those of this team to send and to wait.
        traffic.await_stored("the other teams continue", 1, tag);
        runtime.block_on(cluster.end_move(*slot, *from, to));
        traffic.await_stored("all teams continue", 1, "");
    }
    traffic.goes_on("messages flow after all moves");
    let after = runtime.block_on(places(&cluster));
    assert!(before.iter().all(|place| !after.contains(place)), "{before:?}, {after:?}");
    let account = traffic.ends();
    eprintln!("{} slots moved: {account:?}", before.len());
    account.is_flawless();
    for coordinator in [&world.coordinator, &other] {
        assert_eq!(coordinator.metric("teamwire_lost_writes_total"), 0.0);
    }
}

/// Returns where everything is kept: node, slot, and the part of the keys that decides on the slot.
async fn places(cluster: &TestCluster) -> BTreeSet<(usize, usize, String)> {
    let mut places = BTreeSet::new();
    for (at, node) in cluster.nodes.iter().enumerate() {
        let keys: Vec<String> = redis::from_redis_value(node.tell(&["KEYS", "*"]).await).unwrap();
        for key in keys {
            let tag = key.split(['{', '}']).nth(1).expect("a tag");
            let slot = redis::from_redis_value(node.tell(&["CLUSTER", "KEYSLOT", &key]).await).unwrap();
            places.insert((at, slot, tag.to_owned()));
        }
    }
    places
}
