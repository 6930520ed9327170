//! Decides what to do about an order, given its Job and Pods. Pure, so that tests can use recorded objects.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    jiff::Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{
    job::{ENDED, EXPIRES_AT},
    words::{self, End, Obstacle},
};

/// How long before an order expires the host gives up its member, so that the reason reaches the member that ordered
/// it.
const MARGIN: Duration = Duration::from_secs(2);

/// What the host knows about an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its Job. `None` if it is gone, or was never seen.
    pub(crate) job: Option<Job>,
    /// True if the Job has existed.
    pub(crate) had_job: bool,
    /// Its Pods, by name. At most one, unless someone else deleted a Pod of the Job.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// Why the API server refuses to create its Pod.
    pub(crate) rejection: Option<String>,
}

/// Why the host ended a member. Stored with its Job, so that it survives the host program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoppedBecause {
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) try_another_host: bool,
}

impl From<Obstacle> for StoppedBecause {
    fn from(obstacle: Obstacle) -> Self {
        Self { reason: obstacle.reason, try_another_host: obstacle.try_another_host }
    }
}

/// What to do about an order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing until something changes, or until this time.
    Wait(Option<Timestamp>),
    /// End it, because it cannot start.
    Stop(StoppedBecause),
    /// Report that none of its processes run.
    Ended {
        /// How it ended.
        end: End,
        /// For a member that never started: whether another host may be able to start it.
        try_another_host: bool,
    },
}

impl Verdict {
    fn ended(end: End) -> Self {
        Self::Ended { end, try_another_host: false }
    }
}

/// Decides what to do about an order.
pub(crate) fn judge(seen: &Seen, now: Timestamp) -> Verdict {
    let may_run = seen.pods.values().any(|pod| !is_over(pod));
    let Some(job) = &seen.job else {
        return match seen.had_job && !may_run {
            true => Verdict::ended(deleted(seen.pods.values().find_map(words::end))),
            false => Verdict::Wait(None),
        };
    };
    if let Some(because) = stopped_because(job) {
        if may_run {
            return Verdict::Wait(None);
        }
        let end = End::unseen(&because.reason);
        return Verdict::Ended { end, try_another_host: because.try_another_host };
    }
    if let Some(end) = seen.pods.values().find_map(words::end) {
        return Verdict::ended(end);
    }
    if let Some(end) = finished(job) {
        return if may_run { Verdict::Wait(None) } else { Verdict::ended(end) };
    }
    let is_suspended = job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    let is_going = job.metadata.deletion_timestamp.is_some() || seen.pods.values().any(is_deleted);
    if is_suspended || is_going || seen.pods.values().any(words::is_running) {
        return Verdict::Wait(None);
    }
    waiting(job, seen, now)
}

/// Decides about a member that has not started yet.
fn waiting(job: &Job, seen: &Seen, now: Timestamp) -> Verdict {
    let pod = seen.pods.values().next();
    let rejection = seen.rejection.as_ref().filter(|_| pod.is_none()).map(|message| rejected(message));
    let obstacle = pod.and_then(words::obstacle).or(rejection);
    let give_up_at = expires_at(job).and_then(|at| at.checked_sub(MARGIN).ok());
    match obstacle {
        Some(obstacle) if obstacle.is_final => Verdict::Stop(obstacle.into()),
        obstacle if give_up_at.is_some_and(|at| at <= now) => {
            Verdict::Stop(obstacle.unwrap_or_else(|| words::unexplained(pod)).into())
        }
        _ => Verdict::Wait(give_up_at),
    }
}

/// Returns whether none of a Pod's containers run anymore.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) || never_ran_and_never_will(pod)
}

/// Returns whether a Pod is being deleted before it was assigned to a node.
fn never_ran_and_never_will(pod: &Pod) -> bool {
    let is_on_a_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    is_deleted(pod) && !is_on_a_node
}

fn is_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn expires_at(job: &Job) -> Option<Timestamp> {
    job.metadata.annotations.as_ref()?.get(EXPIRES_AT)?.parse().ok()
}

/// Returns why the host ended a Job, if it did.
pub(crate) fn stopped_because(job: &Job) -> Option<StoppedBecause> {
    let text = job.metadata.annotations.as_ref()?.get(ENDED)?;
    let written = serde_json::from_str(text);
    Some(written.unwrap_or_else(|_| StoppedBecause { reason: text.clone(), try_another_host: false }))
}

/// Returns whether a Job is complete or has failed, which is final.
pub(crate) fn is_finished(job: &Job) -> bool {
    finished(job).is_some()
}

fn finished(job: &Job) -> Option<End> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let found =
        conditions.iter().find(|it| it.status == "True" && matches!(it.type_.as_str(), "Complete" | "Failed"))?;
    let message = found.message.as_deref().unwrap_or_default();
    Some(match found.type_.as_str() {
        "Complete" => End::unseen("Its Job is complete."),
        _ if found.reason.as_deref() == Some("DeadlineExceeded") => End::unseen("Its Job exceeded its deadline."),
        _ => End::unseen(&format!("Its Job failed, and its Pod is gone: {message}")),
    })
}

/// Returns the end of a member whose Job was deleted. `end`: the end of its Pod.
fn deleted(end: Option<End>) -> End {
    let mut deleted = End::unseen("Its Job was deleted.");
    deleted.exit.code = end.and_then(|end| end.exit.code);
    deleted
}

/// Says why the API server refuses a Pod.
fn rejected(message: &str) -> Obstacle {
    let message = message.trim_start_matches("Error creating: ");
    Obstacle {
        reason: format!("The cluster refuses its Pod: {message}"),
        is_final: true,
        // The quota applies to this namespace only.
        try_another_host: message.contains("exceeded quota"),
    }
}

/// Returns whether a Pod runs or may still start.
pub(crate) fn may_run(pod: &Pod) -> bool {
    !is_over(pod)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
