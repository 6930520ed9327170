//! Values of the configuration: how they are read, bounded and written.

use std::{ops::RangeInclusive, time::Duration};

use bytesize::ByteSize;
use jiff::fmt::friendly::{SpanParser, SpanPrinter};
use toml_edit::Array;

/// What kind of value a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Texts in an array, or separated by commas.
    List,
    /// Yes or no.
    Flag,
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// A number of bytes, as "64KiB" or plain.
    Size(RangeInclusive<u64>),
    /// A time, as "30s" or "10m".
    Duration(RangeInclusive<Duration>),
}

/// A value, read and within its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
    Flag(bool),
    Number(u64),
    Duration(Duration),
}

impl Kind {
    /// Returns what the key may be, as it is written in the default file and in errors.
    pub(super) fn bounds(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Choice(of) => of.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Self::List => "an array of texts".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Number(range) => format!("{} to {}", range.start(), range.end()),
            Self::Size(range) => format!("\"{}\" to \"{}\"", write_size(*range.start()), write_size(*range.end())),
            Self::Duration(range) => {
                format!("\"{}\" to \"{}\"", write_duration(*range.start()), write_duration(*range.end()))
            }
        }
    }

    /// Reads a value as the environment and flags have it. `None`: it is none of this kind, or out of its bounds.
    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::Choice(of) => of.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::List => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Some(Value::List(parts.map(ToOwned::to_owned).collect()))
            }
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Number(range) => text.parse().ok().filter(|number| range.contains(number)).map(Value::Number),
            Self::Size(range) => {
                let size = text.parse::<ByteSize>().ok()?.as_u64();
                range.contains(&size).then_some(Value::Number(size))
            }
            Self::Duration(range) => {
                let duration = SpanParser::new().parse_unsigned_duration(text).ok()?;
                range.contains(&duration).then_some(Value::Duration(duration))
            }
        }
    }

    /// Reads a value as a file has it. `None`: it is none of this kind, or out of its bounds.
    pub(super) fn read(&self, value: &toml_edit::Value) -> Option<Value> {
        match (self, value) {
            (Self::Text | Self::Choice(_) | Self::Size(_) | Self::Duration(_), toml_edit::Value::String(text)) => {
                self.parse(text.value())
            }
            (Self::Number(_) | Self::Size(_), toml_edit::Value::Integer(number)) => {
                self.parse(&number.value().to_string())
            }
            (Self::Flag, toml_edit::Value::Boolean(flag)) => Some(Value::Flag(*flag.value())),
            (Self::List, toml_edit::Value::Array(array)) => {
                let texts = array.iter().map(|item| item.as_str().map(ToOwned::to_owned));
                Some(Value::List(texts.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    /// Writes a value as a file has it.
    pub(super) fn write(&self, value: &Value) -> toml_edit::Value {
        match value {
            Value::Text(text) => text.into(),
            Value::List(texts) => toml_edit::Value::Array(texts.iter().collect::<Array>()),
            Value::Flag(flag) => (*flag).into(),
            Value::Number(number) if matches!(self, Self::Size(_)) && number % 1_024 == 0 => write_size(*number).into(),
            // All bounds are far below.
            Value::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            Value::Duration(duration) => write_duration(*duration).into(),
        }
    }
}

fn write_duration(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// Writes a size exactly, in the largest unit that it is a whole number of.
fn write_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn seconds(range: RangeInclusive<u64>) -> Kind {
        Kind::Duration(Duration::from_secs(*range.start())..=Duration::from_secs(*range.end()))
    }

    #[test]
    fn durations_and_sizes_are_read_in_the_usual_forms_and_written_in_one() {
        for (text, written) in
            [("10min", "10m"), ("600s", "10m"), ("1h 30m", "1h 30m"), ("90m", "1h 30m"), ("1500ms", "1s 500ms")]
        {
            let kind = seconds(0..=86_400);
            let value = kind.parse(text).expect(text);
            assert_eq!(kind.write(&value).as_str(), Some(written));
            assert_eq!(kind.parse(written), Some(value), "reads back as itself");
        }
        let kind = Kind::Size(0..=1 << 40);
        for (text, bytes, written) in
            [("64KiB", 65_536, "64KiB"), ("1048576", 1 << 20, "1MiB"), ("8 MiB", 8 << 20, "8MiB")]
        {
            assert_eq!(kind.parse(text), Some(Value::Number(bytes)), "{text}");
            assert_eq!(kind.write(&Value::Number(bytes)).as_str(), Some(written));
        }
        assert_eq!(kind.write(&Value::Number(1_500)).as_integer(), Some(1_500));
    }

    #[test]
    fn what_is_out_of_its_bounds_is_no_value() {
        assert_eq!(seconds(1..=5).parse("6s"), None);
        assert_eq!(seconds(1..=5).parse("-2s"), None);
        assert_eq!(seconds(1..=5).parse("2"), None, "no unit");
        assert_eq!(Kind::Number(1..=5).parse("0"), None);
        assert_eq!(Kind::Size(1..=5).parse("1KiB"), None);
        assert_eq!(Kind::Choice(&["text", "json"]).parse("xml"), None);
        assert_eq!(Kind::Flag.parse("yes"), None);
    }
}
