//! Calls decoded from arbitrary bytes.
//!
//! An input is a sequence of calls to a team with some of everything. Each call is either refused, with help and
//! without a write, or accepted; afterwards all data is still readable. The stories in `server/tests/rules` make
//! well-formed calls and know what each must do; these calls need not be well-formed in any field.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use prost::Message;
use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    dialect, duration,
    v1::{self, history_entry::Event, send_request::Body},
};
use teamwire_server::{
    coordinator::{Coordinator, history::HistoryQuery},
    domain::{Limits, identity::CallerCredentials, page::page_size, secret::SecretHash},
    store::{Namespace, Outcome, Store, StoreError, StoreLayer, Txn, embedded::EmbeddedStore},
};
use tonic::Status;

use crate::render::claimed;
use calls::RuleCalls as _;
use teamwire_agents::agent_text;

#[path = "../../../server/tests/rules/calls.rs"]
mod calls;

const OPERATOR: &str = "0123456789abcdef0123456789abcdef";

/// The most calls of an input.
const CALLS_MAX: usize = 16;

/// Before the bytes of a call: who makes it, which it is, and how long it is, in two bytes.
const HEAD_BYTES: usize = 4;

/// The most bytes of headers of a refusal.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// A store that counts the commits to teams.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Store>,
    commits: AtomicU64,
}

impl StoreLayer for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let outcome = self.store.commit(namespace, txn).await;
        // A ledger lookup is a commit without writes. A team enters the directory before it exists; its reader repairs
        // that.
        let changes = !txn.writes.is_empty() && *namespace != Namespace::directory();
        if changes && matches!(outcome, Ok(Outcome::Committed(_))) {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

/// A coordinator, the team `alpha`, and what a caller may know of it.
struct World {
    store: Arc<Counting>,
    coordinator: Arc<Coordinator>,
    callers: Vec<CallerCredentials>,
    /// The placeholder of each id in an input, and the id. Both have the same length, so that replacing keeps the
    /// encoding valid.
    ids: Vec<(String, String)>,
}

pub(crate) fn requests(input: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let world = World::new().await;
        let mut rest = input;
        for _ in 0..CALLS_MAX {
            let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() else { break };
            let length = usize::from(u16::from_le_bytes([head[2], head[3]])).min(after.len());
            let (call, after) = after.split_at(length);
            rest = after;
            world.call(head[0], head[1], call).await;
        }
        world.check_readable().await;
    });
}

impl World {
    async fn new() -> Self {
        let store = EmbeddedStore::in_memory().expect("memory");
        let store = Arc::new(Counting { store, commits: AtomicU64::new(0) });
        let operator = tokio::sync::watch::channel(SecretHash::of(OPERATOR).into()).1;
        let coordinator = Coordinator::new(store.clone(), limits(), operator).await.expect("a store");
        let coordinator = Arc::new(coordinator);
        let operator = CallerCredentials::new(Credential::Operator { secret: OPERATOR.to_owned() }, None);
        let create = v1::CreateTeamRequest { name: "alpha".to_owned(), ..Default::default() };
        let lead = presented(&coordinator.create_team(&operator, &create).await.expect("a team").credential);
        let mut members = Vec::new();
        for name in ["ann", "bob"] {
            let invite = v1::InviteRequest { member: name.to_owned(), uses_max: 2, ..Default::default() };
            let token = presented(&coordinator.invite(&lead, &invite).await.expect("a token").join_token);
            let joined = coordinator.join(&token, &v1::JoinRequest::default()).await.expect("a member");
            members.push(presented(&joined.credential));
        }
        let invite = v1::InviteRequest { uses_max: 1_000, ..Default::default() };
        let token = presented(&coordinator.invite(&lead, &invite).await.expect("a token").join_token);
        let observer = coordinator.create_observer(&lead, &v1::CreateObserverRequest::default()).await;
        let observer = presented(&observer.expect("an observer").credential);
        let stranger = presented(&format!("twm:alpha:ann:{}", "0".repeat(40)));

        let mut ids = Vec::new();
        let send = |who: &CallerCredentials, body: Body| {
            let (coordinator, who) = (coordinator.clone(), who.clone());
            let request = v1::SendRequest { body: Some(body), ..Default::default() };
            async move { coordinator.send(&who, &request).await.expect("it is sent") }
        };
        let direct =
            v1::DirectMessage { recipient: "ann".to_owned(), summary: "s".to_owned(), content: "c".to_owned() };
        let sent = send(&lead, Body::Message(direct)).await;
        let plan = v1::PlanApprovalRequest { plan: "p".to_owned(), ..Default::default() };
        let plan = send(&members[1], Body::PlanApprovalRequest(plan)).await;
        let [tool, summary] = ["t", "s"].map(str::to_owned);
        let permission = v1::PermissionRequest { tool, summary, ..Default::default() };
        let permission = send(&members[1], Body::PermissionRequest(permission)).await;
        let shutdown = v1::ShutdownRequest { recipient: "ann".to_owned(), ..Default::default() };
        let shutdown = send(&lead, Body::ShutdownRequest(shutdown)).await;
        for (number, id) in [sent.message_id, plan.message_id].into_iter().enumerate() {
            ids.push((message_id(number), id));
        }
        for (number, id) in [shutdown.request_id, plan.request_id, permission.request_id].into_iter().enumerate() {
            ids.push((request_id(number), id));
        }
        for (subject, owner, blocked_by) in [("one", "", vec![]), ("two", "bob", vec![]), ("three", "", vec![1])] {
            let (subject, owner) = (subject.to_owned(), owner.to_owned());
            let request = v1::CreateTaskRequest { subject, owner, blocked_by, ..Default::default() };
            coordinator.create_task(&lead, &request).await.expect("a task");
        }
        let claim = v1::ClaimTaskRequest { task_id: 2, ..Default::default() };
        let claim = coordinator.claim_task(&members[1], &claim).await.expect("a claim");
        ids.push((claim_token(0), claim.token));
        assert!(ids.iter().all(|(written, id)| written.len() == id.len()), "{ids:?}");
        let callers = vec![lead, members[0].clone(), members[1].clone(), operator, observer, token, stranger];
        Self { store, coordinator, callers, ids }
    }

    async fn call(&self, by: u8, kind: u8, encoded: &[u8]) {
        let mut encoded = encoded.to_vec();
        for (written, id) in &self.ids {
            replace(&mut encoded, written.as_bytes(), id.as_bytes());
        }
        let who = &self.callers[usize::from(by) % self.callers.len()];
        let before = self.store.commits.load(Ordering::Relaxed);
        let Some(Err(refusal)) = self.dispatch(who, kind, &encoded).await else { return };
        assert_eq!(self.store.commits.load(Ordering::Relaxed), before, "a refusal changed something: {refusal}");
        check_refusal(refusal);
    }

    /// Makes a call. `None` if the bytes cannot be decoded.
    async fn dispatch(&self, who: &CallerCredentials, kind: u8, encoded: &[u8]) -> Option<Result<(), Refusal>> {
        let c = &self.coordinator;
        Some(match kind % 62 {
            0 => c.send(who, &decode(encoded)?).await.map(drop),
            1 => c.open_session(who, &decode(encoded)?).await.map(drop),
            2 => c.acknowledge(who, &decode(encoded)?).await.map(drop),
            3 => c.get_message(who, &decode(encoded)?).await.map(drop),
            4 => c.list_inbox(who, &decode(encoded)?).await.map(drop),
            5 => c.create_team(who, &decode(encoded)?).await.map(drop),
            6 => c.get_team(who, &decode::<v1::GetTeamRequest>(encoded)?.team).await.map(drop),
            7 => {
                let request: v1::ListTeamsRequest = decode(encoded)?;
                c.list_teams(who, &request).await.map(drop)
            }
            8 => c.delete_team(who, &decode::<v1::DeleteTeamRequest>(encoded)?.team).await,
            9 => c.invite(who, &decode(encoded)?).await.map(drop),
            10 => c.create_observer(who, &decode(encoded)?).await.map(drop),
            11 => c.join(who, &decode(encoded)?).await.map(drop),
            12 => c.leave(who, &decode(encoded)?).await,
            13 => c.list_members(who, &decode(encoded)?).await.map(drop),
            14 => c.heartbeat(who, &decode(encoded)?).await.map(drop),
            15 => c.force_stop(who, &decode(encoded)?).await.map(drop),
            16 => c.set_lead(who, &decode(encoded)?).await.map(drop),
            17 => {
                let request: v1::GetRequestRequest = decode(encoded)?;
                c.get_request(who, &request.team, &request.request_id).await.map(drop)
            }
            18 => c.list_requests(who, &decode(encoded)?).await.map(drop),
            19 => {
                let request: v1::WaitForDecisionRequest = decode(encoded)?;
                let timeout = without_waiting(request.timeout);
                c.wait_for_decision(who, &v1::WaitForDecisionRequest { timeout, ..request }).await.map(drop)
            }
            20 => {
                let request: v1::ListHistoryRequest = decode(encoded)?;
                let (filter, after, newest) = (request.filter, request.after_sequence, request.newest);
                match page_size(request.page_size) {
                    Ok(limit) => {
                        let query = HistoryQuery { filter, after, limit, newest, ..HistoryQuery::default() };
                        c.history(who, &request.team, &query).await.map(drop)
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            21 => c.create_task(who, &decode(encoded)?).await.map(drop),
            22 => {
                let request: v1::GetTaskRequest = decode(encoded)?;
                c.get_task(who, &request.team, request.task_id).await.map(drop)
            }
            23 => c.list_tasks(who, &decode(encoded)?).await.map(drop),
            24 => c.update_task(who, &decode(encoded)?).await.map(drop),
            25 => c.claim_task(who, &decode(encoded)?).await.map(drop),
            26 => {
                let request: v1::ClaimNextTaskRequest = decode(encoded)?;
                let wait = without_waiting(request.wait);
                c.claim_next_task(who, &v1::ClaimNextTaskRequest { wait, ..request }).await.map(drop)
            }
            27 => c.complete_task(who, &decode(encoded)?).await.map(drop),
            28 => c.release_task(who, &decode(encoded)?).await.map(drop),
            29 => {
                let request: v1::DeleteTaskRequest = decode(encoded)?;
                c.delete_task(who, &request.team, request.task_id).await.map(drop)
            }
            // The JSON of an agent, as the command line and the runner read it.
            30 => match dialect::read(std::str::from_utf8(encoded).ok()?) {
                Ok(request) => c.send(who, &request).await.map(drop),
                Err(refusal) => Err(refusal),
            },
            31 => c.renew(&self.namespace(), &[]).await,
            32 => c.set_notice_level(who, &decode(encoded)?).await.map(drop),
            34 => c.report_activity(who, &decode(encoded)?).await.map(drop),
            35 => {
                let request: v1::ListActivityRequest = decode(encoded)?;
                let wait = without_waiting(request.wait);
                c.list_activity(who, &v1::ListActivityRequest { wait, ..request }).await.map(drop)
            }
            36 => c.withdraw(who, &decode(encoded)?).await.map(drop),
            37 => c.spawn(who, &decode(encoded)?).await.map(drop),
            38 => c.list_hosts(who, &decode(encoded)?).await.map(drop),
            39 => c.update_host(who, &decode(encoded)?).await.map(drop),
            40 => c.take_order(who, &decode(encoded)?).await.map(drop),
            41 => c.refuse_order(who, &decode(encoded)?).await.map(drop),
            42 => c.report_exit(who, &decode(encoded)?).await.map(drop),
            43 => c.create_sign_in_code(who, &decode(encoded)?).await.map(drop),
            44 => c.sign_in(who, &decode(encoded)?).await.map(drop),
            45 => c.get_caller(who).await.map(drop),
            46 => c.list_credentials(who, &decode(encoded)?).await.map(drop),
            47 => c.diagnose(who, &decode(encoded)?).await.map(drop),
            48 => c.list_audit_chains(who, &decode(encoded)?).await.map(drop),
            49 => c.list_audit_entries(who, &decode(encoded)?).await.map(drop),
            50 => c.last_turn(who, &decode(encoded)?).await.map(drop),
            51 => c.add_permission_rule(who, &decode(encoded)?).await.map(drop),
            52 => c.list_permission_rules(who, &decode(encoded)?).await.map(drop),
            53 => c.revoke_permission_rule(who, &decode(encoded)?).await.map(drop),
            54 => c.use_permission_rule(who, &decode(encoded)?).await.map(drop),
            56 => c.set_budget(who, &decode(encoded)?).await.map(drop),
            55 => c.answer_query(who, &decode(encoded)?).await,
            57 => c.set_tags(who, &decode(encoded)?).await.map(drop),
            58 => c.subscribe_to_event(who, &decode(encoded)?).await.map(drop),
            59 => c.list_event_subscriptions(who, &decode(encoded)?).await.map(drop),
            60 => c.cancel_event_subscription(who, &decode(encoded)?).await,
            _ => c.revoke_credential(who, &decode(encoded)?).await,
        })
    }

    fn namespace(&self) -> Namespace {
        Namespace::team(&teamwire_proto::name::Name::parse("alpha", "team").expect("a name"))
    }

    /// Reads everything, in every form that clients show.
    async fn check_readable(&self) {
        let operator = &self.callers[3];
        let c = &self.coordinator;
        let members = match c
            .list_members(operator, &v1::ListMembersRequest { team: "alpha".to_owned(), ..Default::default() })
            .await
        {
            Ok(page) => page.members,
            Err(refusal) => return assert_eq!(refusal.reason, Reason::TeamNotFound, "{refusal}"),
        };
        let filter = Some(v1::HistoryFilter { include_receipts: true, ..Default::default() });
        let query = HistoryQuery { filter, limit: 1_000, ..Default::default() };
        let history = c.history(operator, "alpha", &query).await.expect("a history");
        for entry in history.entries {
            let Some(Event::Message(message)) = entry.event else { continue };
            assert_eq!(entry.receipts.len(), message.recipients.len());
            agent_text::teammate_message(&message, agent_text::AnswerWith::Command);
            dialect::write(&message);
        }
        let diagnose = v1::DiagnoseRequest {
            team: "alpha".to_owned(),
            patience: Some(prost_types::Duration::default()),
            ..Default::default()
        };
        let (diagnosis, _) = c.diagnose(operator, &diagnose).await.expect("a diagnosis");
        assert!(diagnosis.findings.iter().all(|finding| !finding.text.is_empty() && !finding.next.is_empty()));
        for member in members {
            let member = member.name;
            let list =
                v1::ListActivityRequest { team: "alpha".to_owned(), member: member.clone(), ..Default::default() };
            c.list_activity(operator, &list).await.expect("activity");
            let list = v1::ListInboxRequest { team: "alpha".to_owned(), member, ..Default::default() };
            let inbox = c.list_inbox(operator, &list).await.expect("an inbox");
            assert!(inbox.deliveries.len() as u64 <= inbox.total);
        }
        let list = v1::ListTasksRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        for task in c.list_tasks(operator, &list).await.expect("tasks").tasks {
            claimed(&task);
        }
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), ..Default::default() };
        c.list_requests(operator, &list).await.expect("requests");
    }
}

fn limits() -> Limits {
    Limits { content_bytes_max: 1024, members_max: 6, inbox_entries_max: 8, open_tasks_max: 6, ..Limits::default() }
}

fn presented(credential: &str) -> CallerCredentials {
    CallerCredentials::new(Credential::parse(credential).expect("a credential"), None)
}

fn decode<T: Message + Default>(encoded: &[u8]) -> Option<T> {
    T::decode(encoded).ok()
}

/// Lets a call wait no time at all, unless the coordinator refuses how long it asks for.
fn without_waiting(asked: Option<prost_types::Duration>) -> Option<prost_types::Duration> {
    Some(asked.filter(|asked| duration::from_proto(*asked).is_none()).unwrap_or_default())
}

fn replace(text: &mut [u8], written: &[u8], id: &[u8]) {
    for at in 0..(text.len() + 1).saturating_sub(written.len()) {
        if text[at..].starts_with(written) {
            text[at..at + id.len()].copy_from_slice(id);
        }
    }
}

/// The placeholder of a message's id.
pub(crate) fn message_id(number: usize) -> String {
    format!("00000000-0000-7000-8000-{number:012}")
}

/// The placeholder of a request's id.
pub(crate) fn request_id(number: usize) -> String {
    format!("req_{number:026}")
}

/// The placeholder of a claim's token.
pub(crate) fn claim_token(number: usize) -> String {
    format!("{number:040}")
}

fn check_refusal(refusal: Refusal) {
    assert_ne!(refusal.reason, Reason::Internal, "{refusal}");
    assert!(refusal.message.ends_with(['.', '?', '…']), "no help: {refusal}");
    let status = Status::from(refusal);
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).expect("headers");
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    assert!(bytes < HEADER_BYTES_MAX, "{bytes} bytes of headers: {status:?}");
}
