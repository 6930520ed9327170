//! Every number of a coordinator, with its name and help text.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};
use teamwire_proto::{Kind, Reason, Refusal, v1};

use super::{decisions::Decisions, usage::Usage};
use crate::{
    domain::{
        dead_letters::Undeliverable,
        quota::{ALARM_PERCENT, FULL_PERCENT},
    },
    store::Failed,
};

/// The bounds of all histograms of time, in seconds.
const BUCKETS_S: [f64; 13] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The states of members that are counted, as the roster has them.
pub const MEMBER_STATES: [&str; 6] = ["live", "lost", "stopping", "exited", "away", "spawning"];

/// The states of hosts that are counted.
pub const HOST_STATES: [&str; 3] = ["live", "lost", "exited"];

/// What the slots of live hosts are.
pub const SLOT_STATES: [&str; 2] = ["taken", "free"];

/// Where the tasks are that are counted: the places of the board, without those that are closed.
pub const TASK_STATUSES: [&str; 5] = ["ready", "assigned", "blocked", "in_progress", "in_review"];

/// How full teams are counted: the label, and from how many percent of the quota.
pub const QUOTA_LEVELS: [(&str, u64); 2] = [("near", ALARM_PERCENT), ("full", FULL_PERCENT)];

/// The operations of a store that are timed.
pub(super) const STORE_OPERATIONS: [&str; 9] =
    ["read", "scan", "range", "extents", "leases", "usage", "version", "now", "commit"];

/// One label.
pub type Label = [(&'static str, &'static str); 1];

/// Two labels.
pub type Labels = [(&'static str, &'static str); 2];

/// A family of histograms of time.
type Times<L> = Family<L, Histogram, fn() -> Histogram>;

fn time() -> Histogram {
    Histogram::new(BUCKETS_S)
}

/// Every number of a coordinator, counted from its start.
pub struct Metrics {
    registry: Registry,
    pub(super) is_watched: AtomicBool,
    names_teams: AtomicBool,
    /// Sends, by type and outcome.
    sends: Family<Labels, Counter>,
    /// How long sends took.
    send_seconds: Histogram,
    /// Messages handed to sessions.
    pub(crate) deliveries: Counter,
    /// Messages handed to sessions that an earlier session may have delivered.
    pub(crate) redeliveries: Counter,
    /// Messages acknowledged.
    pub(crate) acks: Counter,
    /// Messages moved to the dead letters, by cause.
    dead_letters: Family<Label, Counter>,
    /// How requests end.
    pub(crate) decisions: Decisions,
    /// What members have reported of their models.
    pub(crate) usage: Usage,
    /// Transactions that the store refused, by the check that failed.
    commit_conflicts: Family<Label, Counter>,
    /// Rules run again, by cause.
    decide_reruns: Family<Label, Counter>,
    /// Calls by method and code.
    pub(crate) rpc_seconds: Times<Labels>,
    /// Calls refused, by reason.
    pub(crate) refusals: Family<Label, Counter>,
    /// Calls refused and connections closed because of a budget, by its class.
    pub(crate) budget_refusals: Family<Label, Counter>,
    /// Connections that are open.
    pub(crate) connections: Gauge,
    /// Sessions that are open.
    sessions: Gauge,
    /// How long the store took, by operation.
    pub(super) store_seconds: Times<Label>,
    /// Failures of the store, by operation and kind.
    pub(super) store_errors: Family<Labels, Counter>,
    /// Attempts to notify people, by the kind of receiver and the outcome.
    notifications: Family<Labels, Counter>,
    /// Times that the store was found to have lost acknowledged commits.
    pub lost_writes: Counter,
    /// Entries of the audit log that could not be written.
    pub audit_entries_lost: Counter,
    /// 1 while the store answers.
    pub(crate) store_up: Gauge,
    /// 1 while the store takes writes, 0 while it does not.
    pub(crate) store_writable: Gauge,
    pub(crate) teams: Gauge,
    pub(crate) members: Family<Label, Gauge>,
    pub(crate) tasks: Family<Label, Gauge>,
    /// The tasks of each team, if the metrics may name teams.
    team_tasks: Family<[(&'static str, String); 2], Gauge>,
    pub(crate) hosts: Family<Label, Gauge>,
    pub(crate) host_slots: Family<Label, Gauge>,
    pub(crate) inbox_messages: Gauge<u64, AtomicU64>,
    pub(crate) inbox_messages_max: Gauge<u64, AtomicU64>,
    pub(crate) inbox_bytes: Gauge<u64, AtomicU64>,
    pub(crate) team_bytes: Gauge<u64, AtomicU64>,
    pub(crate) team_quota_percent_max: Gauge<u64, AtomicU64>,
    pub(crate) teams_by_quota: Family<Label, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Metrics {
    /// Creates the numbers of a coordinator. `usage_members_max`: how many members have their own series of usage, with
    /// their names; 0: none.
    pub fn new(usage_members_max: usize) -> Self {
        let usage = Usage::new(usage_members_max);
        let mut registry = Registry::with_prefix("teamwire");
        usage.register(&mut registry);
        let decisions = Decisions::new(&mut registry);
        let mut add = Adding(&mut registry);
        let metrics = Self {
            is_watched: AtomicBool::new(false),
            names_teams: AtomicBool::new(false),
            sends: add.plain("sends", "Sends by type and outcome: ok, replayed or the reason of the refusal."),
            send_seconds: add.add("send_seconds", "How long sends took, from the call to the reply.", time()),
            deliveries: add.plain("deliveries", "Messages handed to sessions."),
            redeliveries: add
                .plain("redeliveries", "Messages handed to sessions that an earlier session may have seen."),
            acks: add.plain("acks", "Messages acknowledged."),
            dead_letters: add.plain("dead_letters", "Messages moved to the dead letters, by cause."),
            decisions,
            usage,
            commit_conflicts: add
                .plain("commit_conflicts", "Transactions the store refused, by the check that failed."),
            decide_reruns: add.plain("decide_reruns", "Rules run again: missing a record, stale cache, or conflict."),
            rpc_seconds: add.add(
                "rpc_seconds",
                "How long calls took by method and code; for streams, how long they were open.",
                Family::new_with_constructor(time as fn() -> Histogram),
            ),
            refusals: add.plain("refusals", "Calls refused, by reason."),
            budget_refusals: add
                .plain("budget_refusals", "Calls refused and connections closed because of a budget, by its class."),
            connections: add.plain("connections", "Connections that are open."),
            sessions: add.plain("sessions", "Sessions that are open at this coordinator."),
            store_seconds: add.add(
                "store_seconds",
                "How long the store took, by operation.",
                Family::new_with_constructor(time as fn() -> Histogram),
            ),
            store_errors: add.plain("store_errors", "Failures of the store, by operation and kind."),
            notifications: add.plain(
                "notifications",
                "Attempts to notify people, by receiver (webhook or program) and outcome: delivered, failed, or given_up after a day.",
            ),
            lost_writes: add.plain("lost_writes", "Times the store was found to have lost acknowledged commits."),
            audit_entries_lost: add.plain(
                "audit_entries_lost",
                "Entries of the audit log that found no room in memory while the store took none.",
            ),
            store_up: add.plain("store_up", "1 while the store answers, 0 while it does not."),
            store_writable: add.plain("store_writable", "1 while the store takes writes, 0 while it does not."),
            teams: add.plain("teams", "Teams in the store."),
            members: add
                .plain("members", "Members in the store by state: live, lost, stopping, away, spawning or exited."),
            hosts: add.plain("hosts", "Hosts in the store by state: live, lost or exited."),
            host_slots: add.plain("host_slots", "Slots of live hosts, taken or free."),
            tasks: add.plain("tasks", "Open tasks in the store by status: ready, assigned, blocked, in_progress or in_review."),
            team_tasks: add.plain("team_tasks", "Open tasks by team and status, if the configuration allows names."),
            inbox_messages: add.plain("inbox_messages", "Unprocessed messages in all inboxes of the store."),
            inbox_messages_max: add
                .plain("inbox_messages_max", "Unprocessed messages in the fullest inbox of the store."),
            inbox_bytes: add.plain("inbox_bytes", "Bytes of unprocessed messages in all inboxes of the store."),
            team_bytes: add.plain("team_bytes", "Bytes that all teams hold in the store."),
            team_quota_percent_max: add.plain(
                "team_quota_percent_max",
                "The highest percentage that a team uses of its quota, or of the quarter for tasks or their history.",
            ),
            teams_by_quota: add
                .plain("teams_by_quota", "Teams that use most of their quota: near (80%) includes full (99%)."),
            registry,
        };
        metrics.begin_at_zero();
        metrics
    }
}

struct Adding<'r>(&'r mut Registry);

impl Adding<'_> {
    fn plain<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.add(name, help, M::default())
    }

    /// The registry adds the full stop to the help text.
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help.trim_end_matches('.'), metric.clone());
        metric
    }
}

impl Metrics {
    /// Shows events that have not happened yet as zero, so that the first one is seen as an increase.
    fn begin_at_zero(&self) {
        for kind in Kind::SENDABLE.iter().map(|kind| kind.name()) {
            drop(self.sends.get_or_create(&[("type", kind), ("outcome", "ok")]));
        }
        for cause in [Undeliverable::DeliveryLimit, Undeliverable::TargetReplaced] {
            drop(self.dead_letters.get_or_create(&[("cause", cause.as_str())]));
        }
        for check in ["version", "key_used", "lease", "full", "over_quota"] {
            drop(self.commit_conflicts.get_or_create(&[("check", check)]));
        }
        for to in ["webhook", "program"] {
            for outcome in ["delivered", "failed", "given_up"] {
                drop(self.notifications.get_or_create(&[("to", to), ("outcome", outcome)]));
            }
        }
        for why in ["missing", "stale", "conflict"] {
            drop(self.decide_reruns.get_or_create(&[("why", why)]));
        }
        for reason in Reason::ALL {
            drop(self.refusals.get_or_create(&[("reason", reason.as_str())]));
        }
        for operation in STORE_OPERATIONS {
            for kind in ["unavailable", "refusing", "full", "unusable", "corrupt"] {
                drop(self.store_errors.get_or_create(&[("operation", operation), ("kind", kind)]));
            }
        }
        for state in MEMBER_STATES {
            drop(self.members.get_or_create(&[("state", state)]));
        }
        for state in HOST_STATES {
            drop(self.hosts.get_or_create(&[("state", state)]));
        }
        for state in SLOT_STATES {
            drop(self.host_slots.get_or_create(&[("state", state)]));
        }
        for (level, _) in QUOTA_LEVELS {
            drop(self.teams_by_quota.get_or_create(&[("level", level)]));
        }
        for status in TASK_STATUSES {
            drop(self.tasks.get_or_create(&[("status", status)]));
        }
    }

    /// Lets the metrics name teams, in the labels of `teamwire_team_tasks`. Otherwise, they contain no names.
    pub fn name_teams(&self) {
        self.names_teams.store(true, Ordering::Relaxed);
    }

    /// Replaces the numbers of open tasks of every team.
    pub(crate) fn set_team_tasks<'t>(&self, teams: impl Iterator<Item = (&'t str, [u64; TASK_STATUSES.len()])>) {
        if !self.names_teams.load(Ordering::Relaxed) {
            return;
        }
        self.team_tasks.clear();
        for (team, tasks) in teams {
            for (status, tasks) in TASK_STATUSES.into_iter().zip(tasks) {
                let labels = [("team", team.to_owned()), ("status", status.to_owned())];
                self.team_tasks.get_or_create(&labels).set(i64::try_from(tasks).unwrap_or(i64::MAX));
            }
        }
    }

    /// Returns whether metrics are served: only then are numbers collected that cost a read of the store.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Returns all numbers as OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts a send.
    pub(crate) fn sent(&self, request: &v1::SendRequest, sent: &Result<v1::SendResponse, Refusal>, took: Duration) {
        let outcome = match sent {
            Ok(reply) if reply.replayed => "replayed",
            Ok(_) => "ok",
            Err(refusal) => refusal.reason.as_str(),
        };
        self.sends.get_or_create(&[("type", type_of(request)), ("outcome", outcome)]).inc();
        self.send_seconds.observe(took.as_secs_f64());
    }

    /// Counts a session as open until the guard is dropped.
    pub(crate) fn session(&self) -> OpenSession {
        self.sessions.inc();
        OpenSession(self.sessions.clone())
    }

    /// Counts a message handed to a session.
    pub(crate) fn delivered(&self, delivery_count: u32) {
        self.deliveries.inc();
        if delivery_count > 1 {
            self.redeliveries.inc();
        }
    }

    /// Counts a message moved to the dead letters.
    pub(crate) fn dead_lettered(&self, cause: &'static str) {
        self.dead_letters.get_or_create(&[("cause", cause)]).inc();
    }

    /// Counts a transaction that the store refused.
    pub(crate) fn conflict(&self, failed: &Failed) {
        let check = match failed {
            Failed::Version { .. } => "version",
            Failed::KeyUsed { .. } => "key_used",
            Failed::Lease { .. } => "lease",
            Failed::Full { .. } => "full",
            Failed::OverQuota { .. } => "over_quota",
        };
        self.commit_conflicts.get_or_create(&[("check", check)]).inc();
    }

    /// Counts an attempt to notify people.
    pub(crate) fn notified(&self, to: &'static str, outcome: &'static str) {
        self.notifications.get_or_create(&[("to", to), ("outcome", outcome)]).inc();
    }

    /// Counts a rule that is run again.
    pub(crate) fn rerun(&self, why: &'static str) {
        self.decide_reruns.get_or_create(&[("why", why)]).inc();
    }
}

fn type_of(request: &v1::SendRequest) -> &'static str {
    request.body.as_ref().map_or("none", |body| body.kind().name())
}

/// A session that counts as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenSession(Gauge);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.dec();
    }
}
