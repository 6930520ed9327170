//! Numbers that no event reports, looked up from time to time: teams, their members and hosts by state, their open
//! tasks, how full inboxes are, and how much of their quotas teams use.
//!
//! The due worker visits each team soon after it has changed; during some visits it also counts the team, if metrics are
//! served. The gauges show the sums of the latest counts.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use prometheus_client::metrics::{family::Family, gauge::Gauge};

use crate::{
    coordinator::{Coordinator, teams::TeamCount},
    store::Namespace,
    telemetry::{HOST_STATES, Label, MEMBER_STATES, Metrics, QUOTA_LEVELS, SLOT_STATES, TASK_STATUSES},
};

/// The shortest time between two counts of a team.
const EVERY: Duration = Duration::from_secs(5);

/// How many teams are counted per second at most. If there are more, each is counted less often.
const COUNTS_PER_SECOND: f64 = 100.0;

/// The latest numbers of every team.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    teams: HashMap<Namespace, (Instant, TeamCount)>,
    /// The gauges show what was counted and listed last.
    is_published: bool,
}

/// What a visit has counted.
#[derive(Debug)]
pub(super) enum CountOutcome {
    /// Nothing: the latest count still holds, or the store does not answer.
    Skipped,
    /// The team.
    Count(Box<TeamCount>),
    /// The team is deleted.
    Gone,
}

impl Gauges {
    /// Counts a team, if metrics are served and it was not counted lately. The due worker handles failures of the
    /// store.
    pub(super) async fn count(&self, coordinator: &Coordinator, namespace: &Namespace) -> CountOutcome {
        let every = EVERY.max(Duration::from_secs_f64(self.teams.len() as f64 / COUNTS_PER_SECOND));
        let is_recent = self.teams.get(namespace).is_some_and(|(at, _)| at.elapsed() < every);
        if is_recent || !coordinator.metrics().is_watched() {
            return CountOutcome::Skipped;
        }
        let usage = &coordinator.metrics().usage;
        match coordinator.count(namespace).await {
            Ok(Some((count, roster))) => {
                usage.retain_members(namespace, &roster);
                CountOutcome::Count(Box::new(count))
            }
            Ok(None) => {
                usage.retain_members(namespace, &[]);
                CountOutcome::Gone
            }
            Err(_) => CountOutcome::Skipped,
        }
    }

    /// Keeps what was counted.
    pub(super) fn keep(&mut self, namespace: &Namespace, counted: CountOutcome) {
        self.is_published &= matches!(counted, CountOutcome::Skipped);
        match counted {
            CountOutcome::Skipped => {}
            CountOutcome::Count(count) => drop(self.teams.insert(namespace.clone(), (Instant::now(), *count))),
            CountOutcome::Gone => drop(self.teams.remove(namespace)),
        }
    }

    /// Drops the teams that do not exist anymore, and their usage.
    pub(super) fn retain(&mut self, metrics: &Metrics, is_there: impl Fn(&Namespace) -> bool) {
        self.teams.retain(|namespace, _| is_there(namespace));
        metrics.usage.retain_teams(is_there);
        self.is_published = false;
    }

    /// Publishes the sums over the teams, if something has changed.
    pub(super) fn publish(&mut self, metrics: &Metrics) {
        if !metrics.is_watched() || std::mem::replace(&mut self.is_published, true) {
            return;
        }
        let counts = || self.teams.values().map(|(_, count)| count);
        metrics.teams.set(i64::try_from(self.teams.len()).unwrap_or(i64::MAX));
        set(&metrics.members, &MEMBER_STATES, |n| counts().map(|count| i64::from(count.members[n])).sum());
        set(&metrics.hosts, &HOST_STATES, |n| counts().map(|count| i64::from(count.hosts[n])).sum());
        set(&metrics.host_slots, &SLOT_STATES, |n| counts().map(|count| i64::from(count.slots[n])).sum());
        for (n, status) in TASK_STATUSES.iter().enumerate() {
            let tasks: u64 = counts().map(|count| count.tasks[n]).sum();
            metrics.tasks.get_or_create(&[("status", *status)]).set(i64::try_from(tasks).unwrap_or(i64::MAX));
        }
        metrics.set_team_tasks(counts().map(|count| (count.name.as_str(), count.tasks)));
        metrics.inbox_messages.set(counts().map(|count| count.messages).sum());
        metrics.inbox_messages_max.set(counts().map(|count| count.messages_max).max().unwrap_or(0));
        metrics.inbox_bytes.set(counts().map(|count| count.bytes).sum());
        metrics.team_bytes.set(counts().map(|count| count.held_bytes).sum());
        metrics.team_quota_percent_max.set(counts().map(|count| count.quota_percent).max().unwrap_or(0));
        for (level, percent) in QUOTA_LEVELS {
            let teams = counts().filter(|count| count.quota_percent >= percent).count();
            let gauge = metrics.teams_by_quota.get_or_create(&[("level", level)]);
            gauge.set(i64::try_from(teams).unwrap_or(i64::MAX));
        }
    }
}

/// Sets a gauge for each state to the sum of its place.
fn set(gauges: &Family<Label, Gauge>, states: &[&'static str], sum: impl Fn(usize) -> i64) {
    for (n, state) in states.iter().enumerate() {
        gauges.get_or_create(&[("state", *state)]).set(sum(n));
    }
}
