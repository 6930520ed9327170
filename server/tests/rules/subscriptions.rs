//! Subscriptions to events: one notice each, whatever happens in between.

use std::time::Duration;

use futures::future::join_all;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, Activity, NoticeKind, event_subscription::Event},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, fillable::Fillable, team::*};

fn ask(event: Event) -> v1::SubscribeToEventRequest {
    let subscription = Some(v1::EventSubscription { event: Some(event), ..Default::default() });
    v1::SubscribeToEventRequest { subscription, ..Default::default() }
}

fn idle(name: &str) -> Event {
    Event::MemberIdle(name.to_owned())
}

fn exit(name: &str) -> Event {
    Event::MemberExit(name.to_owned())
}

fn file(pattern: &str) -> Event {
    Event::FileEdited(pattern.to_owned())
}

async fn try_subscribe(
    t: &Team,
    who: &impl Calls,
    request: v1::SubscribeToEventRequest,
) -> Result<v1::SubscribeToEventResponse, Refusal> {
    t.coordinator.subscribe_to_event(who.who(), &request).await
}

/// Subscribes. Returns whether it had happened already.
async fn subscribe(t: &Team, who: &Member, event: Event) -> bool {
    try_subscribe(t, who, ask(event)).await.unwrap().happened
}

/// Returns the ids and texts of a member's notices about subscriptions.
async fn told(t: &Team, who: &Member) -> Vec<(String, String)> {
    let notices = t.notices(who, NoticeKind::Subscription).await;
    notices.into_iter().map(|notice| (notice.subscription.unwrap().id, notice.text)).collect()
}

async fn open(t: &Team, who: &Member) -> Vec<String> {
    let listed = t.coordinator.list_event_subscriptions(&who.who, &Default::default()).await.unwrap();
    listed.subscriptions.into_iter().map(|subscription| subscription.id).collect()
}

async fn edit(t: &Team, who: &Member, paths: &[&str]) {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let changed = Some(v1::ChangedFiles { repository: "example.com/shop".to_owned(), paths });
    let request = v1::ReportActivityRequest { changed, ..Default::default() };
    t.coordinator.report_activity(&who.who, &request).await.unwrap();
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn each_event_causes_one_notice_and_ends_the_subscription() {
    on_each_store(|store| async {
        let t = Team::on(store, |_| {}).await;
        let [ann, bob, eve] = t.join_all(["ann", "bob", "eve"]).await;
        t.add_some(2).await;
        for event in [idle("bob"), exit("BOB"), Event::TaskDone(1), Event::TaskDone(2), file("src/*.rs")] {
            assert!(!subscribe(&t, &ann, event).await);
        }
        assert_eq!(open(&t, &ann).await, ["idle/bob", "exit/bob", "task/1", "task/2", "file/src/*.rs"]);
        assert!(told(&t, &ann).await.is_empty());

        t.heartbeat(&bob, Activity::Active, "").await;
        t.heartbeat(&bob, Activity::Idle, "all done").await;
        t.heartbeat(&bob, Activity::Active, "").await;
        t.heartbeat(&bob, Activity::Idle, "again").await;
        assert_eq!(told(&t, &ann).await, pairs(&[("idle/bob", "bob is idle: all done")]));

        edit(&t, &ann, &["src/mine.rs"]).await;
        edit(&t, &bob, &["docs/a.md", "src/deep/b.rs"]).await;
        assert_eq!(told(&t, &ann).await.len(), 1, "neither its own edit nor another file");
        edit(&t, &bob, &["src/lib.rs", "src/main.rs", "a.md"]).await;
        edit(&t, &bob, &["src/lib.rs"]).await;
        let edited = "bob has edited \"src/lib.rs\", \"src/main.rs\".";
        assert_eq!(told(&t, &ann).await[1..], pairs(&[("file/src/*.rs", edited)]));

        let claim_token = t.claim(&eve, 1).await;
        let complete = v1::CompleteTaskRequest { task_id: 1, claim_token, ..Default::default() };
        t.coordinator.complete_task(&eve.who, &complete).await.unwrap();
        t.coordinator.delete_task(&t.lead.who, "", 2).await.unwrap();
        t.leave(&bob).await;
        let all = told(&t, &ann).await;
        let ids: Vec<&str> = all[2..].iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["task/1", "task/2", "exit/bob"]);
        assert!(all[2].1.starts_with("Task 1 was completed by eve: "), "{}", all[2].1);
        assert!(all[3].1.starts_with("Task 2 was deleted by lead: "), "{}", all[3].1);
        assert!(all[4].1.starts_with("bob "), "{}", all[4].1);
        assert!(open(&t, &ann).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn event_that_has_happened_causes_its_notice_at_once() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    t.add_some(1).await;
    t.heartbeat(&bob, Activity::Idle, "waiting").await;
    t.leave(&eve).await;
    t.coordinator.delete_task(&t.lead.who, "", 1).await.unwrap();
    for event in [idle("bob"), idle("eve"), exit("eve"), Event::TaskDone(1)] {
        assert!(subscribe(&t, &ann, event.clone()).await, "{event:?}");
    }
    let ids: Vec<String> = told(&t, &ann).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["idle/bob", "idle/eve", "exit/eve", "task/1"]);
    assert!(open(&t, &ann).await.is_empty());
    // A file counts from now on.
    edit(&t, &bob, &["a.rs"]).await;
    assert!(!subscribe(&t, &ann, file("a.rs")).await);
}

#[tokio::test]
async fn subscription_to_a_member_that_goes_idle_at_that_moment_is_not_missed() {
    on_each_store(|store| async {
        let t = Team::on(store, |_| {}).await;
        let [ann, bob] = t.join_all(["ann", "bob"]).await;
        let other = t.another_coordinator().await;
        let beat = |activity: Activity| v1::HeartbeatRequest { activity: activity.into(), ..Default::default() };
        for _ in 0..20 {
            t.coordinator.heartbeat(&bob.who, &beat(Activity::Active)).await.unwrap();
            let (heartbeat, asked) = (beat(Activity::Idle), ask(idle("bob")));
            let (went, subscribed) = futures::join!(
                other.heartbeat(&bob.who, &heartbeat),
                t.coordinator.subscribe_to_event(&ann.who, &asked),
            );
            went.unwrap();
            subscribed.unwrap();
            assert!(open(&t, &ann).await.is_empty(), "bob is idle");
            let ids: Vec<String> = t.inbox(&ann).await.into_iter().map(|message| message.id).collect();
            assert_eq!(ids.len(), 1);
            t.ack(&ann, &[&ids[0]]).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn subscription_outlives_a_restart_and_ends_with_its_life() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    subscribe(&t, &ann, idle("bob")).await;
    subscribe(&t, &eve, idle("bob")).await;
    let ann = t.rejoin(&ann).await;
    assert_eq!(open(&t, &ann).await, ["idle/bob"]);
    t.leave(&eve).await;
    t.heartbeat(&bob, Activity::Idle, "").await;
    assert_eq!(told(&t, &ann).await.len(), 1);
    let eve = t.rejoin(&eve).await;
    assert!(t.inbox(&eve).await.is_empty() && open(&t, &eve).await.is_empty());
}

#[tokio::test]
async fn subscription_expires_with_a_notice_and_is_renewed_by_a_call() {
    on_each_store(|store| async {
        let mut t = Team::on(store, |_| {}).await;
        let [ann, bob] = t.join_all(["ann", "bob"]).await;
        let ttl = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let short = v1::SubscribeToEventRequest { ttl: ttl(60), ..ask(exit("bob")) };
        t.coordinator.subscribe_to_event(&ann.who, &short).await.unwrap();
        let renewed = v1::SubscribeToEventRequest { ttl: ttl(120), ..ask(exit("bob")) };
        t.coordinator.subscribe_to_event(&ann.who, &renewed).await.unwrap();
        let alive = [ann.clone(), bob.clone(), t.lead.clone()];
        let alive: Vec<&Member> = alive.iter().collect();
        t.pass_and_run_due(Duration::from_secs(61), &alive).await;
        assert_eq!((open(&t, &ann).await.len(), told(&t, &ann).await.len()), (1, 0));
        t.pass_and_run_due(Duration::from_secs(60), &alive).await;
        let all = told(&t, &ann).await;
        assert!(
            matches!(&all[..], [(id, text)] if id == "exit/bob" && text.contains("within 2 min: bob exits.")),
            "{all:?}"
        );
        assert!(open(&t, &ann).await.is_empty());
        t.leave(&bob).await;
        assert_eq!(told(&t, &ann).await.len(), 1, "it has expired");
        for seconds in [0, 86_401] {
            let refused = v1::SubscribeToEventRequest { ttl: ttl(seconds), ..ask(exit("lead")) };
            let call = try_subscribe(&t, &ann, refused);
            t.refused(call, Code::InvalidArgument, Reason::InvalidField, "ttl").await;
        }
    })
    .await;
}

#[tokio::test]
async fn cancelled_subscription_causes_no_notice() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    subscribe(&t, &ann, idle("bob")).await;
    subscribe(&t, &ann, file("*.rs")).await;
    let cancel = |id: &str| v1::CancelEventSubscriptionRequest { subscription_id: id.to_owned(), ..Default::default() };
    for id in ["idle/bob", "idle/bob", "file/*.rs", "never/was"] {
        t.coordinator.cancel_event_subscription(&ann.who, &cancel(id)).await.unwrap();
    }
    t.heartbeat(&bob, Activity::Idle, "").await;
    edit(&t, &bob, &["a.rs"]).await;
    assert!(told(&t, &ann).await.is_empty() && open(&t, &ann).await.is_empty());
}

#[tokio::test]
async fn all_subscribers_get_the_notice_and_each_has_a_bound() {
    let t = Team::with_limits(|limits| limits.members_max = 200).await;
    let bob = t.join("bob").await;
    let mut others = Vec::new();
    for n in 0..101 {
        others.push(t.join(&format!("m{n}")).await);
    }
    for other in &others[..100] {
        subscribe(&t, other, idle("bob")).await;
    }
    let one_more = try_subscribe(&t, &others[100], ask(idle("bob")));
    t.refused(one_more, Code::ResourceExhausted, Reason::QuotaExceeded, "subscription").await;
    t.heartbeat(&bob, Activity::Idle, "").await;
    let inboxes = join_all(others.iter().map(|other| told(&t, other))).await;
    assert_eq!(inboxes.iter().map(Vec::len).collect::<Vec<_>>(), [vec![1; 100], vec![0]].concat());

    let ann = &others[0];
    for n in 0..32 {
        subscribe(&t, ann, file(&format!("{n}.rs"))).await;
    }
    // The same one again is no further one.
    subscribe(&t, ann, file("7.rs")).await;
    let one_more = try_subscribe(&t, ann, ask(file("x.rs")));
    t.refused(one_more, Code::ResourceExhausted, Reason::QuotaExceeded, "subscription").await;
}

#[tokio::test]
async fn what_cannot_happen_is_refused() {
    let (t, [ann, _bob]) = Team::of(["ann", "bob"]).await;
    for (event, code, reason) in [
        (idle("ann"), Code::InvalidArgument, Reason::SelfRecipient),
        (idle("nobody"), Code::NotFound, Reason::AgentNotFound),
        (exit("@api"), Code::InvalidArgument, Reason::InvalidName),
        (exit(""), Code::InvalidArgument, Reason::MissingRecipient),
        (file("/etc/passwd"), Code::InvalidArgument, Reason::InvalidField),
        (file(""), Code::InvalidArgument, Reason::InvalidField),
    ] {
        t.refused(try_subscribe(&t, &ann, ask(event)), code, reason, "subscription").await;
    }
    let task = try_subscribe(&t, &ann, ask(Event::TaskDone(7)));
    t.refused(task, Code::NotFound, Reason::TaskNotFound, "task_id").await;
    let nothing = try_subscribe(&t, &ann, Default::default());
    t.refused(nothing, Code::InvalidArgument, Reason::InvalidField, "subscription").await;
    let in_team = v1::SubscribeToEventRequest { team: "alpha".to_owned(), ..ask(idle("bob")) };
    let operator = try_subscribe(&t, &t.operator, in_team);
    t.refused(operator, Code::PermissionDenied, Reason::NotPermitted, "").await;
}

#[tokio::test]
async fn lost_member_ends_a_subscription_to_its_exit_only() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    subscribe(&t, &ann, exit("bob")).await;
    subscribe(&t, &ann, idle("bob")).await;
    t.pass_and_run_due(Duration::from_secs(600), &[&ann, &t.lead.clone()]).await;
    let all = told(&t, &ann).await;
    assert!(matches!(&all[..], [(id, text)] if id == "exit/bob" && text.contains("counts as lost")), "{all:?}");
    // It calls again.
    t.heartbeat(&bob, Activity::Idle, "").await;
    assert_eq!(told(&t, &ann).await.len(), 2);
}

#[tokio::test]
async fn pattern_means_the_files_that_it_names_and_no_others() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    subscribe(&t, &ann, file("**/Cargo.toml")).await;
    edit(&t, &bob, &["src/main.rs", "**", "Cargo.toml.bak"]).await;
    assert!(told(&t, &ann).await.is_empty());
    edit(&t, &bob, &["server/Cargo.toml"]).await;
    let edited = "bob has edited \"server/Cargo.toml\".";
    assert_eq!(told(&t, &ann).await, pairs(&[("file/**/Cargo.toml", edited)]));
}

#[tokio::test]
async fn event_that_happens_while_the_store_is_full_causes_its_notice_when_the_subscription_expires() {
    let full = Fillable::new();
    let mut t = Team::on(full.clone(), |_| {}).await;
    let [ann, bob] = t.join_all(["ann", "bob"]).await;
    for event in [idle("bob"), file("*.rs")] {
        let short =
            v1::SubscribeToEventRequest { ttl: Some(prost_types::Duration { seconds: 60, nanos: 0 }), ..ask(event) };
        t.coordinator.subscribe_to_event(&ann.who, &short).await.unwrap();
    }
    full.fill();
    t.heartbeat(&bob, Activity::Idle, "done").await;
    assert_eq!((open(&t, &ann).await.len(), told(&t, &ann).await.len()), (2, 0));
    full.empty();
    t.pass_and_run_due(Duration::from_secs(61), &[&ann, &bob, &t.lead.clone()]).await;
    let notices = t.notices(&ann, NoticeKind::Subscription).await;
    let all: Vec<(String, bool)> =
        notices.into_iter().map(|notice| notice.subscription.unwrap()).map(|it| (it.id, it.expired)).collect();
    assert_eq!(all, [("idle/bob".to_owned(), false), ("file/*.rs".to_owned(), true)]);
    assert!(open(&t, &ann).await.is_empty());
}

#[tokio::test]
async fn process_that_takes_a_name_with_a_token_does_not_take_its_subscriptions() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    subscribe(&t, &ann, idle("bob")).await;
    t.pass_and_run_due(Duration::from_secs(600), &[&bob, &t.lead.clone()]).await;
    let new = t.join("ann").await;
    assert!(open(&t, &new).await.is_empty());
    t.heartbeat(&bob, Activity::Idle, "").await;
    assert!(told(&t, &new).await.is_empty());
}
