//! One function per kind of act: it makes the call, checks the outcome against the model, and updates the model.
//!
//! Each returns `None` for a refusal.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use proptest::sample::Index;
use teamwire_proto::{
    Refusal,
    v1::{self, CloseReason, stream_response::Frame},
};
use teamwire_server::{
    coordinator::Coordinator,
    delivery::{Heartbeats, Pace, Session},
    domain::{identity::CallerCredentials, secret::SessionId},
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Done, Keyed, PATIENCE, PLANNER, Sessions, Story,
    generate::{Act, HOSTS, NAMES, Proof, pick_task, pick_tasks},
    model::{self, Asks, Caller, Change, Life, State},
    sessions::Listener,
};
use crate::{board::task, calls::RuleCalls as _, team::*};

/// Who calls which coordinator, and the inboxes before the call.
pub(super) struct Call {
    pub(super) c: Arc<Coordinator>,
    pub(super) who: CallerCredentials,
    pub(super) caller: Caller,
    depths: BTreeMap<String, u64>,
    /// The team that the request must name.
    pub(super) team: String,
    /// The caller's name.
    pub(super) from: String,
}

impl Call {
    pub(super) fn new(
        c: Arc<Coordinator>,
        who: CallerCredentials,
        caller: Caller,
        depths: BTreeMap<String, u64>,
    ) -> Self {
        let team = if who.credential.team().is_none() { "alpha".to_owned() } else { String::new() };
        let from = match &caller {
            Caller::Member { name, .. } => name.clone(),
            _ => "operator".to_owned(),
        };
        Self { c, who, caller, depths, team, from }
    }

    /// Returns the same call by another caller.
    pub(super) fn by(&self, (who, caller): (CallerCredentials, Caller)) -> Self {
        Self::new(self.c.clone(), who, caller, self.depths.clone())
    }

    /// Returns whether an inbox has room for another message.
    pub(super) fn has_room(&self, name: &str) -> bool {
        self.depths.get(name).is_none_or(|entries| *entries < model::INBOX_ENTRIES_MAX)
    }

    /// Returns whether an inbox has room for an answer, which may exceed the bound, as may all that is about shutdowns.
    pub(super) fn has_extra_room(&self, name: &str, asks: Asks) -> bool {
        let factor = if asks == Asks::Shutdown { 3 } else { 2 };
        self.depths.get(name).is_none_or(|entries| *entries < factor * model::INBOX_ENTRIES_MAX)
    }

    fn in_team(&self, request: v1::SendRequest) -> v1::SendRequest {
        v1::SendRequest { team: self.team.clone(), ..request }
    }
}

/// A send with what the model expects of it.
struct Expected {
    request: v1::SendRequest,
    content: String,
    /// `None` if the send must be refused.
    recipients: Option<Vec<String>>,
    /// The life that a shutdown request addresses.
    only_for: Option<u64>,
}

/// A request to answer, and how.
struct Answer {
    request: Index,
    asks: Option<Asks>,
    to: Option<&'static str>,
    approve: Option<bool>,
    rightly: bool,
}

impl Story {
    pub(super) async fn act(&mut self, call: &Call, act: &Act) -> Option<Done> {
        match act {
            Act::Message { to, keyed } => self.message(call, to, *keyed).await,
            Act::Broadcast { keyed } => self.broadcast(call, *keyed).await,
            Act::Repeat { which } => self.repeat(call, which).await,
            Act::Shutdown { to } => self.request_shutdown(call, to).await,
            Act::Plan => self.submit_plan(call).await,
            Act::Permission { of } => self.request_permission(call, *of).await,
            Act::Withdraw { request } => self.withdraw(call, request).await,
            Act::Answer { request, asks, to, approve, rightly } => {
                let answer = Answer { request: *request, asks: *asks, to: *to, approve: *approve, rightly: *rightly };
                self.answer(call, answer).await
            }
            Act::Stream => self.open_stream(call).await,
            Act::Ack { messages } => self.acknowledge(call, messages).await,
            Act::Heartbeat { idle } => self.heartbeat(call, *idle).await,
            Act::Join { name, twice, detached } => self.join(call, name, *twice, *detached).await,
            Act::Rejoin { detached } => self.rejoin(call, *detached).await,
            Act::Leave { code } => self.leave(call, *code).await,
            Act::Force { name } => self.force_stop(call, name).await,
            Act::SetLead { name } => self.set_lead(call, name).await,
            Act::Delete => self.delete_team(call).await,
            Act::Pass { steps, may_lose } => self.pass(call, *steps, *may_lose).await,
            Act::AddTask { owner, after, keyed } => self.add_task(call, owner, after, *keyed).await,
            Act::ChangeTask { task, owner, add, remove } => self.change_task(call, task, *owner, add, remove).await,
            Act::DeleteTask { task } => self.delete_task(call, task).await,
            Act::HostJoin { host } => self.join_host(call, host).await,
            Act::Offer { slots, slow } => self.offer(call, *slots, *slow).await,
            Act::Spawn(wish) => self.spawn(call, *wish).await,
            Act::Take(pick) => self.take_order(call, pick).await,
            Act::JoinOrdered { token, latest, detached, starts } => {
                self.join_ordered(call, token, *latest, *detached, *starts).await
            }
            Act::Refuse { pick, try_another } => self.refuse_order(call, pick, *try_another).await,
            Act::ReportExit(pick) => self.report_exit(call, pick).await,
            Act::AckOrder(pick) => self.ack_order(call, pick).await,
            Act::Claim { task: Some(task), keyed } => self.claim(call, task, *keyed).await,
            Act::Claim { task: None, keyed } => self.claim_next(call, *keyed).await,
            Act::Finish { claim, done, proof } => self.finish_claim(call, claim, *done, *proof).await,
        }
    }

    /// Records an outcome and compares it with the model's. `None` if the call was refused.
    pub(super) fn expect<T: Debug>(&mut self, outcome: Result<T, Refusal>, is_accepted: bool, what: &str) -> Option<T> {
        if self.sessions == Sessions::OpenOnly {
            self.transcript.note(&outcome);
        }
        judge(outcome, is_accepted, what)
    }

    /// Returns a key that no other call uses. Empty means no key.
    pub(super) fn new_key(&self, keyed: bool) -> String {
        if keyed { format!("k{}", self.keyed.len()) } else { String::new() }
    }

    /// Returns content that no other message has.
    pub(super) fn new_content(&self) -> String {
        self.contents.len().to_string()
    }

    async fn message(&mut self, call: &Call, to: &str, keyed: bool) -> Option<Done> {
        let content = self.new_content();
        let request = v1::SendRequest { idempotency_key: self.new_key(keyed), ..message(to, &content) };
        let is_accepted = self.model.accepts_message(&call.caller, to, |name| call.has_room(name));
        let recipients = is_accepted.then(|| vec![to.to_owned()]);
        self.send(call, Expected { request, content, recipients, only_for: None }).await
    }

    async fn broadcast(&mut self, call: &Call, keyed: bool) -> Option<Done> {
        let content = self.new_content();
        let request = v1::SendRequest { idempotency_key: self.new_key(keyed), ..broadcast(&content) };
        let recipients = self.model.accepts_broadcast(&call.caller, |name| call.has_room(name));
        self.send(call, Expected { request, content, recipients, only_for: None }).await
    }

    async fn send(&mut self, call: &Call, expected: Expected) -> Option<Done> {
        let Expected { request, content, recipients, only_for } = expected;
        let request = call.in_team(request);
        let reply = self.send_comparably(call, &request).await;
        let reply = self.expect(reply, recipients.is_some(), "a send")?;
        let mut to = reply.recipients.clone();
        to.sort();
        assert_eq!(Some(&to), recipients.as_ref(), "the recipients");
        assert!(!reply.replayed);
        let is_new = self.contents.insert(reply.message_id.clone(), content).is_none();
        assert!(is_new, "the same id was assigned twice");
        self.model.send(&reply.message_id, &call.from, &to, only_for);
        if !request.idempotency_key.is_empty() {
            self.keyed.push(Keyed::Send { who: call.caller.clone(), request, message_id: reply.message_id });
        }
        Some(Done::Accepted)
    }

    /// Sends, without what differs between stores: how durable they are.
    async fn send_comparably(&self, call: &Call, request: &v1::SendRequest) -> Result<v1::SendResponse, Refusal> {
        let reply = call.c.send(&call.who, request).await?;
        Ok(v1::SendResponse { durability: 0, ..reply })
    }

    /// Repeats a keyed call with the caller's latest credential: it gets the first reply.
    async fn repeat(&mut self, call: &Call, which: &Index) -> Option<Done> {
        let keyed = self.keyed.get(which.index(self.keyed.len().max(1)));
        let Some(keyed) = keyed else { return Some(Done::Skipped) };
        let (Keyed::Send { who, .. }
        | Keyed::AddTask { who, .. }
        | Keyed::Claim { who, .. }
        | Keyed::ClaimNext { who, .. }
        | Keyed::Spawn { who, .. }) = keyed;
        let presented = match who {
            Caller::Member { name, .. } => self.latest(NAMES.into_iter().find(|known| known == name).unwrap()),
            _ => (operator(), Caller::Operator),
        };
        let call = call.by(presented);
        let may_send = self.model.may_repeat_a_send(&call.caller);
        let may_work = self.model.may_work(&call.caller);
        let may_order = self.model.may_repeat_an_order(&call.caller);
        match keyed {
            Keyed::Spawn { request, request_id, .. } => {
                let (request, request_id) = (request.clone(), request_id.clone());
                let reply = call.c.spawn(&call.who, &request).await;
                let reply = self.expect(reply, may_order, "a repeated order")?;
                assert_eq!(reply.request.unwrap().id, request_id, "the reply is not the first one");
            }
            Keyed::Send { request, message_id, .. } => {
                let (request, message_id) = (request.clone(), message_id.clone());
                let reply = self.send_comparably(&call, &request).await;
                let reply = self.expect(reply, may_send, "a repeated send")?;
                assert_eq!((reply.replayed, &reply.message_id), (true, &message_id), "the reply is not the first one");
            }
            Keyed::AddTask { request, task_id, .. } => {
                let (request, task_id) = (request.clone(), *task_id);
                let reply = call.c.create_task(&call.who, &request).await;
                let reply = self.expect(reply, may_work, "adding a task again")?;
                assert_eq!((reply.replayed, reply.task.unwrap().id), (true, task_id), "the reply is not the first one");
            }
            Keyed::Claim { request, token, .. } => {
                let (request, token) = (request.clone(), token.clone());
                let claim = call.c.claim_task(&call.who, &request).await;
                let claim = self.expect(claim, may_work, "a repeated claim")?;
                assert_eq!(claim.token, token, "the reply is not the first one");
            }
            Keyed::ClaimNext { request, token, .. } => {
                let (request, token) = (request.clone(), token.clone());
                let claim = call.c.claim_next_task(&call.who, &request).await;
                let claim = self.expect(claim, may_work, "a repeated claim")?;
                assert_eq!(claim.unwrap().token, token, "the reply is not the first one");
            }
        }
        Some(Done::Accepted)
    }

    async fn request_shutdown(&mut self, call: &Call, to: &str) -> Option<Done> {
        let is_accepted =
            self.model.accepts_shutdown(&call.caller, to, |name| call.has_extra_room(name, Asks::Shutdown));
        let recipients = is_accepted.then(|| vec![to.to_owned()]);
        let only_for = self.model.members.get(to).map(|bearer| bearer.incarnation);
        let expected = Expected { request: shutdown(to), content: String::new(), recipients, only_for };
        let done = self.send(call, expected).await?;
        let by = (call.from != "operator").then(|| call.from.clone());
        let id = self.latest_request().await;
        self.model.ask(&id, Asks::Shutdown, to, by, None);
        Some(done)
    }

    async fn submit_plan(&mut self, call: &Call) -> Option<Done> {
        let content = self.new_content();
        let is_accepted = self.model.accepts_plan(&call.caller, |name| call.has_room(name));
        let recipients = is_accepted.then(|| vec![self.model.lead.clone()]);
        let expected = Expected { request: plan(&content), content, recipients, only_for: None };
        let done = self.send(call, expected).await?;
        let id = self.latest_request().await;
        self.model.ask(&id, Asks::Plan, &call.from, Some(call.from.clone()), None);
        Some(done)
    }

    async fn request_permission(&mut self, call: &Call, of: Option<&str>) -> Option<Done> {
        let content = self.new_content();
        let request = permission_for(of.unwrap_or_default(), &content);
        let room = |name: &str| call.has_extra_room(name, Asks::Permission);
        let recipients = self.model.accepts_permission(&call.caller, of, room).map(|to| vec![to]);
        let done = self.send(call, Expected { request, content, recipients, only_for: None }).await?;
        let id = self.latest_request().await;
        let approver = self.model.approver(&call.from, of).map(ToOwned::to_owned);
        self.model.ask(&id, Asks::Permission, &call.from, Some(call.from.clone()), approver);
        Some(done)
    }

    async fn withdraw(&mut self, call: &Call, request: &Index) -> Option<Done> {
        let requests = self.model.requests.len();
        let Some(asked) = self.model.requests.get(request.index(requests.max(1))) else { return Some(Done::Skipped) };
        let (at, id) = (request.index(requests), asked.id.clone());
        let expected = self.model.accepts_withdrawal(&call.caller, at);
        let ask = v1::WithdrawRequest { team: call.team.clone(), request_id: id };
        let withdrawn = call.c.withdraw(&call.who, &ask).await;
        let withdrawn = self.expect(withdrawn, expected.is_some(), "a withdrawal")?;
        if expected == Some(true) {
            assert_eq!(withdrawn.cancel_cause(), v1::CancelCause::Withdrawn);
            self.model.withdraw(at);
        }
        Some(Done::Accepted)
    }

    async fn latest_request(&self) -> String {
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), page_size: 1, ..Default::default() };
        self.coordinators[0].list_requests(&operator(), &list).await.unwrap().requests.remove(0).id
    }

    async fn answer(&mut self, call: &Call, answer_: Answer) -> Option<Done> {
        let Answer { request, asks, to, approve, rightly } = answer_;
        let open: Vec<usize> = (0..self.model.requests.len())
            .filter(|at| !rightly || self.model.requests[*at].state == State::Pending)
            // No message answers an order.
            .filter(|at| !rightly || self.model.requests[*at].asks != Asks::Spawn)
            .collect();
        let Some(at) = open.get(request.index(open.len().max(1))).copied() else { return Some(Done::Skipped) };
        let asked = self.model.requests[at].clone();
        let asks = asks.filter(|_| !rightly).unwrap_or(asked.asks);
        let member = NAMES.into_iter().find(|name| asked.member == *name).unwrap();
        let to = to.filter(|_| !rightly).unwrap_or(member);
        let by_right = match asks {
            Asks::Plan | Asks::Permission | Asks::Spawn => call.by((operator(), Caller::Operator)),
            Asks::Shutdown => call.by(self.latest(to)),
        };
        let call = if rightly { &by_right } else { call };
        let content = self.new_content();
        let request = match asks {
            Asks::Shutdown | Asks::Spawn => answer(&asked.id, approve, &content),
            Asks::Plan => answer_plan(to, &asked.id, approve, &content),
            Asks::Permission => allow(&asked.id, approve, &content),
        };
        let room = |name: &str| call.has_extra_room(name, asks);
        let expected = self.model.accepts_answer(&call.caller, at, asks, to, approve, room);
        let reply = self.send_comparably(call, &call.in_team(request)).await;
        let reply = self.expect(reply, expected.is_some(), "an answer")?;
        assert_eq!(reply.replayed, expected == Some(false), "whether it was answered before");
        if let (Some(true), Some(approve)) = (expected, approve) {
            let to: Vec<_> = asked.by.into_iter().collect();
            assert_eq!(reply.recipients, to);
            self.contents.insert(reply.message_id.clone(), content);
            self.model.send(&reply.message_id, &call.from, &to, None);
            self.model.answer(at, approve);
            if asks == Asks::Shutdown && approve {
                self.end_session(&asked.member, CloseReason::ShutdownApproved);
            }
        }
        Some(Done::Accepted)
    }

    pub(super) async fn open_stream(&mut self, call: &Call) -> Option<Done> {
        let expected = self.model.accepts_stream(&call.caller);
        let session = Session::open(&call.c, &call.who, &v1::StreamRequest::default()).await;
        let comparable = session.as_ref().map(drop).map_err(Clone::clone);
        self.expect(comparable, expected.is_some(), "a stream")?;
        let (session, name) = (session.ok()?, expected?);
        if self.sessions == Sessions::OpenOnly {
            if self.model.members[&name].life != Life::Approved {
                self.model.hear(&name, false);
                self.model.started(&name);
            }
            return Some(Done::Accepted);
        }
        let mut frames = session.start(
            Pace::default(),
            Arc::new(Heartbeats::default()),
            CancellationToken::new(),
            &TaskTracker::new(),
        );
        let first = timeout(PATIENCE, frames.recv()).await.expect("a frame").unwrap().unwrap().frame.unwrap();
        let Frame::Opened(opened) = first else { panic!("a stream begins with {first:?}") };
        let Some(session_id) = SessionId::presented(opened.session_id.as_str()) else {
            // A member that approved its shutdown learns only that.
            assert_eq!(self.model.members[&name].life, Life::Approved);
            let last = timeout(PATIENCE, frames.recv()).await.expect("a frame").unwrap().unwrap().frame;
            assert!(matches!(last, Some(Frame::Closing(last)) if last.reason() == CloseReason::ShutdownApproved));
            return Some(Done::Accepted);
        };
        self.end_session(&name, CloseReason::Superseded);
        self.model.hear(&name, false);
        self.model.started(&name);
        let bearer = self.model.members.get_mut(&name).unwrap();
        bearer.session = Some(self.listeners.len());
        self.listeners.push(Listener {
            incarnation: bearer.incarnation,
            member: name,
            session_id,
            frames,
            last: 0,
            must_end: None,
            has_ended: false,
        });
        Some(Done::Accepted)
    }

    async fn acknowledge(&mut self, call: &Call, messages: &[Index]) -> Option<Done> {
        if self.model.sent.is_empty() {
            return Some(Done::Skipped);
        }
        // Two of three from the caller's inbox.
        let own = self.model.members.get(&call.from).map(|bearer| bearer.inbox.clone()).unwrap_or_default();
        let pick = |(at, index): (usize, &Index)| match own.len() {
            len if len > 0 && at % 3 < 2 => own[index.index(len)],
            _ => index.index(self.model.sent.len()),
        };
        let picked: std::collections::BTreeSet<usize> = messages.iter().enumerate().map(pick).collect();
        let message_ids: Vec<_> = picked.iter().map(|place| self.model.sent[*place].id.clone()).collect();
        let request = v1::AckRequest { session_id: String::new(), message_ids };
        let expected = self.model.accepts_ack(&call.caller);
        let acked = call.c.acknowledge(&call.who, &request).await;
        let acked = self.expect(acked, expected.is_some(), "an acknowledgement")?;
        let name = expected?;
        let bearer = self.model.members.get_mut(&name).unwrap();
        let new: Vec<_> = picked.iter().filter(|place| bearer.inbox.contains(place)).collect();
        // A session may have dead-lettered some.
        assert!(acked as usize == new.len() || self.sessions == Sessions::Deliver, "{acked} of {new:?}");
        for place in new {
            self.acked.insert((self.model.sent[*place].id.clone(), name.clone()));
        }
        bearer.inbox.retain(|place| !picked.contains(place));
        Some(Done::Accepted)
    }

    async fn heartbeat(&mut self, call: &Call, idle: Option<bool>) -> Option<Done> {
        let activity = match idle {
            None => v1::Activity::Unspecified,
            Some(true) => v1::Activity::Idle,
            Some(false) => v1::Activity::Active,
        };
        let request = v1::HeartbeatRequest { activity: activity.into(), ..Default::default() };
        let expected = self.model.accepts_ack(&call.caller);
        let reply = call.c.heartbeat(&call.who, &request).await;
        self.expect(reply, expected.is_some(), "a heartbeat")?;
        self.model.hear(&expected?, true);
        Some(Done::Accepted)
    }

    async fn join(&mut self, call: &Call, name: &'static str, twice: bool, detached: bool) -> Option<Done> {
        let plan_mode_required = name == PLANNER;
        let invite = v1::InviteRequest {
            team: "alpha".to_owned(),
            member: name.to_owned(),
            plan_mode_required,
            ..Default::default()
        };
        let token = self.coordinators[0].invite(&operator(), &invite).await.unwrap().join_token;
        let idempotency_key = if twice { "again".to_owned() } else { String::new() };
        let request = v1::JoinRequest { idempotency_key, ..join_by(detached) };
        let joined = call.c.join(&presented(&token), &request).await;
        let is_accepted = self.model.accepts_join(name);
        // The invitation changed something in any case.
        let Some(joined) = self.expect(joined, is_accepted, "a join") else { return Some(Done::Skipped) };
        if twice {
            let again = call.c.join(&presented(&token), &request).await.unwrap();
            assert_eq!(again.credential, joined.credential, "the reply is not the first one");
        }
        self.begin(name, plan_mode_required, detached, &joined);
        Some(Done::Accepted)
    }

    async fn rejoin(&mut self, call: &Call, detached: bool) -> Option<Done> {
        let expected = self.model.accepts_rejoin(&call.caller);
        let host = HOSTS.contains(&call.from.as_str());
        let joined = call.c.join(&call.who, &v1::JoinRequest { host, ..join_by(detached) }).await;
        let joined = self.expect(joined, expected.is_some(), "a new life")?;
        let name = NAMES.into_iter().chain(HOSTS).find(|name| expected.as_deref() == Some(*name)).unwrap();
        self.model.begin_again(name, self.model.members[name].plan_mode, detached);
        self.note_life(name, &joined);
        Some(Done::Accepted)
    }

    async fn leave(&mut self, call: &Call, code: i32) -> Option<Done> {
        let expected = self.model.accepts_leave(&call.caller);
        let exit = Some(v1::ExitReport { code: Some(code), ..Default::default() });
        let left = call.c.leave(&call.who, &v1::LeaveRequest { exit, ..Default::default() }).await;
        self.expect(left, expected.is_some(), "an exit")?;
        let name = expected?;
        self.model.end(&name);
        self.note_handed_on().await;
        self.end_session(&name, CloseReason::MemberStopped);
        Some(Done::Accepted)
    }

    async fn force_stop(&mut self, call: &Call, name: &str) -> Option<Done> {
        let (team, member) = (call.team.clone(), name.to_owned());
        let request = v1::ForceStopRequest { team, member, reason: String::new() };
        let is_accepted = self.model.accepts_force(&call.caller, name);
        let stopped = call.c.force_stop(&call.who, &request).await;
        let stopped = stopped.map(|member| v1::Member { lease_left: None, ..member });
        self.expect(stopped, is_accepted, "a forced stop")?;
        self.model.force(name);
        self.end_session(name, CloseReason::MemberStopped);
        Some(Done::Accepted)
    }

    async fn set_lead(&mut self, call: &Call, name: &str) -> Option<Done> {
        let request = v1::SetLeadRequest { team: call.team.clone(), member: name.to_owned() };
        let expected = self.model.accepts_set_lead(&call.caller, name);
        let team = call.c.set_lead(&call.who, &request).await;
        let team = self.expect(team, expected.is_some(), "a change of the lead")?;
        assert_eq!(team.lead, name);
        if expected == Some(true) {
            self.model.set_lead(name);
            self.note_handed_on().await;
        }
        Some(Done::Accepted)
    }

    /// Notes the copies of pending requests that the coordinator sent to a new lead, or because the approver has
    /// exited.
    async fn note_handed_on(&mut self) {
        for entry in self.team.history().await {
            let Some(v1::history_entry::Event::Message(message)) = entry.event else { continue };
            let is_notice = message.sender.as_ref().unwrap().kind() == v1::SenderKind::Coordinator;
            if !is_notice && !self.contents.contains_key(&message.id) {
                use v1::message::Body::{PermissionRequest, PlanApprovalRequest};
                assert!(matches!(message.body, Some(PlanApprovalRequest(_) | PermissionRequest(_))), "{message:?}");
                self.handed_on.insert(message.id);
            }
        }
    }

    async fn delete_team(&mut self, call: &Call) -> Option<Done> {
        let is_accepted = self.model.accepts_delete(&call.caller);
        let deleted = call.c.delete_team(&call.who, &call.team).await;
        self.expect(deleted, is_accepted, "the deletion of the team")?;
        self.is_deleted = true;
        for listener in &mut self.listeners {
            listener.must_end.get_or_insert(CloseReason::TeamDeleted);
        }
        Some(Done::Accepted)
    }

    async fn pass(&mut self, call: &Call, steps: u64, may_lose: bool) -> Option<Done> {
        self.team.clock.advance(Duration::from_secs(steps * model::STEP));
        self.model.now += steps * model::STEP;
        for coordinator in &self.coordinators {
            // A coordinator notices the time with its next commit.
            let observe = v1::CreateObserverRequest { team: "alpha".to_owned(), ttl: None };
            coordinator.create_observer(&operator(), &observe).await.unwrap();
        }
        let leases = self.team.leases().await;
        call.c.carry_out_due(&self.team.namespace, &leases, may_lose).await.unwrap();
        let before: Vec<_> = self.model.members.iter().map(|(name, bearer)| (name.clone(), bearer.life)).collect();
        self.model.expire(may_lose);
        self.note_handed_on().await;
        for (name, life) in before {
            if life != self.model.members[&name].life && life != Life::Live {
                self.end_session(&name, CloseReason::MemberStopped);
            }
        }
        Some(Done::Skipped)
    }

    async fn add_task(&mut self, call: &Call, owner: &str, after: &[Index], keyed: bool) -> Option<Done> {
        let after = pick_tasks(after, self.model.tasks.len());
        let request = v1::CreateTaskRequest {
            team: call.team.clone(),
            idempotency_key: self.new_key(keyed),
            owner: owner.to_owned(),
            blocked_by: after.iter().map(|place| *place as u64 + 1).collect(),
            ..task("work")
        };
        let is_accepted = self.model.accepts_add(&call.caller, owner, &after);
        let reply = call.c.create_task(&call.who, &request).await;
        let task_id = self.expect(reply, is_accepted, "a new task")?.task.unwrap().id;
        self.model.add(owner, after);
        assert_eq!(task_id as usize, self.model.tasks.len());
        if keyed {
            self.keyed.push(Keyed::AddTask { who: call.caller.clone(), request, task_id });
        }
        Some(Done::Accepted)
    }

    async fn change_task(
        &mut self,
        call: &Call,
        task: &Index,
        owner: Option<&str>,
        add: &[Index],
        remove: &[Index],
    ) -> Option<Done> {
        let tasks = self.model.tasks.len();
        let place = pick_task(task, tasks);
        let change =
            Change { owner: owner.map(str::to_owned), add: pick_tasks(add, tasks), remove: pick_tasks(remove, tasks) };
        let ids = |places: &std::collections::BTreeSet<usize>| places.iter().map(|place| *place as u64 + 1).collect();
        let request = v1::UpdateTaskRequest {
            team: call.team.clone(),
            task_id: place as u64 + 1,
            owner: change.owner.clone(),
            add_blocked_by: ids(&change.add),
            remove_blocked_by: ids(&change.remove),
            ..Default::default()
        };
        let is_accepted = self.model.accepts_change(&call.caller, place, &change);
        let changed = call.c.update_task(&call.who, &request).await;
        self.expect(changed, is_accepted, "a change to a task")?;
        self.model.change(place, change);
        Some(Done::Accepted)
    }

    async fn delete_task(&mut self, call: &Call, task: &Index) -> Option<Done> {
        let place = pick_task(task, self.model.tasks.len());
        let is_accepted = self.model.accepts_delete_task(&call.caller, place);
        let deleted = call.c.delete_task(&call.who, &call.team, place as u64 + 1).await;
        self.expect(deleted, is_accepted, "the deletion of a task")?;
        self.model.delete_task(place);
        Some(Done::Accepted)
    }

    async fn claim(&mut self, call: &Call, task: &Index, keyed: bool) -> Option<Done> {
        let place = pick_task(task, self.model.tasks.len());
        let idempotency_key = self.new_key(keyed);
        let request = v1::ClaimTaskRequest { idempotency_key, task_id: place as u64 + 1 };
        let expected = self.model.accepts_claim(&call.caller, place);
        let claim = call.c.claim_task(&call.who, &request).await;
        let claim = self.expect(claim, expected.is_some(), "a claim")?;
        assert_eq!(claim.task.unwrap().id, request.task_id);
        let (name, token) = (expected?, claim.token);
        self.model.claim(&name, place, &token);
        self.claims.push((place, name, token.clone()));
        if keyed {
            self.keyed.push(Keyed::Claim { who: call.caller.clone(), request, token });
        }
        Some(Done::Accepted)
    }

    async fn claim_next(&mut self, call: &Call, keyed: bool) -> Option<Done> {
        let request = v1::ClaimNextTaskRequest { idempotency_key: self.new_key(keyed), wait: None };
        let expected = self.model.accepts_next(&call.caller);
        let claim = call.c.claim_next_task(&call.who, &request).await;
        let claim = self.expect(claim, expected.is_some(), "a claim")?;
        let (name, place) = expected?;
        let given = claim.as_ref().map(|claim| claim.task.as_ref().unwrap().id as usize - 1);
        assert_eq!(given, place, "the claimed task is not the next one");
        if let (Some(claim), Some(place)) = (claim, place) {
            self.model.claim(&name, place, &claim.token);
            self.claims.push((place, name, claim.token.clone()));
            if keyed {
                self.keyed.push(Keyed::ClaimNext { who: call.caller.clone(), request, token: claim.token });
            }
        }
        Some(Done::Accepted)
    }

    /// Completes a task or releases it.
    async fn finish_claim(&mut self, call: &Call, claim: &Index, done: bool, proof: Proof) -> Option<Done> {
        let claims: Vec<_> =
            self.claims.iter().filter(|claim| !matches!(proof, Proof::Own) || claim.1 == call.from).collect();
        let held = self.model.held_claim(&self.claims);
        let picked = claims.get(claim.index(claims.len().max(1))).map(|claim| (*claim).clone());
        let claim = if matches!(proof, Proof::Held) { held } else { picked };
        let Some((place, owner, token)) = claim else { return Some(Done::Skipped) };
        let by_owner = NAMES.into_iter().find(|name| owner == *name).map(|name| call.by(self.latest(name)));
        let call = by_owner.as_ref().filter(|_| matches!(proof, Proof::Held)).unwrap_or(call);
        let claim_token = if matches!(proof, Proof::None) { String::new() } else { token };
        let expected = self.model.accepts_finish(&call.caller, place, &claim_token, done);
        let (team, task_id) = (call.team.clone(), place as u64 + 1);
        let finished = if done {
            let request =
                v1::CompleteTaskRequest { team, task_id, claim_token: claim_token.clone(), ..Default::default() };
            call.c.complete_task(&call.who, &request).await.map(|reply| (reply.task, reply.unblocked))
        } else {
            let request =
                v1::ReleaseTaskRequest { team, task_id, claim_token: claim_token.clone(), ..Default::default() };
            call.c.release_task(&call.who, &request).await.map(|task| (Some(task), Vec::new()))
        };
        self.expect(finished, expected.is_some(), "finishing a claim")?;
        if expected == Some(true) {
            self.model.finish(&call.caller, place, &claim_token, done);
        }
        Some(Done::Accepted)
    }
}

fn judge<T>(outcome: Result<T, Refusal>, is_accepted: bool, what: &str) -> Option<T> {
    match outcome {
        Ok(value) if is_accepted => Some(value),
        Ok(_) => panic!("{what} was accepted but must be refused"),
        Err(refusal) if is_accepted => panic!("{what} was refused but must be accepted: {} {refusal}", refusal.reason),
        Err(_) => None,
    }
}
