//! How lives end: members leave, or are stopped by force.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, CancelCause, MemberState, NoticeKind, history_entry::Event},
    word,
};

use crate::domain::{
    actor::Actor,
    history,
    identity::{self, Admit, CallerCredentials, Principal, invalid},
    notices,
    query::show_new_member,
    records::{EndCause, Exit, Life, SessionEnd, TeamRecord},
    request, session, subscriptions,
    task::give_back,
    text::check_line,
    time::duration_ms,
    topics::Topic,
    tx::{RuleError, Tx},
};

/// Ends the caller's own life.
pub fn leave(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::LeaveRequest) -> Result<(), RuleError> {
    let mut exit = exit_of(tx, request.exit.as_ref(), "exit")?;
    // A session that an approval has ended may still report. One that another process has superseded may not, because
    // its end is not the member's.
    let (team, name) = identity::process(tx, who, Admit::Ended)?;
    tx.needs_no_room();
    let mut team = TeamRecord::clone(&team);
    let present = team.member(&name).ok_or_else(invalid)?;
    if request.exit_follows && !present.detached {
        // Its runner will report the exit.
        if !matches!(present.life, Life::Stopping { .. } | Life::Exited { .. }) {
            request::shutdown::begin_exit(tx, &mut team, &name, EndCause::Left, &exit.detail)?;
            tx.put("", &team);
        }
        return Ok(());
    }
    let is_unknown = exit == Exit::default();
    if let Life::Exited { exit: known, cause } = &present.life {
        if matches!(cause, EndCause::Forced { .. } | EndCause::NotStarted) {
            // The detail says so.
            exit.detail.clone_from(&known.detail);
        }
        // The exit was reported before, or the member was declared exited without a report; only better knowledge
        // changes anything.
        if *known == exit || is_unknown {
            return Ok(());
        }
    }
    conclude_life(tx, &mut team, &name, exit)?;
    tx.put("", &team);
    Ok(())
}

/// Checks the report of an exit in the field of this name. Absent: nothing is known.
pub(in crate::domain) fn exit_of(tx: &Tx<'_>, report: Option<&v1::ExitReport>, field: &str) -> Result<Exit, Refusal> {
    let report = report.cloned().unwrap_or_default();
    let runner_action = report.runner_action().into();
    if report.code.is_some_and(|code| !(0..=255).contains(&code)) || !(0..=64).contains(&report.signal) {
        let message = format!("{field}.code must be 0 to 255, and {field}.signal 0 to 64.");
        return Err(Refusal::new(Reason::InvalidField, message).field(field));
    }
    check_line(&report.detail, &format!("{field}.detail"), Reason::InvalidField, &tx.ctx.limits)?;
    Ok(Exit {
        code: report.code,
        signal: (report.signal > 0).then_some(report.signal),
        duration_ms: Some(duration_ms(report.duration.as_ref())).filter(|ms| *ms > 0),
        detail: report.detail,
        runner_action,
    })
}

/// Makes a member exited: cancels its requests, ends its session, notifies the lead. The caller puts the team.
pub(in crate::domain) fn conclude_life(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    name: &Name,
    mut exit: Exit,
) -> Result<(), RuleError> {
    let now_ms = tx.ctx.now_ms;
    request::cancel::cancel_all(tx, team, name, CancelCause::TargetExited)?;
    let handed_over = request::hand_on::hand_to_lead(tx, team, name)?;
    let is_lead = team.is_lead(name);
    let member = team.member_mut(name).ok_or_else(invalid)?;
    let cause = match &member.life {
        Life::Stopping { cause, .. } | Life::Exited { cause, .. } => cause.clone(),
        Life::Spawning => EndCause::NotStarted,
        Life::Live | Life::Lost => EndCause::ProcessEnded,
    };
    // Its session has ended, and says so.
    let has_decided = matches!(member.life, Life::Stopping { .. }) && cause.is_own_decision();
    if let Life::Stopping { cause: EndCause::Forced { by }, .. } = &member.life {
        exit.detail = forced_detail(by, &exit);
    }
    let is_recorded = cause.is_dismissal() || member.lives.left_out == 0;
    let report = exit.report(&cause);
    member.enter(Life::Exited { exit, cause }, now_ms);
    let (shown, incarnation) = (member.name.clone(), member.incarnation);
    let how = word::exit(&report);
    if is_recorded {
        history::append(tx, exit_event(&shown, incarnation, &report));
    }
    tx.end_lease(name.folded());
    let tasks = give_back::give_back(tx, name, "its owner has exited")?;
    if !has_decided {
        session::end(tx, name, SessionEnd::Stopped)?;
    }
    notices::drop_waiting_idle(tx, team, name)?;
    let what = match report.approved_request_id.as_str() {
        "" => format!("{shown} has exited: {how}"),
        _ => format!("{shown} {how}"),
    };
    subscriptions::life_ended(tx, team, &shown, format!("{what}."))?;
    if !is_lead {
        let assigned = give_back::still_assigned(tx, name)?;
        let (back, left) = (give_back::given_back_text(&tasks), give_back::still_assigned_text(&assigned));
        let asked = match handed_over {
            0 => String::new(),
            1 => " A permission request that it did not answer is yours now, and in your inbox.".to_owned(),
            n => format!(" {n} permission requests that it did not answer are yours now, and in your inbox."),
        };
        let notice = v1::Notice {
            kind: NoticeKind::MemberExited.into(),
            member: shown.to_string(),
            text: format!("{what}.{back}{left}{asked}"),
            important: handed_over > 0
                || !has_decided && (report.signal > 0 || report.code.is_some_and(|code| code != 0)),
            exit: Some(report),
            ..v1::Notice::default()
        };
        notices::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice)?;
    }
    tx.notify(Topic::Team);
    Ok(())
}

/// Says who stopped a member by force, and that its end was not seen if nothing else is known about it.
fn forced_detail(forced_by: &str, exit: &Exit) -> String {
    match exit.detail.as_str() {
        unseen if exit.code.is_none() && exit.signal.is_none() && !unseen.is_empty() => {
            format!("stopped by force by {forced_by}; {unseen}")
        }
        _ => format!("stopped by force by {forced_by}"),
    }
}

/// Makes the history's entry for the end of a life.
pub(super) fn exit_event(member: &Name, incarnation: u64, exit: &v1::ExitReport) -> Event {
    Event::Member(v1::MemberEvent {
        member: member.to_string(),
        state: MemberState::Exited.into(),
        incarnation,
        exit: Some(exit.clone()),
        detail: word::exit(exit),
        ..v1::MemberEvent::default()
    })
}

/// Stops a member by force.
pub fn force_stop(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ForceStopRequest,
) -> Result<v1::Member, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("stop a member by force")?;
    tx.needs_no_room();
    check_line(&request.reason, "reason", Reason::InvalidField, &tx.ctx.limits)?;
    let target = team.resolve_any(&request.member, "member")?;
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
    let (name, is_host) = (target.name.clone(), target.is_host);
    let mut team = TeamRecord::clone(&team);
    if target.life == Life::Spawning {
        request::cancel::cancel_all(tx, &mut team, &name, CancelCause::Forced)?;
        tx.put("", &team);
        tx.ends_something();
    } else if !target.life.is_forced() {
        request::cancel::cancel_all(tx, &mut team, &name, CancelCause::Forced)?;
        let now_ms = tx.ctx.now_ms;
        let member = team.member_mut(&name).ok_or_else(invalid)?;
        let cause = EndCause::Forced { by: v1::Sender::from(&actor).name };
        member.enter(Life::Stopping { cause, alarmed: false }, now_ms);
        let event = v1::MemberEvent {
            member: name.to_string(),
            state: MemberState::Stopping.into(),
            incarnation: member.incarnation,
            detail: request.reason.clone(),
            forced_by: Some((&actor).into()),
            ..v1::MemberEvent::default()
        };
        history::append(tx, Event::Member(event));
        give_back::give_back(tx, &name, "its owner was stopped by force")?;
        session::end(tx, &name, SessionEnd::Stopped)?;
        if is_host {
            // All that it did under its name was by its credential, which is refused from now on.
            conclude_life(tx, &mut team, &name, Exit::default())?;
        }
        tx.put("", &team);
        tx.ends_something();
    }
    let member = team.member(&name).ok_or_else(invalid)?;
    Ok(show_new_member(&team, member, tx.ctx))
}
