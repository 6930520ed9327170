//! Messages and their receipts.

use anstyle::AnsiColor;
use serde_json::Value;
use teamwire_agents::agent_text::{AnswerWith, next_step};
use teamwire_proto::{
    dialect,
    v1::{self, DeadLetterCause, ReceiptState, message::Body},
    word,
};

use super::{
    bold, dim, paint, plain,
    request::{review_in_full, whole_permission},
    table,
    text::{date_and_time, precise},
    time,
};

/// Prints a message as it lies in an inbox.
pub(crate) fn delivery(delivery: &v1::Delivery) {
    let Some(message) = &delivery.message else { return };
    let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
    let redelivery = match delivery.delivery_count {
        0 | 1 => String::new(),
        n => paint(AnsiColor::Yellow.on_default(), format!(" (delivery {n})")),
    };
    let (summary, content) = summary_and_content(message);
    anstream::println!(
        "{} {} {} {}{redelivery}",
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

/// Prints a message and its receipt for each recipient.
pub(crate) fn message(message: &v1::Message, receipts: &[v1::Receipt]) {
    let from = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
    let (summary, content) = summary_and_content(message);
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
    let rows = receipts.iter().map(|receipt| {
        vec![
            receipt.recipient.clone(),
            receipt_state(receipt),
            precise(receipt.queued_at.as_ref()),
            precise(receipt.delivered_at.as_ref()),
            precise(receipt.finished_at.as_ref()),
            receipt.delivery_count.to_string(),
        ]
    });
    anstream::println!();
    table(&["recipient", "state", "queued", "last delivered", "finished", "deliveries"], rows.collect());
}

/// Converts a delivery to JSON, with its message in the SendMessage dialect.
pub(crate) fn delivery_json(delivery: &v1::Delivery) -> Value {
    serde_json::json!({
        "sequence": delivery.sequence,
        "delivery_count": delivery.delivery_count,
        "message": delivery.message.as_ref().map(dialect::write),
    })
}

/// Returns a message's summary and its content, both without control characters.
pub(super) fn summary_and_content(message: &v1::Message) -> (String, String) {
    let Some(body) = &message.body else { return (String::new(), String::new()) };
    let summary = plain(&word::summary(message));
    match body {
        Body::Notice(digest) if !digest.gathered.is_empty() => {
            let next = next_step(digest, AnswerWith::Command);
            let lines: Vec<String> = digest.text.lines().chain(next.lines()).map(plain).collect();
            (summary, lines.join("\n"))
        }
        Body::Notice(notice) => (notice_text(notice), String::new()),
        Body::PermissionRequest(asked) => {
            let member = message.sender.as_ref().map_or("?", |sender| sender.name.as_str());
            let whole = whole_permission(member, &asked.tool, &asked.detail, &asked.summary);
            (format!("{summary} ({})", message.request_id), whole)
        }
        Body::ReviewRequest(asked) => {
            (format!("task {}: {summary} ({})", asked.task_id, message.request_id), review_in_full(asked))
        }
        Body::ShutdownRequest(_) | Body::PlanApprovalRequest(_) => {
            (format!("{summary} ({})", message.request_id), plain(body.text()))
        }
        _ if body.kind().is_answer() => (summary, String::new()),
        _ => (summary, plain(body.text())),
    }
}

pub(super) fn kind(message: &v1::Message) -> &'static str {
    match &message.body {
        Some(Body::Notice(notice)) => notice.kind().noun(),
        body => body.as_ref().map_or("message", |body| body.kind().noun()),
    }
}

/// Returns a notice's sentence, and how many times it happened if that was more than once.
fn notice_text(notice: &v1::Notice) -> String {
    let text = plain(&notice.text);
    let next = match next_step(notice, AnswerWith::Command) {
        next if next.is_empty() => next,
        next => format!(" {}", plain(&next)),
    };
    match notice.count {
        count if count > 1 => {
            format!("{text} ({count} times since {}){next}", time(notice.first_at.as_ref()))
        }
        _ => text + &next,
    }
}

pub(super) fn receipt_state(receipt: &v1::Receipt) -> String {
    match receipt.state() {
        ReceiptState::Unspecified => "unknown".to_owned(),
        ReceiptState::Queued => "queued".to_owned(),
        ReceiptState::Delivered => "delivered".to_owned(),
        ReceiptState::Processed => "processed".to_owned(),
        // Nothing is lost: a newer notice says the same and more.
        ReceiptState::DeadLettered if receipt.dead_letter_cause() == DeadLetterCause::Replaced => {
            "replaced by a newer one".to_owned()
        }
        ReceiptState::DeadLettered => format!("dead letter: {}", word::dead_letter_cause(receipt.dead_letter_cause())),
    }
}
