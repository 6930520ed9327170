//! One method for each RPC. Those with more to do than a call are in `answer`, `task`, `history` and `subscription`.

use std::time::Duration;

use teamwire_proto::{
    Method,
    v1::{
        self, access_service_client::AccessServiceClient, audit_service_client::AuditServiceClient,
        backup_service_client::BackupServiceClient, history_service_client::HistoryServiceClient,
        host_service_client::HostServiceClient, message_service_client::MessageServiceClient,
        request_service_client::RequestServiceClient, task_service_client::TaskServiceClient,
        team_service_client::TeamServiceClient, watch_service_client::WatchServiceClient,
    },
};
use tonic::transport::Channel;

use super::{Call, Client};
use crate::Error;

/// How long a coordinator waits for the answer of a member's runner.
const RUNNER_DEADLINE: Duration = Duration::from_secs(10);

impl Client {
    /// Sends one message of any kind, with the request's idempotency key or a new one.
    ///
    /// [`message`](crate::message) builds the requests. When this returns, the message is in the recipient's inbox, as
    /// durable as the reply says. Fails with [`Error::Refused`] if the rules forbid it; with [`Error::OutcomeUnknown`],
    /// sending the same request with the same key is safe.
    pub async fn send(&self, request: impl Into<v1::SendRequest>) -> Result<v1::SendResponse, Error> {
        let mut request = request.into();
        self.fill(&mut request.team);
        let key = self.key(&mut request.idempotency_key);
        let call = Call::of(Method::Send).with_key(&key);
        self.call(call, request, |channel, request| async move { messages(channel).send(request).await }).await
    }

    /// Creates a team as an operator. The reply holds the lead's credential.
    ///
    /// [`Client::create_team`] returns the lead's client instead.
    pub async fn create_team_with(&self, mut request: v1::CreateTeamRequest) -> Result<v1::CreateTeamResponse, Error> {
        let key = self.unguessable_key(&mut request.idempotency_key);
        let call = Call::of(Method::CreateTeam).with_key(&key);
        self.call(call, request, |channel, request| async move { teams(channel).create_team(request).await }).await
    }

    /// Begins an incarnation of a member, with a join token or with the member's own credential. The reply holds the
    /// credential of this incarnation.
    pub async fn join(&self, mut request: v1::JoinRequest) -> Result<v1::JoinResponse, Error> {
        let key = self.unguessable_key(&mut request.idempotency_key);
        let call = Call::of(Method::Join).with_key(&key);
        self.call(call, request, |channel, request| async move { teams(channel).join(request).await }).await
    }

    /// Creates a code with which a person can sign in to the console as the caller.
    pub async fn create_sign_in_code(
        &self,
        mut request: v1::CreateSignInCodeRequest,
    ) -> Result<v1::CreateSignInCodeResponse, Error> {
        self.fill(&mut request.team);
        let key = self.unguessable_key(&mut request.idempotency_key);
        let call = Call::of(Method::CreateSignInCode).with_key(&key);
        self.call(call, request, |channel, request| async move { access(channel).create_sign_in_code(request).await })
            .await
    }

    /// Exchanges a code, the client's credential, for a console credential.
    pub async fn sign_in(&self, mut request: v1::SignInRequest) -> Result<v1::SignInResponse, Error> {
        let key = self.unguessable_key(&mut request.idempotency_key);
        let call = Call::of(Method::SignIn).with_key(&key);
        self.call(call, request, |channel, request| async move { access(channel).sign_in(request).await }).await
    }

    /// Reports what the caller's program has done and used, with the request's idempotency key or a new one.
    pub async fn report_activity(
        &self,
        mut request: v1::ReportActivityRequest,
    ) -> Result<v1::ReportActivityResponse, Error> {
        let key = self.key(&mut request.idempotency_key);
        let call = Call::of(Method::ReportActivity).with_key(&key);
        self.call(call, request, |channel, request| async move { teams(channel).report_activity(request).await }).await
    }

    /// Orders a member from a host, with the request's idempotency key or a new one. The reply holds the order, which
    /// is still pending: [`Client::wait_decision`] waits for the start.
    pub async fn spawn(&self, mut request: v1::SpawnRequest) -> Result<v1::SpawnResponse, Error> {
        self.fill(&mut request.team);
        let key = self.key(&mut request.idempotency_key);
        let call = Call::of(Method::Spawn).with_key(&key);
        self.call(call, request, |channel, request| async move { hosts(channel).spawn(request).await }).await
    }

    /// Lists a page of what a member's program has done. Waits for the first line if the request says so, for up to 60
    /// s.
    ///
    /// [`Client::follow_activity`] waits for as long as it takes.
    pub async fn list_activity(&self, mut request: v1::ListActivityRequest) -> Result<v1::ListActivityResponse, Error> {
        self.fill(&mut request.team);
        let method = Method::ListActivity;
        let waits = method.wait().and_then(|wait| wait.asked(request.wait.as_ref())).unwrap_or_default();
        let call = Call::of(method).waiting(waits);
        self.call(call, request, |channel, request| async move { teams(channel).list_activity(request).await }).await
    }

    /// Reads a page of a member's transcript from its runner. Waits for the first entry if the request says so, for up to
    /// 30 s.
    pub async fn read_transcript(
        &self,
        mut request: v1::ReadTranscriptRequest,
    ) -> Result<v1::ReadTranscriptResponse, Error> {
        self.fill(&mut request.team);
        let method = Method::ReadTranscript;
        let waits = method.wait().and_then(|wait| wait.asked(request.wait.as_ref())).unwrap_or_default();
        // The runner may take a while, too.
        let call = Call::of(method).waiting(waits + RUNNER_DEADLINE);
        self.call(call, request, |channel, request| async move { teams(channel).read_transcript(request).await }).await
    }

    /// Returns a request as soon as it is decided, or still pending when the request's timeout of at most 60 s expires.
    ///
    /// [`Client::wait_decision`] can wait longer.
    pub async fn wait_for_decision(
        &self,
        mut request: v1::WaitForDecisionRequest,
    ) -> Result<v1::WaitForDecisionResponse, Error> {
        self.fill(&mut request.team);
        let method = Method::WaitForDecision;
        let waits = method.wait().and_then(|wait| wait.asked(request.timeout.as_ref())).unwrap_or_default();
        let call = Call::of(method).waiting(waits);
        self.call(call, request, |channel, request| async move { requests(channel).wait_for_decision(request).await })
            .await
    }
}

pub(crate) fn messages(channel: Channel) -> MessageServiceClient<Channel> {
    MessageServiceClient::new(channel)
}

pub(crate) fn history(channel: Channel) -> HistoryServiceClient<Channel> {
    HistoryServiceClient::new(channel)
}

pub(crate) fn teams(channel: Channel) -> TeamServiceClient<Channel> {
    TeamServiceClient::new(channel)
}

pub(crate) fn tasks(channel: Channel) -> TaskServiceClient<Channel> {
    TaskServiceClient::new(channel)
}

pub(crate) fn watches(channel: Channel) -> WatchServiceClient<Channel> {
    WatchServiceClient::new(channel)
}

fn access(channel: Channel) -> AccessServiceClient<Channel> {
    AccessServiceClient::new(channel)
}

fn audit(channel: Channel) -> AuditServiceClient<Channel> {
    AuditServiceClient::new(channel)
}

pub(crate) fn backups(channel: Channel) -> BackupServiceClient<Channel> {
    BackupServiceClient::new(channel)
}

fn hosts(channel: Channel) -> HostServiceClient<Channel> {
    HostServiceClient::new(channel)
}

pub(crate) fn requests(channel: Channel) -> RequestServiceClient<Channel> {
    RequestServiceClient::new(channel)
}

/// Generates the methods that only make a call. Each entry names the service, the method, the RPC, the request with the
/// field that names the team, and the response.
macro_rules! calls {
    ($($(#[$doc:meta])* $service:ident.$method:ident = $name:ident($request:ident $(.$team:ident)?) -> $response:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                #[allow(unused_mut)]
                pub async fn $method(&self, request: impl Into<v1::$request>) -> Result<v1::$response, Error> {
                    let mut request = request.into();
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
    /// Acknowledges messages as processed. A [`Subscription`](crate::Subscription) does this for what it delivers.
    messages.ack = Ack(AckRequest) -> AckResponse;
    /// Returns a message with its receipts.
    messages.get_message = GetMessage(GetMessageRequest.team) -> GetMessageResponse;
    /// Lists the unprocessed messages of an inbox without opening a session.
    messages.list_inbox = ListInbox(ListInboxRequest.team) -> ListInboxResponse;
    /// Returns a team.
    teams.get_team = GetTeam(GetTeamRequest.team) -> GetTeamResponse;
    /// Returns the turn of a member's program that ended last. Only for the lead, the operator and the member itself.
    teams.get_last_turn = GetLastTurn(GetLastTurnRequest.team) -> GetLastTurnResponse;
    /// Sets, raises or removes a budget. Not retried while its outcome is unknown.
    teams.set_budget = SetBudget(SetBudgetRequest.team) -> SetBudgetResponse;
    /// Answers a query of the member's transcript.
    teams.read_work = ReadWork(ReadWorkRequest) -> ReadWorkResponse;
    teams.send_base = SendBase(SendBaseRequest.team) -> SendBaseResponse;
    teams.answer_query = AnswerQuery(AnswerQueryRequest) -> AnswerQueryResponse;
    /// Lists the teams that the caller can see.
    teams.list_teams = ListTeams(ListTeamsRequest) -> ListTeamsResponse;
    /// Deletes a team and everything in it, given its name or the full request. Not retried while its outcome is
    /// unknown.
    teams.delete_team = DeleteTeam(DeleteTeamRequest.team) -> DeleteTeamResponse;
    /// Creates a join token, given the name of the member to invite (empty: any) or the full request. A retry may leave
    /// a second token behind, which expires unused.
    teams.invite = Invite(InviteRequest.team) -> InviteResponse;
    /// Creates an observer's credential. A retry may leave a second one behind, which expires unused.
    teams.create_observer = CreateObserver(CreateObserverRequest.team) -> CreateObserverResponse;
    /// Ends the caller's own incarnation, and reports how its process exited, given its exit code or the full request.
    teams.leave = Leave(LeaveRequest) -> LeaveResponse;
    /// Lists the members of a team.
    teams.list_members = ListMembers(ListMembersRequest.team) -> ListMembersResponse;
    /// Finds what is wrong in a team, and says what to do about it.
    teams.diagnose = Diagnose(DiagnoseRequest.team) -> DiagnoseResponse;
    /// Renews the caller's lease and reports whether it is active.
    teams.heartbeat = Heartbeat(HeartbeatRequest) -> HeartbeatResponse;
    /// Makes another member the lead. Not retried while its outcome is unknown. [`Client::hand_over`] takes the member.
    teams.set_lead = SetLead(SetLeadRequest.team) -> SetLeadResponse;
    /// Sets which notices of the coordinator a member gets.
    teams.set_notice_level = SetNoticeLevel(SetNoticeLevelRequest.team) -> SetNoticeLevelResponse;
    /// Adds tags to a member, and removes some.
    teams.set_tags = SetTags(SetTagsRequest.team) -> SetTagsResponse;
    /// Asks for one notice to the caller when something happens.
    teams.subscribe_to_event = SubscribeToEvent(SubscribeToEventRequest.team) -> SubscribeToEventResponse;
    /// Lists the caller's subscriptions to events.
    teams.list_event_subscriptions = ListEventSubscriptions(ListEventSubscriptionsRequest.team) -> ListEventSubscriptionsResponse;
    /// Cancels one of the caller's subscriptions to events.
    teams.cancel_event_subscription = CancelEventSubscription(CancelEventSubscriptionRequest.team) -> CancelEventSubscriptionResponse;
    /// Returns a request for a shutdown, a plan approval or a permission.
    requests.get_request = GetRequest(GetRequestRequest.team) -> GetRequestResponse;
    /// Lists requests, newest first.
    requests.list_requests = ListRequests(ListRequestsRequest.team) -> ListRequestsResponse;
    /// Withdraws a permission request of the caller's. [`Client::withdraw_request`] takes its id.
    requests.withdraw = Withdraw(WithdrawRequest.team) -> WithdrawResponse;
    /// Adds a permission rule.
    requests.add_permission_rule = AddPermissionRule(AddPermissionRuleRequest.team) -> AddPermissionRuleResponse;
    /// Lists the permission rules of the team.
    requests.list_permission_rules = ListPermissionRules(ListPermissionRulesRequest.team) -> ListPermissionRulesResponse;
    /// Revokes a permission rule.
    requests.revoke_permission_rule =
        RevokePermissionRule(RevokePermissionRuleRequest.team) -> RevokePermissionRuleResponse;
    /// Looks for a permission rule that permits what the caller's program asks for, and records its use. Not retried while
    /// its outcome is unknown.
    requests.use_permission_rule = UsePermissionRule(UsePermissionRuleRequest) -> UsePermissionRuleResponse;
    /// Returns a task and, to its owner, the token of its claim.
    tasks.get_task = GetTask(GetTaskRequest.team) -> GetTaskResponse;
    /// Lists tasks in order of their ids.
    tasks.list_tasks = ListTasks(ListTasksRequest.team) -> ListTasksResponse;
    /// Changes a task. With an expected version, a retry may be refused although the first attempt succeeded.
    tasks.update_task = UpdateTask(UpdateTaskRequest.team) -> UpdateTaskResponse;
    /// Completes a claimed task.
    tasks.complete_task = CompleteTask(CompleteTaskRequest.team) -> CompleteTaskResponse;
    /// Gives a claimed task back to the board.
    tasks.release_task = ReleaseTask(ReleaseTaskRequest.team) -> ReleaseTaskResponse;
    /// Deletes a task.
    tasks.delete_task = DeleteTask(DeleteTaskRequest.team) -> DeleteTaskResponse;
    /// Lists the hosts of a team.
    hosts.list_hosts = ListHosts(ListHostsRequest.team) -> ListHostsResponse;
    /// Says what the caller, a host, offers, given the offer or the full request.
    hosts.update_host = UpdateHost(UpdateHostRequest) -> UpdateHostResponse;
    /// Takes an order that the caller, a host, has in its inbox, given its id or the full request. Returns the join
    /// token of the member to start.
    hosts.take_order = TakeOrder(TakeOrderRequest) -> TakeOrderResponse;
    /// Refuses an order that the caller, a host, has.
    hosts.refuse_order = RefuseOrder(RefuseOrderRequest) -> RefuseOrderResponse;
    /// Reports that a member that the caller started has no process left. For hosts.
    hosts.report_exit = ReportExit(ReportExitRequest) -> ReportExitResponse;
    /// Returns what the caller's credential permits.
    access.get_caller = GetCaller(GetCallerRequest) -> GetCallerResponse;
    /// Lists a page of the team's credentials that are valid.
    access.list_credentials = ListCredentials(ListCredentialsRequest.team) -> ListCredentialsResponse;
    /// Revokes a credential.
    access.revoke_credential = RevokeCredential(RevokeCredentialRequest.team) -> RevokeCredentialResponse;
    /// Lists a page of the chains of the audit log.
    audit.list_audit_chains = ListAuditChains(ListAuditChainsRequest.team) -> ListAuditChainsResponse;
    /// Lists a page of the entries of the audit log.
    audit.list_audit_entries = ListAuditEntries(ListAuditEntriesRequest.team) -> ListAuditEntriesResponse;
    /// Lists a page of the history.
    history.list_history = ListHistory(ListHistoryRequest.team) -> ListHistoryResponse;
}
