//! A small language for telling what happens in a team.

use std::{collections::BTreeMap, fmt::Debug, future::Future, sync::Arc, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    name::Name,
    v1::{self, NoticeKind, message::Body, send_request, stream_response::Frame},
};
use teamwire_server::{
    coordinator::{Coordinator, history::HistoryQuery, keys::team_key},
    delivery::{Heartbeats, Pace, Session},
    domain::{
        Limits,
        identity::CallerCredentials,
        records::{
            ActivityRecord, ChangedFilesRecord, ConsoleRecord, DueNoticesRecord, HostRecord, JoinTokenRecord,
            LastTurnRecord, NoticesRecord, ObserverRecord, OwnChangesRecord, PermissionRulesRecord, PresenceRecord,
            QuotaRecord, ReceiptRecord, RecordType, RunnerQueriesRecord, SessionRecord, SignInCodeRecord,
            SignInsRecord, SubscribersRecord, SubscriptionsRecord, TeamRecord, ToldFilesRecord, WorkRecord,
        },
        secret::{OperatorSecrets, SecretHash, SessionId},
        streams::{HISTORY, REQUESTS, activity, inbox},
        task::{
            PathsRecord,
            board::{BoardRecord, TaskRecord, WaitingRecord},
        },
    },
    store::{Extent, Leases, Namespace, Record, Store, embedded::EmbeddedStore, redis::RedisStore},
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Code;

use crate::{calls::RuleCalls as _, clock::MovedClock, test_redis::TestRedis};

const OPERATOR: &str = "0123456789abcdef0123456789abcdef";

/// A coordinator with one team, `alpha`, led by `lead`.
pub(crate) struct Team {
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) operator: CallerCredentials,
    pub(crate) namespace: Namespace,
    pub(crate) lead: Member,
    limits: Limits,
}

/// One life of a member.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) credential: String,
    pub(crate) who: CallerCredentials,
}

impl Member {
    pub(crate) fn new(name: &str, credential: &str) -> Self {
        Self { name: name.to_owned(), credential: credential.to_owned(), who: presented(credential) }
    }

    /// The same member, presenting a session.
    pub(crate) fn in_session(&self, session_id: &str) -> Self {
        let who = CallerCredentials { session_id: SessionId::presented(session_id), ..self.who.clone() };
        Self { who, ..self.clone() }
    }
}

/// A caller.
pub(crate) trait Calls {
    fn who(&self) -> &CallerCredentials;
}

impl Calls for Member {
    fn who(&self) -> &CallerCredentials {
        &self.who
    }
}

impl Calls for CallerCredentials {
    fn who(&self) -> &CallerCredentials {
        self
    }
}

/// Reads a credential as a call presents it.
pub(crate) fn presented(credential: &str) -> CallerCredentials {
    CallerCredentials::new(Credential::parse(credential).unwrap(), None)
}

pub(crate) fn operator() -> CallerCredentials {
    CallerCredentials::new(Credential::Operator { secret: OPERATOR.to_owned() }, None)
}

/// Makes a secret of the operator that never changes, as a coordinator takes it.
pub(crate) fn fixed(secret: &str) -> watch::Receiver<OperatorSecrets> {
    watch::channel(SecretHash::of(secret).into()).1
}

/// Makes a coordinator over a store, with the operator of these tests.
pub(crate) async fn coordinator(store: Arc<dyn Store>, limits: Limits) -> Arc<Coordinator> {
    Arc::new(Coordinator::new(store, limits, fixed(OPERATOR)).await.unwrap())
}

/// Runs a story on every store.
pub(crate) async fn on_each_store<F: Future<Output = ()>>(story: impl Fn(Arc<dyn Store>) -> F) {
    let server = TestRedis::start();
    story(EmbeddedStore::in_memory().unwrap()).await;
    if let Some(server) = &server {
        story(RedisStore::connect(&server.url(), "test").await.unwrap()).await;
    }
}

/// Everything that a team's namespace holds.
#[derive(Debug, PartialEq)]
struct State {
    records: BTreeMap<&'static str, Vec<(String, Record)>>,
    streams: BTreeMap<String, Extent>,
    leases: BTreeMap<String, u64>,
}

impl Team {
    pub(crate) async fn new() -> Self {
        Self::with_limits(|_| {}).await
    }

    /// A team with `members`, besides its lead.
    pub(crate) async fn of<const N: usize>(members: [&str; N]) -> (Self, [Member; N]) {
        let team = Self::new().await;
        let members = team.join_all(members).await;
        (team, members)
    }

    pub(crate) async fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        Self::on(EmbeddedStore::in_memory().unwrap(), change).await
    }

    /// A team on a store.
    pub(crate) async fn on(store: Arc<dyn Store>, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let clock = MovedClock::over(store);
        let coordinator = coordinator(clock.clone(), limits.clone()).await;
        let reply = coordinator.create_team(&operator(), &create("alpha")).await.unwrap();
        let namespace = Namespace::team(&Name::parse("alpha", "name").unwrap());
        let lead = Member::new("lead", &reply.credential);
        Self { clock, coordinator, operator: operator(), namespace, lead, limits }
    }

    /// Another coordinator over the same store.
    pub(crate) async fn another_coordinator(&self) -> Arc<Coordinator> {
        coordinator(self.clock.clone(), self.limits.clone()).await
    }

    /// Lets time pass.
    pub(crate) async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        self.coordinator = self.another_coordinator().await;
    }

    /// Does what is due.
    pub(crate) async fn run_due(&self) {
        let leases = self.leases().await;
        self.coordinator.carry_out_due(&self.namespace, &leases, true).await.unwrap();
    }

    /// Lets time pass and carries out what is due. Renews the leases of `alive`.
    pub(crate) async fn pass_and_run_due(&mut self, time: Duration, alive: &[&Member]) {
        self.pass(time).await;
        let names: Vec<Name> = alive.iter().map(|member| Name::parse(&member.name, "name").unwrap()).collect();
        self.coordinator.renew(&self.namespace, &names).await.unwrap();
        self.run_due().await;
    }

    pub(crate) async fn leases(&self) -> Leases {
        self.clock.leases(&self.namespace).await.unwrap()
    }

    pub(crate) async fn invite(&self, member: &str) -> String {
        let request = v1::InviteRequest { member: member.to_owned(), ..Default::default() };
        self.coordinator.invite(&self.lead.who, &request).await.unwrap().join_token
    }

    /// A new member, or a new life of one that has ended, by a token bound to its name.
    pub(crate) async fn join(&self, name: &str) -> Member {
        let token = self.invite(name).await;
        let reply = self.coordinator.join(&presented(&token), &v1::JoinRequest::default()).await.unwrap();
        Member::new(&reply.member.unwrap().name, &reply.credential)
    }

    /// A new member whose life no process keeps going.
    pub(crate) async fn join_detached(&self, name: &str) -> Member {
        let token = self.invite(name).await;
        let reply = self.coordinator.join(&presented(&token), &join_by(true)).await.unwrap();
        Member::new(&reply.member.unwrap().name, &reply.credential)
    }

    pub(crate) async fn join_all<const N: usize>(&self, names: [&str; N]) -> [Member; N] {
        let mut members = Vec::new();
        for name in names {
            members.push(self.join(name).await);
        }
        members.try_into().unwrap()
    }

    pub(crate) async fn try_join(
        &self,
        who: &impl Calls,
        request: v1::JoinRequest,
    ) -> Result<v1::JoinResponse, Refusal> {
        self.coordinator.join(who.who(), &request).await
    }

    /// A new life by the member's own credential.
    pub(crate) async fn rejoin(&self, member: &Member) -> Member {
        let reply = self.coordinator.join(&member.who, &v1::JoinRequest::default()).await.unwrap();
        Member::new(&member.name, &reply.credential)
    }

    pub(crate) async fn try_send(
        &self,
        from: &impl Calls,
        request: v1::SendRequest,
    ) -> Result<v1::SendResponse, Refusal> {
        self.coordinator.send(from.who(), &request).await
    }

    pub(crate) async fn send(&self, from: &impl Calls, request: v1::SendRequest) -> v1::SendResponse {
        self.try_send(from, request).await.unwrap()
    }

    /// Sends a request and returns its id.
    pub(crate) async fn ask(&self, from: &impl Calls, request: v1::SendRequest) -> String {
        self.send(from, request).await.request_id
    }

    pub(crate) async fn try_leave(&self, member: &Member, code: i32) -> Result<(), Refusal> {
        let exit = Some(v1::ExitReport { code: Some(code), ..Default::default() });
        self.coordinator.leave(&member.who, &v1::LeaveRequest { exit, ..Default::default() }).await
    }

    /// The member's runner reports its exit.
    pub(crate) async fn leave(&self, member: &Member) {
        self.try_leave(member, 0).await.unwrap();
    }

    pub(crate) async fn try_force(&self, from: &impl Calls, member: &str) -> Result<v1::Member, Refusal> {
        let request = v1::ForceStopRequest {
            team: named(from),
            member: member.to_owned(),
            reason: "it does not answer".to_owned(),
        };
        self.coordinator.force_stop(from.who(), &request).await
    }

    pub(crate) async fn try_set_lead(&self, from: &impl Calls, member: &str) -> Result<v1::Team, Refusal> {
        let request = v1::SetLeadRequest { team: named(from), member: member.to_owned() };
        self.coordinator.set_lead(from.who(), &request).await
    }

    pub(crate) async fn try_delete(&self, from: &impl Calls) -> Result<(), Refusal> {
        self.coordinator.delete_team(from.who(), &named(from)).await
    }

    pub(crate) async fn heartbeat(
        &self,
        member: &Member,
        activity: v1::Activity,
        summary: &str,
    ) -> v1::HeartbeatResponse {
        let request =
            v1::HeartbeatRequest { activity: activity.into(), summary: summary.to_owned(), ..Default::default() };
        self.coordinator.heartbeat(&member.who, &request).await.unwrap()
    }

    pub(crate) async fn deliveries(&self, member: &Member) -> Vec<v1::Delivery> {
        let request = v1::ListInboxRequest { page_size: 1_000, ..Default::default() };
        self.coordinator.list_inbox(&member.who, &request).await.unwrap().deliveries
    }

    /// The unprocessed messages of a member.
    pub(crate) async fn inbox(&self, member: &Member) -> Vec<v1::Message> {
        self.deliveries(member).await.into_iter().map(|delivery| delivery.message.unwrap()).collect()
    }

    /// The notices of a kind in a member's inbox.
    pub(crate) async fn notices(&self, member: &Member, kind: NoticeKind) -> Vec<v1::Notice> {
        let bodies = self.inbox(member).await.into_iter().filter_map(|message| message.body);
        let notices = bodies.filter_map(|body| match body {
            Body::Notice(notice) => Some(notice),
            _ => None,
        });
        notices.filter(|notice| notice.kind() == kind).collect()
    }

    pub(crate) async fn request(&self, id: &str) -> v1::Request {
        self.coordinator.get_request(&self.operator, "alpha", id).await.unwrap()
    }

    pub(crate) async fn member(&self, name: &str) -> v1::Member {
        let members = self.coordinator.list_members(&self.operator, &all_members("alpha")).await.unwrap().members;
        members.into_iter().find(|member| member.name == name).unwrap()
    }

    pub(crate) async fn receipts(&self, message_id: &str) -> Vec<v1::Receipt> {
        let request = v1::GetMessageRequest { team: "alpha".to_owned(), message_id: message_id.to_owned() };
        self.coordinator.get_message(&self.operator, &request).await.unwrap().receipts
    }

    /// The whole history, as the operator sees it.
    pub(crate) async fn history(&self) -> Vec<v1::HistoryEntry> {
        let query = HistoryQuery { limit: 1_000, ..Default::default() };
        self.coordinator.history(&self.operator, "alpha", &query).await.unwrap().entries
    }

    pub(crate) async fn ack(&self, member: &Member, ids: &[&str]) -> Result<u32, Refusal> {
        let message_ids = ids.iter().map(|&id| id.to_owned()).collect();
        let request = v1::AckRequest { session_id: String::new(), message_ids };
        self.coordinator.acknowledge(&member.who, &request).await
    }

    /// Opens a session and reads its first frame.
    pub(crate) async fn open(&self, member: &Member) -> Open {
        self.open_on(&self.coordinator, member).await
    }

    /// Opens a session on a coordinator and reads its first frame.
    pub(crate) async fn open_on(&self, coordinator: &Arc<Coordinator>, member: &Member) -> Open {
        self.open_with(coordinator, member, &v1::StreamRequest::default()).await
    }

    /// Opens a session for a process, which reconnects if it had the member's last session.
    pub(crate) async fn open_as(&self, member: &Member, instance_id: &str) -> Open {
        let request = v1::StreamRequest { instance_id: instance_id.to_owned(), ..Default::default() };
        self.open_with(&self.coordinator, member, &request).await
    }

    /// Opens a session on a coordinator with a request, and reads its first frame.
    pub(crate) async fn open_with(
        &self,
        coordinator: &Arc<Coordinator>,
        member: &Member,
        request: &v1::StreamRequest,
    ) -> Open {
        let session = Session::open(coordinator, &member.who, request).await.unwrap();
        let draining = CancellationToken::new();
        let mut frames = session.start(Pace::default(), Arc::new(Heartbeats::default()), draining, &TaskTracker::new());
        let Some(Ok(v1::StreamResponse { frame: Some(Frame::Opened(opened)) })) = frames.recv().await.map(|said| *said)
        else {
            panic!("a session begins with `opened`");
        };
        let member = member.in_session(&opened.session_id);
        Open { member, opened, frames, coordinator: Arc::clone(coordinator) }
    }

    /// Checks that a call is refused, all that the error table says of it, and that it has changed nothing. An empty
    /// `field` stands for none.
    pub(crate) async fn refused<T: Debug>(
        &self,
        call: impl Future<Output = Result<T, Refusal>>,
        code: Code,
        reason: Reason,
        field: &str,
    ) -> Refusal {
        let before = self.state().await;
        let refusal = call.await.expect_err(reason.as_str());
        assert_eq!((refusal.reason, refusal.reason.code()), (reason, code), "{refusal}");
        assert_eq!(refusal.field.as_deref().unwrap_or(""), field, "{refusal}");
        let text = &refusal.message;
        assert!(text.len() > 20 && text.ends_with(['.', '?']), "no help: {text}");
        assert_eq!(self.state().await, before, "{reason} has changed something");
        refusal
    }

    async fn state(&self) -> State {
        let mut records = BTreeMap::new();
        // Not the cursors: open sessions write them by themselves.
        for kind in [
            SessionRecord::KIND,
            PresenceRecord::KIND,
            ActivityRecord::KIND,
            ReceiptRecord::KIND,
            JoinTokenRecord::KIND,
            ObserverRecord::KIND,
            SignInCodeRecord::KIND,
            ConsoleRecord::KIND,
            SignInsRecord::KIND,
            HostRecord::KIND,
            TaskRecord::KIND,
            PathsRecord::KIND,
            RunnerQueriesRecord::KIND,
            LastTurnRecord::KIND,
            WorkRecord::KIND,
            ChangedFilesRecord::KIND,
            OwnChangesRecord::KIND,
            ToldFilesRecord::KIND,
            SubscribersRecord::KIND,
            SubscriptionsRecord::KIND,
            BoardRecord::KIND,
            WaitingRecord::KIND,
            NoticesRecord::KIND,
            DueNoticesRecord::KIND,
            QuotaRecord::KIND,
            PermissionRulesRecord::KIND,
            v1::Message::KIND,
            v1::Request::KIND,
        ] {
            records.insert(kind, self.clock.scan(&self.namespace, kind, "", 10_000).await.unwrap());
        }
        let team = self.clock.read(&self.namespace, &[team_key()]).await.unwrap().remove(0);
        let mut names = vec![HISTORY.to_owned(), REQUESTS.to_owned()];
        if let Some(record) = &team {
            let team = TeamRecord::decode(&record.data).unwrap();
            names.extend(team.members.iter().flat_map(|member| [inbox(&member.name), activity(&member.name)]));
        }
        records.insert(TeamRecord::KIND, team.into_iter().map(|record| (String::new(), record)).collect());
        let extents = self.clock.extents(&self.namespace, &names).await.unwrap();
        State { records, streams: names.into_iter().zip(extents).collect(), leases: self.leases().await.until_ms }
    }

    /// Everything that the store keeps of the team, for a reader.
    pub(crate) async fn everything(&self) -> impl Debug {
        self.state().await
    }

    /// Returns whether the store holds nothing that belongs to the team.
    pub(crate) async fn is_gone(&self, members: &[&str]) -> bool {
        let state = self.state().await;
        let names = members.iter().map(|name| Name::parse(name, "name").unwrap());
        let streams: Vec<_> = names.flat_map(|name| [inbox(&name), activity(&name)]).collect();
        let extents = self.clock.extents(&self.namespace, &streams).await.unwrap();
        let is_empty = |extent: &Extent| *extent == Extent { next: 1, entries: 0, weight: 0 };
        state.records.values().all(Vec::is_empty)
            && state.leases.is_empty()
            && state.streams.values().chain(&extents).all(is_empty)
    }
}

/// An open session.
pub(crate) struct Open {
    /// Presents the session with every call.
    pub(crate) member: Member,
    pub(crate) opened: v1::SessionOpened,
    pub(crate) frames: teamwire_server::delivery::FrameQueue,
    coordinator: Arc<Coordinator>,
}

impl Open {
    /// Awaits the next frame that is not a heartbeat.
    async fn frame(&mut self) -> Frame {
        loop {
            match self.frames.recv().await.expect("the stream has ended").unwrap().frame.unwrap() {
                Frame::Heartbeat(_) => {}
                frame => return frame,
            }
        }
    }

    pub(crate) async fn delivery(&mut self) -> v1::Delivery {
        match self.frame().await {
            Frame::Delivery(delivery) => delivery,
            other => panic!("{other:?} instead of a delivery"),
        }
    }

    /// Awaits the last frame.
    pub(crate) async fn closing(&mut self) -> v1::SessionClosing {
        let closing = loop {
            match self.frame().await {
                Frame::Closing(closing) => break closing,
                Frame::Delivery(_) => {}
                other => panic!("{other:?} instead of the end"),
            }
        };
        assert!(self.frames.recv().await.is_none(), "nothing comes after the last frame");
        closing
    }

    /// Goes away and waits until the coordinator has recorded it.
    pub(crate) async fn close(self, team: &Team) {
        drop(self.frames);
        let name = Name::parse(&self.member.name, "name").unwrap();
        let mut watch = self.coordinator.notifier().watch(&team.namespace);
        loop {
            watch.mark_unchanged();
            let record = self.coordinator.session_record(&team.namespace, &name).await.unwrap().unwrap();
            if record.session_id.as_str() != self.opened.session_id || record.ended.is_some() {
                return;
            }
            watch.changed().await.unwrap();
        }
    }
}

pub(crate) fn named(from: &impl Calls) -> String {
    if from.who().credential.team().is_none() { "alpha".to_owned() } else { String::new() }
}

pub(crate) fn create(name: &str) -> v1::CreateTeamRequest {
    v1::CreateTeamRequest { name: name.to_owned(), ..Default::default() }
}

/// A join that begins a detached life, or an attached one.
pub(crate) fn join_by(detached: bool) -> v1::JoinRequest {
    let liveness = if detached { v1::Liveness::Detached } else { v1::Liveness::Unspecified };
    v1::JoinRequest { liveness: liveness.into(), ..Default::default() }
}

fn request(body: send_request::Body) -> v1::SendRequest {
    v1::SendRequest { body: Some(body), ..Default::default() }
}

pub(crate) fn message(to: &str, content: &str) -> v1::SendRequest {
    let (recipient, content) = (to.to_owned(), content.to_owned());
    request(send_request::Body::Message(v1::DirectMessage { recipient, summary: "a word".to_owned(), content }))
}

pub(crate) fn broadcast(content: &str) -> v1::SendRequest {
    let content = content.to_owned();
    request(send_request::Body::Broadcast(v1::Broadcast {
        summary: "to all".to_owned(),
        content,
        ..Default::default()
    }))
}

pub(crate) fn shutdown(to: &str) -> v1::SendRequest {
    let recipient = to.to_owned();
    request(send_request::Body::ShutdownRequest(v1::ShutdownRequest { recipient, ..Default::default() }))
}

pub(crate) fn answer(request_id: &str, approve: Option<bool>, reason: &str) -> v1::SendRequest {
    let (request_id, reason) = (request_id.to_owned(), reason.to_owned());
    request(send_request::Body::ShutdownResponse(v1::ShutdownResponse { request_id, approve, reason }))
}

pub(crate) fn approve(request_id: &str) -> v1::SendRequest {
    answer(request_id, Some(true), "")
}

pub(crate) fn reject(request_id: &str, reason: &str) -> v1::SendRequest {
    answer(request_id, Some(false), reason)
}

pub(crate) fn plan(plan: &str) -> v1::SendRequest {
    let plan = plan.to_owned();
    request(send_request::Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan, ..Default::default() }))
}

pub(crate) fn answer_plan(to: &str, request_id: &str, approve: Option<bool>, feedback: &str) -> v1::SendRequest {
    let (recipient, request_id, feedback) = (to.to_owned(), request_id.to_owned(), feedback.to_owned());
    let answer = v1::PlanApprovalResponse { recipient, request_id, approve, feedback };
    request(send_request::Body::PlanApprovalResponse(answer))
}

/// A request for permission. An empty `approver` stands for the lead.
pub(crate) fn permission(approver: &str) -> v1::SendRequest {
    permission_for(approver, "rm -r target")
}

pub(crate) fn permission_for(approver: &str, detail: &str) -> v1::SendRequest {
    let [tool, summary, detail] = ["Bash", "clean up", detail].map(str::to_owned);
    let ask = v1::PermissionRequest { recipient: approver.to_owned(), tool, summary, detail, ..Default::default() };
    request(send_request::Body::PermissionRequest(ask))
}

/// The answer to a request for permission.
pub(crate) fn allow(request_id: &str, approve: impl Into<Option<bool>>, reason: &str) -> v1::SendRequest {
    let (request_id, reason) = (request_id.to_owned(), reason.to_owned());
    let answer = v1::PermissionResponse { request_id, approve: approve.into(), reason, add_budget: None };
    request(send_request::Body::PermissionResponse(answer))
}

/// The same call as the operator makes it, who must name the team.
pub(crate) fn in_alpha(request: v1::SendRequest) -> v1::SendRequest {
    v1::SendRequest { team: "alpha".to_owned(), ..request }
}

/// The same call with an idempotency key.
pub(crate) fn keyed(key: &str, request: v1::SendRequest) -> v1::SendRequest {
    v1::SendRequest { idempotency_key: key.to_owned(), ..request }
}

/// An id of a request that was never made.
pub(crate) fn unknown_request() -> String {
    format!("req_{}", "0".repeat(26))
}

/// A list of all members of a team.
pub(crate) fn all_members(team: &str) -> v1::ListMembersRequest {
    v1::ListMembersRequest { team: team.to_owned(), page_size: 1_000, ..Default::default() }
}
