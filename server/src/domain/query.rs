//! What callers may see, and how it is shown.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    name::Name,
    v1::{
        self, DeadLetterCause, Liveness, MemberState, PermissionEventKind, ReceiptState, Role, SenderKind,
        history_entry::Event, message::Body,
    },
};

use super::{
    Context, Limits,
    identity::{CallerCredentials, Principal},
    records::{
        ActivityRecord, CursorRecord, Failed, Life, MemberRecord, Pending, PresenceRecord, Program, ReceiptRecord,
        SessionRecord, TeamRecord,
    },
    time::{duration, ms, timestamp},
};
use crate::store::Leases;

/// Returns a member's state, and since when it has it.
pub fn member_state(member: &MemberRecord, facts: &MemberFacts) -> (MemberState, u64) {
    let session = facts.session.as_deref().filter(|session| session.incarnation == member.incarnation);
    let presence = facts.presence.as_deref().filter(|presence| presence.incarnation == member.incarnation);
    match (&member.life, presence) {
        (Life::Stopping { .. }, _) => (MemberState::Stopping, member.since_ms),
        (Life::Exited { .. }, _) => (MemberState::Exited, member.since_ms),
        (Life::Lost, _) => (MemberState::Lost, member.since_ms),
        (Life::Spawning, _) => (MemberState::Spawning, member.since_ms),
        (Life::Live, _) if member.detached && !facts.has_lease() => {
            (MemberState::Away, facts.lease_until_ms.unwrap_or(0).max(member.since_ms))
        }
        (Life::Live, Some(presence)) if presence.idle => (MemberState::Idle, presence.since_ms),
        (Life::Live, Some(presence)) => (MemberState::Active, presence.since_ms.max(member.since_ms)),
        (Life::Live, None) => match session {
            Some(session) if session.ended.is_none() || !member.detached => {
                (MemberState::Active, session.opened_ms.max(member.since_ms))
            }
            _ if member.detached => (MemberState::Active, facts.last_call_ms().max(member.since_ms)),
            _ => (MemberState::Joined, member.since_ms),
        },
    }
}

/// Shows a team.
pub fn show_team(team: &TeamRecord) -> v1::Team {
    v1::Team {
        name: team.name.to_string(),
        id: team.id.to_string(),
        description: team.description.clone(),
        lead: team.lead.to_string(),
        created_at: Some(timestamp(team.created_ms)),
        storage: None,
        budget: None,
        members: u32::try_from(team.members.iter().filter(|member| !member.is_host).count()).unwrap_or(u32::MAX),
    }
}

/// What is known about a member besides its entry in the roster.
#[derive(Clone, Debug, Default)]
pub struct MemberFacts {
    /// Its latest session.
    pub session: Option<Arc<SessionRecord>>,
    /// Its presence.
    pub presence: Option<Arc<PresenceRecord>>,
    /// What it has used.
    pub activity: Option<Arc<ActivityRecord>>,
    /// How many messages are unprocessed.
    pub inbox_depth: u64,
    /// No more ordinary messages fit.
    pub inbox_full: bool,
    /// When its lease ends or ended. `None` if it never had one.
    pub lease_until_ms: Option<u64>,
    /// How long a lease lasts.
    pub lease_ttl_ms: u64,
    /// The store's clock.
    pub now_ms: u64,
}

impl MemberFacts {
    /// Returns what the leases of its team, as just read, say about a member.
    pub fn of_lease(member: &Name, leases: &Leases, limits: &Limits) -> Self {
        Self {
            lease_until_ms: leases.until_ms.get(member.folded()).copied(),
            lease_ttl_ms: ms(limits.lease_ttl),
            now_ms: leases.now_ms,
            ..Self::default()
        }
    }

    /// Takes into account that the member is calling right now, which the leases show only a moment later.
    pub fn is_calling(mut self) -> Self {
        self.lease_until_ms = self.lease_until_ms.max(Some(self.now_ms + self.lease_ttl_ms));
        self
    }

    fn has_lease(&self) -> bool {
        self.lease_until_ms.is_some_and(|until_ms| until_ms > self.now_ms)
    }

    /// Returns when the lease was last renewed: within seconds of the member's last call.
    pub(super) fn last_call_ms(&self) -> u64 {
        self.lease_until_ms.unwrap_or(0).saturating_sub(self.lease_ttl_ms)
    }
}

/// Shows a member.
pub fn show_member(team: &TeamRecord, member: &MemberRecord, facts: &MemberFacts) -> v1::Member {
    let session = facts.session.as_deref().filter(|session| session.incarnation == member.incarnation);
    let presence = facts.presence.as_deref().filter(|presence| presence.incarnation == member.incarnation);
    let (state, since_ms) = member_state(member, facts);
    let exit = member.life.exit_report();
    let in_life = facts.activity.as_deref().filter(|activity| activity.incarnation == member.incarnation);
    let failed = in_life.and_then(|activity| activity.failed.as_ref()).filter(|_| exit.is_none());
    let is_live = !matches!(state, MemberState::Exited | MemberState::Lost);
    let is_open = |pending: &&Pending| pending.expires_ms > facts.now_ms;
    let pending =
        |pending: &Option<Pending>| pending.as_ref().filter(is_open).map_or_else(String::new, |p| p.id.to_string());
    let told = &member.attributes;
    v1::Member {
        name: member.name.to_string(),
        role: role(team, member).into(),
        state: state.into(),
        incarnation: member.incarnation,
        joined_at: Some(timestamp(member.joined_ms)),
        state_since: Some(timestamp(since_ms)),
        attributes: Some(v1::MemberAttributes {
            agent_type: told.agent_type.clone(),
            model: told.model.clone(),
            host: told.host.clone(),
            color: told.color.clone(),
            labels: told.labels.clone().into_iter().collect(),
            plan_mode_required: member.plan_mode_required,
        }),
        exit,
        last_summary: presence.map_or_else(String::new, |presence| presence.summary.clone()),
        last_summary_at: presence
            .filter(|presence| !presence.summary.is_empty())
            .map(|presence| timestamp(presence.summary_ms)),
        pending_shutdown: pending(&member.pending_shutdown),
        pending_plan: pending(&member.pending_plan),
        pending_permissions: member.pending_permissions.iter().filter(is_open).map(|p| p.id.to_string()).collect(),
        plan_required: member.plan_required(),
        inbox_depth: facts.inbox_depth,
        inbox_full: facts.inbox_full,
        connected: session.is_some_and(|session| session.ended.is_none()) && facts.has_lease() && member.life.is_live(),
        lease_left: Some(duration(facts.lease_until_ms.unwrap_or(0).saturating_sub(facts.now_ms))),
        liveness: if member.detached { Liveness::Detached } else { Liveness::Attached }.into(),
        notice_level: v1::NoticeLevel::from(member.notice_level).into(),
        usage: in_life.and_then(|activity| activity.life.nonzero()),
        total_usage: facts.activity.as_deref().and_then(|activity| activity.total().nonzero()),
        budget: facts.activity.as_deref().and_then(|activity| activity.budget).map(v1::Budget::from),
        spawned_on: member.ordered.as_ref().map_or_else(String::new, |ordered| ordered.host.to_string()),
        pending_order: pending(&member.pending_order),
        failed_turns: failed.map(Failed::show),
        program: in_life.and_then(|activity| activity.program.as_ref()).filter(|_| is_live).map(Program::show),
        tags: member.tags.iter().map(Name::to_string).collect(),
    }
}

fn role(team: &TeamRecord, member: &MemberRecord) -> Role {
    match member {
        host if host.is_host => Role::Host,
        lead if team.is_lead(&lead.name) => Role::Lead,
        _ => Role::Teammate,
    }
}

/// Shows a member whose life has just started, or of which only the roster is loaded.
pub fn show_new_member(team: &TeamRecord, member: &MemberRecord, ctx: &Context) -> v1::Member {
    let facts = MemberFacts { now_ms: ctx.now_ms, lease_ttl_ms: ms(ctx.limits.lease_ttl), ..MemberFacts::default() };
    show_member(team, member, &if member.life == Life::Live { facts.is_calling() } else { facts })
}

fn is(name: &Name, text: &str) -> bool {
    name.folded().eq_ignore_ascii_case(text)
}

fn is_sender(name: &Name, sender: Option<&v1::Sender>) -> bool {
    sender.is_some_and(|sender| sender.kind() == SenderKind::Member && is(name, &sender.name))
}

/// Returns whether the member sent or received the message.
fn concerns(name: &Name, message: &v1::Message) -> bool {
    is_sender(name, message.sender.as_ref()) || message.recipients.iter().any(|recipient| is(name, recipient))
}

/// Returns the member whose inbox the caller wants to read: the one that the request names, or itself.
pub fn inbox_owner(team: &TeamRecord, caller: &Principal, named: &str) -> Result<Name, Refusal> {
    let own = match caller {
        Principal::Member { name, .. } => Some(name),
        _ => None,
    };
    if named.is_empty() {
        return own.cloned().ok_or_else(no_own_inbox);
    }
    let member = team.resolve(named, "member")?;
    if own != Some(&member.name) && !caller.sees_all() {
        return Err(Refusal::new(
            Reason::LeadOnly,
            format!(
                "Only the team's lead may look into another's inbox. Ask {} or the lead (`team-lead`).",
                member.name
            ),
        )
        .field("member"));
    }
    Ok(member.name.clone())
}

/// Returns the refusal of a caller that has no inbox and names none.
fn no_own_inbox() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a member has an inbox. Use a member's credential, or name the member whose inbox you want to see.",
    )
}

/// Refuses a call about an inbox that names no member, unless the caller has an inbox.
pub fn check_inbox_named(who: &CallerCredentials, named: &str) -> Result<(), Refusal> {
    match &who.credential {
        Credential::Member { .. } | Credential::Console { team: Some(_), .. } => Ok(()),
        _ if !named.is_empty() => Ok(()),
        _ => Err(no_own_inbox()),
    }
}

/// Returns a message if it is there and the caller may see it.
pub fn visible_message(caller: &Principal, found: Option<Arc<v1::Message>>) -> Result<Arc<v1::Message>, Refusal> {
    found.filter(|message| may_see_message(caller, message)).ok_or_else(|| {
        Refusal::new(
            Reason::MessageNotFound,
            "There is no such message that this credential can see. Look for its id with `teamwire history`.",
        )
        .field("message_id")
    })
}

/// Returns a request if it is there and the caller may see it.
pub fn visible_request(caller: &Principal, found: Option<Arc<v1::Request>>) -> Result<v1::Request, Refusal> {
    let request = found.filter(|request| may_see_request(caller, request)).ok_or_else(request_not_found)?;
    Ok(v1::Request::clone(&request))
}

/// Returns the refusal of a call about a request that does not exist, or that the caller may not see.
pub fn request_not_found() -> Refusal {
    Refusal::new(
        Reason::RequestNotFound,
        "There is no such request that this credential can see. Copy the request_id from the request, or see `teamwire \
         requests`.",
    )
    .field("request_id")
}

/// Returns whether the caller may see a message.
fn may_see_message(caller: &Principal, message: &v1::Message) -> bool {
    match caller {
        Principal::Member { name, lead: false } => concerns(name, message),
        _ => true,
    }
}

/// Returns whether the caller may see a request.
pub fn may_see_request(caller: &Principal, request: &v1::Request) -> bool {
    match caller {
        Principal::Member { name, lead: false } => {
            is(name, &request.member) || is(name, &request.approver) || is_sender(name, request.requester.as_ref())
        }
        _ => true,
    }
}

/// Returns whether the caller may see an entry of the history. The entry must hold its whole message or request.
pub fn may_see_entry(caller: &Principal, entry: &v1::HistoryEntry) -> bool {
    let Principal::Member { name, lead: false } = caller else { return true };
    match &entry.event {
        Some(Event::Message(message)) => concerns(name, message),
        Some(Event::Decision(request)) => may_see_request(caller, request),
        Some(Event::DeadLetter(event)) => is(name, &event.recipient),
        Some(Event::Permission(event)) => {
            event.kind() != PermissionEventKind::Used || is_sender(name, event.actor.as_ref())
        }
        Some(Event::Member(_) | Event::Team(_) | Event::Task(_)) => true,
        None => false,
    }
}

/// Returns whether an entry passes the filter. `member`: the filter's member, resolved.
pub fn passes(filter: &v1::HistoryFilter, member: Option<&Name>, entry: &v1::HistoryEntry) -> bool {
    if filter.messages_only && !matches!(entry.event, Some(Event::Message(_))) {
        return false;
    }
    let Some(name) = member else { return true };
    match &entry.event {
        Some(Event::Message(message)) => {
            let about = matches!(&message.body, Some(Body::Notice(notice)) if is(name, &notice.member));
            about || concerns(name, message)
        }
        Some(Event::Decision(request)) => {
            is(name, &request.member)
                || is(name, &request.approver)
                || is_sender(name, request.requester.as_ref())
                || is_sender(name, request.decided_by.as_ref())
        }
        Some(Event::Member(event)) => is(name, &event.member) || is_sender(name, event.forced_by.as_ref()),
        Some(Event::Team(event)) => is(name, &event.member) || is_sender(name, event.actor.as_ref()),
        Some(Event::DeadLetter(event)) => is(name, &event.recipient),
        Some(Event::Task(event)) => is(name, &event.owner) || is_sender(name, event.actor.as_ref()),
        Some(Event::Permission(event)) => {
            is_sender(name, event.actor.as_ref()) || event.rule.as_ref().is_some_and(|rule| is(name, &rule.member))
        }
        None => false,
    }
}

/// What is known about a message at one recipient.
#[derive(Clone, Debug, Default)]
pub struct ReceiptFacts {
    /// The receipt written when it left the inbox.
    pub finished: Option<Arc<ReceiptRecord>>,
    /// Its sequence, if it is in the inbox.
    pub queued_at: Option<u64>,
    /// The recipient's latest session.
    pub session: Option<Arc<SessionRecord>>,
    /// How far that session has gotten.
    pub cursor: Option<Arc<CursorRecord>>,
}

/// Shows the receipt of a message at one recipient.
pub fn show_receipt(message: &v1::Message, recipient: &str, facts: &ReceiptFacts) -> v1::Receipt {
    let mut receipt =
        v1::Receipt { recipient: recipient.to_owned(), queued_at: message.sent_at, ..v1::Receipt::default() };
    if let Some(finished) = &facts.finished {
        let state = finished.dead_letter.map_or(ReceiptState::Processed, |_| ReceiptState::DeadLettered);
        receipt.set_state(state);
        receipt.sequence = finished.sequence;
        receipt.delivered_at = finished.delivered_ms.map(timestamp);
        receipt.finished_at = Some(timestamp(finished.finished_ms));
        receipt.delivery_count = finished.delivery_count;
        receipt.set_dead_letter_cause(finished.dead_letter.unwrap_or_default());
        return receipt;
    }
    let Some(sequence) = facts.queued_at else {
        // Only the coordinator's notices are left out of a full inbox, and no sender waits for their receipt.
        receipt.set_state(ReceiptState::DeadLettered);
        receipt.set_dead_letter_cause(DeadLetterCause::InboxFull);
        receipt.finished_at = message.sent_at;
        return receipt;
    };
    let before = facts.session.as_deref().map_or(0, |session| session.surely_seen(sequence));
    let cursor = match (facts.session.as_deref(), facts.cursor.as_deref()) {
        (Some(session), Some(cursor)) if cursor.epoch == session.epoch => Some(cursor),
        _ => None,
    };
    let was_handed = facts.session.as_deref().is_some_and(|session| session.process_delivered >= sequence);
    let now = was_handed || cursor.is_some_and(|cursor| cursor.has_delivered(sequence));
    receipt.sequence = sequence;
    receipt.delivery_count = before + u32::from(now);
    receipt.delivered_at = cursor
        .and_then(|cursor| cursor.unacked.iter().find(|(unacked, _)| *unacked == sequence))
        .map(|(_, at_ms)| timestamp(*at_ms));
    receipt.set_state(if receipt.delivery_count > 0 { ReceiptState::Delivered } else { ReceiptState::Queued });
    receipt
}

/// Refuses a cursor beyond the newest entry: the caller has seen entries that the store does not have any more.
pub fn check_cursor(seen: u64, last: u64) -> Result<(), Refusal> {
    if seen <= last {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::CursorAhead,
        format!(
            "You have seen entry {seen}, and the newest entry of the store is {last}: the store has lost entries, or was restored \
             from an older backup. Read again from there."
        ),
    )
    .with("last_sequence", last.to_string()))
}
