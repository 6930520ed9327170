//! A connection to a coordinator, and its calls.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Method, Reason, Refusal, SESSION_METADATA_KEY,
    address::Address,
    join_string::JoinString,
    method::Effect,
    trace_parent,
    v1::{
        self, history_service_client::HistoryServiceClient, message_service_client::MessageServiceClient,
        request_service_client::RequestServiceClient, task_service_client::TaskServiceClient,
        team_service_client::TeamServiceClient,
    },
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::{ConnectOptions, Error, Retry, TlsOptions, retry::Failure, transport::Transport};

/// How long one attempt of a call may take.
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(10);

/// The largest reply that is read: 1,000 messages of 64 KiB each, and room. A larger one is an error.
const REPLY_BYTES_MAX: usize = 80 << 20;

/// How many bytes a request may have at a coordinator: 256 KiB.
const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// A connection to a coordinator, or to one of several that share a store. Cheap to clone; clones share the connection
/// and the session.
///
/// It connects when it is first used, and again whenever it must: to another coordinator where there is one. Calls are
/// tried again as [`Retry`] says.
#[derive(Clone)]
pub struct Client {
    address: Arc<str>,
    transport: Arc<Transport>,
    authorization: Option<MetadataValue<Ascii>>,
    team: String,
    retry: Retry,
    /// The session that calls belong to; kept up by the subscription, shared by the clones.
    session: Arc<watch::Sender<Session>>,
}

/// The session that a client's calls belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its id. Empty: there never was one.
    pub(crate) id: String,
    /// True while the subscription opens another one, which ends this.
    pub(crate) is_reopening: bool,
}

/// What a call is and how it may be repeated.
pub(crate) struct Call {
    name: &'static str,
    effect: Effect,
    idempotency_key: String,
    attempt_deadline: Duration,
}

impl Call {
    /// Describes a call that is not one of the protocol's own.
    pub(crate) fn new(name: &'static str, effect: Effect) -> Self {
        Self { name, effect, idempotency_key: String::new(), attempt_deadline: ATTEMPT_DEADLINE }
    }

    /// Describes a call by what the protocol says of it.
    pub(crate) fn of(method: Method) -> Self {
        Self::new(method.name(), method.effect())
    }

    /// Says under which key it may be repeated.
    pub(crate) fn with_key(self, key: &str) -> Self {
        Self { idempotency_key: key.to_owned(), ..self }
    }

    /// Says how long the coordinator waits before it answers.
    pub(crate) fn waiting(self, wait: Duration) -> Self {
        Self { attempt_deadline: wait + ATTEMPT_DEADLINE, ..self }
    }
}

impl Client {
    /// Makes a client of the coordinator at `http://HOST:PORT` or `https://HOST:PORT`, or of up to 16, with commas
    /// between them, that share a store. Nothing is sent yet, and no file is read but the system's authorities.
    pub fn connect(address: &str) -> Result<Self, Error> {
        Self::connect_with(address, ConnectOptions::default())
    }

    /// Makes a client like [`Client::connect`], and says whom it trusts and what it shows of itself.
    ///
    /// Fails with [`Error::TlsOptions`] when a certificate or key cannot be read. Files are read again for every
    /// connection, so that renewed certificates are found.
    pub fn connect_with(address: &str, options: impl Into<ConnectOptions>) -> Result<Self, Error> {
        let addresses = Address::parse_list(address)
            .map_err(|error| Error::Address { address: address.to_owned(), detail: error.to_string() })?;
        let full: Vec<_> = addresses.iter().map(Address::to_string).collect();
        Ok(Self {
            address: full.join(",").into(),
            transport: Arc::new(Transport::new(addresses, options.into())?),
            authorization: None,
            team: String::new(),
            retry: Retry::default(),
            session: Arc::default(),
        })
    }

    /// Makes a client out of an [`Identity`](crate::Identity).
    pub fn from_identity(identity: &crate::Identity) -> Result<Self, Error> {
        let mut client = Self::connect_with(&identity.address, identity.tls.clone())?;
        if let Some(credential) = &identity.credential {
            client = client.with_credential(credential)?;
        }
        Ok(client.with_team(identity.team.clone().unwrap_or_default()))
    }

    /// Becomes a member by what `teamwire invite` has printed, and returns a client with the credential of that life.
    ///
    /// `text`: a join string, which says where and whom to trust there, or a bare join token for the coordinator that the
    /// environment names. `name`: the name to bear; empty when the token is bound to one. The reply carries the credential,
    /// and [`Client::tls`] what to trust, for whoever wants to keep them.
    pub async fn join_by(text: &str, name: &str) -> Result<(Self, v1::JoinResponse), Error> {
        let joining = JoinString::parse(text)?;
        let mut identity = crate::Identity::from_env();
        if !joining.addresses.is_empty() {
            identity.address = joining.address();
        }
        if joining.fingerprint.is_some() {
            identity.tls = TlsOptions { ca: None, fingerprint: joining.fingerprint, ..identity.tls };
        }
        let stranger = Self::connect_with(&identity.address, identity.tls)?;
        let request = v1::JoinRequest { name: name.to_owned(), ..v1::JoinRequest::default() };
        let joined = stranger.with_credential(&joining.token().reveal())?.join(request).await?;
        let team = joined.team.clone().unwrap_or_default().name;
        Ok((stranger.with_credential(&joined.credential)?.with_team(team), joined))
    }

    /// Returns a client on the same connection that presents this credential, outside of any session.
    pub fn with_credential(&self, credential: &str) -> Result<Self, Error> {
        let mut authorization: MetadataValue<Ascii> =
            format!("Bearer {credential}").parse().map_err(|_| Error::Credential)?;
        authorization.set_sensitive(true);
        Ok(Self { authorization: Some(authorization), session: Arc::default(), ..self.clone() })
    }

    /// Returns a client on the same connection with the same credential, outside of any session.
    pub fn without_session(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Names the team in every request that leaves it open. An operator must; for anybody else the credential does.
    pub fn with_team(mut self, team: impl Into<String>) -> Self {
        self.team = team.into();
        self
    }

    /// Changes how persistent the client is.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Returns the coordinator's address, or all of them with commas between them.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns what another client needs to trust the same coordinators, and to be let in.
    ///
    /// A fingerprint is replaced by the certificate that it stands for once a connection was made.
    pub fn tls(&self) -> TlsOptions {
        self.transport.tls_options()
    }

    /// Sends one message of any kind, under the idempotency key that it has or a new one.
    pub async fn send(&self, request: impl Into<v1::SendRequest>) -> Result<v1::SendResponse, Error> {
        let mut request = request.into();
        self.fill(&mut request.team);
        if request.idempotency_key.is_empty() {
            // This version sorts by time, which is the cheapest for a coordinator to keep.
            request.idempotency_key = Uuid::now_v7().to_string();
        }
        // The transport of the coordinator would refuse it without a reason.
        if request.encoded_len() > REQUEST_BYTES_MAX {
            return Err(Error::Refused(
                Refusal::new(
                    Reason::ContentTooLarge,
                    "The message is far over what a message may have. Put the content somewhere both can reach, and send its \
                     address as an attachment.",
                )
                .field("content"),
            ));
        }
        let call = Call::of(Method::Send).with_key(&request.idempotency_key);
        self.call(call, request, |channel, request| async move { messages(channel).send(request).await }).await
    }

    /// Creates a team, whose lead the caller becomes. The reply carries the lead's credential.
    pub async fn create_team(&self, mut request: v1::CreateTeamRequest) -> Result<v1::CreateTeamResponse, Error> {
        let key = unguessable(&mut request.idempotency_key);
        let call = Call::of(Method::CreateTeam).with_key(&key);
        self.call(call, request, |channel, request| async move { teams(channel).create_team(request).await }).await
    }

    /// Begins a life of a member's name, by a join token or by the member's own credential. The reply carries the
    /// credential of this life.
    pub async fn join(&self, mut request: v1::JoinRequest) -> Result<v1::JoinResponse, Error> {
        let key = unguessable(&mut request.idempotency_key);
        let call = Call::of(Method::Join).with_key(&key);
        self.call(call, request, |channel, request| async move { teams(channel).join(request).await }).await
    }

    /// Returns a request as soon as it is decided, or as it is when the time, 60 s at most, is over.
    ///
    /// [`Client::wait_decision`] waits longer.
    pub async fn wait_for_decision(
        &self,
        mut request: v1::WaitForDecisionRequest,
    ) -> Result<v1::WaitForDecisionResponse, Error> {
        self.fill(&mut request.team);
        let method = Method::WaitForDecision;
        let waits = method.wait().map(|wait| wait.asked(request.timeout.as_ref())).unwrap_or_default();
        let call = Call::of(method).waiting(waits);
        self.call(call, request, |channel, request| async move { requests(channel).wait_for_decision(request).await })
            .await
    }

    /// Makes one call, as often as its effect and the client's patience allow.
    pub(crate) async fn call<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let span = match Span::current().is_none() {
            // Nobody asks what becomes of it.
            true => Span::none(),
            false => tracing::debug_span!("call", otel.name = call.name, otel.kind = "client", rpc.system = "grpc"),
        };
        self.persist(call, message, attempt).instrument(span).await
    }

    async fn persist<Q, A, F>(
        &self,
        call: Call,
        message: Q,
        attempt: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let began = Instant::now();
        let mut delays = self.retry.delays();
        let (mut may_have_changed, mut has_redialled) = (false, false);
        loop {
            let session = self.session.borrow().clone();
            let (failure, status) = match self.transport.link().await {
                Ok(link) => {
                    let mut request = self.request(message.clone(), &session);
                    request.set_timeout(call.attempt_deadline);
                    // The deadline in the request bounds the headers of the reply only.
                    match timeout(call.attempt_deadline, attempt(link.channel(), request)).await {
                        Ok(Ok(response)) => return Ok(response.into_inner()),
                        Ok(Err(status)) => (self.transport.judge(&link, &status), status),
                        Err(_) => {
                            self.transport.leave(&link);
                            let detail = format!("no answer within {:?}", call.attempt_deadline);
                            (Failure::Broken, Status::deadline_exceeded(detail))
                        }
                    }
                }
                Err(status) => (Failure::of(&status), status),
            };
            if failure == Failure::Stale && !has_redialled {
                has_redialled = true;
                continue;
            }
            may_have_changed |= failure.may_have_changed(call.effect);
            if is_superseded(&failure) && self.has_new_session(&session, call.attempt_deadline).await {
                continue;
            }
            let delay = delays.next().max(failure.asks_to_wait());
            let left = self.retry.total.saturating_sub(began.elapsed());
            if delay >= left || !failure.is_retried(call.effect, &self.retry) {
                return Err(self.error(call, failure, may_have_changed, status));
            }
            tracing::debug!(call = call.name, code = ?status.code(), message = status.message(), ?delay, "trying again");
            sleep(delay).await;
        }
    }

    /// Dresses a request with the credential and the session.
    pub(crate) fn request<Q>(&self, message: Q, session: &Session) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        if let Ok(id) = session.id.parse()
            && !session.id.is_empty()
        {
            request.metadata_mut().insert(SESSION_METADATA_KEY, id);
        }
        if let Some(trace_parent) = trace_parent::of(&Span::current()).and_then(|text| text.parse().ok()) {
            request.metadata_mut().insert(trace_parent::METADATA_KEY, trace_parent);
        }
        request
    }

    /// Returns whether the session that a refused call was made in has been replaced by one of our own.
    ///
    /// A subscription that reconnects ends its own earlier session; a call that was under way then is refused although
    /// nobody else has taken over.
    async fn has_new_session(&self, refused: &Session, patience: Duration) -> bool {
        let mut sessions = self.session.subscribe();
        let settled = timeout(patience, sessions.wait_for(|now| now.id != refused.id || !now.is_reopening)).await;
        matches!(settled, Ok(Ok(now)) if now.id != refused.id)
    }

    pub(crate) fn error(&self, call: Call, failure: Failure, may_have_changed: bool, status: Status) -> Error {
        let address = self.address.to_string();
        let detail = status.message().to_owned();
        match failure {
            Failure::Refused(refusal) | Failure::NotNow { refusal, is_outcome_known: true } => Error::Refused(refusal),
            Failure::Unexpected => Error::Unexpected { address, status: Box::new(status) },
            _ if may_have_changed => {
                Error::OutcomeUnknown { call: call.name, idempotency_key: call.idempotency_key, detail }
            }
            Failure::NotNow { refusal, .. } => Error::Refused(refusal),
            Failure::Insecure(detail) => Error::Insecure { address, detail },
            Failure::NotSent | Failure::Stale | Failure::Broken => Error::Unreachable { address, detail },
        }
    }

    pub(crate) fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    pub(crate) fn session(&self) -> &Arc<watch::Sender<Session>> {
        &self.session
    }

    pub(crate) fn fill(&self, team: &mut String) {
        if team.is_empty() {
            team.clone_from(&self.team);
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).field("team", &self.team).finish_non_exhaustive()
    }
}

fn is_superseded(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(refusal) if refusal.reason == Reason::SessionSuperseded)
}

/// Makes sure of a key that nobody can guess: who repeats the call with it is given the credential.
fn unguessable(key: &mut String) -> String {
    if key.is_empty() {
        *key = Uuid::new_v4().to_string();
    }
    key.clone()
}

pub(crate) fn messages(channel: Channel) -> MessageServiceClient<Channel> {
    MessageServiceClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX)
}

pub(crate) fn history(channel: Channel) -> HistoryServiceClient<Channel> {
    HistoryServiceClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX)
}

fn teams(channel: Channel) -> TeamServiceClient<Channel> {
    TeamServiceClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX)
}

pub(crate) fn tasks(channel: Channel) -> TaskServiceClient<Channel> {
    TaskServiceClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX)
}

fn requests(channel: Channel) -> RequestServiceClient<Channel> {
    RequestServiceClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX)
}

/// Writes the calls that do nothing but pass on: the service, the RPC's name as a method and as in the protocol, the
/// request with the field that names the team, and the response.
macro_rules! calls {
    ($($(#[$doc:meta])* $service:ident.$method:ident = $name:ident($request:ident $(.$team:ident)?) -> $response:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                #[allow(unused_mut)]
                pub async fn $method(&self, mut request: v1::$request) -> Result<v1::$response, Error> {
                    $(self.fill(&mut request.$team);)?
                    let call = Call::of(Method::$name);
                    self.call(call, request, |channel, request| async move { $service(channel).$method(request).await })
                        .await
                }
            )*
        }
    };
}

calls! {
    /// Marks messages as processed. A [`Subscription`](crate::Subscription) does it for what it has delivered.
    messages.ack = Ack(AckRequest) -> AckResponse;
    /// Returns a message with its receipts.
    messages.get_message = GetMessage(GetMessageRequest.team) -> GetMessageResponse;
    /// Lists the unprocessed messages of an inbox without opening a session.
    messages.list_inbox = ListInbox(ListInboxRequest.team) -> ListInboxResponse;
    /// Returns one team.
    teams.get_team = GetTeam(GetTeamRequest.team) -> GetTeamResponse;
    /// Lists the teams that the caller may see.
    teams.list_teams = ListTeams(ListTeamsRequest) -> ListTeamsResponse;
    /// Deletes a team with everything that belongs to it. Not repeated while its outcome is unknown.
    teams.delete_team = DeleteTeam(DeleteTeamRequest.team) -> DeleteTeamResponse;
    /// Mints a join token. A repeated attempt may leave a second token behind, which expires unused.
    teams.invite = Invite(InviteRequest.team) -> InviteResponse;
    /// Mints an observer's credential. A repeated attempt may leave a second one behind, which expires unused.
    teams.create_observer = CreateObserver(CreateObserverRequest.team) -> CreateObserverResponse;
    /// Ends the caller's own life, and says how its process ended.
    teams.leave = Leave(LeaveRequest) -> LeaveResponse;
    /// Lists the members of a team.
    teams.list_members = ListMembers(ListMembersRequest.team) -> ListMembersResponse;
    /// Renews the caller's lease and says whether it is at work.
    teams.heartbeat = Heartbeat(HeartbeatRequest) -> HeartbeatResponse;
    /// Stops a member at once.
    teams.force_stop = ForceStop(ForceStopRequest.team) -> ForceStopResponse;
    /// Makes another member the lead. Not repeated while its outcome is unknown.
    teams.set_lead = SetLead(SetLeadRequest.team) -> SetLeadResponse;
    /// Returns one request.
    requests.get_request = GetRequest(GetRequestRequest.team) -> GetRequestResponse;
    /// Lists requests, the newest first.
    requests.list_requests = ListRequests(ListRequestsRequest.team) -> ListRequestsResponse;
    /// Returns one task, and the token of its claim for its owner.
    tasks.get_task = GetTask(GetTaskRequest.team) -> GetTaskResponse;
    /// Lists tasks in the order of their ids.
    tasks.list_tasks = ListTasks(ListTasksRequest.team) -> ListTasksResponse;
    /// Changes a task. With an expected version, a repeated attempt may be refused although the first one succeeded.
    tasks.update_task = UpdateTask(UpdateTaskRequest.team) -> UpdateTaskResponse;
    /// Completes a task.
    tasks.complete_task = CompleteTask(CompleteTaskRequest.team) -> CompleteTaskResponse;
    /// Gives a claimed task back to the board.
    tasks.release_task = ReleaseTask(ReleaseTaskRequest.team) -> ReleaseTaskResponse;
    /// Deletes a task.
    tasks.delete_task = DeleteTask(DeleteTaskRequest.team) -> DeleteTaskResponse;
    /// Lists a part of the history.
    history.list_history = ListHistory(ListHistoryRequest.team) -> ListHistoryResponse;
}
