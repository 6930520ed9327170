//! The words in which people read the protocol's values.

use std::time::Duration;

use crate::{
    duration,
    v1::{
        BudgetUse, DeadLetterCause, EventSubscription, ExitReport, FailedTurns, MemberState, MergeForecast, Message,
        Request, RequestKind, RunnerAction, Work, event_subscription::Event, message::Body,
    },
    visible::ends_line,
};

/// Returns the name of a member's state.
pub fn member_state(state: MemberState) -> &'static str {
    match state {
        MemberState::Unspecified => "unknown",
        MemberState::Joined => "joined",
        MemberState::Active => "active",
        MemberState::Idle => "idle",
        MemberState::Stopping => "stopping",
        MemberState::Exited => "exited",
        MemberState::Lost => "lost",
        MemberState::Away => "away",
        MemberState::Spawning => "spawning",
    }
}

/// Writes a number of things: `1 message`, `2 messages`, `2 entries`.
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix("ry")) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ries"),
        _ => format!("{number} {noun}s"),
    }
}

/// Says what a subscription waits for, such as `backend is idle`.
pub fn event(subscription: &EventSubscription) -> String {
    match &subscription.event {
        Some(Event::MemberIdle(name)) => format!("{name} is idle"),
        Some(Event::MemberExit(name)) => format!("{name} exits"),
        Some(Event::TaskDone(id)) => format!("task {id} is done"),
        Some(Event::FileEdited(pattern)) => format!("another member edits {pattern:?}"),
        None => "something happens".to_owned(),
    }
}

/// Writes how long something has lasted, in its largest useful unit: `90 s`, `5 min`, `3 h`.
pub fn age(lasted: Duration) -> String {
    match lasted.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// Joins the lines and words of a text with single spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keeps the beginning and the end of a text that has more than `max` bytes, with a line between them that says how much is
/// left out. The result has at most `max` bytes, if that is room for the line.
pub fn cut_middle(text: &str, max: usize) -> String {
    /// Room for the line between the two parts.
    const LINE_BYTES: usize = 48;
    if text.len() <= max {
        return text.to_owned();
    }
    let half = max.saturating_sub(LINE_BYTES) / 2;
    let head = &text[..text.floor_char_boundary(half)];
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    format!("{head}\n[{} bytes left out]\n{tail}", text.len() - head.len() - tail.len())
}

/// Names a budget: `the budget of 5 USD`.
pub fn budget(budget: &BudgetUse) -> String {
    let bound = budget.budget.unwrap_or_default();
    let whose = if budget.of_team { "the team's budget" } else { "the budget" };
    format!("{whose} of {}", amount(bound.cost_usd_micros, bound.tokens))
}

/// Writes a cost, in millionths of a US dollar, and a number of tokens, as people type them: `5 USD`, `10,000 tokens`, or
/// both. Leaves out what is zero, but not both.
pub fn amount(cost_usd_micros: u64, tokens: u64) -> String {
    let cost = || {
        let text = format!("{}.{:06}", cost_usd_micros / 1_000_000, cost_usd_micros % 1_000_000);
        format!("{} USD", text.trim_end_matches('0').trim_end_matches('.'))
    };
    let tokens_text = || format!("{} tokens", grouped(tokens));
    match (cost_usd_micros, tokens) {
        (0, 0) => "nothing".to_owned(),
        (_, 0) => cost(),
        (0, _) => tokens_text(),
        _ => format!("{} and {}", cost(), tokens_text()),
    }
}

/// Writes a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a text as one line of at most `max` characters, with an ellipsis if it was longer.
pub fn shorten(text: &str, max: usize) -> String {
    let one_line = one_line(text);
    if one_line.chars().count() <= max {
        return one_line;
    }
    one_line.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

/// How many characters are shown of how a turn failed.
const ERROR_CHARS_MAX: usize = 200;

/// Describes the turns of a member's program that have failed in a row.
pub fn failed_turns(failed: &FailedTurns) -> String {
    format!("{} in a row, last: {}", count(failed.count.into(), "turn"), shorten(&failed.error, ERROR_CHARS_MAX))
}

/// Returns why a message became a dead letter, in a few words.
pub fn dead_letter_cause(cause: DeadLetterCause) -> String {
    cause.as_str_name().trim_start_matches("DEAD_LETTER_CAUSE_").to_ascii_lowercase().replace('_', " ")
}

/// Returns what a message says, in a few words.
pub fn summary(message: &Message) -> String {
    let Some(body) = &message.body else { return String::new() };
    match body {
        Body::Notice(notice) if !notice.gathered.is_empty() => count(notice.count.into(), "event"),
        Body::Notice(notice) => notice.text.clone(),
        Body::ShutdownRequest(_) => "please shut down".to_owned(),
        Body::PlanApprovalRequest(plan) if plan.summary.is_empty() => "a plan to approve".to_owned(),
        Body::PermissionRequest(asked) => permission(&asked.tool, &asked.detail, &asked.summary),
        _ if body.kind().is_answer() => {
            let word = if body.approve() == Some(true) { "approved" } else { "rejected" };
            let colon = if body.text().is_empty() { "" } else { ": " };
            format!("{word}{colon}{}", body.text())
        }
        _ => body.summary().to_owned(),
    }
}

/// Returns what a member's work is, in a clause: `2 commits on teamwire/backend, 3 files +40 -2, merges into main without conflicts`.
pub fn work(work: &Work) -> String {
    let mut parts = vec![match work.branch.as_str() {
        "" => count(work.ahead.into(), "commit"),
        branch => format!("{} on {}", count(work.ahead.into(), "commit"), one_line(branch)),
    }];
    parts.push(format!("{} +{} -{}", count(work.files.into(), "file"), work.insertions, work.deletions));
    if work.uncommitted > 0 {
        parts.push(format!("{} not committed", count(work.uncommitted.into(), "file")));
    }
    let base = if work.base_branch.is_empty() { "its base".to_owned() } else { one_line(&work.base_branch) };
    parts.push(match work.forecast() {
        MergeForecast::Clean => format!("merges into {base} without conflicts"),
        MergeForecast::Conflicts => format!("conflicts with {base} in {}", paths(&work.conflicts)),
        MergeForecast::Unspecified if work.detail.is_empty() => format!("no forecast for {base}"),
        MergeForecast::Unspecified => one_line(&work.detail),
    });
    parts.join(", ")
}

/// How many paths are listed. Further ones are counted.
const PATHS_MAX: usize = 5;

/// Lists paths, each on one line.
pub fn paths(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(PATHS_MAX).map(|path| one_line(path)).collect();
    match paths.len().saturating_sub(PATHS_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), count(more as u64, "more file")),
    }
}

/// How many characters are shown of what a request says that has no summary.
const SAID_CHARS_MAX: usize = 200;

/// Returns what a request asks for: the tool and the command of a permission, or else its summary, or else the first
/// line of its text; empty if it says nothing.
pub fn asked_for(request: &Request) -> String {
    if request.kind() == RequestKind::Permission {
        return one_line(&permission(&request.tool, &request.content, &request.summary));
    }
    if request.kind() == RequestKind::Review {
        return shorten(&one_line(&format!("task {}: {}", request.task_id, request.summary)), SAID_CHARS_MAX);
    }
    let summary = if request.summary.is_empty() { &request.content } else { &request.summary };
    let first = summary.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    shorten(first, SAID_CHARS_MAX)
}

/// Up to how many characters all of it is shown what permission is asked for. More than a shortened one has, so that
/// shortening it again changes nothing.
const WHOLE_CHARS_MAX: usize = 240;

/// How many characters are shown of the beginning and of the end of a longer one.
const SHOWN_AT_ENDS: [usize; 2] = [140, 60];

/// Returns what permission is asked for, in one line: the tool, and the command or the edit itself. Of a long one, the
/// beginning and the end, so that nothing hides behind a long beginning. An end of a line is shown: what follows a
/// comment may be a command. The summary only replaces a missing detail, and is marked, because the member that asks
/// can write anything there. The caller must make control characters visible.
pub fn permission(tool: &str, detail: &str, summary: &str) -> String {
    let lines = detail.split(ends_line).map(one_line).filter(|line| !line.is_empty());
    let asked = lines.collect::<Vec<_>>().join(" ⏎ ");
    let (count, [first, last]) = (asked.chars().count(), SHOWN_AT_ENDS);
    let asked = if count <= WHOLE_CHARS_MAX {
        asked
    } else {
        let beginning: String = asked.chars().take(first).collect();
        let end: String = asked.chars().skip(count - last).collect();
        format!("{beginning} …[{} more characters]… {end}", count - first - last)
    };
    match (one_line(tool).as_str(), asked.as_str()) {
        (tool, "") if !summary.trim().is_empty() => {
            format!("{tool} (described as: {})", one_line(summary)).trim_start().to_owned()
        }
        (tool, "") => tool.to_owned(),
        ("", asked) => asked.to_owned(),
        (tool, asked) => format!("{tool}: {asked}"),
    }
}

/// Describes how a member's process ended: whether it had approved its shutdown, its exit code or signal, what its
/// runner had to do, and the report's detail. Reads on after the member's name or "exited:".
pub fn exit(report: &ExitReport) -> String {
    brief_exit(report) + &because(report)
}

fn brief_exit(report: &ExitReport) -> String {
    if !report.approved_request_id.is_empty() {
        return approved_exit(report);
    }
    match (signal_of_runner(report), report.signal, report.code) {
        (Some(signal), ..) => format!("its runner ended it with {signal}{}", code(report)),
        (None, signal, _) if signal > 0 => format!("ended by signal {signal}"),
        (None, _, Some(code)) => format!("exit code {code}"),
        (None, _, None) => unknown(report),
    }
}

/// Describes how the process of a member ended that had approved its shutdown.
pub fn approved_exit(report: &ExitReport) -> String {
    match (signal_of_runner(report), report.signal, report.code) {
        (Some(signal), ..) => format!("approved its shutdown; its runner ended it with {signal}{}", code(report)),
        (None, signal, _) if signal > 0 => format!("approved its shutdown and ended by signal {signal}"),
        (None, _, Some(code)) => format!("approved its shutdown and ended with code {code}"),
        (None, _, None) => format!("approved its shutdown; {}", unknown(report)),
    }
}

/// Describes how a member's process ended, and after how long.
pub fn exit_and_duration(report: &ExitReport) -> String {
    let duration = report.duration.and_then(duration::from_proto);
    let after = duration.map_or_else(String::new, |duration| format!(" after {:.1} s", duration.as_secs_f64()));
    brief_exit(report) + &after + &because(report)
}

/// Returns the detail of an exit whose code or signal is known. It does not matter after an approved shutdown.
fn because(report: &ExitReport) -> String {
    let is_known = report.signal > 0 || report.code.is_some() || signal_of_runner(report).is_some();
    match report.detail.trim_end_matches('.') {
        detail if is_known && !detail.is_empty() && report.approved_request_id.is_empty() => format!(": {detail}"),
        _ => String::new(),
    }
}

fn signal_of_runner(report: &ExitReport) -> Option<&'static str> {
    match report.runner_action() {
        RunnerAction::Sigterm => Some("SIGTERM"),
        RunnerAction::Sigkill => Some("SIGKILL"),
        RunnerAction::None | RunnerAction::Unspecified => None,
    }
}

/// Says which code a program chose that its runner had sent a signal.
fn code(report: &ExitReport) -> String {
    report.code.map_or_else(String::new, |code| format!(" (exit code {code})"))
}

fn unknown(report: &ExitReport) -> String {
    match report.detail.as_str() {
        "" => "exit not reported".to_owned(),
        // It may be a sentence, and continues in another one.
        detail => detail.strip_suffix('.').unwrap_or(detail).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(code: Option<i32>, signal: i32, approved: bool, action: RunnerAction) -> String {
        let approved_request_id = if approved { "req_1".to_owned() } else { String::new() };
        let runner_action = action.into();
        exit(&ExitReport { code, signal, approved_request_id, runner_action, ..ExitReport::default() })
    }

    #[test]
    fn permission_shows_the_command_and_not_its_description() {
        assert_eq!(
            permission("Bash", "rm -rf target &&\n  git push --force", "clean"),
            "Bash: rm -rf target && ⏎ git push --force"
        );
        assert_eq!(permission("Bash", " \n", "clean the build"), "Bash (described as: clean the build)");
        assert_eq!(permission("Bash", "ls # all:\u{2028}\r\nrm x", "list"), "Bash: ls # all: ⏎ rm x");
        assert_eq!(permission("", "", "list"), "(described as: list)");
        let hidden = format!("echo {}{}; rm -rf /", "a".repeat(9_000), " ".repeat(9_000));
        let shown = permission("Bash", &hidden, "clean");
        assert!(shown.starts_with("Bash: echo aaa") && shown.ends_with("aaa ; rm -rf /"), "{shown}");
        assert!(shown.contains("…[8816 more characters]…"), "{shown}");
        let again = permission("Bash", shown.trim_start_matches("Bash: "), "clean");
        assert_eq!(again, shown);
    }

    #[test]
    fn a_detail_that_is_a_sentence_loses_its_period() {
        let report = ExitReport { detail: "Its runner was gone.".to_owned(), ..ExitReport::default() };
        assert_eq!(format!("{}.", exit(&report)), "Its runner was gone.");
    }

    #[test]
    fn the_detail_follows_the_exit_code_but_not_an_approved_shutdown() {
        let detail = "error: unknown option".to_owned();
        let failed = ExitReport { code: Some(1), detail, ..ExitReport::default() };
        assert_eq!(exit(&failed), "exit code 1: error: unknown option");
        let duration = prost_types::Duration { seconds: 2, nanos: 0 };
        let timed = ExitReport { duration: Some(duration), ..failed.clone() };
        assert_eq!(exit_and_duration(&timed), "exit code 1 after 2.0 s: error: unknown option");
        let approved = ExitReport { approved_request_id: "req_1".to_owned(), ..failed };
        assert_eq!(exit(&approved), "approved its shutdown and ended with code 1");
    }

    #[test]
    fn an_exit_is_described_by_its_code_signal_and_cause() {
        use RunnerAction::{None as Nothing, Sigkill, Sigterm, Unspecified};
        assert_eq!(text(Some(0), 0, true, Nothing), "approved its shutdown and ended with code 0");
        assert_eq!(text(Some(9), 0, true, Unspecified), "approved its shutdown and ended with code 9");
        assert_eq!(text(None, 11, true, Nothing), "approved its shutdown and ended by signal 11");
        assert_eq!(text(None, 15, true, Sigterm), "approved its shutdown; its runner ended it with SIGTERM");
        assert_eq!(
            text(Some(3), 0, true, Sigterm),
            "approved its shutdown; its runner ended it with SIGTERM (exit code 3)"
        );
        assert_eq!(text(None, 9, true, Sigkill), "approved its shutdown; its runner ended it with SIGKILL");
        assert_eq!(text(None, 0, true, Unspecified), "approved its shutdown; exit not reported");
        assert_eq!(text(Some(3), 0, false, Nothing), "exit code 3");
        assert_eq!(text(None, 9, false, Unspecified), "ended by signal 9");
        assert_eq!(text(None, 15, false, Sigterm), "its runner ended it with SIGTERM");
        assert_eq!(text(None, 0, false, Unspecified), "exit not reported");
    }
}
