//! History entries.

use anstyle::AnsiColor;
use serde_json::Value;
use teamwire_proto::{
    dialect,
    v1::{
        self, CredentialKind, MemberState, PermissionEventKind, RequestKind, TaskEventKind, TeamEventKind,
        history_entry::Event,
    },
    word,
};

use super::{
    bold, dim, json,
    member::state_style,
    message::{kind, receipt_state, summary_and_content},
    one_line, paint, plain, request_kind, request_text, rule_sentence, shorten,
    text::date_and_time,
};

/// Prints a history entry. `own` is the reader's name, which decides whether a message is incoming or outgoing.
pub(crate) fn entry(entry: &v1::HistoryEntry, own: Option<&str>) {
    let at = paint(dim(), format!("[{}]", date_and_time(entry.at.as_ref())));
    let text = match &entry.event {
        Some(Event::Message(message)) => {
            format!("{}{}", message_event(message, own), receipts(&entry.receipts))
        }
        Some(Event::Decision(order)) if order.kind() == RequestKind::Spawn => {
            format!("{} has {}", order.member, request_text(order))
        }
        Some(Event::Decision(request)) => {
            format!("{} of {} {}", request_kind(request.kind()), request.member, request_text(request))
        }
        Some(Event::Member(event)) => member_event(event),
        Some(Event::Team(event)) => team_event(event),
        Some(Event::Task(event)) => task_event(event),
        Some(Event::Permission(event)) => permission_event(event),
        Some(Event::DeadLetter(event)) => {
            format!(
                "message {} to {} became a dead letter: {}",
                event.message_id,
                event.recipient,
                word::dead_letter_cause(event.cause())
            )
        }
        None => "an entry of a newer version of teamwire".to_owned(),
    };
    anstream::println!("{at} {text}");
}

/// Converts a history entry to JSON, with its message in the SendMessage dialect.
pub(crate) fn entry_json(entry: &v1::HistoryEntry) -> Value {
    let mut value = json("HistoryEntry", entry);
    if let Some(Event::Message(message)) = &entry.event {
        value["message"] = dialect::write(message);
    }
    value
}

fn message_event(message: &v1::Message, own: Option<&str>) -> String {
    let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
    let to = if message.recipients.is_empty() { "-".to_owned() } else { message.recipients.join(", ") };
    let (summary, content) = summary_and_content(message);
    let text = if content.is_empty() { summary } else { format!("{summary}: {}", shorten(&content, 120)) };
    let is_own = |name: &str| own.is_some_and(|own| own.eq_ignore_ascii_case(name));
    let route = if is_own(from) {
        format!("OUTGOING -> {to}")
    } else if message.recipients.iter().any(|recipient| is_own(recipient)) {
        format!("INCOMING <- {from}")
    } else {
        format!("{from} -> {to}")
    };
    let kind = match kind(message) {
        "message" => String::new(),
        kind => paint(AnsiColor::Cyan.on_default(), format!(" ({kind})")),
    };
    format!("{}: \"{text}\"{kind}", paint(bold(), route))
}

fn member_event(event: &v1::MemberEvent) -> String {
    let forced = event.forced_by.as_ref().map_or_else(String::new, |by| format!(" (forced by {})", by.name));
    let is = match event.state() {
        MemberState::Joined | MemberState::Exited => "",
        _ => "is ",
    };
    let state = paint(state_style(event.state()), word::member_state(event.state()));
    format!("{} {is}{state}{forced}{}", event.member, detail(&event.detail))
}

fn team_event(event: &v1::TeamEvent) -> String {
    let actor = event.actor.as_ref().map_or("?", |actor| actor.name.as_str());
    match event.kind() {
        TeamEventKind::Created => format!("{actor} created the team"),
        TeamEventKind::LeadChanged => format!("{actor} made {} the lead", event.member),
        TeamEventKind::Invited if event.member.is_empty() => format!("{actor} created an invitation for any name"),
        TeamEventKind::Invited => format!("{actor} invited {}", event.member),
        TeamEventKind::ObserverCreated => format!("{actor} created an observer credential"),
        TeamEventKind::SignedIn => {
            let who = event.actor.as_ref().map_or("an observer", |actor| actor.name.as_str());
            let how = if event.read_only { " (read-only)" } else { "" };
            match event.credential() {
                CredentialKind::Tool => format!("{who} created a tool credential{how}"),
                _ => format!("{who} signed in to the console{how}"),
            }
        }
        TeamEventKind::CredentialRevoked => {
            let who = event.actor.as_ref().map_or("an observer", |actor| actor.name.as_str());
            let what = match event.credential() {
                CredentialKind::Console => "a console credential",
                CredentialKind::Tool => "a tool credential",
                CredentialKind::Observer => "an observer credential",
                CredentialKind::JoinToken => "an invitation",
                CredentialKind::Member => "the credential",
                CredentialKind::Unspecified => "a credential",
            };
            let of = if event.member.is_empty() { String::new() } else { format!(" of {}", event.member) };
            format!("{who} revoked {what}{of}")
        }
        TeamEventKind::WritesLost => "the store lost changes that the coordinator had confirmed".to_owned(),
        TeamEventKind::Unspecified => "unknown change to the team".to_owned(),
    }
}

fn permission_event(event: &v1::PermissionEvent) -> String {
    let actor = event.actor.as_ref().map_or("?", |actor| actor.name.as_str());
    let rule = event.rule.clone().unwrap_or_default();
    let (id, says) = (rule.id, rule_sentence(&rule));
    match event.kind() {
        PermissionEventKind::Added => format!("{actor} added permission rule {id}: {says}"),
        PermissionEventKind::Revoked => format!("{actor} revoked permission rule {id}: {says}"),
        PermissionEventKind::Used => {
            let what = word::permission(&rule.tool, &event.detail, "");
            format!("permission rule {id} permitted {actor} to use {}", one_line(&what))
        }
        PermissionEventKind::Unspecified => format!("unknown change to permission rule {id}"),
    }
}

fn task_event(event: &v1::TaskEvent) -> String {
    let actor = event.actor.as_ref().map_or("?", |actor| actor.name.as_str());
    let (task, owner) = (format!("task {} ({})", event.task_id, shorten(&event.subject, 60)), &event.owner);
    let detail = detail(&event.detail);
    match event.kind() {
        TaskEventKind::Created => format!("{actor} created {task}"),
        TaskEventKind::Updated => format!("{actor} updated {task}"),
        TaskEventKind::Assigned => format!("{actor} assigned {task} to {owner}"),
        TaskEventKind::Claimed => format!("{owner} claimed {task}"),
        TaskEventKind::InReview => format!("{owner} completed {task}, which awaits its review"),
        TaskEventKind::ReviewEnded => format!("{task} is no longer in review{detail}"),
        TaskEventKind::Completed => format!("{actor} completed {task}"),
        TaskEventKind::Released => format!("{actor} released {task}{detail}"),
        TaskEventKind::Lapsed => format!("{task} returned to the board from {owner}{detail}"),
        TaskEventKind::Deleted => format!("{actor} deleted {task}"),
        TaskEventKind::Unspecified => format!("unknown change to {task}"),
    }
}

fn detail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", plain(text)) }
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
