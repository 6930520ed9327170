//! The agent programs that teamwire knows by name: how each is started, what it needs, and the version that was tried.
//!
//! `table.toml` is ours. `acp_registry.json` has what we need of the
//! [registry](https://github.com/agentclientprotocol/registry) of the Agent Client Protocol (Apache-2.0), which
//! `cargo xtask programs` brings up to date.

mod installed;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    iter,
    path::Path,
    sync::LazyLock,
};

use serde::Deserialize;

pub use self::installed::{Installed, installed, sign_in_warning};
use crate::config::AgentProtocol;

/// An agent program that teamwire knows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownProgram {
    /// The command that starts it, as it is named on the PATH.
    pub command: String,
    /// What people call it.
    pub title: String,
    /// How the runner drives it.
    pub via: AgentProtocol,
    /// Its id in the registry, from which the arguments and a part of the environment come.
    registry: Option<String>,
    /// The arguments that make it speak its protocol. They come before those of the user.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Arguments that do the same as the first of these.
    #[serde(default)]
    same_as: Vec<String>,
    /// The arguments with which it takes the team's tools, if it does not take them as others do. They come next.
    #[serde(default)]
    arguments_for_tools: Vec<String>,
    /// Flags, as `--flag=value`, that come next unless the user gives them.
    #[serde(default)]
    defaults: Vec<String>,
    /// The environment variables that the runner sets.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The environment variables that a host passes on to it. A trailing `*` matches any suffix.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Where it can be installed from: `npm:` or `pypi:`, and the name of the package. Empty if it has its own
    /// installer.
    #[serde(default)]
    package: String,
    /// Who provides its models, as OpenTelemetry's conventions name it. Empty if the user chooses.
    #[serde(default)]
    provider: String,
    /// The command that signs in. Empty if it is not known.
    #[serde(default)]
    pub sign_in: String,
    /// The version that was tried. `None` if none was.
    pub tried: Option<String>,
    /// What a person should know before choosing it, each a sentence.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What the table has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTable {
    program: Vec<KnownProgram>,
}

/// A row of the registry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryEntry {
    id: String,
    title: String,
    /// What its file is called. `None` if the registry does not say.
    command: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

/// Returns the programs that teamwire knows: those of the table, and then those that only the registry has.
pub fn known() -> &'static [KnownProgram] {
    static KNOWN: LazyLock<Vec<KnownProgram>> = LazyLock::new(|| {
        let table: ProgramTable = toml_edit::de::from_str(include_str!("table.toml")).expect("the table is valid");
        let registry: Vec<RegistryEntry> =
            serde_json::from_str(include_str!("acp_registry.json")).expect("the copy of the registry is valid");
        merged(table.program, registry)
    });
    &KNOWN
}

fn merged(mut programs: Vec<KnownProgram>, registry: Vec<RegistryEntry>) -> Vec<KnownProgram> {
    let mut entries: HashMap<String, RegistryEntry> =
        registry.into_iter().map(|entry| (entry.id.clone(), entry)).collect();
    for program in &mut programs {
        let Some(entry) = program.registry.as_ref().and_then(|id| entries.remove(id)) else { continue };
        if program.arguments.is_empty() {
            program.arguments = entry.arguments;
        }
        let own = std::mem::take(&mut program.environment);
        program.environment = entry.environment.into_iter().chain(own).collect();
    }
    let mut rest: Vec<KnownProgram> = entries.into_values().filter_map(KnownProgram::of_registry).collect();
    rest.retain(|program| programs.iter().all(|known| known.command != program.command));
    rest.sort_by(|one, other| one.command.cmp(&other.command));
    programs.extend(rest);
    programs
}

/// Returns the program that a command or a path starts, if teamwire knows it.
pub fn find(program: &OsStr) -> Option<&'static KnownProgram> {
    let name = Path::new(program).file_stem()?;
    known().iter().find(|known| name == known.command.as_str())
}

impl KnownProgram {
    fn of_registry(entry: RegistryEntry) -> Option<Self> {
        Some(Self {
            command: entry.command?,
            title: entry.title,
            via: AgentProtocol::Acp,
            registry: Some(entry.id),
            arguments: entry.arguments,
            same_as: Vec::new(),
            arguments_for_tools: Vec::new(),
            defaults: Vec::new(),
            environment: entry.environment,
            variables: Vec::new(),
            package: String::new(),
            provider: String::new(),
            sign_in: String::new(),
            tried: None,
            notes: Vec::new(),
        })
    }

    /// Returns who provides its models, for OpenTelemetry; the program itself, if the user chooses.
    pub(crate) fn provider(&self) -> &str {
        if self.provider.is_empty() { &self.command } else { &self.provider }
    }

    /// Returns the arguments that come before those that a user gives, without what the user gives.
    pub(crate) fn arguments_before(&self, given: &[String]) -> Vec<String> {
        let is_given = self.arguments.first().is_none_or(|first| match first.starts_with('-') {
            true => {
                let others = self.same_as.iter().map(String::as_str);
                has_any(given, &iter::once(flag_of(first)).chain(others).collect::<Vec<_>>())
            }
            false => given.first() == Some(first),
        });
        let speaks = if is_given { &[][..] } else { &self.arguments };
        let defaults = self.defaults.iter().filter(|flag| !has_any(given, &[flag_of(flag)]));
        speaks.iter().chain(&self.arguments_for_tools).chain(defaults).cloned().collect()
    }

    /// Returns the command that installs it. `None` if it has its own installer.
    pub fn install_command(&self) -> Option<String> {
        let (from, package) = self.package.split_once(':')?;
        match from {
            "npm" => Some(format!("npm install --global {package}")),
            "pypi" => Some(format!("uv tool install {package}")),
            _ => None,
        }
    }

    /// Returns a name and a version of the program and, if that is another one, which version was tried.
    pub(crate) fn version(&self, name: &str, version: &str) -> String {
        let version = version.trim_start_matches('v');
        match &self.tried {
            None => format!("{name} {version} (not tried)"),
            Some(tried) if tried != version => format!("{name} {version} (tried: {tried})"),
            Some(_) => format!("{name} {version}"),
        }
    }
}

/// Returns whether one of the flags is given, also as `--flag=value`.
pub(crate) fn has_any(arguments: &[String], flags: &[&str]) -> bool {
    arguments.iter().any(|argument| flags.contains(&flag_of(argument)))
}

/// Returns an argument without the value that follows its flag.
fn flag_of(argument: &str) -> &str {
    argument.split('=').next().unwrap_or_default()
}

/// Returns a program's name and version and, if teamwire knows the program, how that version compares with the one that
/// was tried. `command`: what starts it.
pub(crate) fn version(command: &str, name: &str, version: &str) -> String {
    // Under another file name, a program is known by what it calls itself, if it was tried.
    let small = name.to_ascii_lowercase();
    let is_named = |known: &&KnownProgram| known.tried.is_some() && small.contains(&known.command);
    match find(command.as_ref()).or_else(|| known().iter().find(is_named)) {
        Some(known) => known.version(name, version),
        None => format!("{name} {}", version.trim_start_matches('v')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> &'static KnownProgram {
        find(command.as_ref()).expect(command)
    }

    #[test]
    fn every_program_is_known_by_one_command() {
        for (at, program) in known().iter().enumerate() {
            assert!(!program.title.is_empty() && !program.command.contains(['/', ' ']), "{program:?}");
            assert!(known()[..at].iter().all(|other| other.command != program.command), "{}", program.command);
            let speaks = program.via != AgentProtocol::Acp || !program.arguments.is_empty();
            assert!(speaks || program.command.ends_with("-acp"), "{}: nothing makes it speak ACP", program.command);
            assert!(program.notes.iter().all(|note| note.ends_with('.')), "{program:?}");
        }
    }

    #[test]
    fn every_id_of_the_table_is_in_the_registry() {
        let registry: Vec<RegistryEntry> = serde_json::from_str(include_str!("acp_registry.json")).expect("valid");
        for id in known().iter().filter_map(|program| program.registry.as_ref()) {
            assert!(registry.iter().any(|entry| entry.id == *id), "{id}");
        }
    }

    #[test]
    fn a_program_is_found_by_the_name_of_its_file() {
        assert_eq!(of("claude").via, AgentProtocol::Claude);
        assert_eq!(of("/opt/bin/cline").arguments, ["--acp"]);
        assert_eq!(of("devin").arguments, ["acp"], "it is only in the registry");
        assert_eq!(of("auggie").environment["AUGMENT_DISABLE_AUTO_UPDATE"], "1");
        assert_eq!(of("gemini").environment["GEMINI_CLI_NO_RELAUNCH"], "true");
        assert!(find("python3".as_ref()).is_none());
    }

    #[test]
    fn arguments_that_the_user_gives_are_not_given_again() {
        let before = |command: &str, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&argument| argument.to_owned()).collect();
            of(command).arguments_before(&given).join(" ")
        };
        assert_eq!(before("gemini", &["-m", "x"]), "--acp");
        assert_eq!(before("gemini", &["--experimental-acp"]), "");
        assert_eq!(before("junie", &[]), "--acp=true");
        assert_eq!(before("junie", &["--acp"]), "");
        assert_eq!(before("goose", &["acp", "--with-builtin", "developer"]), "");
        assert_eq!(before("goose", &["--debug", "acp"]), "acp", "the value of an option may be any word");
        assert_eq!(before("droid", &["--model", "m"]), "exec --output-format acp-daemon");
        assert_eq!(before("vibe-acp", &[]), "");
        let search = "--exclude-tools=tool_search";
        assert!(before("qwen", &[]).ends_with(&format!("{search} --approval-mode=default")));
        assert_eq!(before("qwen", &["--acp", "--approval-mode", "yolo"]), search);
    }

    #[test]
    fn another_version_than_the_tried_one_is_shown_with_it() {
        let tried = of("claude").tried.as_ref().expect("tried");
        assert_eq!(version("claude", "Claude Code", tried), format!("Claude Code {tried}"));
        assert_eq!(version("claude", "Claude Code", "2.1.197"), format!("Claude Code 2.1.197 (tried: {tried})"));
        assert_eq!(version("devin", "Devin", "v3"), "Devin 3 (not tried)");
        assert_eq!(
            version("wrapper", "OpenCode", "v1"),
            format!("OpenCode 1 (tried: {})", of("opencode").tried.as_ref().expect("tried"))
        );
        assert_eq!(version("other", "other", "7"), "other 7");
    }

    #[test]
    fn the_tried_versions_are_those_that_tests_install() {
        let installed = include_str!("../../../tests/agents/programs.rs");
        for (program, tried) in known().iter().filter_map(|program| Some((program, program.tried.as_ref()?))) {
            let row = installed.lines().find(|line| line.trim_start().starts_with(&format!("{}:", program.command)));
            assert!(row.is_some_and(|row| row.contains(&format!("\"{tried}\""))), "{}: {row:?}", program.command);
        }
    }
}
