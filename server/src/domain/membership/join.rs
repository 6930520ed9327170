//! Joining: a life starts under a member's name.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id,
    name::Name,
    v1::{self, CancelCause, Liveness, MemberState, NoticeKind},
    word,
};

use super::exit::{exit_event, exit_of};
use crate::{
    domain::{
        actor::Actor,
        fields::known,
        history::{self, member_event},
        idempotency::{KeyedCall, fingerprint, without_labels},
        identity::{self, Admit, CallerCredentials, invalid, is_or_was, revoked_member, superseded},
        life::{NewLife, attributes, new_credential},
        notices,
        query::{show_new_member, show_team},
        quota::Spender,
        records::{
            ActivityRecord, EndCause, Exit, JoinTokenRecord, Life, MemberRecord, PresenceRecord, SessionEnd, TeamRecord,
        },
        request, session, subscriptions, tags,
        task::give_back,
        time::ms,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// How long a crash counts when a notice says how many there were.
const CRASHES_WINDOW: Duration = Duration::from_secs(600);

/// How many crashes of a member are counted.
const CRASHES_MAX: usize = 100;

/// How many lives of a member the history records in a period, and how long a period is.
const LIVES_RECORDED_MAX: u32 = 30;
const LIVES_PERIOD: Duration = Duration::from_secs(600);

/// Starts a life under a member's name. `leases`: as just read.
pub fn join(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::JoinRequest,
    leases: &Leases,
) -> Result<v1::JoinResponse, RuleError> {
    let team = team_to_join(tx, who)?;
    let mut token = check_credential(tx, &team, who)?;

    let attributes_given = request.attributes.as_ref();
    let bare = v1::JoinRequest {
        idempotency_key: String::new(),
        attributes: without_labels(attributes_given),
        ..request.clone()
    };
    let call = KeyedCall::new(&scope(who), &request.idempotency_key, fingerprint(&bare, attributes_given))?;
    let secret = new_credential(tx, who, id::idempotency_key(&request.idempotency_key)?);
    let credential = |member: &Name| {
        Credential::Member { team: team.name.clone(), member: member.clone(), secret: secret.clone() }.reveal()
    };
    if let Some(reply) = call.recorded_reply::<v1::JoinResponse>(tx)? {
        let name = reply.member.as_ref().map_or("", |member| member.name.as_str());
        let name = Name::parse(name, "name")?;
        return Ok(v1::JoinResponse { credential: credential(&name), ..reply });
    }

    let name = match &token {
        Some(token) => use_token(tx, &team, token, request, leases)?,
        None => own_name(&team, who, request)?,
    };
    tx.spends_as(if team.is_lead(&name) { Spender::Lead } else { Spender::Teammate });
    let mut team = TeamRecord::clone(&team);
    let before = team.member(&name).cloned();
    if before.is_none() {
        team.check_room(&tx.ctx.limits)?;
    }
    let crash = match (&request.previous_exit, &before) {
        (Some(report), Some(before)) if token.is_none() && matches!(before.life, Life::Live | Life::Lost) => {
            Some(exit_of(tx, Some(report), "previous_exit")?)
        }
        _ => None,
    };
    let mut member = begin_life(tx, &mut team, &name, before.as_ref(), request, token.as_ref(), &secret)?;
    if let Some(token) = &token {
        if token.member.is_none() && token.order.is_none() {
            // A process that chooses a name does not choose its tags with it.
            member.tags.clear();
        }
        tags::add_what_fits(&mut member, &token.tags);
        // What a former bearer of the name waited for is nothing to this one.
        subscriptions::forget(tx, &name)?;
    }
    let crash_report = crash.as_ref().map(|exit| exit.report(&EndCause::ProcessEnded));
    if let (Some(exit), Some(report), Some(before)) = (crash, &crash_report, &before) {
        note_crash(tx, &mut member, exit);
        if before.lives.left_out == 0 {
            history::append(tx, exit_event(&before.name, before.incarnation, report));
        }
    }
    let recorded = count_life(tx, &mut member);
    match team.member_mut(&name) {
        Some(present) => *present = member.clone(),
        None => team.members.push(member.clone()),
    }
    if let (Some(token), Credential::Join { id, .. }) = (&mut token, &who.credential) {
        token.uses_left -= 1;
        token.last_used_ms = Some(tx.ctx.now_ms);
        tx.put(id, token);
    }
    tx.put("", &team);
    tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    tx.delete::<PresenceRecord>(name.folded());
    if before.is_some() {
        give_back::give_back(tx, &name, "its owner has begun a new life")?;
    }
    session::end(tx, &name, SessionEnd::Replaced)?;
    if let Some(detail) = recorded {
        history::append(tx, member_event(&member.name, MemberState::Joined, member.incarnation, &detail));
    }
    match crash_report {
        _ if team.is_lead(&name) => {}
        Some(exit) => tell_lead_of_restart(tx, &team, &member, exit)?,
        // A detached life has no process that this one could have replaced.
        None if before.is_some_and(|before| before.life == Life::Live && !before.detached) => {
            tell_lead_of_takeover(tx, &team, &member.name)?;
        }
        None => {}
    }
    // A runner reports what the one before it has used and could not report any more.
    let total_usage = tx.read::<ActivityRecord>(name.folded())?.and_then(|activity| activity.total().nonzero());
    let reply = v1::JoinResponse {
        team: Some(show_team(&team)),
        member: Some(v1::Member { total_usage, ..show_new_member(&team, &member, tx.ctx) }),
        credential: String::new(),
    };
    call.record_reply(tx, &reply);
    Ok(v1::JoinResponse { credential: credential(&member.name), ..reply })
}

/// Returns the team of a caller that has a credential for joining.
fn team_to_join(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<Arc<TeamRecord>, RuleError> {
    match &who.credential {
        Credential::Join { .. } | Credential::Member { .. } => Ok(tx.read::<TeamRecord>("")?.ok_or_else(invalid)?),
        Credential::Operator { .. } => {
            identity::operator(tx, who)?;
            Err(not_for("the operator").into())
        }
        Credential::Observer { .. } => {
            identity::call(tx, who, "", Admit::Live)?;
            Err(not_for("an observer").into())
        }
        Credential::SignInCode { .. } => Err(not_for("a person who signs in").into()),
        Credential::Console { .. } => {
            identity::process(tx, who, Admit::Live)?;
            Err(identity::only_processes().into())
        }
    }
}

/// Begins a life of the member, which replaces the one before, and cancels the requests to that one. Returns the record
/// of the new life, which is not yet in the team.
fn begin_life(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    name: &Name,
    before: Option<&MemberRecord>,
    request: &v1::JoinRequest,
    token: Option<&JoinTokenRecord>,
    secret: &str,
) -> Result<MemberRecord, RuleError> {
    // Keeps the order that this life, or an earlier life of the same process, was started for.
    let is_of_order = token.is_none_or(|token| token.order.is_some());
    let (ordered, pending_order) = match team.member_mut(name).filter(|_| is_of_order) {
        Some(present) => (present.ordered.clone(), present.pending_order.take()),
        None => (None, None),
    };
    request::cancel::cancel_all(tx, team, name, CancelCause::TargetReplaced)?;
    let given = request.attributes.clone().unwrap_or_default();
    let (is_host, plan_mode_required) = match (token, before) {
        (Some(token), _) => (token.is_for_host, token.plan_mode_required),
        (None, Some(before)) => (before.is_host, before.plan_mode_required),
        (None, None) => (false, false),
    };
    let life = NewLife {
        name: name.clone(),
        secret,
        attributes: attributes(&given)?,
        plan_mode_required: given.plan_mode_required || plan_mode_required,
        detached: known::<Liveness>(request.liveness, "liveness")? == Liveness::Detached,
    };
    Ok(MemberRecord { is_host, ordered, pending_order, ..life.begin(before, tx.ctx.now_ms) })
}

/// Returns the scope within which the idempotency keys of a join are unique.
fn scope(who: &CallerCredentials) -> String {
    match &who.credential {
        Credential::Join { id, .. } => format!("join/token/{id}"),
        Credential::Member { member, .. } => format!("join/{}", member.folded()),
        _ => unreachable!("these are refused before"),
    }
}

fn not_for(bearer: &str) -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        format!(
            "No member can join with the credential of {bearer}. Create a join token with `teamwire invite`, and join with that."
        ),
    )
}

/// Checks that the credential may join at all. Returns the join token, if it is one.
fn check_credential(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    who: &CallerCredentials,
) -> Result<Option<JoinTokenRecord>, RuleError> {
    match &who.credential {
        Credential::Join { id, .. } => {
            let token = identity::join_token(tx, id, who)?;
            Ok(Some(JoinTokenRecord::clone(&token)))
        }
        Credential::Member { member, .. } => {
            let record = team.member(member).ok_or_else(invalid)?;
            if !is_or_was(record, who) {
                return Err(invalid().into());
            }
            Ok(None)
        }
        _ => Err(invalid().into()),
    }
}

fn use_token(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    token: &JoinTokenRecord,
    request: &v1::JoinRequest,
    leases: &Leases,
) -> Result<Name, Refusal> {
    if token.is_for_host != request.host {
        return Err(wrong_kind_of_token(token));
    }
    let invite = if token.is_for_host { "teamwire invite --host" } else { "teamwire invite" };
    if token.revoked {
        let text = format!("The join token was revoked. Ask the lead for a new one (`{invite}`).");
        return Err(Refusal::new(Reason::CredentialRevoked, text));
    }
    if token.expires_ms <= tx.ctx.now_ms {
        let text = format!("The join token has expired. Ask the lead for a new one (`{invite}`).");
        return Err(Refusal::new(Reason::JoinTokenExpired, text));
    }
    if token.uses_left == 0 {
        let text = format!("The join token has been used. Ask the lead for a new one (`{invite}`).");
        return Err(Refusal::new(Reason::JoinTokenUsed, text));
    }
    let name = match (request.name.as_str(), &token.member) {
        ("", Some(bound)) => bound.clone(),
        ("", None) => {
            return Err(Refusal::new(
                Reason::InvalidName,
                "This join token is not bound to a name, so choose one: `teamwire join --name NAME -`, or \
                 `teamwire run NAME`.",
            )
            .field("name"));
        }
        (asked, bound) => {
            let name = Name::parse_member(asked, "name")?;
            if bound.as_ref().is_some_and(|bound| *bound != name) {
                return Err(Refusal::new(
                    Reason::NotPermitted,
                    format!(
                        "This join token is for a name other than {name}. Omit the name, or ask for another token."
                    ),
                )
                .field("name"));
            }
            name
        }
    };
    let Some(bearer) = team.member(&name) else { return Ok(name) };
    if bearer.is_host != token.is_for_host {
        let (is, needed) = if bearer.is_host { ("a host's", "a host's") } else { ("a member's", "a member's") };
        let text = format!("The name {name} is {is}, and this join token is not {needed}. Choose another name.");
        return Err(Refusal::new(Reason::MemberExists, text).field("name"));
    }
    if let Some(order) = &token.order {
        let is_pending = bearer.pending_order.as_ref().is_some_and(|pending| pending.id == *order);
        if bearer.life == Life::Spawning && is_pending {
            return Ok(name);
        }
        let text = "The order that this join token belongs to has ended. End this process.";
        return Err(Refusal::new(Reason::JoinTokenExpired, text));
    }
    let is_away = bearer.is_away(leases);
    // The name of an exited lead carries the lead's powers, and a member that is away or whose credential was revoked
    // may come back. So only a token bound to such a name may take it.
    let is_protected = is_away || bearer.revoked || team.is_lead(&name);
    let is_held = bearer.life.holds_name() && !is_away && !bearer.revoked;
    if is_held || (is_protected && token.member.is_none()) {
        let instead = match is_away {
            true => "join with a token that the lead issues for this name",
            false => "wait until its bearer has exited",
        };
        let text = format!(
            "The name {name} is taken. Choose another; or, if it is yours, start a new life with your credential; or {instead}."
        );
        return Err(Refusal::new(Reason::MemberExists, text).field("name"));
    }
    if is_away && !bearer.revoked {
        tx.check_lease_gone(name.folded());
    }
    Ok(name)
}

/// Returns the refusal of a member's token for a host, or of a host's token for a member.
fn wrong_kind_of_token(token: &JoinTokenRecord) -> Refusal {
    let name = token.member.as_ref().map_or("NAME", Name::as_str);
    let text = match token.is_for_host {
        true => "This join token is for a host, which starts members: `teamwire host --join -`. To join as a member, \
                 ask the lead for another one (`teamwire invite`)."
            .to_owned(),
        false => format!(
            "This join token is for a member, and not for a host: `teamwire run {name} --join - -- COMMAND`. To join as \
             a host, ask the lead for another one (`teamwire invite --host`)."
        ),
    };
    Refusal::new(Reason::InvalidField, text).field("host")
}

fn own_name(team: &TeamRecord, who: &CallerCredentials, request: &v1::JoinRequest) -> Result<Name, Refusal> {
    let Credential::Member { member, .. } = &who.credential else { return Err(invalid()) };
    let record = team.member(member).ok_or_else(invalid)?;
    if record.credential != who.hash {
        return Err(superseded(&record.name));
    }
    if record.revoked {
        return Err(revoked_member(&record.name));
    }
    if record.is_host != request.host {
        let (name, is, instead) = match record.is_host {
            true => (&record.name, "a host: no member can join with its credential", "`teamwire invite`"),
            false => (&record.name, "a member: no host can join with its credential", "`teamwire invite --host`"),
        };
        let text = format!("{name} is {is}. Ask the lead for a join token ({instead}), and join with that.");
        return Err(Refusal::new(Reason::InvalidField, text).field("host"));
    }
    let asked = &request.name;
    if !asked.is_empty() && Name::parse_member(asked, "name")? != record.name {
        return Err(Refusal::new(
            Reason::NotPermitted,
            format!("This credential is {}'s. To take another name, join with a token.", record.name),
        )
        .field("name"));
    }
    let dismissed = match &record.life {
        Life::Live | Life::Lost => false,
        Life::Exited { cause, .. } => cause.is_dismissal(),
        Life::Stopping { .. } | Life::Spawning => true,
    };
    if dismissed {
        return Err(Refusal::new(
            Reason::MemberStopped,
            format!(
                "{} was asked to exit, and has exited. To come back it needs a new join token from the lead.",
                record.name
            ),
        ));
    }
    Ok(record.name.clone())
}

/// Counts a life that begins. Returns the detail of its entry in the history. `None` if the history leaves this life
/// out, because the member has joined too often.
fn count_life(tx: &Tx<'_>, member: &mut MemberRecord) -> Option<String> {
    let lives = &mut member.lives;
    if tx.ctx.now_ms.saturating_sub(lives.since_ms) >= ms(LIVES_PERIOD) {
        (lives.since_ms, lives.begun) = (tx.ctx.now_ms, 0);
    }
    lives.begun = lives.begun.saturating_add(1);
    if lives.begun > LIVES_RECORDED_MAX {
        lives.left_out = lives.left_out.saturating_add(1);
        return None;
    }
    match std::mem::take(&mut lives.left_out) {
        0 => Some(String::new()),
        left_out => {
            Some(format!("It joined too often: the history leaves out {left_out} of its lives before this one."))
        }
    }
}

/// Counts a crash of the life before this one.
fn note_crash(tx: &Tx<'_>, member: &mut MemberRecord, exit: Exit) {
    member.last_crash = Some(exit);
    let since_ms = tx.ctx.now_ms.saturating_sub(ms(CRASHES_WINDOW));
    member.crashes_ms.retain(|at_ms| *at_ms > since_ms);
    if member.crashes_ms.len() < CRASHES_MAX {
        member.crashes_ms.push(tx.ctx.now_ms);
    }
}

fn tell_lead_of_restart(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    member: &MemberRecord,
    exit: v1::ExitReport,
) -> Result<(), RuleError> {
    let crashes = member.crashes_ms.len();
    let again = match crashes {
        0 | 1 => String::new(),
        count => format!(", {} time in {} min", ordinal(count), CRASHES_WINDOW.as_secs() / 60),
    };
    let notice = v1::Notice {
        kind: NoticeKind::MemberRestarted.into(),
        member: member.name.to_string(),
        text: format!("{} crashed ({}) and was restarted{again}.", member.name, word::exit(&exit)),
        exit: Some(exit),
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice)
}

/// Writes a number as a rank, such as 2nd.
fn ordinal(number: usize) -> String {
    match (number % 10, number % 100) {
        (1, rest) if rest != 11 => format!("{number}st"),
        (2, rest) if rest != 12 => format!("{number}nd"),
        (3, rest) if rest != 13 => format!("{number}rd"),
        _ => format!("{number}th"),
    }
}

fn tell_lead_of_takeover(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name) -> Result<(), RuleError> {
    let notice = v1::Notice {
        kind: NoticeKind::SessionSuperseded.into(),
        member: name.to_string(),
        text: format!("A new process has taken over the name {name}; the previous one was asked to exit."),
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice)
}
