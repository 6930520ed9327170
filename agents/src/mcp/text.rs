//! What tools answer.

use std::fmt::Write as _;

use teamwire_client::{Error, v1};
use teamwire_proto::{v1::TaskStatus, word};

use crate::{agent_text::escaped, visible::shown};

/// The commands that a text may name, and the tools that do the same. The first one that fits counts.
const TOOLS: [(&str, &str); 13] = [
    ("task create", "TaskCreate"),
    ("task list", "TaskList"),
    ("task next", "TaskClaim"),
    ("task show", "TaskGet"),
    ("task claim", "TaskClaim"),
    ("plan submit", "SubmitPlan"),
    ("send", "SendMessage"),
    ("shutdown", "SendMessage"),
    ("invite", "Invite"),
    ("spawn", "Task"),
    ("hosts", "TeamStatus"),
    ("status", "TeamStatus"),
    ("doctor", "TeamStatus"),
];

/// Returns the text of a call that failed, for the agent. It may quote what someone else has written.
pub(super) fn failure(error: impl Into<Error>) -> String {
    shown(&match error.into() {
        Error::Refused(refusal) => format!("{}: {}", refusal.reason, with_tools(&refusal.message)),
        other => other.to_string(),
    })
}

/// Names tools in a text of the coordinator instead of the commands that do the same. A command for which there is no
/// tool stays.
pub(super) fn with_tools(text: &str) -> String {
    let (mut with_tools, mut rest) = (String::new(), text);
    while let Some((before, quoted)) = rest.split_once("`teamwire ")
        && let Some((command, after)) = quoted.split_once('`')
    {
        with_tools += before;
        match tool_of(command) {
            Some(tool) => with_tools += tool,
            None => _ = write!(with_tools, "`teamwire {command}`"),
        }
        rest = after;
    }
    with_tools + rest
}

fn tool_of(command: &str) -> Option<&'static str> {
    let has = |name: &str| command.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    if has("shutdown") && command.ends_with("--force") {
        return Some("ForceStop");
    }
    if has("invite") && command.contains("--host") {
        return None;
    }
    TOOLS.iter().find(|(name, _)| has(name)).map(|(_, tool)| *tool)
}

/// Returns a task on one line.
pub(super) fn task_line(task: &v1::Task) -> String {
    let status = task.status().as_str_name().trim_start_matches("TASK_STATUS_").to_ascii_lowercase();
    let mut line = format!("#{} [{status}] {}", task.id, one_line(&task.subject));
    match (task.owner.as_str(), task.status()) {
        ("", _) => {}
        (owner, TaskStatus::Pending) => _ = write!(line, " (for {owner})"),
        (owner, _) => _ = write!(line, " (by {owner})"),
    }
    if !task.waiting_for.is_empty() {
        _ = write!(line, " (blocked by {})", ids(&task.waiting_for));
    }
    line
}

/// Returns tasks' numbers, such as "#1, #2".
pub(super) fn ids(ids: &[u64]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    escaped(&word::one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_tools_if_there_are_any_for_its_commands() {
        for (text, expected) in [
            ("See `teamwire task list`.", "See TaskList."),
            ("It is in `teamwire task show 3`; or `teamwire shutdown bob --force`.", "It is in TaskGet; or ForceStop."),
            ("Ask: `teamwire shutdown bob --wait`.", "Ask: SendMessage."),
            ("Use `missing` or `teamwire inbox --ack`.", "Use `missing` or `teamwire inbox --ack`."),
            ("`teamwire invite --host`, `teamwire invite bob`", "`teamwire invite --host`, Invite"),
            ("`teamwire sending`", "`teamwire sending`"),
            ("One ` alone stays.", "One ` alone stays."),
        ] {
            assert_eq!(with_tools(text), expected);
        }
    }
}
