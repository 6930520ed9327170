//! The life of a member, as a list of what the API server reports.

use serde_json::{Value, json};

use super::*;

const EXPIRES: &str = "2026-01-01T00:05:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Before anything has taken too long.
fn early() -> Timestamp {
    at("2026-01-01T00:00:01Z")
}

fn job(suspend: bool, annotations: Value, status: Value) -> Job {
    let template = json!({"spec": {"containers": []}});
    let mut all = json!({EXPIRES_AT: EXPIRES});
    all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {"name": "backend-1", "annotations": all},
        "spec": {"suspend": suspend, "template": template},
        "status": status,
    }))
    .unwrap()
}

fn resumed() -> Job {
    job(false, json!({}), json!({}))
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "backend-1-x"},
        "spec": {"nodeName": "n1", "containers": [{"name": "teammate", "image": "agents:1"}]},
        "status": status,
    }))
    .unwrap()
}

fn with_state(phase: &str, state: Value) -> Pod {
    pod(json!({"phase": phase, "containerStatuses": [
        {"name": "teammate", "image": "agents:1", "imageID": "", "ready": false, "restartCount": 0, "state": state},
    ]}))
}

fn seen(job: Option<Job>, pods: impl IntoIterator<Item = Pod>) -> Seen {
    let named = |(n, pod)| (format!("pod-{n}"), pod);
    Seen { job, had_job: true, pods: pods.into_iter().enumerate().map(named).collect(), rejection: None }
}

fn reason_of(verdict: Verdict) -> String {
    match verdict {
        Verdict::Ended { end, .. } => end.reason,
        Verdict::Stop(because) => because.reason,
        Verdict::Wait(at) => panic!("waits until {at:?}"),
    }
}

fn give_up_at() -> Verdict {
    Verdict::Wait(Some(at("2026-01-01T00:04:58Z")))
}

#[test]
fn a_member_that_starts_runs_and_ends_is_reported_once_it_has_ended() {
    let creating = || with_state("Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
    let running = || with_state("Running", json!({"running": {}}));
    let ended = || with_state("Failed", json!({"terminated": {"exitCode": 3, "reason": "Error"}}));
    assert_eq!(judge(&seen(Some(job(true, json!({}), json!({}))), []), early()), Verdict::Wait(None));
    assert_eq!(judge(&seen(Some(resumed()), []), early()), give_up_at());
    assert_eq!(judge(&seen(Some(resumed()), [creating()]), early()), give_up_at());
    assert_eq!(judge(&seen(Some(resumed()), [running()]), early()), Verdict::Wait(None));
    assert_eq!(reason_of(judge(&seen(Some(resumed()), [ended()]), early())), "It exited with 3.");
}

#[test]
fn a_running_member_is_not_given_up_when_its_order_has_expired() {
    let running = with_state("Running", json!({"running": {}}));
    assert_eq!(judge(&seen(Some(resumed()), [running]), at("2027-01-01T00:00:00Z")), Verdict::Wait(None));
}

#[test]
fn a_permanent_obstacle_ends_a_start_at_once() {
    let backing_off = with_state("Pending", json!({"waiting": {"reason": "ImagePullBackOff"}}));
    let verdict = judge(&seen(Some(resumed()), [backing_off]), early());
    assert_eq!(
        verdict,
        Verdict::Stop(StoppedBecause {
            reason: "The image agents:1 cannot be pulled.".to_owned(),
            try_another_host: false
        })
    );
}

#[test]
fn a_temporary_obstacle_ends_a_start_just_before_its_order_expires() {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"});
    let unschedulable = seen(Some(resumed()), [pod(json!({"phase": "Pending", "conditions": [condition]}))]);
    assert_eq!(judge(&unschedulable, early()), give_up_at());
    let late = at("2026-01-01T00:04:58Z");
    let because =
        StoppedBecause { reason: "No node fits its Pod: 0/1 nodes are available.".to_owned(), try_another_host: true };
    assert_eq!(judge(&unschedulable, late), Verdict::Stop(because));
    let creating = with_state("Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
    let reason = reason_of(judge(&seen(Some(resumed()), [creating]), late));
    assert_eq!(reason, "Its Pod did not start in time: it is still in ContainerCreating.");
    assert_eq!(reason_of(judge(&seen(Some(resumed()), []), late)), "Kubernetes created no Pod for it in time.");
}

#[test]
fn a_pod_that_the_cluster_refuses_ends_a_start() {
    let refused = |message: &str| {
        let seen = Seen { rejection: Some(message.to_owned()), ..seen(Some(resumed()), []) };
        let Verdict::Stop(because) = judge(&seen, early()) else { panic!("goes on") };
        because
    };
    let insecure = refused("Error creating: pods \"b-x\" is forbidden: violates PodSecurity \"restricted:latest\"");
    assert!(insecure.reason.starts_with("The cluster refuses its Pod: pods \"b-x\" is forbidden"));
    assert!(!insecure.try_another_host);
    assert!(refused("Error creating: pods \"b-x\" is forbidden: exceeded quota: compute").try_another_host);
}

#[test]
fn a_refusal_is_forgotten_once_there_is_a_pod() {
    let creating = with_state("Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
    let seen = Seen { rejection: Some("quota".to_owned()), ..seen(Some(resumed()), [creating]) };
    assert_eq!(judge(&seen, early()), give_up_at());
}

#[test]
fn a_job_that_the_host_has_ended_is_reported_once_no_pod_of_it_runs() {
    let because = json!({ENDED: "{\"reason\":\"No node fits.\",\"try_another_host\":true}"});
    let stopped = || job(true, because.clone(), json!({}));
    let running = with_state("Running", json!({"running": {}}));
    assert_eq!(judge(&seen(Some(stopped()), [running]), early()), Verdict::Wait(None));
    let Verdict::Ended { end, try_another_host } = judge(&seen(Some(stopped()), []), early()) else { panic!("waits") };
    assert_eq!((end.reason.as_str(), try_another_host), ("No node fits.", true));
    // Deleted before a node got it: no kubelet has to end it.
    let mut unplaced = pod(json!({"phase": "Pending"}));
    unplaced.spec.as_mut().unwrap().node_name = None;
    unplaced.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(early()));
    assert_eq!(reason_of(judge(&seen(Some(stopped()), [unplaced]), early())), "No node fits.");
}

#[test]
fn a_deleted_job_is_reported_once_its_pod_is_gone() {
    let running = with_state("Running", json!({"running": {}}));
    assert_eq!(judge(&seen(None, [running]), early()), Verdict::Wait(None));
    assert_eq!(reason_of(judge(&seen(None, []), early())), "Its Job was deleted.");
    // Pods of a Job that this process has never seen.
    let ended = with_state("Failed", json!({"terminated": {"exitCode": 3}}));
    let orphan = Seen { had_job: false, ..seen(None, [ended]) };
    assert_eq!(judge(&orphan, early()), Verdict::Wait(None));
}

#[test]
fn a_finished_job_whose_pod_is_gone_is_reported() {
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]});
    let reason = reason_of(judge(&seen(Some(job(false, json!({}), failed)), []), early()));
    assert_eq!(reason, "Its Job failed, and its Pod is gone: Job has reached the specified backoff limit");
}
