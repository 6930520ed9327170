//! The helpers in TypeScript.

use std::collections::BTreeMap;

use super::{Argument, FieldKind, Helper, Returns, file_of, lines, services, with_names};
use crate::{
    camel,
    protocol::{Message, Protocol},
};

pub(super) fn file(helpers: &[Helper], protocol: &Protocol) -> String {
    let services = services(helpers);
    let mut imports: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut import = |file: &str, name: String| imports.entry(file.to_owned()).or_default().push(name);
    for (service, _) in &services {
        import(&file_of(service), service.clone());
    }
    for helper in helpers {
        if let Returns::Reply(Message { name, file, .. }) | Returns::Part(_, Message { name, file, .. }) =
            &helper.returns
        {
            import(file, name.clone());
        }
        for argument in &helper.arguments {
            if let FieldKind::Message(name) = &argument.field.kind {
                let file = protocol.message(name).map(|message| message.file).unwrap_or_default();
                import(&file, format!("{name}Schema"));
            }
        }
    }
    let imports: String = imports
        .into_iter()
        .map(|(file, mut names)| {
            names.sort();
            names.dedup();
            format!("import type {{ {} }} from \"./teamwire/v1/{file}_pb.js\";\n", names.join(", "))
        })
        .collect();
    let stubs: String = services
        .iter()
        .map(|(service, stub)| format!("  abstract readonly {stub}: Stub<typeof {service}>;\n"))
        .collect();
    let methods: String = helpers.iter().map(method).collect();
    format!(
        "// Written by `cargo xtask generate` from client/helpers.toml. Do not edit.\n\
         import type {{ MessageInitShape }} from \"@bufbuild/protobuf\";\n\
         import type {{ Client as Stub }} from \"@connectrpc/connect\";\n{imports}\n\
         /** The helpers that make one call. */\nexport abstract class Helpers {{\n{stubs}{methods}}}\n\n\
         /** Returns a part of a reply that every coordinator sets. */\n\
         export function given<T>(part: T | undefined): T {{\n  \
         if (part === undefined) throw new Error(\"The coordinator's reply is incomplete. Report this as a bug.\");\n  \
         return part;\n}}\n"
    )
}

fn method(helper: &Helper) -> String {
    let text = with_names(&helper.documentation, |name| format!("`{}`", camel(name)));
    let documentation = match &lines(&text, 110)[..] {
        [line] => format!("  /** {line} */\n"),
        lines => format!("  /**\n   * {}\n   */\n", lines.join("\n   * ")),
    };
    let parameters: Vec<_> = helper.arguments.iter().map(parameter).collect();
    let arguments = helper.arguments.iter().map(|argument| {
        let (field, name) = (camel(&argument.field.name), camel(&argument.name));
        match (&argument.field.kind, argument.is_optional) {
            (FieldKind::Message(_), true) => format!("...({name} && {{ {field}: {name} }})"),
            _ if field == name => name,
            _ => format!("{field}: {name}"),
        }
    });
    let constants = helper.constants.iter().map(|(field, value)| format!("{}: {value}", camel(&field.name)));
    let fields: Vec<_> = arguments.chain(constants).collect();
    let fields = format!("{{ {} }}", fields.join(", "));
    let request = match &helper.body {
        None => fields,
        Some((kind, _)) => format!("{{ body: {{ case: \"{}\", value: {fields} }} }}", camel(kind)),
    };
    let name = &helper.call.name;
    let call = format!("this.{}.{}({request})", helper.stub(), name[..1].to_ascii_lowercase() + &name[1..]);
    let (returned, outcome) = match &helper.returns {
        Returns::Nothing => ("void", format!("await {call};")),
        Returns::Reply(message) => (message.name.as_str(), format!("return {call};")),
        Returns::Text(field) => ("string", format!("return (await {call}).{};", camel(&field.name))),
        Returns::Part(field, message) => {
            (message.name.as_str(), format!("return given((await {call}).{});", camel(&field.name)))
        }
    };
    let keyword = if matches!(helper.returns, Returns::Reply(_)) { "" } else { "async " };
    format!(
        "\n{documentation}  {keyword}{}({}): Promise<{returned}> {{\n    {outcome}\n  }}\n",
        camel(&helper.name),
        parameters.join(", ")
    )
}

fn parameter(argument: &Argument) -> String {
    let name = camel(&argument.name);
    match (&argument.field.kind, argument.is_optional) {
        (FieldKind::Text, false) => format!("{name}: string"),
        (FieldKind::Text, true) => format!("{name} = \"\""),
        (FieldKind::Flag, false) => format!("{name}: boolean"),
        (FieldKind::Flag, true) => format!("{name} = false"),
        (FieldKind::Message(message), is_optional) => {
            format!("{name}{}: MessageInitShape<typeof {message}Schema>", if is_optional { "?" } else { "" })
        }
    }
}
