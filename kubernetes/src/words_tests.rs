//! Statuses as the kubelet, the scheduler and the controllers of Kubernetes write them.

use serde_json::{Value, json};

use super::*;

fn pod(status: Value) -> Pod {
    let spec = json!({"containers": [
        {"name": "proxy", "image": "proxy:1"},
        {"name": "teammate", "image": "agents:1", "resources": {"limits": {"memory": "4Gi"}}},
    ]});
    serde_json::from_value(json!({"metadata": {"name": "backend-x"}, "spec": spec, "status": status})).unwrap()
}

fn container(state: Value) -> Value {
    json!({"name": "teammate", "image": "agents:1", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn waiting(reason: &str, message: &str) -> Pod {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    pod(json!({"phase": "Pending", "containerStatuses": [container(state)]}))
}

fn terminated(phase: &str, terminated: Value) -> Pod {
    pod(json!({"phase": phase, "containerStatuses": [container(json!({"terminated": terminated}))]}))
}

#[test]
fn an_obstacle_to_a_waiting_container_is_explained_in_words() {
    for (reason, message, expected, is_final) in [
        ("ErrImagePull", "not found", "The image agents:1 cannot be pulled: not found.", false),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"agents:1\"",
            "The image agents:1 cannot be pulled: Back-off pulling image \"agents:1\".",
            true,
        ),
        ("InvalidImageName", "", "\"agents:1\" is not the name of an image.", true),
        ("ErrImageNeverPull", "", "The image agents:1 is not on the node, and may not be pulled.", true),
        (
            "CreateContainerConfigError",
            "secret \"key\" not found",
            "The container teammate cannot be configured: secret \"key\" not found.",
            true,
        ),
        (
            "RunContainerError",
            "exec: \"teamwire\": executable file not found in $PATH",
            "The container teammate cannot start: exec: \"teamwire\": executable file not found in $PATH.",
            true,
        ),
    ] {
        let found = obstacle(&waiting(reason, message)).unwrap();
        assert_eq!((found.reason.as_str(), found.is_final, found.try_another_host), (expected, is_final, false));
    }
    for passing in ["ContainerCreating", "PodInitializing"] {
        assert_eq!(obstacle(&waiting(passing, "")), None);
    }
}

#[test]
fn a_pod_that_fits_no_node_may_fit_another_host() {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                           "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."});
    let found = obstacle(&pod(json!({"phase": "Pending", "conditions": [condition]}))).unwrap();
    assert_eq!(found.reason, "No node fits its Pod: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
    assert_eq!((found.is_final, found.try_another_host), (false, true));
    let placed = json!({"type": "PodScheduled", "status": "True"});
    assert_eq!(obstacle(&pod(json!({"phase": "Pending", "conditions": [placed]}))), None);
}

#[test]
fn an_exit_says_what_its_code_means_and_what_the_program_wrote_last() {
    let failed = terminated("Failed", json!({"exitCode": 127, "reason": "Error", "message": "no claude\n"}));
    let found = end(&failed).unwrap();
    assert_eq!(found.reason, "It exited with 127: its program was not found in the image.\nno claude");
    assert_eq!(found.exit.code, Some(127));
    assert_eq!(found.exit.detail, "It exited with 127: its program was not found in the image.");
    let done = end(&terminated("Succeeded", json!({"exitCode": 0, "reason": "Completed"}))).unwrap();
    assert_eq!((done.exit.code, done.reason.as_str()), (Some(0), "It exited with 0."));
}

#[test]
fn a_program_that_exceeds_its_memory_is_named_as_such() {
    let found = end(&terminated("Failed", json!({"exitCode": 137, "reason": "OOMKilled"}))).unwrap();
    assert_eq!(found.reason, "It was killed because it exceeded its memory limit of 4Gi.");
    assert_eq!(found.exit.code, Some(137));
}

#[test]
fn a_pod_has_ended_once_its_program_has_even_if_other_containers_run() {
    let running = json!({"name": "proxy", "image": "proxy:1", "imageID": "", "ready": true, "restartCount": 0,
                         "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let ended = container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}));
    let found = pod(json!({"phase": "Running", "containerStatuses": [running.clone(), ended]}));
    assert_eq!(end(&found).unwrap().exit.code, Some(0));
    assert!(!is_running(&found));
    let both = pod(json!({"phase": "Running", "containerStatuses": [running, container(json!({"running": {}}))]}));
    assert_eq!(end(&both), None);
    assert!(is_running(&both));
}

#[test]
fn the_cause_of_a_pods_end_outranks_the_exits_of_its_containers() {
    let of = |status: Value| end(&pod(status)).unwrap().reason;
    let killed = || json!([container(json!({"terminated": {"exitCode": 137, "reason": "Error"}}))]);
    assert_eq!(
        of(json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. ",
                  "containerStatuses": killed()})),
        "Kubernetes evicted its Pod: The node was low on resource: memory."
    );
    assert_eq!(
        of(
            json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"})
        ),
        "Its Pod exceeded its activeDeadlineSeconds: Pod was active on the node longer than the specified deadline."
    );
    assert_eq!(
        of(json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"})),
        "The node refused its Pod: Node didn't have enough resource: cpu."
    );
    for (reason, expected) in [
        ("PreemptionByScheduler", "A Pod with a higher priority took the place of its Pod: why."),
        ("DeletionByTaintManager", "The node of its Pod became unfit for it: why."),
        ("EvictionByEvictionAPI", "Its Pod was evicted, as when a node is drained: why."),
        ("DeletionByPodGC", "The node of its Pod is gone: why."),
    ] {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why"});
        assert_eq!(of(json!({"phase": "Failed", "conditions": [condition], "containerStatuses": killed()})), expected);
    }
}

#[test]
fn an_init_container_that_failed_is_named() {
    let init = json!({"name": "clone", "image": "git:1", "imageID": "", "ready": false, "restartCount": 0,
                      "state": {"terminated": {"exitCode": 128, "reason": "Error", "message": "fatal: no such repository"}}});
    let waits = container(json!({"waiting": {"reason": "PodInitializing"}}));
    let found =
        end(&pod(json!({"phase": "Failed", "initContainerStatuses": [init], "containerStatuses": [waits]}))).unwrap();
    assert_eq!(found.reason, "The init container clone failed with the exit code 128.\nfatal: no such repository");
    assert_eq!(found.exit.code, None);
}

#[test]
fn a_long_message_becomes_one_line_of_bounded_length() {
    let found = end(&pod(json!({"phase": "Failed", "reason": "Evicted", "message": "much\n".repeat(400)}))).unwrap();
    assert!(found.exit.detail.chars().count() <= DETAIL_CHARS_MAX, "{}", found.exit.detail);
    assert!(!found.exit.detail.contains('\n'));
    assert!(found.exit.detail.ends_with('…'));
}
