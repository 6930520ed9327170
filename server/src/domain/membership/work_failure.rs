//! Failures of a member's program that do not end the member's life.

use teamwire_proto::{
    Reason, Refusal, id,
    name::Name,
    v1::{self, NoticeKind},
    word,
};

use super::exit::exit_of;
use crate::domain::{
    actor::Actor,
    notices,
    records::TeamRecord,
    task,
    tx::{RuleError, Tx},
};

/// Notifies the lead that a member's program has failed at messages or a task.
pub(super) fn report_failure(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    failure: &v1::WorkFailure,
) -> Result<(), RuleError> {
    let exit = v1::ExitReport::from(exit_of(tx, failure.exit.as_ref(), "failure.exit")?);
    if exit.signal == 0 && exit.code.is_none_or(|code| code == 0) {
        let message = "failure.exit must have a signal or a code other than 0: a program without one has not failed.";
        return Err(Refusal::new(Reason::InvalidField, message).field("failure.exit").into());
    }
    let how = word::exit(&exit);
    let notice = v1::Notice {
        kind: NoticeKind::WorkFailed.into(),
        member: name.to_string(),
        exit: Some(exit),
        ..v1::Notice::default()
    };
    let notice = match failure.task_id {
        0 => {
            id::message_id(&failure.message_id, "failure.message_id")?;
            let what = match failure.messages {
                0 | 1 => "message".to_owned(),
                count => format!("a batch of {count} messages, the first of which is"),
            };
            v1::Notice {
                text: format!(
                    "{name}'s program failed at {what} {id} ({how}). Its runner tries again. See `teamwire message show {id}`.",
                    id = failure.message_id
                ),
                message_id: failure.message_id.clone(),
                ..notice
            }
        }
        id => v1::Notice {
            text: format!(
                "{name}'s program failed at task {id} ({how}). Its runner gives the task back to the board. See `teamwire task \
                 show {id}`."
            ),
            task: task::summary_of(tx, id)?,
            ..notice
        },
    };
    if team.is_lead(name) {
        return Ok(());
    }
    notices::notify(tx, team, &[&Actor::Member(team.lead.clone())], notice)
}
