//! Findings about the team as a whole, and about its store.

use std::time::Duration;

use teamwire_proto::{
    v1::{self, DeadLetterCause, Finding, FindingClass, MemberState, TeamEventKind, history_entry::Event},
    word,
};

use super::{
    Ages, Asker, NAMES_MAX,
    finding::{note, problem},
};
use crate::domain::{
    limits::Limits,
    quota::HeldBytes,
    records::{AlertSlot, AlertsRecord, TeamRecord},
    text::enumerate,
};

/// How long ago something may have happened to be mentioned.
const RECENT: Duration = Duration::from_hours(1);

/// Reports what is wrong with the team as a whole. `held`: how much it holds, if that is known. `members`: as they are
/// shown to the caller.
pub fn of_team(asker: &Asker<'_>, held: Option<HeldBytes>, limits: &Limits, members: &[v1::Member]) -> Vec<Finding> {
    let mut findings = quota(asker, held, limits);
    findings.extend(delete_blocked(asker, members));
    findings
}

/// Reports that the store refuses writes.
pub fn refused_writes() -> Finding {
    problem(
        FindingClass::StoreRefusesWrites,
        "",
        "The store refuses writes, so nothing can be sent: it is full, read-only, or lacks access rights.".to_owned(),
        "Ask the coordinator's operator: the coordinator's log says why.".to_owned(),
    )
}

/// Reports that notifications to people about the team are not delivered. Says nothing of where they go, which is only
/// the operator's to know.
pub fn of_alerts(asker: &Asker<'_>, ages: Ages, alerts: &AlertsRecord) -> Option<Finding> {
    let is_failing = |slot: &&AlertSlot| slot.outgoing.as_ref().is_some_and(|outgoing| !outgoing.error.is_empty());
    let since_ms = alerts.slots.values().filter(is_failing).map(|slot| slot.made_ms).min()?;
    let count = alerts.slots.values().filter(is_failing).count() as u64;
    let (notifications, age) = (word::count(count, "notification"), word::age(ages.since_ms(since_ms)));
    asker.can_lead().then(|| {
        problem(
            FindingClass::NotNotified,
            "",
            format!("{notifications} to people about this team could not be delivered for {age}. The coordinator keeps trying."),
            "Ask the coordinator's operator: the coordinator's log says why, and `[[notify]]` in its configuration says where they \
             go."
                .to_owned(),
        )
    })
}

/// Reports what is nearly full or full: the team, its tasks, or the history of its tasks.
fn quota(asker: &Asker<'_>, held: Option<HeldBytes>, limits: &Limits) -> Vec<Finding> {
    let wait = "Delete tasks that are no longer needed, or wait until old history is deleted";
    let next = match asker.can_lead() {
        true => format!("{wait}; the coordinator's operator can raise `limits.team_bytes_max`."),
        false => format!("{wait}. {}", asker.tell_lead()),
    };
    let parts = held.map(|held| held.nearly_full(limits)).unwrap_or_default();
    let found = parts.into_iter().map(|part| match part.is_full {
        true => {
            let text = format!("{} Teammates can add nothing more there.", part.text);
            problem(FindingClass::QuotaExceeded, "", text, next.clone())
        }
        false => note(FindingClass::QuotaNearlyUsed, "", part.text, next.clone()),
    });
    found.collect()
}

/// Says which members block the team's deletion.
fn delete_blocked(asker: &Asker<'_>, members: &[v1::Member]) -> Option<Finding> {
    let is_gone =
        |member: &v1::Member| matches!(member.state(), MemberState::Exited | MemberState::Lost | MemberState::Away);
    let live: Vec<&v1::Member> = members.iter().filter(|member| !is_gone(member) && !asker.is(&member.name)).collect();
    let names: Vec<String> =
        live.iter().map(|member| format!("{} ({})", member.name, word::member_state(member.state()))).collect();
    let first = live.first().filter(|_| asker.can_lead())?;
    Some(note(
        FindingClass::DeleteBlocked,
        "",
        format!("The team cannot be deleted while these members are live: {}.", enumerate(&names, NAMES_MAX)),
        format!("Shut each one down with `teamwire shutdown {} --wait`, or stop it with --force.", first.name),
    ))
}

/// Reports that there is no member with the name that the caller asked about. `None` if there is one, or a host.
pub fn unknown(asker: &Asker<'_>, team: &TeamRecord, named: &str) -> Option<Finding> {
    if team.members.iter().any(|member| is(member.name.as_str(), named)) {
        return None;
    }
    let known: Vec<&str> =
        team.members.iter().filter(|member| !member.is_host).map(|member| member.name.as_str()).collect();
    let next = match asker.can_lead() {
        true => format!(
            "Check the spelling, or add the member: `teamwire run {named} -- COMMAND`, `teamwire invite {named}`, or `teamwire \
             spawn {named}` if the team has a host."
        ),
        false => "Check the spelling. Only the lead can add members.".to_owned(),
    };
    let text = format!(
        "There is no member \"{named}\", so messages to it are refused. The members are: {}.",
        enumerate(&known, NAMES_MAX)
    );
    Some(problem(FindingClass::NotQueued, named, text, next))
}

/// Reports what the newest entries of the history say that was lost lately, oldest first: messages that became dead
/// letters, and changes that the store lost. `named`: only for this member.
pub fn of_history(ages: Ages, entries: &[v1::HistoryEntry], named: Option<&str>) -> Vec<Finding> {
    let recent = || entries.iter().filter(|entry| ages.since(entry.at.as_ref()) < RECENT);
    let is_lost = |event: &&v1::DeadLetterEvent| {
        let was_lost = matches!(event.cause(), DeadLetterCause::DeliveryLimit | DeadLetterCause::MemberRemoved);
        was_lost && named.is_none_or(|named| is(&event.recipient, named))
    };
    let dead = recent().filter_map(|entry| match &entry.event {
        Some(Event::DeadLetter(event)) => Some(event),
        _ => None,
    });
    let dead: Vec<&v1::DeadLetterEvent> = dead.filter(is_lost).collect();
    let mut writes = recent()
        .filter(|entry| matches!(&entry.event, Some(Event::Team(event)) if event.kind() == TeamEventKind::WritesLost));
    let writes = writes.next_back().filter(|_| named.is_none());
    let found =
        [dead.last().map(|newest| dead_letters(newest, dead.len())), writes.map(|entry| writes_lost(ages, entry))];
    found.into_iter().flatten().collect()
}

fn dead_letters(newest: &v1::DeadLetterEvent, count: usize) -> Finding {
    let name = &newest.recipient;
    let text = match count {
        1 => format!("A message to {name} became a dead letter in the last hour"),
        _ => format!("{count} messages became dead letters in the last hour; the newest was for {name}"),
    };
    let found = note(
        FindingClass::DeadLetter,
        name,
        format!("{text}: {}.", word::dead_letter_cause(newest.cause())),
        "No member processes it anymore. If it still matters, send it again.".to_owned(),
    );
    Finding { message_id: newest.message_id.clone(), ..found }
}

fn writes_lost(ages: Ages, entry: &v1::HistoryEntry) -> Finding {
    let ago = word::age(ages.since(entry.at.as_ref()));
    problem(
        FindingClass::WritesLost,
        "",
        format!("The store lost changes {ago} ago that the coordinator had confirmed."),
        "Compare the board and the latest messages with what the members did, and repeat what is missing. The operator finds \
         the cause in the store's log."
            .to_owned(),
    )
}

fn is(name: &str, named: &str) -> bool {
    name.eq_ignore_ascii_case(named)
}
