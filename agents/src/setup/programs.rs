//! Which files each program reads, and what it calls its events.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;

use super::{
    Content, Invocation, SERVER, SettingsFile,
    json::{Additions, list, object},
};

/// How long a hook may take, in seconds. It limits itself to less.
const HOOK_SECONDS: u32 = 10;

/// How long the last hook of a session may take, in seconds. Codex allows no more.
const END_SECONDS: u32 = 3;

/// How long a hook may wait for a message before it wakes an idle session, in seconds: a day.
const WAKE_SECONDS: u32 = 86_400;

/// Where Claude Code and Gemini CLI keep MCP servers.
const SERVERS: &str = "mcpServers";

/// A program whose interactive sessions can be members, and that has hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentProgram {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// Whose sessions the settings are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All sessions of this user.
    User,
    /// This user's sessions in one project.
    Project,
}

/// Where the programs look for their settings.
#[derive(Clone, Debug)]
pub struct Places {
    /// The user's home directory.
    pub home: PathBuf,
    /// The project's directory.
    pub project: PathBuf,
    /// Claude Code's directory, if it is not `~/.claude`.
    pub claude: Option<PathBuf>,
    /// Codex' directory, if it is not `~/.codex`.
    pub codex: Option<PathBuf>,
    /// Where programs keep a user's configuration.
    pub config: PathBuf,
}

impl AgentProgram {
    /// All programs.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// Returns its name at the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the program with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }

    /// Returns its name in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
        }
    }

    /// Returns the files to edit.
    pub(super) fn files(self, scope: Scope, places: &Places, ours: &Invocation) -> Vec<SettingsFile> {
        match self {
            Self::Claude => claude(scope, places, ours),
            Self::Codex => codex(scope, places, ours),
            Self::Gemini => gemini(scope, places, ours),
        }
    }
}

/// Claude Code keeps a user's MCP servers, for all projects and for each, in one file, which is never shared with a
/// team.
fn claude(scope: Scope, places: &Places, ours: &Invocation) -> Vec<SettingsFile> {
    let state = places.claude.as_ref().unwrap_or(&places.home).join(".claude.json");
    let user = || places.claude.clone().unwrap_or_else(|| places.home.join(".claude")).join("settings.json");
    let project = places.project.display().to_string();
    let (at, settings) = match scope {
        Scope::User => (vec![SERVERS.to_owned()], user()),
        Scope::Project => (
            vec!["projects".to_owned(), project, SERVERS.to_owned()],
            places.project.join(".claude/settings.local.json"),
        ),
    };
    let answers = |event: &str| command(ours.hook(AgentProgram::Claude, &[]), seconds(event), []);
    // The shell replaces itself, so that the hook notices the end of the program.
    let wakes = format!("exec {}", ours.hook(AgentProgram::Claude, &["--wake"]));
    let wakes = command(wakes, WAKE_SECONDS, [("asyncRewake", CstInputValue::Bool(true))]);
    let hooks = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"].map(|event| {
        let mut commands = vec![answers(event)];
        if matches!(event, "SessionStart" | "Stop") {
            commands.push(wakes.clone());
        }
        (event, object([("hooks", list(commands))]))
    });
    let server = [("type", "stdio".into())].into_iter().chain(server(ours));
    vec![
        json_file(state, Additions { server: Some((at, object(server))), hooks: Vec::new() }),
        json_file(settings, Additions { server: None, hooks: hooks.into() }),
    ]
}

fn codex(scope: Scope, places: &Places, ours: &Invocation) -> Vec<SettingsFile> {
    let directory = match scope {
        Scope::User => places.codex.clone().unwrap_or_else(|| places.home.join(".codex")),
        Scope::Project => places.project.join(".codex"),
    };
    let answers = |event: &str| command(ours.hook(AgentProgram::Codex, &[]), seconds(event), []);
    let hooks = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"];
    let hooks = hooks.map(|event| (event, object([("hooks", list([answers(event)]))])));
    vec![
        SettingsFile { path: directory.join("config.toml"), content: Content::CodexToml(ours.clone()) },
        json_file(directory.join("hooks.json"), Additions { server: None, hooks: hooks.into() }),
    ]
}

fn gemini(scope: Scope, places: &Places, ours: &Invocation) -> Vec<SettingsFile> {
    let directory: &Path = match scope {
        Scope::User => &places.home,
        Scope::Project => &places.project,
    };
    // Gemini CLI counts in milliseconds.
    let answers = |event: &str| {
        let name = [("name", CstInputValue::from(SERVER))];
        command(ours.hook(AgentProgram::Gemini, &[]), 1_000 * seconds(event), name)
    };
    let hooks = ["SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"];
    let hooks = hooks.map(|event| (event, object([("matcher", "*".into()), ("hooks", list([answers(event)]))])));
    let server = Some((vec![SERVERS.to_owned()], object(server(ours))));
    vec![json_file(directory.join(".gemini/settings.json"), Additions { server, hooks: hooks.into() })]
}

fn seconds(event: &str) -> u32 {
    if event == "SessionEnd" { END_SECONDS } else { HOOK_SECONDS }
}

pub(super) fn json_file(path: PathBuf, additions: Additions) -> SettingsFile {
    SettingsFile { path, content: Content::Json(additions) }
}

pub(super) fn server(ours: &Invocation) -> [(&'static str, CstInputValue); 2] {
    let arguments = ours.server_arguments().into_iter().map(CstInputValue::from);
    [("command", ours.binary.as_str().into()), ("args", list(arguments))]
}

fn command<const N: usize>(command: String, timeout: u32, more: [(&'static str, CstInputValue); N]) -> CstInputValue {
    let fields = [("type", "command".into()), ("command", command.into()), ("timeout", timeout.into())];
    object(fields.into_iter().chain(more))
}
