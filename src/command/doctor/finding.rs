//! What is found.

/// What was found.
pub(super) struct Finding {
    /// One of the classes that the help names.
    pub(super) class: &'static str,
    /// A note is no problem.
    pub(super) is_problem: bool,
    pub(super) member: String,
    pub(super) message_id: String,
    /// What is wrong, and why.
    pub(super) text: String,
    /// What to do.
    pub(super) next: String,
}

impl Finding {
    pub(super) fn problem(class: &'static str, member: &str, text: String, next: String) -> Self {
        Self { class, is_problem: true, member: member.to_owned(), message_id: String::new(), text, next }
    }

    pub(super) fn note(class: &'static str, text: String, next: String) -> Self {
        Self { is_problem: false, ..Self::problem(class, "", text, next) }
    }

    pub(super) fn about(self, message_id: &str) -> Self {
        Self { message_id: message_id.to_owned(), ..self }
    }
}
