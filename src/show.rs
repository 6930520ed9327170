//! Replies as a person or a program reads them: tables, lines and JSON.

use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, ContentArrangement, Table, presets};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;
use teamwire_proto::{
    dialect,
    v1::{
        self, MemberState, NoticeKind, ReceiptState, RequestKind, RequestState, TaskEventKind, TaskStatus,
        history_entry::Event, message::Body,
    },
    word,
};

use crate::failure::Failure;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(teamwire_proto::DESCRIPTORS).expect("the protocol's own descriptors"));

/// Returns a message of the protocol as JSON, in the names of the protocol. `name`: its name, such as `Team`.
pub fn json(name: &str, message: &impl prost::Message) -> Value {
    let descriptor = POOL.get_message_by_name(&format!("teamwire.v1.{name}")).expect("a message of the protocol");
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).expect("its own encoding");
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).expect("no failing serializers")
}

/// Prints one line of JSON.
pub fn line(value: &Value) {
    anstream::println!("{value}");
}

/// Returns a delivery as JSON, with its message in the form of SendMessage.
pub fn delivery_json(delivery: &v1::Delivery) -> Value {
    serde_json::json!({
        "sequence": delivery.sequence,
        "delivery_count": delivery.delivery_count,
        "message": delivery.message.as_ref().map(dialect::write),
    })
}

/// Returns an entry of the history as JSON, with its message in the form of SendMessage.
pub fn entry_json(entry: &v1::HistoryEntry) -> Value {
    let mut value = json("HistoryEntry", entry);
    if let Some(Event::Message(message)) = &entry.event {
        value["message"] = dialect::write(message);
    }
    value
}

/// Returns an instant in local form: the time, with the date unless it is today.
pub fn time(at: Option<&prost_types::Timestamp>) -> String {
    let Some(zoned) = local(at) else { return "-".to_owned() };
    let form = if zoned.date() == Zoned::now().date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    zoned.strftime(form).to_string()
}

/// Returns an instant in local form, with the date.
fn date_and_time(at: Option<&prost_types::Timestamp>) -> String {
    local(at).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn local(at: Option<&prost_types::Timestamp>) -> Option<Zoned> {
    let at = at?;
    Some(Timestamp::new(at.seconds, at.nanos).ok()?.to_zoned(TimeZone::system()))
}

/// Returns text without anything that could steer a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Returns text as one line of at most `max` characters.
pub fn short(text: &str, max: usize) -> String {
    let one_line: String = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= max {
        return one_line;
    }
    one_line.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

/// Prints rows under headings, aligned, without lines.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| Cell::new(heading.to_uppercase())));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.to_string().lines() {
        anstream::println!("{}", line.trim_end());
    }
}

/// Returns a word in a colour, where the terminal has any.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Bold.
pub fn bold() -> Style {
    Style::new().bold()
}

/// In the background.
pub fn dim() -> Style {
    Style::new().dimmed()
}

/// For what needs attention.
pub fn warning() -> Style {
    AnsiColor::Yellow.on_default().bold()
}

fn state_style(state: MemberState) -> Style {
    match state {
        MemberState::Active => AnsiColor::Green.on_default(),
        MemberState::Idle | MemberState::Joined => AnsiColor::Cyan.on_default(),
        MemberState::Stopping => AnsiColor::Yellow.on_default(),
        MemberState::Lost => AnsiColor::Red.on_default(),
        MemberState::Exited | MemberState::Unspecified => dim(),
    }
}

/// Prints the members of a team.
pub fn members(members: &[v1::Member]) {
    let rows = members.iter().map(|member| {
        let role = if member.role() == v1::Role::Lead { "lead" } else { "teammate" };
        vec![
            member.name.clone(),
            role.to_owned(),
            paint(state_style(member.state()), word::member_state(member.state())),
            time(member.state_since.as_ref()),
            member.inbox_depth.to_string(),
            member.incarnation.to_string(),
            note(member),
        ]
    });
    table(&["member", "role", "state", "since", "inbox", "life", "note"], rows.collect());
}

fn note(member: &v1::Member) -> String {
    let mut notes = Vec::new();
    if let Some(exit) = &member.exit {
        notes.push(exit_text(exit));
    }
    if !member.pending_shutdown.is_empty() {
        notes.push(format!("asked to shut down ({})", member.pending_shutdown));
    }
    if !member.pending_plan.is_empty() {
        notes.push(format!("plan awaits an answer ({})", member.pending_plan));
    } else if member.plan_required {
        notes.push("must have a plan approved".to_owned());
    }
    if !member.last_summary.is_empty() && member.exit.is_none() {
        notes.push(short(&member.last_summary, 60));
    }
    notes.join("; ")
}

/// Returns the name of a task's status.
fn task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Unspecified => "unknown",
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "in progress",
        TaskStatus::Completed => "completed",
        TaskStatus::Deleted => "deleted",
    }
}

fn task_style(task: &v1::Task) -> Style {
    match task.status() {
        TaskStatus::Pending if !task.waiting_for.is_empty() => dim(),
        TaskStatus::Pending => AnsiColor::Cyan.on_default(),
        TaskStatus::InProgress => AnsiColor::Green.on_default(),
        TaskStatus::Completed | TaskStatus::Deleted | TaskStatus::Unspecified => dim(),
    }
}

fn ids(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Prints tasks.
pub fn tasks(tasks: &[v1::Task]) {
    let rows = tasks.iter().map(|task| {
        vec![
            task.id.to_string(),
            paint(task_style(task), task_status(task.status())),
            task.owner.clone(),
            ids(&task.waiting_for),
            time(task.updated_at.as_ref()),
            short(&task.subject, 80),
        ]
    });
    table(&["task", "status", "owner", "waits for", "changed", "subject"], rows.collect());
}

/// Prints a task on one line.
pub fn task_line(task: &v1::Task) {
    let owner = if task.owner.is_empty() { String::new() } else { format!(" by {}", task.owner) };
    let owner = if task.status() == TaskStatus::Pending { owner.replace(" by ", " for ") } else { owner };
    let waits =
        if task.waiting_for.is_empty() { String::new() } else { format!(", waits for {}", ids(&task.waiting_for)) };
    anstream::println!(
        "{} {} {}{owner}{waits}: {}",
        paint(dim(), time(task.updated_at.as_ref())),
        paint(bold(), task.id),
        paint(task_style(task), task_status(task.status())),
        short(&task.subject, 100)
    );
}

/// Prints all of a task.
pub fn task(task: &v1::Task) {
    task_line(task);
    let mut facts = Vec::new();
    let by = task.created_by.as_ref().map_or("?", |sender| sender.name.as_str());
    facts.push(format!("added by {by} {}", time(task.created_at.as_ref())));
    if task.attempts > 0 {
        facts.push(format!("claimed {} times", task.attempts));
    }
    if !task.blocked_by.is_empty() {
        facts.push(format!("blocked by {}", ids(&task.blocked_by)));
    }
    if !task.blocks.is_empty() {
        facts.push(format!("blocks {}", ids(&task.blocks)));
    }
    if !task.released_because.is_empty() {
        facts.push(format!("came back: {}", plain(&task.released_because)));
    }
    let mut pairs: Vec<_> =
        task.metadata.iter().map(|(key, value)| format!("{}={}", plain(key), plain(value))).collect();
    pairs.sort();
    facts.extend(pairs);
    anstream::println!("    {}", paint(dim(), facts.join("; ")));
    for text in [&task.description, &task.result] {
        for line in plain(text).lines() {
            anstream::println!("    {line}");
        }
    }
}

/// Says how a process ended.
pub fn exit_text(exit: &v1::ExitReport) -> String {
    let mut text = match (exit.code, exit.signal) {
        (_, signal) if signal > 0 => format!("ended by signal {signal}"),
        (Some(code), _) => format!("exit code {code}"),
        (None, _) => "exit not reported".to_owned(),
    };
    if exit.duration_ms > 0 {
        text.push_str(&format!(" after {:.1} s", std::time::Duration::from_millis(exit.duration_ms).as_secs_f64()));
    }
    text
}

/// Returns the name of a request's state.
pub fn request_state(state: RequestState) -> &'static str {
    match state {
        RequestState::Unspecified => "unknown",
        RequestState::Pending => "pending",
        RequestState::Approved => "approved",
        RequestState::Rejected => "rejected",
        RequestState::Expired => "expired",
        RequestState::Cancelled => "cancelled",
    }
}

/// Returns the name of a request's kind.
pub fn request_kind(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Unspecified => "unknown",
        RequestKind::Shutdown => "shutdown",
        RequestKind::PlanApproval => "plan",
    }
}

/// Returns the last line about a request: where it stands and why.
pub fn request_text(request: &v1::Request) -> String {
    let who = request.decided_by.as_ref().map_or_else(String::new, |by| format!(" by {}", by.name));
    let mut text = format!("{}{who}", request_state(request.state()));
    if !request.reason.is_empty() {
        text.push_str(": ");
        text.push_str(&plain(&request.reason));
    }
    if request.state() == RequestState::Cancelled {
        let cause = format!("{:?}", request.cancel_cause());
        let words: String = cause
            .chars()
            .flat_map(|c| c.is_uppercase().then_some(' ').into_iter().chain([c.to_ascii_lowercase()]))
            .collect();
        text.push_str(&format!(" ({})", words.trim()));
    }
    text
}

/// What kind of message it is, for a reader.
pub fn kind(message: &v1::Message) -> &'static str {
    match &message.body {
        Some(Body::Message(_)) => "message",
        Some(Body::Broadcast(_)) => "broadcast",
        Some(Body::ShutdownRequest(_)) => "shutdown request",
        Some(Body::ShutdownResponse(_)) => "shutdown response",
        Some(Body::PlanApprovalRequest(_)) => "plan",
        Some(Body::PlanApprovalResponse(_)) => "plan response",
        Some(Body::Notice(notice)) => notice_kind(notice.kind()),
        None => "message",
    }
}

fn notice_kind(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Unspecified => "notice",
        NoticeKind::Idle => "idle",
        NoticeKind::MemberExited => "member exited",
        NoticeKind::MemberLost => "member lost",
        NoticeKind::MemberNotExited => "member not exited",
        NoticeKind::SessionSuperseded => "taken over",
        NoticeKind::RequestExpired => "request expired",
        NoticeKind::RequestCancelled => "request cancelled",
        NoticeKind::DeadLetter => "dead letter",
        NoticeKind::LeadChanged => "lead changed",
        NoticeKind::TaskAssignment => "task",
        NoticeKind::TaskRevoked => "task revoked",
        NoticeKind::Unprocessed => "unprocessed",
        NoticeKind::WritesLost => "writes lost",
    }
}

/// What a message says: its summary, and its text below.
pub fn says(message: &v1::Message) -> (String, String) {
    let answer = |approve: Option<bool>, reason: &str| {
        let word = if approve == Some(true) { "approved" } else { "rejected" };
        let colon = if reason.is_empty() { "" } else { ": " };
        format!("{word}{colon}{}", plain(reason))
    };
    match &message.body {
        Some(Body::Message(body)) => (plain(&body.summary), plain(&body.content)),
        Some(Body::Broadcast(body)) => (plain(&body.summary), plain(&body.content)),
        Some(Body::ShutdownRequest(body)) => {
            (format!("please shut down ({})", message.request_id), plain(&body.reason))
        }
        Some(Body::ShutdownResponse(body)) => (answer(body.approve, &body.reason), String::new()),
        Some(Body::PlanApprovalRequest(body)) => {
            let summary = if body.summary.is_empty() { "a plan to approve" } else { &body.summary };
            (format!("{} ({})", plain(summary), message.request_id), plain(&body.plan))
        }
        Some(Body::PlanApprovalResponse(body)) => (answer(body.approve, &body.feedback), String::new()),
        Some(Body::Notice(notice)) => (plain(&notice.text), String::new()),
        None => (String::new(), String::new()),
    }
}

/// Prints a message of the inbox.
pub fn delivery(delivery: &v1::Delivery) {
    let Some(message) = &delivery.message else { return };
    let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
    let again = match delivery.delivery_count {
        0 | 1 => String::new(),
        n => paint(AnsiColor::Yellow.on_default(), format!(" (delivery {n})")),
    };
    let (summary, content) = says(message);
    anstream::println!(
        "{} {} {} {}{again}",
        paint(dim(), time(message.sent_at.as_ref())),
        paint(bold(), from),
        paint(AnsiColor::Cyan.on_default(), kind(message)),
        summary
    );
    for text in content.lines() {
        anstream::println!("    {text}");
    }
    anstream::println!("    {}", paint(dim(), &message.id));
}

/// Prints a message, and what became of it at each recipient.
pub fn message_life(message: &v1::Message, receipts: &[v1::Receipt]) {
    let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
    let (summary, content) = says(message);
    anstream::println!(
        "{} {} {} {}",
        date_and_time(message.sent_at.as_ref()),
        paint(bold(), from),
        paint(AnsiColor::Cyan.on_default(), kind(message)),
        summary
    );
    for text in content.lines() {
        anstream::println!("    {text}");
    }
    if !message.in_reply_to.is_empty() {
        anstream::println!("    {}", paint(dim(), format!("in reply to {}", message.in_reply_to)));
    }
    let instant = |at: Option<&prost_types::Timestamp>| at.map_or_else(|| "-".to_owned(), precise);
    let rows = receipts.iter().map(|receipt| {
        vec![
            receipt.recipient.clone(),
            receipt_state(receipt),
            instant(receipt.queued_at.as_ref()),
            instant(receipt.delivered_at.as_ref()),
            instant(receipt.finished_at.as_ref()),
            receipt.delivery_count.to_string(),
        ]
    });
    anstream::println!();
    table(&["recipient", "state", "queued", "last delivered", "finished", "deliveries"], rows.collect());
}

/// Returns an instant in local form, to the millisecond.
fn precise(at: &prost_types::Timestamp) -> String {
    local(Some(at)).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

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

fn receipt_state(receipt: &v1::Receipt) -> String {
    match receipt.state() {
        ReceiptState::Unspecified => "unknown".to_owned(),
        ReceiptState::Queued => "queued".to_owned(),
        ReceiptState::Delivered => "delivered".to_owned(),
        ReceiptState::Processed => "processed".to_owned(),
        ReceiptState::DeadLettered => format!("dead letter: {}", receipt.dead_letter_cause),
    }
}

/// Says that a thing that must be in a reply is not.
pub fn incomplete() -> Failure {
    Failure::with_code(crate::failure::UNREACHABLE, "The coordinator's reply is incomplete. Is it of another version?")
}
