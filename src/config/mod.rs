//! The configuration of a coordinator.
//!
//! Precedence, lowest to highest: defaults, file, environment, flags.
//!
//! `default.toml` is compiled in: it holds the defaults, documents every key, and is the template of `--print-config`.
//! [`key`] is the one table of keys, [`notify`] has those of the `[[notify]]` tables, [`value`] parses values and checks their bounds, [`document`] reads and edits
//! TOML, [`settings`] is the typed result, and [`schema`] derives the JSON Schema from the table and the default file.
//! Tests check that the file, the table and the defaults of the server's types agree.

mod document;
mod key;
mod notify;
pub(crate) mod schema;
mod settings;
mod value;

use std::{fs, path::Path};

use toml_edit::{Document, DocumentMut};

pub(crate) use self::{document::line_of, notify::Notify, settings::Settings};
use self::{
    document::{leaves, put},
    key::{KEYS, Key},
    value::{Kind, Value},
};
use crate::failure::Failure;

/// The default file.
const DEFAULT: &str = include_str!("default.toml");

/// The effective configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub settings: Settings,
    /// The default file with the effective values.
    document: DocumentMut,
}

impl Config {
    /// Loads the configuration from its four layers. `flags` are keys and their values as given.
    ///
    /// Fails on an unknown key, on a value of the wrong type or out of bounds, and on values that contradict each
    /// other; the error names the place, and the nearest known key or the bounds.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let document = DEFAULT.parse().map_err(|error| Failure::local("The default configuration is broken", error))?;
        let mut config = Self { settings: Settings::default(), document };
        config.apply_file("The default configuration", DEFAULT)?;
        if let Some(file) = file {
            let name = file.display().to_string();
            let text = fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("Cannot read the configuration {name}: {error}.")))?;
            config.apply_file(&name, &text)?;
        }
        for (variable, text) in environment {
            match KEYS.iter().find(|key| key.variable() == variable) {
                // An empty variable counts as unset.
                Some(key) if !text.is_empty() => config.apply_text(&variable, key, &text)?,
                None if key::names_a_section(&variable) => {
                    let known = KEYS.iter().map(Key::variable);
                    return Err(unknown("The environment has", &variable, "variable", known));
                }
                _ => {}
            }
        }
        for (name, text) in flags {
            if let Some(key) = KEYS.iter().find(|key| key.name == *name) {
                config.apply_text(&format!("The flag for {name}"), key, text)?;
            }
        }
        config.settings.check()?;
        Ok(config)
    }

    /// Returns the effective configuration as a TOML file, with the store's password masked.
    pub(crate) fn print(&self) -> String {
        let mut document = self.document.clone();
        put(&mut document, "store", without_password(&self.settings.store).into());
        document.to_string() + &notify::print(&self.settings.notify)
    }

    /// Applies every key of a TOML file. `name` is the file's name in errors.
    fn apply_file(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let document = Document::parse(text)
            .map_err(|error| Failure::usage(format!("{name} is not valid TOML: {}", error.to_string().trim_end())))?;
        let mut found = Vec::new();
        leaves("", document.as_table(), &mut found);
        let place_of = |start: Option<usize>| {
            start.map_or_else(|| name.to_owned(), |start| format!("{name}:{}", line_of(text, start)))
        };
        for (path, span, item) in found {
            if path.split('.').next() == Some(notify::NAME) {
                self.settings.notify = notify::read(&place_of, &document[notify::NAME])?;
                continue;
            }
            let place = place_of(span);
            let Some(key) = KEYS.iter().find(|key| key.name == path) else {
                let known = KEYS.iter().map(|key| key.name.to_owned());
                return Err(unknown(&format!("{place} has"), &path, "key", known));
            };
            let value = item.as_value().and_then(|value| key.kind.read(value));
            let given = item.to_string();
            self.apply(key, value.ok_or_else(|| out_of_bounds(&place, key.name, &key.kind, given.trim()))?);
        }
        Ok(())
    }

    /// Applies a value from the environment or a flag. `place` names its source in errors.
    fn apply_text(&mut self, place: &str, key: &Key, text: &str) -> Result<(), Failure> {
        let value =
            key.kind.parse(text).ok_or_else(|| out_of_bounds(place, key.name, &key.kind, &format!("\"{text}\"")))?;
        self.apply(key, value);
        Ok(())
    }

    fn apply(&mut self, key: &Key, value: Value) {
        put(&mut self.document, key.name, key.kind.write(&value));
        key.put(&mut self.settings, value);
    }
}

fn out_of_bounds(place: &str, key: &str, kind: &Kind, given: &str) -> Failure {
    let given = if key == "store" { "not a string" } else { given };
    Failure::usage(format!("{place}: {key} is {given}; it must be {}.", kind.bounds()))
}

fn unknown(place_has: &str, name: &str, what: &str, known: impl Iterator<Item = String>) -> Failure {
    let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or_default();
    Failure::usage(format!(
        "{place_has} an unknown {what}, {name}. Did you mean {nearest}? `teamwire serve --print-config` shows every key."
    ))
}

/// Returns a store's URL with its password masked.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user_info, place)) = rest.rsplit_once('@') else { return url.to_owned() };
    match user_info.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://***@{place}"),
    }
}

#[cfg(test)]
mod tests;
