//! The fields of a JSON object, read strictly.

use serde_json::{Map, Value};

use crate::{Reason, Refusal};

/// Words that people use for a field whose name is not similar.
const OTHER_WORDS: [(&str, &str); 12] = [
    ("to", "recipient"),
    ("recipient", "to"),
    ("text", "content"),
    ("text", "message"),
    ("body", "content"),
    ("body", "message"),
    ("msg", "content"),
    ("msg", "message"),
    ("message", "content"),
    ("content", "message"),
    ("reason", "content"),
    ("reply_to", "in_reply_to"),
];

/// The fields of one JSON object, each taken out under its name.
pub(super) struct Fields {
    /// The path of the object in the request: empty, or a path that ends in a dot.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Takes an object whose fields are all among `known`. An error lists only those that are `named`.
    pub(super) fn new(path: &str, map: Map<String, Value>, known: &[&str], named: &[&str]) -> Result<Self, Refusal> {
        let fields = Self { path: path.to_owned(), map };
        match fields.map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(fields.unknown(key, named)),
            None => Ok(fields),
        }
    }

    /// Returns whether a field is given and is not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns the field's path in the request.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Takes a field. `None` means absent or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a text. Empty means absent or null.
    pub(super) fn text(&mut self, name: &str) -> Result<String, Refusal> {
        match self.take(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong_type(&self.place(name), "a string", &other)),
        }
    }

    /// Takes a text that may have any of several equivalent names.
    pub(super) fn text_under(&mut self, names: &[&str]) -> Result<String, Refusal> {
        let mut found: Option<(&str, String)> = None;
        for name in names {
            let text = self.text(name)?;
            match &found {
                _ if text.is_empty() => {}
                None => found = Some((name, text)),
                Some((_, earlier)) if *earlier == text => {}
                Some((earlier, _)) => {
                    let message = format!("{earlier} and {name} mean the same and differ. Give one of them.");
                    return Err(Refusal::new(Reason::InvalidJson, message).field(self.place(name)));
                }
            }
        }
        Ok(found.map(|(_, text)| text).unwrap_or_default())
    }

    /// Takes the required decision, which may have any of several equivalent names.
    pub(super) fn approve_under(&mut self, names: &[&str]) -> Result<bool, Refusal> {
        let mut answer = None;
        for name in names {
            let refuse = |message: &str| Err(Refusal::new(Reason::ApproveMissing, message).field(self.place(name)));
            match (self.map.get(*name), answer) {
                (None | Some(Value::Null), _) => {}
                (Some(Value::Bool(given)), Some(earlier)) if *given != earlier => {
                    return refuse("The answer is given twice and differs. Give approve once, true or false.");
                }
                (Some(Value::Bool(given)), _) => answer = Some(*given),
                (Some(_), _) => return refuse("approve must be true or false, without quotes."),
            }
        }
        answer.ok_or_else(|| {
            let message = "approve is required: true approves, false refuses. Nothing is assumed.";
            Refusal::new(Reason::ApproveMissing, message).field(self.place(names[0]))
        })
    }

    /// Refuses a field that this kind of message does not have.
    pub(super) fn refuse(&self, names: &[&str], reason: Reason, message: &str) -> Result<(), Refusal> {
        let is_given = |value: &Value| !value.is_null() && value.as_str() != Some("");
        match names.iter().find(|name| self.map.get(**name).is_some_and(is_given)) {
            Some(name) => Err(Refusal::new(reason, message).field(self.place(name))),
            None => Ok(()),
        }
    }

    fn unknown(&self, key: &str, known: &[&str]) -> Refusal {
        let nearest = OTHER_WORDS.iter().find(|(word, field)| *word == key && known.contains(field));
        let nearest = match nearest {
            Some((_, field)) => field,
            None => known
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(key, a).total_cmp(&strsim::jaro_winkler(key, b)))
                .unwrap_or(&""),
        };
        let message = format!(
            "There is no field \"{}\" here; the nearest is \"{nearest}\". The fields are: {}.",
            shown(key),
            known.join(", ")
        );
        Refusal::new(Reason::InvalidJson, message).field(self.place(&shown(key)))
    }
}

/// Refuses a field with a value of the wrong type.
pub(super) fn wrong_type(place: &str, wanted: &str, value: &Value) -> Refusal {
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Refusal::new(Reason::InvalidJson, format!("{place} must be {wanted}, and is {is}.")).field(place)
}

/// Returns whether two words are the same but for case, separators, and at most one slip of the keyboard.
pub(super) fn is_similar(a: &str, b: &str) -> bool {
    let folded = |word: &str| word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let (a, b) = (folded(a), folded(b));
    a == b || (a.len().min(b.len()) >= 4 && a.len().abs_diff(b.len()) <= 1 && strsim::osa_distance(&a, &b) <= 1)
}

/// Returns the field that people mean by a word that is not similar to the field's name.
pub(super) fn other_word(word: &str) -> Option<&'static str> {
    OTHER_WORDS.iter().find(|(other, _)| *other == word).map(|(_, field)| *field)
}

/// Truncates and escapes foreign text for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
