//! Diagnosing a team: what is found, for whom, and how much of it.

use std::time::Duration;

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, Finding, FindingClass, Severity},
};
use teamwire_server::domain::page::PAGE_BYTES_MAX;

use crate::{calls::RuleCalls as _, team::*};

const MINUTE: Duration = Duration::from_secs(60);

async fn diagnose(t: &Team, who: &impl Calls, about: &str) -> Vec<Finding> {
    let request = v1::DiagnoseRequest { team: named(who), member: about.to_owned(), ..Default::default() };
    t.coordinator.diagnose(who.who(), &request).await.unwrap().0.findings
}

/// Returns the classes of what is found, problems only.
async fn problems(t: &Team, who: &impl Calls) -> Vec<(FindingClass, String)> {
    let found = diagnose(t, who, "").await.into_iter();
    let problems = found.filter(|finding| finding.severity() == Severity::Problem);
    problems.map(|finding| (finding.class(), finding.member)).collect()
}

fn of(class: FindingClass, member: &str) -> (FindingClass, String) {
    (class, member.to_owned())
}

async fn wait_while_alive(t: &mut Team, members: &[&Member]) {
    let lead = t.lead.clone();
    let alive: Vec<&Member> = std::iter::once(&lead).chain(members.iter().copied()).collect();
    t.pass_and_run_due(MINUTE, &alive).await;
}

#[tokio::test]
async fn a_message_that_no_process_reads_is_a_problem_only_for_those_who_may_see_that_inbox() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let sent = t.send(&t.lead, message("bob", "build it")).await;
    assert!(problems(&t, &t.lead).await.is_empty(), "it has not waited long enough");
    wait_while_alive(&mut t, &[&ann, &bob]).await;
    for who in [&t.lead.who, &t.operator] {
        let found = diagnose(&t, who, "").await;
        let [waiting, ..] = &*found else { panic!("{found:?}") };
        assert_eq!((waiting.class(), waiting.member.as_str()), (FindingClass::NotDelivered, "bob"));
        assert_eq!(waiting.message_id, sent.message_id);
        assert!(waiting.text.contains("no process reads bob's inbox"), "{waiting:?}");
        assert!(waiting.next.contains("`teamwire run bob -- COMMAND`"), "{waiting:?}");
    }
    assert!(problems(&t, &ann).await.is_empty());
    // Its owner counts them.
    let own = diagnose(&t, &bob, "bob").await;
    assert_eq!(own.iter().map(|finding| finding.text.as_str()).collect::<Vec<_>>(), ["You have 1 unread message."]);
}

#[tokio::test]
async fn a_delivered_message_is_a_problem_while_it_is_not_acknowledged() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let mut session = t.open(&bob).await;
    t.send(&t.lead, message("bob", "build it")).await;
    let delivered = session.delivery().await;
    session.close(&t).await;
    wait_while_alive(&mut t, &[&bob]).await;
    let found = diagnose(&t, &t.lead, "").await;
    let [waiting, ..] = &*found else { panic!("{found:?}") };
    assert_eq!(waiting.class(), FindingClass::NotAcknowledged);
    assert!(waiting.text.contains("was delivered to bob"), "{waiting:?}");
    t.ack(&bob, &[&delivered.message.unwrap().id]).await.unwrap();
    assert!(problems(&t, &t.lead).await.is_empty());
}

#[tokio::test]
async fn requests_that_wait_are_problems_of_those_who_may_see_them() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let asked = t.ask(&bob, plan("first the parser")).await;
    let stop = t.ask(&t.lead, shutdown("ann")).await;
    wait_while_alive(&mut t, &[&ann, &bob]).await;
    let found = problems(&t, &t.lead).await;
    assert!(found.contains(&of(FindingClass::PlanUnanswered, "bob")), "{found:?}");
    assert!(found.contains(&of(FindingClass::NotExited, "ann")), "{found:?}");
    let found = diagnose(&t, &bob, "bob").await;
    let [waiting] = &*found else { panic!("{found:?}") };
    assert_eq!((waiting.class(), &waiting.request_id), (FindingClass::PlanUnanswered, &asked));
    assert!(waiting.next.contains("Tell the lead: `teamwire send team-lead"), "{waiting:?}");
    let of_ann = diagnose(&t, &ann, "").await;
    let requests: Vec<&str> =
        of_ann.iter().map(|finding| finding.request_id.as_str()).filter(|id| !id.is_empty()).collect();
    assert_eq!(requests, [stop.as_str()]);
}

#[tokio::test]
async fn only_a_program_that_failed_is_a_problem_and_not_one_that_left_or_was_stopped() {
    let (mut t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    for name in ["ann", "bob"] {
        t.send(&t.lead, message(name, "build it")).await;
    }
    t.try_leave(&ann, 3).await.unwrap();
    // Leaves first, and its program ends with a code afterwards.
    t.coordinator.leave(&bob.who, &v1::LeaveRequest { exit_follows: true, ..Default::default() }).await.unwrap();
    t.try_leave(&bob, 3).await.unwrap();
    t.try_force(&t.lead, "eve").await.unwrap();
    t.try_leave(&eve, 3).await.unwrap();
    wait_while_alive(&mut t, &[]).await;
    let failed = [of(FindingClass::Failed, "ann")];
    assert_eq!(problems(&t, &t.lead).await, failed);
    let text = &diagnose(&t, &t.lead, "").await[0].text;
    assert!(text.contains("ann failed (exit code 3") && text.contains("not processed 1 message"), "{text}");
}

#[tokio::test]
async fn three_crashes_in_ten_minutes_are_a_problem_and_two_are_not() {
    let (mut t, [mut bob]) = Team::of(["bob"]).await;
    let exit = v1::ExitReport { code: Some(1), detail: "unknown option".to_owned(), ..Default::default() };
    let again = v1::JoinRequest { previous_exit: Some(exit), ..Default::default() };
    for crashes in 1..=3 {
        let reply = t.try_join(&bob, again.clone()).await.unwrap();
        bob = Member::new("bob", &reply.credential);
        let found = problems(&t, &t.lead).await;
        assert_eq!(found, if crashes < 3 { vec![] } else { vec![of(FindingClass::Crashing, "bob")] }, "{crashes}");
    }
    let text = &diagnose(&t, &t.lead, "").await[0].text;
    assert!(text.contains("has crashed 3 times in 10 min") && text.contains("unknown option"), "{text}");
    for _ in 0..10 {
        wait_while_alive(&mut t, &[&bob]).await;
    }
    assert!(problems(&t, &t.lead).await.is_empty());
}

#[tokio::test]
async fn an_unknown_name_is_the_finding() {
    let (t, [ann]) = Team::of(["ann"]).await;
    let found = diagnose(&t, &t.lead, "anne").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].text.contains("There is no member \"anne\"") && found[0].text.contains("lead, ann"), "{found:?}");
    assert!(diagnose(&t, &ann, "anne").await[0].next.contains("Only the lead can add members."));
}

#[tokio::test]
async fn a_negative_patience_is_refused() {
    let t = Team::new().await;
    let patience = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let request = v1::DiagnoseRequest { patience, ..Default::default() };
    let refused: Refusal = t.coordinator.diagnose(&t.lead.who, &request).await.unwrap_err();
    assert_eq!((refused.reason, refused.field.as_deref()), (Reason::InvalidField, Some("patience")));
}

#[tokio::test]
async fn a_diagnosis_of_a_large_team_fits_a_reply_and_says_what_it_leaves_out() {
    let mut t = Team::with_limits(|limits| limits.members_max = 1_000).await;
    for n in 0..600 {
        let member = t.join(&format!("member-{n}")).await;
        t.send(&t.lead, message(&member.name, &"\u{1f9e8}".repeat(200))).await;
    }
    t.pass(MINUTE).await;
    let request = v1::DiagnoseRequest { patience: Some(prost_types::Duration::default()), ..Default::default() };
    let (reply, _) = t.coordinator.diagnose(&t.lead.who, &request).await.unwrap();
    assert!(reply.encoded_len() < PAGE_BYTES_MAX + 1_024, "{} bytes", reply.encoded_len());
    let last = reply.findings.last().unwrap();
    assert_eq!((last.class(), reply.findings.len()), (FindingClass::More, 501), "{last:?}");
    assert!(last.text.starts_with("There are 10"), "600 messages and a note on deletion: {last:?}");
}
