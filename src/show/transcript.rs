//! Transcripts of agents.

use teamwire_client::v1::{self, TranscriptKind};

use super::{bold, count, dim, one_line, paint, plain, time, usage, warning};

/// How many lines of a prompt or a result are shown unless it is to be shown whole.
const FOLDED_LINES: usize = 8;

/// Prints where a turn begins. `is_next`: whether something was printed before.
pub(crate) fn transcript_turn(entry: &v1::TranscriptEntry, is_next: bool) {
    if is_next {
        anstream::println!();
    }
    let title = format!("--- turn {} of life {} ---", entry.turn, entry.incarnation);
    anstream::println!("{}", paint(dim(), title));
}

/// Prints an entry: what it is, and its text below.
pub(crate) fn transcript_entry(entry: &v1::TranscriptEntry, full: bool) {
    let at = paint(dim(), format!("[{}]", time(entry.at.as_ref())));
    let is_folded = !full && entry.kind() != TranscriptKind::Text;
    let text = if is_folded { folded(&entry.text) } else { entry.text.trim_end().to_owned() };
    match entry.kind() {
        TranscriptKind::Runner => return anstream::println!("{at} {}", paint(dim(), plain(&text))),
        TranscriptKind::TurnEnded => {
            let used = entry.usage.as_ref().map(|used| format!(", {}", usage(used))).unwrap_or_default();
            let why = if text.is_empty() { String::new() } else { format!(" early: {}", one_line(&text)) };
            return anstream::println!("{at} {}", paint(dim(), format!("the turn ended{why}{used}")));
        }
        TranscriptKind::Prompt => anstream::println!("{at} {}", paint(bold(), "given")),
        TranscriptKind::Text => anstream::println!("{at} {}", paint(bold(), "wrote")),
        TranscriptKind::ToolCall => anstream::println!("{at} {} {}", paint(bold(), "calls"), one_line(&entry.tool)),
        TranscriptKind::ToolResult if entry.failed => anstream::println!("{at} {}", paint(warning(), "failed")),
        TranscriptKind::ToolResult => anstream::println!("{at} {}", paint(bold(), "result")),
        TranscriptKind::Unspecified => anstream::println!("{at}"),
    }
    for line in text.lines() {
        anstream::println!("    {}", plain(line));
    }
}

/// Returns the first lines of a text, and how many more there are.
fn folded(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    match lines.len().checked_sub(FOLDED_LINES) {
        // A line in place of one line saves nothing.
        None | Some(0 | 1) => lines.join("\n"),
        Some(more) => format!("{}\n[{} more; --full]", lines[..FOLDED_LINES].join("\n"), count(more as u64, "line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_folded_and_says_how_much_is_left() {
        let lines = |number: usize| vec!["x"; number].join("\n");
        assert_eq!(folded(&lines(9)), lines(9));
        assert_eq!(folded(&lines(20)), format!("{}\n[12 lines more; --full]", lines(8)));
    }
}
