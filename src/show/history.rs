//! Entries of the history.

use anstyle::AnsiColor;
use serde_json::Value;
use teamwire_proto::{
    dialect,
    v1::{self, TaskEventKind, history_entry::Event},
    word,
};

use super::{
    bold, dim, json,
    member::state_style,
    message::{kind, receipt_state, says},
    paint, plain, request_kind, request_text, short,
    text::date_and_time,
};

/// Prints an entry of the history. `own`: the reader's name, for the direction.
pub fn entry(entry: &v1::HistoryEntry, own: Option<&str>) {
    let at = paint(dim(), format!("[{}]", date_and_time(entry.at.as_ref())));
    let text = match &entry.event {
        Some(Event::Message(message)) => {
            let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
            let to = if message.recipients.is_empty() { "-".to_owned() } else { message.recipients.join(", ") };
            let (summary, content) = says(message);
            let says = if content.is_empty() { summary } else { format!("{summary}: {}", short(&content, 120)) };
            let route = if own.is_some_and(|own| own.eq_ignore_ascii_case(from)) {
                format!("OUTGOING -> {to}")
            } else if own.is_some_and(|own| message.recipients.iter().any(|r| r.eq_ignore_ascii_case(own))) {
                format!("INCOMING <- {from}")
            } else {
                format!("{from} -> {to}")
            };
            let kind = match kind(message) {
                "message" => String::new(),
                kind => paint(AnsiColor::Cyan.on_default(), format!(" ({kind})")),
            };
            format!("{}: \"{says}\"{kind}{}", paint(bold(), route), receipts(&entry.receipts))
        }
        Some(Event::Decision(request)) => {
            format!("{} of {} {}", request_kind(request.kind()), request.member, request_text(request))
        }
        Some(Event::Member(event)) => {
            let forced = event.forced_by.as_ref().map_or_else(String::new, |by| format!(" (forced by {})", by.name));
            let detail = if event.detail.is_empty() { String::new() } else { format!(": {}", plain(&event.detail)) };
            format!(
                "{} is {}{forced}{detail}",
                event.member,
                paint(state_style(event.state()), word::member_state(event.state()))
            )
        }
        Some(Event::Team(event)) => {
            let actor = event.actor.as_ref().map_or("?", |actor| actor.name.as_str());
            match event.kind() {
                v1::TeamEventKind::Created => format!("the team was created by {actor}"),
                v1::TeamEventKind::LeadChanged => format!("{} leads the team now, by {actor}", event.member),
                v1::TeamEventKind::Invited if event.member.is_empty() => format!("{actor} invited somebody"),
                v1::TeamEventKind::Invited => format!("{actor} invited {}", event.member),
                v1::TeamEventKind::ObserverCreated => format!("{actor} let somebody observe the team"),
                v1::TeamEventKind::WritesLost => "the store has lost changes that had been answered".to_owned(),
                v1::TeamEventKind::Unspecified => "something happened to the team".to_owned(),
            }
        }
        Some(Event::Task(event)) => task_event(event),
        Some(Event::DeadLetter(event)) => {
            format!("message {} to {} was given up: {}", event.message_id, event.recipient, event.cause)
        }
        None => "an entry that this version does not know".to_owned(),
    };
    anstream::println!("{at} {text}");
}

/// Returns an entry of the history as JSON, with its message in the form of SendMessage.
pub fn entry_json(entry: &v1::HistoryEntry) -> Value {
    let mut value = json("HistoryEntry", entry);
    if let Some(Event::Message(message)) = &entry.event {
        value["message"] = dialect::write(message);
    }
    value
}

fn task_event(event: &v1::TaskEvent) -> String {
    let actor = event.actor.as_ref().map_or("?", |actor| actor.name.as_str());
    let (task, owner) = (format!("task {} ({})", event.task_id, short(&event.subject, 60)), &event.owner);
    let detail = if event.detail.is_empty() { String::new() } else { format!(": {}", plain(&event.detail)) };
    match event.kind() {
        TaskEventKind::Created => format!("{actor} added {task}"),
        TaskEventKind::Updated => format!("{actor} changed {task}"),
        TaskEventKind::Assigned => format!("{actor} assigned {task} to {owner}"),
        TaskEventKind::Claimed => format!("{owner} works on {task}"),
        TaskEventKind::Completed => format!("{actor} completed {task}"),
        TaskEventKind::Released => format!("{actor} gave {task} back{detail}"),
        TaskEventKind::Lapsed => format!("{task} is back on the board, from {owner}{detail}"),
        TaskEventKind::Deleted => format!("{actor} deleted {task}"),
        TaskEventKind::Unspecified => format!("something happened to {task}"),
    }
}

fn receipts(receipts: &[v1::Receipt]) -> String {
    if receipts.is_empty() {
        return String::new();
    }
    let each: Vec<_> =
        receipts.iter().map(|receipt| format!("{} {}", receipt.recipient, receipt_state(receipt))).collect();
    let all_same = receipts.len() == 1 || receipts.iter().all(|receipt| receipt.state() == receipts[0].state());
    let text = if all_same { receipt_state(&receipts[0]) } else { each.join(", ") };
    format!(" {}", paint(dim(), format!("({text})")))
}
