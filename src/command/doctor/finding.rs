//! Findings.

/// A finding of the doctor.
pub(super) struct Finding {
    /// The class, as in `--help`: `not_queued`, `not_delivered`, `not_acknowledged`, `not_exited`, `plan_unanswered`,
    /// `lost`, `failed`, `failing`, `troubled`, `not_started`, `host_lost`, `setup_outdated`, `store_refuses_writes`,
    /// `quota_exceeded`; for notes also `unread`, `dead_letter`, `no_profile`, `delete_blocked`, `quota_nearly_used`,
    /// `untried_version` and `more`.
    pub(super) class: &'static str,
    /// False for a note, which does not change the exit code.
    pub(super) is_problem: bool,
    pub(super) member: String,
    pub(super) message_id: String,
    /// What is wrong and why.
    pub(super) text: String,
    /// What to do next.
    pub(super) next: String,
}

impl Finding {
    pub(super) fn problem(class: &'static str, member: &str, text: String, next: String) -> Self {
        Self { class, is_problem: true, member: member.to_owned(), message_id: String::new(), text, next }
    }

    pub(super) fn note(class: &'static str, text: String, next: String) -> Self {
        Self { is_problem: false, ..Self::problem(class, "", text, next) }
    }

    /// Returns the name of its severity.
    pub(super) fn severity(&self) -> &'static str {
        if self.is_problem { "problem" } else { "note" }
    }

    /// Says which member the finding concerns.
    pub(super) fn of(self, member: &str) -> Self {
        Self { member: member.to_owned(), ..self }
    }

    /// Says which message the finding concerns.
    pub(super) fn about(self, message_id: &str) -> Self {
        Self { message_id: message_id.to_owned(), ..self }
    }
}
