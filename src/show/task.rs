//! Tasks.

use anstyle::{AnsiColor, Style};
use teamwire_proto::v1::{self, TaskStatus};

use super::{bold, dim, one_line, paint, plain, shorten, table, time};

/// Prints a table of tasks.
pub(crate) fn tasks(tasks: &[v1::Task]) {
    let rows = tasks.iter().map(|task| {
        vec![
            task.id.to_string(),
            paint(task_style(task), task_status(task.status())),
            task.owner.clone(),
            ids(&task.waiting_for),
            time(task.updated_at.as_ref()),
            one_line(&task.subject),
        ]
    });
    table(&["task", "status", "owner", "blocked by", "updated", "subject"], rows.collect());
}

/// Prints a task on one line, as `task list --follow` shows changes.
pub(crate) fn task_line(task: &v1::Task) {
    let owner = match (task.owner.as_str(), task.status()) {
        ("", _) => String::new(),
        (owner, TaskStatus::Pending) => format!(" for {owner}"),
        (owner, _) => format!(" by {owner}"),
    };
    let waits =
        if task.waiting_for.is_empty() { String::new() } else { format!(", blocked by {}", ids(&task.waiting_for)) };
    anstream::println!(
        "{} {} {}{owner}{waits}: {}",
        paint(dim(), time(task.updated_at.as_ref())),
        paint(bold(), task.id),
        paint(task_style(task), task_status(task.status())),
        shorten(&task.subject, 100)
    );
}

/// Prints a task in full.
pub(crate) fn task(task: &v1::Task) {
    task_line(task);
    let mut facts = Vec::new();
    let by = task.created_by.as_ref().map_or("?", |sender| sender.name.as_str());
    facts.push(format!("created by {by} {}", time(task.created_at.as_ref())));
    if task.attempts > 0 {
        facts.push(format!("attempt {}", task.attempts));
    }
    if !task.blocked_by.is_empty() {
        facts.push(format!("blocked by {}", ids(&task.blocked_by)));
    }
    if !task.blocks.is_empty() {
        facts.push(format!("blocks {}", ids(&task.blocks)));
    }
    if !task.paths.is_empty() {
        let paths: Vec<String> = task.paths.iter().map(|path| plain(path)).collect();
        facts.push(format!("changes {}{}", paths.join(", "), if task.exclusive { " exclusively" } else { "" }));
    }
    if !task.reviewer.is_empty() {
        let merges = if task.merge_on_approval { ", to be merged once approved" } else { "" };
        facts.push(format!("reviewed by {}{merges}", task.reviewer));
    }
    if !task.commit.is_empty() {
        facts.push(format!("commit {}", plain(&task.commit)));
    }
    if let Some(expires_at) = &task.claim_expires_at {
        facts.push(format!("claim expires {}", time(Some(expires_at))));
    }
    if let Some(released_at) = &task.released_at {
        let why = if task.released_because.is_empty() { "" } else { ": " };
        facts.push(format!("back on the board {}{why}{}", time(Some(released_at)), plain(&task.released_because)));
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

fn task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Unspecified => "unknown",
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "in progress",
        TaskStatus::InReview => "in review",
        TaskStatus::Completed => "completed",
        TaskStatus::Deleted => "deleted",
    }
}

fn task_style(task: &v1::Task) -> Style {
    match task.status() {
        TaskStatus::Pending if !task.waiting_for.is_empty() => dim(),
        TaskStatus::Pending => AnsiColor::Cyan.on_default(),
        TaskStatus::InProgress => AnsiColor::Green.on_default(),
        TaskStatus::InReview => AnsiColor::Yellow.on_default(),
        TaskStatus::Completed | TaskStatus::Deleted | TaskStatus::Unspecified => dim(),
    }
}

fn ids(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
