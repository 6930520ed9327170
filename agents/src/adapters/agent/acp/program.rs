//! What differs between the programs that speak the protocol.

use std::{ffi::OsString, path::Path};

use agent_client_protocol_schema::v1::{SessionModeId, ToolCallUpdate, ToolKind};
use uuid::Uuid;

use super::super::protocol::Setup;
use crate::{incarnation::Additions, mcp::TOOLS, programs};

/// The name under which a program knows our MCP server.
pub(super) const SERVER: &str = "teamwire";

/// What Gemini CLI writes before the path of a plan that is to be approved.
const GEMINI_PLAN: &str = "Requesting plan approval for: ";

/// A program that speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Gemini,
    Opencode,
    /// One without such differences.
    Other,
}

impl Program {
    /// Returns the program that a command starts.
    pub(super) fn of(command: &str) -> Self {
        match Path::new(command).file_stem().and_then(|name| name.to_str()) {
            Some("gemini") => Self::Gemini,
            Some("opencode") => Self::Opencode,
            _ => Self::Other,
        }
    }

    /// Returns what makes the program speak the protocol, if it is known. Otherwise, the user gives the full command.
    pub(super) fn additions(self, command: &str, arguments: &[String]) -> Additions {
        let known = programs::find(command.as_ref());
        let before = known.map(|known| known.arguments_before(arguments)).unwrap_or_default();
        let variables = known.into_iter().flat_map(|known| &known.environment);
        let mut environment: Vec<(OsString, OsString)> =
            variables.map(|(name, value)| (name.into(), value.into())).collect();
        // opencode, under whatever name it is started, opens a port. There, any user of the machine could otherwise
        // read its sessions and prompt its agent.
        environment.push((OPENCODE_PASSWORD.into(), Uuid::new_v4().simple().to_string().into()));
        Additions { before: before.iter().map(Into::into).collect(), environment, ..Additions::default() }
    }

    /// Returns what continues a session at a terminal. `None` if that is not known.
    pub(super) fn at_terminal(self, session_id: &str) -> Option<Additions> {
        let option = match self {
            Self::Gemini => "--resume",
            Self::Opencode => "--session",
            Self::Other => return None,
        };
        Some(Additions { before: [option, session_id].map(Into::into).to_vec(), ..Additions::default() })
    }

    /// Returns whether the program keeps running when its input has ended, so that only a signal ends it.
    pub(super) fn ignores_end_of_input(self) -> bool {
        self == Self::Gemini
    }

    /// Returns the mode in which the program only plans, if it asks before it leaves that mode.
    pub(super) fn plan_mode(self) -> Option<SessionModeId> {
        (self == Self::Gemini).then(|| SessionModeId::new("plan"))
    }

    /// Returns what the person who runs the program should know about its arguments.
    pub(super) fn warnings(self, setup: &Setup) -> Vec<String> {
        let mut warnings = Vec::new();
        if self == Self::Gemini && !programs::has_any(&setup.arguments, &["-m", "--model"]) {
            warnings.push(
                "Gemini CLI chooses a model for each turn, which costs a request. To choose one, add `-m MODEL` after \
                 `gemini`."
                    .to_owned(),
            );
        }
        if setup.plan_first && self.plan_mode().is_none() {
            warnings.push(
                "The program has no plan mode that it asks to leave. Its agent submits its plan with the tool \
                 SubmitPlan, and can edit files before the plan is approved."
                    .to_owned(),
            );
        }
        warnings
    }

    /// Returns the name by which the program knows the tool of a call. `first_title`: the first title that the program
    /// gave the call. A title alone proves nothing: that of a shell command is the command.
    pub(super) fn tool_name<'a>(self, call: &'a ToolCallUpdate, first_title: Option<&'a str>) -> Option<&'a str> {
        match self {
            _ if call.fields.name.is_some() => call.fields.name.as_deref(),
            Self::Gemini => call.tool_call_id.0.split_once("__").map(|(name, _)| name),
            Self::Opencode => first_title,
            // Qwen Code names it there.
            Self::Other if tool_in_meta(call).is_some() => tool_in_meta(call),
            // Not of a command, whose title is what it runs.
            Self::Other => {
                let is_command = call.fields.kind == Some(ToolKind::Execute)
                    || call.fields.raw_input.as_ref().is_some_and(|input| input.get("command").is_some());
                first_title.filter(|title| !is_command && self.our_tool(title).is_some())
            }
        }
    }

    /// Returns our MCP server's name for a tool. `None` if the tool is not ours.
    pub(super) fn our_tool(self, tool: &str) -> Option<&str> {
        match self {
            Self::Gemini => tool.strip_prefix("mcp_teamwire_"),
            Self::Opencode => tool.strip_prefix("teamwire_"),
            // Each program spells a server and its tool in its own way. A name that no tool of ours has is another's.
            Self::Other => {
                let tool = tool.strip_prefix("mcp").map_or(tool, |rest| rest.trim_start_matches('_'));
                let own = tool.strip_prefix("teamwire")?.trim_start_matches(['_', '-', '.', '/', ':']);
                TOOLS.contains(&own).then_some(own)
            }
        }
    }

    /// Returns the file of the plan that a call wants approved. `None` if the call wants something else.
    pub(super) fn plan_to_approve<'a>(self, tool: &str, title: &'a str) -> Option<&'a Path> {
        let asks = self == Self::Gemini && tool == "exit_plan_mode";
        asks.then(|| Path::new(title.strip_prefix(GEMINI_PLAN).unwrap_or(title)))
    }

    /// Returns whether the tool only takes rights away from the agent.
    pub(super) fn is_harmless(self, tool: &str) -> bool {
        self == Self::Gemini && tool == "enter_plan_mode"
    }

    /// Returns whether a text comes from the program and not from the model.
    pub(super) fn is_notice(self, text: &str) -> bool {
        self == Self::Gemini && text.starts_with("[MODE_UPDATE]")
    }
}

/// The variable with the password of opencode's port.
const OPENCODE_PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

/// Returns the name of a call's tool, if the program adds it.
fn tool_in_meta(call: &ToolCallUpdate) -> Option<&str> {
    call.meta.as_ref()?.get("toolName")?.as_str()
}
