//! Checks of texts that callers write: contents, summaries, single lines.

use teamwire_proto::{Reason, Refusal, visible::is_visible};

use super::limits::Limits;

/// Whether a text may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Required {
    Yes,
    No,
}

/// Returns the first characters of a text.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

/// Lists items in a text; if there are more than `max`, only the first.
pub(super) fn enumerate<T: ToString>(items: &[T], max: usize) -> String {
    let list = items.iter().take(max).map(T::to_string).collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(max) {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

/// Checks the content of a message.
pub(super) fn check_content(text: &str, required: Required, limits: &Limits) -> Result<(), Refusal> {
    if text.is_empty() && required == Required::Yes {
        return Err(Refusal::new(
            Reason::MissingContent,
            "The content is empty. Say what the recipient needs to know.",
        )
        .field("content"));
    }
    check_size(text, "content", limits)
}

/// Checks that a text is within the bound of contents.
pub(super) fn check_size(text: &str, field: &str, limits: &Limits) -> Result<(), Refusal> {
    let max = limits.content_bytes_max;
    if text.len() > max {
        return Err(Refusal::new(
            Reason::ContentTooLarge,
            format!(
                "The content has {} bytes; the limit is {max}. Put it somewhere both of you can reach, and attach its \
                 address.",
                text.len()
            ),
        )
        .field(field)
        .with("bytes_max", max.to_string()));
    }
    Ok(())
}

/// Checks a summary. Returns it without leading and trailing spaces.
pub(super) fn summary(text: &str, required: Required, limits: &Limits) -> Result<String, Refusal> {
    let trimmed = text.trim_matches(' ');
    let is_given = !trimmed.is_empty() || required == Required::Yes;
    if is_given && !is_visible(trimmed) {
        return Err(Refusal::new(
            Reason::MissingSummary,
            "A summary with visible characters is required: one line, ideally 5 to 10 words, shown as a preview.",
        )
        .field("summary"));
    }
    check_line(trimmed, "summary", Reason::InvalidSummary, limits)?;
    Ok(trimmed.to_owned())
}

/// Checks the name of a tool. Returns it without leading and trailing spaces.
pub(super) fn tool(text: &str, limits: &Limits) -> Result<String, Refusal> {
    let trimmed = text.trim_matches(' ');
    if !is_visible(trimmed) {
        let message = "Name the tool that you want to use, such as Bash, with visible characters.";
        return Err(Refusal::new(Reason::InvalidField, message).field("tool"));
    }
    check_line(trimmed, "tool", Reason::InvalidField, limits)?;
    Ok(trimmed.to_owned())
}

/// Checks that a text is a single line within the bound of summaries.
pub(super) fn check_line(text: &str, field: &str, reason: Reason, limits: &Limits) -> Result<(), Refusal> {
    let max = limits.summary_chars_max;
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.chars().any(breaks) || text.chars().count() > max {
        return Err(Refusal::new(
            reason,
            format!("{field} must be a single line of up to {max} characters, without control characters."),
        )
        .field(field));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_invisible_characters_is_refused() {
        let limits = Limits::default();
        for text in [
            "\u{200b}",
            "\u{200d}\u{2060}\u{feff}",
            "\u{a0} \u{3000}",
            "\u{ad}",
            "\u{e0041}",
            "\u{202e}",
            "\u{3164}",
            "\u{2800}\u{115f}\u{1160}\u{ffa0}\u{1d159}",
        ] {
            for required in [Required::Yes, Required::No] {
                let refusal = summary(text, required, &limits).expect_err(text);
                assert_eq!(refusal.reason, Reason::MissingSummary, "{text:?}");
            }
        }
        for text in ["a", "\u{200b}a", "完了", "👍", "é"] {
            assert_eq!(summary(text, Required::Yes, &limits).as_deref(), Ok(text));
        }
        assert_eq!(summary(" ", Required::No, &limits).as_deref(), Ok(""));
    }
}
