//! Text and timestamps for display.

use jiff::{Timestamp, Zoned, tz::TimeZone};
pub(crate) use teamwire_agents::visible::shown as plain;
use teamwire_proto::word;
pub(crate) use teamwire_proto::word::count;

/// Joins the lines and words of a text with single spaces, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    word::one_line(&plain(text))
}

/// Returns a text as one line of at most `max` characters, with an ellipsis if it was longer.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    word::shorten(&plain(text), max)
}

/// Returns the beginning of an id, long enough to type instead of it.
pub(crate) fn short_id(id: &str) -> String {
    id.chars().take(12).collect()
}

/// Writes a number of bytes in its largest useful unit: `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    bytesize::ByteSize(bytes).to_string()
}

/// Formats a timestamp in local time; omits the date if it is today. `-` if there is none.
pub(crate) fn time(at: Option<&prost_types::Timestamp>) -> String {
    let Some(zoned) = local(at) else { return "-".to_owned() };
    let form = if zoned.date() == Zoned::now().date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    zoned.strftime(form).to_string()
}

/// Formats a timestamp in local time with the date. `-` if there is none.
pub(super) fn date_and_time(at: Option<&prost_types::Timestamp>) -> String {
    local(at).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Formats a timestamp in local time with the date, to the millisecond. `-` if there is none.
pub(super) fn precise(at: Option<&prost_types::Timestamp>) -> String {
    local(at).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

fn local(at: Option<&prost_types::Timestamp>) -> Option<Zoned> {
    let at = at?;
    Some(Timestamp::new(at.seconds, at.nanos).ok()?.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_before_they_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[2J\u{85}\tb\nc"), "a\\u{1b}[2J\\u{85}\tb\nc");
        assert_eq!(plain("\u{202e}x\u{e0041} ❤\u{fe0f}"), "\\u{202e}x\\u{e0041} ❤\u{fe0f}");
        assert_eq!(one_line("a\u{2028}b\n c"), "a\\u{2028}b c");
    }
}
