//! The `[[notify]]` tables: who is notified of what.

use std::{path::PathBuf, time::Duration};

use teamwire_server::{
    domain::alerts::AlertKind,
    sender::{Command, Webhook},
};
use toml_edit::Document;

use super::{
    DEFAULT, out_of_bounds, unknown,
    value::{Kind, Value},
};
use crate::failure::Failure;

/// The name of the tables.
pub(super) const NAME: &str = "notify";

/// The line of the default file at which the example of a table begins.
const EXAMPLE: &str = "\n#[[notify]]\n";

/// The keys of a table, in the order of the default file.
pub(super) const KEYS: [(&str, Kind); 9] = [
    ("events", Kind::List),
    ("after", Kind::Duration(Duration::ZERO..=Duration::from_hours(24))),
    ("to", Kind::Text),
    ("secret_file", Kind::Text),
    ("secret_env", Kind::Text),
    ("allow_private", Kind::Flag),
    ("exec", Kind::List),
    ("timeout", Kind::Duration(Duration::from_secs(1)..=Duration::from_mins(1))),
    ("content", Kind::Flag),
];

/// A `[[notify]]` table. `default.toml` documents the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notify {
    pub events: Vec<String>,
    pub after: Duration,
    pub to: String,
    pub secret_file: Option<PathBuf>,
    pub secret_env: String,
    pub allow_private: bool,
    pub exec: Vec<String>,
    pub timeout: Duration,
    pub content: bool,
    /// Where the table is, for errors.
    pub place: String,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            after: Duration::from_mins(1),
            to: String::new(),
            secret_file: None,
            secret_env: String::new(),
            allow_private: false,
            exec: Vec::new(),
            timeout: Duration::from_secs(10),
            content: false,
            place: String::new(),
        }
    }
}

/// Returns the example of the default file, as TOML.
pub(super) fn example() -> String {
    let (_, example) = DEFAULT.split_once(EXAMPLE).expect("the default file has an example");
    let lines = example.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    lines.fold("[[notify]]\n".to_owned(), |text, line| text + line + "\n")
}

/// Names the place of an offset in a file, for errors.
type Place<'p> = &'p dyn Fn(Option<usize>) -> String;

/// Reads the tables of a file.
pub(super) fn read(place: Place<'_>, item: &toml_edit::Item) -> Result<Vec<Notify>, Failure> {
    let tables = item.as_array_of_tables().ok_or_else(|| {
        let place = place(item.span().map(|span| span.start));
        Failure::usage(format!("{place}: notify must be a table for each receiver, which begins with [[notify]]."))
    })?;
    tables.iter().map(|table| Notify::read(place, table)).collect()
}

/// Writes the tables as a file has them, for the printed configuration.
pub(super) fn print(tables: &[Notify]) -> String {
    let mut text = String::new();
    for table in tables {
        text += "\n[[notify]]\n";
        for (name, kind) in &KEYS {
            text += &format!("{name} = {}\n", kind.write(&table.get(name)));
        }
    }
    text
}

impl Notify {
    fn read(place: Place<'_>, table: &toml_edit::Table) -> Result<Self, Failure> {
        let begin = place(table.span().map(|span| span.start));
        let mut read = Self { place: begin, ..Self::default() };
        for (key, item) in table.iter() {
            let at = place(table.key(key).and_then(toml_edit::Key::span).map(|span| span.start));
            let Some((_, kind)) = KEYS.iter().find(|(known, _)| *known == key) else {
                let known = KEYS.iter().map(|(known, _)| format!("notify.{known}"));
                return Err(unknown(&format!("{at} has"), &format!("notify.{key}"), "key", known));
            };
            let value = item.as_value().and_then(|value| kind.read(value));
            let given = item.to_string();
            read.put(key, value.ok_or_else(|| out_of_bounds(&at, &format!("notify.{key}"), kind, given.trim()))?);
        }
        read.check()?;
        Ok(read)
    }

    fn put(&mut self, key: &str, value: Value) {
        match (key, value) {
            ("events", Value::List(events)) => self.events = events,
            ("after", Value::Duration(after)) => self.after = after,
            ("to", Value::Text(to)) => self.to = to,
            ("secret_file", Value::Text(file)) => self.secret_file = (!file.is_empty()).then(|| file.into()),
            ("secret_env", Value::Text(variable)) => self.secret_env = variable,
            ("allow_private", Value::Flag(allow)) => self.allow_private = allow,
            ("exec", Value::List(words)) => self.exec = words,
            ("timeout", Value::Duration(timeout)) => self.timeout = timeout,
            ("content", Value::Flag(content)) => self.content = content,
            // Each key's kind parses values of one type.
            _ => {}
        }
    }

    fn get(&self, key: &str) -> Value {
        match key {
            "events" => Value::List(self.events.clone()),
            "after" => Value::Duration(self.after),
            "to" => Value::Text(self.to.clone()),
            "secret_file" => {
                Value::Text(self.secret_file.as_ref().map(|file| file.display().to_string()).unwrap_or_default())
            }
            "secret_env" => Value::Text(self.secret_env.clone()),
            "allow_private" => Value::Flag(self.allow_private),
            "exec" => Value::List(self.exec.clone()),
            "timeout" => Value::Duration(self.timeout),
            _ => Value::Flag(self.content),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        let wrong = |text: String| Err(Failure::usage(format!("{}: {text}", self.place)));
        let known = || teamwire_server::domain::alerts::KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>();
        if let Some(other) = self.events.iter().find(|event| AlertKind::named(event).is_none()) {
            return wrong(format!("notify.events has \"{other}\"; it can have \"{}\".", known().join("\", \"")));
        }
        if self.events.is_empty() {
            return wrong(format!("notify.events is missing; it can have \"{}\".", known().join("\", \"")));
        }
        if self.to.is_empty() == self.exec.is_empty() {
            return wrong("[[notify]] needs either to, a URL, or exec, a program. Set one of them.".to_owned());
        }
        let has_file = self.secret_file.is_some();
        if self.to.is_empty() {
            if has_file || !self.secret_env.is_empty() || self.allow_private {
                return wrong("notify.secret_file, secret_env and allow_private are for to, not for exec.".to_owned());
            }
            if Command::new(&self.exec).is_none() {
                return wrong("notify.exec must begin with the name or the path of a program.".to_owned());
            }
            return Ok(());
        }
        if has_file != self.secret_env.is_empty() {
            return wrong("notify.to needs a secret. Set either secret_file or secret_env.".to_owned());
        }
        match Webhook::new(&self.to, &[], self.allow_private) {
            Ok(_) => Ok(()),
            Err(why) => wrong(format!("notify.to {why}.")),
        }
    }
}

/// Returns the table of the example, which documents every key.
pub(super) fn documented<T>(read: impl FnOnce(&toml_edit::Table) -> T) -> T {
    let example = example();
    let document = Document::parse(example.as_str()).expect("the example is valid TOML").into_mut();
    let tables = document[NAME].as_array_of_tables().expect("the example is a table of notify");
    read(tables.get(0).expect("the example has one table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_every_key_with_its_default_and_bounds() {
        documented(|table| {
            let found: Vec<&str> = table.iter().map(|(key, _)| key).collect();
            assert_eq!(found, KEYS.map(|(key, _)| key));
            let default = Notify::default();
            for (key, kind) in &KEYS {
                // The example has all events.
                if *key != "events" {
                    assert_eq!(kind.read(table[key].as_value().unwrap()), Some(default.get(key)), "{key}");
                }
                let comment = table.key(key).unwrap().leaf_decor().prefix().unwrap().as_str().unwrap().to_owned();
                let comment = comment.replace("\n# ", " ");
                if let Kind::Duration(_) = kind {
                    assert!(comment.contains(&kind.bounds()), "{key}: {} is missing from {comment}", kind.bounds());
                }
            }
        });
    }
}
