//! Activity: reported, read and awaited.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use teamwire_proto::{Reason, v1};
use teamwire_server::store::{Store, embedded::EmbeddedStore, redis::RedisStore};
use tokio::time::timeout;
use tonic::Code;

use crate::{
    calls::RuleCalls as _,
    counting::{Counting, counted},
    fillable::Fillable,
    team::*,
    test_redis::TestRedis,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn lines(texts: impl IntoIterator<Item = impl ToString>) -> v1::ReportActivityRequest {
    let line = |text: &dyn ToString| v1::ReportedLine { text: text.to_string(), age: None };
    let lines = texts.into_iter().map(|text| line(&text)).collect();
    v1::ReportActivityRequest { lines, ..Default::default() }
}

fn of(member: &str) -> v1::ListActivityRequest {
    v1::ListActivityRequest { team: "alpha".to_owned(), member: member.to_owned(), ..Default::default() }
}

fn texts(lines: &[v1::ActivityLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

impl Team {
    async fn report(&self, member: &Member, texts: impl IntoIterator<Item = impl ToString>) {
        self.coordinator.report_activity(&member.who, &lines(texts)).await.unwrap();
    }

    async fn activity(&self, member: &str) -> Vec<v1::ActivityLine> {
        let request = v1::ListActivityRequest { page_size: 1_000, ..of(member) };
        self.coordinator.list_activity(&self.operator, &request).await.unwrap().lines
    }
}

#[tokio::test]
async fn the_last_200_lines_are_kept_and_read_page_by_page_on_either_store() {
    let server = TestRedis::start();
    let mut stores: Vec<Arc<dyn Store>> = vec![EmbeddedStore::in_memory().unwrap()];
    if let Some(server) = &server {
        stores.push(RedisStore::connect(&server.url(), "test").await.unwrap());
    }
    for store in stores {
        let t = Team::on(store, |_| {}).await;
        let ann = t.join("ann").await;
        for round in 0..5 {
            t.report(&ann, (0..50).map(|n| round * 50 + n)).await;
        }
        let mut request = v1::ListActivityRequest { page_size: 60, ..of("ann") };
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let page = t.coordinator.list_activity(&t.operator, &request).await.unwrap();
            found.extend(page.lines);
            pages += 1;
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                assert_eq!(page.last_sequence, 250);
                break;
            }
        }
        assert_eq!(pages, 4);
        let sequences: Vec<_> = found.iter().map(|line| line.sequence).collect();
        assert_eq!(sequences, (51..=250).collect::<Vec<_>>());
        assert_eq!((found[0].text.as_str(), found[199].text.as_str()), ("50", "249"));
    }
}

#[tokio::test]
async fn a_report_wakes_only_the_callers_that_wait_for_it() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let other = t.another_coordinator().await;
    let wait = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let request = v1::ListActivityRequest { wait, ..of("ann") };
    let mut waiting = [&t.coordinator, &other].map(|c| Box::pin(c.list_activity(&t.operator, &request)));
    for waiting in &mut waiting {
        assert!(waiting.as_mut().now_or_never().is_none());
    }
    t.report(&bob, ["not this one"]).await;
    let mut news = t.coordinator.notifier().watch(&t.namespace);
    news.mark_unchanged();
    t.report(&ann, ["at last"]).await;
    for waiting in waiting {
        let found = timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
        assert_eq!((texts(&found.lines), found.last_sequence), (vec!["at last"], 1));
    }
    assert!(!news.has_changed().unwrap(), "those who follow the history would read it in vain");
    t.send(&t.lead, message("ann", "x")).await;
    assert!(news.has_changed().unwrap());

    let after = v1::ListActivityRequest { after_sequence: 1, wait: Some(Default::default()), ..of("ann") };
    let none = t.coordinator.list_activity(&t.operator, &after).await.unwrap();
    assert_eq!((none.lines.len(), none.last_sequence), (0, 1));
}

#[tokio::test]
async fn a_report_costs_one_commit_and_leaves_the_history_alone() {
    let t = Team::on(Arc::new(Counting(EmbeddedStore::in_memory().unwrap())), |_| {}).await;
    let ann = t.join("ann").await;
    let before = t.history().await.len();
    for n in 0..4 {
        let usage = Some(v1::Usage { turns: n, ..Default::default() });
        let request = v1::ReportActivityRequest { usage, idempotency_key: n.to_string(), ..lines(["x"]) };
        let (reported, trips) = counted(t.coordinator.report_activity(&ann.who, &request)).await;
        reported.unwrap();
        assert_eq!(trips, 4, "the extent, a budget, the commit, and the leases, which this test's clock reads with it");
    }
    assert_eq!(t.history().await.len(), before);
}

#[tokio::test]
async fn usage_is_shown_for_the_life_and_for_all_lives() {
    let (t, [ann]) = Team::of(["ann"]).await;
    assert_eq!((t.member("ann").await.usage, t.member("ann").await.total_usage), (None, None));
    let usage = |turns| v1::Usage { turns, input_tokens: 10 * turns, ..Default::default() };
    let report = |turns| v1::ReportActivityRequest { usage: Some(usage(turns)), ..Default::default() };
    t.coordinator.report_activity(&ann.who, &report(3)).await.unwrap();
    let ann = t.rejoin(&ann).await;
    let shown = t.member("ann").await;
    assert_eq!((shown.usage, shown.total_usage), (None, Some(usage(3))), "the new life has used nothing yet");
    t.coordinator.report_activity(&ann.who, &report(2)).await.unwrap();
    t.report(&ann, ["in the second life"]).await;
    let shown = t.member("ann").await;
    assert_eq!((shown.usage, shown.total_usage), (Some(usage(2)), Some(usage(5))));
    assert_eq!(t.activity("ann").await[0].incarnation, 2);
}

#[tokio::test]
async fn activity_is_read_by_everyone_in_the_team_and_written_by_the_member_alone() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.report(&ann, ["x"]).await;
    let observer = t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential;
    let observer = presented(&observer);
    for who in [&bob.who, &ann.who, &t.lead.who, &t.operator, &observer] {
        assert_eq!(texts(&t.coordinator.list_activity(who, &of("ann")).await.unwrap().lines), ["x"]);
    }
    let request = v1::ListActivityRequest { team: "beta".to_owned(), ..of("ann") };
    t.refused(t.coordinator.list_activity(&bob.who, &request), Code::NotFound, Reason::TeamNotFound, "team").await;
    let request = of("anne");
    let call = t.coordinator.list_activity(&bob.who, &request);
    t.refused(call, Code::NotFound, Reason::AgentNotFound, "member").await;
    let request = of("");
    let call = t.coordinator.list_activity(&bob.who, &request);
    t.refused(call, Code::InvalidArgument, Reason::MissingRecipient, "member").await;
    let wait = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let request = v1::ListActivityRequest { wait, ..of("ann") };
    t.refused(t.coordinator.list_activity(&bob.who, &request), Code::InvalidArgument, Reason::InvalidField, "wait")
        .await;
    for who in [&t.operator, &observer] {
        let request = lines(["x"]);
        let call = t.coordinator.report_activity(who, &request);
        t.refused(call, Code::PermissionDenied, Reason::NotPermitted, "").await;
    }
    let again = t.rejoin(&ann).await;
    let request = lines(["from the past"]);
    let call = t.coordinator.report_activity(&ann.who, &request);
    t.refused(call, Code::Aborted, Reason::SessionSuperseded, "").await;
    t.leave(&again).await;
    let call = t.coordinator.report_activity(&again.who, &request);
    t.refused(call, Code::FailedPrecondition, Reason::MemberStopped, "").await;
}

#[tokio::test]
async fn a_full_store_drops_reports_and_stays_usable() {
    let full = Fillable::new();
    let t = Team::on(full.clone(), |_| {}).await;
    let ann = t.join("ann").await;
    t.report(&ann, ["before"]).await;
    full.fill();
    t.report(&ann, ["dropped"]).await;
    assert_eq!(texts(&t.activity("ann").await), ["before"]);
    t.leave(&ann).await;
    assert_eq!(t.member("ann").await.state(), v1::MemberState::Exited);
}

#[tokio::test]
async fn activity_goes_away_with_its_member_and_its_team() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let report = v1::ReportActivityRequest {
        usage: Some(v1::Usage { turns: 1, ..Default::default() }),
        ..lines(["one", "two"])
    };
    for member in [&ann, &bob] {
        t.coordinator.report_activity(&member.who, &report).await.unwrap();
    }
    t.leave(&ann).await;
    t.pass(8 * DAY).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    let again = t.join("ann").await;
    assert_eq!((t.activity("ann").await.len(), t.member("ann").await.total_usage), (0, None));
    t.report(&again, ["three"]).await;
    assert_eq!(t.activity("ann").await[0].sequence, 3, "a reader that knows the first two finds it");

    t.leave(&again).await;
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    assert!(t.is_gone(&["ann", "bob", "lead"]).await);
}
