//! Bugs that are planted into a real coordinator: the checkers must find each, and for the right reason.
//!
//! Two coordinators and the workers run in this process, on a store that lies in one way. Without a lie nothing is found.

#![allow(clippy::unwrap_used)]

use std::{path::Path, sync::Arc, time::Duration};

use teamwire_chaos::{
    buggy_store::{Bug, BuggyStore},
    check::{self, Promise},
    cluster,
    history::{self, What},
    lead, worker,
};
use teamwire_client::{Client, Retry, v1};
use teamwire_server::{
    server::{self, Listeners},
    store::{self, Store},
};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

const SECRET: &str = "planted0123456789abcdef";

/// Has members work on a store with a bug for a while, and returns which promises were not kept.
async fn broken(bug: Bug) -> Vec<Promise> {
    let directory = tempfile::tempdir().unwrap();
    let store = store::open("memory:").await.unwrap();
    let buggy_store = BuggyStore::new(store, bug);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(format!("http://{}", listener.local_addr().unwrap()));
        let listeners = Listeners { protocol: listener, health: None };
        let buggy_store: Arc<dyn Store> = Arc::clone(&buggy_store) as _;
        let mut config = server::Config::new(SECRET);
        if bug == Bug::ShortLeases {
            // Or it would take until somebody may be taken for lost at all.
            (config.limits.lease_ttl, config.limits.lost_grace) = (Duration::from_secs(1), Duration::ZERO);
            config.pace.heartbeat_interval = Duration::from_millis(200);
        }
        tokio::spawn(server::run(config, buggy_store, listeners, stop.clone()));
    }
    let address = addresses.join(",");
    let note = history::Recorder::open(directory.path(), "supervisor", 1).unwrap();
    let began_us = history::now_us();
    if bug == Bug::Stalls {
        note.note(What::FloodBegan);
    }

    let stranger = Client::connect(&address).unwrap().with_retry(Retry::within(Duration::from_secs(5)));
    let operator = stranger.with_credential(&format!("two:{SECRET}")).unwrap();
    let create = v1::CreateTeamRequest { name: "planted".to_owned(), ..Default::default() };
    let created = operator.create_team(create).await.unwrap();
    let lead = stranger.with_credential(&created.credential).unwrap();
    let mut workers = JoinSet::new();
    let mut configs = Vec::new();
    for (at, member) in ["m1", "m2", "m3"].into_iter().enumerate() {
        // What a coordinator has committed itself it does not read from the store.
        let address = if bug == Bug::SwappedEntries { addresses[at % 2].clone() } else { address.clone() };
        let invite = v1::InviteRequest { member: member.to_owned(), ..Default::default() };
        let token = lead.invite(invite).await.unwrap().join_token;
        let joined = stranger.with_credential(&token).unwrap().join(v1::JoinRequest::default()).await.unwrap();
        configs.push(worker::Config {
            directory: directory.path().to_owned(),
            member: member.to_owned(),
            process: 1,
            seed: 7,
            address,
            credential: joined.credential,
            others: ["m1", "m2", "m3"].into_iter().filter(|other| *other != member).map(str::to_owned).collect(),
        });
    }
    for config in &configs {
        workers.spawn(worker::run(config.clone()));
    }
    let inbox = lead.with_credential(&created.credential).unwrap();
    workers.spawn(async move {
        lead::read_all(inbox).await;
        Ok(0)
    });
    for round in 0..60 {
        for _ in 0..3 {
            let task = v1::CreateTaskRequest { subject: "work".to_owned(), ..Default::default() };
            let _ = lead.create_task(task).await;
        }
        sleep(Duration::from_millis(50)).await;
        // Now and then another process takes a member's place, and one is thrown out in the middle of its work.
        if round % 15 == 10 {
            let config = &mut configs[round % 3];
            config.process += 1;
            workers.spawn(worker::run(config.clone()));
        }
    }
    std::fs::write(directory.path().join(worker::QUIET), "").unwrap();
    settle(&lead, directory.path()).await;
    workers.shutdown().await;
    match bug {
        Bug::SilentLoss => note.note(What::MayBeLost { from_us: began_us, until_us: history::now_us() }),
        Bug::Leak => {
            let peak_bytes = cluster::peak_bytes(std::process::id()).unwrap();
            note.note(What::Memory { coordinator: 1, peak_bytes });
        }
        _ => {}
    }
    teamwire_chaos::stock::take(&lead, &note).await.unwrap();
    let events = history::read(directory.path()).unwrap();
    let counts = check::count(&events);
    assert!(counts.sent > 100 && counts.claimed > 10 && counts.sessions > 3, "too little has happened: {counts:?}");
    let violations = check::check(&events);
    for violation in violations.iter().take(5) {
        eprintln!("{bug:?}: {violation}");
    }
    let mut promises: Vec<_> = violations.into_iter().map(|violation| violation.promise).collect();
    promises.sort_unstable();
    promises.dedup();
    promises
}

/// Waits until nothing is under way or left in an inbox; not for long, where a bug may keep it there.
async fn settle(lead: &Client, directory: &Path) {
    for _ in 0..160 {
        sleep(Duration::from_millis(50)).await;
        let members = lead.list_members(v1::ListMembersRequest::default()).await.unwrap().members;
        let is_empty = members.iter().all(|member| member.inbox_depth == 0);
        if is_empty && history::under_way(&history::read(directory).unwrap()) == 0 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(broken(Bug::None).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_inbox_is_found() {
    assert!(broken(Bug::TrimmedInbox).await.contains(&Promise::NothingLost));
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_idempotency_keys_are_found() {
    assert_eq!(broken(Bug::NoIdempotency).await, [Promise::NothingDoubled]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_in_the_place_of_another_is_found() {
    assert!(broken(Bug::SwappedEntries).await.contains(&Promise::NothingInvented));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_is_gone_is_found() {
    assert!(broken(Bug::NoFence).await.contains(&Promise::Fenced));
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_checked_are_found() {
    assert!(broken(Bug::NoClaimCheck).await.contains(&Promise::Claims));
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_of_life_that_are_forgotten_are_found() {
    assert!(broken(Bug::ShortLeases).await.contains(&Promise::Alive));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_nobody_is_told_of_is_found() {
    let broken = broken(Bug::SilentLoss).await;
    assert!(broken.contains(&Promise::LossTold) && !broken.contains(&Promise::NothingLost), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_that_strangers_hold_up_are_found() {
    assert_eq!(broken(Bug::Stalls).await, [Promise::Unharmed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_never_given_back_is_found() {
    assert_eq!(broken(Bug::Leak).await, [Promise::Bounded]);
}
