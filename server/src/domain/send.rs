//! The six messages: what each must contain, who may send it, and where it goes.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use teamwire_proto::{
    Reason, Refusal, id,
    name::{LEAD_ALIAS, Name},
    v1::{self, message::Body, send_request},
};
use uuid::Uuid;

use super::{
    fields::ttl,
    identity::{self, Admit, CallerCredentials, Principal},
    limits::Limits,
    post::{self, Urgency, timestamp},
    record::{Life, TeamRecord},
    request::{self, Answer},
    roster::Actor,
    tx::{RuleError, Tx},
};

/// How old an idempotency key may be to name a message; see [`derived_id`].
const DERIVED_WITHIN_MS: u64 = 60 * 60 * 1_000;

/// How many days a request may wait for its answer at most.
const REQUEST_DAYS_MAX: i64 = 30;

/// Sends one message of any kind.
pub fn send(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SendRequest,
) -> Result<v1::SendResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let sender = caller.party()?;
    let fingerprint = fingerprint(request);
    let key = id::idempotency_key(&request.idempotency_key)?.map(|key| idempotency_key(&sender, key));
    if let Some(key) = &key
        && let Some(reply) = replay(tx, key, &fingerprint)?
    {
        return Ok(reply);
    }
    let sending = Sending {
        team: &team,
        caller: &caller,
        sender: &sender,
        request,
        fingerprint: &fingerprint,
        trace_parent: &who.trace_parent,
    };
    let reply = sending.dispatch(tx)?;
    if let Some(key) = key
        && !reply.replayed
    {
        remember(tx, &key, &fingerprint, &reply);
    }
    Ok(reply)
}

/// One send on its way.
struct Sending<'a> {
    team: &'a TeamRecord,
    caller: &'a Principal,
    sender: &'a Actor,
    request: &'a v1::SendRequest,
    /// Of the request, as the ledger keeps it.
    fingerprint: &'a [u8; 16],
    trace_parent: &'a str,
}

impl Sending<'_> {
    fn dispatch(&self, tx: &mut Tx<'_>) -> Result<v1::SendResponse, RuleError> {
        use send_request::Body as Ask;
        let body = self.request.body.as_ref().ok_or_else(|| {
            Refusal::new(
                Reason::InvalidType,
                "The message has no type. Use message, broadcast, shutdown_request, shutdown_response, \
                 plan_approval_request or plan_approval_response.",
            )
            .field("type")
        })?;
        if !matches!(body, Ask::ShutdownResponse(_)) {
            self.refuse_stopping()?;
        }
        check_envelope(self.request, &tx.ctx.limits)?;
        match body {
            Ask::Message(ask) => self.message(tx, ask),
            Ask::Broadcast(ask) => self.broadcast(tx, ask),
            Ask::ShutdownRequest(ask) => self.shutdown_request(tx, ask),
            Ask::ShutdownResponse(ask) => self.shutdown_response(tx, ask),
            Ask::PlanApprovalRequest(ask) => self.plan_approval_request(tx, ask),
            Ask::PlanApprovalResponse(ask) => self.plan_approval_response(tx, ask),
        }
    }

    /// A member that has approved its shutdown may repeat that answer, and nothing else.
    fn refuse_stopping(&self) -> Result<(), Refusal> {
        let Principal::Member { name, .. } = self.caller else { return Ok(()) };
        match self.team.member(name).map(|member| &member.life) {
            Some(Life::Stopping { .. }) => Err(Refusal::new(
                Reason::MemberStopped,
                format!("{name} has approved its shutdown and can send nothing more. End this process."),
            )),
            _ => Ok(()),
        }
    }

    fn message(&self, tx: &mut Tx<'_>, ask: &v1::DirectMessage) -> Result<v1::SendResponse, RuleError> {
        let to = self.team.resolve_receiver(&ask.recipient, "recipient")?;
        self.refuse_self(&to.name)?;
        let summary = summary(&ask.summary, Required::Yes, &tx.ctx.limits)?;
        content(&ask.content, "content", Required::Yes, &tx.ctx.limits)?;
        let body =
            Body::Message(v1::DirectMessage { recipient: to.name.to_string(), summary, content: ask.content.clone() });
        let warnings = match to.life {
            Life::Lost => vec![format!(
                "{} was not heard of for some time and counts as lost. The message waits in its inbox.",
                to.name
            )],
            _ => Vec::new(),
        };
        let message = self.post(tx, body, &[&to.name], Urgency::Ordinary);
        Ok(reply(&message, warnings))
    }

    fn broadcast(&self, tx: &mut Tx<'_>, ask: &v1::Broadcast) -> Result<v1::SendResponse, RuleError> {
        let summary = summary(&ask.summary, Required::Yes, &tx.ctx.limits)?;
        content(&ask.content, "content", Required::Yes, &tx.ctx.limits)?;
        let to: Vec<&Name> = self
            .team
            .members
            .iter()
            .filter(|member| matches!(member.life, Life::Live | Life::Lost))
            .map(|member| &member.name)
            .filter(|name| *self.sender != Actor::Member((*name).clone()))
            .collect();
        let body = Body::Broadcast(v1::Broadcast { summary, content: ask.content.clone() });
        let warnings = match to.as_slice() {
            [] => vec!["The team has no other member that is alive: nobody will read this.".to_owned()],
            _ => Vec::new(),
        };
        let message = self.post(tx, body, &to, Urgency::Ordinary);
        Ok(reply(&message, warnings))
    }

    fn shutdown_request(&self, tx: &mut Tx<'_>, ask: &v1::ShutdownRequest) -> Result<v1::SendResponse, RuleError> {
        self.caller.lead_only("ask a member to shut down")?;
        let to = self.team.resolve_receiver(&ask.recipient, "recipient")?;
        self.refuse_self(&to.name)?;
        content(&ask.reason, "content", Required::No, &tx.ctx.limits)?;
        let ttl_ms = ttl(ask.ttl.as_ref(), tx.ctx.limits.shutdown_deadline, REQUEST_DAYS_MAX)?;
        let body = Body::ShutdownRequest(v1::ShutdownRequest {
            recipient: to.name.to_string(),
            reason: ask.reason.clone(),
            ttl: ask.ttl,
        });
        let message = self.compose(tx, body);
        let message = request::open_shutdown(tx, self.team, self.sender, &to.name, message, ttl_ms)?;
        Ok(reply(&message, Vec::new()))
    }

    fn shutdown_response(&self, tx: &mut Tx<'_>, ask: &v1::ShutdownResponse) -> Result<v1::SendResponse, RuleError> {
        let answer = Answer::check(&ask.request_id, ask.approve, &ask.reason, &tx.ctx.limits)?;
        let body = Body::ShutdownResponse(v1::ShutdownResponse { approve: Some(answer.approve), ..ask.clone() });
        let decided = request::answer_shutdown(tx, self.team, self.sender, &answer, |tx| self.compose(tx, body))?;
        Ok(answered(decided, &answer, "Say why you go on working, so that the lead knows when to ask again."))
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
                    "A plan goes to the team's lead, and that is you. Only a teammate submits plans.",
                )
                .into());
            }
            Principal::Operator | Principal::Observer => {
                return Err(Refusal::new(
                    Reason::NotPermitted,
                    "Only a teammate submits plans. Use a member's credential.",
                )
                .into());
            }
        };
        // Never a silent success: a lead that has exited would not read it.
        self.team.resolve_receiver(LEAD_ALIAS, "recipient")?;
        content(&ask.plan, "content", Required::Yes, &tx.ctx.limits)?;
        let summary = summary(&ask.summary, Required::No, &tx.ctx.limits)?;
        let ttl_ms = ttl(ask.ttl.as_ref(), tx.ctx.limits.plan_deadline, REQUEST_DAYS_MAX)?;
        let body = Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: ask.plan.clone(), summary, ttl: ask.ttl });
        let message = self.compose(tx, body);
        let message = request::open_plan(tx, self.team, name, message, ttl_ms)?;
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
        self.refuse_self(&to.name)?;
        let body = Body::PlanApprovalResponse(v1::PlanApprovalResponse {
            recipient: to.name.to_string(),
            approve: Some(answer.approve),
            ..ask.clone()
        });
        let decided = request::answer_plan(tx, self.team, self.sender, &to.name, &answer, |tx| self.compose(tx, body))?;
        Ok(answered(decided, &answer, "Say what to change, so that the author can submit a better plan."))
    }

    fn refuse_self(&self, to: &Name) -> Result<(), Refusal> {
        if *self.sender == Actor::Member(to.clone()) {
            return Err(Refusal::new(
                Reason::SelfRecipient,
                format!("You are {to}. Name another member, or use a broadcast to reach all others."),
            )
            .field("recipient"));
        }
        Ok(())
    }

    fn compose(&self, tx: &mut Tx<'_>, body: Body) -> v1::Message {
        // In the form that ids are given out in, so that they can be compared as they stand.
        let in_reply_to = id::message_id(&self.request.in_reply_to, "in_reply_to").map(|id| id.to_string());
        let composed = post::compose(tx, self.team, self.sender, body);
        let key = &self.request.idempotency_key;
        let derived = derived_id(self.team.id, self.sender, key, self.fingerprint, tx.ctx.now_ms);
        v1::Message {
            id: derived.map_or(composed.id, |id| id.to_string()),
            in_reply_to: in_reply_to.unwrap_or_default(),
            attachments: self.request.attachments.clone(),
            trace_parent: self.trace_parent.to_owned(),
            ..composed
        }
    }

    fn post(&self, tx: &mut Tx<'_>, body: Body, to: &[&Name], urgency: Urgency) -> v1::Message {
        let message = self.compose(tx, body);
        post::post(tx, message, to, urgency)
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
            request_id: answer.request_id.clone(),
            sent_at: Some(timestamp(at_ms)),
            replayed: true,
            ..v1::SendResponse::default()
        },
    }
}

/// Whether a text may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    Yes,
    No,
}

fn content(text: &str, field: &str, required: Required, limits: &Limits) -> Result<(), Refusal> {
    if text.is_empty() && required == Required::Yes {
        return Err(Refusal::new(
            Reason::MissingContent,
            "The content is empty. Say what the recipient needs to know.",
        )
        .field(field));
    }
    check_size(text, field, limits)
}

pub(super) fn check_size(text: &str, field: &str, limits: &Limits) -> Result<(), Refusal> {
    let max = limits.content_bytes_max;
    if text.len() > max {
        return Err(Refusal::new(
            Reason::ContentTooLarge,
            format!(
                "The content has {} bytes; the most is {max}. Put it somewhere both can reach, and send its address as an \
                 attachment.",
                text.len()
            ),
        )
        .field(field)
        .with("bytes_max", max.to_string()));
    }
    Ok(())
}

fn summary(text: &str, required: Required, limits: &Limits) -> Result<String, Refusal> {
    let trimmed = text.trim_matches(' ');
    if trimmed.is_empty() && required == Required::Yes {
        return Err(Refusal::new(
            Reason::MissingSummary,
            "A summary is required: one line, best 5 to 10 words, shown as a preview.",
        )
        .field("summary"));
    }
    check_line(trimmed, "summary", Reason::InvalidSummary, limits)?;
    Ok(trimmed.to_owned())
}

/// Checks that a text is a single line within the bound of summaries.
pub(super) fn check_line(text: &str, field: &str, reason: Reason, limits: &Limits) -> Result<(), Refusal> {
    let max = limits.summary_chars_max;
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.chars().any(breaks) || text.chars().count() > max {
        return Err(Refusal::new(
            reason,
            format!("{field} must be a single line of up to {max} characters, without control characters."),
        )
        .field(field));
    }
    Ok(())
}

fn check_envelope(request: &v1::SendRequest, limits: &Limits) -> Result<(), Refusal> {
    if !request.in_reply_to.is_empty() {
        id::message_id(&request.in_reply_to, "in_reply_to")?;
    }
    let invalid = |what: String| Refusal::new(Reason::InvalidAttachment, what).field("attachments");
    if request.attachments.len() > limits.attachments_max {
        return Err(invalid(format!("A message takes up to {} attachments.", limits.attachments_max)));
    }
    for (n, attachment) in request.attachments.iter().enumerate() {
        let uri = &attachment.uri;
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_absolute = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !is_absolute || uri.len() > 2_048 || uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(invalid(format!(
                "attachments[{n}].uri must be an absolute URI of up to 2,048 characters, such as https://host/path."
            )));
        }
        if attachment.media_type.len() > 255 || attachment.media_type.chars().any(char::is_control) {
            return Err(invalid(format!(
                "attachments[{n}].media_type must be up to 255 characters, such as text/plain."
            )));
        }
        let sha = &attachment.sha256;
        if !sha.is_empty() && (sha.len() != 64 || !sha.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
            return Err(invalid(format!("attachments[{n}].sha256 must be 64 lower-case hexadecimal digits.")));
        }
    }
    Ok(())
}

/// Returns the id of a message that is sent under a key which sorts by time: the same whenever the same send is repeated.
/// A store that fails over may lose a send that a recipient has seen already; when it is repeated, the recipient knows it
/// by its id. `None` for any other key, and for one that was not made within the last hour: the ledger may have forgotten
/// an older one, and then it stands for another message.
fn derived_id(team: Uuid, sender: &Actor, key: &str, fingerprint: &[u8; 16], now_ms: u64) -> Option<Uuid> {
    let key = Uuid::try_parse(key).ok().filter(|key| key.get_version_num() == 7)?;
    let made_ms = id::made_ms(key)?;
    if made_ms.abs_diff(now_ms) > DERIVED_WITHIN_MS {
        return None;
    }
    let mut hasher = blake3::Hasher::new_derive_key("teamwire 2026-11 message id from team, sender, key and payload");
    hasher.update(team.as_bytes()).update(key.as_bytes()).update(fingerprint);
    hasher.update(v1::Sender::from(sender).name.to_lowercase().as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&hasher.finalize().as_bytes()[..10]);
    Some(uuid::Builder::from_unix_timestamp_millis(made_ms, &random).into_uuid())
}

/// Returns where the ledger keeps a caller's key. No member can be named `operator`.
fn idempotency_key(sender: &Actor, key: &str) -> String {
    match sender {
        Actor::Member(name) => format!("send/{}/{key}", name.folded()),
        Actor::Operator | Actor::Coordinator => format!("send/operator/{key}"),
    }
}

/// Tells payloads apart: the request without its key and without the redundant name of the team.
fn fingerprint(request: &v1::SendRequest) -> [u8; 16] {
    let bare = v1::SendRequest { idempotency_key: String::new(), team: String::new(), ..request.clone() };
    digest(&bare, None)
}

/// Returns what the ledger keeps of a payload. `told`: the attributes in it; their labels are a map, whose order in an
/// encoding is not defined, so they must not be in the payload and are put in order here.
pub(super) fn digest(payload: &impl prost::Message, told: Option<&v1::MemberAttributes>) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&payload.encode_length_delimited_to_vec());
    for (key, value) in told.map(|told| told.labels.iter().collect::<BTreeMap<_, _>>()).unwrap_or_default() {
        for text in [key, value] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}

/// Returns attributes without their labels.
pub(super) fn without_labels(told: Option<&v1::MemberAttributes>) -> Option<v1::MemberAttributes> {
    told.map(|told| v1::MemberAttributes { labels: HashMap::new(), ..told.clone() })
}

/// Returns the reply that was given before under the key.
pub(super) fn recall<T: prost::Message + Default>(
    tx: &mut Tx<'_>,
    key: &str,
    fingerprint: &[u8; 16],
) -> Result<Option<T>, RuleError> {
    let Some(data) = tx.recorded_reply(key) else { return Ok(None) };
    let Some((before, reply)) = data.split_at_checked(16) else {
        return Err(RuleError::Corrupt(format!("ledger entry {key} is cut short")));
    };
    if before != fingerprint {
        return Err(Refusal::new(
            Reason::IdempotencyKeyReused,
            "The idempotency key was used with another payload. Use a new key for a new call.",
        )
        .field("idempotency_key")
        .into());
    }
    T::decode(reply).map(Some).map_err(|error| RuleError::Corrupt(format!("ledger entry {key}: {error}")))
}

/// Keeps the reply under the key.
pub(super) fn keep<T: prost::Message>(tx: &mut Tx<'_>, key: &str, fingerprint: &[u8; 16], reply: &T) {
    let data: Bytes = [fingerprint.as_slice(), &reply.encode_to_vec()].concat().into();
    tx.record_reply(key, data);
}

fn replay(tx: &mut Tx<'_>, key: &str, fingerprint: &[u8; 16]) -> Result<Option<v1::SendResponse>, RuleError> {
    let reply = recall::<v1::SendResponse>(tx, key, fingerprint)?;
    Ok(reply.map(|reply| v1::SendResponse { replayed: true, ..reply }))
}

fn remember(tx: &mut Tx<'_>, key: &str, fingerprint: &[u8; 16], reply: &v1::SendResponse) {
    keep(tx, key, fingerprint, &v1::SendResponse { warnings: Vec::new(), ..reply.clone() });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_repeated_send_has_the_same_id_whatever_the_store_has_forgotten() {
        let now_ms = 1_700_000_000_000;
        let key = |ms: u64| uuid::Builder::from_unix_timestamp_millis(ms, &[7; 10]).into_uuid().to_string();
        let request = |key: String, content: &str| {
            let body = v1::DirectMessage { content: content.to_owned(), ..v1::DirectMessage::default() };
            v1::SendRequest {
                idempotency_key: key,
                body: Some(send_request::Body::Message(body)),
                ..v1::SendRequest::default()
            }
        };
        let derived_id = |team, sender: &Actor, request: &v1::SendRequest, now_ms| {
            derived_id(team, sender, &request.idempotency_key, &fingerprint(request), now_ms)
        };
        let (team, ann) = (Uuid::from_u128(1), Actor::Member(Name::parse("Ann", "name").unwrap()));
        let sent = request(key(now_ms), "x");
        let id = derived_id(team, &ann, &sent, now_ms + 5).unwrap();
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(derived_id(team, &ann, &sent, now_ms + 60_000), Some(id));
        let others = [
            derived_id(Uuid::from_u128(2), &ann, &sent, now_ms),
            derived_id(team, &Actor::Operator, &sent, now_ms),
            derived_id(team, &ann, &request(key(now_ms), "y"), now_ms),
            derived_id(team, &ann, &request(key(now_ms + 1), "x"), now_ms),
        ];
        assert!(others.iter().all(|other| other.is_some() && *other != Some(id)), "{others:?}");
        for key in [key(now_ms - 3_600_001), key(now_ms + 3_600_001), Uuid::from_u128(4).to_string(), "k".to_owned()] {
            assert_eq!(derived_id(team, &ann, &request(key, "x"), now_ms), None);
        }
    }
}
