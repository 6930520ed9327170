//! Members and their exits.

use anstyle::{AnsiColor, Style};
use teamwire_proto::{
    v1::{self, MemberState},
    word,
};

use super::{
    activity::{cost, tokens},
    dim, one_line, paint, shorten, table, time,
};

/// How many characters are shown of how a turn failed.
const ERROR_CHARS_MAX: usize = 200;

/// How many characters are shown of a tool call.
const TOOL_CHARS_MAX: usize = 60;

/// Prints a table of members.
pub(crate) fn members(members: &[v1::Member]) {
    // Columns that would be empty only take room.
    let usage = |member: &v1::Member| member.total_usage.unwrap_or_default();
    let has_tokens = members.iter().any(|member| !tokens(&usage(member)).is_empty());
    let has_cost = members.iter().any(|member| !cost(&usage(member)).is_empty());
    let has_host = members.iter().any(|member| !member.spawned_on.is_empty());
    let rows = members.iter().map(|member| {
        let role = if member.role() == v1::Role::Lead { "lead" } else { "teammate" };
        let mut row = vec![
            member.name.clone(),
            role.to_owned(),
            paint(style(member), word::member_state(member.state())),
            time(member.state_since.as_ref()),
            member.inbox_depth.to_string(),
            member.incarnation.to_string(),
        ];
        row.extend(has_host.then(|| member.spawned_on.clone()));
        row.extend(has_tokens.then(|| tokens(&usage(member))));
        row.extend(has_cost.then(|| cost(&usage(member))));
        row.push(note(member));
        row
    });
    let mut headings = vec!["member", "role", "state", "since", "inbox", "life"];
    headings.extend(has_host.then_some("host"));
    headings.extend(has_tokens.then_some("tokens in/out"));
    headings.extend(has_cost.then_some("cost"));
    headings.push("note");
    table(&headings, rows.collect());
}

pub(super) fn state_style(state: MemberState) -> Style {
    match state {
        MemberState::Active => AnsiColor::Green.on_default(),
        MemberState::Idle | MemberState::Joined => AnsiColor::Cyan.on_default(),
        MemberState::Stopping | MemberState::Spawning => AnsiColor::Yellow.on_default(),
        MemberState::Lost => AnsiColor::Red.on_default(),
        MemberState::Away | MemberState::Exited | MemberState::Unspecified => dim(),
    }
}

/// Returns how the state of a member looks: like that of a lost one if its turns fail.
fn style(member: &v1::Member) -> Style {
    state_style(if member.failed_turns.is_some() { MemberState::Lost } else { member.state() })
}

/// Describes the turns of a member's program that have failed in a row.
fn failed_turns(failed: &v1::FailedTurns) -> String {
    one_line(&word::failed_turns(failed))
}

/// Says what a member's program is doing, and what keeps it from its work.
fn doing(program: &v1::Program) -> Vec<String> {
    let mut said = Vec::new();
    if program.version.contains("(tried: ") {
        said.push(one_line(&program.version));
    }
    if !program.trouble.is_empty() {
        said.push(format!("trouble: {}", shorten(&program.trouble, ERROR_CHARS_MAX)));
    }
    if !program.tool.is_empty() {
        let tool = shorten(&program.tool, TOOL_CHARS_MAX);
        said.push(format!("runs {tool} since {}", time(program.tool_since.as_ref())));
    }
    if program.turn_since.is_some() {
        said.push(format!("in a turn since {}", time(program.turn_since.as_ref())));
    }
    said
}

pub(super) fn note(member: &v1::Member) -> String {
    let mut notes = Vec::new();
    if !member.tags.is_empty() {
        notes.push(member.tags.iter().map(|tag| format!("@{tag}")).collect::<Vec<_>>().join(" "));
    }
    if let Some(failed) = &member.failed_turns {
        notes.push(format!("failing since {}: {}", time(failed.since.as_ref()), failed_turns(failed)));
    }
    if let Some(program) = &member.program {
        notes.extend(doing(program));
    }
    if let Some(exit) = &member.exit {
        notes.push(one_line(&word::exit_and_duration(exit)));
    }
    if !member.pending_shutdown.is_empty() {
        notes.push(format!("asked to shut down ({})", member.pending_shutdown));
    }
    if !member.pending_plan.is_empty() {
        notes.push(format!("plan awaits approval ({})", member.pending_plan));
    } else if member.plan_required {
        notes.push("needs an approved plan".to_owned());
    }
    match member.pending_permissions.as_slice() {
        [] => {}
        [only] => notes.push(format!("waits for permission ({only})")),
        several => notes.push(format!("waits for {} permissions", several.len())),
    }
    if !member.pending_order.is_empty() {
        notes.push(format!("has not started yet ({})", member.pending_order));
    }
    if !member.last_summary.is_empty() && member.exit.is_none() {
        notes.push(format!("{} at {}", one_line(&member.last_summary), time(member.last_summary_at.as_ref())));
    }
    notes.join("; ")
}
