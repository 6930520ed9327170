//! Messages to the members that have a tag, and who sets tags.

use futures::future::join_all;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, Activity, message::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

fn set(member: &str, add: &[&str], remove: &[&str]) -> v1::SetTagsRequest {
    let [add, remove] = [add, remove].map(|tags| tags.iter().map(|tag| (*tag).to_owned()).collect());
    v1::SetTagsRequest { member: member.to_owned(), add, remove, ..Default::default() }
}

async fn try_set(t: &Team, by: &Member, request: v1::SetTagsRequest) -> Result<v1::Member, Refusal> {
    t.coordinator.set_tags(&by.who, &request).await
}

async fn tag(t: &Team, member: &str, tags: &[&str]) {
    t.coordinator.set_tags(&t.lead.who, &set(member, tags, &[])).await.unwrap();
}

async fn tags_of(t: &Team, member: &str) -> Vec<String> {
    t.member(member).await.tags
}

#[tokio::test]
async fn message_to_a_tag_of_300_members_reaches_exactly_those_that_have_it_or_no_one() {
    on_each_store(|store| async {
        let t = Team::on(store, |limits| {
            limits.members_max = 400;
            limits.inbox_entries_max = 20;
        })
        .await;
        let mut members = Vec::new();
        for n in 0..310 {
            members.push(t.join(&format!("m{n}")).await);
        }
        for member in &members[..301] {
            tag(&t, &member.name, &["API"]).await;
        }
        t.coordinator.set_tags(&t.lead.who, &set("m300", &[], &["api"])).await.unwrap();
        // m0 has the tag, too, and does not write to itself.
        let sent = t.send(&members[0], message("@api", "the schema has changed")).await;
        assert_eq!(sent.recipients.len(), 299);
        let inboxes = join_all(members.iter().map(|member| t.inbox(member))).await;
        for (n, inbox) in inboxes.iter().enumerate() {
            let got: Vec<&str> = inbox.iter().map(|message| message.id.as_str()).collect();
            let expected = if (1..300).contains(&n) { vec![sent.message_id.as_str()] } else { vec![] };
            assert_eq!(got, expected, "m{n}");
        }
        assert_eq!(t.receipts(&sent.message_id).await.len(), 299);
        let Some(Body::Broadcast(body)) = &inboxes[1][0].body else { panic!("no broadcast: {:?}", inboxes[1][0]) };
        assert_eq!((body.tag.as_str(), body.content.as_str()), ("api", "the schema has changed"));

        // One full inbox, and no one gets it.
        while t.try_send(&members[0], message("m7", "more")).await.is_ok() {}
        let refused = t.try_send(&members[0], message("@api", "again"));
        let refusal = t.refused(refused, Code::ResourceExhausted, Reason::InboxFull, "").await;
        assert_eq!(refusal.metadata.get("member").map(String::as_str), Some("m7"));
        assert_eq!(t.inbox(&members[8]).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn those_that_have_the_tag_when_it_is_sent_get_a_message_while_tags_change() {
    on_each_store(|store| async {
        let t = Team::on(store, |_| {}).await;
        let members = t.join_all(["a", "b", "c", "d"]).await;
        for member in &members {
            tag(&t, &member.name, &["x"]).await;
        }
        let other = t.another_coordinator().await;
        let (request, off, on) = (message("@x", "hi"), set("b", &[], &["x"]), set("b", &["x"], &[]));
        for _ in 0..20 {
            let change = async {
                other.set_tags(&t.lead.who, &off).await.unwrap();
                other.set_tags(&t.lead.who, &on).await.unwrap();
            };
            let ((), sent) = futures::join!(change, t.send(&t.lead, request.clone()));
            let receipts: Vec<String> =
                t.receipts(&sent.message_id).await.into_iter().map(|receipt| receipt.recipient).collect();
            assert_eq!(receipts, sent.recipients);
            assert!(sent.recipients.len() == 4 || sent.recipients == ["a", "c", "d"], "{:?}", sent.recipients);
        }
    })
    .await;
}

#[tokio::test]
async fn only_the_lead_and_the_operator_set_tags() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let c = &t.coordinator;
    for member in ["bob", "eve"] {
        let own = try_set(&t, &bob, set(member, &["api"], &[]));
        t.refused(own, Code::PermissionDenied, Reason::LeadOnly, "").await;
    }
    let in_team = v1::SetTagsRequest { team: "alpha".to_owned(), ..set("bob", &["db"], &[]) };
    assert_eq!(c.set_tags(&t.operator, &in_team).await.unwrap().tags, ["db"]);
    tag(&t, "bob", &["API", "db"]).await;
    assert_eq!(tags_of(&t, "bob").await, ["API", "db"]);
    for (request, reason, field) in [
        (set("bob", &[], &[]), Reason::InvalidField, "add"),
        (set("bob", &["any"], &[]), Reason::InvalidName, "add"),
        (set("bob", &["a b"], &[]), Reason::InvalidName, "add"),
        (set("", &["a"], &[]), Reason::MissingRecipient, "member"),
        (set("nobody", &["a"], &[]), Reason::AgentNotFound, "member"),
    ] {
        let refusal = c.set_tags(&t.lead.who, &request).await.unwrap_err();
        assert_eq!((refusal.reason, refusal.field.as_deref()), (reason, Some(field)), "{refusal}");
    }
    let many: Vec<String> = (0..15).map(|n| format!("t{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    t.refused(try_set(&t, &t.lead, set("bob", &many, &[])), Code::InvalidArgument, Reason::InvalidField, "tags").await;
    assert_eq!(tags_of(&t, "bob").await.len(), 2, "nothing was changed");
    drop(eve);
}

#[tokio::test]
async fn tags_outlive_a_life_and_cannot_be_taken_with_a_name() {
    let (t, [bob]) = Team::of(["bob"]).await;
    tag(&t, "bob", &["api"]).await;
    let bob = t.rejoin(&bob).await;
    assert_eq!(tags_of(&t, "bob").await, ["api"]);
    t.leave(&bob).await;
    let open = t.coordinator.invite(&t.lead.who, &v1::InviteRequest::default()).await.unwrap().join_token;
    let join = v1::JoinRequest { name: "bob".to_owned(), ..Default::default() };
    t.coordinator.join(&presented(&open), &join).await.unwrap();
    assert!(tags_of(&t, "bob").await.is_empty(), "it chose the name");

    let tags = vec!["api".to_owned(), "db".to_owned()];
    let invite = v1::InviteRequest { member: "eve".to_owned(), tags: tags.clone(), ..Default::default() };
    let token = t.coordinator.invite(&t.lead.who, &invite).await.unwrap().join_token;
    t.coordinator.join(&presented(&token), &v1::JoinRequest::default()).await.unwrap();
    assert_eq!(tags_of(&t, "eve").await, tags);
    let host = v1::InviteRequest { host: true, tags, ..Default::default() };
    t.refused(t.coordinator.invite(&t.lead.who, &host), Code::InvalidArgument, Reason::InvalidField, "tags").await;
}

#[tokio::test]
async fn any_goes_to_an_idle_member_with_the_fewest_messages() {
    let (t, [a, b, c, d]) = Team::of(["a", "b", "c", "d"]).await;
    for name in ["a", "b", "c"] {
        tag(&t, name, &["api"]).await;
    }
    for (member, activity) in [(&a, Activity::Active), (&b, Activity::Idle), (&c, Activity::Idle), (&d, Activity::Idle)]
    {
        t.heartbeat(member, activity, "").await;
    }
    t.send(&d, message("b", "something else")).await;
    let first = t.send(&d, message("@any:api", "1")).await;
    assert_eq!((first.recipients, first.warnings), (vec!["c".to_owned()], vec![]));
    let Some(Body::Message(body)) = t.inbox(&c).await.remove(0).body else { panic!("no message") };
    assert_eq!(body.recipient, "c");
    // Both have one now; a is busy, though its inbox is empty.
    let second = t.send(&d, message("@any:api", "2")).await.recipients;
    assert!(second == ["b"] || second == ["c"], "{second:?}");
    let own = t.send(&b, message("@any:api", "3")).await.recipients;
    assert_ne!(own, ["b"]);
    for member in [&b, &c] {
        t.heartbeat(member, Activity::Active, "").await;
    }
    let busy = t.send(&d, message("@any:api", "4")).await;
    assert_eq!(busy.recipients, ["a"]);
    assert!(busy.warnings[0].contains("No member that has the tag \"api\" is idle"), "{:?}", busy.warnings);
}

#[tokio::test]
async fn repeated_message_to_any_reports_the_member_that_it_went_to() {
    let (t, [a, b]) = Team::of(["a", "b"]).await;
    for member in [&a, &b] {
        tag(&t, &member.name, &["api"]).await;
        t.heartbeat(member, Activity::Idle, "").await;
    }
    let request = v1::SendRequest { idempotency_key: "k".to_owned(), ..message("@any:api", "1") };
    let first = t.send(&t.lead, request.clone()).await;
    let again = t.send(&t.lead, request).await;
    assert_eq!((first.recipients, true), (again.recipients, again.replayed));
    assert_eq!(t.inbox(&a).await.len() + t.inbox(&b).await.len(), 1);
}

#[tokio::test]
async fn tag_that_reaches_no_one_is_refused_with_the_tags_that_there_are() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let none = t.try_send(&t.lead, message("@api", "x"));
    let refusal = t.refused(none, Code::NotFound, Reason::AgentNotFound, "recipient").await;
    assert!(refusal.message.contains("teamwire tag"), "{refusal}");
    tag(&t, "bob", &["db"]).await;
    for to in ["@api", "@any:api"] {
        let refusal =
            t.refused(t.try_send(&t.lead, message(to, "x")), Code::NotFound, Reason::AgentNotFound, "recipient").await;
        assert!(refusal.message.contains("Its tags are: db."), "{refusal}");
    }
    t.refused(t.try_send(&bob, message("@db", "x")), Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
    t.leave(&bob).await;
    t.refused(t.try_send(&eve, message("@db", "x")), Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
    // Requests go to one member by name.
    t.refused(t.try_send(&t.lead, shutdown("@db")), Code::InvalidArgument, Reason::InvalidName, "recipient").await;
}
