//! Members of a team.

use anstyle::{AnsiColor, Style};
use teamwire_proto::{
    v1::{self, MemberState},
    word,
};

use super::{dim, paint, short, table, time};

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

pub(super) fn state_style(state: MemberState) -> Style {
    match state {
        MemberState::Active => AnsiColor::Green.on_default(),
        MemberState::Idle | MemberState::Joined => AnsiColor::Cyan.on_default(),
        MemberState::Stopping => AnsiColor::Yellow.on_default(),
        MemberState::Lost => AnsiColor::Red.on_default(),
        MemberState::Exited | MemberState::Unspecified => dim(),
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
        notes.push(format!("plan awaits an answer ({})", member.pending_plan));
    } else if member.plan_required {
        notes.push("must have a plan approved".to_owned());
    }
    if !member.last_summary.is_empty() && member.exit.is_none() {
        notes.push(short(&member.last_summary, 60));
    }
    notes.join("; ")
}
