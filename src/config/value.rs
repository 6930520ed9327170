//! Parses, bounds and prints configuration values.

use std::{ops::RangeInclusive, time::Duration};

use bytesize::ByteSize;
use jiff::fmt::friendly::{SpanParser, SpanPrinter};
use toml_edit::Array;

/// The type and bounds of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A string.
    Text,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An array of strings; separated by commas in the environment and flags.
    List,
    /// A boolean.
    Flag,
    /// An integer.
    Number(RangeInclusive<u64>),
    /// A number of bytes, such as "64KiB" or 65536.
    Size(RangeInclusive<u64>),
    /// A duration, such as "30s" or "10m".
    Duration(RangeInclusive<Duration>),
}

/// A parsed value within its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
    Flag(bool),
    Number(u64),
    Duration(Duration),
}

impl Kind {
    /// Describes the valid values, as in the default file and in errors.
    pub(super) fn bounds(&self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Choice(of) => of.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Self::List => "an array of strings".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Number(range) => format!("{} to {}", range.start(), range.end()),
            Self::Size(range) => format!("\"{}\" to \"{}\"", write_size(*range.start()), write_size(*range.end())),
            Self::Duration(range) => {
                format!("\"{}\" to \"{}\"", write_duration(*range.start()), write_duration(*range.end()))
            }
        }
    }

    /// Parses a value from the environment or a flag. `None` if it has the wrong type or is out of bounds.
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

    /// Parses a value from a TOML file. `None` if it has the wrong type or is out of bounds.
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

    /// Formats a value for a TOML file.
    pub(super) fn write(&self, value: &Value) -> toml_edit::Value {
        match value {
            Value::Text(text) => text.into(),
            Value::List(texts) => toml_edit::Value::Array(texts.iter().collect::<Array>()),
            Value::Flag(flag) => (*flag).into(),
            Value::Number(number) if matches!(self, Self::Size(_)) && number % 1_024 == 0 => write_size(*number).into(),
            // Every bound is far below `i64::MAX`.
            Value::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            Value::Duration(duration) => write_duration(*duration).into(),
        }
    }
}

fn write_duration(duration: Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// Formats a size exactly, in the largest unit that divides it.
fn write_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(range: RangeInclusive<u64>) -> Kind {
        Kind::Duration(Duration::from_secs(*range.start())..=Duration::from_secs(*range.end()))
    }

    #[test]
    fn durations_and_sizes_parse_in_several_forms_and_print_in_one() {
        for (text, written) in
            [("10min", "10m"), ("600s", "10m"), ("1h 30m", "1h 30m"), ("90m", "1h 30m"), ("1500ms", "1s 500ms")]
        {
            let kind = seconds(0..=86_400);
            let value = kind.parse(text).expect(text);
            assert_eq!(kind.write(&value).as_str(), Some(written));
            assert_eq!(kind.parse(written), Some(value), "parses back to the same value");
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
    fn values_out_of_bounds_are_refused() {
        assert_eq!(seconds(1..=5).parse("6s"), None);
        assert_eq!(seconds(1..=5).parse("-2s"), None);
        assert_eq!(seconds(1..=5).parse("2"), None, "no unit");
        assert_eq!(Kind::Number(1..=5).parse("0"), None);
        assert_eq!(Kind::Size(1..=5).parse("1KiB"), None);
        assert_eq!(Kind::Choice(&["text", "json"]).parse("xml"), None);
        assert_eq!(Kind::Flag.parse("yes"), None);
    }
}
