//! The file that says what may run on a host.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use jiff::fmt::friendly::SpanParser;
use serde::{Deserialize, Deserializer, de::Error as _};
use teamwire_proto::v1;

use crate::process::find_program;

/// How many members a host runs at a time, unless its file or its command line says otherwise.
const SLOTS_DEFAULT: u32 = 4;

/// How many members a host may run at a time.
const SLOTS_MAX: u32 = 1_000;

/// How many profiles a host may have.
const PROFILES_MAX: usize = 64;

/// How many labels a host may have.
const LABELS_MAX: usize = 32;

/// The agent programs that a host without a file offers, and the variables that each may read.
const AGENTS: [(&str, &[&str]); 4] = [
    ("claude", &["ANTHROPIC_*", "CLAUDE_*"]),
    ("codex", &["CODEX_*", "OPENAI_*"]),
    ("gemini", &["GEMINI_*", "GOOGLE_*"]),
    ("opencode", &["ANTHROPIC_*", "GEMINI_*", "GOOGLE_*", "OPENAI_*", "OPENCODE_*"]),
];

/// What may run on a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostFile {
    /// The host's name.
    pub name: Option<String>,
    /// What orders may ask for.
    #[serde(deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
    /// How many members run at a time, up to 1,000.
    #[serde(deserialize_with = "slots")]
    pub slots: Option<u32>,
    /// What can be started, by name.
    #[serde(deserialize_with = "profiles")]
    pub profiles: BTreeMap<String, Profile>,
}

/// A kind of member that the host can start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The program and its arguments.
    #[serde(deserialize_with = "command")]
    pub command: Vec<String>,
    /// One line for those who choose.
    #[serde(default, deserialize_with = "description")]
    pub description: String,
    /// How messages reach the program. None: as `teamwire run` chooses.
    #[serde(default)]
    pub via: Option<Via>,
    /// Where each member has its directory. None: in the host's state directory.
    #[serde(default, deserialize_with = "path")]
    pub dir: Option<PathBuf>,
    /// A git repository. Each member gets a worktree of it for its directory.
    #[serde(default, deserialize_with = "path")]
    pub worktree: Option<PathBuf>,
    /// Environment variables.
    #[serde(default, deserialize_with = "environment")]
    pub env: BTreeMap<String, String>,
    /// The names of the host's environment variables that the member gets, too. A `*` at the end matches any ending.
    #[serde(default, deserialize_with = "variables")]
    pub pass_env: Vec<String>,
    /// Who answers when the program asks for permission.
    #[serde(default)]
    pub permissions: Option<Permission>,
    /// The member that is asked for permission. None: the lead.
    #[serde(default)]
    pub approver: Option<String>,
    /// Whether the runner claims tasks for the member.
    #[serde(default)]
    pub claim: bool,
    /// Whether the runner starts the program again, unless the order says so. None: as `teamwire run` chooses.
    #[serde(default)]
    pub restart: Option<RestartWhen>,
    /// How long a start may take, 1 s to 1 h. None: as the coordinator says.
    #[serde(default, deserialize_with = "start_deadline")]
    pub start_deadline: Option<Duration>,
    /// What a member may use.
    #[serde(default)]
    pub limits: Limits,
}

/// What a member may use, with everything that its program starts. Needs a cgroup of version 2.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How much memory.
    #[serde(deserialize_with = "memory")]
    pub memory: Option<ByteSize>,
    /// How many processors, for example 0.5.
    #[serde(deserialize_with = "cpus")]
    pub cpus: Option<f64>,
    /// How many processes and threads.
    #[serde(deserialize_with = "tasks")]
    pub tasks: Option<u32>,
}

impl Limits {
    /// Returns whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Declares an enum of words that `teamwire run` takes as the value of an option.
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
        /// Lines of JSON at its standard input.
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
        /// Whenever it has ended by itself.
        Always = "always",
    }
}

impl HostFile {
    /// Reads a file. The error names the line and the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml_edit::de::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// Returns the file of a host that has none: a profile for each agent program on the PATH.
    pub fn of_programs_on_path() -> Self {
        let found = AGENTS.into_iter().filter(|(program, _)| find_program(program.as_ref(), None, None).is_some());
        let profiles = found.map(|(program, variables)| (program.to_owned(), Profile::of_agent(program, variables)));
        Self { profiles: profiles.collect(), ..Self::default() }
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
    fn of_agent(program: &str, variables: &[&str]) -> Self {
        Self {
            command: vec![program.to_owned()],
            description: String::new(),
            via: None,
            dir: None,
            worktree: None,
            env: BTreeMap::new(),
            pass_env: variables.iter().map(|&name| name.to_owned()).collect(),
            permissions: None,
            approver: None,
            claim: false,
            restart: None,
            start_deadline: None,
            limits: Limits::default(),
        }
    }

    fn offer(&self, name: &str) -> v1::HostProfile {
        v1::HostProfile {
            name: name.to_owned(),
            description: self.description.clone(),
            start_deadline: self.start_deadline.and_then(|deadline| deadline.try_into().ok()),
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

/// Replaces a `~` at the beginning of a path.
fn expand(path: &str) -> Result<PathBuf, String> {
    let home = || env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from).ok_or("HOME is not set");
    match path.strip_prefix('~') {
        Some("") => Ok(home()?),
        Some(rest) if rest.starts_with('/') => Ok(home()?.join(rest.trim_start_matches('/'))),
        Some(_) => Err("only ~ and ~/… are expanded".to_owned()),
        None if Path::new(path).is_absolute() => Ok(path.into()),
        None => Err("must be absolute, or begin with ~/".to_owned()),
    }
}

/// Reads a value, and checks it.
fn checked<'de, T, U, D>(deserializer: D, check: impl FnOnce(T) -> Result<U, String>) -> Result<U, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    check(T::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    checked(deserializer, |labels: BTreeMap<String, String>| {
        let fits = |text: &str, max: usize| text.chars().count() <= max && !text.chars().any(char::is_control);
        match labels.iter().find(|(key, value)| key.is_empty() || !fits(key, 63) || !fits(value, 255)) {
            Some((key, _)) => Err(format!(
                "the label {key:?} is too long or has control characters: keys have 1 to 63 characters, values up to 255"
            )),
            None if labels.len() > LABELS_MAX => Err(format!("there are more than {LABELS_MAX} labels")),
            None => Ok(labels),
        }
    })
}

fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    checked(deserializer, |slots: u32| match slots {
        1..=SLOTS_MAX => Ok(Some(slots)),
        _ => Err(format!("slots is {slots}; it must be 1 to {SLOTS_MAX}")),
    })
}

fn profiles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Profile>, D::Error> {
    checked(deserializer, |profiles: BTreeMap<String, Profile>| {
        let is_sound = |name: &str| teamwire_proto::name::Name::parse(name, "profile").is_ok();
        match profiles.keys().find(|name| !is_sound(name)) {
            Some(name) => Err(format!(
                "{name:?} is not the name of a profile: use 1 to 63 letters, digits, `.`, `_` and `-`, the first a letter or digit"
            )),
            None if profiles.len() > PROFILES_MAX => Err(format!("there are more than {PROFILES_MAX} profiles")),
            None => Ok(profiles),
        }
    })
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    checked(deserializer, |command: Vec<String>| {
        let Some(program) = command.first().filter(|program| !program.is_empty()) else {
            return Err("command must name a program: [\"PROGRAM\", \"ARGUMENT\", …]".to_owned());
        };
        if !program.starts_with('~') {
            return Ok(command);
        }
        let program = expand(program)?.display().to_string();
        Ok([vec![program], command[1..].to_vec()].concat())
    })
}

fn description<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, |text: String| match text.chars().count() <= 200 && !text.chars().any(char::is_control) {
        true => Ok(text),
        false => Err("description must be one line of up to 200 characters".to_owned()),
    })
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    checked(deserializer, |path: String| expand(&path).map(Some))
}

fn environment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    checked(deserializer, |variables: BTreeMap<String, String>| {
        let names = variables.keys().map(String::as_str);
        names.map(|name| check_variable(name, name)).collect::<Result<Vec<()>, String>>()?;
        Ok(variables)
    })
}

fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    checked(deserializer, |names: Vec<String>| {
        let check = |name: &String| check_variable(name, name.strip_suffix('*').unwrap_or(name));
        names.iter().map(check).collect::<Result<Vec<()>, String>>()?;
        Ok(names)
    })
}

/// Checks the name of a variable, or the beginning of one.
fn check_variable(given: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0', '*']) {
        return Err(format!("{given:?} is not the name of an environment variable"));
    }
    if name.starts_with("TEAMWIRE") || "TEAMWIRE_".starts_with(name) && given.ends_with('*') {
        return Err(format!("{given:?} may not be set: teamwire sets the variables TEAMWIRE_* itself"));
    }
    Ok(())
}

fn start_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    checked(deserializer, |text: String| {
        let duration = SpanParser::new().parse_unsigned_duration(&text).ok();
        let within = duration.filter(|it| (Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(it));
        within.map(Some).ok_or_else(|| format!("start_deadline is {text:?}; it must be \"1s\" to \"1h\""))
    })
}

fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    checked(deserializer, |text: String| {
        let size = text.parse::<ByteSize>().ok().filter(|size| *size >= ByteSize::mib(1));
        size.map(Some)
            .ok_or_else(|| format!("memory is {text:?}; it must be \"1MiB\" or more, such as \"4G\" or \"4GiB\""))
    })
}

fn cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    checked(deserializer, |cpus: f64| match (0.01..=1024.0).contains(&cpus) {
        true => Ok(Some(cpus)),
        false => Err(format!("cpus is {cpus}; it must be 0.01 to 1024")),
    })
}

fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    checked(deserializer, |tasks: u32| match tasks {
        16.. => Ok(Some(tasks)),
        _ => Err(format!("tasks is {tasks}; it must be 16 or more, because the runner counts, too")),
    })
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
env = { CI = "1" }
pass_env = ["ANTHROPIC_API_KEY", "AWS_*"]
permissions = "ask"
restart = "always"
start_deadline = "2m"
limits = { memory = "4GiB", cpus = 1.5, tasks = 512 }
"#;

    #[test]
    fn a_file_says_what_the_host_offers() {
        let file = HostFile::parse(FULL).expect("a valid file");
        let offer = file.offer();
        assert_eq!((offer.slots, offer.labels.get("gpu").map(String::as_str)), (2, Some("a100")));
        assert_eq!(offer.profiles[0].start_deadline.map(|deadline| deadline.seconds), Some(120));
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
        ] {
            let error = with(line).err().unwrap_or_default();
            assert!(error.contains("line 4") && error.contains(words), "{line}: {error}");
        }
        let error = HostFile::parse("slots = 0").err().unwrap_or_default();
        assert!(error.contains("line 1") && error.contains("1 to 1000"), "{error}");
        let error = HostFile::parse("[profiles.\"a b\"]\ncommand = [\"a\"]").err().unwrap_or_default();
        assert!(error.contains("not the name of a profile"), "{error}");
        let error = HostFile::parse("[profiles.a]\ncommand = []").err().unwrap_or_default();
        assert!(error.contains("must name a program"), "{error}");
    }
}
