//! Findings.

use teamwire_proto::v1::{Finding, FindingClass, Severity};

/// Makes a finding that something is wrong with a member or a host.
pub(super) fn problem(class: FindingClass, member: &str, text: String, next: String) -> Finding {
    Finding {
        class: class.into(),
        severity: Severity::Problem.into(),
        member: member.to_owned(),
        text,
        next,
        ..Finding::default()
    }
}

/// Makes a finding about something that is only worth knowing.
pub(super) fn note(class: FindingClass, member: &str, text: String, next: String) -> Finding {
    Finding { severity: Severity::Note.into(), ..problem(class, member, text, next) }
}

/// Says how many findings a reply leaves out.
pub(super) fn more(left_out: usize) -> Finding {
    let text = format!("There are {left_out} more findings.");
    note(FindingClass::More, "", text, "Ask about one member: `teamwire doctor MEMBER`.".to_owned())
}
