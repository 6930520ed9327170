//! Who a caller is, and what it can learn.

use std::time::Duration;

use teamwire_proto::{Reason, credential::Credential, v1};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

/// The same credential with another secret.
fn forged(member: &Member) -> Member {
    let (front, secret) = member.credential.rsplit_once(':').unwrap();
    Member::new(&member.name, &format!("{front}:{}", "0".repeat(secret.len())))
}

#[tokio::test]
async fn nonexistent_and_foreign_objects_are_refused_alike() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.coordinator.create_team(&t.operator, &create("beta")).await.unwrap();
    let secret = "f".repeat(40);
    let mut refusals = Vec::new();
    for credential in [
        forged(&bob).credential,
        format!("twm:alpha:zed:{secret}"),
        format!("twm:gamma:bob:{secret}"),
        format!("twv:alpha:0123:{secret}"),
        format!("two:{secret}"),
    ] {
        let who = presented(&credential);
        let request = in_alpha(message("lead", "x"));
        let own = v1::SendRequest { team: String::new(), ..request.clone() };
        let request = if credential.starts_with("two") { request } else { own };
        let call = t.try_send(&who, request);
        refusals.push(t.refused(call, Code::Unauthenticated, Reason::CredentialInvalid, "").await);
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");

    // A team that is not one's own is as unknown as one that is not there.
    let mut refusals = Vec::new();
    for team in ["beta", "zeta"] {
        let call = t.coordinator.get_team(&bob.who, team);
        let refusal = t.refused(call, Code::NotFound, Reason::TeamNotFound, "team").await;
        refusals.push(refusal.message.replace(team, "TEAM"));
        let call = t.try_send(&bob, v1::SendRequest { team: team.to_owned(), ..message("lead", "x") });
        t.refused(call, Code::NotFound, Reason::TeamNotFound, "team").await;
        let stranger = forged(&bob);
        let call = t.coordinator.get_team(&stranger.who, team);
        t.refused(call, Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    }
    assert_eq!(refusals[0], refusals[1]);
    let join = presented(&format!("twj:alpha:0123:{secret}"));
    let there = t.try_join(&join, Default::default()).await.unwrap_err();
    let join = presented(&format!("twj:gamma:0123:{secret}"));
    assert_eq!(t.try_join(&join, Default::default()).await.unwrap_err(), there);
    assert_eq!(there.reason, Reason::CredentialInvalid);
}

#[tokio::test]
async fn a_credential_is_valid_while_it_can_still_be_used() {
    let (mut t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let token = presented(&t.invite("ann").await);
    let request =
        v1::CreateObserverRequest { ttl: Some(prost_types::Duration { seconds: 60, nanos: 0 }), ..Default::default() };
    let observer = presented(&t.coordinator.create_observer(&t.lead.who, &request).await.unwrap().credential);
    let again = t.try_join(&bob, v1::JoinRequest::default()).await.unwrap();
    t.leave(&eve).await;
    for (who, holds) in [
        (&t.operator, true),
        (&t.lead.who, true),
        (&presented(&again.credential), true),
        (&bob.who, false),
        (&eve.who, true),
        (&token, true),
        (&observer, true),
    ] {
        assert_eq!(t.coordinator.holds(who).await, Ok(holds), "{who:?}");
    }
    let secret = "f".repeat(40);
    for front in ["two", "twm:alpha:bob", "twm:alpha:zed", "twm:gamma:bob", "twj:alpha:0123", "twv:alpha:0123"] {
        let stranger = presented(&format!("{front}:{secret}"));
        let call = t.coordinator.holds(&stranger);
        t.refused(call, Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    }
    t.pass(Duration::from_secs(20 * 60)).await;
    assert_eq!(t.coordinator.holds(&token).await, Ok(false), "the token's own call says why");
    let call = t.coordinator.holds(&observer);
    t.refused(call, Code::Unauthenticated, Reason::CredentialExpired, "").await;
}

#[tokio::test]
async fn the_operator_must_name_a_team_that_exists() {
    let t = Team::new().await;
    let unnamed = t.try_send(&t.operator, message("lead", "x"));
    t.refused(unnamed, Code::NotFound, Reason::TeamNotFound, "team").await;
    let absent = v1::SendRequest { team: "zeta".to_owned(), ..message("lead", "x") };
    t.refused(t.try_send(&t.operator, absent), Code::NotFound, Reason::TeamNotFound, "team").await;
    let sent = t.send(&t.operator, v1::SendRequest { team: "ALPHA".to_owned(), ..message("lead", "x") }).await;
    assert_eq!(sent.recipients, ["lead"]);
    assert_eq!(t.inbox(&t.lead).await[0].sender.as_ref().unwrap().kind(), v1::SenderKind::Operator);
}

#[tokio::test]
async fn an_observer_reads_everything_and_changes_nothing_until_it_expires() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&bob, message("lead", "x")).await.message_id;
    let reply = t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap();
    let observer = presented(&reply.credential);
    let get = v1::GetMessageRequest { message_id: id, ..Default::default() };
    t.coordinator.get_message(&observer, &get).await.unwrap();
    assert_eq!(t.coordinator.list_members(&observer, &all_members("")).await.unwrap().members.len(), 2);
    let denied = (Code::PermissionDenied, Reason::NotPermitted);
    for request in [message("lead", "x"), broadcast("x"), shutdown("bob"), approve(&unknown_request()), plan("p")] {
        t.refused(t.try_send(&observer, request), denied.0, denied.1, "").await;
    }
    t.refused(t.coordinator.open_session(&observer, &Default::default()), denied.0, denied.1, "").await;
    t.refused(t.coordinator.list_inbox(&observer, &Default::default()), denied.0, denied.1, "").await;
    t.refused(t.coordinator.acknowledge(&observer, &Default::default()), denied.0, denied.1, "").await;
    t.refused(t.coordinator.heartbeat(&observer, &Default::default()), denied.0, denied.1, "").await;
    t.refused(t.coordinator.leave(&observer, &Default::default()), denied.0, denied.1, "").await;
    t.refused(t.try_join(&observer, Default::default()), denied.0, denied.1, "").await;
    t.refused(t.try_delete(&observer), Code::PermissionDenied, Reason::LeadOnly, "").await;
    t.pass(Duration::from_secs(24 * 60 * 60)).await;
    let late = t.coordinator.get_team(&observer, "");
    t.refused(late, Code::Unauthenticated, Reason::CredentialExpired, "").await;
}

#[tokio::test]
async fn the_operator_and_a_join_token_have_no_inbox_and_no_life() {
    let t = Team::new().await;
    let token = presented(&t.invite("").await);
    let denied = (Code::PermissionDenied, Reason::NotPermitted);
    for who in [&t.operator, &token] {
        t.refused(t.coordinator.open_session(who, &Default::default()), denied.0, denied.1, "").await;
        t.refused(t.coordinator.list_inbox(who, &Default::default()), denied.0, denied.1, "").await;
        t.refused(t.coordinator.acknowledge(who, &Default::default()), denied.0, denied.1, "").await;
        t.refused(t.coordinator.heartbeat(who, &Default::default()), denied.0, denied.1, "").await;
        t.refused(t.coordinator.leave(who, &Default::default()), denied.0, denied.1, "").await;
    }
    t.refused(t.try_join(&t.operator, Default::default()), denied.0, denied.1, "").await;
    t.refused(t.try_send(&token, message("lead", "x")), denied.0, denied.1, "").await;
}

#[tokio::test]
async fn a_teammate_sees_the_messages_that_concern_it_and_no_others() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let secret = t.send(&t.lead, message("bob", "psst")).await.message_id;
    let get = v1::GetMessageRequest { message_id: secret, ..Default::default() };
    for who in [&t.lead, &bob] {
        assert_eq!(t.coordinator.get_message(&who.who, &get).await.unwrap().receipts.len(), 1);
    }
    let hidden = t.coordinator.get_message(&eve.who, &get);
    t.refused(hidden, Code::NotFound, Reason::MessageNotFound, "message_id").await;
}

#[tokio::test]
async fn secrets_are_long_never_stored_and_never_shown() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let token = t.invite("").await;
    let observer = t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap().credential;
    let kept = format!("{:?}", t.everything().await);
    for text in [&bob.credential, &t.lead.credential, &token, &observer] {
        let credential = Credential::parse(text).unwrap();
        assert!(credential.secret().len() >= 32, "128 bits in hexadecimal digits");
        assert!(!kept.contains(credential.secret()));
        assert!(!format!("{:?}", LogLine(&credential)).contains(credential.secret()));
    }
}

/// What a log line would show.
#[derive(Debug)]
struct LogLine<'a>(#[allow(dead_code)] &'a Credential);
