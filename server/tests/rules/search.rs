//! Searches of long histories: each call is bounded in work, and following the pages covers everything once.

use std::sync::Arc;

use prost::Message as _;
use teamwire_proto::{
    name::Name,
    v1::{self, history_entry::Event},
};
use teamwire_server::{
    coordinator::{
        Coordinator,
        history::{HistoryPage, HistoryQuery},
    },
    domain::{Limits, streams::HISTORY},
    store::{Namespace, Outcome, Store, Txn, Write, embedded::EmbeddedStore, redis::RedisStore},
};

use crate::{
    counting::{Counting, counted},
    team::*,
    test_redis::TestRedis,
};

/// How many entries a call looks through at most, and how many bytes of them.
const ENTRIES_MAX: u64 = 10_000;
const BYTES_MAX: usize = 16 << 20;

/// How many entries a call reads at once at least.
const CHUNK_MIN: usize = 110;

#[tokio::test]
async fn a_search_looks_through_10_000_entries_a_call_and_its_pages_cover_the_history_once() {
    let last = 2 * ENTRIES_MAX + 5_000;
    let is_wanted = |n: u64| n.is_multiple_of(4_999);
    let detail = |n: u64| format!("{} {n}", if is_wanted(n) { "A Needle" } else { "hay" });
    on_each_store(last, detail, async |history| {
        for newest in [false, true] {
            let pages = history.search("no such words", newest).await;
            assert_eq!(pages.len(), 3);
            for page in &pages {
                assert!(page.entries.is_empty());
                assert!(page.looked_to - page.looked_from < ENTRIES_MAX);
            }
            let found = history.search("a nEEDLE", newest).await;
            let mut found: Vec<u64> = found.iter().flat_map(|page| &page.entries).map(number).collect();
            found.sort_unstable();
            assert_eq!(found, (1..=last).filter(|n| is_wanted(*n)).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test]
async fn a_search_looks_through_16_mib_a_call_and_its_pages_cover_the_history_once() {
    const EACH: usize = 64 * 1024;
    let last = (2 * BYTES_MAX / EACH + 40) as u64;
    let detail = |n: u64| format!("{}{n}", "0".repeat(EACH));
    on_each_store(last, detail, async |history| {
        for newest in [false, true] {
            let pages = history.search("no such words", newest).await;
            assert_eq!(pages.len(), 3);
            for page in &pages {
                let entries = usize::try_from(page.looked_to - page.looked_from + 1).unwrap();
                // The history begins with two small entries, and a page includes the entry that goes beyond the bound.
                assert!(page.entries.is_empty() && (entries - 3) * EACH <= BYTES_MAX, "{entries}");
            }
            let found = history.search(&format!("0{last}"), newest).await;
            assert_eq!(found.iter().flat_map(|page| &page.entries).map(number).collect::<Vec<_>>(), [last]);
        }
    })
    .await;
}

/// A long history.
struct History {
    coordinator: Arc<Coordinator>,
}

/// Runs a test on each store, with a history that ends with this many entries of these details.
async fn on_each_store(last: u64, detail: impl Fn(u64) -> String, test: impl AsyncFn(&History)) {
    let server = TestRedis::start();
    let mut stores: Vec<Arc<dyn Store>> = vec![EmbeddedStore::in_memory().unwrap()];
    if let Some(server) = &server {
        stores.push(RedisStore::connect(&server.url(), "test").await.unwrap());
    }
    for store in stores {
        let coordinator = coordinator(Arc::new(Counting(Arc::clone(&store))), Limits::default()).await;
        coordinator.create_team(&operator(), &create("alpha")).await.unwrap();
        // Calls that say so much would take minutes.
        let appended: Vec<Write> = (1..=last).map(|n| append(n, detail(n))).collect();
        for writes in appended.chunks(200) {
            let txn = Txn { writes: writes.to_vec(), ..Txn::default() };
            assert!(matches!(store.commit(&alpha(), &txn).await.unwrap(), Outcome::Committed(_)));
        }
        test(&History { coordinator }).await;
    }
}

fn append(number: u64, detail: String) -> Write {
    // The incarnation is the number of the entry.
    let event = v1::MemberEvent { member: "bob".to_owned(), incarnation: number, detail, ..Default::default() };
    let entry = v1::HistoryEntry { event: Some(Event::Member(event)), ..Default::default() };
    Write::Append { stream: HISTORY.to_owned(), data: entry.encode_to_vec().into(), weight: 0, bound: None }
}

fn number(entry: &v1::HistoryEntry) -> u64 {
    let Some(Event::Member(event)) = &entry.event else { panic!("{entry:?}") };
    event.incarnation
}

impl History {
    /// Searches the history through all pages, which must cover it without a gap and without overlap.
    async fn search(&self, text: &str, newest: bool) -> Vec<HistoryPage> {
        let filter = Some(v1::HistoryFilter { text: text.to_owned(), ..Default::default() });
        let mut query = HistoryQuery { filter, limit: 100, newest, ..Default::default() };
        let mut pages: Vec<HistoryPage> = Vec::new();
        loop {
            let (page, trips) = counted(self.coordinator.history(&operator(), "alpha", &query)).await;
            let page = page.unwrap();
            assert!(trips <= usize::try_from(ENTRIES_MAX).unwrap() / CHUNK_MIN + 2, "{trips}");
            if let Some(before) = pages.last() {
                let (earlier, later) = if newest { (&page, before) } else { (before, &page) };
                assert_eq!(earlier.looked_to + 1, later.looked_from);
            }
            match newest {
                true => query.before = Some(page.looked_from),
                false => query.after = page.looked_to,
            }
            let has_more = page.more;
            pages.push(page);
            if !has_more {
                break;
            }
        }
        let (first, last) = if newest { (pages.last(), pages.first()) } else { (pages.first(), pages.last()) };
        assert_eq!(first.unwrap().looked_from, 1);
        assert_eq!(Some(last.unwrap().looked_to), self.coordinator.history_end(&alpha()).await.ok());
        pages
    }
}

fn alpha() -> Namespace {
    Namespace::team(&Name::parse("alpha", "name").unwrap())
}
