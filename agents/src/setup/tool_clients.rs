//! Programs and editors that take the tools, and have no hooks that could hand messages over.

use jsonc_parser::cst::CstInputValue;

use super::{
    Invocation, SettingsFile,
    json::{Additions, list, object},
    programs::{Places, Scope, json_file, server},
};

/// A program or an editor that only takes the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolClient {
    /// opencode.
    Opencode,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
}

impl ToolClient {
    pub(super) const ALL: [Self; 4] = [Self::Opencode, Self::Copilot, Self::Cursor, Self::VsCode];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Opencode => "opencode",
            Self::Copilot => "GitHub Copilot CLI",
            Self::Cursor => "Cursor",
            Self::VsCode => "Visual Studio Code",
        }
    }

    pub(super) fn file(self, scope: Scope, places: &Places, ours: &Invocation) -> SettingsFile {
        let (project, home) = (&places.project, &places.home);
        let path = match (self, scope) {
            (Self::Opencode, scope) => {
                let directory = match scope {
                    Scope::User => &places.config.join("opencode"),
                    Scope::Project => project,
                };
                // It reads either.
                let with_comments = directory.join("opencode.jsonc");
                if with_comments.exists() { with_comments } else { directory.join("opencode.json") }
            }
            (Self::Copilot, Scope::User) => home.join(".copilot/mcp-config.json"),
            (Self::Copilot, Scope::Project) => project.join(".github/mcp.json"),
            (Self::Cursor, Scope::User) => home.join(".cursor/mcp.json"),
            (Self::Cursor, Scope::Project) => project.join(".cursor/mcp.json"),
            (Self::VsCode, Scope::User) if cfg!(target_os = "macos") => {
                home.join("Library/Application Support/Code/User/mcp.json")
            }
            (Self::VsCode, Scope::User) => places.config.join("Code/User/mcp.json"),
            (Self::VsCode, Scope::Project) => project.join(".vscode/mcp.json"),
        };
        let (servers, server) = match self {
            Self::Opencode => ("mcp", object([("type", "local".into()), ("command", whole_command(ours))])),
            Self::Copilot => {
                let tools = ("tools", list(["*".into()]));
                ("mcpServers", object([("type", "local".into())].into_iter().chain(server(ours)).chain([tools])))
            }
            Self::Cursor => ("mcpServers", object(server(ours))),
            Self::VsCode => ("servers", object([("type", "stdio".into())].into_iter().chain(server(ours)))),
        };
        json_file(path, Additions { server: Some((vec![servers.to_owned()], server)), hooks: Vec::new() })
    }
}

/// Returns the program and its arguments as one list.
fn whole_command(ours: &Invocation) -> CstInputValue {
    let words = std::iter::once(ours.binary.clone()).chain(ours.server_arguments());
    list(words.map(CstInputValue::from))
}
