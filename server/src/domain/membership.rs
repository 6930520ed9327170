//! The lives of members: invited, joined, taken over, left, stopped by force; and who leads.

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id,
    name::Name,
    v1::{self, CancelCause, MemberState, NoticeKind, RequestKind, TeamEventKind},
};

use super::{
    fields::ttl,
    identity::{self, Admit, CallerCredentials, Principal, invalid, is_or_was, superseded},
    post::{self, duration_ms, timestamp},
    query::{show_new_member, show_team},
    record::{
        Attributes, Exit, JoinTokenRecord, Life, MemberRecord, ObserverRecord, PresenceRecord, SessionEnd, TOPIC_TEAM,
        TeamRecord,
    },
    request::{self, member_event},
    roster::Actor,
    secret::{SecretHash, derive},
    send::{check_line, digest, keep, recall, without_labels},
    session,
    task::claim,
    team,
    tx::{RuleError, Tx},
};

/// How many secrets of former lives are kept.
const FORMER_CREDENTIALS_MAX: usize = 4;

/// Mints a join token.
pub fn invite(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::InviteRequest,
) -> Result<v1::InviteResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("invite")?;
    let member = match request.member.as_str() {
        "" => None,
        name => Some(Name::parse_member(name, "member")?),
    };
    let uses = request.uses_max.max(1);
    if uses > 1_000 {
        return Err(Refusal::new(Reason::InvalidField, "uses_max must be between 1 and 1,000.")
            .field("uses_max")
            .into());
    }
    let ttl = ttl(request.ttl.as_ref(), tx.ctx.limits.join_token_ttl, 30)?;
    let expires_ms = tx.ctx.now_ms + ttl;
    let (id, secret) = (tx.new_secret()[..12].to_owned(), tx.new_secret());
    let token = JoinTokenRecord {
        secret: SecretHash::of(&secret),
        member: member.clone(),
        uses_left: uses,
        expires_ms,
        plan_mode_required: request.plan_mode_required,
    };
    tx.put(&id, &token);
    post::record(tx, team::event(TeamEventKind::Invited, &actor, member.as_ref().map_or("", Name::as_str)));
    let join_token = Credential::Join { team: team.name.clone(), id, secret }.reveal();
    // Where that is good is not known to a rule; `grpc` adds it.
    Ok(v1::InviteResponse { join_token, expires_at: Some(timestamp(expires_ms)), join_string: String::new() })
}

/// Mints an observer's credential.
pub fn create_observer(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateObserverRequest,
) -> Result<v1::CreateObserverResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("let others observe the team")?;
    let expires_ms = tx.ctx.now_ms + ttl(request.ttl.as_ref(), tx.ctx.limits.observer_ttl, 365)?;
    let (id, secret) = (tx.new_secret()[..12].to_owned(), tx.new_secret());
    tx.put(&id, &ObserverRecord { secret: SecretHash::of(&secret), expires_ms });
    post::record(tx, team::event(TeamEventKind::ObserverCreated, &actor, ""));
    let credential = Credential::Observer { team: team.name.clone(), id, secret }.reveal();
    Ok(v1::CreateObserverResponse { credential, expires_at: Some(timestamp(expires_ms)) })
}

/// Returns the secret of a new credential: derived, so that the same call comes to the same, when there is a key.
pub(super) fn new_credential(tx: &mut Tx<'_>, who: &CallerCredentials, key: Option<&str>) -> String {
    match key {
        Some(key) => derive(who.credential.secret(), key),
        None => tx.new_secret(),
    }
}

/// A life that is about to begin.
pub(super) struct NewLife<'a> {
    pub(super) name: Name,
    pub(super) secret: &'a str,
    pub(super) attributes: Attributes,
    pub(super) plan_mode_required: bool,
}

impl NewLife<'_> {
    /// Makes the roster's entry for it, after the life before.
    pub(super) fn begin(self, before: Option<&MemberRecord>, now_ms: u64) -> MemberRecord {
        let former = before.map_or_else(Vec::new, |before| {
            let mut former = vec![before.credential];
            former.extend(before.former_credentials.iter().take(FORMER_CREDENTIALS_MAX - 1));
            former
        });
        MemberRecord {
            name: before.map_or(self.name, |before| before.name.clone()),
            incarnation: before.map_or(1, |before| before.incarnation + 1),
            life: Life::Live,
            joined_ms: now_ms,
            since_ms: now_ms,
            credential: SecretHash::of(self.secret),
            former_credentials: former,
            attributes: self.attributes,
            plan_mode_required: self.plan_mode_required,
            plan_approved: false,
            pending_shutdown: None,
            pending_plan: None,
        }
    }
}

/// Begins a life of a member's name.
pub fn join(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::JoinRequest,
) -> Result<v1::JoinResponse, RuleError> {
    let team = match &who.credential {
        Credential::Join { .. } | Credential::Member { .. } => tx.read::<TeamRecord>("")?.ok_or_else(invalid)?,
        Credential::Operator { .. } => {
            identity::operator(tx, who)?;
            return Err(not_for("the operator").into());
        }
        Credential::Observer { .. } => {
            identity::call(tx, who, "", Admit::Live)?;
            return Err(not_for("an observer").into());
        }
    };
    let mut token = check_credential(tx, &team, who)?;

    let key = id::idempotency_key(&request.idempotency_key)?;
    let idempotency_key = key.map(|key| match &who.credential {
        Credential::Join { id, .. } => format!("join/token/{id}/{key}"),
        Credential::Member { member, .. } => format!("join/{}/{key}", member.folded()),
        _ => unreachable!("the others were refused above"),
    });
    let told = request.attributes.as_ref();
    let bare = v1::JoinRequest { idempotency_key: String::new(), attributes: without_labels(told), ..request.clone() };
    let fingerprint = digest(&bare, told);
    let secret = new_credential(tx, who, key);
    let credential = |member: &Name| {
        Credential::Member { team: team.name.clone(), member: member.clone(), secret: secret.clone() }.reveal()
    };
    if let Some(idempotency_key) = &idempotency_key
        && let Some(reply) = recall::<v1::JoinResponse>(tx, idempotency_key, &fingerprint)?
    {
        let name = reply.member.as_ref().map_or("", |member| member.name.as_str());
        let name = Name::parse(name, "name")?;
        return Ok(v1::JoinResponse { credential: credential(&name), ..reply });
    }

    let name = match &token {
        Some(token) => use_token(tx, &team, token, &request.name)?,
        None => own_name(&team, who, &request.name)?,
    };
    let told = request.attributes.clone().unwrap_or_default();
    let mut team = TeamRecord::clone(&team);
    let before = team.member(&name).cloned();
    if before.is_none() && team.members.len() >= tx.ctx.limits.members_max {
        return Err(Refusal::new(
            Reason::QuotaExceeded,
            format!(
                "The team has {} members, which is the most. Use a name whose bearer has exited.",
                team.members.len()
            ),
        )
        .into());
    }
    for kind in [RequestKind::Shutdown, RequestKind::PlanApproval] {
        if before.is_some() {
            request::cancel(tx, &mut team, &name, kind, CancelCause::TargetReplaced)?;
        }
    }
    let plan_mode_required = told.plan_mode_required
        || token.as_ref().is_some_and(|token| token.plan_mode_required)
        || (token.is_none() && before.as_ref().is_some_and(|before| before.plan_mode_required));
    let life = NewLife { name: name.clone(), secret: &secret, attributes: attributes(&told)?, plan_mode_required };
    let member = life.begin(before.as_ref(), tx.ctx.now_ms);
    match team.member_mut(&name) {
        Some(present) => *present = member.clone(),
        None => team.members.push(member.clone()),
    }
    if let (Some(token), Credential::Join { id, .. }) = (&mut token, &who.credential) {
        token.uses_left -= 1;
        tx.put(id, token);
    }
    tx.put("", &team);
    tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    tx.delete::<PresenceRecord>(name.folded());
    if before.is_some() {
        claim::give_back(tx, &name, "Its owner has begun a new life.")?;
    }
    session::end(tx, &name, SessionEnd::Replaced)?;
    post::record(tx, member_event(&member.name, MemberState::Joined, member.incarnation, ""));
    if before.is_some_and(|before| before.life == Life::Live) && !team.is_lead(&name) {
        tell_lead_of_takeover(tx, &team, &member.name);
    }
    let reply = v1::JoinResponse {
        team: Some(show_team(&team)),
        member: Some(show_new_member(&team, &member, tx.ctx)),
        credential: String::new(),
    };
    if let Some(idempotency_key) = &idempotency_key {
        keep(tx, idempotency_key, &fingerprint, &reply);
    }
    Ok(v1::JoinResponse { credential: credential(&member.name), ..reply })
}

fn not_for(whom: &str) -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        format!(
            "Nobody joins with the credential of {whom}. Mint a join token with `teamwire invite`, and join with that."
        ),
    )
}

/// Checks that the credential is one that may join at all. Returns the token, where it is one.
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

fn use_token(tx: &Tx<'_>, team: &TeamRecord, token: &JoinTokenRecord, asked: &str) -> Result<Name, Refusal> {
    if token.expires_ms <= tx.ctx.now_ms {
        return Err(Refusal::new(
            Reason::JoinTokenExpired,
            "The join token has expired. Ask the lead for a new one (`teamwire invite`).",
        ));
    }
    if token.uses_left == 0 {
        return Err(Refusal::new(
            Reason::JoinTokenUsed,
            "The join token has been used. Ask the lead for a new one (`teamwire invite`).",
        ));
    }
    let name = match (asked, &token.member) {
        ("", Some(bound)) => bound.clone(),
        (asked, bound) => {
            let name = Name::parse_member(asked, "name")?;
            if bound.as_ref().is_some_and(|bound| *bound != name) {
                return Err(Refusal::new(
                    Reason::NotPermitted,
                    format!(
                        "This join token is for another name than {name}. Leave the name out, or ask for another token."
                    ),
                )
                .field("name"));
            }
            name
        }
    };
    let taken = team.member(&name).filter(|member| {
        // A dead lead's name carries the lead's powers: only a token that was made for it may take it.
        member.life.is_live() || (team.is_lead(&name) && token.member.is_none())
    });
    let alias = name.folded() == teamwire_proto::name::LEAD_ALIAS && !team.is_lead(&name);
    if taken.is_some() || alias {
        return Err(Refusal::new(
            Reason::MemberExists,
            format!(
                "The name {name} is taken. Choose another; or, if it is yours, begin a new life with your own credential; or \
                 wait until its bearer has exited."
            ),
        )
        .field("name"));
    }
    Ok(name)
}

fn own_name(team: &TeamRecord, who: &CallerCredentials, asked: &str) -> Result<Name, Refusal> {
    let Credential::Member { member, .. } = &who.credential else { return Err(invalid()) };
    let record = team.member(member).ok_or_else(invalid)?;
    if record.credential != who.hash {
        return Err(superseded(&record.name));
    }
    if !asked.is_empty() && Name::parse(asked, "name")? != record.name {
        return Err(Refusal::new(
            Reason::NotPermitted,
            format!("This credential is {}'s. To bear another name, join with a token.", record.name),
        )
        .field("name"));
    }
    let dismissed = match &record.life {
        Life::Live | Life::Lost | Life::Exited { dismissed: false, .. } => false,
        Life::Stopping { .. } | Life::Exited { dismissed: true, .. } => true,
    };
    if dismissed {
        return Err(Refusal::new(
            Reason::MemberStopped,
            format!("{} was asked to end, and has. To come back it needs a new join token from the lead.", record.name),
        ));
    }
    Ok(record.name.clone())
}

fn tell_lead_of_takeover(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name) {
    let notice = v1::Notice {
        kind: NoticeKind::SessionSuperseded.into(),
        member: name.to_string(),
        text: format!("A new process has taken over the name {name}; the one before was told to end."),
        ..v1::Notice::default()
    };
    post::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice);
}

/// Ends the caller's own life.
pub fn leave(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::LeaveRequest) -> Result<(), RuleError> {
    let report = request.exit.clone().unwrap_or_default();
    if report.code.is_some_and(|code| !(0..=255).contains(&code)) || !(0..=64).contains(&report.signal) {
        return Err(Refusal::new(Reason::InvalidField, "exit.code must be 0 to 255, and exit.signal 0 to 64.")
            .field("exit")
            .into());
    }
    check_line(&report.detail, "exit.detail", Reason::InvalidField, &tx.ctx.limits)?;
    // A session that the approval has ended may still report; one that another process has superseded may not, for its
    // end is not that of the member.
    let (team, name) = identity::member(tx, who, Admit::Ended)?;
    let mut team = TeamRecord::clone(&team);
    let exit = Exit {
        code: report.code,
        signal: report.signal,
        duration_ms: duration_ms(report.duration.as_ref()),
        detail: report.detail,
    };
    let present = team.member(&name).ok_or_else(invalid)?;
    // Reported before, or declared exited for want of a report: only what is better known now is news.
    if let Life::Exited { exit: known, .. } = &present.life
        && (*known == exit || exit == Exit::default())
    {
        return Ok(());
    }
    conclude_life(tx, &mut team, &name, exit)?;
    tx.put("", &team);
    Ok(())
}

/// Makes a member exited: its requests are cancelled, its session ends, the lead is told. The caller puts the team.
pub(super) fn conclude_life(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name, exit: Exit) -> Result<(), RuleError> {
    let now_ms = tx.ctx.now_ms;
    for kind in [RequestKind::Shutdown, RequestKind::PlanApproval] {
        request::cancel(tx, team, name, kind, CancelCause::TargetExited)?;
    }
    let is_lead = team.is_lead(name);
    let member = team.member_mut(name).ok_or_else(invalid)?;
    let (dismissed, approved) = match &member.life {
        Life::Stopping { request_id, .. } => (true, request_id.is_some()),
        Life::Exited { dismissed, .. } => (*dismissed, false),
        Life::Live | Life::Lost => (false, false),
    };
    member.enter(Life::Exited { exit: exit.clone(), dismissed }, now_ms);
    let (shown, incarnation) = (member.name.clone(), member.incarnation);
    let report = v1::ExitReport::from(exit);
    let how = exit_text(&report);
    post::record(
        tx,
        v1::history_entry::Event::Member(v1::MemberEvent {
            member: shown.to_string(),
            state: MemberState::Exited.into(),
            incarnation,
            exit: Some(report.clone()),
            detail: how.clone(),
            ..v1::MemberEvent::default()
        }),
    );
    tx.end_lease(name.folded());
    let tasks = claim::give_back(tx, name, "Its owner has exited.")?;
    if !approved {
        session::end(tx, name, SessionEnd::Stopped)?;
    }
    if !is_lead {
        let assigned = claim::still_assigned(tx, name)?;
        let (back, left) = (claim::given_back_text(&tasks), claim::still_assigned_text(&assigned));
        let notice = v1::Notice {
            kind: NoticeKind::MemberExited.into(),
            member: shown.to_string(),
            text: format!("{shown} has exited: {how}.{back}{left}"),
            exit: Some(report),
            ..v1::Notice::default()
        };
        post::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice);
    }
    tx.notification(TOPIC_TEAM);
    Ok(())
}

/// Says how a process ended, in a few words.
fn exit_text(exit: &v1::ExitReport) -> String {
    match (exit.code, exit.signal) {
        (_, signal) if signal > 0 => format!("ended by signal {signal}"),
        (Some(code), _) => format!("exit code {code}"),
        (None, _) if !exit.detail.is_empty() => exit.detail.clone(),
        (None, _) => "how is not known".to_owned(),
    }
}

/// Stops a member by force.
pub fn force_stop(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ForceStopRequest,
) -> Result<v1::Member, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("stop a member by force")?;
    check_line(&request.reason, "reason", Reason::InvalidField, &tx.ctx.limits)?;
    let target = team.resolve(&request.member, "member")?;
    if let Principal::Member { name, .. } = &caller
        && *name == target.name
    {
        return Err(Refusal::new(Reason::SelfRecipient, "You cannot stop yourself by force. Leave instead.")
            .field("member")
            .into());
    }
    if let Life::Exited { .. } = target.life {
        return Err(Refusal::new(
            Reason::AgentExited,
            format!("{} has exited already. Nothing is left to stop.", target.name),
        )
        .field("member")
        .into());
    }
    let name = target.name.clone();
    let mut team = TeamRecord::clone(&team);
    if !matches!(target.life, Life::Stopping { request_id: None, .. }) {
        for kind in [RequestKind::Shutdown, RequestKind::PlanApproval] {
            request::cancel(tx, &mut team, &name, kind, CancelCause::Forced)?;
        }
        let now_ms = tx.ctx.now_ms;
        let member = team.member_mut(&name).ok_or_else(invalid)?;
        member.enter(Life::Stopping { request_id: None, alarmed: false }, now_ms);
        let event = v1::MemberEvent {
            member: name.to_string(),
            state: MemberState::Stopping.into(),
            incarnation: member.incarnation,
            detail: request.reason.clone(),
            forced_by: Some((&actor).into()),
            ..v1::MemberEvent::default()
        };
        post::record(tx, v1::history_entry::Event::Member(event));
        claim::give_back(tx, &name, "Its owner was stopped by force.")?;
        session::end(tx, &name, SessionEnd::Stopped)?;
        tx.put("", &team);
    }
    let member = team.member(&name).ok_or_else(invalid)?;
    Ok(show_new_member(&team, member, tx.ctx))
}

/// Makes another member the lead.
pub fn set_lead(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::SetLeadRequest) -> Result<v1::Team, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("hand over the lead's role")?;
    let to = team.resolve_receiver(&request.member, "member")?.name.clone();
    if team.is_lead(&to) {
        return Ok(show_team(&team));
    }
    let lead_is_live = team.member(&team.lead).is_some_and(|lead| lead.life.is_live());
    if caller == Principal::Operator && lead_is_live {
        return Err(Refusal::new(
            Reason::LeadActive,
            format!(
                "{} leads and is live. Let it hand over its role, or appoint another lead once it is lost or has exited.",
                team.lead
            ),
        )
        .into());
    }
    let mut team = TeamRecord::clone(&team);
    let old = std::mem::replace(&mut team.lead, to.clone());
    post::record(tx, team::event(TeamEventKind::LeadChanged, &actor, to.as_str()));
    let open = match request::hand_on_plans(tx, &team, &to)? {
        0 => String::new(),
        n => format!(" {n} plans await the lead's answer: see `teamwire requests --state pending`."),
    };
    let notice = v1::Notice {
        kind: NoticeKind::LeadChanged.into(),
        member: to.to_string(),
        text: format!("{to} leads the team now; before it was {old}.{open}"),
        ..v1::Notice::default()
    };
    post::notify(tx, &team, &[&Actor::Member(old), &Actor::Member(to)], notice);
    tx.put("", &team);
    Ok(show_team(&team))
}

/// Renews the caller's lease, and records what it does.
pub fn heartbeat(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::HeartbeatRequest,
) -> Result<v1::HeartbeatResponse, RuleError> {
    let (team, name) = identity::member(tx, who, Admit::Stopping)?;
    check_line(&request.summary, "summary", Reason::InvalidSummary, &tx.ctx.limits)?;
    let lease = tx.ctx.limits.lease_ttl;
    renew(tx, std::slice::from_ref(&name))?;
    let incarnation = team.member(&name).map_or(0, |member| member.incarnation);
    let before = tx.read::<PresenceRecord>(name.folded())?.filter(|before| before.incarnation == incarnation);
    let was_idle = before.as_ref().is_some_and(|before| before.idle);
    let idle = match request.activity() {
        v1::Activity::Unspecified => was_idle,
        activity => activity == v1::Activity::Idle,
    };
    let last = before.as_ref().map_or("", |before| before.summary.as_str());
    let summary = if request.summary.is_empty() { last } else { &request.summary };
    if before.is_none() || was_idle != idle || last != summary {
        let since_ms = match &before {
            Some(before) if was_idle == idle => before.since_ms,
            _ => tx.ctx.now_ms,
        };
        tx.put(name.folded(), &PresenceRecord { incarnation, idle, since_ms, summary: summary.to_owned() });
    }
    if idle && !was_idle && !team.is_lead(&name) {
        let text = if summary.is_empty() { format!("{name} is idle.") } else { format!("{name} is idle: {summary}") };
        let notice =
            v1::Notice { kind: NoticeKind::Idle.into(), member: name.to_string(), text, ..v1::Notice::default() };
        post::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice);
    }
    let stopping = team.member(&name).is_some_and(|member| matches!(member.life, Life::Stopping { .. }));
    let state = match (stopping, idle) {
        (true, _) => MemberState::Stopping,
        (false, true) => MemberState::Idle,
        (false, false) => MemberState::Active,
    };
    Ok(v1::HeartbeatResponse { lease: prost_types::Duration::try_from(lease).ok(), state: state.into() })
}

/// Renews the leases of members that gave a sign of life. Whoever was lost is found.
pub fn renew(tx: &mut Tx<'_>, names: &[Name]) -> Result<(), RuleError> {
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(()) };
    let mut found = TeamRecord::clone(&team);
    let mut changed = false;
    for name in names {
        let Some(member) = found.member_mut(name) else { continue };
        match member.life {
            Life::Exited { .. } | Life::Stopping { request_id: None, .. } => continue,
            Life::Lost => {
                member.enter(Life::Live, tx.ctx.now_ms);
                changed = true;
                let event =
                    member_event(&member.name, MemberState::Active, member.incarnation, "It was heard of again.");
                post::record(tx, event);
            }
            Life::Live | Life::Stopping { .. } => {}
        }
        tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    }
    if changed {
        tx.put("", &found);
    }
    Ok(())
}

/// Checks what a member tells of itself.
pub(super) fn attributes(told: &v1::MemberAttributes) -> Result<Attributes, Refusal> {
    let bounds = [
        ("agent_type", &told.agent_type, 100),
        ("model", &told.model, 100),
        ("host", &told.host, 255),
        ("color", &told.color, 32),
    ];
    let refuse = |what: &str| Refusal::new(Reason::InvalidField, what.to_owned()).field("attributes");
    for (field, text, max) in bounds {
        if text.chars().count() > max || text.chars().any(char::is_control) {
            return Err(refuse(&format!(
                "attributes.{field} takes up to {max} characters, without control characters."
            )));
        }
    }
    let sound = |text: &str, max: usize| text.chars().count() <= max && !text.chars().any(char::is_control);
    if told.labels.len() > 32
        || told.labels.iter().any(|(key, value)| key.is_empty() || !sound(key, 63) || !sound(value, 255))
    {
        return Err(refuse(
            "attributes.labels takes up to 32 pairs, with keys of 1 to 63 and values of up to 255 characters.",
        ));
    }
    Ok(Attributes {
        agent_type: told.agent_type.clone(),
        model: told.model.clone(),
        host: told.host.clone(),
        color: told.color.clone(),
        labels: told.labels.clone().into_iter().collect(),
    })
}
