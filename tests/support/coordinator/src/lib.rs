//! A scripted coordinator for tests of clients and runners: it keeps one inbox, records its calls, and fails on demand.
//!
//! Everything here panics when a test would fail.
#![allow(clippy::unwrap_used, missing_debug_implementations)]

mod authority;

pub use authority::{Authority, Issued};

use std::{
    collections::VecDeque,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::Stream;
use prost::Message as _;
use teamwire_client::{
    Client, Reason, Refusal, Retry,
    v1::{
        self, CloseReason, Message,
        call_service_server::{CallService, CallServiceServer},
        history_service_server::{HistoryService, HistoryServiceServer},
        host_service_server::{HostService, HostServiceServer},
        message::Body,
        message_service_server::{MessageService, MessageServiceServer},
        request_service_server::{RequestService, RequestServiceServer},
        stream_response::Frame,
        team_service_server::{TeamService, TeamServiceServer},
    },
};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, ServerTlsConfig},
};
use uuid::Uuid;

/// A join token that the scripted coordinator accepts.
pub const JOIN_TOKEN: &str = "twj:blue:x1:0123456789abcdef";
/// A member's credential that the scripted coordinator accepts.
pub const MEMBER: &str = "twm:blue:ann:0123456789abcdef";

type Sent = mpsc::Sender<Result<v1::StreamResponse, Status>>;

/// The calls so far, and the answers to come.
#[derive(Default)]
pub struct State {
    pub sends: Vec<(v1::SendRequest, String)>,
    pub acked: Vec<(String, String)>,
    pub joins: Vec<v1::JoinRequest>,
    pub leaves: Vec<v1::LeaveRequest>,
    pub heartbeats: Vec<v1::HeartbeatRequest>,
    pub reports: Vec<v1::ReportActivityRequest>,
    pub opened: Vec<v1::StreamRequest>,
    pub waits: u32,
    /// How long each call of WaitForDecision asked to wait.
    pub asked: Vec<Duration>,
    /// The members that ListMembers returns.
    pub members: Vec<v1::Member>,
    /// How the next calls fail, before they succeed.
    pub fail_sends: VecDeque<Status>,
    pub fail_acks: VecDeque<Status>,
    pub fail_streams: VecDeque<Status>,
    pub fail_joins: VecDeque<Status>,
    pub fail_reports: VecDeque<Status>,
    pub fail_lists: VecDeque<Status>,
    /// Each with the time after which the call fails.
    pub fail_waits: VecDeque<(Duration, Status)>,
    /// The next streams of frames. Without any, the coordinator has no such streams.
    pub carries: VecDeque<Carry>,
    /// The frames that streams have brought.
    pub carried: Vec<v1::CallFrame>,
    /// The pages that ListMembers returns in place of `members`. The last one repeats.
    pub member_pages: VecDeque<v1::ListMembersResponse>,
    /// The page tokens that ListMembers was called with.
    pub page_tokens: Vec<String>,
    /// Requests that GetRequest reports as approved.
    pub approved: Vec<String>,
    /// The unacknowledged messages, each with the number of sessions that have delivered it.
    pub inbox: Vec<(Message, u32)>,
    session: Option<Sent>,
}

/// A stream of frames.
pub struct Carry {
    /// How many frames it answers, as sends that succeed. It ends when another one arrives.
    pub answers: usize,
    /// The error that it ends with. `None` means OK.
    pub end: Option<Status>,
}

#[derive(Clone)]
pub struct Coordinator {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    pub address: SocketAddr,
    tls: Option<ServerTlsConfig>,
    serving: Arc<Mutex<Option<JoinHandle<()>>>>,
    /// Keeps the port while nothing listens there, so that no connection of another test gets it.
    _port: Arc<TcpSocket>,
}

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Binds a socket to an address that other sockets of this user may have, too.
fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

impl Coordinator {
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    pub async fn start_with(tls: Option<ServerTlsConfig>) -> Self {
        let port = Arc::new(bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let address = port.local_addr().unwrap();
        let (state, changed, serving) = (Arc::default(), watch::Sender::default(), Arc::default());
        let coordinator = Self { state, changed, address, tls, serving, _port: port };
        coordinator.serve(bind(address).listen(BACKLOG).unwrap());
        coordinator
    }

    fn serve(&self, listener: TcpListener) {
        let mut server = Server::builder();
        if let Some(tls) = &self.tls {
            server = server.tls_config(tls.clone()).unwrap();
        }
        let server = server
            .add_service(MessageServiceServer::new(self.clone()))
            .add_service(TeamServiceServer::new(self.clone()))
            .add_service(RequestServiceServer::new(self.clone()))
            .add_service(HistoryServiceServer::new(self.clone()))
            .add_service(HostServiceServer::new(self.clone()))
            .add_service(CallServiceServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move { server.await.unwrap() });
        *self.serving.lock().unwrap() = Some(serving);
    }

    /// Stops with all connections, and starts again on the same port.
    pub async fn restart(&self) {
        self.stop().await;
        self.serve(bind(self.address).listen(BACKLOG).unwrap());
    }

    pub async fn stop(&self) {
        let serving = self.serving.lock().unwrap().take();
        if let Some(serving) = serving {
            serving.abort();
            let _ = serving.await;
        }
        // Connections run in separate tasks. Their client notices the end of the stream.
        self.with(|state| state.session = None);
    }

    pub fn client(&self) -> Client {
        let retry = Retry { total: Duration::from_secs(20), delay_min: Duration::from_millis(10), ..Retry::default() };
        Client::connect(&self.url()).unwrap().with_credential(MEMBER).unwrap().with_retry(retry)
    }

    pub fn url(&self) -> String {
        format!("http{}://{}", if self.tls.is_some() { "s" } else { "" }, self.address)
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Waits until `is_so` returns something, or panics after 20 s.
    pub async fn until<T>(&self, what: &str, mut is_so: impl FnMut(&State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let waited = timeout(Duration::from_secs(20), async {
            loop {
                changed.borrow_and_update();
                if let Some(result) = is_so(&self.state.lock().unwrap()) {
                    return result;
                }
                changed.changed().await.unwrap();
            }
        });
        waited.await.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
    }

    /// Adds a message to the inbox and returns its id.
    pub async fn put(&self, body: Body) -> String {
        self.put_with(body, "").await
    }

    pub async fn put_with(&self, body: Body, request_id: &str) -> String {
        let message = Message {
            id: Uuid::now_v7().to_string(),
            team: "blue".into(),
            sender: Some(v1::Sender { kind: v1::SenderKind::Member.into(), name: "lead".into() }),
            request_id: request_id.into(),
            body: Some(body),
            ..Default::default()
        };
        let id = message.id.clone();
        let session = self.with(|state| {
            let count = u32::from(state.session.is_some());
            state.inbox.push((message.clone(), count));
            state.session.clone()
        });
        if let Some(session) = session {
            let _ = session.send(Ok(delivery(message, 1))).await;
        }
        id
    }

    pub async fn put_text(&self, content: &str) -> String {
        self.put(Body::Message(v1::DirectMessage {
            recipient: "ann".into(),
            summary: format!("about {content}"),
            content: content.into(),
        }))
        .await
    }

    pub async fn put_shutdown_request(&self, request_id: &str) -> String {
        self.put_with(Body::ShutdownRequest(v1::ShutdownRequest::default()), request_id).await
    }

    /// Ends the open session with a last frame.
    pub async fn close(&self, reason: CloseReason, request_id: &str) {
        let session = self.until("a session to close", |state| state.session.clone()).await;
        let closing = v1::SessionClosing { reason: reason.into(), request_id: request_id.into(), ..Default::default() };
        let _ = session.send(Ok(v1::StreamResponse { frame: Some(Frame::Closing(closing)) })).await;
        self.with(|state| state.session = None);
    }

    /// Ends the open session with a status, or without one.
    pub async fn cut(&self, status: Option<Status>) {
        let session = self.until("a session to cut", |state| state.session.clone()).await;
        if let Some(status) = status {
            let _ = session.send(Err(status)).await;
        }
        self.with(|state| state.session = None);
    }
}

fn delivery(message: Message, delivery_count: u32) -> v1::StreamResponse {
    let delivery = v1::Delivery { sequence: 1, delivery_count, message: Some(message) };
    v1::StreamResponse { frame: Some(Frame::Delivery(delivery)) }
}

fn session_of<T>(request: &Request<T>) -> String {
    request.metadata().get("teamwire-session").map(|id| id.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn not_scripted<T>() -> Result<Response<T>, Status> {
    Err(Refusal::new(Reason::Internal, "This call is not scripted.").into())
}

#[tonic::async_trait]
impl MessageService for Coordinator {
    async fn send(&self, request: Request<v1::SendRequest>) -> Result<Response<v1::SendResponse>, Status> {
        let session = session_of(&request);
        let request = request.into_inner();
        let (refused, approves) = self.with(|state| {
            state.sends.push((request.clone(), session));
            let approves = match &request.body {
                Some(v1::send_request::Body::ShutdownResponse(r)) if r.approve() => Some(r.request_id.clone()),
                _ => None,
            };
            (state.fail_sends.pop_front(), approves)
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        if let Some(request_id) = approves {
            self.with(|state| state.approved.push(request_id.clone()));
            self.close(CloseReason::ShutdownApproved, &request_id).await;
        }
        let request_id = match request.body {
            Some(v1::send_request::Body::ShutdownRequest(_)) => "req_1".into(),
            _ => String::new(),
        };
        Ok(Response::new(v1::SendResponse { message_id: Uuid::now_v7().to_string(), request_id, ..Default::default() }))
    }

    type StreamStream = Pin<Box<dyn Stream<Item = Result<v1::StreamResponse, Status>> + Send>>;

    async fn stream(&self, request: Request<v1::StreamRequest>) -> Result<Response<Self::StreamStream>, Status> {
        let (frames, received) = mpsc::channel(1_000);
        self.with(|state| {
            if let Some(refused) = state.fail_streams.pop_front() {
                return Err(refused);
            }
            state.opened.push(request.into_inner());
            let opened = v1::SessionOpened {
                session_id: format!("session-{}", state.opened.len()),
                heartbeat_interval: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
                ..Default::default()
            };
            frames.try_send(Ok(v1::StreamResponse { frame: Some(Frame::Opened(opened)) })).unwrap();
            for (message, count) in &mut state.inbox {
                *count += 1;
                frames.try_send(Ok(delivery(message.clone(), *count))).unwrap();
            }
            state.session = Some(frames);
            Ok(())
        })?;
        Ok(Response::new(Box::pin(ReceiverStream::new(received))))
    }

    async fn ack(&self, request: Request<v1::AckRequest>) -> Result<Response<v1::AckResponse>, Status> {
        let request = request.into_inner();
        self.with(|state| {
            let failed = state.fail_acks.pop_front();
            for id in &request.message_ids {
                state.acked.push((id.clone(), request.session_id.clone()));
            }
            if let Some(failed) = failed {
                return Err(failed);
            }
            state.inbox.retain(|(message, _)| !request.message_ids.contains(&message.id));
            Ok(Response::new(v1::AckResponse { acked: request.message_ids.len() as u32 }))
        })
    }

    async fn get_message(&self, _: Request<v1::GetMessageRequest>) -> Result<Response<v1::GetMessageResponse>, Status> {
        not_scripted()
    }

    async fn list_inbox(&self, _: Request<v1::ListInboxRequest>) -> Result<Response<v1::ListInboxResponse>, Status> {
        not_scripted()
    }
}

#[tonic::async_trait]
impl CallService for Coordinator {
    type CarryStream = Pin<Box<dyn Stream<Item = Result<v1::CarryResponse, Status>> + Send>>;

    async fn carry(
        &self,
        request: Request<Streaming<v1::CarryRequest>>,
    ) -> Result<Response<Self::CarryStream>, Status> {
        let carry = self.with(|state| state.carries.pop_front()).ok_or_else(|| Status::unimplemented(""))?;
        let (replies, received) = mpsc::channel(1_000);
        let mut frames = request.into_inner();
        let this = self.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            while let Ok(Some(message)) = frames.message().await {
                for frame in message.calls {
                    let sequence = frame.sequence;
                    this.with(|state| state.carried.push(frame));
                    if answered == carry.answers {
                        if let Some(status) = carry.end {
                            replies.send(Err(status)).await.unwrap();
                        }
                        return;
                    }
                    answered += 1;
                    let reply = v1::SendResponse { message_id: Uuid::now_v7().to_string(), ..Default::default() };
                    let status = Some(v1::CallStatus::default());
                    let reply = v1::ReplyFrame { sequence, reply: reply.encode_to_vec().into(), status };
                    replies.send(Ok(v1::CarryResponse { replies: vec![reply] })).await.unwrap();
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(received))))
    }
}

#[tonic::async_trait]
impl TeamService for Coordinator {
    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        self.with(|state| {
            state.joins.push(request.into_inner());
            if let Some(refused) = state.fail_joins.pop_front() {
                return Err(refused);
            }
            let incarnation = state.joins.len() as u64;
            Ok(Response::new(v1::JoinResponse {
                team: Some(v1::Team { name: "blue".into(), ..Default::default() }),
                member: Some(v1::Member { name: "ann".into(), incarnation, ..Default::default() }),
                credential: format!("twm:blue:ann:0123456789abcde{incarnation}"),
            }))
        })
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        self.with(|state| state.leaves.push(request.into_inner()));
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        self.with(|state| state.heartbeats.push(request.into_inner()));
        Ok(Response::new(v1::HeartbeatResponse::default()))
    }

    async fn create_team(
        &self,
        request: Request<v1::CreateTeamRequest>,
    ) -> Result<Response<v1::CreateTeamResponse>, Status> {
        let v1::CreateTeamRequest { name, lead_name, .. } = request.into_inner();
        let credential = format!("twm:{name}:{lead_name}:0123456789abcdef");
        Ok(Response::new(v1::CreateTeamResponse { credential, ..Default::default() }))
    }

    async fn get_team(&self, _: Request<v1::GetTeamRequest>) -> Result<Response<v1::GetTeamResponse>, Status> {
        not_scripted()
    }

    async fn list_teams(&self, _: Request<v1::ListTeamsRequest>) -> Result<Response<v1::ListTeamsResponse>, Status> {
        not_scripted()
    }

    async fn delete_team(&self, _: Request<v1::DeleteTeamRequest>) -> Result<Response<v1::DeleteTeamResponse>, Status> {
        Err(Status::unavailable("cut in mid-call"))
    }

    async fn invite(&self, request: Request<v1::InviteRequest>) -> Result<Response<v1::InviteResponse>, Status> {
        let join_string = format!("{JOIN_TOKEN} for {}", request.into_inner().member);
        Ok(Response::new(v1::InviteResponse { join_string, ..Default::default() }))
    }

    async fn create_observer(
        &self,
        _: Request<v1::CreateObserverRequest>,
    ) -> Result<Response<v1::CreateObserverResponse>, Status> {
        not_scripted()
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        self.with(|state| {
            state.page_tokens.push(request.into_inner().page_token);
            if let Some(status) = state.fail_lists.pop_front() {
                return Err(status);
            }
            let is_last = state.member_pages.len() == 1;
            let page = if is_last { state.member_pages.front().cloned() } else { state.member_pages.pop_front() };
            let all = v1::ListMembersResponse { members: state.members.clone(), ..Default::default() };
            Ok(Response::new(page.unwrap_or(all)))
        })
    }

    async fn diagnose(&self, _: Request<v1::DiagnoseRequest>) -> Result<Response<v1::DiagnoseResponse>, Status> {
        Ok(Response::new(v1::DiagnoseResponse::default()))
    }

    async fn report_activity(
        &self,
        request: Request<v1::ReportActivityRequest>,
    ) -> Result<Response<v1::ReportActivityResponse>, Status> {
        self.with(|state| {
            state.reports.push(request.into_inner());
            match state.fail_reports.pop_front() {
                Some(failed) => Err(failed),
                None => Ok(Response::new(v1::ReportActivityResponse::default())),
            }
        })
    }

    async fn list_activity(
        &self,
        _: Request<v1::ListActivityRequest>,
    ) -> Result<Response<v1::ListActivityResponse>, Status> {
        not_scripted()
    }

    async fn get_last_turn(
        &self,
        _: Request<v1::GetLastTurnRequest>,
    ) -> Result<Response<v1::GetLastTurnResponse>, Status> {
        not_scripted()
    }

    async fn read_transcript(
        &self,
        _: Request<v1::ReadTranscriptRequest>,
    ) -> Result<Response<v1::ReadTranscriptResponse>, Status> {
        not_scripted()
    }

    async fn set_budget(&self, _: Request<v1::SetBudgetRequest>) -> Result<Response<v1::SetBudgetResponse>, Status> {
        not_scripted()
    }

    async fn read_work(&self, _: Request<v1::ReadWorkRequest>) -> Result<Response<v1::ReadWorkResponse>, Status> {
        not_scripted()
    }

    async fn send_base(&self, _: Request<v1::SendBaseRequest>) -> Result<Response<v1::SendBaseResponse>, Status> {
        not_scripted()
    }

    async fn answer_query(
        &self,
        _: Request<v1::AnswerQueryRequest>,
    ) -> Result<Response<v1::AnswerQueryResponse>, Status> {
        not_scripted()
    }

    async fn force_stop(
        &self,
        request: Request<v1::ForceStopRequest>,
    ) -> Result<Response<v1::ForceStopResponse>, Status> {
        let v1::ForceStopRequest { member: name, reason: last_summary, .. } = request.into_inner();
        let member = Some(v1::Member { name, last_summary, ..Default::default() });
        Ok(Response::new(v1::ForceStopResponse { member }))
    }

    async fn set_lead(&self, request: Request<v1::SetLeadRequest>) -> Result<Response<v1::SetLeadResponse>, Status> {
        let team = Some(v1::Team { lead: request.into_inner().member, ..Default::default() });
        Ok(Response::new(v1::SetLeadResponse { team }))
    }

    async fn set_tags(&self, _: Request<v1::SetTagsRequest>) -> Result<Response<v1::SetTagsResponse>, Status> {
        not_scripted()
    }

    async fn subscribe_to_event(
        &self,
        _: Request<v1::SubscribeToEventRequest>,
    ) -> Result<Response<v1::SubscribeToEventResponse>, Status> {
        not_scripted()
    }

    async fn list_event_subscriptions(
        &self,
        _: Request<v1::ListEventSubscriptionsRequest>,
    ) -> Result<Response<v1::ListEventSubscriptionsResponse>, Status> {
        not_scripted()
    }

    async fn cancel_event_subscription(
        &self,
        _: Request<v1::CancelEventSubscriptionRequest>,
    ) -> Result<Response<v1::CancelEventSubscriptionResponse>, Status> {
        not_scripted()
    }

    async fn set_notice_level(
        &self,
        _: Request<v1::SetNoticeLevelRequest>,
    ) -> Result<Response<v1::SetNoticeLevelResponse>, Status> {
        not_scripted()
    }
}

#[tonic::async_trait]
impl RequestService for Coordinator {
    async fn get_request(
        &self,
        request: Request<v1::GetRequestRequest>,
    ) -> Result<Response<v1::GetRequestResponse>, Status> {
        let id = request.into_inner().request_id;
        let approved = self.with(|state| state.approved.contains(&id));
        let state = if approved { v1::RequestState::Approved } else { v1::RequestState::Pending };
        let request =
            v1::Request { id, state: state.into(), member: "ann".into(), incarnation: 2, ..Default::default() };
        Ok(Response::new(v1::GetRequestResponse { request: Some(request) }))
    }

    async fn add_permission_rule(
        &self,
        _: Request<v1::AddPermissionRuleRequest>,
    ) -> Result<Response<v1::AddPermissionRuleResponse>, Status> {
        not_scripted()
    }

    async fn list_permission_rules(
        &self,
        _: Request<v1::ListPermissionRulesRequest>,
    ) -> Result<Response<v1::ListPermissionRulesResponse>, Status> {
        not_scripted()
    }

    async fn revoke_permission_rule(
        &self,
        _: Request<v1::RevokePermissionRuleRequest>,
    ) -> Result<Response<v1::RevokePermissionRuleResponse>, Status> {
        not_scripted()
    }

    async fn use_permission_rule(
        &self,
        _: Request<v1::UsePermissionRuleRequest>,
    ) -> Result<Response<v1::UsePermissionRuleResponse>, Status> {
        not_scripted()
    }

    async fn list_requests(
        &self,
        _: Request<v1::ListRequestsRequest>,
    ) -> Result<Response<v1::ListRequestsResponse>, Status> {
        not_scripted()
    }

    async fn withdraw(&self, _: Request<v1::WithdrawRequest>) -> Result<Response<v1::WithdrawResponse>, Status> {
        not_scripted()
    }

    async fn wait_for_decision(
        &self,
        request: Request<v1::WaitForDecisionRequest>,
    ) -> Result<Response<v1::WaitForDecisionResponse>, Status> {
        let request = request.into_inner();
        let failure = self.with(|state| {
            state.waits += 1;
            state.asked.push(request.timeout.and_then(|asked| asked.try_into().ok()).unwrap_or_default());
            state.fail_waits.pop_front()
        });
        if let Some((after, status)) = failure {
            sleep(after).await;
            return Err(status);
        }
        let request = v1::GetRequestRequest { request_id: request.request_id, ..Default::default() };
        let request = self.get_request(Request::new(request)).await?.into_inner().request;
        Ok(Response::new(v1::WaitForDecisionResponse { request }))
    }
}

#[tonic::async_trait]
impl HostService for Coordinator {
    async fn spawn(&self, _: Request<v1::SpawnRequest>) -> Result<Response<v1::SpawnResponse>, Status> {
        not_scripted()
    }

    async fn list_hosts(&self, _: Request<v1::ListHostsRequest>) -> Result<Response<v1::ListHostsResponse>, Status> {
        not_scripted()
    }

    async fn update_host(&self, _: Request<v1::UpdateHostRequest>) -> Result<Response<v1::UpdateHostResponse>, Status> {
        not_scripted()
    }

    async fn take_order(&self, _: Request<v1::TakeOrderRequest>) -> Result<Response<v1::TakeOrderResponse>, Status> {
        not_scripted()
    }

    async fn refuse_order(
        &self,
        _: Request<v1::RefuseOrderRequest>,
    ) -> Result<Response<v1::RefuseOrderResponse>, Status> {
        not_scripted()
    }

    async fn report_exit(&self, _: Request<v1::ReportExitRequest>) -> Result<Response<v1::ReportExitResponse>, Status> {
        not_scripted()
    }
}

/// An endless history, whose streams break after two entries.
#[tonic::async_trait]
impl HistoryService for Coordinator {
    async fn list_history(
        &self,
        _: Request<v1::ListHistoryRequest>,
    ) -> Result<Response<v1::ListHistoryResponse>, Status> {
        not_scripted()
    }

    type FollowHistoryStream = Pin<Box<dyn Stream<Item = Result<v1::FollowHistoryResponse, Status>> + Send>>;

    async fn follow_history(
        &self,
        request: Request<v1::FollowHistoryRequest>,
    ) -> Result<Response<Self::FollowHistoryStream>, Status> {
        let after = request.into_inner().after_sequence;
        if after >= 6 {
            return Err(Refusal::new(Reason::TeamNotFound, "There is no such team.").into());
        }
        let entry = |sequence| {
            let entry = v1::HistoryEntry { sequence, ..Default::default() };
            Ok(v1::FollowHistoryResponse { entry: Some(entry), last_sequence: sequence })
        };
        let frames = [entry(after + 1), entry(after + 2), Err(Status::unknown("cut"))];
        Ok(Response::new(Box::pin(futures::stream::iter(frames))))
    }
}
