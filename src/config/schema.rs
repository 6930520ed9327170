//! The JSON Schema of the configuration file, for editors that check and complete TOML.
//!
//! Derived from the table of keys and from the comments and values of the default file, so there is nothing to keep in
//! sync.

use serde_json::{Map, Value, json};
use teamwire_server::domain::alerts::KINDS;
use toml_edit::DocumentMut;

use super::{DEFAULT, key::KEYS, notify, value::Kind};

/// Returns the JSON Schema of the configuration file.
pub(crate) fn schema() -> Value {
    let document: DocumentMut = DEFAULT.parse().expect("the default file is valid TOML");
    let mut properties = Map::new();
    for key in KEYS {
        let (section, name) = key.path();
        match section {
            None => {
                properties.insert(name.to_owned(), property(name, &key.kind, document.as_table()));
            }
            Some(section) => {
                let table = document[section].as_table().expect("the default file has every section");
                let object = properties
                    .entry(section)
                    .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
                object["properties"][name] = property(name, &key.kind, table);
            }
        }
    }
    properties.insert(notify::NAME.to_owned(), notify::documented(notify_property));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of `teamwire serve`",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Describes the `[[notify]]` tables.
fn notify_property(table: &toml_edit::Table) -> Value {
    let mut properties = Map::new();
    for (name, kind) in &notify::KEYS {
        let mut property = property(name, kind, table);
        if *name == "events" {
            property["items"] = json!({ "enum": KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>() });
            property.as_object_mut().map(|object| object.remove("default"));
        }
        properties.insert((*name).to_owned(), property);
    }
    json!({
        "type": "array",
        "description": "The servers and programs that are notified when something waits for a person.",
        "items": { "type": "object", "additionalProperties": false, "required": ["events"], "properties": properties },
    })
}

fn property(name: &str, kind: &Kind, table: &toml_edit::Table) -> Value {
    let mut property = match kind {
        Kind::Text | Kind::Duration(_) => json!({ "type": "string" }),
        Kind::Choice(of) => json!({ "enum": of }),
        Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Number(range) => json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }),
        Kind::Size(range) => json!({
            "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": range.start(), "maximum": range.end() }],
        }),
    };
    let (written, item) = table.get_key_value(name).expect("the default file has every key");
    let comment = written.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    property["description"] = description(comment).into();
    property["default"] = match item.as_value() {
        Some(toml_edit::Value::Boolean(flag)) => (*flag.value()).into(),
        Some(toml_edit::Value::Integer(number)) => (*number.value()).into(),
        Some(toml_edit::Value::String(text)) => text.value().as_str().into(),
        // Every list is empty by default.
        _ => json!([]),
    };
    property
}

/// Returns the last paragraph of a key's comment as one line; the paragraphs before it belong to the file or the
/// section.
fn description(comment: &str) -> String {
    let paragraph = comment.trim().rsplit("\n\n").next().unwrap_or_default();
    paragraph.lines().map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ")
}
