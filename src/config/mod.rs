//! The configuration of a coordinator: the defaults, then a file, then the environment, then flags.
//!
//! `default.toml` is part of the program: it holds the defaults, explains every key, and is the form in which the
//! configuration is printed. [`key`] is the table of keys, [`value`] reads and bounds what they hold, [`document`]
//! finds and changes them in a file, [`settings`] is what comes of it. Tests see to it that file, table and the defaults
//! of the coordinator's types say the same.

mod document;
mod key;
mod settings;
mod value;

use std::{fs, path::Path};

use toml_edit::{Document, DocumentMut};

pub use self::settings::Settings;
use self::{
    document::{leaves, line_of, put},
    key::{KEYS, Key},
    value::Value,
};
use crate::failure::Failure;

/// The defaults.
const DEFAULT: &str = include_str!("default.toml");

/// The configuration that holds.
#[derive(Debug)]
pub struct Config {
    pub settings: Settings,
    /// The default file with all values that hold.
    document: DocumentMut,
}

impl Config {
    /// Puts the configuration together. `flags`: keys and their values as they were typed.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<Self, Failure> {
        let document = DEFAULT.parse().map_err(|error| Failure::local("the default configuration is broken", error))?;
        let mut config = Self { settings: Settings::default(), document };
        config.take_file("the default configuration", DEFAULT)?;
        if let Some(file) = file {
            let name = file.display().to_string();
            let text = fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("The configuration {name} cannot be read: {error}.")))?;
            config.take_file(&name, &text)?;
        }
        for (variable, text) in environment {
            match KEYS.iter().find(|key| key.variable() == variable) {
                // An empty variable is one that is not set.
                Some(key) if !text.is_empty() => config.take_text(&variable, key, &text)?,
                None if key::is_of_a_section(&variable) => {
                    let known = KEYS.iter().map(Key::variable);
                    return Err(unknown("The environment has", &variable, "variable", known));
                }
                _ => {}
            }
        }
        for (name, text) in flags {
            if let Some(key) = KEYS.iter().find(|key| key.name == *name) {
                config.take_text(&format!("The flag for {name}"), key, text)?;
            }
        }
        config.settings.check()?;
        Ok(config)
    }

    /// Returns the configuration as a file that comes to the same, without the store's password.
    pub fn print(&self) -> String {
        let mut document = self.document.clone();
        put(&mut document, "store", without_password(&self.settings.store).into());
        document.to_string()
    }

    fn take_file(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let document = Document::parse(text)
            .map_err(|error| Failure::usage(format!("{name} is not TOML: {}", error.to_string().trim_end())))?;
        let mut found = Vec::new();
        leaves("", document.as_table(), &mut found);
        for (path, span, item) in found {
            let place = span.map_or_else(|| name.to_owned(), |start| format!("{name}:{}", line_of(text, start)));
            let Some(key) = KEYS.iter().find(|key| key.name == path) else {
                let known = KEYS.iter().map(|key| key.name.to_owned());
                return Err(unknown(&format!("{place} has"), &path, "key", known));
            };
            let value = item.as_value().and_then(|value| key.kind.read(value));
            let given = item.to_string();
            self.take(key, value.ok_or_else(|| out_of_bounds(&place, key, given.trim()))?);
        }
        Ok(())
    }

    fn take_text(&mut self, place: &str, key: &Key, text: &str) -> Result<(), Failure> {
        let value = key.kind.parse(text).ok_or_else(|| out_of_bounds(place, key, &format!("\"{text}\"")))?;
        self.take(key, value);
        Ok(())
    }

    fn take(&mut self, key: &Key, value: Value) {
        put(&mut self.document, key.name, key.kind.write(&value));
        key.put(&mut self.settings, value);
    }
}

fn out_of_bounds(place: &str, key: &Key, given: &str) -> Failure {
    let given = if key.name == "store" { "something else" } else { given };
    Failure::usage(format!("{place}: {} is {given}; it must be {}.", key.name, key.kind.bounds()))
}

fn unknown(place_has: &str, name: &str, what: &str, known: impl Iterator<Item = String>) -> Failure {
    let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, name)).unwrap_or_default();
    Failure::usage(format!(
        "{place_has} the unknown {what} {name}. Did you mean {nearest}? `teamwire serve --print-config` shows all keys."
    ))
}

/// Returns a store's URL with its password blanked.
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
