//! Differential test: every other store must give the same answers as the embedded one to the same random transactions
//! and reads.
//!
//! Each store makes its own versions, so they are compared by the order of their first appearance. Clocks and
//! durability are not compared. The seed is fixed; `TEAMWIRE_SEED` overrides it, and `PROPTEST_CASES` overrides the
//! number of cases.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::{
    Bound, Check, Failed, Key, Namespace, Outcome, Range, Record, Store, Txn, WhenFull, Write,
    conformance::namespace,
    embedded::EmbeddedStore,
    model::ModelStore,
    redis::RedisStore,
    test_redis::{Flavor, TestCluster, TestRedis},
};

const KINDS: [&str; 2] = ["member", "task"];
const IDS: [&str; 4] = ["a", "b", "a/b", "~"];
const STREAMS: [&str; 3] = ["s", "inbox/x", "t"];
const SPACES: usize = 2;

/// The default number of cases.
const CASES: u32 = 256;

#[derive(Clone, Debug)]
enum Step {
    /// Commits transactions at the same time. A store executes them in the order in which they come.
    Commit {
        namespace: usize,
        txns: Vec<WantedTxn>,
    },
    Read {
        namespace: usize,
        keys: Vec<Key>,
    },
    Scan {
        namespace: usize,
        kind: &'static str,
        after: &'static str,
        limit: usize,
    },
    Range {
        namespace: usize,
        stream: &'static str,
        range: Range,
    },
}

#[derive(Clone, Debug, Default)]
struct WantedTxn {
    checks: Vec<Wanted>,
    writes: Vec<Write>,
    bytes_max: Option<u64>,
    drop: bool,
}

#[derive(Clone, Debug)]
enum Wanted {
    Check(Check),
    /// The record has its current version.
    Current(Key),
    /// The record has a version that appeared before.
    Old(Key, usize),
}

/// A store's answer, with ordinals for versions.
#[derive(Debug, PartialEq)]
enum Answer {
    Committed { version: Option<u64>, appended: Vec<Option<u64>>, removed: u64 },
    Refused(Failed),
    Records(Vec<Option<Record>>),
    Scanned(Vec<(String, Record)>),
    Entries(Vec<super::Entry>),
    Rest(Vec<super::Extent>, Vec<String>, u64),
    All(Vec<Answer>),
}

fn keys() -> impl Strategy<Value = Key> {
    (select(&KINDS[..]), select(&IDS[..])).prop_map(|(kind, id)| Key::new(kind, id))
}

fn names() -> impl Strategy<Value = String> {
    select(&IDS[..]).prop_map(str::to_owned)
}

fn streams() -> impl Strategy<Value = String> {
    select(&STREAMS[..]).prop_map(str::to_owned)
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..12).prop_map(Bytes::from)
}

fn bounds() -> impl Strategy<Value = Bound> {
    let when_full = select(&[WhenFull::Refuse, WhenFull::Skip, WhenFull::Skip][..]);
    let weight_max = prop_oneof![0..20_u64, Just(u64::MAX)];
    (0..8_u64, weight_max, when_full).prop_map(|(entries_max, weight_max, when_full)| Bound {
        entries_max,
        weight_max,
        when_full,
    })
}

fn checks() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        1 => keys().prop_map(|key| Wanted::Check(Check::Version { key, version: None })),
        4 => keys().prop_map(Wanted::Current),
        1 => (keys(), any::<usize>()).prop_map(|(key, pick)| Wanted::Old(key, pick)),
        1 => names().prop_map(|key| Wanted::Check(Check::KeyUnused { key })),
        1 => (names(), any::<bool>()).prop_map(|(name, alive)| Wanted::Check(Check::Lease { name, alive })),
    ]
}

fn writes() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => (keys(), data()).prop_map(|(key, data)| Write::Put { key, data }),
        2 => keys().prop_map(|key| Write::Delete { key }),
        6 => (streams(), data(), 0..6_u64, option::of(bounds()))
            .prop_map(|(stream, data, weight, bound)| Write::Append { stream, data, weight, bound }),
        4 => (streams(), vec(prop_oneof![8 => 0..12_u64, 1 => Just(u64::MAX)], 0..6))
            .prop_map(|(stream, sequences)| Write::Remove { stream, sequences }),
        1 => (streams(), 0..12_u64).prop_map(|(stream, next)| Write::SkipTo { stream, next }),
        1 => (names(), data()).prop_map(|(key, data)| Write::RememberReply { key, data }),
        1 => names().prop_map(|name| Write::Lease { name, ttl: Duration::from_secs(3_600) }),
        1 => names().prop_map(|name| Write::EndLease { name }),
        1 => (names(), any::<u64>()).prop_map(|(topic, by)| Write::Notify { topic, by }),
    ]
}

fn ranges() -> impl Strategy<Value = Range> {
    (0..12_u64, prop_oneof![0..12_u64, Just(u64::MAX)], 0..6_usize, any::<bool>())
        .prop_map(|(first, last, limit, newest_first)| Range { first, last, limit, newest_first })
}

fn txns() -> impl Strategy<Value = WantedTxn> {
    let bytes_max = option::weighted(0.3, 0..1_500_u64);
    (vec(checks(), 0..3), vec(writes(), 0..6), bytes_max, prop::bool::weighted(0.05))
        .prop_map(|(checks, writes, bytes_max, drop)| WantedTxn { checks, writes, bytes_max, drop })
}

fn steps() -> impl Strategy<Value = Step> {
    let namespaces = 0..SPACES;
    prop_oneof![
        4 => (namespaces.clone(), txns()).prop_map(|(namespace, txn)| Step::Commit { namespace, txns: vec![txn] }),
        2 => (namespaces.clone(), vec(txns(), 2..8)).prop_map(|(namespace, txns)| Step::Commit { namespace, txns }),
        1 => (namespaces.clone(), vec(keys(), 0..6)).prop_map(|(namespace, keys)| Step::Read { namespace, keys }),
        1 => (namespaces.clone(), select(&KINDS[..]), select(&["", "a", "aa", "~"][..]), 0..4_usize)
            .prop_map(|(namespace, kind, after, limit)| Step::Scan { namespace, kind, after, limit }),
        1 => (namespaces, select(&STREAMS[..]), ranges())
            .prop_map(|(namespace, stream, range)| Step::Range { namespace, stream, range }),
    ]
}

/// A store, and its versions in the order of their appearance.
struct Side {
    store: Arc<dyn Store>,
    seen: Vec<u64>,
    ordinals: HashMap<u64, u64>,
}

impl Side {
    fn new(store: Arc<dyn Store>) -> Self {
        Self { store, seen: Vec::new(), ordinals: HashMap::new() }
    }

    fn ordinal(&mut self, version: u64) -> u64 {
        *self.ordinals.entry(version).or_insert_with(|| {
            self.seen.push(version);
            self.seen.len() as u64
        })
    }

    fn renamed(&mut self, record: Record) -> Record {
        Record { version: self.ordinal(record.version), data: record.data }
    }

    async fn check(&self, namespace: &Namespace, wanted: &Wanted) -> Check {
        match wanted {
            Wanted::Check(check) => check.clone(),
            Wanted::Current(key) => {
                let read = self.store.read(namespace, std::slice::from_ref(key)).await.unwrap().remove(0);
                Check::Version { key: key.clone(), version: read.map(|record| record.version) }
            }
            Wanted::Old(key, pick) => {
                let version = (!self.seen.is_empty()).then(|| self.seen[pick % self.seen.len()]);
                Check::Version { key: key.clone(), version }
            }
        }
    }

    async fn answer(&mut self, namespaces: &[Namespace], step: &Step) -> Answer {
        match step {
            Step::Commit { namespace, txns } => self.commit(&namespaces[*namespace], txns).await,
            Step::Read { namespace, keys } => {
                let records = self.store.read(&namespaces[*namespace], keys).await.unwrap();
                let renamed = records.into_iter().map(|record| record.map(|record| self.renamed(record)));
                Answer::Records(renamed.collect())
            }
            Step::Scan { namespace, kind, after, limit } => {
                let scanned = self.store.scan(&namespaces[*namespace], kind, after, *limit).await.unwrap();
                Answer::Scanned(scanned.into_iter().map(|(id, record)| (id, self.renamed(record))).collect())
            }
            Step::Range { namespace, stream, range } => {
                Answer::Entries(self.store.range(&namespaces[*namespace], stream, *range).await.unwrap())
            }
        }
    }

    async fn commit(&mut self, namespace: &Namespace, wanted: &[WantedTxn]) -> Answer {
        let mut txns = Vec::new();
        for wanted in wanted {
            txns.push(self.txn(namespace, wanted).await);
        }
        let outcomes = join_all(txns.iter().map(|txn| self.store.commit(namespace, txn))).await;
        let answers = txns.iter().zip(outcomes).map(|(txn, outcome)| self.outcome(txn, outcome.unwrap()));
        Answer::All(answers.collect())
    }

    async fn txn(&self, namespace: &Namespace, wanted: &WantedTxn) -> Txn {
        let mut txn = Txn { bytes_max: wanted.bytes_max, ..Txn::default() };
        for wanted in &wanted.checks {
            txn.checks.push(self.check(namespace, wanted).await);
        }
        for write in &wanted.writes {
            if let Write::RememberReply { key, .. } = write {
                let check = Check::KeyUnused { key: key.clone() };
                // A transaction uses a key once.
                if txn.writes.iter().any(|write| matches!(write, Write::RememberReply { key: used, .. } if used == key))
                {
                    continue;
                }
                txn.checks.push(check);
            }
            txn.writes.push(write.clone());
        }
        if wanted.drop {
            txn.writes.push(Write::DropNamespace);
        }
        txn
    }

    fn outcome(&mut self, txn: &Txn, outcome: Outcome) -> Answer {
        match outcome {
            Outcome::Committed(commit) => Answer::Committed {
                // The version matters only if a record was put.
                version: txn
                    .writes
                    .iter()
                    .any(|write| matches!(write, Write::Put { .. }))
                    .then(|| self.ordinal(commit.version)),
                appended: commit.appended,
                removed: commit.removed,
            },
            Outcome::Refused(Failed::Version { key, current }) => {
                Answer::Refused(Failed::Version { key, current: current.map(|record| self.renamed(record)) })
            }
            Outcome::Refused(failed) => Answer::Refused(failed),
        }
    }

    /// Returns everything that a namespace holds.
    async fn everything(&mut self, namespaces: &[Namespace], namespace: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        for kind in KINDS {
            answers.push(self.answer(namespaces, &Step::Scan { namespace, kind, after: "", limit: 100 }).await);
        }
        for stream in STREAMS {
            answers
                .push(self.answer(namespaces, &Step::Range { namespace, stream, range: Range::after(0, 1_000) }).await);
        }
        let extents = self.store.extents(&namespaces[namespace], &STREAMS.map(str::to_owned)).await.unwrap();
        let leases = self.store.leases(&namespaces[namespace]).await.unwrap().until_ms;
        let usage = self.store.usage(&namespaces[namespace]).await.unwrap();
        answers.push(Answer::Rest(extents, leases.into_keys().collect(), usage));
        answers
    }
}

async fn compare(sides: &mut [Side; 2], case: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let namespaces: Vec<Namespace> = (0..SPACES).map(|index| namespace(&format!("case{case}-{index}"))).collect();
    let [left, right] = sides;
    for (at, step) in steps.iter().enumerate() {
        let (answer, other) = (left.answer(&namespaces, step).await, right.answer(&namespaces, step).await);
        prop_assert_eq!(answer, other, "step {}: {:?}", at, step);
    }
    for index in 0..SPACES {
        let (all, other) = (left.everything(&namespaces, index).await, right.everything(&namespaces, index).await);
        prop_assert_eq!(all, other, "in the end, namespace {}", index);
        // Free the memory, so that it does not grow with the number of cases.
        let drop = Step::Commit { namespace: index, txns: vec![WantedTxn { drop: true, ..WantedTxn::default() }] };
        prop_assert_eq!(left.answer(&namespaces, &drop).await, right.answer(&namespaces, &drop).await);
    }
    Ok(())
}

#[test]
fn redis_answers_like_the_embedded_store() {
    let Some(server) = TestRedis::start() else { return };
    alike(async || RedisStore::connect(&server.url(), "test").await.unwrap(), CASES);
}

/// What is in memory, being written to the file, and in the file, is one store.
#[test]
fn a_store_that_always_makes_checkpoints_answers_like_one_that_makes_none() {
    let directory = tempfile::tempdir().unwrap();
    alike(async || EmbeddedStore::with_small_log(&directory.path().join("store")), CASES / 4);
}

#[test]
fn the_model_answers_like_the_embedded_store() {
    alike(async || ModelStore::new(), CASES / 4);
}

#[test]
fn valkey_answers_like_the_embedded_store() {
    let Some(server) = TestRedis::start_of(Flavor::Valkey) else { return };
    alike(async || RedisStore::connect(&server.url(), "test").await.unwrap(), CASES / 4);
}

#[test]
fn a_cluster_answers_like_the_embedded_store() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(cluster) = runtime.block_on(TestCluster::start()) else { return };
    alike(async || RedisStore::connect(&cluster.url(), "test").await.unwrap(), CASES / 4);
}

fn alike<S: Store>(open: impl AsyncFnOnce() -> Arc<S>, cases: u32) {
    let seed = std::env::var("TEAMWIRE_SEED").map_or(7, |seed| seed.parse::<u64>().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let other = runtime.block_on(open());
    let embedded = EmbeddedStore::in_memory().unwrap();
    let case = std::cell::Cell::new(0);
    let result = runner.run(&vec(steps(), 1..40), |steps| {
        case.set(case.get() + 1);
        let mut sides = [Side::new(embedded.clone()), Side::new(other.clone())];
        runtime.block_on(compare(&mut sides, case.get(), &steps))
    });
    if let Err(error) = result {
        panic!("with TEAMWIRE_SEED={seed}: {error}");
    }
}
