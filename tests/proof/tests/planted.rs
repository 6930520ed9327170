//! Bugs that are planted into a real coordinator: the checkers must find each, and for the right reason.
//!
//! Two coordinators and the workers run in this process, on a store that lies in one way. Without a lie nothing is found.

#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use teamwire_client::{Client, Event, Retry, SubscribeOptions, v1};
use teamwire_proof::{
    check::{self, Promise},
    history::{self, What},
    stage, worker,
};
use teamwire_server::{
    server::{self, Listeners},
    store::{
        self, Check, Commit, Durability, Entry, Extent, Hint, Key, Leases, Outcome, Range, Record, Space, Store,
        StoreError, Txn, Write,
    },
};
use tokio::{net::TcpListener, sync::broadcast, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

const SECRET: &str = "planted0123456789abcdef";

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// One in forty entries of inboxes is put where nobody looks for it.
    TrimmedInbox,
    /// The ledger forgets at once what it is to remember.
    NoLedger,
    /// One in forty entries of inboxes is another one.
    SwappedEntries,
    /// Whoever asks for a session is told the first one that there was.
    NoFence,
    /// Commits to the board and to tasks are not checked against what was read.
    NoClaimCheck,
    /// Signs of life are forgotten at once.
    ShortLeases,
    /// One in forty sends is answered and not carried out, and nobody says so. The store was known to forget.
    SilentLoss,
    /// One in forty sends takes 6 s, while strangers are said to be there.
    Stalls,
    /// The coordinator takes 544 MiB and never gives them back.
    Leak,
}

/// A store that lies.
#[derive(Debug)]
struct Liar {
    store: Arc<dyn Store>,
    bug: Bug,
    appended: AtomicU64,
    /// What records were like when they were first read.
    first: Mutex<HashMap<(Space, Key), Record>>,
    leak: Mutex<Vec<u8>>,
    last_inbox_entry: Mutex<Option<Bytes>>,
}

impl Liar {
    fn is_its_turn(&self) -> bool {
        self.appended.fetch_add(1, Ordering::Relaxed) % 40 == 39
    }

    /// Makes a transaction what the bug makes of it.
    fn bend(&self, txn: &Txn) -> Txn {
        let mut txn = txn.clone();
        match self.bug {
            Bug::NoLedger => {
                txn.checks.retain(|check| !matches!(check, Check::Unseen { .. }));
                txn.writes.retain(|write| !matches!(write, Write::Remember { .. }));
            }
            Bug::NoClaimCheck => txn.checks.retain(
                |check| !matches!(check, Check::Version { key, .. } if key.kind == "board" || key.kind == "task"),
            ),
            Bug::ShortLeases => {
                for write in &mut txn.writes {
                    if let Write::Lease { ttl, .. } = write {
                        *ttl = Duration::from_millis(1);
                    }
                }
            }
            Bug::TrimmedInbox => {
                for write in &mut txn.writes {
                    let Write::Append { stream, .. } = write else { continue };
                    if stream.starts_with("inbox/m") && self.is_its_turn() {
                        *stream = "nowhere".to_owned();
                    }
                }
            }
            Bug::SwappedEntries => {
                for write in &mut txn.writes {
                    let Write::Append { stream, data, .. } = write else { continue };
                    if stream.starts_with("inbox/") {
                        let other = self.last_inbox_entry.lock().unwrap().replace(data.clone());
                        if let Some(other) = other.filter(|_| self.is_its_turn()) {
                            *data = other;
                        }
                    }
                }
            }
            _ => {}
        }
        txn
    }
}

#[async_trait]
impl Store for Liar {
    async fn read(&self, space: &Space, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let mut records = self.store.read(space, keys).await?;
        if self.bug == Bug::NoFence {
            let mut first = self.first.lock().unwrap();
            for (key, record) in keys.iter().zip(&mut records) {
                if let Some(record) = record.as_mut().filter(|_| key.kind == "session") {
                    let first = first.entry((space.clone(), key.clone())).or_insert_with(|| record.clone());
                    // With the version that holds, or no commit would succeed.
                    record.data = first.data.clone();
                }
            }
        }
        Ok(records)
    }

    async fn scan(
        &self,
        space: &Space,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        self.store.scan(space, kind, after, limit).await
    }

    async fn range(&self, space: &Space, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        self.store.range(space, stream, range).await
    }

    async fn extents(&self, space: &Space, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.store.extents(space, streams).await
    }

    async fn leases(&self, space: &Space) -> Result<Leases, StoreError> {
        self.store.leases(space).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        self.store.now_ms().await
    }

    async fn commit(&self, space: &Space, txn: &Txn) -> Result<Outcome, StoreError> {
        let sends = txn
            .writes
            .iter()
            .any(|write| matches!(write, Write::Append { stream, .. } if stream.starts_with("inbox/m")));
        match self.bug {
            Bug::SilentLoss if sends && self.is_its_turn() => {
                let at_ms = self.store.now_ms().await?;
                let appended = txn.writes.iter().filter(|write| matches!(write, Write::Append { .. })).map(|_| None);
                let durability = Durability::Applied;
                let commit = Commit { version: 1, at_ms, durability, appended: appended.collect(), removed: 0 };
                return Ok(Outcome::Committed(commit));
            }
            Bug::Stalls if sends && self.is_its_turn() => sleep(Duration::from_secs(6)).await,
            Bug::Leak => self.leak.lock().unwrap().resize(544 << 20, 1),
            _ => {}
        }
        self.store.commit(space, &self.bend(txn)).await
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.store.hints()
    }
}

/// Has members work on a store with a bug for a while, and returns which promises were not kept.
async fn broken(bug: Bug) -> Vec<Promise> {
    let directory = tempfile::tempdir().unwrap();
    let store = store::open("memory:").await.unwrap();
    let liar = Liar {
        store,
        bug,
        appended: AtomicU64::new(0),
        first: Mutex::default(),
        leak: Mutex::default(),
        last_inbox_entry: Mutex::default(),
    };
    let liar = Arc::new(liar);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(format!("http://{}", listener.local_addr().unwrap()));
        let listeners = Listeners { protocol: listener, health: None };
        let liar: Arc<dyn Store> = Arc::clone(&liar) as _;
        let mut config = server::Config::new(SECRET);
        if bug == Bug::ShortLeases {
            // Or it would take until somebody may be taken for lost at all.
            (config.limits.lease_ttl, config.limits.lost_grace) = (Duration::from_secs(1), Duration::ZERO);
            config.pace.heartbeat_interval = Duration::from_millis(200);
        }
        tokio::spawn(server::run(config, liar, listeners, stop.clone()));
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
    for member in ["m1", "m2", "m3"] {
        let invite = v1::InviteRequest { member: member.to_owned(), ..Default::default() };
        let token = lead.invite(invite).await.unwrap().join_token;
        let joined = stranger.with_credential(&token).unwrap().join(v1::JoinRequest::default()).await.unwrap();
        configs.push(worker::Config {
            directory: directory.path().to_owned(),
            member: member.to_owned(),
            process: 1,
            seed: 7,
            address: address.clone(),
            credential: joined.credential,
            others: ["m1", "m2", "m3"].into_iter().filter(|other| *other != member).map(str::to_owned).collect(),
        });
    }
    for config in &configs {
        workers.spawn(worker::run(config.clone()));
    }
    let mut inbox = lead.with_credential(&created.credential).unwrap().subscribe(SubscribeOptions::default());
    workers.spawn(async move {
        while let Some(Ok(event)) = inbox.next().await {
            if let Event::Delivery(delivery) = event {
                delivery.ack();
            }
        }
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
            let peak_bytes = stage::peak_bytes(std::process::id()).unwrap();
            note.note(What::Memory { coordinator: 1, peak_bytes });
        }
        _ => {}
    }
    teamwire_proof::stock::take(&lead, &note).await.unwrap();
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
async fn a_ledger_that_forgets_is_found() {
    assert_eq!(broken(Bug::NoLedger).await, [Promise::NothingDoubled]);
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
