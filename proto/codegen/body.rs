//! The table of message kinds, from the `kind_policy` of the fields of `Message.body`, and what all kinds have in
//! common read out of any of them.

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

use super::{by_variant, camel, documentation, flag, policy, text};

struct Row {
    variant: String,
    documentation: String,
    /// Its name, which is the name of its field in `Message.body`.
    name: String,
    body: MessageDescriptor,
    text: String,
    noun: String,
    goes_to: String,
    answered_by: String,
    recipient_is_optional: bool,
    invites_reply: bool,
    is_sendable: bool,
}

impl Row {
    fn has(&self, field: &str) -> bool {
        self.body.get_field_by_name(field).is_some()
    }
}

pub(crate) fn table(pool: &DescriptorPool) -> String {
    let message = pool.get_message_by_name("teamwire.v1.Message").expect("Message");
    let request = pool.get_message_by_name("teamwire.v1.SendRequest").expect("SendRequest");
    let is_body = |field: &FieldDescriptor| field.containing_oneof().is_some_and(|oneof| oneof.name() == "body");
    let place = pool
        .get_file_by_name("teamwire/v1/message.proto")
        .and_then(|file| file.messages().position(|found| found == message))
        .and_then(|index| i32::try_from(index).ok())
        .expect("the place of Message in its file");
    let declared = &message.descriptor_proto().field;
    let rows: Vec<Row> = (0..)
        .zip(declared)
        .filter_map(|(index, declared)| {
            let field = message.get_field_by_name(declared.name()).filter(is_body)?;
            let policy = policy(pool, &field.options(), "kind_policy").expect("every kind has a policy");
            let body = field.kind().as_message().expect("a message").clone();
            let row = Row {
                variant: camel(field.name()),
                documentation: documentation(&message.parent_file(), &[4, place, 2, index]),
                name: field.name().to_owned(),
                text: text(&policy, "text"),
                noun: text(&policy, "noun"),
                goes_to: text(&policy, "goes_to"),
                answered_by: text(&policy, "answered_by"),
                recipient_is_optional: flag(&policy, "recipient_is_optional"),
                invites_reply: flag(&policy, "invites_reply"),
                is_sendable: request.get_field_by_name(field.name()).is_some(),
                body,
            };
            assert!(row.has(&row.text), "{} has no field {}", row.name, row.text);
            Some(row)
        })
        .collect();
    [
        kind(&rows),
        requests(pool),
        compose(&rows),
        view("message", rows.iter()),
        view("send_request", sendable(&rows)),
        delivered(&rows),
    ]
    .concat()
}

/// Writes which message makes a request of each kind, from the `request_policy` of the values of `RequestKind`.
fn requests(pool: &DescriptorPool) -> String {
    let kinds = pool.get_enum_by_name("teamwire.v1.RequestKind").expect("RequestKind");
    let arm = |value: protox::prost_reflect::EnumValueDescriptor| {
        let policy = policy(pool, &value.options(), "request_policy").expect("every kind has a policy");
        let variant = camel(value.name().strip_prefix("REQUEST_KIND_").expect("the prefix"));
        (variant, format!("Some(Kind::{})", camel(&text(&policy, "message"))))
    };
    let unspecified = std::iter::once(("Unspecified".to_owned(), "None".to_owned()));
    let message = by_variant(
        "message(self) -> Option<Kind>",
        "Returns the kind of the message that makes a request of this kind. `None` if it is unspecified.",
        unspecified.chain(kinds.values().skip(1).map(arm)),
    );
    format!("impl v1::RequestKind {{\n{message}}}\n")
}

fn sendable(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.is_sendable)
}

/// Writes the enum and its table.
fn kind(rows: &[Row]) -> String {
    let variants: String = rows.iter().map(|row| format!("{}{},\n", row.documentation, row.variant)).collect();
    let list =
        |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| format!("Self::{},", row.variant)).collect::<String>();
    let arms = |value: fn(&Row) -> String| rows.iter().map(move |row| (row.variant.clone(), value(row)));
    format!(
        "/// A kind of message.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum Kind {{\n{variants}}}\n\
         impl Kind {{\n/// Every kind, in the order of the protocol.\npub const ALL: &[Self] = &[{}];\n\
         /// The kinds that a client can send.\npub const SENDABLE: &[Self] = &[{}];\n{}{}{}{}{}{}{}{}{}}}\n",
        list(&mut rows.iter()),
        list(&mut sendable(rows)),
        by_variant(
            "name(self) -> &'static str",
            "Returns the kind's name, as the JSON dialects and metrics write it.",
            arms(|row| format!("{:?}", row.name)),
        ),
        by_variant(
            "noun(self) -> &'static str",
            "Returns what a reader calls it.",
            arms(|row| format!("{:?}", row.noun))
        ),
        by_variant(
            "goes_to(self) -> &'static str",
            "Returns who receives it, as error messages put it.",
            arms(|row| format!("{:?}", row.goes_to)),
        ),
        by_variant(
            "has_recipient(self) -> bool",
            "Returns whether the sender names a recipient.",
            arms(|row| row.has("recipient").to_string()),
        ),
        by_variant(
            "recipient_is_optional(self) -> bool",
            "Returns whether the sender may leave the recipient out.",
            arms(|row| row.recipient_is_optional.to_string()),
        ),
        by_variant(
            "invites_reply(self) -> bool",
            "Returns whether a recipient may reply to it with a message.",
            arms(|row| row.invites_reply.to_string()),
        ),
        by_variant(
            "has_tool(self) -> bool",
            "Returns whether it names a tool.",
            arms(|row| row.has("tool").to_string()),
        ),
        by_variant(
            "is_answer(self) -> bool",
            "Returns whether it answers a request: it has a request's id and a decision.",
            arms(|row| row.has("approve").to_string()),
        ),
        by_variant(
            "answered_by(self) -> Option<Self>",
            "Returns the kind that answers it. `None` if it makes no request.",
            arms(|row| match row.answered_by.as_str() {
                "" => "None".to_owned(),
                kind => format!("Some(Self::{})", camel(kind)),
            }),
        ),
    )
}

/// Writes how a body is made from what all kinds are made of.
fn compose(rows: &[Row]) -> String {
    let arm = |row: &Row| {
        let mut fields = format!("{}: parts.text,", row.text);
        for field in ["recipient", "tool", "summary", "request_id", "approve"] {
            if row.has(field) {
                fields.push_str(&format!("{field}: parts.{field},"));
            }
        }
        let body = row.body.name();
        format!("Self::{0} => send_request::Body::{0}(v1::{body} {{ {fields} ..Default::default() }}),\n", row.variant)
    };
    let arms: String = sendable(rows).map(arm).collect();
    format!(
        "impl Kind {{\n/// Makes a body of this kind. Parts that the kind does not have are left out. `None` if clients cannot send it.\n\
         #[allow(clippy::needless_update)]\n\
         pub fn compose(self, parts: Parts) -> Option<send_request::Body> {{\nSome(match self {{\n{arms}_ => return None,\n}})\n}}\n}}\n"
    )
}

/// Writes what can be read of a body of any kind.
fn view<'a>(module: &str, rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<&Row> = rows.collect();
    let method = |signature: &str, documentation: &str, arm: &dyn Fn(&Row) -> Option<String>, otherwise: &str| {
        let mut is_total = true;
        let arms: String = rows
            .iter()
            .filter_map(|row| {
                let value = arm(row);
                is_total &= value.is_some();
                value.map(|value| format!("Self::{}(body) => {value},\n", row.variant))
            })
            .collect();
        let rest = if is_total { String::new() } else { format!("_ => {otherwise},\n") };
        format!("/// {documentation}\npub fn {signature} {{\nmatch self {{\n{arms}{rest}}}\n}}\n")
    };
    let text = |field: &'static str, documentation: &str| {
        let arm = |row: &Row| row.has(field).then(|| format!("&body.{field}"));
        method(&format!("{field}(&self) -> &str"), documentation, &arm, "\"\"")
    };
    let kinds: String = rows.iter().map(|row| format!("Self::{0}(_) => Kind::{0},\n", row.variant)).collect();
    format!(
        "impl {module}::Body {{\n/// Returns the kind.\npub const fn kind(&self) -> Kind {{\nmatch self {{\n{kinds}}}\n}}\n{}{}{}{}{}{}}}\n",
        text("recipient", "Returns the recipient as the sender wrote it. Empty if the kind has none."),
        text("summary", "Returns the summary. Empty if none was given, or the kind has none."),
        text("tool", "Returns what the sender asks to use. Empty if the kind names no tool."),
        method(
            "request_id(&self) -> &str",
            "Returns the id of the request that it answers. Empty if it answers none.",
            // A notice names a request, too, and answers none.
            &|row| row.has("approve").then(|| "&body.request_id".to_owned()),
            "\"\"",
        ),
        method(
            "text(&self) -> &str",
            "Returns the text: the content, the reason, the plan, the feedback, the detail, or a notice's sentence.",
            &|row| Some(format!("&body.{}", row.text)),
            "\"\"",
        ),
        method(
            "approve(&self) -> Option<bool>",
            "Returns the decision. `None` if it was not given, or the kind answers nothing.",
            &|row| row.has("approve").then(|| "body.approve".to_owned()),
            "None",
        ),
    )
}

/// Writes how a body that was sent becomes the body that is delivered.
fn delivered(rows: &[Row]) -> String {
    let arms: String =
        sendable(rows).map(|row| format!("send_request::Body::{0}(body) => Self::{0}(body),\n", row.variant)).collect();
    format!(
        "impl From<send_request::Body> for message::Body {{\nfn from(sent: send_request::Body) -> Self {{\n\
         match sent {{\n{arms}}}\n}}\n}}\n"
    )
}
