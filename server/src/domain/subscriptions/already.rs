//! Events that have happened already.

use teamwire_proto::{v1, word};

use super::happened::{done_notice, member_idle};
use crate::domain::{
    records::{Event, Life, PresenceRecord, TeamRecord},
    task,
    tx::{RuleError, Tx},
};

/// Returns what a notice says of an event that has happened. `None` if it has not. Files are edited over and over, so
/// what counts is the next time.
pub(super) fn notice_if_true(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    event: &Event,
) -> Result<Option<v1::Notice>, RuleError> {
    let (Event::Idle(name) | Event::Exit(name)) = event else {
        return match event {
            Event::Task(id) => Ok(task::closed(tx, *id)?.map(|(task, how)| done_notice(task, how))),
            _ => Ok(None),
        };
    };
    let Some(member) = team.member(name) else { return Ok(None) };
    let ended = |text: String| Some(v1::Notice { member: name.to_string(), text, ..v1::Notice::default() });
    Ok(match (&member.life, event) {
        (Life::Exited { .. }, _) => {
            let report = member.life.exit_report().unwrap_or_default();
            ended(format!("{name} has exited: {}.", word::exit(&report)))
        }
        (Life::Lost, Event::Exit(_)) => ended(format!("{name} counts as lost.")),
        (Life::Live, Event::Idle(_)) => {
            let presence = tx.read::<PresenceRecord>(name.folded())?;
            let idle = presence.filter(|presence| presence.incarnation == member.incarnation && presence.idle);
            idle.map(|presence| member_idle(name, &presence.summary))
        }
        _ => None,
    })
}
