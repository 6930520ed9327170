//! Colors and text styles.

use anstyle::{AnsiColor, Style};

/// Wraps text in a style; `anstream` removes it where the output is not a terminal.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the style for names.
pub(crate) fn bold() -> Style {
    Style::new().bold()
}

/// Returns the style for secondary details, such as ids and times.
pub(crate) fn dim() -> Style {
    Style::new().dimmed()
}

/// Prints a warning to standard error.
pub(crate) fn warn(text: &str) {
    anstream::eprintln!("{} {text}", paint(warning(), "warning:"));
}

/// Returns the style for problems.
pub(crate) fn warning() -> Style {
    AnsiColor::Yellow.on_default().bold()
}
