//! Members and their exits.

use anstyle::{AnsiColor, Style};
use teamwire_proto::{
    v1::{self, MemberState},
    word,
};

use super::{dim, one_line, paint, plain, table, time};

/// Prints a table of members.
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

/// Describes how a process ended: its exit code or signal, and how long it ran.
pub fn exit_text(exit: &v1::ExitReport) -> String {
    let mut text = match (exit.code, exit.signal) {
        (_, signal) if signal > 0 => format!("ended by signal {signal}"),
        (Some(code), _) => format!("exit code {code}"),
        (None, _) if !exit.detail.is_empty() => plain(&exit.detail),
        (None, _) => "exit not reported".to_owned(),
    };
    if let Some(duration) = exit.duration.and_then(|duration| std::time::Duration::try_from(duration).ok()) {
        text.push_str(&format!(" after {:.1} s", duration.as_secs_f64()));
    }
    text
}

pub(super) fn state_style(state: MemberState) -> Style {
    match state {
        MemberState::Active => AnsiColor::Green.on_default(),
        MemberState::Idle | MemberState::Joined => AnsiColor::Cyan.on_default(),
        MemberState::Stopping => AnsiColor::Yellow.on_default(),
        MemberState::Lost => AnsiColor::Red.on_default(),
        MemberState::Away | MemberState::Exited | MemberState::Unspecified => dim(),
    }
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
        notes.push(format!("plan awaits approval ({})", member.pending_plan));
    } else if member.plan_required {
        notes.push("needs an approved plan".to_owned());
    }
    if !member.last_summary.is_empty() && member.exit.is_none() {
        notes.push(one_line(&member.last_summary));
    }
    notes.join("; ")
}
