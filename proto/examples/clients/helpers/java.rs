//! The helpers in Java.

use super::{Argument, FieldKind, Helper, Returns, lines, services, with_names};
use crate::{
    camel, pascal,
    protocol::{Message, Protocol},
    upper,
};

pub(super) fn file(helpers: &[Helper], protocol: &Protocol) -> String {
    let mut imports: Vec<_> = helpers
        .iter()
        .flat_map(|helper| helper.messages(protocol))
        .map(|Message { name, .. }| format!("import io.teamwire.v1.{name};\n"))
        .collect();
    let services = services(helpers);
    imports.extend(
        services.iter().map(|(service, _)| format!("import io.teamwire.v1.{service}Grpc.{service}BlockingStub;\n")),
    );
    imports.push("import java.util.Optional;\n".to_owned());
    imports.sort();
    imports.dedup();
    let stubs: String =
        services.iter().map(|(service, stub)| format!("    abstract {service}BlockingStub {stub}();\n\n")).collect();
    let methods: Vec<_> = helpers.iter().map(method).collect();
    format!(
        "package io.teamwire;\n\n{}\n\
         /** The helpers that make one call. Written by {{@code cargo xtask generate}} from {{@code client/helpers.toml}}. */\n\
         abstract class Helpers {{\n{}{}}}\n",
        imports.concat(),
        stubs.replace("    abstract", "    public abstract"),
        methods.join("\n")
    )
}

fn method(helper: &Helper) -> String {
    let text = with_names(&helper.documentation, |name| format!("{{@code {}}}", camel(name)));
    let text = lines(&text, 110).join("\n     * ");
    let parameters: Vec<_> = helper.arguments.iter().map(|one| format!("{} {}", kind(one), camel(&one.name))).collect();
    let arguments = helper.arguments.iter().map(|argument| {
        let (setter, name) = (pascal(&argument.field.name), camel(&argument.name));
        match (&argument.field.kind, argument.is_optional) {
            (FieldKind::Message(_), true) => format!("        {name}.ifPresent(target::set{setter});\n"),
            _ => format!("        target.set{setter}({name});\n"),
        }
    });
    let constants =
        helper.constants.iter().map(|(field, value)| format!("        target.set{}({value});\n", pascal(&field.name)));
    let setters: String = arguments.chain(constants).collect();
    let variable = if helper.body.is_some() { "body" } else { "request" };
    let setters = setters.replace("target", variable);
    let request = match &helper.body {
        None => "request".to_owned(),
        Some((kind, _)) => format!("SendRequest.newBuilder().set{}(body)", pascal(kind)),
    };
    let call = format!("{}().{}({request}.build())", helper.stub(), camel_call(&helper.call.name));
    let (returned, outcome) = match &helper.returns {
        Returns::Nothing => ("void", format!("{call};")),
        Returns::Reply(message) => (message.name.as_str(), format!("return {call};")),
        Returns::Text(field) => ("String", format!("return {call}.get{}();", pascal(&field.name))),
        Returns::Part(field, message) => {
            (message.name.as_str(), format!("return {call}.get{}();", pascal(&field.name)))
        }
    };
    format!(
        "    /**\n     * {text}\n     */\n    public {returned} {}({}) {{\n        var {variable} = {}.newBuilder();\n{setters}        \
         {outcome}\n    }}\n",
        camel(&helper.name),
        parameters.join(", "),
        helper.target().name
    )
}

fn kind(argument: &Argument) -> String {
    match (&argument.field.kind, argument.is_optional) {
        (FieldKind::Text, _) => "String".to_owned(),
        (FieldKind::Flag, _) => "boolean".to_owned(),
        (FieldKind::Message(name), false) => upper(name),
        (FieldKind::Message(name), true) => format!("Optional<{name}>"),
    }
}

/// Returns `SetLead` as `setLead`.
fn camel_call(name: &str) -> String {
    name[..1].to_ascii_lowercase() + &name[1..]
}
