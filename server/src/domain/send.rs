//! Every kind of message: what each must contain, who may send it, and where it goes.

use std::collections::HashMap;

use teamwire_proto::{
    Kind, Reason, Refusal,
    name::{Address, LEAD_ALIAS, Name, Recipient},
    permission_rule,
    v1::{self, message::Body, send_request},
};
use uuid::Uuid;

use super::{
    actor::Actor,
    envelope::check_envelope,
    fields::ttl,
    idempotency::{Fingerprint, KeyedCall, derived_message_id, fingerprint},
    identity::{self, Admit, CallerCredentials, Principal},
    post::{self, Urgency},
    query::MemberFacts,
    records::{Life, MemberRecord, TeamRecord},
    request::{self, Answer, review},
    tags, task,
    text::{Required, check_content, check_size, summary, tool},
    time::timestamp,
    tx::{RuleError, Tx},
};

/// How many days a request may wait for its answer at most.
const REQUEST_DAYS_MAX: u64 = 30;

/// What was lately known of members, by their folded names, to choose among them if a message goes to `@any:TAG`.
pub type Facts = HashMap<String, MemberFacts>;

/// Sends one message of any kind.
pub fn send(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SendRequest,
    facts: &Facts,
) -> Result<v1::SendResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let sender = caller.actor()?;
    // The team's name is redundant: the credential or the namespace says it.
    let bare = v1::SendRequest { idempotency_key: String::new(), team: String::new(), ..request.clone() };
    let fingerprint = fingerprint(&bare, None);
    let call = KeyedCall::new(&format!("send/{}", sender.key()), &request.idempotency_key, fingerprint)?;
    if let Some(reply) = call.recorded_reply::<v1::SendResponse>(tx)? {
        return Ok(v1::SendResponse { replayed: true, ..reply });
    }
    let sending = Sending {
        team: &team,
        caller: &caller,
        sender: &sender,
        request,
        facts,
        fingerprint: &fingerprint,
        trace_parent: who.trace_parent.as_deref(),
    };
    let reply = sending.dispatch(tx)?;
    if !reply.replayed {
        call.record_reply(tx, &v1::SendResponse { warnings: Vec::new(), ..reply.clone() });
    }
    Ok(reply)
}

/// A send under way.
struct Sending<'a> {
    team: &'a TeamRecord,
    caller: &'a Principal,
    sender: &'a Actor,
    request: &'a v1::SendRequest,
    facts: &'a Facts,
    fingerprint: &'a Fingerprint,
    trace_parent: Option<&'a str>,
}

impl Sending<'_> {
    fn dispatch(&self, tx: &mut Tx<'_>) -> Result<v1::SendResponse, RuleError> {
        use send_request::Body as Ask;
        let body = self.request.body.as_ref().ok_or_else(|| {
            let kinds: Vec<&str> = Kind::SENDABLE.iter().map(|kind| kind.name()).collect();
            let message = format!("The message has no type. Use one of: {}.", kinds.join(", "));
            Refusal::new(Reason::InvalidType, message).field("type")
        })?;
        if !matches!(body, Ask::ShutdownResponse(_)) {
            self.refuse_stopping()?;
        }
        check_envelope(self.request, &tx.ctx.limits)?;
        // Shutdowns and answers end something, even in a team that is full.
        if matches!(
            body,
            Ask::ShutdownRequest(_)
                | Ask::ShutdownResponse(_)
                | Ask::PlanApprovalResponse(_)
                | Ask::PermissionResponse(_)
                | Ask::ReviewResponse(_)
        ) {
            tx.needs_no_room();
        }
        match body {
            Ask::Message(ask) => self.message(tx, ask),
            Ask::Broadcast(ask) => self.broadcast(tx, ask),
            Ask::ShutdownRequest(ask) => self.shutdown_request(tx, ask),
            Ask::ShutdownResponse(ask) => self.shutdown_response(tx, ask),
            Ask::PlanApprovalRequest(ask) => self.plan_approval_request(tx, ask),
            Ask::PlanApprovalResponse(ask) => self.plan_approval_response(tx, ask),
            Ask::PermissionRequest(ask) => self.permission_request(tx, ask),
            Ask::PermissionResponse(ask) => self.permission_response(tx, ask),
            Ask::ReviewResponse(ask) => self.review_response(tx, ask),
        }
    }

    /// A member that has approved its shutdown may repeat that answer, and nothing else.
    fn refuse_stopping(&self) -> Result<(), Refusal> {
        let Principal::Member { name, .. } = self.caller else { return Ok(()) };
        match self.team.member(name).map(|member| &member.life) {
            Some(Life::Stopping { .. }) => Err(Refusal::new(
                Reason::MemberStopped,
                format!("{name} has approved its shutdown and can send nothing else. End this process."),
            )),
            _ => Ok(()),
        }
    }

    fn message(&self, tx: &mut Tx<'_>, ask: &v1::DirectMessage) -> Result<v1::SendResponse, RuleError> {
        let mut warnings = Vec::new();
        let to = match Recipient::parse(&ask.recipient, "recipient")? {
            Recipient::Tagged(tag) => {
                let (summary, content) = (ask.summary.clone(), ask.content.clone());
                return self.broadcast(tx, &v1::Broadcast { summary, content, tag: tag.to_string() });
            }
            Recipient::AnyTagged(tag) => {
                let holders = tags::holders(self.team, &tag, self.own_name())?;
                let (chosen, warning) = tags::choose(&holders, &tag, self.facts);
                warnings.extend(warning);
                chosen
            }
            Recipient::Member => {
                let instead = "Nothing was queued. Send to another member, or start it again first.";
                let to = self.team.resolve_receiver(&ask.recipient, "recipient", instead)?;
                self.refuse_self(&to.name, "Name another member, or use a broadcast to reach all others.")?;
                to
            }
        };
        if self.request.interrupt {
            self.caller.lead_only("interrupt a member")?;
        }
        check_content(&ask.content, Required::Yes, &tx.ctx.limits)?;
        let summary = summary(&ask.summary, Required::Yes, &tx.ctx.limits)?;
        let body =
            Body::Message(v1::DirectMessage { recipient: to.name.to_string(), summary, content: ask.content.clone() });
        let message = self.post(tx, body, &[&to.name], Urgency::Ordinary);
        warnings.extend(late_warning(to));
        Ok(reply(&message, warnings))
    }

    /// Returns the sender's name if it is a member.
    fn own_name(&self) -> Option<&Name> {
        match self.sender {
            Actor::Member(name) => Some(name),
            _ => None,
        }
    }

    fn broadcast(&self, tx: &mut Tx<'_>, ask: &v1::Broadcast) -> Result<v1::SendResponse, RuleError> {
        check_content(&ask.content, Required::Yes, &tx.ctx.limits)?;
        let summary = summary(&ask.summary, Required::Yes, &tx.ctx.limits)?;
        let tag = match ask.tag.as_str() {
            "" => None,
            tag => Some(Name::parse_tag(tag, "tag")?),
        };
        let to: Vec<&Name> = match &tag {
            Some(tag) => {
                tags::holders(self.team, tag, self.own_name())?.into_iter().map(|member| &member.name).collect()
            }
            None => tags::reached(self.team, self.own_name()).map(|member| &member.name).collect(),
        };
        let tag = tag.as_ref().map_or_else(String::new, Name::to_string);
        let body = Body::Broadcast(v1::Broadcast { summary, content: ask.content.clone(), tag });
        let warnings = match to.as_slice() {
            [] => vec!["The team has no other live member: no one will read this.".to_owned()],
            _ => Vec::new(),
        };
        let message = self.post(tx, body, &to, Urgency::Ordinary);
        Ok(reply(&message, warnings))
    }

    fn shutdown_request(&self, tx: &mut Tx<'_>, ask: &v1::ShutdownRequest) -> Result<v1::SendResponse, RuleError> {
        self.caller.lead_only("ask a member to shut down")?;
        let asked = self.team.resolve_any(&ask.recipient, "recipient")?;
        if asked.is_host {
            let text = format!(
                "{0} is a host, which answers no requests. Stop it with `teamwire shutdown {0} --force`. The teammates that it \
                 started keep running.",
                asked.name
            );
            return Err(Refusal::new(Reason::AgentNotFound, text).field("recipient").into());
        }
        let instead = match asked.life {
            Life::Stopping { .. } => format!("To wait for its exit, use `teamwire shutdown {} --wait`.", asked.name),
            _ => "Nothing is left to shut down.".to_owned(),
        };
        let to = asked.started("recipient", &instead)?;
        self.refuse_self(
            &to.name,
            "You cannot ask yourself to shut down. Name another member; to end your own membership, leave the team.",
        )?;
        check_content(&ask.reason, Required::No, &tx.ctx.limits)?;
        let ttl_ms = ttl(ask.ttl.as_ref(), tx.ctx.limits.shutdown_deadline, REQUEST_DAYS_MAX)?;
        let body = Body::ShutdownRequest(v1::ShutdownRequest {
            recipient: to.name.to_string(),
            reason: ask.reason.clone(),
            ttl: ask.ttl,
        });
        let message = self.compose(tx, body);
        let message = request::shutdown::open(tx, self.team, self.sender, &to.name, message, ttl_ms)?;
        Ok(reply(&message, Vec::new()))
    }

    fn shutdown_response(&self, tx: &mut Tx<'_>, ask: &v1::ShutdownResponse) -> Result<v1::SendResponse, RuleError> {
        let answer = Answer::check(&ask.request_id, ask.approve, &ask.reason, &tx.ctx.limits)?;
        let body = Body::ShutdownResponse(v1::ShutdownResponse { approve: Some(answer.approve), ..ask.clone() });
        let decided = request::shutdown::answer(tx, self.team, self.sender, &answer, |tx| self.compose(tx, body))?;
        Ok(answered(decided, &answer, "Say why you continue working, so that the lead knows when to ask again."))
    }

    fn plan_approval_request(
        &self,
        tx: &mut Tx<'_>,
        ask: &v1::PlanApprovalRequest,
    ) -> Result<v1::SendResponse, RuleError> {
        let name = match self.caller {
            Principal::Member { name, lead: false } => name,
            Principal::Member { .. } => {
                return Err(Refusal::new(
                    Reason::SelfRecipient,
                    "A plan goes to the team's lead, which is you. Only teammates submit plans.",
                )
                .into());
            }
            Principal::Operator | Principal::Observer => {
                return Err(Refusal::new(
                    Reason::NotPermitted,
                    "Only teammates submit plans. Use a member's credential.",
                )
                .into());
            }
        };
        // A lead that has exited would never read the plan, so success would mislead.
        let instead = "Nothing was queued. Submit the plan again once the team has a lead.";
        self.team.resolve_receiver(LEAD_ALIAS, "recipient", instead)?;
        check_content(&ask.plan, Required::Yes, &tx.ctx.limits)?;
        let summary = summary(&ask.summary, Required::No, &tx.ctx.limits)?;
        let ttl_ms = ttl(ask.ttl.as_ref(), tx.ctx.limits.plan_deadline, REQUEST_DAYS_MAX)?;
        let body = Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: ask.plan.clone(), summary, ttl: ask.ttl });
        let message = self.compose(tx, body);
        let message = request::plan::open(tx, self.team, name, message, ttl_ms)?;
        Ok(reply(&message, Vec::new()))
    }

    fn plan_approval_response(
        &self,
        tx: &mut Tx<'_>,
        ask: &v1::PlanApprovalResponse,
    ) -> Result<v1::SendResponse, RuleError> {
        self.caller.lead_only("answer a plan")?;
        let answer = Answer::check(&ask.request_id, ask.approve, &ask.feedback, &tx.ctx.limits)?;
        let to = self.team.resolve(&ask.recipient, "recipient")?;
        // A teammate that has become the lead must not approve the plan that it submitted before.
        self.refuse_self(
            &to.name,
            "The author of a plan cannot answer it. Hand over the lead, and let the new lead answer.",
        )?;
        let body = Body::PlanApprovalResponse(v1::PlanApprovalResponse {
            recipient: to.name.to_string(),
            approve: Some(answer.approve),
            ..ask.clone()
        });
        let decided =
            request::plan::answer(tx, self.team, self.sender, &to.name, &answer, |tx| self.compose(tx, body))?;
        Ok(answered(decided, &answer, "Say what to change, so that the author can submit a better plan."))
    }

    fn permission_request(&self, tx: &mut Tx<'_>, ask: &v1::PermissionRequest) -> Result<v1::SendResponse, RuleError> {
        let Actor::Member(asker) = self.sender else {
            return Err(Refusal::new(
                Reason::NotPermitted,
                "Only members ask for permission. Use a member's credential.",
            )
            .into());
        };
        let named = if ask.recipient.is_empty() { LEAD_ALIAS } else { &ask.recipient };
        let instead = "Nothing was asked. Name another member as the approver, or ask again later.";
        let approver = self.team.resolve(named, "recipient")?;
        // The lead answers for an approver that has exited, unless the lead itself asks.
        let ended = approver.life.how_it_ends().filter(|_| !self.team.is_lead(asker));
        let is_for_the_lead = Address::parse(named, "recipient")?.is_lead_alias() || ended.is_some();
        let to = if is_for_the_lead { self.team.resolve(LEAD_ALIAS, "recipient")? } else { approver };
        let to = to.started("recipient", instead)?;
        self.refuse_self(&to.name, "Another member must approve what you ask for: name it as the recipient.")?;
        let tool = tool(&ask.tool, &tx.ctx.limits)?;
        let summary = summary(&ask.summary, Required::Yes, &tx.ctx.limits)?;
        check_size(&ask.detail, "content", &tx.ctx.limits)?;
        ask.tool_use.as_ref().map_or(Ok(()), permission_rule::check_use)?;
        let ttl_ms = ttl(ask.ttl.as_ref(), tx.ctx.limits.permission_deadline, REQUEST_DAYS_MAX)?;
        let mut warnings = late_warning(to);
        warnings.extend(ended.map(|how| format!("{} {how}, so {} is asked instead.", approver.name, to.name)));
        let body = Body::PermissionRequest(v1::PermissionRequest {
            recipient: to.name.to_string(),
            tool,
            summary,
            detail: ask.detail.clone(),
            ttl: ask.ttl,
            tool_use: ask.tool_use.clone(),
        });
        let message = self.compose(tx, body);
        let approver = (!is_for_the_lead).then_some(&to.name);
        let message = request::permission::open(tx, self.team, asker, approver, message, ttl_ms)?;
        Ok(reply(&message, warnings))
    }

    fn permission_response(
        &self,
        tx: &mut Tx<'_>,
        ask: &v1::PermissionResponse,
    ) -> Result<v1::SendResponse, RuleError> {
        let answer = Answer::check(&ask.request_id, ask.approve, &ask.reason, &tx.ctx.limits)?;
        let body = Body::PermissionResponse(v1::PermissionResponse { approve: Some(answer.approve), ..ask.clone() });
        let add_budget = ask.add_budget;
        let compose = |tx: &mut Tx<'_>| self.compose(tx, body);
        let decided = request::permission::answer(tx, self.team, self.sender, &answer, add_budget, compose)?;
        Ok(answered(decided, &answer, "Say why, so that the member knows what to do instead."))
    }

    fn review_response(&self, tx: &mut Tx<'_>, ask: &v1::ReviewResponse) -> Result<v1::SendResponse, RuleError> {
        let answer = Answer::check(&ask.request_id, ask.approve, &ask.reason, &tx.ctx.limits)?;
        let compose = |tx: &mut Tx<'_>, request: &v1::Request| {
            let commit = review::commit_of(request.work.as_ref()).to_owned();
            let body = Body::ReviewResponse(v1::ReviewResponse {
                approve: Some(answer.approve),
                task_id: request.task_id,
                merge: answer.approve && request.merge_on_approval && !commit.is_empty(),
                commit,
                ..ask.clone()
            });
            self.compose(tx, body)
        };
        let decided = task::review::answer(tx, self.team, self.sender, &answer, &ask.commit, compose)?;
        let unmerged = unmerged(self.team, &decided);
        let reply = answered(decided, &answer, "Say what to change, so that the owner knows what to do next.");
        Ok(v1::SendResponse { warnings: [reply.warnings, unmerged].concat(), ..reply })
    }

    /// Refuses the sender itself as the recipient. `advice` says what to do instead.
    fn refuse_self(&self, to: &Name, advice: &str) -> Result<(), Refusal> {
        if *self.sender == Actor::Member(to.clone()) {
            return Err(Refusal::new(Reason::SelfRecipient, format!("You are {to}. {advice}")).field("recipient"));
        }
        Ok(())
    }

    fn compose(&self, tx: &mut Tx<'_>, body: Body) -> v1::Message {
        // In canonical form, so that ids can be compared as text.
        let in_reply_to = Uuid::try_parse(&self.request.in_reply_to).map(|id| id.to_string());
        let key = &self.request.idempotency_key;
        // A request that is made again gets a new id, so its recipient must not take the message for one that it has
        // seen.
        let derived = match body.kind().is_request() {
            true => None,
            false => derived_message_id(self.team.id, self.sender, key, self.fingerprint, tx.ctx.now_ms),
        };
        let id = derived.unwrap_or_else(|| tx.new_message_id());
        let is_direct = body.kind() == Kind::Message;
        v1::Message {
            automatic: is_direct && self.request.automatic,
            wants_reply: is_direct && self.request.wants_reply,
            interrupt: is_direct && self.request.interrupt,
            in_reply_to: in_reply_to.unwrap_or_default(),
            attachments: self.request.attachments.clone(),
            trace_parent: self.trace_parent.unwrap_or_default().to_owned(),
            ..post::compose_with_id(tx, id, self.team, self.sender, body)
        }
    }

    fn post(&self, tx: &mut Tx<'_>, body: Body, to: &[&Name], urgency: Urgency) -> v1::Message {
        let message = self.compose(tx, body);
        post::post(tx, message, to, urgency)
    }
}

/// Warns that no runner merges an approved commit, because the owner of the task has exited.
fn unmerged(team: &TeamRecord, decided: &request::Decided) -> Vec<String> {
    let request::Decided::Now(message) = decided else { return Vec::new() };
    let Some(Body::ReviewResponse(answer)) = &message.body else { return Vec::new() };
    let owner = message.recipients.first().and_then(|name| Name::parse(name, "owner").ok());
    let ended = owner.and_then(|owner| team.member(&owner)).filter(|owner| owner.life.how_it_ends().is_some());
    match ended {
        Some(owner) if answer.merge => vec![format!(
            "{0} has ended, so no runner merges its commit. On its machine, `teamwire work merge {0}` does.",
            owner.name
        )],
        _ => Vec::new(),
    }
}

/// Warns that a recipient may not read a message soon.
fn late_warning(to: &MemberRecord) -> Vec<String> {
    match to.life {
        Life::Lost => vec![format!(
            "{} has given no heartbeat for some time and counts as lost. The message waits in its inbox.",
            to.name
        )],
        Life::Spawning => vec![format!("{} has not started yet. The message waits in its inbox.", to.name)],
        _ => Vec::new(),
    }
}

fn reply(message: &v1::Message, warnings: Vec<String>) -> v1::SendResponse {
    v1::SendResponse {
        message_id: message.id.clone(),
        request_id: message.request_id.clone(),
        recipients: message.recipients.clone(),
        sent_at: message.sent_at,
        warnings,
        ..v1::SendResponse::default()
    }
}

fn answered(decided: request::Decided, answer: &Answer, advice: &str) -> v1::SendResponse {
    match decided {
        request::Decided::Now(message) => {
            let unexplained = !answer.approve && answer.reason.is_empty();
            let warnings = if unexplained { vec![format!("Rejected without a reason. {advice}")] } else { Vec::new() };
            reply(&message, warnings)
        }
        request::Decided::Before { message_id, recipient, at_ms } => v1::SendResponse {
            message_id,
            recipients: recipient.iter().map(ToString::to_string).collect(),
            request_id: answer.request_id.to_string(),
            sent_at: Some(timestamp(at_ms)),
            replayed: true,
            ..v1::SendResponse::default()
        },
    }
}
