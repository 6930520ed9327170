//! The output of `up` and `down`: a line for each thing that they do.

use anstyle::AnsiColor;
use serde_json::json;

use crate::show::{self, dim, paint};

/// Prints lines for a person, or JSON for a program.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct Report {
    pub(in crate::command) json: bool,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Outcome {
    /// The command would do it.
    Planned,
    Done,
    /// It is as it should be.
    Kept,
    /// It is not as it should be, and stays.
    Differs,
    Failed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Done => "done",
            Self::Kept => "kept",
            Self::Differs => "differs",
            Self::Failed => "failed",
        }
    }
}

impl Report {
    /// Prints a line. `what`: the kind of thing, such as `member`; `name`: which one.
    pub(in crate::command) fn line(self, what: &str, name: &str, outcome: Outcome, text: &str) {
        if self.json {
            show::line(&json!({ "what": what, "name": name, "outcome": outcome.word(), "text": text }));
            return;
        }
        let text = show::plain(text);
        match outcome {
            Outcome::Planned | Outcome::Done => anstream::println!("{text}"),
            Outcome::Kept => anstream::println!("{}", paint(dim(), text)),
            Outcome::Differs => anstream::println!("{} {text}", paint(show::warning(), "differs:")),
            Outcome::Failed => anstream::println!("{} {text}", paint(AnsiColor::Red.on_default().bold(), "failed:")),
        }
    }

    /// Prints text for a person only.
    pub(in crate::command) fn text(self, text: &str) {
        if !self.json {
            anstream::println!("{text}");
        }
    }
}
