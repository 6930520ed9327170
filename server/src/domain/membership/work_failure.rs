//! Failures of a member's program that do not end the member's life.

use teamwire_proto::{
    Reason, Refusal,
    id::MessageId,
    name::Name,
    v1::{self, NoticeKind},
    word,
};

use super::exit::exit_of;
use crate::domain::{
    actor::Actor,
    notices,
    records::{EndCause, TeamRecord},
    task,
    text::check_line,
    tx::{RuleError, Tx},
};

/// Notifies the lead that a member's program has failed on messages or a task.
pub(super) fn report_failure(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    failure: &v1::WorkFailure,
) -> Result<(), RuleError> {
    let exit = exit_of_program(tx, failure)?;
    let how = exit.as_ref().map_or_else(|| failure.error.clone(), word::exit);
    let next = match (&exit, failure.task_id) {
        (Some(_), 1..) => "Its runner gives the task back to the board.",
        (Some(_), 0) => "Its runner tries again.",
        (None, _) => "Its runner tries again, and other work waits.",
    };
    let is_general = failure.attempts == 0 && failure.task_id == 0 && failure.message_id.is_empty() && exit.is_none();
    let (what, task) = match failure.task_id {
        0 if failure.message_id.is_empty() && exit.is_none() => ("its first prompt".to_owned(), None),
        0 => {
            let id = &failure.message_id;
            MessageId::parse(id, "failure.message_id")?;
            let what = match failure.messages {
                0 | 1 => format!("message {id}"),
                count => format!("a batch of {count} messages, the first of which is {id}"),
            };
            (what, None)
        }
        id => (format!("task {id}"), task::summary_of(tx, id)?),
    };
    let times = match failure.attempts {
        0 | 1 => String::new(),
        attempts => format!(" {attempts} times"),
    };
    let notice = v1::Notice {
        kind: NoticeKind::WorkFailed.into(),
        member: name.to_string(),
        text: match is_general {
            true => format!("{name} cannot work as it should: {how}"),
            false => format!("{name}'s program failed{times} on {what} ({how}). {next}"),
        },
        message_id: if failure.task_id == 0 { failure.message_id.clone() } else { String::new() },
        task,
        exit,
        ..v1::Notice::default()
    };
    if team.is_lead(name) {
        return Ok(());
    }
    notices::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice)
}

/// Returns how the program ended, checked. `None` if it is still running, and the failure says what went wrong.
fn exit_of_program(tx: &Tx<'_>, failure: &v1::WorkFailure) -> Result<Option<v1::ExitReport>, Refusal> {
    check_line(&failure.error, "failure.error", Reason::InvalidField, &tx.ctx.limits)?;
    if failure.exit.is_none() && !failure.error.trim().is_empty() {
        return Ok(None);
    }
    let exit = exit_of(tx, failure.exit.as_ref(), "failure.exit")?.report(&EndCause::ProcessEnded);
    if exit.signal == 0 && exit.code.is_none_or(|code| code == 0) {
        let message = "failure.exit must have a signal or a code other than 0: a program without one has not failed. For a \
                       program that is still running, set failure.error instead.";
        return Err(Refusal::new(Reason::InvalidField, message).field("failure.exit"));
    }
    Ok(Some(exit))
}
