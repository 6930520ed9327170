//! Edits the settings of agent programs, so that a session that a person starts is a member of a team.
//!
//! Everything here turns the text of a settings file into another text: the caller reads, asks and writes. An edit
//! keeps all other content of the file and can be repeated without effect. [`Intent::Undo`] removes what an edit has
//! added.

mod codex_toml;
mod json;
mod programs;
mod tool_clients;

use std::path::{Path, PathBuf};

pub use self::{
    programs::{AgentProgram, Places, Scope},
    tool_clients::ToolClient,
};

/// The name of the MCP server in the settings of a program.
const SERVER: &str = "teamwire";

/// What to do with the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Add the MCP server and the hooks.
    Set,
    /// Remove them.
    Undo,
}

/// A program that a person starts, and whose sessions can be members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// One that takes the tools, and whose hooks hand messages over.
    WithHooks(AgentProgram),
    /// One that only takes the tools.
    ToolsOnly(ToolClient),
}

impl Program {
    /// Returns all of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let with_hooks = AgentProgram::ALL.into_iter().map(Self::WithHooks);
        with_hooks.chain(ToolClient::ALL.into_iter().map(Self::ToolsOnly))
    }

    /// Returns its name at the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithHooks(program) => program.name(),
            Self::ToolsOnly(client) => client.name(),
        }
    }

    /// Returns the program with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|program| program.name() == name)
    }

    /// Returns its name in a sentence.
    pub fn title(self) -> &'static str {
        match self {
            Self::WithHooks(program) => program.title(),
            Self::ToolsOnly(client) => client.title(),
        }
    }

    /// Returns the files to edit.
    pub fn files(self, scope: Scope, places: &Places, ours: &Invocation) -> Vec<SettingsFile> {
        match self {
            Self::WithHooks(program) => program.files(scope, places, ours),
            Self::ToolsOnly(client) => vec![client.file(scope, places, ours)],
        }
    }
}

/// How the settings start teamwire.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The path of the teamwire binary.
    pub binary: String,
    /// The flags that select the identity, such as `--as lead@acme`.
    pub flags: Vec<String>,
}

impl Invocation {
    /// Returns the arguments that start the MCP server.
    fn server_arguments(&self) -> Vec<String> {
        [vec!["mcp".to_owned()], self.flags.clone()].concat()
    }

    /// Returns the shell command of a hook. `options` come last.
    fn hook(&self, program: AgentProgram, options: &[&str]) -> String {
        let words = [self.binary.as_str(), "hook", program.name()];
        let words = words.into_iter().chain(self.flags.iter().map(String::as_str)).chain(options.iter().copied());
        shlex::try_join(words).unwrap_or_default()
    }
}

/// Returns whether a hook's shell command is one that this module has written, whatever its path and flags.
fn is_our_hook(command: &str) -> bool {
    let words = shlex::split(command).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(|word| *word == "exec").collect();
    matches!(words.as_slice(), [binary, "hook", program, ..] if is_teamwire(binary) && AgentProgram::named(program).is_some())
}

/// Returns whether an MCP server is one that this module, or a person who followed the documentation, has written.
fn is_our_server(binary: &str, first_argument: &str) -> bool {
    is_teamwire(binary) && first_argument == "mcp"
}

/// Returns the absolute paths of teamwire that the text of a settings file starts.
pub fn binaries(text: &str) -> Vec<PathBuf> {
    let started = |value: &str| {
        let words = shlex::split(value).unwrap_or_default();
        let is_hook = is_our_hook(value);
        let binary = if is_hook { words.into_iter().find(|word| word != "exec")? } else { value.to_owned() };
        let path = PathBuf::from(&binary);
        (path.is_absolute() && is_teamwire(&binary)).then_some(path)
    };
    let mut found: Vec<PathBuf> = text.split('"').filter_map(started).collect();
    found.sort();
    found.dedup();
    found
}

fn is_teamwire(binary: &str) -> bool {
    Path::new(binary).file_name().is_some_and(|name| name == "teamwire")
}

/// Why a settings file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// It is not what its program would read.
    #[error("{} cannot be read as {format}: {detail}. Nothing was changed. Correct the file, then try again.", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// What is wrong, and where.
        detail: String,
    },
    /// A part of it has a type that its program would not accept.
    #[error("In {}, `{part}` is not {expected}. Nothing was changed. Correct the file, then try again.", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The part, such as `hooks.Stop`.
        part: String,
        /// What the program expects there.
        expected: &'static str,
    },
    /// It has an MCP server of this name that starts something else.
    #[error(
        "{} has an MCP server named `{SERVER}` that does not start `teamwire mcp`. Nothing was changed. Rename that server, \
         then try again.",
        path.display()
    )]
    NameTaken {
        /// The file.
        path: PathBuf,
    },
}

/// A settings file of a program, and what belongs in it.
#[derive(Debug)]
pub struct SettingsFile {
    /// Where it is.
    pub path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Json(json::Additions),
    CodexToml(Invocation),
}

impl SettingsFile {
    /// Returns what the file should contain. `before`: its text now. `None` if there is no file.
    pub fn edit(&self, before: Option<&str>, intent: Intent) -> Result<Option<String>, SetupError> {
        let text = before.unwrap_or_default();
        let after = match &self.content {
            Content::Json(additions) => json::edit(&self.path, text, additions, intent)?,
            Content::CodexToml(ours) => codex_toml::edit(&self.path, text, ours, intent)?,
        };
        // A file that holds nothing was not there before the first edit.
        let is_empty = matches!(after.trim(), "" | "{}");
        Ok((!is_empty || before.is_some_and(|before| before == after)).then_some(after))
    }
}
