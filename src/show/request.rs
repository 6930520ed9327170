//! Shutdown requests, plans, permission requests, reviews, and orders.

use teamwire_proto::{
    v1::{self, RequestKind, RequestState},
    word,
};

use super::{one_line, plain};

/// How many of the last lines are shown of what a program wrote that did not start.
const LAST_LINES_MAX: usize = 20;

/// Describes the state of a request: who decided it, and why. An order's reason is its first line.
pub(crate) fn request_text(request: &v1::Request) -> String {
    if request.kind() == RequestKind::Spawn {
        return order_text(request);
    }
    let by = request.decided_by.as_ref().map_or_else(String::new, |by| format!(" by {}", by.name));
    let mut text = format!("{}{by}", request_state(request.state()));
    if !request.reason.is_empty() {
        text.push_str(": ");
        text.push_str(&plain(&request.reason));
    }
    if request.state() == RequestState::Cancelled {
        text.push_str(&format!(" ({})", cancel_cause(request)));
    }
    text
}

/// Returns what a request asks for, behind a colon. Empty if it says nothing.
pub(crate) fn first_line_of_request(request: &v1::Request) -> String {
    match summary_of_request(request) {
        said if said.is_empty() => said,
        said => format!(": {said}"),
    }
}

/// Up to how many spaces in a row a command is shown with.
const GAP_CHARS_MAX: usize = 40;

/// Returns what a request for permission asks for, in full: the tool and the whole command first, and only then what
/// the member says about it.
pub(crate) fn permission_in_full(request: &v1::Request) -> String {
    whole_permission(&request.member, &request.tool, &request.content, &request.summary)
}

/// Returns what there is to review, in full: the work, how to read it, and what its owner says of it.
pub(crate) fn review_of(request: &v1::Request) -> String {
    review_in_full(&v1::ReviewRequest {
        task_id: request.task_id,
        summary: request.summary.clone(),
        result: request.content.clone(),
        work: request.work.clone(),
        merge_on_approval: request.merge_on_approval,
        ..v1::ReviewRequest::default()
    })
}

pub(super) fn review_in_full(asked: &v1::ReviewRequest) -> String {
    let mut lines = vec![format!("Task {}: {}", asked.task_id, one_line(&asked.summary))];
    if let Some(work) = &asked.work {
        lines.push(format!("Work: {}", plain(&word::work(work))));
        lines.push(format!("Commit: {}", one_line(&work.head)));
        if asked.merge_on_approval {
            lines.push("If you approve, that commit is merged.".to_owned());
        }
    }
    if !asked.result.trim().is_empty() {
        lines.push(format!("What its owner says of it:\n{}", plain_lines(&asked.result)));
    }
    lines.join("\n")
}

/// Returns a text of several lines, such as a plan, indented.
pub(crate) fn plain_lines(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {}", plain(line))).collect::<Vec<_>>().join("\n")
}

/// Returns what a member asks permission for, in full.
pub(super) fn whole_permission(member: &str, tool: &str, detail: &str, summary: &str) -> String {
    let mut text = format!("Tool: {}", one_line(tool));
    if detail.trim().is_empty() {
        text.push_str("\nThe request does not say what exactly the tool would do.");
    }
    let mut blank = 0;
    for line in detail.trim_end().lines() {
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        // So many would move the rest off the screen.
        match blank {
            0 => text.push_str(&format!("\n    {}", without_wide_gaps(&plain(line)))),
            1 => text.push_str("\n    [empty lines]"),
            _ => {}
        }
    }
    let summary = one_line(summary);
    if !summary.is_empty() {
        text.push_str(&format!("\n{member} describes it as: {summary}"));
    }
    text
}

/// Names the gaps in a line that would move what follows off the screen.
fn without_wide_gaps(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(char::is_whitespace) {
        let (before, gap) = rest.split_at(at);
        let after = gap.trim_start();
        let gap = &gap[..gap.len() - after.len()];
        shown.push_str(before);
        match gap.chars().count() {
            wide if wide > GAP_CHARS_MAX => shown.push_str(&format!(" [{wide} spaces] ")),
            _ => shown.push_str(gap),
        }
        rest = after;
    }
    shown + rest
}

/// Returns what a request asks for, in one line; empty if it says nothing.
pub(crate) fn summary_of_request(request: &v1::Request) -> String {
    one_line(&word::asked_for(request))
}

fn cancel_cause(request: &v1::Request) -> String {
    let cause = format!("{:?}", request.cancel_cause());
    let words: String = cause
        .chars()
        .flat_map(|c| c.is_uppercase().then_some(' ').into_iter().chain([c.to_ascii_lowercase()]))
        .collect();
    words.trim().to_owned()
}

/// Describes the state of an order. Reads on after "backend has" or "backend was".
fn order_text(request: &v1::Request) -> String {
    let host = &request.approver;
    match request.state() {
        RequestState::Unspecified => "unknown".to_owned(),
        RequestState::Pending => format!("not started yet: {host} has the order"),
        RequestState::Approved => format!("started on {host}"),
        RequestState::Rejected => {
            let reason = request.reason.lines().next().unwrap_or_default();
            format!("not started: {host} says: {}", one_line(reason))
        }
        RequestState::Expired => format!("not started: {host} did not start it in time"),
        RequestState::Cancelled => format!("not started: the order was cancelled ({})", cancel_cause(request)),
    }
}

/// Returns the last lines that a program wrote that did not start.
pub(crate) fn last_lines(order: &v1::Request) -> Vec<String> {
    let written: Vec<String> = order.reason.lines().skip(1).map(plain).collect();
    written[written.len().saturating_sub(LAST_LINES_MAX)..].to_vec()
}

/// Describes the state of an order like [`request_text`], followed by the [`last_lines`].
pub(crate) fn order_in_full(order: &v1::Request) -> String {
    last_lines(order).iter().fold(order_text(order), |text, line| text + "\n    " + line)
}

pub(crate) fn request_kind(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Unspecified => "unknown",
        RequestKind::Shutdown => "shutdown",
        RequestKind::PlanApproval => "plan",
        RequestKind::Permission => "permission",
        RequestKind::Review => "review",
        RequestKind::Spawn => "spawn",
    }
}

fn request_state(state: RequestState) -> &'static str {
    match state {
        RequestState::Unspecified => "unknown",
        RequestState::Pending => "pending",
        RequestState::Approved => "approved",
        RequestState::Rejected => "rejected",
        RequestState::Expired => "expired",
        RequestState::Cancelled => "cancelled",
    }
}
