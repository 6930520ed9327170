//! Findings that need the team's history.

use std::time::Duration;

use teamwire_client::v1;
use teamwire_proto::{
    v1::{DeadLetterCause, MemberState, history_entry::Event},
    word,
};

use super::{
    Doctor,
    age::age,
    finding::Finding,
    program::{begin_again, has_failed},
    reader::Reader,
};
use crate::{context::Caller, failure::Failure, show};

/// How many of the newest entries are examined for dead letters.
const EXAMINED_MAX: usize = 200;

/// How long ago a message may have become a dead letter to be mentioned.
const RECENT: Duration = Duration::from_hours(1);

/// How many of the newest entries about an exited member are examined. Its exit is among the last of them.
const ENTRIES_OF_EXITED_MAX: usize = 50;

/// How many crashes within [`CRASHES_WITHIN`] make a problem.
const CRASHES_MIN: usize = 3;

/// In how much time.
const CRASHES_WITHIN: Duration = Duration::from_mins(10);

/// How often a member's program has crashed lately, although its runner restarts it each time.
pub(in crate::command) struct Crashes {
    count: usize,
    last: v1::ExitReport,
}

impl Crashes {
    /// Says how often, and how the last one ended.
    pub(in crate::command) fn text(&self) -> String {
        let (count, minutes) = (self.count, CRASHES_WITHIN.as_secs() / 60);
        format!("{count} times in {minutes} min, the last time with {}", word::exit_and_duration(&self.last))
    }
}

/// Returns the crashes of a live member whose program keeps crashing. Asks the coordinator only if the present life began lately.
pub(in crate::command) async fn crashes(caller: &Caller, member: &v1::Member) -> Result<Option<Crashes>, Failure> {
    let is_over = matches!(member.state(), MemberState::Exited | MemberState::Stopping | MemberState::Spawning);
    // Each restart begins a life.
    let began_lately = member.incarnation > CRASHES_MIN as u64 && age(member.joined_at.as_ref()) < CRASHES_WITHIN;
    if is_over || !began_lately {
        return Ok(None);
    }
    let entries = newest(caller, &member.name, ENTRIES_OF_EXITED_MAX).await?;
    let recent = entries.iter().filter(|entry| age(entry.at.as_ref()) < CRASHES_WITHIN);
    let crashes = recent.filter_map(|entry| match &entry.event {
        Some(Event::Member(event)) if event.member == member.name => {
            event.exit.as_ref().filter(|exit| has_failed(exit))
        }
        _ => None,
    });
    let crashes: Vec<&v1::ExitReport> = crashes.collect();
    let last = crashes.last().filter(|_| crashes.len() >= CRASHES_MIN);
    Ok(last.map(|last| Crashes { count: crashes.len(), last: (*last).clone() }))
}

impl Doctor {
    /// Reports a live member whose program keeps crashing, although its runner restarts it each time.
    pub(super) async fn crashing(
        &self,
        caller: &Caller,
        reader: &Reader,
        member: &v1::Member,
    ) -> Result<Option<Finding>, Failure> {
        let name = &member.name;
        let Some(crashes) = crashes(caller, member).await? else { return Ok(None) };
        Ok(Some(Finding::problem(
            "crashing",
            name,
            format!("{name}'s program has crashed {}. Its runner restarts it.", crashes.text()),
            reader.advise(
                member,
                format!(
                    "See what happened: `teamwire logs {name}`. If it doesn't recover, stop it with `teamwire shutdown \
                     {name} --force`, fix the cause, and start it again: {}",
                    begin_again(member)
                ),
            ),
        )))
    }

    /// Records the messages that have become dead letters lately.
    pub(super) async fn dead_letters(&self, caller: &Caller) -> Result<Option<Finding>, Failure> {
        let entries = newest(caller, "", EXAMINED_MAX).await?;
        let is_recent = |entry: &&v1::HistoryEntry| age(entry.at.as_ref()) < RECENT;
        let is_wanted = |event: &&v1::DeadLetterEvent| {
            let is_lost = matches!(event.cause(), DeadLetterCause::DeliveryLimit | DeadLetterCause::MemberRemoved);
            is_lost && self.member.as_deref().is_none_or(|named| named.eq_ignore_ascii_case(&event.recipient))
        };
        let dead = entries.iter().filter(is_recent).filter_map(|entry| match &entry.event {
            Some(Event::DeadLetter(event)) => Some(event),
            _ => None,
        });
        let dead: Vec<&v1::DeadLetterEvent> = dead.filter(is_wanted).collect();
        Ok(dead.last().map(|newest| {
            let (count, name) = (dead.len(), &newest.recipient);
            let text = match count {
                1 => format!("A message to {name} became a dead letter in the last hour"),
                _ => format!("{count} messages became dead letters in the last hour; the newest was for {name}"),
            };
            Finding::note(
                "dead_letter",
                format!("{text}: {}.", show::dead_letter_cause(newest.cause())),
                "No member processes it anymore. If it still matters, send it again.".to_owned(),
            )
            .of(name)
            .about(&newest.message_id)
        }))
    }
}

/// Returns whether a member was stopping before it exited: it had left, approved its shutdown, or was stopped by force.
pub(super) async fn was_stopping(caller: &Caller, member: &v1::Member) -> Result<bool, Failure> {
    let entries = newest(caller, &member.name, ENTRIES_OF_EXITED_MAX).await?;
    Ok(entries.iter().any(|entry| {
        matches!(&entry.event, Some(Event::Member(event))
            if event.member == member.name
                && event.incarnation == member.incarnation
                && event.state() == MemberState::Stopping)
    }))
}

/// Returns the newest entries of the history, oldest first. `member`: only those that concern it; empty: all.
async fn newest(caller: &Caller, member: &str, max: usize) -> Result<Vec<v1::HistoryEntry>, Failure> {
    let filter = v1::HistoryFilter { member: member.to_owned(), ..v1::HistoryFilter::default() };
    let request = v1::ListHistoryRequest { filter: Some(filter), newest: true, ..v1::ListHistoryRequest::default() };
    Ok(caller.client.list_all_history(request, max).await?.entries)
}
