//! Sessions that the model's API refuses for good, because of what is in them.

/// After how many refusals in a row a session is given up.
const IN_A_ROW: u32 = 3;

/// How many sessions in a row may be given up. By then, a message that each of them had in hand has become a dead
/// letter.
const SESSIONS_MAX: u32 = 6;

/// What APIs and programs say when a session does not fit into the model's context. They answer the same session alike,
/// however often. An error with HTTP status 400 can also mean that a key has expired or a bill is unpaid, which no new
/// session mends.
const PHRASES: [&str; 10] = [
    "prompt is too long",
    "input is too long",
    "context window",
    "context length",
    "context limit",
    "maximum context",
    "context_length_exceeded",
    "maximum number of tokens",
    "request too large",
    "request_too_large",
];

/// What to do after a turn has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Hand its prompt over again.
    Retry,
    /// Begin a new session: this one will be refused again.
    NewSession,
    /// End: new sessions are refused as well.
    Stop,
}

/// The refusals since a turn last succeeded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    in_a_row: u32,
    sessions: u32,
}

impl Refusals {
    /// Counts a turn that has failed.
    pub(crate) fn failed(&mut self, error: &str) -> Next {
        self.in_a_row = if is_refusal(error) { self.in_a_row + 1 } else { 0 };
        if self.in_a_row < IN_A_ROW {
            return Next::Retry;
        }
        self.in_a_row = 0;
        self.sessions += 1;
        if self.sessions < SESSIONS_MAX { Next::NewSession } else { Next::Stop }
    }

    /// Records that a turn has succeeded.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

/// Returns whether an error says that the session does not fit into the model's context.
fn is_refusal(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| error.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_LONG: &str = "API Error: 400 {\"type\":\"error\",\"error\":{\"message\":\"prompt is too long\"}}";

    #[test]
    fn only_what_will_be_refused_again_is_a_refusal() {
        for refused in [
            TOO_LONG,
            "Prompt is too long",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "413 {\"error\":{\"type\":\"request_too_large\"}}",
            "Conversation history too large to compact - exceeds model context limit",
            "Codex ran out of room in the model's context window.",
        ] {
            assert!(is_refusal(refused), "{refused}");
        }
        for other in
            ["API Error: 529 overloaded", "429 Too Many Requests", "401 sign in", "stream ended after 4000 ms", ""]
        {
            assert!(!is_refusal(other), "{other}");
        }
    }

    #[test]
    fn three_refusals_in_a_row_end_a_session_and_six_sessions_the_member() {
        let mut refusals = Refusals::default();
        assert_eq!(
            [TOO_LONG, TOO_LONG, "503", TOO_LONG, TOO_LONG].map(|error| refusals.failed(error)),
            [Next::Retry; 5]
        );
        assert_eq!(refusals.failed(TOO_LONG), Next::NewSession);
        refusals.succeeded();
        for session in 1..=SESSIONS_MAX {
            assert_eq!([(); 2].map(|()| refusals.failed(TOO_LONG)), [Next::Retry; 2]);
            let next = if session < SESSIONS_MAX { Next::NewSession } else { Next::Stop };
            assert_eq!(refusals.failed(TOO_LONG), next, "{session}");
        }
    }
}
