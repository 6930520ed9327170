//! Colours.

use anstyle::{AnsiColor, Style};

/// Returns a word in a colour, where the terminal has any.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Bold.
pub fn bold() -> Style {
    Style::new().bold()
}

/// In the background.
pub fn dim() -> Style {
    Style::new().dimmed()
}

/// For what needs attention.
pub fn warning() -> Style {
    AnsiColor::Yellow.on_default().bold()
}
