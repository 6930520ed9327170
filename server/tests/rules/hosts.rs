//! Hosts: orders as requests, reserved names, placement, fencing, and what a host's credential cannot do.

use std::time::Duration;

use teamwire_proto::{
    Reason, Refusal,
    v1::{
        self, CancelCause, DeadLetterCause, MemberState, NoticeKind, ReceiptState, RequestState, Role,
        event_subscription::Event, message::Body,
    },
};
use teamwire_server::delivery::Session;
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const SECOND: Duration = Duration::from_secs(1);

/// A host that offers the profile `claude`.
async fn host(t: &Team, name: &str, slots: u32) -> Member {
    let host = join_host(t, name).await;
    offer(t, &host, slots, &[]).await;
    host
}

async fn join_host(t: &Team, name: &str) -> Member {
    let invite = v1::InviteRequest { member: name.to_owned(), host: true, ..Default::default() };
    let token = t.coordinator.invite(&t.lead.who, &invite).await.unwrap().join_token;
    let reply = t.try_join(&presented(&token), as_host()).await.unwrap();
    assert_eq!(reply.member.as_ref().unwrap().role(), Role::Host);
    Member::new(name, &reply.credential)
}

fn as_host() -> v1::JoinRequest {
    v1::JoinRequest { host: true, ..Default::default() }
}

/// A new life of a host by its own credential.
async fn rejoin(t: &Team, host: &Member) -> Member {
    let reply = t.try_join(host, as_host()).await.unwrap();
    Member::new(&host.name, &reply.credential)
}

async fn offer(t: &Team, host: &Member, slots: u32, labels: &[(&str, &str)]) -> v1::Host {
    let profile = v1::HostProfile { name: "claude".to_owned(), ..Default::default() };
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let offer = v1::HostOffer { labels, profiles: vec![profile], slots, platform: "linux".to_owned() };
    t.coordinator.update_host(&host.who, &v1::UpdateHostRequest { offer: Some(offer) }).await.unwrap()
}

fn order(name: &str) -> v1::SpawnRequest {
    v1::SpawnRequest {
        name: name.to_owned(),
        profile: "claude".to_owned(),
        prompt: "You own the API.\nStart with task 3.".to_owned(),
        ..Default::default()
    }
}

async fn spawn(t: &Team, request: v1::SpawnRequest) -> v1::SpawnResponse {
    t.coordinator.spawn(&t.lead.who, &request).await.unwrap()
}

async fn order_id(t: &Team, name: &str) -> String {
    spawn(t, order(name)).await.request.unwrap().id
}

async fn try_take(t: &Team, host: &Member, id: &str) -> Result<v1::TakeOrderResponse, Refusal> {
    t.coordinator.take_order(&host.who, &v1::TakeOrderRequest { request_id: id.to_owned() }).await
}

async fn take(t: &Team, host: &Member, id: &str) -> String {
    try_take(t, host, id).await.unwrap().join_token
}

async fn join_with(t: &Team, token: &str) -> Result<Member, Refusal> {
    let reply = t.try_join(&presented(token), v1::JoinRequest::default()).await?;
    Ok(Member::new(&reply.member.unwrap().name, &reply.credential))
}

async fn try_refuse(t: &Team, host: &Member, id: &str, reason: &str, elsewhere: bool) -> Result<v1::Request, Refusal> {
    let request =
        v1::RefuseOrderRequest { request_id: id.to_owned(), reason: reason.to_owned(), try_another_host: elsewhere };
    t.coordinator.refuse_order(&host.who, &request).await
}

/// Returns the code with which the life ended.
async fn report_exit(t: &Team, host: &Member, id: &str, code: i32) -> Result<Option<i32>, Refusal> {
    let exit = Some(v1::ExitReport { code: Some(code), ..Default::default() });
    let report = v1::ReportExitRequest { request_id: id.to_owned(), exit };
    let reply = t.coordinator.report_exit(&host.who, &report).await?;
    Ok(reply.exit.and_then(|exit| exit.code))
}

async fn hosts(t: &Team) -> Vec<v1::Host> {
    let list = v1::ListHostsRequest { team: "alpha".to_owned(), ..Default::default() };
    t.coordinator.list_hosts(&t.operator, &list).await.unwrap().hosts
}

async fn orders_of(t: &Team, host: &Member) -> Vec<String> {
    let mut open = t.open(host).await;
    let mut found = Vec::new();
    // An order for nobody ends the list: it comes after all others.
    let last = spawn(t, v1::SpawnRequest { host: host.name.clone(), ..order("last") }).await.request.unwrap().id;
    loop {
        let message = open.delivery().await.message.unwrap();
        assert!(matches!(message.body, Some(Body::SpawnOrder(_))), "{message:?}");
        if message.request_id == last {
            return found;
        }
        found.push(message.request_id);
    }
}

#[tokio::test]
async fn a_member_is_ordered_taken_joined_and_started_by_its_first_session() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let ordered = spawn(&t, order("backend")).await;
    let (member, request) = (ordered.member.unwrap(), ordered.request.unwrap());
    assert_eq!((member.state(), &*member.spawned_on, member.incarnation), (MemberState::Spawning, "gpu-1", 1));
    assert_eq!((request.state(), &*request.approver, &*request.member), (RequestState::Pending, "gpu-1", "backend"));
    assert_eq!((request.incarnation, &*request.content), (1, "You own the API.\nStart with task 3."));
    t.send(&t.lead, message("backend", "and then task 4")).await;

    let mut inbox = t.open(&gpu).await;
    let delivered = inbox.delivery().await.message.unwrap();
    let Some(Body::SpawnOrder(body)) = delivered.body else { panic!("{delivered:?}") };
    assert_eq!((&*body.member, &*body.terms.unwrap().profile), ("backend", "claude"));
    let taken = try_take(&t, &inbox.member, &delivered.request_id).await.unwrap();
    assert_eq!(taken.request.unwrap().id, request.id);
    let backend = join_with(&t, &taken.join_token).await.unwrap();
    assert_eq!(t.request(&request.id).await.state(), RequestState::Pending, "it has joined, and has no session");
    let mut session = t.open(&backend).await;
    let contents = [session.delivery().await, session.delivery().await].map(|delivery| {
        let message = delivery.message.unwrap();
        (message.sender.unwrap().name, message.body.unwrap().text().to_owned())
    });
    let from_lead = |text: &str| ("lead".to_owned(), text.to_owned());
    assert_eq!(contents, [from_lead("You own the API.\nStart with task 3."), from_lead("and then task 4")]);

    let decided = t.request(&request.id).await;
    assert_eq!((decided.state(), &*decided.decided_by.unwrap().name), (RequestState::Approved, "backend"));
    let started = t.notices(&t.lead, NoticeKind::SpawnStarted).await;
    assert_eq!((&*started[0].member, &*started[0].text), ("backend", "backend has started on gpu-1."));
    let member = t.member("backend").await;
    assert_eq!((member.state(), &*member.pending_order, &*member.spawned_on), (MemberState::Active, "", "gpu-1"));
    assert_eq!(hosts(&t).await[0].slots_used, 1);
    t.leave(&backend).await;
    assert_eq!(hosts(&t).await[0].slots_used, 0);
}

#[tokio::test]
async fn a_repeated_order_with_the_same_key_is_one_order() {
    let t = Team::new().await;
    host(&t, "gpu-1", 2).await;
    let keyed = v1::SpawnRequest { idempotency_key: "k1".to_owned(), ..order("backend") };
    let first = spawn(&t, keyed.clone()).await;
    assert_eq!(spawn(&t, keyed.clone()).await, first);
    let other = v1::SpawnRequest { prompt: "something else".to_owned(), ..keyed };
    let reused = t.coordinator.spawn(&t.lead.who, &other);
    t.refused(reused, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;
}

#[tokio::test]
async fn only_the_lead_and_the_operator_order_members() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let gpu = host(&t, "gpu-1", 2).await;
    let request = order("backend");
    let by_teammate = t.coordinator.spawn(&bob.who, &request);
    t.refused(by_teammate, Code::PermissionDenied, Reason::LeadOnly, "").await;
    let by_host = t.coordinator.spawn(&gpu.who, &request);
    t.refused(by_host, Code::PermissionDenied, Reason::NotPermitted, "").await;
    let by_operator = v1::SpawnRequest { team: "alpha".to_owned(), ..order("backend") };
    t.coordinator.spawn(&t.operator, &by_operator).await.unwrap();
}

#[tokio::test]
async fn orders_are_checked_field_by_field() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    host(&t, "gpu-1", 2).await;
    let long = "x".repeat(1_001);
    let ttl = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let invalid = [
        (v1::SpawnRequest { dir: "../x".to_owned(), ..order("a") }, "dir"),
        (v1::SpawnRequest { dir: "/x".to_owned(), ..order("a") }, "dir"),
        (v1::SpawnRequest { dir: "x\\y".to_owned(), ..order("a") }, "dir"),
        (v1::SpawnRequest { dir: long, ..order("a") }, "dir"),
        (v1::SpawnRequest { ttl: ttl(0), ..order("a") }, "ttl"),
        (v1::SpawnRequest { ttl: ttl(3_601), ..order("a") }, "ttl"),
        (v1::SpawnRequest { restart: 99, ..order("a") }, "restart"),
        (v1::SpawnRequest { reschedule: true, host: "gpu-1".to_owned(), ..order("a") }, "reschedule"),
        (v1::SpawnRequest { labels: [(String::new(), "x".to_owned())].into(), ..order("a") }, "labels"),
    ];
    for (request, field) in invalid {
        let call = t.coordinator.spawn(&t.lead.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, field).await;
    }
    for (name, field) in [("", "name"), ("a b", "name"), ("operator", "name")] {
        let request = order(name);
        let call = t.coordinator.spawn(&t.lead.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidName, field).await;
    }
    let request = v1::SpawnRequest { prompt: "x".repeat(65_537), ..order("a") };
    let too_large = t.coordinator.spawn(&t.lead.who, &request);
    t.refused(too_large, Code::InvalidArgument, Reason::ContentTooLarge, "prompt").await;
    for taken in ["bob", "lead", "gpu-1"] {
        let request = order(taken);
        let call = t.coordinator.spawn(&t.lead.who, &request);
        t.refused(call, Code::AlreadyExists, Reason::MemberExists, "name").await;
    }
}

#[tokio::test]
async fn a_reserved_name_is_taken_for_everyone_else() {
    let t = Team::new().await;
    host(&t, "gpu-1", 2).await;
    order_id(&t, "backend").await;
    let request = order("BACKEND");
    let again = t.coordinator.spawn(&t.lead.who, &request);
    let refusal = t.refused(again, Code::AlreadyExists, Reason::MemberExists, "name").await;
    assert!(refusal.message.contains("about to start"), "{refusal}");
    let token = t.invite("backend").await;
    let by_another_token = join_with(&t, &token);
    t.refused(by_another_token, Code::AlreadyExists, Reason::MemberExists, "name").await;
    let deleted = t.try_delete(&t.lead);
    let refusal = t.refused(deleted, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    assert_eq!(refusal.metadata["backend"], "spawning");
    let shut_down = t.try_send(&t.lead, shutdown("backend"));
    t.refused(shut_down, Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
}

#[tokio::test]
async fn a_second_take_voids_the_first_token_so_one_order_starts_one_member() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    let (first, second) = (take(&t, &gpu, &id).await, take(&t, &gpu, &id).await);
    let stale = join_with(&t, &first);
    t.refused(stale, Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    let backend = join_with(&t, &second).await.unwrap();
    let again = join_with(&t, &second);
    t.refused(again, Code::Unauthenticated, Reason::JoinTokenUsed, "").await;
    let late = try_take(&t, &gpu, &id);
    t.refused(late, Code::FailedPrecondition, Reason::AlreadyDecided, "request_id").await;
    let _session = t.open(&backend).await;
    let decided = try_take(&t, &gpu, &id);
    t.refused(decided, Code::FailedPrecondition, Reason::AlreadyDecided, "request_id").await;
}

#[tokio::test]
async fn a_refused_order_frees_the_name_and_tells_the_lead_why() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let ordered = spawn(&t, order("backend")).await;
    let id = ordered.request.unwrap().id;
    let token = take(&t, &gpu, &id).await;
    for event in [Event::MemberExit("backend".to_owned()), Event::MemberIdle("backend".to_owned())] {
        let subscription = Some(v1::EventSubscription { event: Some(event), ..Default::default() });
        let subscribe = v1::SubscribeToEventRequest { subscription, ..Default::default() };
        assert!(!t.coordinator.subscribe_to_event(&t.lead.who, &subscribe).await.unwrap().happened);
    }
    let reason = "claude is not installed\nsh: 1: claude: not found";
    let refused = try_refuse(&t, &gpu, &id, reason, false).await.unwrap();
    assert_eq!((refused.state(), &*refused.reason), (RequestState::Rejected, reason));
    assert_eq!(try_refuse(&t, &gpu, &id, reason, false).await.unwrap(), refused, "repeating it is harmless");

    let told = t.notices(&t.lead, NoticeKind::SpawnFailed).await;
    assert!(told[0].text.contains("gpu-1 says: claude is not installed."), "{}", told[0].text);
    let ended = t.notices(&t.lead, NoticeKind::Subscription).await;
    let ended: Vec<&str> = ended.iter().map(|notice| notice.text.as_str()).collect();
    assert!(ended.len() == 2 && ended.iter().all(|text| text.starts_with("backend has not started: ")), "{ended:?}");
    let member = t.member("backend").await;
    assert_eq!(member.state(), MemberState::Exited);
    assert_eq!(member.exit.unwrap().detail, "gpu-1 did not start it: claude is not installed.");
    let receipt = t.receipts(&ordered.prompt_message_id).await.remove(0);
    assert_eq!(
        (receipt.state(), receipt.dead_letter_cause()),
        (ReceiptState::DeadLettered, DeadLetterCause::NotStarted)
    );
    assert!(join_with(&t, &token).await.is_err(), "the token is void");
    let taken = try_take(&t, &gpu, &id);
    t.refused(taken, Code::FailedPrecondition, Reason::AlreadyDecided, "request_id").await;
    assert_eq!(hosts(&t).await[0].slots_used, 0);

    let again = spawn(&t, v1::SpawnRequest { prompt: "Second try.".to_owned(), ..order("backend") }).await;
    let token = take(&t, &gpu, &again.request.unwrap().id).await;
    let mut session = t.open(&join_with(&t, &token).await.unwrap()).await;
    assert_eq!(session.delivery().await.message.unwrap().body.unwrap().text(), "Second try.");
    assert_eq!(session.opened.incarnation, 2);
}

#[tokio::test]
async fn an_unanswered_order_expires_and_frees_its_name() {
    let mut t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    let token = take(&t, &gpu, &id).await;
    let lead = t.lead.clone();
    t.pass_and_run_due(61 * SECOND, &[&lead, &gpu]).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Expired);
    assert_eq!(t.member("backend").await.state(), MemberState::Exited);
    assert_eq!(t.notices(&t.lead, NoticeKind::SpawnFailed).await.len(), 1);
    assert!(join_with(&t, &token).await.is_err(), "the token is void");
    let late = try_refuse(&t, &gpu, &id, "too late", false);
    t.refused(late, Code::FailedPrecondition, Reason::RequestExpired, "request_id").await;
    t.join("backend").await;
}

#[tokio::test]
async fn a_member_that_joined_and_never_opened_a_session_ends_with_its_order() {
    let mut t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let ordered =
        spawn(&t, v1::SpawnRequest { ttl: Some(prost_types::Duration { seconds: 5, nanos: 0 }), ..order("backend") })
            .await;
    let id = ordered.request.unwrap().id;
    let backend = join_with(&t, &take(&t, &gpu, &id).await).await.unwrap();
    let lead = t.lead.clone();
    t.pass_and_run_due(6 * SECOND, &[&lead, &gpu]).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Expired);
    assert_eq!(t.member("backend").await.state(), MemberState::Exited);
    let receipt = t.receipts(&ordered.prompt_message_id).await.remove(0);
    assert_eq!(receipt.dead_letter_cause(), DeadLetterCause::NotStarted);
    let send = t.try_send(&backend, message("lead", "hello"));
    t.refused(send, Code::FailedPrecondition, Reason::MemberStopped, "").await;
}

#[tokio::test]
async fn a_restart_before_the_first_session_keeps_the_order() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    let backend = join_with(&t, &take(&t, &gpu, &id).await).await.unwrap();
    let second = t.rejoin(&backend).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Pending);
    let mut session = t.open(&second).await;
    assert!(session.delivery().await.message.unwrap().body.unwrap().text().starts_with("You own the API."));
    assert_eq!(t.request(&id).await.state(), RequestState::Approved);
    assert_eq!(t.member("backend").await.spawned_on, "gpu-1");
}

#[tokio::test]
async fn a_forced_stop_cancels_an_order_that_is_pending() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let ordered = spawn(&t, order("backend")).await;
    let id = ordered.request.unwrap().id;
    let token = take(&t, &gpu, &id).await;
    assert_eq!(t.try_force(&t.lead, "backend").await.unwrap().state(), MemberState::Exited);
    let request = t.request(&id).await;
    assert_eq!((request.state(), request.cancel_cause()), (RequestState::Cancelled, CancelCause::Forced));
    assert!(join_with(&t, &token).await.is_err());
    let taken = try_take(&t, &gpu, &id);
    t.refused(taken, Code::FailedPrecondition, Reason::RequestCancelled, "request_id").await;
    assert_eq!(t.receipts(&ordered.prompt_message_id).await[0].dead_letter_cause(), DeadLetterCause::NotStarted);
}

#[tokio::test]
async fn a_full_host_passes_the_order_on_up_to_twice() {
    let t = Team::new().await;
    let mut offering = Vec::new();
    for name in ["a", "b", "c", "d"] {
        offering.push(host(&t, name, 4).await);
    }
    let id = order_id(&t, "backend").await;
    let tokens = [take(&t, &offering[0], &id).await];
    let moved = try_refuse(&t, &offering[0], &id, "full", true).await.unwrap();
    assert_eq!((moved.state(), &*moved.approver), (RequestState::Pending, "b"));
    assert!(join_with(&t, &tokens[0]).await.is_err(), "the first host's token is void");
    let not_its = try_take(&t, &offering[0], &id);
    t.refused(not_its, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    let moved = try_refuse(&t, &offering[1], &id, "full", true).await.unwrap();
    assert_eq!((&*moved.approver, moved.spawn.unwrap().refused_by), ("c", vec!["a".to_owned(), "b".to_owned()]));
    let ended = try_refuse(&t, &offering[2], &id, "full", true).await.unwrap();
    assert_eq!((ended.state(), &*ended.reason), (RequestState::Rejected, "full"));
}

#[tokio::test]
async fn an_order_for_a_named_host_is_not_passed_on() {
    let t = Team::new().await;
    let (_a, b) = (host(&t, "a", 4).await, host(&t, "b", 1).await);
    let id = spawn(&t, v1::SpawnRequest { host: "B".to_owned(), ..order("backend") }).await.request.unwrap().id;
    let ended = try_refuse(&t, &b, &id, "full", true).await.unwrap();
    assert_eq!(ended.state(), RequestState::Rejected);
}

#[tokio::test]
async fn placement_considers_leases_labels_and_free_slots() {
    let mut t = Team::new().await;
    let none = t.coordinator.spawn(&t.lead.who, &order("x")).await.unwrap_err();
    assert_eq!((none.reason, none.reason.code()), (Reason::NoHostFits, Code::FailedPrecondition));
    assert!(none.message.contains("teamwire invite --host"), "{none}");
    let (cpu, gpu) = (host(&t, "cpu", 2).await, join_host(&t, "gpu").await);
    offer(&t, &gpu, 4, &[("gpu", "a100")]).await;
    assert_eq!(spawn(&t, order("m1")).await.member.unwrap().spawned_on, "gpu");
    assert_eq!(spawn(&t, order("m2")).await.member.unwrap().spawned_on, "gpu");
    assert_eq!(spawn(&t, order("m3")).await.member.unwrap().spawned_on, "cpu", "as many are free: by name");
    let labeled = v1::SpawnRequest { labels: [("gpu".to_owned(), "a100".to_owned())].into(), ..order("m4") };
    assert_eq!(spawn(&t, labeled).await.member.unwrap().spawned_on, "gpu");
    let lead = t.lead.clone();
    t.pass_and_run_due(31 * SECOND, &[&lead, &cpu]).await;
    let request = v1::SpawnRequest { host: "gpu".to_owned(), ..order("m5") };
    let away = t.coordinator.spawn(&t.lead.who, &request);
    let refusal = t.refused(away, Code::FailedPrecondition, Reason::NoHostFits, "host").await;
    assert!(refusal.message.contains("gpu is not live"), "{refusal}");
    assert_eq!(spawn(&t, order("m6")).await.member.unwrap().spawned_on, "cpu");
    let request = order("m7");
    let full = t.coordinator.spawn(&t.lead.who, &request);
    let refusal = t.refused(full, Code::FailedPrecondition, Reason::NoHostFits, "host").await;
    assert!(refusal.message.contains("cpu is full (2 of 2 slots taken)"), "{refusal}");
}

#[tokio::test]
async fn two_hundred_orders_fit_exactly_into_their_slots() {
    let t = Team::with_limits(|limits| limits.members_max = 400).await;
    let mut offering = Vec::new();
    for number in 0..20 {
        offering.push(host(&t, &format!("h{number}"), 10).await);
    }
    let requests: Vec<_> = (0..200).map(|number| order(&format!("m{number}"))).collect();
    let all = requests.iter().map(|request| t.coordinator.spawn(&t.lead.who, request));
    let placed = futures::future::join_all(all).await;
    assert!(placed.iter().all(Result::is_ok), "{:?}", placed.iter().find(|placed| placed.is_err()));
    let list = v1::ListHostsRequest { team: "alpha".to_owned(), page_size: 7, ..Default::default() };
    let mut listed = Vec::new();
    let mut token = String::new();
    loop {
        let page = v1::ListHostsRequest { page_token: token, ..list.clone() };
        let page = t.coordinator.list_hosts(&t.operator, &page).await.unwrap();
        listed.extend(page.hosts);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(listed.iter().map(|host| host.slots_used).collect::<Vec<_>>(), [10; 20]);
    let one_more = t.coordinator.spawn(&t.lead.who, &order("m200")).await;
    assert_eq!(one_more.unwrap_err().reason, Reason::NoHostFits);
    let mut seen = std::collections::BTreeSet::new();
    for host in &offering {
        // Room for the order that ends the list.
        offer(&t, host, 11, &[]).await;
        for id in orders_of(&t, host).await {
            assert!(seen.insert(id), "no order is with two hosts");
        }
        t.try_force(&t.lead, "last").await.unwrap();
    }
    assert_eq!(seen.len(), 200);
}

#[tokio::test]
async fn a_host_reports_the_exit_that_its_runner_could_not() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    let backend = join_with(&t, &take(&t, &gpu, &id).await).await.unwrap();
    let _session = t.open(&backend).await;
    assert_eq!(report_exit(&t, &gpu, &id, 137).await, Ok(Some(137)));
    let member = t.member("backend").await;
    assert_eq!((member.state(), member.exit.unwrap().code), (MemberState::Exited, Some(137)));
    let before = t.history().await.len();
    assert_eq!(report_exit(&t, &gpu, &id, 1).await, Ok(Some(137)), "what is known already");
    assert_eq!(t.history().await.len(), before, "repeating it changes nothing");

    // A later life under the same name is not the order's.
    let successor = t.join("backend").await;
    assert_eq!(report_exit(&t, &gpu, &id, 1).await, Ok(None));
    t.send(&successor, message("lead", "still here")).await;
    let other = host(&t, "other", 1).await;
    let by_another = report_exit(&t, &other, &id, 1);
    t.refused(by_another, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
}

#[tokio::test]
async fn an_exit_before_the_member_joined_rejects_the_order() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    take(&t, &gpu, &id).await;
    assert_eq!(report_exit(&t, &gpu, &id, 127).await, Ok(None));
    let request = t.request(&id).await;
    assert_eq!(
        (request.state(), &*request.reason),
        (RequestState::Rejected, "Its runner ended before it joined: exit code 127.")
    );
}

#[tokio::test]
async fn a_hosts_credential_takes_orders_and_nothing_else() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let gpu = host(&t, "gpu-1", 4).await;
    let other = host(&t, "other", 1).await;
    let foreign = spawn(&t, v1::SpawnRequest { host: "other".to_owned(), ..order("m1") }).await.request.unwrap().id;
    t.send(&t.lead, message("bob", "secret")).await;
    let (c, who) = (&t.coordinator, &gpu.who);
    macro_rules! is_forbidden {
        ($($call:expr),* $(,)?) => {
            $(t.refused($call, Code::PermissionDenied, Reason::NotPermitted, "").await;)*
        };
    }
    let invite = v1::InviteRequest::default();
    let observer = v1::CreateObserverRequest::default();
    let bobs = v1::ListInboxRequest { member: "bob".to_owned(), ..Default::default() };
    let activity = v1::ListActivityRequest { member: "bob".to_owned(), ..Default::default() };
    let task = v1::CreateTaskRequest { subject: "x".to_owned(), ..Default::default() };
    let claim = v1::ClaimTaskRequest::default();
    let query = teamwire_server::coordinator::history::HistoryQuery { limit: 10, ..Default::default() };
    let level = v1::SetNoticeLevelRequest { level: v1::NoticeLevel::All.into(), ..Default::default() };
    let unknown = unknown_request();
    let withdraw = v1::WithdrawRequest { request_id: unknown.clone(), ..Default::default() };
    let reports = v1::ReportActivityRequest::default();
    let (add_rule, list_rules) = (v1::AddPermissionRuleRequest::default(), v1::ListPermissionRulesRequest::default());
    let (revoke_rule, use_rule) = (v1::RevokePermissionRuleRequest::default(), v1::UsePermissionRuleRequest::default());
    is_forbidden!(
        t.try_send(&gpu, message("lead", "hello")),
        t.try_send(&gpu, broadcast("hello")),
        t.try_send(&gpu, plan("a plan")),
        t.try_send(&gpu, permission("")),
        t.try_send(&gpu, approve(&foreign)),
        t.try_force(&gpu, "bob"),
        t.try_set_lead(&gpu, "gpu-1"),
        t.try_delete(&gpu),
        c.get_team(who, ""),
        c.invite(who, &invite),
        c.create_observer(who, &observer),
        c.set_notice_level(who, &level),
        c.set_tags(who, &v1::SetTagsRequest::default()),
        c.subscribe_to_event(who, &v1::SubscribeToEventRequest::default()),
        c.list_event_subscriptions(who, &v1::ListEventSubscriptionsRequest::default()),
        c.cancel_event_subscription(who, &v1::CancelEventSubscriptionRequest::default()),
        c.list_members(who, &v1::ListMembersRequest::default()),
        c.list_hosts(who, &v1::ListHostsRequest::default()),
        c.list_inbox(who, &bobs),
        c.list_activity(who, &activity),
        c.report_activity(who, &reports),
        c.create_task(who, &task),
        c.claim_task(who, &claim),
        c.list_tasks(who, &v1::ListTasksRequest::default()),
        c.list_requests(who, &v1::ListRequestsRequest::default()),
        c.get_request(who, "", &foreign),
        c.withdraw(who, &withdraw),
        c.add_permission_rule(who, &add_rule),
        c.list_permission_rules(who, &list_rules),
        c.revoke_permission_rule(who, &revoke_rule),
        c.use_permission_rule(who, &use_rule),
        c.history(who, "", &query),
        c.get_message(
            who,
            &v1::GetMessageRequest { message_id: uuid::Uuid::now_v7().to_string(), ..Default::default() }
        ),
    );
    let not_its = try_take(&t, &gpu, &foreign);
    t.refused(not_its, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    let not_its = try_refuse(&t, &gpu, &foreign, "no", false);
    t.refused(not_its, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    let missing = try_take(&t, &gpu, &unknown);
    t.refused(missing, Code::NotFound, Reason::RequestNotFound, "request_id").await;
    let shutdown_id = t.ask(&t.lead, shutdown("bob")).await;
    let not_an_order = try_take(&t, &gpu, &shutdown_id);
    t.refused(not_an_order, Code::FailedPrecondition, Reason::RequestKindMismatch, "request_id").await;
    let as_another = t.try_join(&gpu, v1::JoinRequest { name: "bob".to_owned(), ..as_host() });
    t.refused(as_another, Code::PermissionDenied, Reason::NotPermitted, "name").await;
    // A token of one order joins that member only.
    let token = take(&t, &other, &foreign).await;
    let request = v1::JoinRequest { name: "m2".to_owned(), ..Default::default() };
    let bearer = presented(&token);
    let other_name = t.try_join(&bearer, request);
    t.refused(other_name, Code::PermissionDenied, Reason::NotPermitted, "name").await;
    let by_member = try_take(&t, &bob, &foreign);
    t.refused(by_member, Code::PermissionDenied, Reason::NotPermitted, "").await;
}

#[tokio::test]
async fn hosts_are_not_treated_as_members() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let gpu = host(&t, "gpu-1", 4).await;
    let members = t.coordinator.list_members(&t.lead.who, &v1::ListMembersRequest::default()).await.unwrap().members;
    assert_eq!(members.iter().map(|member| &*member.name).collect::<Vec<_>>(), ["lead", "bob"]);
    assert_eq!(t.coordinator.get_team(&t.lead.who, "").await.unwrap().members, 2);
    assert_eq!(t.send(&t.lead, broadcast("hello")).await.recipients, ["bob"]);
    let to_host = t.try_send(&t.lead, message("gpu-1", "hello"));
    let refusal = t.refused(to_host, Code::NotFound, Reason::AgentNotFound, "recipient").await;
    assert!(refusal.message.contains("is a host"), "{refusal}");
    let lead = t.try_set_lead(&t.lead, "gpu-1");
    t.refused(lead, Code::NotFound, Reason::AgentNotFound, "member").await;
    t.heartbeat(&gpu, v1::Activity::Idle, "").await;
    assert!(t.notices(&t.lead, NoticeKind::Idle).await.is_empty(), "a host's idleness is not news");
    let listed = hosts(&t).await;
    assert_eq!((listed.len(), listed[0].offer.as_ref().unwrap().slots), (1, 4));
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
}

#[tokio::test]
async fn a_hosts_name_cannot_become_a_members_name_or_the_reverse() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let gpu = host(&t, "gpu-1", 4).await;
    t.leave(&bob).await;
    t.leave(&gpu).await;
    let invite = |name: &str, host| v1::InviteRequest { member: name.to_owned(), host, ..Default::default() };
    for (name, is_host) in [("bob", true), ("gpu-1", false)] {
        let token = t.coordinator.invite(&t.lead.who, &invite(name, is_host)).await.unwrap().join_token;
        let (bearer, request) = (presented(&token), v1::JoinRequest { host: is_host, ..Default::default() });
        let joined = t.try_join(&bearer, request);
        t.refused(joined, Code::AlreadyExists, Reason::MemberExists, "name").await;
    }
    let back = rejoin(&t, &gpu).await;
    offer(&t, &back, 1, &[]).await;
    assert_eq!(spawn(&t, order("m1")).await.member.unwrap().spawned_on, "gpu-1");
}

#[tokio::test]
async fn a_join_of_the_wrong_kind_does_not_use_up_its_credential() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let invite = |name: &str, host| v1::InviteRequest { member: name.to_owned(), host, ..Default::default() };
    let right = [("teamwire invite --host", "teamwire run carl"), ("teamwire invite`", "teamwire host --join")];
    for (name, is_host) in [("carl", false), ("gpu-1", true)] {
        let token = t.coordinator.invite(&t.lead.who, &invite(name, is_host)).await.unwrap().join_token;
        let (bearer, fits) = (presented(&token), v1::JoinRequest { host: is_host, ..Default::default() });
        let wrong = t.try_join(&bearer, v1::JoinRequest { host: !is_host, ..Default::default() });
        let refusal = t.refused(wrong, Code::InvalidArgument, Reason::InvalidField, "host").await;
        let (invite, command) = right[usize::from(is_host)];
        assert!(refusal.message.contains(invite) && refusal.message.contains(command), "{refusal}");
        let joined = t.try_join(&bearer, fits.clone()).await.unwrap();
        assert_eq!((joined.member.unwrap().role() == Role::Host, joined.team.is_some()), (is_host, true));
        let again = t.try_join(&bearer, fits);
        let refusal = t.refused(again, Code::Unauthenticated, Reason::JoinTokenUsed, "").await;
        assert_eq!(refusal.message.contains("teamwire invite --host"), is_host, "{refusal}");
    }

    let gpu = host(&t, "gpu-2", 1).await;
    let mut session = t.open(&gpu).await;
    let as_member = t.try_join(&gpu, v1::JoinRequest::default());
    let refusal = t.refused(as_member, Code::InvalidArgument, Reason::InvalidField, "host").await;
    assert!(refusal.message.contains("gpu-2 is a host"), "{refusal}");
    let by_member = t.try_join(&bob, as_host());
    let refusal = t.refused(by_member, Code::InvalidArgument, Reason::InvalidField, "host").await;
    assert!(refusal.message.contains("bob is a member"), "{refusal}");
    // The host keeps running.
    let named = v1::SpawnRequest { host: "gpu-2".to_owned(), ..order("m1") };
    let id = spawn(&t, named).await.request.unwrap().id;
    assert_eq!(session.delivery().await.message.unwrap().request_id, id);
}

#[tokio::test]
async fn a_new_process_of_a_host_supersedes_the_old_one() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 4).await;
    let mut old = t.open(&gpu).await;
    let new = rejoin(&t, &gpu).await;
    assert_eq!(old.closing().await.reason(), v1::CloseReason::Superseded);
    let id = order_id(&t, "m1").await;
    let by_old = try_take(&t, &gpu, &id);
    t.refused(by_old, Code::Aborted, Reason::SessionSuperseded, "").await;
    take(&t, &new, &id).await;
}

#[tokio::test]
async fn offers_are_checked() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let gpu = join_host(&t, "gpu-1").await;
    let update = |offer| v1::UpdateHostRequest { offer: Some(offer) };
    let profile = |name: &str| v1::HostProfile { name: name.to_owned(), ..Default::default() };
    let invalid = [
        v1::HostOffer { slots: 1_001, ..Default::default() },
        v1::HostOffer { profiles: vec![profile("a"), profile("A")], ..Default::default() },
        v1::HostOffer { profiles: (0..65).map(|n| profile(&format!("p{n}"))).collect(), ..Default::default() },
        v1::HostOffer { platform: "x".repeat(101), ..Default::default() },
        v1::HostOffer {
            profiles: vec![v1::HostProfile {
                start_deadline: Some(prost_types::Duration { seconds: 3_601, nanos: 0 }),
                ..profile("a")
            }],
            ..Default::default()
        },
    ];
    for offer in invalid {
        let request = update(offer);
        let call = t.coordinator.update_host(&gpu.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, "offer").await;
    }
    let request = update(v1::HostOffer::default());
    let by_member = t.coordinator.update_host(&bob.who, &request);
    t.refused(by_member, Code::PermissionDenied, Reason::NotPermitted, "").await;
    let unknown = v1::HostOffer { profiles: vec![profile("claude")], slots: 1, ..Default::default() };
    t.coordinator.update_host(&gpu.who, &update(unknown)).await.unwrap();
    let codex = v1::SpawnRequest { profile: "codex".to_owned(), ..order("m1") };
    let lacking = t.coordinator.spawn(&t.lead.who, &codex);
    let refusal = t.refused(lacking, Code::FailedPrecondition, Reason::NoHostFits, "host").await;
    assert!(refusal.message.contains("gpu-1 has no profile codex, but claude"), "{refusal}");
}

#[tokio::test]
async fn a_member_whose_order_failed_cannot_begin_another_life() {
    let mut t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let id = order_id(&t, "backend").await;
    let backend = join_with(&t, &take(&t, &gpu, &id).await).await.unwrap();
    let lead = t.lead.clone();
    t.pass_and_run_due(61 * SECOND, &[&lead, &gpu]).await;
    let again = t.try_join(&backend, v1::JoinRequest::default());
    t.refused(again, Code::FailedPrecondition, Reason::MemberStopped, "").await;
}

#[tokio::test]
async fn an_overdue_order_can_only_expire() {
    let mut t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let (id, other) = (order_id(&t, "backend").await, order_id(&t, "frontend").await);
    let backend = join_with(&t, &take(&t, &gpu, &id).await).await.unwrap();
    t.pass(61 * SECOND).await;
    let open = Session::open(&t.coordinator, &backend.who, &v1::StreamRequest::default()).await;
    assert_eq!(open.map(drop).unwrap_err().reason, Reason::MemberStopped);
    report_exit(&t, &gpu, &other, 1).await.unwrap();
    let lead = t.lead.clone();
    t.pass_and_run_due(SECOND, &[&lead, &gpu]).await;
    let states = [t.request(&id).await.state(), t.request(&other).await.state()];
    assert_eq!(states, [RequestState::Expired; 2]);
}

#[tokio::test]
async fn a_host_can_answer_an_order_through_a_coordinator_that_has_not_seen_it() {
    let t = Team::new().await;
    let gpu = host(&t, "gpu-1", 2).await;
    let other = t.another_coordinator().await;
    // It caches the team as it is before the order.
    other.heartbeat(&gpu.who, &v1::HeartbeatRequest::default()).await.unwrap();
    let request_id = order_id(&t, "backend").await;
    let refusal = v1::RefuseOrderRequest { request_id, reason: "no GPU".to_owned(), try_another_host: false };
    assert_eq!(other.refuse_order(&gpu.who, &refusal).await.unwrap().state(), RequestState::Rejected);
}

/// A team with the hosts `gpu-1` and `gpu-2`, and the member `backend` on `gpu-1`, which has acknowledged its prompt.
async fn rescheduled_team() -> (Team, String, [Member; 3]) {
    let t = Team::new().await;
    let one = host(&t, "gpu-1", 2).await;
    let request = v1::SpawnRequest { reschedule: true, ..order("backend") };
    let ordered = spawn(&t, request).await;
    let id = ordered.request.unwrap().id;
    let backend = join_with(&t, &take(&t, &one, &id).await).await.unwrap();
    drop(t.open(&backend).await);
    assert_eq!(t.ack(&backend, &[&ordered.prompt_message_id]).await.unwrap(), 1);
    let two = host(&t, "gpu-2", 2).await;
    (t, id, [one, two, backend])
}

#[tokio::test]
async fn a_member_lost_with_its_host_is_ordered_again_from_another_if_its_order_says_so() {
    let (mut t, _, [one, two, backend]) = rescheduled_team().await;
    let lead = t.lead.clone();
    t.pass_and_run_due(35 * SECOND, &[&lead, &two]).await;
    t.pass_and_run_due(35 * SECOND, &[&lead, &two]).await;
    let member = t.member("backend").await;
    assert_eq!((member.state(), member.spawned_on.as_str(), member.incarnation), (MemberState::Spawning, "gpu-2", 2));
    let id = orders_of(&t, &two).await.remove(0);
    assert_eq!(t.request(&id).await.content, "You own the API.\nStart with task 3.");
    let next = join_with(&t, &take(&t, &two, &id).await).await.unwrap();
    let mut session = t.open(&next).await;
    let prompt = session.delivery().await.message.unwrap();
    assert!(
        matches!(&prompt.body, Some(Body::Message(text)) if text.content.starts_with("You own the API.")),
        "{prompt:?}"
    );
    // The machine comes back, and is too late.
    let open = Session::open(&t.coordinator, &backend.who, &v1::StreamRequest::default()).await;
    assert_eq!(open.map(drop).unwrap_err().reason, Reason::SessionSuperseded);
    t.coordinator.heartbeat(&one.who, &v1::HeartbeatRequest::default()).await.unwrap();
    t.pass_and_run_due(SECOND, &[&lead, &one, &two, &next]).await;
    assert_eq!(t.member("backend").await.spawned_on, "gpu-2");
}

#[tokio::test]
async fn a_member_is_ordered_again_only_if_its_order_says_so_and_its_host_is_lost() {
    let (mut t, _, [one, two, _]) = rescheduled_team().await;
    let id = spawn(&t, v1::SpawnRequest { host: "gpu-1".to_owned(), ..order("frontend") }).await.request.unwrap().id;
    drop(t.open(&join_with(&t, &take(&t, &one, &id).await).await.unwrap()).await);
    let lead = t.lead.clone();
    for _ in 0..3 {
        t.pass_and_run_due(25 * SECOND, &[&lead, &one, &two]).await;
    }
    assert_eq!(t.member("backend").await.state(), MemberState::Lost, "its host lives");
    for _ in 0..3 {
        t.pass_and_run_due(25 * SECOND, &[&lead, &two]).await;
    }
    assert_eq!(t.member("backend").await.state(), MemberState::Spawning);
    assert_eq!(t.member("frontend").await.state(), MemberState::Lost, "it was not to be ordered again");
}

#[tokio::test]
async fn a_lost_member_waits_for_a_host_that_fits_and_keeps_a_prompt_that_it_has_not_read() {
    let mut t = Team::new().await;
    let one = host(&t, "gpu-1", 1).await;
    let ordered = spawn(&t, v1::SpawnRequest { reschedule: true, ..order("backend") }).await;
    drop(t.open(&join_with(&t, &take(&t, &one, &ordered.request.unwrap().id).await).await.unwrap()).await);
    let lead = t.lead.clone();
    for _ in 0..3 {
        t.pass_and_run_due(25 * SECOND, &[&lead]).await;
    }
    assert_eq!(t.member("backend").await.state(), MemberState::Lost, "no host fits");
    let two = host(&t, "gpu-2", 1).await;
    t.run_due().await;
    assert_eq!(t.member("backend").await.spawned_on, "gpu-2");
    let id = {
        let mut open = t.open(&two).await;
        open.delivery().await.message.unwrap().request_id
    };
    let next = join_with(&t, &take(&t, &two, &id).await).await.unwrap();
    let inbox: Vec<String> = t.inbox(&next).await.into_iter().map(|message| message.id).collect();
    assert_eq!(inbox, [ordered.prompt_message_id]);
}

#[tokio::test]
async fn an_order_is_kept_until_the_life_it_started_ends() {
    let (mut t, id, [one, two, backend]) = rescheduled_team().await;
    let lead = t.lead.clone();
    t.pass_and_run_due(Duration::from_secs(40 * 24 * 60 * 60), &[&lead, &one, &two, &backend]).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert_eq!(t.request(&id).await.state(), RequestState::Approved);
    report_exit(&t, &one, &id, 1).await.unwrap();
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    let gone = t.coordinator.get_request(&t.operator, "alpha", &id).await;
    assert_eq!(gone.unwrap_err().reason, Reason::RequestNotFound);
}
