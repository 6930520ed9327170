//! The helpers that make one call, in every language, from `client/helpers.toml`.

mod go;
mod java;
mod python;
mod rust;
mod typescript;

use serde::Deserialize;

use crate::protocol::{Call, Field, FieldKind, Message, Protocol};

/// The lines of `client/README.md` between which the table of helpers is.
const TABLE: [&str; 2] = ["<!-- helpers -->\n", "<!-- end of helpers -->\n"];

/// A helper.
pub(crate) struct Helper {
    /// In snake case.
    name: String,
    documentation: String,
    who: String,
    result: String,
    call: Call,
    request: Message,
    /// If it sends a message: the kind, and the type of the body.
    body: Option<(String, Message)>,
    arguments: Vec<Argument>,
    /// Fields that are always the same.
    constants: Vec<(Field, bool)>,
    returns: Returns,
}

/// An argument of a helper.
struct Argument {
    /// In snake case.
    name: String,
    /// The field that it sets.
    field: Field,
    /// Whether the caller can leave it out.
    is_optional: bool,
}

/// What a helper returns.
enum Returns {
    Nothing,
    /// The whole reply.
    Reply(Message),
    /// A text in the reply.
    Text(Field),
    /// A part of the reply.
    Part(Field, Message),
}

#[derive(Deserialize)]
struct File {
    helper: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    call: Option<String>,
    send: Option<String>,
    arguments: Vec<String>,
    #[serde(default)]
    set: std::collections::BTreeMap<String, bool>,
    returns: Option<String>,
    who: String,
    result: String,
    doc: String,
}

/// Reads the file that lists the helpers.
pub(crate) fn read(text: &str, protocol: &Protocol) -> Result<Vec<Helper>, String> {
    let file: File = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
    file.helper.into_iter().map(|entry| Helper::read(entry, protocol)).collect()
}

/// Returns the files with the helpers, with their paths.
pub(crate) fn files(helpers: &[Helper], protocol: &Protocol) -> [(&'static str, String); 5] {
    [
        ("client/rust/src/helpers.rs", rust::file(helpers)),
        ("client/python/src/teamwire/_helpers.py", python::file(helpers, protocol)),
        ("client/typescript/src/gen/helpers.ts", typescript::file(helpers, protocol)),
        ("client/go/helpers_gen.go", go::file(helpers)),
        ("client/java/src/main/java/io/teamwire/Helpers.java", java::file(helpers, protocol)),
    ]
}

/// Returns the README with the helpers in its table.
pub(crate) fn with_table(readme: &str, helpers: &[Helper]) -> Result<String, String> {
    let [start, end] = TABLE.map(|mark| readme.find(mark).ok_or_else(|| format!("README.md has no {mark}")));
    let rows: String = helpers
        .iter()
        .map(|Helper { name, arguments, who, result, .. }| {
            let names: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
            format!("| `{name}({})` | {who} | {result} |\n", names.join(", "))
        })
        .collect();
    let (before, after) = (&readme[..start? + TABLE[0].len()], &readme[end?..]);
    Ok(format!("{before}\n| function | who calls it | result |\n|---|---|---|\n{rows}\n{after}"))
}

impl Helper {
    fn read(entry: Entry, protocol: &Protocol) -> Result<Self, String> {
        let call = protocol.call(entry.call.as_deref().unwrap_or("Send"))?;
        let request = protocol.message(&call.request)?;
        let body = match entry.send {
            None => None,
            Some(kind) => {
                let FieldKind::Message(body) = request.field(&kind)?.kind else {
                    return Err(format!("{kind} is not a kind of message"));
                };
                Some((kind, protocol.message(&body)?))
            }
        };
        let target = body.as_ref().map_or(&request, |(_, body)| body);
        let argument = |text: &String| {
            let name = text.trim_end_matches('?');
            let (name, field) = name.split_once('=').unwrap_or((name, name));
            Ok(Argument { name: name.to_owned(), field: target.field(field)?, is_optional: text.ends_with('?') })
        };
        let arguments = entry.arguments.iter().map(argument).collect::<Result<_, String>>()?;
        let constants = entry.set.iter().map(|(name, value)| Ok((target.field(name)?, *value)));
        let constants = constants.collect::<Result<_, String>>()?;
        let reply = protocol.message(&call.reply)?;
        let returns = match entry.returns.as_deref() {
            None => Returns::Reply(reply),
            Some("") => Returns::Nothing,
            Some(name) => match reply.field(name)? {
                field @ Field { kind: FieldKind::Text, .. } => Returns::Text(field),
                Field { kind: FieldKind::Flag, .. } => return Err(format!("{name} is a flag")),
                field => match &field.kind {
                    FieldKind::Message(name) => Returns::Part(field.clone(), protocol.message(name)?),
                    _ => unreachable!("matched above"),
                },
            },
        };
        let (name, documentation, who, result) = (entry.name, entry.doc, entry.who, entry.result);
        Ok(Self { name, documentation, who, result, call, request, body, arguments, constants, returns })
    }

    /// Returns the message whose fields the arguments set.
    fn target(&self) -> &Message {
        self.body.as_ref().map_or(&self.request, |(_, body)| body)
    }

    /// Returns whether the helper sets every field of that message.
    fn sets_all(&self) -> bool {
        self.arguments.len() + self.constants.len() == self.target().field_count
    }

    /// Returns what clients call the stub of the call's service, such as `hosts`.
    fn stub(&self) -> String {
        match file_of(&self.call.service).as_str() {
            uncountable @ ("access" | "audit" | "history") => uncountable.to_owned(),
            countable => format!("{countable}s"),
        }
    }

    /// Returns the message types that the signature or the call names.
    fn messages<'a>(&'a self, protocol: &'a Protocol) -> Vec<Message> {
        let arguments = self.arguments.iter().filter_map(|argument| match &argument.field.kind {
            FieldKind::Message(name) => protocol.message(name).ok(),
            _ => None,
        });
        let returned = match &self.returns {
            Returns::Reply(message) | Returns::Part(_, message) => Some(message.clone()),
            Returns::Nothing | Returns::Text(_) => None,
        };
        let body = self.body.as_ref().map(|(_, body)| body.clone());
        arguments.chain(returned).chain(body).chain([self.request.clone()]).collect()
    }
}

/// Returns the services of helpers, such as `HostService`, with what clients call their stubs, sorted.
fn services(helpers: &[Helper]) -> Vec<(String, String)> {
    let mut services: Vec<_> = helpers.iter().map(|helper| (helper.call.service.clone(), helper.stub())).collect();
    services.sort();
    services.dedup();
    services
}

/// Returns the name of the file that defines a service, such as `host`.
fn file_of(service: &str) -> String {
    service.trim_end_matches("Service").to_ascii_lowercase()
}

/// Replaces each text in backticks.
fn with_names(text: &str, replace: impl Fn(&str) -> String) -> String {
    text.split('`').enumerate().map(|(at, part)| if at % 2 == 1 { replace(part) } else { part.to_owned() }).collect()
}

/// Breaks a text into lines of at most `width` columns.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("at least one");
        match last.len() {
            0 => *last = word.to_owned(),
            length if length + 1 + word.len() <= width => *last += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
