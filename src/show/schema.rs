//! The JSON Schema of what commands print with `--json`, derived from the protocol.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{POOL, enum_word};

/// What a command prints with `--json`, one or more times, a line each.
enum Prints {
    /// A message of the protocol.
    Message(&'static str),
    /// An object with these fields, each of a type: that of a message of the protocol, or a name of [`simple`].
    Object(&'static [(&'static str, &'static str)]),
}

use Prints::{Message, Object};

/// What a command prints about each thing that it does.
const STEP: Prints = Object(&[("what", "string"), ("name", "string"), ("outcome", "string"), ("text", "string")]);

/// Every command that has `--json`.
const COMMANDS: &[(&str, Prints)] = &[
    ("access list", Message("Credential")),
    ("access revoke", Object(&[("revoked", "string")])),
    ("approve", Message("SendResponse")),
    ("audit", Message("AuditRecord")),
    (
        "audit --verify",
        Object(&[
            ("chain", "string"),
            ("first_sequence", "integer"),
            ("last_sequence", "integer"),
            ("head", "string"),
            ("intact", "boolean"),
            ("error", "string?"),
        ]),
    ),
    (
        "backup",
        Object(&[
            ("release", "string"),
            ("store", "string"),
            ("at", "string"),
            ("namespaces", "integer"),
            ("records", "integer"),
            ("streams", "integer"),
            ("entries", "integer"),
            ("leases", "integer"),
            ("idempotency_keys", "integer"),
            ("file", "string"),
            ("bytes", "integer"),
        ]),
    ),
    ("budget", Message("BudgetUse")),
    ("certs", Object(&[("ca", "object"), ("server", "object"), ("clients", "array")])),
    (
        "console",
        Object(&[
            ("address", "string"),
            ("as", "string"),
            ("code", "string"),
            ("expires_at", "string"),
            ("opened", "boolean"),
        ]),
    ),
    (
        "doctor",
        Object(&[
            ("class", "string"),
            ("severity", "string"),
            ("member", "string"),
            ("message_id", "string"),
            ("request_id", "string"),
            ("text", "string"),
            ("next", "string"),
        ]),
    ),
    ("down", STEP),
    ("health", Object(&[("serving", "boolean"), ("writable", "boolean"), ("address", "string")])),
    ("history", Message("HistoryEntry")),
    ("history --export", Object(&[("entries", "integer"), ("last_sequence", "integer")])),
    // What the host does, as it happens. Each kind of event adds other fields.
    ("host", Object(&[("event", "string")])),
    ("hosts", Message("Host")),
    ("inbox", Object(&[("sequence", "integer"), ("delivery_count", "integer"), ("message", "SendMessage")])),
    (
        "identities",
        Object(&[
            ("member", "string"),
            ("team", "string"),
            ("address", "string"),
            ("current", "boolean"),
            ("runner", "boolean"),
            ("state", "string"),
        ]),
    ),
    (
        "init",
        Object(&[
            ("file", "string"),
            ("team", "string"),
            ("members", "array"),
            ("programs", "array"),
            ("worktree", "string?"),
            ("next", "string"),
        ]),
    ),
    ("interrupt", Message("SendResponse")),
    (
        "invite",
        Object(&[("token", "string"), ("join_string", "string?"), ("address", "string"), ("expires_at", "string")]),
    ),
    ("join", Object(&[("team", "Team"), ("member", "Member"), ("credential", "string")])),
    ("last", Message("TurnEnded")),
    ("leave", Object(&[("left", "string"), ("member", "string")])),
    ("logs", Message("ActivityLine")),
    // Changes to the member's state, between the lines.
    ("logs --follow", Message("HistoryEntry")),
    (
        "mcp",
        Object(&[
            ("url", "string"),
            ("as", "string"),
            ("credential", "string"),
            ("credential_id", "string"),
            ("variable", "string"),
            ("file", "string"),
            ("setting", "string"),
        ]),
    ),
    ("message show", Object(&[("message", "SendMessage"), ("receipts", "Receipt*")])),
    ("notices", Message("Member")),
    ("open", STEP),
    ("operator rotate", Object(&[("file", "string"), ("grace_seconds", "integer"), ("accepted", "boolean")])),
    ("permission allow", Message("AddPermissionRuleResponse")),
    ("permission approve", Message("SendResponse")),
    ("permission reject", Message("SendResponse")),
    ("permission request", Message("SendResponse")),
    ("permission request --wait", Message("Request")),
    ("permission revoke", Message("PermissionRule")),
    ("permission rules", Message("PermissionRule")),
    ("permission withdraw", Message("Request")),
    ("plan approve", Message("SendResponse")),
    ("plan reject", Message("SendResponse")),
    ("plan submit", Message("SendResponse")),
    ("plan submit --wait", Message("Request")),
    (
        "programs",
        Object(&[
            ("title", "string"),
            ("command", "string"),
            ("is_installed", "boolean"),
            ("version", "string?"),
            ("tried", "string?"),
            ("via", "string"),
            ("arguments", "array"),
            ("environment", "object"),
            ("signed_in", "boolean?"),
            ("sign_in", "string"),
            ("install", "string?"),
            ("notes", "array"),
        ]),
    ),
    ("reject", Message("SendResponse")),
    ("requests", Message("Request")),
    ("restart", STEP),
    (
        "restore",
        Object(&[
            ("release", "string"),
            ("store", "string"),
            ("at", "string"),
            ("namespaces", "integer"),
            ("records", "integer"),
            ("streams", "integer"),
            ("entries", "integer"),
            ("leases", "integer"),
            ("idempotency_keys", "integer"),
        ]),
    ),
    ("send", Message("SendResponse")),
    ("send --wait-reply", Object(&[("sent", "SendResponse"), ("reply", "object?")])),
    ("shutdown", Message("SendResponse")),
    ("shutdown --force", Object(&[("member", "Member")])),
    ("shutdown --wait", Object(&[("request", "Request?"), ("member", "Member?")])),
    ("spawn", Message("Request")),
    ("spawn --no-wait", Message("SpawnResponse")),
    ("status", Object(&[("team", "Team"), ("members", "Member*"), ("hosts", "Host*"), ("usage", "Usage?")])),
    ("stop", STEP),
    // One of the fields: what is new or has changed, or the key of what is gone.
    (
        "status --follow",
        Object(&[
            ("team", "Team?"),
            ("member", "Member?"),
            ("host", "Host?"),
            ("request", "Request?"),
            ("task", "Task?"),
            ("activity", "MemberActivity?"),
            ("removed", "TeamItemKey?"),
        ]),
    ),
    ("subscribe cancel", Object(&[("cancelled", "string")])),
    ("subscribe exit", Message("SubscribeToEventResponse")),
    ("subscribe file", Message("SubscribeToEventResponse")),
    ("subscribe idle", Message("SubscribeToEventResponse")),
    ("subscribe list", Message("EventSubscription")),
    ("subscribe task", Message("SubscribeToEventResponse")),
    ("tag", Message("Member")),
    ("task claim", Message("Claim")),
    ("task complete", Message("CompleteTaskResponse")),
    ("task create", Message("Task")),
    ("task delete", Object(&[("deleted", "integer"), ("unblocked", "array")])),
    ("task list", Message("Task")),
    ("task next", Message("Claim")),
    ("task release", Message("Task")),
    ("task show", Message("GetTaskResponse")),
    ("task update", Message("Task")),
    ("team create", Object(&[("team", "Team"), ("credential", "string")])),
    ("team delete", Object(&[("deleted", "string")])),
    ("team lead", Message("Team")),
    ("team list", Message("Team")),
    ("team show", Object(&[("team", "Team"), ("members", "Member*"), ("hosts", "Host*"), ("usage", "Usage?")])),
    ("transcript", Message("TranscriptEntry")),
    ("up", STEP),
    (
        "update",
        Object(&[("version", "string"), ("path", "string"), ("installed_with", "string"), ("command", "string")]),
    ),
    ("work", Object(&[("member", "string"), ("work", "Work?"), ("unknown", "string?")])),
    ("work drop", Object(&[("member", "string"), ("branch", "string"), ("ref", "string")])),
    (
        "work merge",
        Object(&[
            ("member", "string"),
            ("into", "string"),
            ("commit", "string?"),
            ("of", "string?"),
            ("was_merged_already", "boolean?"),
            ("conflicts", "array?"),
            ("told_member", "boolean?"),
        ]),
    ),
    ("work purge", Object(&[("deleted", "integer")])),
    ("work restore", Message("Salvage")),
    // What is brought back, and where.
    ("work restore --to", Object(&[("ref", "string"), ("directory", "string"), ("branch", "string")])),
    ("whoami", Object(&[("member", "string?"), ("team", "string?"), ("address", "string")])),
];

/// Returns the names of the commands that the schema describes, without their options.
pub(crate) fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| name.split(" --").next().unwrap_or(name))
}

/// Returns the schema: `$defs` has the types, and `properties` has one line of output of each command.
pub(crate) fn schema() -> Value {
    let mut types = Map::new();
    types.insert("SendMessage".to_owned(), send_message());
    let commands: Map<String, Value> =
        COMMANDS.iter().map(|(name, prints)| ((*name).to_owned(), shape(prints, &mut types))).collect();
    // History shows a message as agents read it.
    types["HistoryEntry"]["properties"]["message"] = reference("SendMessage");
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What teamwire prints with --json",
        "description": "Each property is a command, with the schema of each line that it prints. A failed command prints \
                        the type Error to standard error.",
        "type": "object",
        "properties": commands,
        "$defs": with_error(types),
    })
}

fn with_error(mut types: Map<String, Value>) -> Map<String, Value> {
    let string = || json!({ "type": "string" });
    types.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "required": ["error"],
            "properties": { "error": {
                "type": "object",
                "required": ["message", "exit_code"],
                "properties": {
                    "message": string(), "exit_code": { "type": "integer" }, "reason": string(), "code": string(),
                    "field": string(), "metadata": { "type": "object", "additionalProperties": string() },
                    "retry_after_ms": { "type": "integer" },
                },
            } },
        }),
    );
    types
}

/// A message as agents read and write it; docs/protocol.md describes its kinds.
fn send_message() -> Value {
    let kinds: Vec<&str> = teamwire_proto::Kind::ALL.iter().map(|kind| kind.name()).collect();
    json!({ "type": "object", "required": ["type"], "properties": { "type": { "type": "string", "enum": kinds } } })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn shape(prints: &Prints, types: &mut Map<String, Value>) -> Value {
    match prints {
        Message(name) => message(name, types),
        Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(field, kind)| ((*field).to_owned(), simple(kind, types))).collect();
            let required: Vec<&str> =
                fields.iter().filter(|(_, kind)| !kind.ends_with('?')).map(|(field, _)| *field).collect();
            json!({ "type": "object", "required": required, "properties": properties })
        }
    }
}

/// Returns the schema of a field by the name of its type. `?` after a name: may be absent or null. `*`: a list.
fn simple(kind: &str, types: &mut Map<String, Value>) -> Value {
    if let Some(kind) = kind.strip_suffix('?') {
        return json!({ "anyOf": [simple(kind, types), { "type": "null" }] });
    }
    if let Some(kind) = kind.strip_suffix('*') {
        return json!({ "type": "array", "items": simple(kind, types) });
    }
    match kind {
        "SendMessage" => reference(kind),
        _ if kind.starts_with(char::is_uppercase) => message(kind, types),
        _ => json!({ "type": kind }),
    }
}

/// Adds a message of the protocol to the types, with those that it contains, and returns a reference to it.
fn message(name: &str, types: &mut Map<String, Value>) -> Value {
    if !types.contains_key(name) {
        let descriptor =
            POOL.get_message_by_name(&format!("teamwire.v1.{name}")).expect("a message type of the protocol");
        types.insert(name.to_owned(), Value::Null);
        let fields = descriptor.fields().map(|field| (field.name().to_owned(), of_field(&field, types))).collect();
        let fields: Map<String, Value> = fields;
        types.insert(name.to_owned(), json!({ "type": "object", "additionalProperties": false, "properties": fields }));
    }
    reference(name)
}

fn of_field(field: &FieldDescriptor, types: &mut Map<String, Value>) -> Value {
    if field.is_map() {
        let value = field.kind().as_message().map(MessageDescriptor::map_entry_value_field);
        let value = value.map_or(json!({}), |value| of_kind(&value.kind(), types));
        return json!({ "type": "object", "additionalProperties": value });
    }
    let one = of_kind(&field.kind(), types);
    if field.is_list() { json!({ "type": "array", "items": one }) } else { one }
}

fn of_kind(kind: &Kind, types: &mut Map<String, Value>) -> Value {
    match kind {
        Kind::Message(inner) if inner.package_name() == "google.protobuf" => json!({ "type": "string" }),
        Kind::Message(inner) => message(inner.name(), types),
        Kind::Enum(kind) => {
            let words: Vec<String> = kind.values().map(|value| enum_word(kind.name(), value.name())).collect();
            json!({ "type": "string", "enum": words })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String | Kind::Bytes => json!({ "type": "string" }),
        Kind::Double | Kind::Float => json!({ "type": "number" }),
        _ => json!({ "type": "integer" }),
    }
}
