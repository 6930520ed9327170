//! The file that says what may run on a host.

pub mod bounds;

use std::{collections::BTreeMap, env, path::PathBuf, time::Duration};

use bytesize::ByteSize;
use serde::Deserialize;
use teamwire_proto::v1;

use crate::{
    process::find_program,
    programs::{KnownProgram, known},
};

/// How many members a host runs at a time, unless its file or its command line says otherwise.
const SLOTS_DEFAULT: u32 = 4;

/// What may run on a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostFile {
    /// The host's name.
    pub name: Option<String>,
    /// What orders may ask for.
    #[serde(deserialize_with = "bounds::labels")]
    pub labels: BTreeMap<String, String>,
    /// How many members run at a time, up to 1,000.
    #[serde(deserialize_with = "bounds::slots")]
    pub slots: Option<u32>,
    /// Where members start whose profile has neither a directory nor a repository. If `None`, each has its own
    /// directory in the host's state directory.
    #[serde(deserialize_with = "bounds::path")]
    pub dir: Option<PathBuf>,
    /// What can be started, by name.
    #[serde(deserialize_with = "bounds::profiles")]
    pub profiles: BTreeMap<String, Profile>,
}

/// A kind of member that the host can start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The program and its arguments.
    #[serde(deserialize_with = "bounds::command")]
    pub command: Vec<String>,
    /// One line that helps people and agents choose a profile.
    #[serde(default, deserialize_with = "bounds::description")]
    pub description: String,
    /// How messages reach the program. If `None`, `teamwire run` chooses.
    #[serde(default)]
    pub via: Option<Via>,
    /// Where a program that is started for each batch finds its prompt. If `None`, it gets lines of JSON.
    #[serde(default)]
    pub prompt_as: Option<PromptAs>,
    /// Where each member has its directory. If `None`, in the host's state directory.
    #[serde(default, deserialize_with = "bounds::path")]
    pub dir: Option<PathBuf>,
    /// A git repository. Each member gets a worktree of it as its directory.
    #[serde(default, deserialize_with = "bounds::path")]
    pub worktree: Option<PathBuf>,
    /// Whether files that git ignores may be removed together with the worktree of a member that has ended.
    #[serde(default)]
    pub discard_ignored: bool,
    /// Environment variables.
    #[serde(default, deserialize_with = "bounds::environment")]
    pub env: BTreeMap<String, String>,
    /// The names of the host's environment variables that the member gets, too. A trailing `*` matches any suffix.
    #[serde(default, deserialize_with = "bounds::variables")]
    pub pass_env: Vec<String>,
    /// Who answers when the program asks for permission.
    #[serde(default)]
    pub permissions: Option<Permission>,
    /// The member that answers permission requests. `None` means the lead.
    #[serde(default)]
    pub approver: Option<String>,
    /// Whether the runner claims tasks for the member.
    #[serde(default)]
    pub claim: bool,
    /// Whether the runner restarts the program. The order takes precedence. If `None`, `teamwire run` chooses.
    #[serde(default)]
    pub restart: Option<RestartWhen>,
    /// How long a start may take, 1 s to 1 h. If `None`, as long as the coordinator says.
    #[serde(default, deserialize_with = "bounds::start_deadline")]
    pub start_deadline: Option<Duration>,
    /// What a member may use.
    #[serde(default)]
    pub limits: Limits,
    /// The tags that its members get.
    #[serde(default, deserialize_with = "bounds::tags")]
    pub tags: Vec<String>,
}

/// What a member may use, including everything that its program starts. Needs a version 2 cgroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How much memory.
    #[serde(deserialize_with = "bounds::memory")]
    pub memory: Option<ByteSize>,
    /// How many processors, for example 0.5.
    #[serde(deserialize_with = "bounds::cpus")]
    pub cpus: Option<f64>,
    /// How many processes and threads.
    #[serde(deserialize_with = "bounds::tasks")]
    pub tasks: Option<u32>,
}

impl Limits {
    /// Returns whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Declares an enum of the values that an option of `teamwire run` accepts.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Returns the word for it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

words! {
    /// How messages reach a program: the values of `--via`.
    Via {
        /// Lines of JSON on its standard input.
        Stdin = "stdin",
        /// A program for each batch.
        Exec = "exec",
        /// Claude Code.
        Claude = "claude",
        /// Codex.
        Codex = "codex",
        /// The Agent Client Protocol.
        Acp = "acp",
    }
}

words! {
    /// Where a program finds its prompt: the values of `--prompt-as`.
    PromptAs {
        /// On standard input.
        Stdin = "stdin",
        /// As the last argument.
        Argument = "argument",
    }
}

words! {
    /// Who answers when a program asks for permission: the values of `--permissions`.
    Permission {
        /// The approver.
        Ask = "ask",
        /// The runner, which permits everything.
        Allow = "allow",
        /// The runner, which permits nothing.
        Deny = "deny",
    }
}

words! {
    /// When a program is started again: the values of `--restart`.
    RestartWhen {
        /// Never.
        Never = "never",
        /// After a failure.
        OnFailure = "on-failure",
        /// Whenever it has ended without being asked to.
        Always = "always",
    }
}

impl HostFile {
    /// Reads a file. The error names the line and the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml_edit::de::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// Returns the settings of a host without a file: a profile for each agent program on the PATH.
    pub fn of_programs_on_path() -> Self {
        let found = known().iter().filter(|program| find_program(program.command.as_ref(), None, None).is_some());
        let profiles = found.map(|program| (program.command.clone(), Profile::of_program(program)));
        Self { profiles: profiles.collect(), ..Self::default() }
    }

    /// Returns the profile of a name, whatever its letter case.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        bounds::profile(&self.profiles, name)
    }

    /// Returns what a host with this file offers.
    pub fn offer(&self) -> v1::HostOffer {
        v1::HostOffer {
            labels: self.labels.clone().into_iter().collect(),
            profiles: self.profiles.iter().map(|(name, profile)| profile.offer(name)).collect(),
            slots: self.slots(),
            platform: format!("{}/{}", env::consts::OS, env::consts::ARCH),
        }
    }

    /// Returns how many members run at a time.
    pub fn slots(&self) -> u32 {
        self.slots.unwrap_or(SLOTS_DEFAULT)
    }
}

impl Profile {
    fn of_program(program: &KnownProgram) -> Self {
        Self {
            command: vec![program.command.clone()],
            description: String::new(),
            via: None,
            prompt_as: None,
            dir: None,
            worktree: None,
            discard_ignored: false,
            env: BTreeMap::new(),
            pass_env: program.variables.clone(),
            permissions: None,
            approver: None,
            claim: false,
            restart: None,
            start_deadline: None,
            limits: Limits::default(),
            tags: Vec::new(),
        }
    }

    fn offer(&self, name: &str) -> v1::HostProfile {
        v1::HostProfile {
            name: name.to_owned(),
            description: self.description.clone(),
            start_deadline: self.start_deadline.and_then(|deadline| deadline.try_into().ok()),
            tags: self.tags.clone(),
        }
    }

    /// Returns whether the member gets this variable of the host's environment.
    pub fn passes(&self, variable: &str) -> bool {
        self.pass_env.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => variable.starts_with(beginning),
            None => variable == name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
name = "gpu-1"
labels = { gpu = "a100" }
slots = 2
[profiles.claude]
command = ["claude", "--model", "opus"]
via = "claude"
dir = "~/work"
worktree = "/src/app"
discard_ignored = true
env = { CI = "1" }
pass_env = ["ANTHROPIC_API_KEY", "AWS_*"]
permissions = "ask"
restart = "always"
start_deadline = "2m"
limits = { memory = "4GiB", cpus = 1.5, tasks = 512 }
tags = ["api"]
"#;

    #[test]
    fn a_file_says_what_the_host_offers() {
        let file = HostFile::parse(FULL).expect("a valid file");
        let offer = file.offer();
        assert_eq!((offer.slots, offer.labels.get("gpu").map(String::as_str)), (2, Some("a100")));
        assert_eq!(offer.profiles[0].start_deadline.map(|deadline| deadline.seconds), Some(120));
        assert_eq!(offer.profiles[0].tags, ["api"]);
        let claude = &file.profiles["claude"];
        assert_eq!(claude.limits.memory, Some(ByteSize::gib(4)));
        assert!(claude.dir.as_ref().is_some_and(|dir| dir.is_absolute() && dir.ends_with("work")));
        assert!(claude.passes("AWS_REGION") && claude.passes("ANTHROPIC_API_KEY"));
        assert!(!claude.passes("ANTHROPIC_API_KEY_2") && !claude.passes("TEAMWIRE_CREDENTIAL"));
    }

    #[test]
    fn an_error_names_the_line_and_the_key() {
        let with = |line: &str| HostFile::parse(&format!("slots = 1\n[profiles.a]\ncommand = [\"a\"]\n{line}\n"));
        for (line, words) in [
            ("comand = \"x\"", "comand"),
            ("dir = \"work\"", "must be absolute"),
            ("limits = { memory = \"many\" }", "memory is \"many\""),
            ("limits = { cpus = 0.0 }", "cpus is 0"),
            ("limits = { tasks = 1 }", "tasks is 1"),
            ("start_deadline = \"2h\"", "start_deadline is \"2h\""),
            ("pass_env = [\"TEAMWIRE_CREDENTIAL\"]", "TEAMWIRE_*"),
            ("pass_env = [\"*\"]", "not the name"),
            ("pass_env = [\"TEAM*\"]", "TEAMWIRE_*"),
            ("env = { TEAMWIRE_AS = \"lead\" }", "TEAMWIRE_*"),
            ("via = \"telepathy\"", "telepathy"),
            ("prompt_as = \"smoke\"", "smoke"),
            ("tags = [\"all\"]", "cannot be a tag"),
        ] {
            let error = with(line).err().unwrap_or_default();
            assert!(error.contains("line 4") && error.contains(words), "{line}: {error}");
        }
        let error = HostFile::parse("slots = 0").err().unwrap_or_default();
        assert!(error.contains("line 1") && error.contains("1 to 1000"), "{error}");
        let error = HostFile::parse("[profiles.\"a b\"]\ncommand = [\"a\"]").err().unwrap_or_default();
        assert!(error.contains("not the name of a profile"), "{error}");
        let twice = "[profiles.a]\ncommand = [\"a\"]\n[profiles.A]\ncommand = [\"a\"]";
        let error = HostFile::parse(twice).err().unwrap_or_default();
        assert!(error.contains("the same name"), "{error}");
        let error = HostFile::parse("[profiles.a]\ncommand = []").err().unwrap_or_default();
        assert!(error.contains("must name a program"), "{error}");
    }
}
