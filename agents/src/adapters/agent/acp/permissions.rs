//! The permissions that the program waits for.

use std::{collections::HashMap, path::Path};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, ToolCallContent, ToolCallUpdate, ToolKind,
};
use serde_json::{Value, json};
use teamwire_proto::v1::ToolUse;

use super::{
    super::{
        protocol::{Decision, PermissionRequest},
        tool_use,
    },
    program::Program,
};

/// A permission that the program waits for.
#[derive(Debug)]
struct Pending {
    /// The id of the program's request.
    id: Value,
    options: Vec<PermissionOption>,
    call: ToolCallUpdate,
}

/// The permissions that the program waits for, by key.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    by_key: HashMap<String, Pending>,
}

/// An answer to a request for permission.
#[derive(Debug)]
pub(super) struct OptionChoice {
    /// The id of the program's request.
    pub(super) id: Value,
    pub(super) response: Value,
    /// What the permission was asked for.
    pub(super) call: ToolCallUpdate,
}

impl OptionChoice {
    /// Returns what the permission was asked for, in words.
    pub(super) fn what(&self) -> &str {
        title(&self.call)
    }
}

impl Permissions {
    /// Records a request, and returns its key.
    pub(super) fn insert(&mut self, id: Value, request: RequestPermissionRequest) -> String {
        let key = id.to_string();
        self.by_key.insert(key.clone(), Pending { id, options: request.options, call: request.tool_call });
        key
    }

    /// Removes a request, and returns it with its answer. `None` if the program no longer waits for it.
    ///
    /// The answer applies to this one call if the program offers that. Otherwise, it applies to later calls, too, as
    /// [`permission_request`] has told the approver.
    pub(super) fn decide(&mut self, key: &str, decision: &Decision) -> Option<OptionChoice> {
        let pending = self.by_key.remove(key)?;
        let option = match decision {
            Decision::Allow => allowing(&pending.options),
            Decision::Deny(_) => rejecting(&pending.options),
        };
        let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
        });
        Some(OptionChoice {
            id: pending.id,
            response: json!(RequestPermissionResponse::new(outcome)),
            call: pending.call,
        })
    }

    /// Removes a request, and answers that it is cancelled. `None` if the program does not wait for it.
    pub(super) fn cancel(&mut self, key: &str) -> Option<OptionChoice> {
        let Pending { id, call, .. } = self.by_key.remove(key)?;
        let response = json!(RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled));
        Some(OptionChoice { id, response, call })
    }

    /// Removes every request, and answers that it is cancelled.
    pub(super) fn cancel_all(&mut self) -> Vec<(String, OptionChoice)> {
        let keys: Vec<String> = self.by_key.keys().cloned().collect();
        keys.into_iter().filter_map(|key| self.cancel(&key).map(|answer| (key, answer))).collect()
    }
}

/// Returns the option that allows the call, and no later one if the program offers that.
pub(super) fn allowing(options: &[PermissionOption]) -> Option<&PermissionOption> {
    first(options, [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways])
}

/// Returns the option that rejects the call, and no later one if the program offers that.
fn rejecting(options: &[PermissionOption]) -> Option<&PermissionOption> {
    first(options, [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways])
}

fn first(options: &[PermissionOption], kinds: [PermissionOptionKind; 2]) -> Option<&PermissionOption> {
    kinds.into_iter().find_map(|kind| options.iter().find(|option| option.kind == kind))
}

/// Returns what the approver must know about answers that apply to later calls, too. Empty if both apply to this call
/// only.
fn consequences(options: &[PermissionOption]) -> String {
    let mut says = String::new();
    if let Some(option) = allowing(options).filter(|option| option.kind == PermissionOptionKind::AllowAlways) {
        says.push_str(&format!(
            "The program offers no permission for this call only. If you approve, it chooses \"{}\", and asks no more about such \
             calls.\n",
            option.name
        ));
    }
    if let Some(option) = rejecting(options).filter(|option| option.kind == PermissionOptionKind::RejectAlways) {
        says.push_str(&format!(
            "The program offers no refusal of this call only. If you reject, it chooses \"{}\", and refuses such calls from then \
             on.\n",
            option.name
        ));
    }
    says
}

/// Returns what a call needs permission for. What an answer means for later calls comes first, so that it is never
/// truncated.
pub(super) fn permission_request(
    key: String,
    tool: Option<&str>,
    call: &ToolCallUpdate,
    options: &[PermissionOption],
) -> PermissionRequest {
    let kind = || json!(call.fields.kind.unwrap_or_default()).as_str().unwrap_or_default().to_owned();
    let detail = match consequences(options) {
        says if says.is_empty() => detail(call),
        says => format!("{says}\n{}", detail(call)),
    };
    let (tool, summary) = (tool.map_or_else(kind, str::to_owned), title(call).to_owned());
    PermissionRequest { key, tool, summary, detail, tool_use: None }
}

/// The fields of a command's input that do not change what it does.
const PLAIN_FIELDS: [&str; 3] = ["command", "description", "timeout"];

/// The fields that say where a command runs.
const DIRECTORY_FIELDS: [&str; 4] = ["cwd", "workdir", "directory", "dir_path"];

/// Returns what a call would do. `None` if that is not sure, or if the program offers no permission for this call only.
pub(super) fn use_of(
    program: Program,
    tool: Option<&str>,
    call: &ToolCallUpdate,
    options: &[PermissionOption],
    directory: &Path,
) -> Option<ToolUse> {
    allowing(options).filter(|option| option.kind == PermissionOptionKind::AllowOnce)?;
    let input = call.fields.raw_input.as_ref().unwrap_or(&Value::Null);
    match call.fields.kind {
        Some(ToolKind::Execute) => command_use(program, call, input, directory),
        _ if input.get("command").is_some() => command_use(program, call, input, directory),
        Some(ToolKind::Edit | ToolKind::Read) => tool_use::files(paths(call), directory),
        Some(ToolKind::Delete | ToolKind::Move) => None,
        // A kind is not the name of a tool.
        _ => tool.and_then(|_| tool_use::other(directory)),
    }
}

fn command_use(program: Program, call: &ToolCallUpdate, input: &Value, directory: &Path) -> Option<ToolUse> {
    for (field, value) in input.as_object().into_iter().flatten() {
        let is_here = DIRECTORY_FIELDS.contains(&field.as_str()) && tool_use::is_within(input, field, directory);
        if !is_here && !PLAIN_FIELDS.contains(&field.as_str()) && !value.is_null() {
            return None;
        }
    }
    match &input["command"] {
        Value::String(line) => tool_use::command(line, directory),
        Value::Array(words) => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            tool_use::arguments(&words?, directory)
        }
        Value::Null if program == Program::Gemini && runs_in_session_directory(call) => {
            tool_use::command(title(call), directory)
        }
        _ => None,
    }
}

/// Returns whether a command of Gemini CLI runs in the directory of its session. The title of the call is the command, and
/// its content begins with the directory. Older versions write both into the title, which then matches no rule.
fn runs_in_session_directory(call: &ToolCallUpdate) -> bool {
    call.fields.content.iter().flatten().all(|content| {
        let text = json!(content)["content"]["text"].clone();
        text.as_str().is_some_and(|text| text.starts_with("[current working directory "))
    })
}

/// Returns the files that a call says it is about.
fn paths(call: &ToolCallUpdate) -> Vec<&Path> {
    let diffs = call.fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff.path.as_path()),
        _ => None,
    });
    diffs.chain(call.fields.locations.iter().flatten().map(|location| location.path.as_path())).collect()
}

fn title(call: &ToolCallUpdate) -> &str {
    call.fields.title.as_deref().unwrap_or_default()
}

/// Returns the command or the edit, in full: the title, which is the whole command in a shell, and what was sent with
/// it.
fn detail(call: &ToolCallUpdate) -> String {
    let mut parts = vec![title(call).to_owned()];
    for content in call.fields.content.iter().flatten() {
        match content {
            ToolCallContent::Diff(diff) => parts.push(format!(
                "{}\n--- before\n{}\n--- after\n{}",
                diff.path.display(),
                diff.old_text.as_deref().unwrap_or_default(),
                diff.new_text
            )),
            other => parts.push(match json!(other)["content"]["text"].as_str() {
                Some(text) => text.to_owned(),
                None => json!(other).to_string(),
            }),
        }
    }
    let has_content = call.fields.content.as_ref().is_some_and(|content| !content.is_empty());
    match &call.fields.raw_input {
        Some(input) if !has_content && input["command"].as_str() != Some(title(call)) && input != &json!({}) => {
            parts.push(serde_json::to_string_pretty(input).unwrap_or_default());
        }
        _ => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}
