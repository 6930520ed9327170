//! The file that describes a team: `team.toml`.
//!
//! serde reads it; `check` checks what the types cannot express. Every error names the file, the line and the key.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error as _};
use teamwire_agents::host::HostFile;
use teamwire_proto::v1::{self, RestartPolicy};
use toml_edit::{Array, Document, DocumentMut, Item, Table, value};

use crate::{command::amount::amount, config::line_of, failure::Failure};

/// The value of `lead` that means the person who runs `teamwire up`.
pub(super) const ME: &str = "me";

/// The name of the host that `teamwire up` starts on this machine.
pub(super) const LOCAL: &str = "local";

/// A team, as its file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::command) struct TeamFile {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    /// [`ME`], or the name of one of the members.
    #[serde(default = "me")]
    pub(super) lead: String,
    user: Option<String>,
    /// How much all members may use.
    #[serde(default, deserialize_with = "budget")]
    pub(super) budget: Option<v1::Budget>,
    #[serde(default)]
    pub(super) members: Vec<Member>,
    #[serde(default)]
    pub(super) tasks: Vec<Task>,
    #[serde(default)]
    pub(super) permissions: Permissions,
    #[serde(default)]
    hosts: Hosts,
    /// [`TeamFile::permissions`], checked.
    #[serde(skip)]
    pub(super) rules: Vec<v1::PermissionRule>,
    /// [`TeamFile::local_host`] as TOML.
    #[serde(skip)]
    pub(super) local: Option<String>,
    /// The directory that the file is in.
    #[serde(skip)]
    pub(super) directory: PathBuf,
}

/// A member that a host starts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) profile: String,
    pub(super) host: Option<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Includes the text of `prompt_file`, once the file is loaded.
    #[serde(default)]
    pub(super) prompt: String,
    pub(super) prompt_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) plan: bool,
    /// The tags that it gets besides those of its profile.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) restart: Option<Restart>,
    /// How much it may use.
    #[serde(default, deserialize_with = "budget")]
    pub(super) budget: Option<v1::Budget>,
    /// Whether it is ordered again if it is lost together with its host.
    #[serde(default)]
    pub(super) reschedule: bool,
    #[serde(default)]
    pub(super) dir: String,
}

/// When the runner of a member starts the program again.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Restart {
    Never,
    OnFailure,
    Always,
}

/// One of the team's first tasks.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    key: Option<String>,
    pub(super) subject: String,
    #[serde(default)]
    pub(super) description: String,
    /// Keys of other tasks.
    #[serde(default)]
    pub(super) blocked_by: Vec<String>,
    pub(super) owner: Option<String>,
    /// Patterns of the files that it will change.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    #[serde(default)]
    pub(super) exclusive: bool,
    /// Who reviews the result.
    #[serde(default)]
    pub(super) review: String,
    #[serde(default)]
    pub(super) merge_on_approval: bool,
}

/// What members may do without a permission request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Permissions {
    #[serde(default)]
    pub(super) rules: Vec<Rule>,
}

/// A permission rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    tool: String,
    #[serde(default)]
    member: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    any: bool,
}

impl Rule {
    /// Returns the rule as the protocol has it, unchecked.
    pub(super) fn to_protocol(&self) -> v1::PermissionRule {
        let Self { tool, member, command, path, any: any_use } = self.clone();
        v1::PermissionRule { tool, member, command, path, any_use, ..v1::PermissionRule::default() }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hosts {
    local: Option<HostFile>,
}

fn budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<v1::Budget>, D::Error> {
    let text = String::deserialize(deserializer)?;
    amount(&text).map(Some).map_err(D::Error::custom)
}

fn me() -> String {
    ME.to_owned()
}

impl TeamFile {
    /// Reads a file, unchecked. `directory`: where it is.
    pub(super) fn read(source: &Source<'_>, directory: &Path) -> Result<Self, Failure> {
        let mut file: Self = toml_edit::de::from_str(source.text).map_err(|error| source.unreadable(error))?;
        directory.clone_into(&mut file.directory);
        if let Some(local) = &mut file.hosts.local {
            let mut table = source.table_at(&["hosts", LOCAL]);
            add_known_programs(local, &mut table, &file.members);
            file.local = Some(table.to_string());
        }
        Ok(file)
    }

    /// Returns the program that a member runs on this machine, if the file or its profile's name says so.
    pub(super) fn local_program<'f>(&'f self, member: &'f Member) -> Option<&'f str> {
        if member.host.as_ref().is_some_and(|host| !is_same(host, LOCAL)) {
            return None;
        }
        match self.local_host() {
            Some(local) => local.profile(&member.profile)?.command.first().map(String::as_str),
            None => Some(&member.profile),
        }
    }

    /// Returns the configuration of the local host. `None` if the file has none.
    pub(super) fn local_host(&self) -> Option<&HostFile> {
        self.hosts.local.as_ref()
    }

    /// Returns the name of the person who runs `teamwire up`.
    pub(super) fn user(&self) -> &str {
        let default = if self.lead_member().is_none() { "lead" } else { "user" };
        self.user.as_deref().unwrap_or(default)
    }

    /// Returns the member that leads the team. `None` if the person who runs `teamwire up` leads it.
    pub(super) fn lead_member(&self) -> Option<&Member> {
        self.members.iter().find(|member| self.lead != ME && is_same(&member.name, &self.lead))
    }

    /// Returns the name of the lead.
    pub(super) fn lead_name(&self) -> &str {
        self.lead_member().map_or(self.user(), |member| &member.name)
    }

    /// Returns the tasks, each after those that it depends on. Leaves out the tasks of a cycle, and those that depend
    /// on them.
    pub(super) fn tasks_in_order(&self) -> Vec<&Task> {
        let (mut ordered, mut keys): (Vec<&Task>, BTreeSet<&str>) = Default::default();
        loop {
            let is_next = |task: &&Task| {
                !keys.contains(task.key()) && task.blocked_by.iter().all(|key| keys.contains(key.as_str()))
            };
            let Some(next) = self.tasks.iter().find(is_next) else { return ordered };
            keys.insert(next.key());
            ordered.push(next);
        }
    }
}

impl Task {
    /// Returns what identifies the task, on the board and in `blocked_by`.
    pub(super) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.subject)
    }
}

impl From<Restart> for RestartPolicy {
    fn from(restart: Restart) -> Self {
        match restart {
            Restart::Never => Self::Never,
            Restart::OnFailure => Self::OnFailure,
            Restart::Always => Self::Always,
        }
    }
}

/// Returns whether two names are the same, ignoring case.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The text of a file, used to find the lines of errors.
pub(super) struct Source<'s> {
    name: &'s str,
    text: &'s str,
    document: Document<&'s str>,
}

impl<'s> Source<'s> {
    /// Takes the text of a file with this name. Fails if it is not TOML.
    pub(super) fn new(name: &'s str, text: &'s str) -> Result<Self, Failure> {
        let document = Document::parse(text).map_err(|error| unreadable(name, text, error.into()))?;
        Ok(Self { name, text, document })
    }

    fn unreadable(&self, error: toml_edit::de::Error) -> Failure {
        unreadable(self.name, self.text, error)
    }

    /// Creates the failure for a mistake at a key. `path`: the path to the key, such as `members`, `2`, `name`.
    pub(super) fn wrong(&self, path: &[&str], what: &str) -> Failure {
        let keys: Vec<&str> = path.iter().filter(|part| part.parse::<usize>().is_err()).copied().collect();
        let what = what.trim_end_matches('.');
        Failure::usage(format!("{}:{}: {}: {what}.", self.name, self.line(path), keys.join(".")))
    }

    /// Returns the line of the innermost part of a path that exists in the file.
    fn line(&self, path: &[&str]) -> usize {
        let (mut item, mut start) = (self.document.as_item(), 0);
        for part in path {
            let next = part.parse::<usize>().map_or_else(|_| item.get(part), |index| item.get(index));
            let Some(next) = next else { break };
            start = next.span().map_or(start, |span| span.start);
            item = next;
        }
        line_of(self.text, start)
    }

    /// Returns a table as a TOML document.
    fn table_at(&self, path: &[&str]) -> DocumentMut {
        let document = self.text.parse::<DocumentMut>().unwrap_or_default();
        let found = path.iter().try_fold(document.as_item(), |item, part| item.get(part));
        found.and_then(|item| item.clone().into_table().ok()).unwrap_or_default().into()
    }
}

/// Adds profiles that members name, that a host's configuration leaves out, and that a host without a configuration would
/// offer: those of the agent programs on the PATH. `table`: the same configuration as TOML.
fn add_known_programs(local: &mut HostFile, table: &mut DocumentMut, members: &[Member]) {
    // Searched only if a member names another profile.
    let known = LazyCell::new(HostFile::of_programs_on_path);
    for member in members {
        if local.profile(&member.profile).is_some() {
            continue;
        }
        let Some(profile) = known.profile(&member.profile) else { continue };
        let list = |texts: &[String]| value(texts.iter().collect::<Array>());
        let mut written = Table::new();
        written.insert("command", list(&profile.command));
        written.insert("pass_env", list(&profile.pass_env));
        let profiles = table.entry("profiles").or_insert_with(|| Item::Table(Table::new()));
        if let Some(profiles) = profiles.as_table_like_mut() {
            profiles.insert(&member.profile, Item::Table(written));
            local.profiles.insert(member.profile.clone(), profile.clone());
        }
    }
}

fn unreadable(name: &str, text: &str, mut error: toml_edit::de::Error) -> Failure {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    // Without the input, the error names the key instead of quoting the line.
    error.set_input(None);
    let what: Vec<String> = error.to_string().lines().map(|line| line.trim().to_owned()).collect();
    Failure::usage(format!("{name}:{line}: {}. `teamwire up --help` shows an example.", what.join(", ")))
}
