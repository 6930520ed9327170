//! The helpers in Rust. Where the client already has a method of a helper's name, that method takes the request itself.

use super::{Argument, FieldKind, Helper, Returns, lines, with_names};
use crate::pascal;

pub(super) fn file(helpers: &[Helper]) -> String {
    let methods: Vec<_> = helpers.iter().filter(|helper| snake(&helper.call.name) != helper.name).map(method).collect();
    format!(
        "//! The helpers that make one call. Written by `cargo xtask generate` from `client/helpers.toml`.\n\n\
         use teamwire_proto::v1;\n\nuse crate::{{Client, Error, lead::incomplete}};\n\n\
         impl Client {{\n{}}}\n",
        methods.join("\n")
    )
}

fn method(helper: &Helper) -> String {
    let documentation = with_names(&helper.documentation, |name| match name {
        "wait_decision" => format!("[`Client::{name}`]"),
        _ => format!("`{name}`"),
    });
    let documentation: String = lines(&documentation, 108).iter().map(|line| format!("    /// {line}\n")).collect();
    let parameters: String =
        helper.arguments.iter().map(|argument| format!(", {}: {}", argument.name, kind(argument))).collect();
    let returned = match &helper.returns {
        Returns::Nothing => "()".to_owned(),
        Returns::Reply(message) | Returns::Part(_, message) => format!("v1::{}", message.name),
        Returns::Text(_) => "String".to_owned(),
    };
    let arguments = helper.arguments.iter().map(|argument| {
        let value = match argument.field.kind {
            FieldKind::Text => format!("{}.to_owned()", argument.name),
            FieldKind::Flag | FieldKind::Message(_) => argument.name.clone(),
        };
        let value = if argument.field.is_optional { format!("Some({value})") } else { value };
        if value == argument.field.name { value } else { format!("{}: {value}", argument.field.name) }
    });
    let constants = helper.constants.iter().map(|(field, value)| {
        let value = if field.is_optional { format!("Some({value})") } else { value.to_string() };
        format!("{}: {value}", field.name)
    });
    let rest = (!helper.sets_all()).then(|| "..Default::default()".to_owned());
    let fields: Vec<_> = arguments.chain(constants).chain(rest).collect();
    let target = format!("v1::{} {{ {} }}", helper.target().name, fields.join(", "));
    let (setup, request) = match &helper.body {
        None => (format!("let request = {target};"), "request".to_owned()),
        Some((kind, _)) => (
            format!("let body = v1::send_request::Body::{}({target});", pascal(kind)),
            "v1::SendRequest { body: Some(body), ..Default::default() }".to_owned(),
        ),
    };
    let call = format!("self.{}({request}).await", snake(&helper.call.name));
    let outcome = match &helper.returns {
        Returns::Nothing => format!("{call}?;\n        Ok(())"),
        Returns::Reply(_) => call,
        Returns::Text(field) => format!("Ok({call}?.{})", field.name),
        Returns::Part(field, _) => format!("{call}?.{0}.ok_or_else(|| incomplete(\"{0}\"))", field.name),
    };
    format!(
        "{documentation}    pub async fn {}(&self{parameters}) -> Result<{returned}, Error> {{\n        {setup}\n        \
         {outcome}\n    }}\n",
        helper.name
    )
}

fn kind(argument: &Argument) -> String {
    match (&argument.field.kind, argument.is_optional) {
        (FieldKind::Text, _) => "&str".to_owned(),
        (FieldKind::Flag, _) => "bool".to_owned(),
        (FieldKind::Message(name), false) => format!("v1::{name}"),
        (FieldKind::Message(name), true) => format!("Option<v1::{name}>"),
    }
}

/// Returns `SetLead` as `set_lead`.
fn snake(name: &str) -> String {
    let letters = name.char_indices().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("_{}", letter.to_ascii_lowercase()),
        _ => letter.to_ascii_lowercase().to_string(),
    });
    letters.collect()
}
