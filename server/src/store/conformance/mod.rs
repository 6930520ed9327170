//! The store contract as tests. Every backend runs all of them; see [`for_each_promise`] and [`every_promise`].

#![allow(clippy::unwrap_used)]

mod exports;
mod leases;
mod namespaces;
mod records;
mod streams;
mod transactions;
mod usage;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use teamwire_proto::name::Name;

use super::{
    Bound, Check, Commit, Entry, Extent, Failed, Key, Namespace, Notification, Outcome, Range, Record, Store, Txn,
    WhenFull, Write,
};

pub(super) use self::{exports::*, leases::*, namespaces::*, records::*, streams::*, transactions::*, usage::*};

/// A store under test.
pub(super) struct Harness {
    pub(super) store: Arc<dyn Store>,
    /// A second handle to the same data, as another coordinator has. The same handle if the backend allows only one.
    pub(super) second: Arc<dyn Store>,
    /// Lists the backend's own keys for a namespace.
    pub(super) raw_keys: Box<dyn Fn(Namespace) -> BoxFuture<'static, Vec<String>> + Send + Sync>,
    /// Whatever must outlive the store, such as its server.
    pub(super) _keeps: Box<dyn std::any::Any + Send + Sync>,
}

/// Passes the names of all promises to a macro, after its other arguments.
macro_rules! with_promises {
    ($macro:ident! $($first:tt)*) => {
        $crate::store::conformance::$macro! { $($first)*
            commit_reports_the_first_failed_check
            failed_version_check_returns_the_current_record
            refused_transaction_changes_nothing
            writes_apply_in_order
            every_record_of_a_commit_gets_its_version
            versions_are_never_reused
            read_returns_records_in_key_order
            scan_returns_records_in_id_order
            sequences_are_dense_and_start_at_one
            sequences_are_never_reused
            full_stream_refuses_the_whole_transaction
            full_stream_skips_only_that_append
            weight_is_bounded_and_removal_frees_it
            bounds_count_earlier_writes_of_the_same_transaction
            removing_what_does_not_exist_is_harmless
            one_commit_can_remove_thousands_of_entries
            range_reads_in_both_directions_within_its_bounds
            unused_stream_has_an_empty_extent
            used_idempotency_key_returns_the_remembered_reply
            lease_is_alive_until_it_expires_or_is_ended
            leases_include_expired_ones_but_not_ended_ones
            dropping_a_namespace_leaves_nothing_behind
            namespaces_are_isolated
            notifications_reach_every_subscriber
            data_can_be_any_bytes
            names_can_contain_any_visible_character
            clock_never_goes_backwards
            concurrent_commits_are_never_lost
            concurrent_appends_get_distinct_sequences
            read_sees_every_acknowledged_commit
            skipped_sequences_are_never_used
            raised_version_and_clock_never_go_back
            version_differs_once_anything_but_leases_has_changed
            export_shows_everything
            export_shows_one_instant_of_each_namespace
            abandoned_export_ends_and_leaves_nothing_behind
            backup_of_any_store_is_restored_into_it
            backup_of_it_is_restored_into_any_store
            usage_counts_records_entries_and_replies
            usage_counts_what_is_left_after_all_writes
            quota_refuses_only_what_adds_beyond_it
            quota_is_evaluated_last_and_refuses_the_whole_transaction
            concurrent_commits_never_exceed_the_quota
        }
    };
}
pub(super) use with_promises;

/// Makes one test per promise, on the harness that the async function `$open` returns. `None` skips the test.
macro_rules! for_each_promise {
    ($open:path) => {
        $crate::store::conformance::with_promises! { promises_apart! $open: }
    };
}
pub(super) use for_each_promise;

/// Checks all promises one after the other, for backends that take long to start. `$open` makes a harness from each
/// promise's name. Use it in an async function.
macro_rules! every_promise {
    ($open:expr) => {
        $crate::store::conformance::with_promises! { promises_in_turn! $open; }
    };
}
pub(super) use every_promise;

macro_rules! promises_apart {
    ($open:path: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                if let Some(harness) = $open().await {
                    $crate::store::conformance::$promise(harness).await;
                }
            }
        )*
    };
}
pub(super) use promises_apart;

macro_rules! promises_in_turn {
    ($open:expr; $($promise:ident)*) => {
        $(
            // Names the promise if the test fails.
            println!("{}", stringify!($promise));
            $crate::store::conformance::$promise($open(stringify!($promise)).await).await;
        )*
    };
}
pub(super) use promises_in_turn;

pub(super) fn namespace(name: &str) -> Namespace {
    Namespace::team(&Name::parse(name, "name").unwrap())
}

pub(super) fn put(key: &Key, data: &'static str) -> Write {
    Write::Put { key: key.clone(), data: Bytes::from_static(data.as_bytes()) }
}

pub(super) fn delete(key: &Key) -> Write {
    Write::Delete { key: key.clone() }
}

pub(super) fn append(stream: &str, data: &'static str) -> Write {
    weighed(stream, data, 1, None)
}

pub(super) fn weighed(stream: &str, data: &'static str, weight: u64, bound: Option<Bound>) -> Write {
    Write::Append { stream: stream.to_owned(), data: Bytes::from_static(data.as_bytes()), weight, bound }
}

pub(super) fn remove(stream: &str, sequences: &[u64]) -> Write {
    Write::Remove { stream: stream.to_owned(), sequences: sequences.to_vec() }
}

pub(super) fn remember(key: &str, data: &'static str) -> Write {
    Write::RememberReply { key: key.to_owned(), data: Bytes::from_static(data.as_bytes()) }
}

fn lease(name: &str, ttl: Duration) -> Write {
    Write::Lease { name: name.to_owned(), ttl }
}

fn notification(topic: &str) -> Write {
    Write::Notify { topic: topic.to_owned(), by: 7 }
}

fn at(key: &Key, version: Option<u64>) -> Check {
    Check::Version { key: key.clone(), version }
}

fn key_unused(key: &str) -> Check {
    Check::KeyUnused { key: key.to_owned() }
}

fn lease_alive(name: &str, alive: bool) -> Check {
    Check::Lease { name: name.to_owned(), alive }
}

fn bound(entries_max: u64, weight_max: u64, when_full: WhenFull) -> Option<Bound> {
    Some(Bound { entries_max, weight_max, when_full })
}

const LONG: Duration = Duration::from_secs(600);

impl Harness {
    async fn commit(&self, namespace: &Namespace, writes: Vec<Write>) -> Commit {
        self.commit_if(namespace, vec![], writes).await
    }

    async fn commit_if(&self, namespace: &Namespace, checks: Vec<Check>, writes: Vec<Write>) -> Commit {
        match self.store.commit(namespace, &Txn { checks, writes, ..Txn::default() }).await.unwrap() {
            Outcome::Committed(commit) => commit,
            Outcome::Refused(failed) => panic!("refused: {failed:?}"),
        }
    }

    async fn refused(&self, namespace: &Namespace, checks: Vec<Check>, writes: Vec<Write>) -> Failed {
        match self.store.commit(namespace, &Txn { checks, writes, ..Txn::default() }).await.unwrap() {
            Outcome::Refused(failed) => failed,
            Outcome::Committed(commit) => panic!("committed: {commit:?}"),
        }
    }

    async fn read(&self, namespace: &Namespace, key: &Key) -> Option<Record> {
        self.store.read(namespace, std::slice::from_ref(key)).await.unwrap().remove(0)
    }

    async fn entries(&self, namespace: &Namespace, stream: &str) -> Vec<(u64, Bytes)> {
        let entries = self.store.range(namespace, stream, Range::after(0, 10_000)).await.unwrap();
        entries.into_iter().map(|entry| (entry.sequence, entry.data)).collect()
    }

    async fn extent(&self, namespace: &Namespace, stream: &str) -> Extent {
        self.store.extents(namespace, &[stream.to_owned()]).await.unwrap()[0]
    }

    /// Waits until the store's clock has passed `ms`.
    async fn clock_passes(&self, ms: u64) {
        while self.store.now_ms().await.unwrap() <= ms {
            tokio::task::yield_now().await;
        }
    }

    /// Returns everything that can be read from a namespace.
    async fn everything(
        &self,
        namespace: &Namespace,
        kinds: &[&'static str],
        streams: &[&str],
    ) -> impl PartialEq + std::fmt::Debug {
        let mut records = Vec::new();
        for kind in kinds {
            records.extend(self.store.scan(namespace, kind, "", 10_000).await.unwrap());
        }
        let mut entries = Vec::new();
        for stream in streams {
            entries.push((self.extent(namespace, stream).await, self.entries(namespace, stream).await));
        }
        (records, entries, self.store.leases(namespace).await.unwrap().until_ms)
    }
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
