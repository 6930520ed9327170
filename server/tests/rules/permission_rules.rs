//! Permission rules: who may add and revoke them, when they answer, and what the history says about it.

use std::time::Duration;

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, PermissionEventKind, SenderKind, history_entry::Event},
};
use teamwire_server::{coordinator::history::HistoryQuery, domain::permission_rules::RULES_MAX};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn command(member: &str, command: &str) -> v1::PermissionRule {
    let (member, command) = (member.to_owned(), command.to_owned());
    v1::PermissionRule { member, tool: "Bash".to_owned(), command, ..Default::default() }
}

impl Team {
    async fn try_permit(
        &self,
        who: &impl Calls,
        rule: v1::PermissionRule,
    ) -> Result<v1::AddPermissionRuleResponse, Refusal> {
        let team = if who.who().credential.team().is_none() { "alpha".to_owned() } else { String::new() };
        self.coordinator.add_permission_rule(who.who(), &v1::AddPermissionRuleRequest { team, rule: Some(rule) }).await
    }

    async fn permit(&self, rule: v1::PermissionRule) -> v1::PermissionRule {
        self.try_permit(&self.lead, rule).await.unwrap().rule.unwrap()
    }

    async fn rules(&self, who: &Member) -> Vec<v1::PermissionRule> {
        self.coordinator.list_permission_rules(&who.who, &Default::default()).await.unwrap().rules
    }

    async fn try_revoke_rule(&self, who: &Member, rule_id: u64) -> Result<Option<v1::PermissionRule>, Refusal> {
        let request = v1::RevokePermissionRuleRequest { rule_id, ..Default::default() };
        Ok(self.coordinator.revoke_permission_rule(&who.who, &request).await?.rule)
    }

    async fn try_use(&self, who: &impl Calls, command: &str) -> Result<Option<v1::PermissionRule>, Refusal> {
        let tool_use = Some(v1::ToolUse { command: command.to_owned(), ..Default::default() });
        let request = v1::UsePermissionRuleRequest { tool: "Bash".to_owned(), tool_use };
        Ok(self.coordinator.use_permission_rule(who.who(), &request).await?.rule)
    }

    /// Returns the id of the rule that permits a command. `None` if none does.
    async fn used(&self, who: &Member, command: &str) -> Option<u64> {
        self.try_use(who, command).await.unwrap().map(|rule| rule.id)
    }

    async fn permission_events(&self) -> Vec<v1::PermissionEvent> {
        events(self.history().await)
    }
}

fn events(entries: Vec<v1::HistoryEntry>) -> Vec<v1::PermissionEvent> {
    let of = |entry: v1::HistoryEntry| match entry.event {
        Some(Event::Permission(event)) => Some(event),
        _ => None,
    };
    entries.into_iter().filter_map(of).collect()
}

#[tokio::test]
async fn a_rule_answers_from_its_addition_until_its_revocation() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    assert_eq!(t.used(&bob, "cargo test").await, None);
    let own = t.permit(command("BOB", "cargo   test *")).await;
    assert_eq!((own.id, &*own.member, &*own.command), (1, "BOB", "cargo test *"));
    assert_eq!((own.added_by.clone().unwrap().name, own.added_at.is_some()), ("lead".to_owned(), true));
    assert_eq!(t.used(&bob, "cargo test --all").await, Some(1));
    assert_eq!(t.used(&bob, "cargo test; rm -rf /").await, None);
    assert_eq!(t.used(&ann, "cargo test").await, None, "a rule for another member");
    let all = t.permit(command("", "cargo test")).await;
    assert_eq!((t.used(&ann, "cargo test").await, t.used(&bob, "cargo test").await), (Some(all.id), Some(own.id)));
    assert_eq!(t.rules(&ann).await, [own.clone(), all.clone()]);

    assert_eq!(t.try_revoke_rule(&t.lead, own.id).await.unwrap(), Some(own.clone()));
    assert_eq!(t.used(&bob, "cargo test --all").await, None);
    assert_eq!(t.used(&bob, "cargo test").await, Some(all.id));
    assert_eq!(t.try_revoke_rule(&t.lead, own.id).await.unwrap(), None, "again");
    // Ids are not used again.
    t.try_revoke_rule(&t.lead, all.id).await.unwrap();
    assert_eq!(t.permit(command("", "cargo test")).await.id, 3);
}

#[tokio::test]
async fn only_the_lead_and_the_operator_add_and_revoke_rules() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let denied = Code::PermissionDenied;
    t.refused(t.try_permit(&bob, command("", "ls")), denied, Reason::LeadOnly, "").await;
    // The credential counts, not what is asked for.
    t.refused(t.try_permit(&bob, v1::PermissionRule::default()), denied, Reason::LeadOnly, "").await;
    let by_operator = t.try_permit(&t.operator, command("bob", "ls")).await.unwrap().rule.unwrap();
    assert_eq!(by_operator.added_by.unwrap().kind(), SenderKind::Operator);
    t.refused(t.try_revoke_rule(&bob, by_operator.id), denied, Reason::LeadOnly, "").await;
    assert_eq!(t.used(&bob, "ls").await, Some(by_operator.id), "it stands");
    t.refused(t.try_use(&t.operator, "ls"), denied, Reason::NotPermitted, "").await;
    let console = t.console(&bob, false).await;
    t.refused(t.try_use(&console, "ls"), denied, Reason::NotPermitted, "").await;
}

#[tokio::test]
async fn a_rule_is_checked_before_it_is_stored() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    let invalid = Code::InvalidArgument;
    for wrong in ["*", "sh *", "git *", "cargo test; rm", "A=b cargo test", "cargo 'x"] {
        t.refused(t.try_permit(&t.lead, command("", wrong)), invalid, Reason::InvalidField, "rule.command").await;
    }
    let path = v1::PermissionRule { path: "../x".to_owned(), ..command("", "") };
    t.refused(t.try_permit(&t.lead, path), invalid, Reason::InvalidField, "rule.path").await;
    let tool = v1::PermissionRule { tool: " ".to_owned(), ..command("", "ls") };
    t.refused(t.try_permit(&t.lead, tool), invalid, Reason::InvalidField, "rule.tool").await;
    t.refused(t.try_permit(&t.lead, command("a b", "ls")), invalid, Reason::InvalidName, "rule.member").await;
    assert!(t.rules(&t.lead).await.is_empty());
    let long = "x".repeat(4_097);
    let large = t.try_use(&t.lead, &long);
    t.refused(large, invalid, Reason::InvalidField, "tool_use").await;
}

#[tokio::test]
async fn the_same_rule_is_stored_once_and_a_team_has_200_at_most() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let longest = |n: usize| command(&"m".repeat(63), &format!("ls {n:0>990}"));
    let first = t.try_permit(&t.lead, longest(0)).await.unwrap();
    let again = t.try_permit(&t.lead, longest(0)).await.unwrap();
    assert_eq!((first.existed, again.existed, first.rule == again.rule), (false, true, true));
    for n in 1..RULES_MAX {
        t.permit(v1::PermissionRule { tool: "é".repeat(200), ..longest(n) }).await;
    }
    t.refused(t.try_permit(&t.lead, command("", "ls")), Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    let reply = t.coordinator.list_permission_rules(&bob.who, &Default::default()).await.unwrap();
    assert_eq!(reply.rules.len(), RULES_MAX);
    assert!(reply.encoded_len() < 1 << 20, "{}", reply.encoded_len());
    assert_eq!(t.permission_events().await.len(), RULES_MAX, "an addition that changes nothing leaves no entry");
}

#[tokio::test]
async fn the_history_has_each_addition_use_and_revocation() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let rule = t.permit(command("", "cargo test *")).await;
    t.used(&bob, "cargo test --all").await;
    t.used(&bob, &format!("cargo test {}", "a".repeat(3_000))).await;
    t.used(&bob, "rm -rf /").await;
    t.try_revoke_rule(&t.lead, rule.id).await.unwrap();
    let seen = |events: &[v1::PermissionEvent]| -> Vec<(PermissionEventKind, String)> {
        events.iter().map(|event| (event.kind(), event.actor.clone().unwrap().name)).collect()
    };
    let [by_lead, by_bob] = ["lead", "bob"].map(str::to_owned);
    use PermissionEventKind::{Added, Revoked, Used};
    let all = t.permission_events().await;
    let expected =
        [(Added, by_lead.clone()), (Used, by_bob.clone()), (Used, by_bob.clone()), (Revoked, by_lead.clone())];
    assert_eq!(seen(&all), expected);
    assert!(all.iter().all(|event| event.rule.as_ref() == Some(&rule)));
    assert_eq!(all[1].detail, "cargo test --all");
    assert!(all[2].detail.len() <= 1_000 && all[2].detail.contains("bytes left out"), "{}", all[2].detail);

    let entries = async |who: &Member, filter: v1::HistoryFilter| {
        let query = HistoryQuery { filter: Some(filter), limit: 100, ..Default::default() };
        seen(&events(t.coordinator.history(&who.who, "", &query).await.unwrap().entries))
    };
    assert_eq!(entries(&bob, v1::HistoryFilter::default()).await, expected);
    assert_eq!(entries(&ann, v1::HistoryFilter::default()).await, [(Added, by_lead.clone()), (Revoked, by_lead)]);
    let of_bob = v1::HistoryFilter { member: "bob".to_owned(), ..Default::default() };
    assert_eq!(entries(&t.lead, of_bob).await, [(Used, by_bob.clone()), (Used, by_bob.clone())]);
    let text = v1::HistoryFilter { text: "test --ALL".to_owned(), ..Default::default() };
    assert_eq!(entries(&t.lead, text).await, [(Used, by_bob)]);
}

#[tokio::test]
async fn the_rules_for_a_member_end_when_it_is_removed_from_the_team() {
    let (mut t, [_ann, bob]) = Team::of(["ann", "bob"]).await;
    let gone = t.permit(command("bob", "ls")).await;
    let kept = t.permit(command("", "cargo test")).await;
    let bob = t.rejoin(&bob).await;
    assert_eq!(t.used(&bob, "ls").await, Some(gone.id), "the next life of the same member");
    t.leave(&bob).await;
    t.pass(8 * DAY).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert_eq!(t.rules(&t.lead).await, [kept]);
    let last = t.permission_events().await.pop().unwrap();
    assert_eq!((last.kind(), last.actor.unwrap().kind()), (PermissionEventKind::Revoked, SenderKind::Coordinator));
}

#[tokio::test]
async fn a_request_says_what_the_tool_would_do() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let with = |tool_use: v1::ToolUse| {
        let mut request = permission("");
        if let Some(v1::send_request::Body::PermissionRequest(body)) = &mut request.body {
            body.tool_use = Some(tool_use);
        }
        request
    };
    let what = v1::ToolUse { command: "rm -r target".to_owned(), directory: "/work".to_owned(), ..Default::default() };
    let id = t.ask(&bob, with(what.clone())).await;
    assert_eq!(t.request(&id).await.tool_use, Some(what));
    let paths = vec!["/a".to_owned(); 65];
    let large = t.try_send(&bob, with(v1::ToolUse { paths, ..Default::default() }));
    t.refused(large, Code::InvalidArgument, Reason::InvalidField, "tool_use").await;
}

#[tokio::test]
async fn a_use_and_a_revocation_at_the_same_time_have_an_order() {
    let (t, [bob]) = Team::of(["bob"]).await;
    for _ in 0..20 {
        let rule = t.permit(command("bob", "ls")).await;
        let (used, revoked) = tokio::join!(t.used(&bob, "ls"), t.try_revoke_rule(&t.lead, rule.id));
        assert_eq!(revoked.unwrap().unwrap().id, rule.id);
        let events = t.permission_events().await;
        let of_rule: Vec<_> = events.iter().filter(|event| event.rule.as_ref().unwrap().id == rule.id).collect();
        assert_eq!(of_rule.last().unwrap().kind(), PermissionEventKind::Revoked, "no use follows a revocation");
        assert_eq!(of_rule.len(), if used.is_some() { 3 } else { 2 });
    }
}
