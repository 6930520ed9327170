//! The program's requests: for permission, for tool calls, and questions. Every request gets an answer.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use teamwire_proto::v1::ToolUse;

use super::{
    super::{
        protocol::{Decision, Event, Outbox, PermissionRequest, list},
        tool_use,
    },
    Codex, answer, describe, text,
};

/// JSON-RPC's code for a request that is not carried out.
const METHOD_NOT_FOUND: i32 = -32601;

/// What the program has asked permission for.
pub(super) struct Wanted {
    request: Value,
    thread: String,
    turn: String,
    tool: String,
    allow: Value,
    deny: Value,
}

impl Codex {
    /// Answers, or passes on, a request of the program.
    pub(super) fn requested(&mut self, method: &str, request: &Value, params: &Value, out: &mut Outbox) {
        let directory = PathBuf::from(self.directory());
        let (tool, (summary, detail), tool_use, allow, deny) = match method {
            "item/tool/call" => {
                let key = request.to_string();
                self.calls.insert(key.clone(), request.clone());
                let (tool, input) = (text(params, "tool").to_owned(), params["arguments"].clone());
                return out.tell(Event::ToolCalled { key, tool, input });
            }
            "item/commandExecution/requestApproval" => {
                let tool_use = command_use(params, &directory);
                let described = describe::wanted_command(params);
                ("command".to_owned(), described, tool_use, decision("accept"), decision("decline"))
            }
            "item/fileChange/requestApproval" => {
                let Some(change) = self.changes.get(text(params, "itemId")) else {
                    // No one may approve what no one can see.
                    out.tell(Event::Warning("The runner could not read an edit, so it refused it.".to_owned()));
                    return answer(request, &decision("decline"), out);
                };
                let tool_use = change_use(params, change, &directory);
                let described = describe::wanted_change(params, change);
                ("edit".to_owned(), described, tool_use, decision("accept"), decision("decline"))
            }
            "item/permissions/requestApproval" => {
                let allow = json!({ "permissions": params["permissions"], "scope": "turn" });
                let deny = json!({ "permissions": {}, "scope": "turn" });
                ("permissions".to_owned(), describe::wanted_permissions(params), None, allow, deny)
            }
            "mcpServer/elicitation/request" if params["_meta"]["codex_approval_kind"] == json!("mcp_tool_call") => {
                let (tool, described) = describe::wanted_mcp_call(params);
                let allow = json!({ "action": "accept", "content": {} });
                (tool, described, tool_use::other(&directory), allow, json!({ "action": "decline" }))
            }
            "mcpServer/elicitation/request" => return answer(request, &json!({ "action": "decline" }), out),
            "item/tool/requestUserInput" => return self.refuse_question(request, params, out),
            _ => {
                let error = format!("teamwire does not carry out {method}.");
                let error = json!({ "code": METHOD_NOT_FOUND, "message": error });
                return out.write(json!({ "id": request, "error": error }));
            }
        };
        let key = request.to_string();
        let (thread, turn) = (text(params, "threadId").to_owned(), text(params, "turnId").to_owned());
        let wanted = Wanted { request: request.clone(), thread, turn, tool: tool.clone(), allow, deny };
        self.permission_requests.insert(key.clone(), wanted);
        out.tell(Event::PermissionWanted(PermissionRequest { key, tool, summary, detail, tool_use }));
    }

    /// Answers that no one is at the program's terminal to answer questions.
    fn refuse_question(&mut self, request: &Value, params: &Value, out: &mut Outbox) {
        let says = "No one reads this question. Ask a teammate with SendMessage, or decide yourself.";
        self.add(text(params, "threadId"), text(params, "turnId"), says, out);
        answer(request, &json!({ "answers": {} }), out);
    }

    /// The program no longer waits for a response.
    pub(super) fn resolved(&mut self, request: &Value, out: &mut Outbox) {
        let key = request.to_string();
        if self.permission_requests.remove(&key).is_some() {
            out.tell(Event::WishWithdrawn { key });
        }
    }

    /// Answers a permission request. The reason for a refusal joins the turn first.
    pub(super) fn answer_wish(&mut self, wanted: &Wanted, decision: Decision, out: &mut Outbox) {
        match decision {
            Decision::Allow => answer(&wanted.request, &wanted.allow, out),
            Decision::Deny(why) => {
                let says = format!("Your request for permission ({}) was refused. {why}", wanted.tool);
                self.add(&wanted.thread, &wanted.turn, &says, out);
                answer(&wanted.request, &wanted.deny, out);
            }
        }
    }
}

/// Returns what a command would do. `None` if it would also get rights beyond its own, or run elsewhere.
fn command_use(params: &Value, directory: &Path) -> Option<ToolUse> {
    let is_plain = params["networkApprovalContext"].is_null() && params["additionalPermissions"].is_null();
    let is_here = tool_use::is_within(params, "cwd", directory);
    (is_plain && is_here).then(|| tool_use::shell_command(text(params, "command"), directory)).flatten()
}

/// Returns what an edit would do. `None` if it asks for later edits, too.
fn change_use(params: &Value, change: &Value, directory: &Path) -> Option<ToolUse> {
    let moves = list(&change["changes"]).iter().map(|change| {
        let kind = &change["kind"];
        if kind["move_path"].is_null() { text(kind, "movePath") } else { text(kind, "move_path") }
    });
    let paths: Vec<&str> = describe::paths(change).into_iter().chain(moves.filter(|path| !path.is_empty())).collect();
    let is_plain = params["grantRoot"].is_null() && !describe::paths(change).contains(&"");
    is_plain.then(|| tool_use::files(paths, directory)).flatten()
}

fn decision(decision: &str) -> Value {
    json!({ "decision": decision })
}
