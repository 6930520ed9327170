//! The helpers in Python, with and without asyncio.

use super::{Argument, FieldKind, Helper, Returns, file_of, lines, services, with_names};
use crate::protocol::Protocol;

/// The longest line.
const WIDTH: usize = 120;

pub(super) fn file(helpers: &[Helper], protocol: &Protocol) -> String {
    let services = services(helpers);
    let mut modules: Vec<_> = helpers
        .iter()
        .flat_map(|helper| helper.messages(protocol))
        .map(|message| format!("{}_pb2", message.file))
        .chain(services.iter().map(|(service, _)| format!("{}_pb2_grpc", file_of(service))))
        .collect();
    modules.sort();
    modules.dedup();
    let stubs: String = services
        .iter()
        .map(|(service, stub)| format!("    {stub}: {}_pb2_grpc.{service}AsyncStub\n", file_of(service)))
        .collect();
    let methods: String = helpers.iter().map(|helper| method(helper, protocol)).collect();
    let blocking: String =
        helpers.iter().map(|helper| format!("    {0} = blocking(Helpers.{0})\n", helper.name)).collect();
    format!(
        "\"\"\"The helpers that make one call. Written by `cargo xtask generate` from client/helpers.toml.\"\"\"\n\n\
         from __future__ import annotations\n\nfrom ._blocking import blocking\nfrom .v1 import (\n    {},\n)\n\n\n\
         class Helpers:\n    \"\"\"Those of AsyncClient.\"\"\"\n\n{stubs}{methods}\n\n\
         class BlockingHelpers:\n    \"\"\"Those of Client.\"\"\"\n\n{blocking}",
        modules.join(",\n    ")
    )
}

fn method(helper: &Helper, protocol: &Protocol) -> String {
    let parameters: Vec<_> = std::iter::once("self".to_owned())
        .chain(helper.arguments.iter().map(|argument| parameter(argument, protocol)))
        .collect();
    let returned = match &helper.returns {
        Returns::Nothing => "None".to_owned(),
        Returns::Reply(message) | Returns::Part(_, message) => format!("{}_pb2.{}", message.file, message.name),
        Returns::Text(_) => "str".to_owned(),
    };
    let arguments = helper.arguments.iter().map(|argument| format!("{}={}", argument.field.name, argument.name));
    let constants = helper
        .constants
        .iter()
        .map(|(field, value)| format!("{}={}", field.name, if *value { "True" } else { "False" }));
    let fields: Vec<_> = arguments.chain(constants).collect();
    let target = helper.target();
    let variable = if helper.body.is_some() { "body" } else { "request" };
    let setup = call("        ", &format!("{variable} = {}_pb2.{}", target.file, target.name), &fields, "");
    let request = match &helper.body {
        None => "request".to_owned(),
        Some((kind, _)) => format!("message_pb2.SendRequest({kind}=body)"),
    };
    let made = format!("await self.{}.{}({request})", helper.stub(), helper.call.name);
    let outcome = match &helper.returns {
        Returns::Nothing => made,
        Returns::Reply(_) => format!("return {made}"),
        Returns::Text(field) | Returns::Part(field, _) => format!("return ({made}).{}", field.name),
    };
    let text = with_names(&helper.documentation, |name| format!("`{name}`"));
    // The first sentence fits into a line.
    let (first, rest) = match text.split_once(". ") {
        Some((first, rest)) if text.len() > WIDTH - 14 => (format!("{first}."), rest),
        _ => (text.clone(), ""),
    };
    let rest = match rest {
        "" => String::new(),
        rest => format!("\n\n        {}\n        ", lines(rest, WIDTH - 8).join("\n        ")),
    };
    let signature = call("    ", &format!("async def {}", helper.name), &parameters, &format!(" -> {returned}:"));
    format!("\n{signature}        \"\"\"{first}{rest}\"\"\"\n{setup}        {outcome}\n")
}

/// Writes something with arguments in parentheses, on one line if it fits.
fn call(indent: &str, before: &str, arguments: &[String], after: &str) -> String {
    let line = format!("{indent}{before}({}){after}\n", arguments.join(", "));
    if line.len() <= WIDTH + 1 {
        return line;
    }
    format!("{indent}{before}(\n{indent}    {}\n{indent}){after}\n", arguments.join(", "))
}

fn parameter(argument: &Argument, protocol: &Protocol) -> String {
    let (kind, default) = match &argument.field.kind {
        FieldKind::Text => ("str".to_owned(), "\"\""),
        FieldKind::Flag => ("bool".to_owned(), "False"),
        FieldKind::Message(name) => {
            let file = protocol.message(name).map(|message| message.file).unwrap_or_default();
            let none = if argument.is_optional { " | None" } else { "" };
            (format!("{file}_pb2.{name}{none}"), "None")
        }
    };
    let default = if argument.is_optional { format!(" = {default}") } else { String::new() };
    format!("{}: {kind}{default}", argument.name)
}
