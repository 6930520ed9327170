//! Reads the values of a host's file and checks their bounds, so that a mistake stops the host when it starts, with an
//! error that names the line and the key.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use jiff::fmt::friendly::SpanParser;
use serde::{Deserialize, Deserializer, de::Error as _};
use teamwire_proto::name::Name;

/// How many members a host may run at a time.
const SLOTS_MAX: u32 = 1_000;

/// How many profiles a host may have.
const PROFILES_MAX: usize = 64;

/// How many tags a profile may have.
const TAGS_MAX: usize = 16;

/// How many labels a host may have.
const LABELS_MAX: usize = 32;

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

/// Reads the labels of a host.
pub fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    checked(deserializer, |labels| check_labels(&labels).map(|()| labels))
}

/// Checks the labels of a host, as the coordinator does.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    let fits = |text: &str, max: usize| text.chars().count() <= max && !text.chars().any(char::is_control);
    match labels.iter().find(|(key, value)| key.is_empty() || !fits(key, 63) || !fits(value, 255)) {
        Some((key, _)) => Err(format!(
            "the label {key:?} is empty, too long, or has control characters: keys have 1 to 63 characters, values up to 255"
        )),
        None if labels.len() > LABELS_MAX => Err(format!("there are more than {LABELS_MAX} labels")),
        None => Ok(()),
    }
}

/// Reads how many members a host runs at a time.
pub fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    checked(deserializer, |slots: u32| match slots {
        1..=SLOTS_MAX => Ok(Some(slots)),
        _ => Err(format!("slots is {slots}; it must be 1 to {SLOTS_MAX}")),
    })
}

/// Reads the profiles of a host. Their names differ in more than letter case.
pub fn profiles<'de, D, P>(deserializer: D) -> Result<BTreeMap<String, P>, D::Error>
where
    D: Deserializer<'de>,
    P: Deserialize<'de>,
{
    checked(deserializer, |profiles: BTreeMap<String, P>| {
        let folded: BTreeSet<String> = profiles.keys().map(|name| name.to_ascii_lowercase()).collect();
        let is_sound = |name: &str| Name::parse(name, "profile").is_ok();
        match profiles.keys().find(|name| !is_sound(name)) {
            Some(name) => Err(format!(
                "{name:?} is not the name of a profile: use 1 to 63 letters, digits, `.`, `_` and `-`, the first a letter or digit"
            )),
            None if folded.len() < profiles.len() => {
                Err("two profiles have the same name: letter case does not matter".to_owned())
            }
            None if profiles.len() > PROFILES_MAX => Err(format!("there are more than {PROFILES_MAX} profiles")),
            None => Ok(profiles),
        }
    })
}

/// Returns the profile of a name, whatever its letter case.
pub fn profile<'p, P>(profiles: &'p BTreeMap<String, P>, name: &str) -> Option<&'p P> {
    profiles.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, profile)| profile)
}

pub(super) fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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

pub(super) fn description<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, |text: String| match text.chars().count() <= 200 && !text.chars().any(char::is_control) {
        true => Ok(text),
        false => Err("description must be one line of up to 200 characters".to_owned()),
    })
}

/// Reads the tags of a profile.
pub fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    checked(deserializer, |tags: Vec<String>| match tags.iter().find_map(|tag| Name::parse_tag(tag, "tags").err()) {
        Some(refusal) => Err(refusal.message),
        None if tags.len() > TAGS_MAX => Err(format!("there are more than {TAGS_MAX} tags")),
        None => Ok(tags),
    })
}

pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    checked(deserializer, |path: String| expand(&path).map(Some))
}

pub(super) fn environment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    checked(deserializer, |variables: BTreeMap<String, String>| {
        let names = variables.keys().map(String::as_str);
        names.map(|name| check_variable(name, name)).collect::<Result<Vec<()>, String>>()?;
        Ok(variables)
    })
}

pub(super) fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
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

pub(super) fn start_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    checked(deserializer, |text: String| {
        let duration = SpanParser::new().parse_unsigned_duration(&text).ok();
        let within = duration.filter(|it| (Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(it));
        within.map(Some).ok_or_else(|| format!("start_deadline is {text:?}; it must be \"1s\" to \"1h\""))
    })
}

pub(super) fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    checked(deserializer, |text: String| {
        let size = text.parse::<ByteSize>().ok().filter(|size| *size >= ByteSize::mib(1));
        size.map(Some)
            .ok_or_else(|| format!("memory is {text:?}; it must be \"1MiB\" or more, such as \"4G\" or \"4GiB\""))
    })
}

pub(super) fn cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    checked(deserializer, |cpus: f64| match (0.01..=1024.0).contains(&cpus) {
        true => Ok(Some(cpus)),
        false => Err(format!("cpus is {cpus}; it must be 0.01 to 1024")),
    })
}

pub(super) fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    checked(deserializer, |tasks: u32| match tasks {
        16.. => Ok(Some(tasks)),
        _ => Err(format!("tasks is {tasks}; it must be 16 or more, because the runner counts, too")),
    })
}
