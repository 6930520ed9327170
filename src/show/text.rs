//! Text and times, as they are printed.

use jiff::{Timestamp, Zoned, tz::TimeZone};

/// Returns text without anything that could steer a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Returns text as one line of at most `max` characters.
pub fn short(text: &str, max: usize) -> String {
    let one_line: String = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= max {
        return one_line;
    }
    one_line.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

/// Returns an instant in local form: the time, with the date unless it is today.
pub fn time(at: Option<&prost_types::Timestamp>) -> String {
    let Some(zoned) = local(at) else { return "-".to_owned() };
    let form = if zoned.date() == Zoned::now().date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    zoned.strftime(form).to_string()
}

/// Returns an instant in local form, with the date.
pub(super) fn date_and_time(at: Option<&prost_types::Timestamp>) -> String {
    local(at).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Returns an instant in local form, to the millisecond.
pub(super) fn precise(at: &prost_types::Timestamp) -> String {
    local(Some(at)).map_or_else(|| "-".to_owned(), |zoned| zoned.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

fn local(at: Option<&prost_types::Timestamp>) -> Option<Zoned> {
    let at = at?;
    Some(Timestamp::new(at.seconds, at.nanos).ok()?.to_zoned(TimeZone::system()))
}
