//! The backend against a real API server, with the job controller, the garbage collector and the scheduler.
//!
//! Nothing runs on the only node: a test writes what a kubelet would report of a Pod. The host has the rights that the
//! chart gives it, and no more. `cargo xtask kubernetes` runs these tests.

#![allow(clippy::unwrap_used)]

mod cluster;
mod control_plane;
mod whole;

use std::time::{Duration, SystemTime};

use cluster::Cluster;
use serde_json::json;
use teamwire_agents::host::{Backend as _, Found};
use whole::an_ordered_member_joins_from_its_pod_and_ends_with_it;

/// Runs every test against one control plane, which takes a while to start.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane of Kubernetes: cargo xtask kubernetes"]
async fn a_host_in_a_cluster() {
    let plane = control_plane::ControlPlane::start().await;
    macro_rules! run {
        ($($test:ident),* $(,)?) => {$(
            eprintln!("test {} ...", stringify!($test));
            let started = std::time::Instant::now();
            $test(Cluster::new(&plane, stringify!($test)).await).await;
            eprintln!("test {} ok, {:.1} s", stringify!($test), started.elapsed().as_secs_f32());
        )*};
    }
    run![
        an_order_becomes_a_job_with_one_pod_and_a_secret,
        two_starts_of_an_order_are_one_job,
        two_hosts_that_start_an_order_at_once_make_one_pod,
        a_job_without_a_token_has_no_pod_and_is_made_again,
        a_member_that_ended_is_reported_and_its_job_is_kept_for_its_logs,
        an_end_is_reported_again_until_it_is_forgotten,
        the_reason_of_an_end_names_an_image_that_cannot_be_pulled,
        a_pod_that_fits_no_node_is_given_to_another_host_before_the_order_expires,
        an_image_that_takes_too_long_to_pull_ends_the_start_before_the_order_expires,
        the_reason_of_an_end_says_that_the_namespace_refuses_the_pod,
        the_reason_of_an_end_names_an_exceeded_quota_and_another_host_is_tried,
        deleting_a_job_or_a_pod_ends_the_member_and_creates_no_second_pod,
        a_new_member_waits_until_the_earlier_one_of_its_name_is_gone,
        stop_all_ends_every_pod,
        delete_all_leaves_nothing,
        a_profile_that_the_api_server_rejects_is_refused_at_the_start,
        deleting_the_owner_deletes_everything_that_it_owns,
        an_ordered_member_joins_from_its_pod_and_ends_with_it,
    ];
}

async fn an_order_becomes_a_job_with_one_pod_and_a_secret(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    assert_eq!(host.recover(&order).await, Found::Nothing);
    host.admit(&order).await.unwrap();
    host.start(&order, cluster.ticket()).await.unwrap();
    assert_eq!(host.recover(&order).await, Found::Started);

    let pod = cluster.pod_on_a_node(&order).await;
    let spec = pod.spec.as_ref().unwrap();
    let container = &spec.containers[0];
    assert_eq!(container.command.as_ref().unwrap(), &["teamwire"]);
    let arguments = container.args.as_ref().unwrap().join(" ");
    assert!(arguments.starts_with("run backend --join-file /run/secrets/teamwire/join "), "{arguments}");
    assert!(arguments.ends_with("-- python3 /opt/agent/main.py"), "{arguments}");
    assert!(!serde_json::to_string(&pod).unwrap().contains(cluster::TOKEN), "the token is in the Pod");

    let secret = cluster.secret_of(&pod).await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["join"].0.clone()).unwrap();
    assert_eq!(text, format!("{}@https://teamwire-headless.teamwire.svc:7420", cluster::TOKEN));
    let job = cluster.job(&order).await.unwrap();
    assert_eq!(secret.metadata.owner_references.unwrap()[0].uid, job.metadata.uid.unwrap());
    assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "ConfigMap");
}

async fn two_starts_of_an_order_are_one_job(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let refused = host.start(&order, cluster.ticket()).await.unwrap_err();
    assert_eq!(refused.reason, "Another process of this host has started it.");
    cluster.pod_on_a_node(&order).await;
    assert_eq!(cluster.pods().await.len(), 1);
}

async fn two_hosts_that_start_an_order_at_once_make_one_pod(cluster: Cluster) {
    // Two processes of one host, such as an old one that does not know yet that it was replaced.
    let (first, second) = (cluster.host().await, cluster.host().await);
    let order = cluster.order("backend");
    let both = tokio::join!(first.start(&order, cluster.ticket()), second.start(&order, cluster.ticket()));
    let started = [&both.0, &both.1].into_iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(started, 1, "{both:?}");
    cluster.pod_on_a_node(&order).await;
    assert_eq!((cluster.jobs().await.len(), cluster.pods().await.len()), (1, 1));
}

async fn a_job_without_a_token_has_no_pod_and_is_made_again(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    // What a host leaves that dies between the Job and its Secret.
    cluster.start_and_die_before_the_secret(&order).await;
    assert_eq!(cluster.pods().await.len(), 0);
    assert_eq!(host.recover(&order).await, Found::Interrupted);
    host.start(&order, cluster.ticket()).await.unwrap();
    cluster.pod_on_a_node(&order).await;
    assert_eq!(cluster.pods().await.len(), 1);
}

async fn a_member_that_ended_is_reported_and_its_job_is_kept_for_its_logs(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    let terminated = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no model\n"}});
    cluster.report(&pod, "Failed", terminated).await;
    let ended = cluster.end_of(&host, &order).await;
    assert_eq!((ended.exit.code, ended.member.as_str()), (Some(3), "backend"));
    assert_eq!(ended.reason, "It exited with 3.\nno model");
    host.forget(&order.request_id).await;
    cluster.finished(&order).await;
    // A host that starts now does not report it.
    let again = cluster.host().await;
    let other = cluster.order("other");
    again.start(&other, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&other).await;
    cluster.report(&pod, "Succeeded", json!({"terminated": {"exitCode": 0, "reason": "Completed"}})).await;
    assert_eq!(cluster.end_of(&again, &other).await.exit.code, Some(0));
    let kept = cluster.jobs().await.into_iter().find(|job| cluster::is_of(job, &order)).unwrap();
    assert_eq!(kept.spec.unwrap().ttl_seconds_after_finished, Some(3_600));
}

async fn an_end_is_reported_again_until_it_is_forgotten(cluster: Cluster) {
    let order = cluster.order("backend");
    let first = cluster.host().await;
    first.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    drop(first);
    let terminated = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    cluster.report(&pod, "Failed", terminated).await;
    for _ in 0..2 {
        let ended = cluster.end_of(&cluster.host().await, &order).await;
        assert_eq!(ended.reason, "It was killed because it exceeded its memory limit of 1Gi.");
    }
}

async fn the_reason_of_an_end_names_an_image_that_cannot_be_pulled(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    let waits = |reason: &str| json!({"waiting": {"reason": reason, "message": "manifest unknown"}});
    cluster.report(&pod, "Pending", waits("ErrImagePull")).await;
    cluster.report(&pod, "Pending", waits("ImagePullBackOff")).await;
    cluster.removed_by_its_node(&pod).await;
    let ended = cluster.end_of(&host, &order).await;
    assert_eq!(ended.reason, "The image registry.example.com/agent:1 cannot be pulled: manifest unknown.");
    host.forget(&order.request_id).await;
    cluster.gone(&order).await;
}

async fn a_pod_that_fits_no_node_is_given_to_another_host_before_the_order_expires(cluster: Cluster) {
    let host = cluster.host().await;
    let mut order = cluster.order("backend");
    order.terms.profile = "huge".to_owned();
    let expires_at = SystemTime::now() + Duration::from_secs(6);
    order.expires_at = Some(expires_at);
    host.start(&order, cluster.ticket()).await.unwrap();
    let ended = cluster.end_of(&host, &order).await;
    assert!(SystemTime::now() < expires_at, "the order has expired");
    assert!(
        ended.reason.starts_with("No node fits its Pod: 0/1 nodes are available: 1 Insufficient cpu"),
        "{}",
        ended.reason
    );
    assert!(ended.try_another_host);
    assert_eq!(cluster.pods().await.len(), 0);
}

async fn an_image_that_takes_too_long_to_pull_ends_the_start_before_the_order_expires(cluster: Cluster) {
    let host = cluster.host().await;
    let mut order = cluster.order("backend");
    let expires_at = SystemTime::now() + Duration::from_secs(8);
    order.expires_at = Some(expires_at);
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    // A node reports no progress while it pulls.
    cluster.report(&pod, "Pending", json!({"waiting": {"reason": "ContainerCreating"}})).await;
    cluster.removed_by_its_node(&pod).await;
    let ended = cluster.end_of(&host, &order).await;
    assert!(SystemTime::now() < expires_at, "the order has expired");
    assert_eq!(ended.reason, "Its Pod did not start in time: it is still in ContainerCreating.");
    host.forget(&order.request_id).await;
    cluster.gone(&order).await;
}

async fn the_reason_of_an_end_says_that_the_namespace_refuses_the_pod(cluster: Cluster) {
    cluster.label_namespace("pod-security.kubernetes.io/enforce", "restricted").await;
    let host = cluster.host().await;
    let mut order = cluster.order("backend");
    order.terms.profile = "root".to_owned();
    host.start(&order, cluster.ticket()).await.unwrap();
    let ended = cluster.end_of(&host, &order).await;
    assert!(ended.reason.starts_with("The cluster refuses its Pod: "), "{}", ended.reason);
    assert!(ended.reason.contains("violates PodSecurity"), "{}", ended.reason);
    // The template of the chart's values meets the standard, with all that the host adds.
    let order = cluster.order("restricted");
    host.start(&order, cluster.ticket()).await.unwrap();
    cluster.pod_on_a_node(&order).await;
}

async fn the_reason_of_an_end_names_an_exceeded_quota_and_another_host_is_tried(cluster: Cluster) {
    cluster.allow_pods(0).await;
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let ended = cluster.end_of(&host, &order).await;
    assert!(ended.reason.contains("exceeded quota"), "{}", ended.reason);
    assert!(ended.try_another_host);
}

async fn deleting_a_job_or_a_pod_ends_the_member_and_creates_no_second_pod(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    cluster.delete_pod(&pod).await;
    // It still ends, so nothing replaces it and nothing is reported.
    assert_eq!(cluster.pods().await.len(), 1);
    cluster.report(&pod, "Failed", json!({"terminated": {"exitCode": 143, "reason": "Error"}})).await;
    let ended = cluster.end_of(&host, &order).await;
    assert_eq!(ended.exit.code, Some(143));
    cluster.removed_by_its_node(&pod).await;
    cluster.finished(&order).await;
    assert_eq!(cluster.pods().await.len(), 0, "another Pod was created");

    let order = cluster.order("other");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    cluster.delete_job(&order).await;
    cluster.removed_by_its_node(&pod).await;
    assert_eq!(cluster.end_of(&host, &order).await.reason, "Its Job was deleted.");
}

async fn a_new_member_waits_until_the_earlier_one_of_its_name_is_gone(cluster: Cluster) {
    let host = cluster.host().await;
    let (earlier, later) = (cluster.order("backend"), cluster.order("backend"));
    host.start(&earlier, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&earlier).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    let mut admission = Box::pin(host.admit(&later));
    let deleted = cluster.deleted(&pod);
    tokio::select! {
        _ = &mut admission => panic!("two members of one name"),
        () = deleted => {}
    }
    cluster.removed_by_its_node(&pod).await;
    admission.await.unwrap();
    host.start(&later, cluster.ticket()).await.unwrap();
    assert_eq!(cluster.end_of(&host, &earlier).await.reason, "Another member of the same name was ordered.");
}

async fn stop_all_ends_every_pod(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    tokio::join!(host.stop_all(), cluster.removed_by_its_node(&pod));
    assert_eq!(cluster.end_of(&host, &order).await.reason, "Its host was asked to end its members.");
}

async fn delete_all_leaves_nothing(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    host.delete_all().await.unwrap();
    cluster.removed_by_its_node(&pod).await;
    cluster.gone(&order).await;
    cluster.no_secrets().await;
}

async fn a_profile_that_the_api_server_rejects_is_refused_at_the_start(cluster: Cluster) {
    let template = "spec: {containers: [{name: teammate, image: a, command: [b], imagePullPolicy: Sometimes}]}\n";
    let error = cluster.host_with(template).await.unwrap_err().to_string();
    assert!(error.contains("the profile agent cannot be used") && error.contains("Sometimes"), "{error}");
}

async fn deleting_the_owner_deletes_everything_that_it_owns(cluster: Cluster) {
    let host = cluster.host().await;
    let order = cluster.order("backend");
    host.start(&order, cluster.ticket()).await.unwrap();
    let pod = cluster.pod_on_a_node(&order).await;
    cluster.delete_owner().await;
    cluster.removed_by_its_node(&pod).await;
    cluster.gone(&order).await;
    cluster.no_secrets().await;
}
