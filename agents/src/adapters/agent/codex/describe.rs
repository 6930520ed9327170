//! Describes what Codex does, and what it asks permission for, in words for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::{
    describe::tool_call,
    protocol::{list, text, texts},
};

/// Returns the activity line for an item of a turn that begins. `None` if it has none.
pub(super) fn begun(item: &Value) -> Option<String> {
    let line = match text(item, "type") {
        "commandExecution" => format!("command: {}", command(item)),
        "fileChange" => format!("edit: {}", paths(item).join(", ")),
        "mcpToolCall" => tool_call(&format!("{}.{}", text(item, "server"), text(item, "tool")), &item["arguments"]),
        "dynamicToolCall" => tool_call(text(item, "tool"), &item["arguments"]),
        "collabAgentToolCall" => format!("subagent: {} {}", text(item, "tool"), text(item, "prompt")),
        "webSearch" => format!("web search: {}", text(item, "query")),
        "imageView" => format!("image: {}", text(item, "path")),
        _ => return None,
    };
    Some(line)
}

/// Returns the tool of an item that begins, and its input in full.
pub(super) fn call(item: &Value) -> (String, String) {
    let (name, input) = match text(item, "type") {
        "commandExecution" => ("command".to_owned(), command(item).to_owned()),
        "fileChange" => ("edit".to_owned(), changes(item)),
        "mcpToolCall" => (format!("{}.{}", text(item, "server"), text(item, "tool")), item["arguments"].to_string()),
        "collabAgentToolCall" => (format!("subagent {}", text(item, "tool")), text(item, "prompt").to_owned()),
        "webSearch" => ("web search".to_owned(), text(item, "query").to_owned()),
        "imageView" => ("image".to_owned(), text(item, "path").to_owned()),
        _ => (text(item, "tool").to_owned(), item["arguments"].to_string()),
    };
    (name, input)
}

/// Returns what a tool call that is complete has returned, and whether it failed. `None` if the item is no tool call.
pub(super) fn result(item: &Value) -> Option<(String, bool)> {
    let failed = ["failed", "declined"].contains(&text(item, "status"));
    Some(match text(item, "type") {
        "commandExecution" => {
            let exit = item["exitCode"].as_i64().unwrap_or_default();
            let code = if exit == 0 { String::new() } else { format!("\n[exit code {exit}]") };
            (format!("{}{code}", text(item, "aggregatedOutput")), failed || exit != 0)
        }
        "fileChange" => (text(item, "status").to_owned(), failed),
        "mcpToolCall" if item["error"].is_null() => (texts(&item["result"]["content"]), failed),
        "mcpToolCall" => (text(&item["error"], "message").to_owned(), true),
        "dynamicToolCall" => (texts(&item["contentItems"]), failed || item["success"] == Value::Bool(false)),
        "collabAgentToolCall" | "webSearch" | "imageView" => (text(item, "status").to_owned(), failed),
        _ => return None,
    })
}

/// Returns the activity line for an item of a turn that is complete. `None` if it has none.
pub(super) fn completed(item: &Value) -> Option<String> {
    match (text(item, "type"), text(item, "text")) {
        ("agentMessage" | "plan", said) if !said.trim().is_empty() => Some(said.to_owned()),
        _ => None,
    }
}

/// Returns a request to run a command: in one line, and in full. Both contain the command as it would run, not as Codex
/// parses it.
pub(super) fn wanted_command(params: &Value) -> (String, String) {
    let command = text(params, "command");
    let mut detail = command.to_owned();
    for (label, field) in [("Directory", "cwd"), ("Reason", "reason")] {
        if !text(params, field).is_empty() {
            _ = write!(detail, "\n{label}: {}", text(params, field));
        }
    }
    for (label, field) in [("Network", "networkApprovalContext"), ("Permissions", "additionalPermissions")] {
        if !params[field].is_null() {
            _ = write!(detail, "\n{label}: {}", params[field]);
        }
    }
    (command.to_owned(), detail)
}

/// Returns a request to change files: in one line, and in full. `item`: the change, which came before the request.
pub(super) fn wanted_change(params: &Value, item: &Value) -> (String, String) {
    let mut detail = changes(item);
    for (label, field) in [("Reason", "reason"), ("For all files in", "grantRoot")] {
        if !text(params, field).is_empty() {
            _ = writeln!(detail, "{label}: {}", text(params, field));
        }
    }
    (paths(item).join(", "), detail.trim_end().to_owned())
}

/// Returns a request for permissions beyond the sandbox: in one line, and in full.
pub(super) fn wanted_permissions(params: &Value) -> (String, String) {
    let detail = serde_json::to_string_pretty(&params["permissions"]).unwrap_or_default();
    let summary = match text(params, "reason") {
        "" => params["permissions"].to_string(),
        reason => reason.to_owned(),
    };
    (summary, detail)
}

/// Returns a request to call a tool of another MCP server: its name, and the call in one line and in full.
pub(super) fn wanted_mcp_call(params: &Value) -> (String, (String, String)) {
    let (meta, server) = (&params["_meta"], text(params, "serverName"));
    let tool = format!("{server}.{}", text(meta, "tool_name"));
    let detail = serde_json::to_string_pretty(&meta["tool_params"]).unwrap_or_default();
    (tool, (text(params, "message").to_owned(), detail))
}

/// Returns the failure of a turn, or of an attempt to reach the model.
pub(super) fn error(error: &Value) -> String {
    match (text(error, "message"), text(error, "additionalDetails")) {
        ("", _) => "Codex does not say why".to_owned(),
        (message, "") => message.to_owned(),
        (message, details) => format!("{message}: {details}"),
    }
}

/// Returns the changes of an item in full.
fn changes(item: &Value) -> String {
    let mut detail = String::new();
    for change in list(&item["changes"]) {
        _ = writeln!(detail, "{} {}\n{}", text(&change["kind"], "type"), text(change, "path"), text(change, "diff"));
    }
    detail
}

/// Returns the command of an item, if possible without the shell that Codex runs it in.
fn command(item: &Value) -> &str {
    match list(&item["commandActions"]) {
        [action] if !text(action, "command").is_empty() => text(action, "command"),
        _ => text(item, "command"),
    }
}

/// Returns the files that an item changes.
pub(super) fn paths(item: &Value) -> Vec<&str> {
    list(&item["changes"]).iter().map(|change| text(change, "path")).collect()
}
