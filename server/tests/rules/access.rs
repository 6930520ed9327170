//! Signing in to the console, what a console credential may do, and when it ends.

use std::time::Duration;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    v1::{self, CallerKind, CredentialKind, TeamEventKind, history_entry::Event},
};
use teamwire_server::{
    delivery::Heartbeats,
    domain::{
        identity::CallerCredentials,
        records::{ConsoleRecord, RecordType, SignInCodeRecord, SignInsRecord},
    },
    store::{Namespace, Store as _, backup},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const HOUR: Duration = Duration::from_secs(60 * 60);

const DENIED: (Code, Reason) = (Code::PermissionDenied, Reason::NotPermitted);
const REVOKED: (Code, Reason) = (Code::Unauthenticated, Reason::CredentialRevoked);

impl Team {
    async fn code(&self, who: &impl Calls, read_only: bool) -> String {
        let request = v1::CreateSignInCodeRequest { read_only, ..Default::default() };
        self.coordinator.create_sign_in_code(who.who(), &request).await.unwrap().code
    }

    async fn try_sign_in(&self, code: &str) -> Result<v1::SignInResponse, Refusal> {
        self.coordinator.sign_in(&presented(code), &v1::SignInRequest::default()).await
    }

    /// Signs in as a caller. Returns what the console's calls then present.
    pub(crate) async fn console(&self, who: &impl Calls, read_only: bool) -> CallerCredentials {
        let code = self.code(who, read_only).await;
        let credential = self.try_sign_in(&code).await.unwrap().credential;
        self.looked_up(&credential).await.unwrap()
    }

    /// Looks a credential up, as every call does before its rule runs.
    async fn looked_up(&self, credential: &str) -> Result<CallerCredentials, Refusal> {
        let who = presented(credential);
        let found = self.coordinator.look_up(&who).await?;
        Ok(CallerCredentials { operator_sign_in: found.operator_sign_in, ..who })
    }

    /// Lists credentials, without those of members.
    async fn credentials(&self, who: &CallerCredentials, team: &str) -> Vec<v1::Credential> {
        let mut listed = self.all_credentials(who, team).await;
        listed.retain(|found| found.kind() != CredentialKind::Member);
        listed
    }

    async fn all_credentials(&self, who: &CallerCredentials, team: &str) -> Vec<v1::Credential> {
        let request = v1::ListCredentialsRequest { team: team.to_owned(), ..Default::default() };
        self.coordinator.list_credentials(who, &request).await.unwrap().credentials
    }

    /// Returns the credential of a member's present life, as the lead sees it.
    async fn credential_of(&self, member: &str) -> Option<v1::Credential> {
        let listed = self.all_credentials(&self.lead.who, "").await.into_iter();
        let mut members = listed.filter(|found| found.kind() == CredentialKind::Member);
        members.find(|found| found.member == member)
    }

    async fn revoke_member(&self, member: &str) {
        let id = self.credential_of(member).await.unwrap().id;
        self.try_revoke(&self.lead.who, "", &id).await.unwrap();
    }

    async fn try_revoke(&self, who: &CallerCredentials, team: &str, id: &str) -> Result<(), Refusal> {
        let request = v1::RevokeCredentialRequest { team: team.to_owned(), id: id.to_owned() };
        self.coordinator.revoke_credential(who, &request).await
    }

    async fn team_events(&self, kind: TeamEventKind) -> Vec<v1::TeamEvent> {
        let events = self.history().await.into_iter().filter_map(|entry| match entry.event {
            Some(Event::Team(event)) => Some(event),
            _ => None,
        });
        events.filter(|event| event.kind() == kind).collect()
    }
}

fn id_of(who: &CallerCredentials) -> String {
    match &who.credential {
        Credential::Console { id, .. } | Credential::Observer { id, .. } | Credential::Join { id, .. } => id.clone(),
        other => panic!("{other:?} has no id"),
    }
}

#[tokio::test]
async fn a_code_signs_in_once() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let code = t.code(&bob, false).await;
    let reply = t.try_sign_in(&code).await.unwrap();
    let caller = reply.caller.unwrap();
    assert_eq!((caller.kind(), caller.member.as_str(), caller.team.as_str()), (CallerKind::Member, "bob", "alpha"));
    assert!(!caller.is_lead && !caller.read_only);
    assert_eq!(caller.expires_at, reply.expires_at);
    t.refused(t.try_sign_in(&code), Code::Unauthenticated, Reason::SignInCodeUsed, "").await;
    let expired = t.code(&bob, false).await;
    t.pass(Duration::from_secs(60)).await;
    t.refused(t.try_sign_in(&expired), Code::Unauthenticated, Reason::CredentialExpired, "").await;
    let (front, secret) = code.rsplit_once(':').unwrap();
    let forged = format!("{front}:{}", "0".repeat(secret.len()));
    t.refused(t.try_sign_in(&forged), Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    t.refused(t.coordinator.sign_in(&bob.who, &Default::default()), DENIED.0, DENIED.1, "").await;
    let signed_in = t.team_events(TeamEventKind::SignedIn).await;
    assert_eq!(signed_in.len(), 1, "{signed_in:?}");
    assert_eq!((signed_in[0].actor.as_ref().unwrap().name.as_str(), signed_in[0].read_only), ("bob", false));
}

#[tokio::test]
async fn a_repeated_call_returns_the_same_code_and_the_same_credential() {
    let t = Team::new().await;
    let request = v1::CreateSignInCodeRequest { idempotency_key: "a-key".to_owned(), ..Default::default() };
    let codes = [
        t.coordinator.create_sign_in_code(&t.lead.who, &request).await.unwrap(),
        t.coordinator.create_sign_in_code(&t.lead.who, &request).await.unwrap(),
    ];
    assert_eq!(codes[0], codes[1]);
    let other = v1::CreateSignInCodeRequest { read_only: true, ..request };
    let reused = t.coordinator.create_sign_in_code(&t.lead.who, &other);
    t.refused(reused, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;
    let code = presented(&codes[0].code);
    let request = v1::SignInRequest { idempotency_key: "another-key".to_owned() };
    let replies =
        [t.coordinator.sign_in(&code, &request).await.unwrap(), t.coordinator.sign_in(&code, &request).await.unwrap()];
    assert_eq!(replies[0], replies[1]);
    let third = v1::SignInRequest { idempotency_key: "third-key".to_owned() };
    t.refused(t.coordinator.sign_in(&code, &third), Code::Unauthenticated, Reason::SignInCodeUsed, "").await;
    assert_eq!(t.team_events(TeamEventKind::SignedIn).await.len(), 1);
}

#[tokio::test]
async fn a_console_acts_for_its_member_but_cannot_act_as_its_process() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let lead = t.console(&t.lead, false).await;
    let sent = t.send(&lead, message("bob", "from the page")).await;
    assert_eq!(t.inbox(&bob).await[0].sender.as_ref().unwrap().name, "lead");
    assert_eq!(sent.recipients, ["bob"]);
    t.coordinator.invite(&lead, &v1::InviteRequest::default()).await.unwrap();
    let task = v1::CreateTaskRequest { subject: "paint".to_owned(), ..Default::default() };
    t.coordinator.create_task(&lead, &task).await.unwrap();
    let bobs = t.console(&bob, false).await;
    t.coordinator.claim_task(&bobs, &v1::ClaimTaskRequest { task_id: 1, ..Default::default() }).await.unwrap();
    let request = v1::AckRequest { session_id: "of a stranger".to_owned(), message_ids: vec![sent.message_id] };
    assert_eq!(t.coordinator.acknowledge(&bobs, &request).await, Ok(1), "a page has no session");
    assert!(t.inbox(&bob).await.is_empty());
    t.refused(t.coordinator.invite(&bobs, &v1::InviteRequest::default()), Code::PermissionDenied, Reason::LeadOnly, "")
        .await;

    for who in [&lead, &bobs] {
        let c = &t.coordinator;
        t.refused(c.join(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.leave(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.open_session(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.heartbeat(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.report_activity(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.update_host(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.create_sign_in_code(who, &Default::default()), DENIED.0, DENIED.1, "").await;
        t.refused(c.sign_in(who, &Default::default()), DENIED.0, DENIED.1, "").await;
    }
    let code = presented(&t.code(&bob, false).await);
    t.refused(t.try_send(&code, message("lead", "x")), DENIED.0, DENIED.1, "").await;
    t.refused(t.coordinator.get_caller(&code), DENIED.0, DENIED.1, "").await;
}

#[tokio::test]
async fn a_read_only_sign_in_reads_everything_and_changes_nothing() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let sent = t.send(&t.lead, message("bob", "x")).await.message_id;
    let who = t.console(&t.lead, true).await;
    assert!(t.coordinator.get_caller(&who).await.unwrap().read_only);
    assert_eq!(t.coordinator.list_members(&who, &all_members("")).await.unwrap().members.len(), 2);
    for request in [message("bob", "x"), broadcast("x"), shutdown("bob")] {
        let refusal = t.refused(t.try_send(&who, request), DENIED.0, DENIED.1, "").await;
        assert!(refusal.message.contains("only read"), "{refusal}");
    }
    let c = &t.coordinator;
    let task = v1::CreateTaskRequest { subject: "paint".to_owned(), ..Default::default() };
    let level = v1::SetNoticeLevelRequest { level: v1::NoticeLevel::Digest.into(), ..Default::default() };
    t.refused(c.invite(&who, &Default::default()), DENIED.0, DENIED.1, "").await;
    t.refused(c.create_observer(&who, &Default::default()), DENIED.0, DENIED.1, "").await;
    t.refused(c.create_task(&who, &task), DENIED.0, DENIED.1, "").await;
    t.refused(c.set_notice_level(&who, &level), DENIED.0, DENIED.1, "").await;
    let tags = v1::SetTagsRequest { member: "bob".to_owned(), add: vec!["api".to_owned()], ..Default::default() };
    t.refused(c.set_tags(&who, &tags), DENIED.0, DENIED.1, "").await;
    let event = v1::event_subscription::Event::MemberIdle("bob".to_owned());
    let subscription = Some(v1::EventSubscription { event: Some(event), ..Default::default() });
    let subscribe = v1::SubscribeToEventRequest { subscription, ..Default::default() };
    t.refused(c.subscribe_to_event(&who, &subscribe), DENIED.0, DENIED.1, "").await;
    let rule = v1::PermissionRule { tool: "Bash".to_owned(), any_use: true, ..Default::default() };
    let add = v1::AddPermissionRuleRequest { rule: Some(rule), ..Default::default() };
    let rule_id = c.add_permission_rule(&t.lead.who, &add).await.unwrap().rule.unwrap().id;
    let revoke = v1::RevokePermissionRuleRequest { rule_id, ..Default::default() };
    let other = v1::PermissionRule { tool: "Edit".to_owned(), any_use: true, ..Default::default() };
    let add = v1::AddPermissionRuleRequest { rule: Some(other), ..Default::default() };
    t.refused(c.add_permission_rule(&who, &add), DENIED.0, DENIED.1, "").await;
    t.refused(c.revoke_permission_rule(&who, &revoke), DENIED.0, DENIED.1, "").await;
    assert_eq!(c.list_permission_rules(&who, &Default::default()).await.unwrap().rules.len(), 1);
    t.refused(t.try_force(&who, "bob"), DENIED.0, DENIED.1, "").await;
    t.refused(t.try_set_lead(&who, "bob"), DENIED.0, DENIED.1, "").await;
    t.leave(&bob).await;
    t.refused(t.try_delete(&who), DENIED.0, DENIED.1, "").await;
    let observer = t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential;
    t.refused(t.try_revoke(&who, "", &id_of(&presented(&observer))), DENIED.0, DENIED.1, "").await;
    let bobs = t.join("bob").await;
    let bobs = t.console(&bobs, true).await;
    let request = v1::AckRequest { message_ids: vec![sent], ..Default::default() };
    t.refused(t.coordinator.acknowledge(&bobs, &request), DENIED.0, DENIED.1, "").await;
    // It may sign out.
    t.try_revoke(&who, "", &id_of(&who)).await.unwrap();
    t.refused(c.get_team(&who, ""), REVOKED.0, REVOKED.1, "").await;
}

#[tokio::test]
async fn a_sign_in_ends_with_the_life_or_credential_it_acts_for() {
    let (mut t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    let consoles = [t.console(&ann, false).await, t.console(&bob, false).await, t.console(&eve, false).await];
    let late = t.code(&ann, false).await;
    t.leave(&ann).await;
    t.rejoin(&bob).await;
    t.try_force(&t.lead, "eve").await.unwrap();
    for who in &consoles {
        t.refused(t.coordinator.get_team(who, ""), REVOKED.0, REVOKED.1, "").await;
        t.refused(t.coordinator.look_up(who), REVOKED.0, REVOKED.1, "").await;
        t.refused(t.try_send(who, message("lead", "x")), REVOKED.0, REVOKED.1, "").await;
    }
    t.refused(t.try_sign_in(&late), REVOKED.0, REVOKED.1, "").await;
    assert!(t.credentials(&t.lead.who, "").await.is_empty(), "none of them is valid");

    // A member that has approved its shutdown can still be looked at.
    let zed = t.join("zed").await;
    let console = t.console(&zed, false).await;
    let request = t.ask(&t.lead, shutdown("zed")).await;
    t.send(&zed, approve(&request)).await;
    t.coordinator.get_team(&console, "").await.unwrap();

    let ttl = Some(prost_types::Duration { seconds: 3_600, nanos: 0 });
    let request = v1::CreateObserverRequest { ttl, ..Default::default() };
    let observer = presented(&t.coordinator.create_observer(&t.lead.who, &request).await.unwrap().credential);
    let watching = t.console(&observer, false).await;
    let caller = t.coordinator.get_caller(&watching).await.unwrap();
    assert_eq!((caller.kind(), caller.read_only), (CallerKind::Observer, true));
    t.refused(t.try_send(&watching, message("lead", "x")), DENIED.0, DENIED.1, "").await;
    let (lead, other) = (t.console(&t.lead, false).await, t.console(&observer, false).await);
    t.pass(HOUR).await;
    t.refused(t.coordinator.get_team(&watching, ""), Code::Unauthenticated, Reason::CredentialExpired, "").await;
    t.refused(t.coordinator.look_up(&other), Code::Unauthenticated, Reason::CredentialExpired, "").await;
    t.coordinator.get_team(&lead, "").await.unwrap();
    t.pass(7 * HOUR).await;
    t.refused(t.coordinator.get_team(&lead, ""), Code::Unauthenticated, Reason::CredentialExpired, "").await;
}

#[tokio::test]
async fn revoking_an_observer_ends_its_sign_ins_and_revoking_a_token_stops_its_joins() {
    let t = Team::new().await;
    let observer =
        presented(&t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential);
    let console = t.console(&observer, false).await;
    t.try_revoke(&t.lead.who, "", &id_of(&observer)).await.unwrap();
    for who in [&observer, &console] {
        t.refused(t.coordinator.get_team(who, ""), REVOKED.0, REVOKED.1, "").await;
    }
    assert!(t.credentials(&t.lead.who, "").await.is_empty());
    let token = presented(&t.invite("bob").await);
    t.try_revoke(&t.lead.who, "", &id_of(&token)).await.unwrap();
    t.refused(t.try_join(&token, Default::default()), REVOKED.0, REVOKED.1, "").await;
    let revoked = t.team_events(TeamEventKind::CredentialRevoked).await;
    let kinds: Vec<_> = revoked.iter().map(|event| event.credential()).collect();
    assert_eq!(kinds, [CredentialKind::Observer, CredentialKind::JoinToken]);
    assert_eq!(revoked[1].member, "bob");
}

#[tokio::test]
async fn the_operators_sign_in_works_in_every_team() {
    let t = Team::new().await;
    t.coordinator.create_team(&t.operator, &create("beta")).await.unwrap();
    let who = t.console(&t.operator, false).await;
    t.send(&who, in_alpha(message("lead", "from the page"))).await;
    assert_eq!(t.inbox(&t.lead).await[0].sender.as_ref().unwrap().kind(), v1::SenderKind::Operator);
    t.coordinator.get_team(&who, "beta").await.unwrap();
    t.coordinator.create_team(&who, &create("gamma")).await.unwrap();
    let teams = t.coordinator.list_teams(&who, &Default::default()).await.unwrap().teams;
    assert_eq!(teams.len(), 3);
    t.refused(t.coordinator.create_sign_in_code(&who, &Default::default()), DENIED.0, DENIED.1, "").await;
    t.refused(t.coordinator.open_session(&who, &Default::default()), DENIED.0, DENIED.1, "").await;
    t.refused(t.coordinator.heartbeat(&who, &Default::default()), DENIED.0, DENIED.1, "").await;
    let unnamed = t.try_send(&who, message("lead", "x"));
    t.refused(unnamed, Code::NotFound, Reason::TeamNotFound, "team").await;

    let reading = t.console(&t.operator, true).await;
    t.coordinator.get_team(&reading, "beta").await.unwrap();
    t.refused(t.coordinator.create_team(&reading, &create("delta")), DENIED.0, DENIED.1, "").await;
    t.refused(t.coordinator.create_team(&reading, &create("no name")), DENIED.0, DENIED.1, "").await;
    t.refused(t.try_send(&reading, in_alpha(message("lead", "x"))), DENIED.0, DENIED.1, "").await;
    t.refused(t.try_revoke(&reading, "", &id_of(&who)), DENIED.0, DENIED.1, "").await;
    let directory = Namespace::directory();
    assert_eq!(t.clock.scan(&directory, "listed", "", 10).await.unwrap().len(), 3, "delta is not listed");

    let own = t.credentials(&t.operator, "").await;
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|found| found.acts_for() == CallerKind::Operator), "{own:?}");
    assert!(t.credentials(&t.operator, "alpha").await.is_empty());
    // It signs out, whichever team it looks at.
    t.try_revoke(&reading, "alpha", &id_of(&reading)).await.unwrap();
    t.refused(t.coordinator.look_up(&reading), REVOKED.0, REVOKED.1, "").await;
    t.try_revoke(&t.operator, "", &id_of(&who)).await.unwrap();
    t.refused(t.coordinator.look_up(&who), REVOKED.0, REVOKED.1, "").await;
    assert!(t.credentials(&t.operator, "").await.is_empty());
    // Without the look-up that says so, no one acts for the operator.
    let bare = CallerCredentials { operator_sign_in: None, ..who };
    t.refused(t.coordinator.get_team(&bare, "alpha"), Code::Unauthenticated, Reason::CredentialInvalid, "").await;
}

#[tokio::test]
async fn a_sign_in_of_a_former_operator_ends() {
    let t = Team::new().await;
    let who = t.console(&t.operator, false).await;
    let store: std::sync::Arc<dyn teamwire_server::store::Store> = t.clock.clone();
    let another =
        teamwire_server::coordinator::Coordinator::new(store, Default::default(), fixed("another operator's secret"))
            .await
            .unwrap();
    t.refused(another.look_up(&who), REVOKED.0, REVOKED.1, "").await;
}

#[tokio::test]
async fn codes_and_sign_ins_are_bounded_and_new_ones_replace_the_oldest() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut codes = Vec::new();
    for _ in 0..9 {
        codes.push(t.code(&bob, false).await);
    }
    t.refused(t.try_sign_in(&codes[0]), Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    t.try_sign_in(&codes[1]).await.unwrap();
    let first = t.console(&bob, false).await;
    let mut latest = Vec::new();
    for _ in 0..15 {
        latest.push(t.console(&bob, false).await);
    }
    t.coordinator.get_team(&first, "").await.unwrap();
    latest.push(t.console(&bob, false).await);
    t.refused(t.coordinator.get_team(&first, ""), REVOKED.0, REVOKED.1, "").await;
    for who in &latest {
        t.coordinator.get_team(who, "").await.unwrap();
    }
    // One that was ended leaves its place to another.
    t.try_revoke(&bob.who, "", &id_of(&latest[5])).await.unwrap();
    t.console(&bob, false).await;
    t.coordinator.get_team(&latest[0], "").await.unwrap();
    for _ in 0..40 {
        t.console(&bob, false).await;
    }
    assert_eq!(t.credentials(&bob.who, "").await.len(), 16);
    let count = async |kind| t.clock.scan(&t.namespace, kind, "", 10_000).await.unwrap().len();
    assert_eq!(count(ConsoleRecord::KIND).await, 32, "the latest that were ended are remembered");
    assert_eq!(count(SignInCodeRecord::KIND).await, 8);
}

#[tokio::test]
async fn members_see_and_revoke_their_own_sign_ins_and_leads_all_credentials() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let observer =
        presented(&t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential);
    let token = presented(&t.invite("zed").await);
    let (anns, bobs) = (t.console(&ann, true).await, t.console(&bob, false).await);
    let listed = t.credentials(&bobs, "").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0].is_calling && listed[0].member == "bob" && !listed[0].read_only, "{listed:?}");
    assert_eq!(listed[0].created_by.as_ref().unwrap().name, "bob");
    assert!(t.credentials(&observer, "").await.is_empty());
    for who in [&t.lead.who, &t.operator] {
        let team = if *who.credential.secret() == *t.operator.credential.secret() { "alpha" } else { "" };
        let listed = t.credentials(who, team).await;
        let mut ids = [id_of(&anns), id_of(&bobs)];
        ids.sort();
        let found: Vec<_> = listed.iter().map(|found| found.id.clone()).collect();
        assert_eq!(found[..2], ids);
        assert_eq!(found[2], id_of(&observer));
        // Three tokens have been used: those of ann and bob, and the one of zed has not.
        assert_eq!(found[3..], [id_of(&token)]);
        let kinds: Vec<_> = listed.iter().map(|found| found.kind()).collect();
        assert_eq!(kinds[1..], [CredentialKind::Console, CredentialKind::Observer, CredentialKind::JoinToken]);
        assert_eq!((listed[3].uses_left, listed[3].member.as_str()), (1, "zed"));
        assert!(listed.iter().all(|found| found.created_at.is_some() && found.expires_at.is_some()), "{listed:?}");
    }
    let mut pages = Vec::new();
    let mut request = v1::ListCredentialsRequest { page_size: 1, ..Default::default() };
    loop {
        let page = t.coordinator.list_credentials(&t.lead.who, &request).await.unwrap();
        pages.extend(page.credentials);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(pages, t.all_credentials(&t.lead.who, "").await);

    let not_found = (Code::NotFound, Reason::CredentialNotFound);
    for id in [id_of(&anns), id_of(&observer), id_of(&token), "unknown".to_owned()] {
        t.refused(t.try_revoke(&bobs, "", &id), not_found.0, not_found.1, "id").await;
        t.refused(t.try_revoke(&observer, "", &id), not_found.0, not_found.1, "id").await;
    }
    t.refused(t.try_revoke(&bobs, "", ""), Code::InvalidArgument, Reason::InvalidField, "id").await;
    t.try_revoke(&ann.who, "", &id_of(&anns)).await.unwrap();
    t.try_revoke(&ann.who, "", &id_of(&anns)).await.unwrap();
    t.refused(t.coordinator.get_team(&anns, ""), REVOKED.0, REVOKED.1, "").await;
    t.try_revoke(&t.operator, "alpha", &id_of(&bobs).to_uppercase()).await.unwrap();
    t.refused(t.coordinator.get_team(&bobs, ""), REVOKED.0, REVOKED.1, "").await;
    let events = t.team_events(TeamEventKind::CredentialRevoked).await;
    let found: Vec<_> =
        events.iter().map(|event| (event.actor.as_ref().unwrap().name.as_str(), event.member.as_str())).collect();
    assert_eq!(found, [("ann", "ann"), ("operator", "bob")], "a repeated call records nothing");
}

#[tokio::test]
async fn every_caller_can_ask_who_it_is_and_what_it_may_do() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let observer =
        presented(&t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential);
    let console = t.console(&t.lead, true).await;
    let request = v1::InviteRequest { host: true, ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.lead.who, &request).await.unwrap().join_token);
    let request = v1::JoinRequest { name: "rack".to_owned(), host: true, ..Default::default() };
    let host = presented(&t.try_join(&token, request).await.unwrap().credential);
    for (who, kind, member, is_lead, team, read_only, expires) in [
        (&t.operator, CallerKind::Operator, "", false, "", false, false),
        (&t.lead.who, CallerKind::Member, "lead", true, "alpha", false, false),
        (&bob.who, CallerKind::Member, "bob", false, "alpha", false, false),
        (&observer, CallerKind::Observer, "", false, "alpha", true, true),
        (&console, CallerKind::Member, "lead", true, "alpha", true, true),
        (&host, CallerKind::Host, "rack", false, "alpha", false, false),
    ] {
        let found = t.coordinator.get_caller(who).await.unwrap();
        assert_eq!((found.kind(), found.member.as_str(), found.is_lead), (kind, member, is_lead), "{who:?}");
        assert_eq!((found.team.as_str(), found.read_only), (team, read_only), "{who:?}");
        assert_eq!(found.expires_at.is_some(), expires, "{who:?}");
    }
    t.refused(t.coordinator.create_sign_in_code(&host, &Default::default()), DENIED.0, DENIED.1, "").await;
    t.refused(t.try_revoke(&host, "", "x"), DENIED.0, DENIED.1, "").await;
}

#[tokio::test]
async fn the_last_use_is_recorded_once_a_minute() {
    let mut t = Team::new().await;
    let console = t.console(&t.lead, false).await;
    let used_at = async |t: &Team| t.credentials(&t.lead.who, "").await[0].last_used_at;
    let first = used_at(&t).await.unwrap();
    t.pass(Duration::from_secs(30)).await;
    t.coordinator.look_up(&console).await.unwrap();
    assert_eq!(used_at(&t).await, Some(first));
    t.pass(Duration::from_secs(31)).await;
    t.coordinator.get_team(&t.lead.who, "").await.unwrap();
    assert_eq!(used_at(&t).await, Some(first), "another's call does not count");
    t.coordinator.look_up(&console).await.unwrap();
    assert!(used_at(&t).await.unwrap().seconds >= first.seconds + 60);
}

#[tokio::test]
async fn a_call_from_the_console_does_not_renew_the_members_lease() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let console = t.console(&bob, false).await;
    t.pass(Duration::from_secs(20)).await;
    let until = async |t: &Team| t.leases().await.until_ms["bob"];
    let before = until(&t).await;
    for (who, renews) in [(&console, false), (&bob.who, true)] {
        let heartbeats = Heartbeats::default();
        heartbeats.record_caller(who);
        heartbeats.write(&t.coordinator).await;
        assert_eq!(until(&t).await > before, renews, "{who:?}");
    }
}

#[tokio::test]
async fn the_open_sessions_of_a_team_are_renewed_together() {
    let (t, [bob, carol]) = Team::of(["bob", "carol"]).await;
    let _open = t.open(&bob).await;
    t.clock.advance(Duration::from_secs(20));
    let heartbeats = Heartbeats::default();
    let before = t.leases().await.until_ms;
    heartbeats.record_caller(&t.lead.who);
    heartbeats.write(&t.coordinator).await;
    let renewed = t.leases().await.until_ms;
    for (member, renews) in [("lead", true), ("bob", true), ("carol", false)] {
        assert_eq!(renewed[member] > before[member], renews, "{member}");
    }
    t.clock.advance(Duration::from_secs(1));
    heartbeats.record_caller(&bob.who);
    heartbeats.record_caller(&carol.who);
    heartbeats.write(&t.coordinator).await;
    let now = t.leases().await.until_ms;
    assert!(now["carol"] > renewed["carol"], "it calls, and has no recent heartbeat");
    assert_eq!(now["bob"], renewed["bob"], "his is recent");
}

#[tokio::test]
async fn ended_sign_ins_and_codes_are_forgotten_after_a_day() {
    let mut t = Team::new().await;
    let console = t.console(&t.lead, false).await;
    let (directory, alpha) = (Namespace::directory(), t.namespace.clone());
    t.console(&t.operator, false).await;
    t.pass(Duration::from_secs(31 * 60 * 60)).await;
    t.coordinator.delete_old(&alpha).await.unwrap();
    t.coordinator.trim_sign_ins(&directory).await.unwrap();
    t.refused(t.coordinator.get_team(&console, ""), Code::Unauthenticated, Reason::CredentialExpired, "").await;
    t.pass(2 * HOUR).await;
    t.coordinator.delete_old(&alpha).await.unwrap();
    t.coordinator.trim_sign_ins(&directory).await.unwrap();
    for namespace in [&alpha, &directory] {
        for kind in [ConsoleRecord::KIND, SignInCodeRecord::KIND] {
            assert_eq!(t.clock.scan(namespace, kind, "", 10).await.unwrap().len(), 0, "{kind}");
        }
    }
    t.refused(t.coordinator.get_team(&console, ""), Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    // The lists of dead ids do no harm.
    assert!(t.credentials(&t.lead.who, "").await.is_empty());
    t.console(&t.lead, false).await;
}

#[tokio::test]
async fn a_removed_member_leaves_no_list_of_sign_ins() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.console(&bob, false).await;
    t.leave(&bob).await;
    t.pass(8 * 24 * HOUR).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert_eq!(t.clock.scan(&t.namespace, SignInsRecord::KIND, "", 10).await.unwrap().len(), 0);
}

#[tokio::test]
async fn the_lead_sees_the_credential_of_each_life_with_its_last_use() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let members: Vec<_> = t.all_credentials(&t.operator, "alpha").await.into_iter().map(|found| found.member).collect();
    assert!(["lead", "ann", "bob"].iter().all(|name| members.contains(&(*name).to_owned())), "{members:?}");
    assert!(t.all_credentials(&bob.who, "").await.is_empty(), "a teammate sees none");
    let anns = t.credential_of("ann").await.unwrap();
    assert_eq!((anns.acts_for(), anns.is_calling, anns.expires_at), (CallerKind::Member, false, None));
    assert!(t.credential_of("lead").await.unwrap().is_calling);
    assert_eq!(t.coordinator.get_caller(&ann.who).await.unwrap().credential_id, anns.id);
    t.pass(Duration::from_secs(20)).await;
    t.coordinator.heartbeat(&ann.who, &Default::default()).await.unwrap();
    let used = |found: Option<v1::Credential>| found.unwrap().last_used_at.unwrap().seconds;
    let (ann_used, bob_used) = (used(t.credential_of("ann").await), used(t.credential_of("bob").await));
    assert!((19..=21).contains(&(ann_used - bob_used)), "{ann_used} {bob_used}");
    // Each life has another one; those that no call accepts are not listed.
    let renewed = t.rejoin(&ann).await;
    let anns_now = t.credential_of("ann").await.unwrap().id;
    assert_ne!(anns_now, anns.id);
    let not_found = (Code::NotFound, Reason::CredentialNotFound);
    t.refused(t.try_revoke(&t.lead.who, "", &anns.id), not_found.0, not_found.1, "id").await;
    t.leave(&renewed).await;
    assert_eq!(t.credential_of("ann").await.unwrap().id, anns_now, "it may join again");
    t.try_force(&t.lead, "bob").await.unwrap();
    assert_eq!(t.credential_of("bob").await, None);
}

#[tokio::test]
async fn a_revoked_credential_is_refused_everywhere_and_the_member_stays() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.send(&t.lead, message("bob", "unread")).await;
    let task = v1::CreateTaskRequest { subject: "paint".to_owned(), ..Default::default() };
    t.coordinator.create_task(&t.lead.who, &task).await.unwrap();
    t.coordinator.claim_task(&bob.who, &v1::ClaimTaskRequest { task_id: 1, ..Default::default() }).await.unwrap();
    let (page, late) = (t.console(&bob, false).await, t.code(&bob, false).await);
    let own = t.credential_of("lead").await.unwrap().id;
    t.refused(t.try_revoke(&t.lead.who, "", &own), DENIED.0, DENIED.1, "id").await;
    let bobs = t.credential_of("bob").await.unwrap().id;
    t.refused(t.try_revoke(&ann.who, "", &bobs), Code::NotFound, Reason::CredentialNotFound, "id").await;
    t.coordinator.refuse_revoked(&bob.who).await.unwrap();

    t.try_revoke(&t.lead.who, "", &bobs.to_uppercase()).await.unwrap();
    t.try_revoke(&t.lead.who, "", &bobs).await.unwrap();
    let events = t.team_events(TeamEventKind::CredentialRevoked).await;
    assert_eq!(events.len(), 1, "a repeated call records nothing: {events:?}");
    assert_eq!((events[0].credential(), events[0].member.as_str()), (CredentialKind::Member, "bob"));
    assert_eq!(t.credential_of("bob").await, None);

    let c = &t.coordinator;
    t.refused(t.try_send(&bob, message("lead", "x")), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.get_team(&bob.who, ""), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.open_session(&bob.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.heartbeat(&bob.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.leave(&bob.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
    t.refused(t.try_join(&bob.who, Default::default()), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.create_sign_in_code(&bob.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
    t.refused(c.get_team(&page, ""), REVOKED.0, REVOKED.1, "").await;
    t.refused(t.try_sign_in(&late), REVOKED.0, REVOKED.1, "").await;
    assert!(!c.look_up(&bob.who).await.unwrap().is_current);
    let namespace = &t.namespace;
    let name = teamwire_proto::name::Name::parse("bob", "name").unwrap();
    assert!(c.revoked_member(namespace, &name).await.unwrap().is_some());

    // The member is still there, with its inbox and its claim.
    let members = c.list_members(&t.lead.who, &all_members("")).await.unwrap().members;
    let bob_now = members.iter().find(|member| member.name == "bob").unwrap();
    assert_eq!((bob_now.exit.as_ref(), bob_now.incarnation), (None, 1));
    let claimed = c.get_task(&t.lead.who, "", 1).await.unwrap();
    assert_eq!(claimed.task.unwrap().owner, "bob");

    // Only a token bound to its name lets it come back, and at once.
    let any = presented(&c.invite(&t.lead.who, &Default::default()).await.unwrap().join_token);
    let named = || v1::JoinRequest { name: "bob".to_owned(), ..Default::default() };
    t.refused(t.try_join(&any, named()), Code::AlreadyExists, Reason::MemberExists, "name").await;
    let back = t.join("bob").await;
    assert_eq!(t.inbox(&back).await.len(), 1);
    t.refused(t.try_send(&bob, message("lead", "x")), Code::Aborted, Reason::SessionSuperseded, "").await;
    c.refuse_revoked(&back.who).await.unwrap();
}

#[tokio::test]
async fn the_operator_takes_a_leads_credential_back_and_admits_the_lead_again() {
    let t = Team::new().await;
    let own = t.credential_of("lead").await.unwrap().id;
    t.try_revoke(&t.operator, "alpha", &own).await.unwrap();
    t.refused(t.coordinator.invite(&t.lead.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
    let request = v1::InviteRequest { team: "alpha".to_owned(), member: "lead".to_owned(), ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.operator, &request).await.unwrap().join_token);
    let back = t.try_join(&token, Default::default()).await.unwrap();
    assert_eq!(back.member.unwrap().role(), v1::Role::Lead);
}

#[tokio::test]
async fn a_revoked_member_is_lost_like_one_whose_process_died() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.revoke_member("bob").await;
    // Whatever its coordinator still counts as a heartbeat renews nothing.
    let lead = t.lead.clone();
    t.pass_and_run_due(Duration::from_secs(46), &[&lead, &bob]).await;
    assert_eq!(t.member("bob").await.state(), v1::MemberState::Lost);
    t.refused(t.coordinator.heartbeat(&bob.who, &Default::default()), REVOKED.0, REVOKED.1, "").await;
}

#[tokio::test]
async fn a_host_whose_credential_is_revoked_takes_no_orders() {
    let t = Team::new().await;
    let request = v1::InviteRequest { host: true, ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.lead.who, &request).await.unwrap().join_token);
    let request = v1::JoinRequest { name: "rack".to_owned(), host: true, ..Default::default() };
    let host = presented(&t.try_join(&token, request).await.unwrap().credential);
    assert_eq!(t.credential_of("rack").await.unwrap().acts_for(), CallerKind::Host);
    t.revoke_member("rack").await;
    t.refused(t.coordinator.open_session(&host, &Default::default()), REVOKED.0, REVOKED.1, "").await;
}

#[tokio::test]
async fn a_replaced_secret_of_the_operator_is_accepted_until_its_end() {
    let t = Team::new().await;
    let page = t.console(&t.operator, false).await;
    let hash = teamwire_server::domain::secret::SecretHash::of;
    let present = "another operator's secret";
    let end_ms = t.coordinator.now_ms() + 60_000;
    let secrets = teamwire_server::domain::secret::OperatorSecrets::new(
        [hash(present)],
        [(hash(t.operator.credential.secret()), end_ms)],
    );
    let (change, operator) = tokio::sync::watch::channel(secrets);
    let store: std::sync::Arc<dyn teamwire_server::store::Store> = t.clock.clone();
    let another = teamwire_server::coordinator::Coordinator::new(store, Default::default(), operator).await.unwrap();
    another.refuse_revoked(&t.operator).await.unwrap();
    assert!(another.look_up(&page).await.unwrap().operator_sign_in.is_some());
    let new = CallerCredentials::new(Credential::Operator { secret: present.to_owned() }, None);
    another.list_teams(&new, &Default::default()).await.unwrap();
    another.list_teams(&t.operator, &Default::default()).await.unwrap();
    change.send_replace(teamwire_server::domain::secret::OperatorSecrets::from(hash(present)));
    t.refused(another.refuse_revoked(&t.operator), REVOKED.0, REVOKED.1, "").await;
    t.refused(
        another.list_teams(&t.operator, &Default::default()),
        Code::Unauthenticated,
        Reason::CredentialInvalid,
        "",
    )
    .await;
    t.refused(another.look_up(&page), REVOKED.0, REVOKED.1, "").await;
    another.list_teams(&new, &Default::default()).await.unwrap();
}

#[tokio::test]
async fn only_the_operators_own_credential_makes_a_backup() {
    let (t, [bob]) = Team::of(["bob"]).await;
    for who in [&bob.who, &t.lead.who] {
        t.refused(t.coordinator.backup(who), Code::PermissionDenied, Reason::OperatorOnly, "").await;
    }
    for read_only in [false, true] {
        let console = t.console(&t.operator, read_only).await;
        t.refused(t.coordinator.backup(&console), DENIED.0, DENIED.1, "").await;
    }
    let mut pieces = t.coordinator.backup(&t.operator).await.unwrap();
    let mut all = Vec::new();
    while let Some(piece) = pieces.recv().await {
        all.extend_from_slice(&piece.unwrap());
    }
    let (header, counts) = backup::Reader::new(all.as_slice()).check().unwrap();
    assert_eq!((header.store.as_str(), counts.namespaces), (t.coordinator.store().kind(), 2));
}
