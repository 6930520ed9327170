//! Reads the host's file: the host's settings, and the Pod template of each profile.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde::Deserialize;
use serde_json::Value;
use teamwire_agents::host::{Permission, RestartWhen, Via};

/// The name of the container that runs the program. If a template has no such container, the first one does.
pub(crate) const CONTAINER: &str = "teammate";

/// How long a start may take by default. Long enough to pull images.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// What a host in a cluster offers, and how it starts members.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    /// The host's name. Empty if the file does not name it.
    pub name: String,
    /// The host's labels.
    pub labels: BTreeMap<String, String>,
    /// How many members it may run at a time.
    pub slots: u32,
    /// The namespace of its Jobs. Empty means the one of this Pod, or of the kubeconfig.
    pub(crate) namespace: String,
    /// The ConfigMap that owns its Jobs, so that they are deleted with it. Empty means none.
    pub(crate) owner: String,
    /// How long a finished Job is kept, for its logs.
    pub(crate) keep: Duration,
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// How to start one kind of member.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) description: String,
    pub(crate) start_deadline: Duration,
    /// The path of teamwire in the image.
    pub(crate) runner: String,
    /// Options of `teamwire run`.
    pub(crate) arguments: Vec<String>,
    /// Whether the runner restarts the program. The order takes precedence.
    pub(crate) restart: Option<RestartWhen>,
    /// The template. The command of its program is in the container at [`Profile::container`].
    pub(crate) template: PodTemplateSpec,
    /// The tags that its members get.
    pub(crate) tags: Vec<String>,
}

/// Why a host's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{} cannot be read: {error}. Check the path and its permissions.", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The file is malformed, or has an unknown key.
    #[error("{}: {text}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
    /// A Pod template cannot be used.
    #[error("the profile {profile}: {text}")]
    Template {
        /// The profile.
        profile: String,
        /// What is wrong, and what to do.
        text: String,
    },
}

/// The host's file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default = "slots_default")]
    slots: u32,
    #[serde(default)]
    kubernetes: Cluster,
    profiles: BTreeMap<String, ListedProfile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cluster {
    namespace: String,
    owner: String,
    keep: String,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { namespace: String::new(), owner: String::new(), keep: "1h".to_owned() }
    }
}

/// A profile as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedProfile {
    pod: PathBuf,
    #[serde(default)]
    description: String,
    start_deadline: Option<String>,
    #[serde(default = "runner_default")]
    runner: String,
    via: Option<Via>,
    permissions: Option<Permission>,
    approver: Option<String>,
    #[serde(default)]
    claim: bool,
    restart: Option<RestartWhen>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
}

fn slots_default() -> u32 {
    4
}

fn runner_default() -> String {
    "teamwire".to_owned()
}

impl Profiles {
    /// Reads a host's file, and the templates that it names, by paths relative to it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let malformed = |text: String| ConfigError::Malformed { path: path.to_owned(), text };
        let file: File = toml_edit::de::from_str(&text(path)?).map_err(|error| malformed(error.to_string()))?;
        if file.profiles.is_empty() {
            return Err(malformed(
                "it has no profile. Add one: [profiles.NAME] with pod = \"template.yaml\".".to_owned(),
            ));
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let profiles = file.profiles.into_iter().map(|(name, entry)| {
            let profile = entry.read(directory, &name)?;
            Ok((name, profile))
        });
        Ok(Self {
            name: file.name,
            labels: file.labels,
            slots: file.slots,
            namespace: file.kubernetes.namespace,
            owner: file.kubernetes.owner,
            keep: duration(&file.kubernetes.keep).map_err(|text| malformed(format!("kubernetes.keep: {text}")))?,
            profiles: profiles.collect::<Result<_, ConfigError>>()?,
        })
    }
}

impl ListedProfile {
    fn read(self, directory: &Path, name: &str) -> Result<Profile, ConfigError> {
        let unusable = |text: String| ConfigError::Template { profile: name.to_owned(), text };
        let path = directory.join(&self.pod);
        let template = parse_template(&text(&path)?).map_err(|text| unusable(format!("{}: {text}", path.display())))?;
        let start_deadline = match &self.start_deadline {
            Some(text) => duration(text).map_err(|text| unusable(format!("start_deadline: {text}")))?,
            None => START_DEADLINE,
        };
        let mut arguments = Vec::new();
        let given = [
            ("--via", self.via.map(|via| via.as_str().to_owned())),
            ("--permissions", self.permissions.map(|permissions| permissions.as_str().to_owned())),
            ("--approver", self.approver),
        ];
        for (option, value) in given {
            // As one argument, so that a value is never parsed as an option.
            arguments.extend(value.map(|value| format!("{option}={value}")));
        }
        arguments.extend(self.claim.then(|| "--claim".to_owned()));
        arguments.extend(self.arguments);
        Ok(Profile {
            description: self.description,
            tags: self.tags,
            start_deadline,
            runner: self.runner,
            arguments,
            restart: self.restart,
            template,
        })
    }
}

/// Reads a Pod template: a Pod's `metadata` and `spec`, in YAML or JSON.
fn parse_template(text: &str) -> Result<PodTemplateSpec, String> {
    let read: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let template: PodTemplateSpec = serde_json::from_value(read.clone()).map_err(|error| error.to_string())?;
    let known = serde_json::to_value(&template).map_err(|error| error.to_string())?;
    // The template may also have `kind: Pod` and its `apiVersion`.
    let parts = ["metadata", "spec"];
    if let Some(field) = parts.iter().find_map(|part| unknown(part, read.get(part)?, known.get(part))) {
        return Err(format!("a Pod has no field `{field}`."));
    }
    let Some(spec) = &template.spec else {
        return Err("it has no `spec`. A template is a Pod's `metadata` and `spec`.".to_owned());
    };
    let Some(container) = program_container(&spec.containers) else {
        return Err("its `spec` has no `containers`.".to_owned());
    };
    if container.command.as_ref().is_none_or(Vec::is_empty) {
        return Err(format!(
            "the container {} has no `command`. Name the agent program there, such as [claude]; the host puts its runner in \
             front of it.",
            container.name
        ));
    }
    if spec.restart_policy.as_ref().is_some_and(|policy| policy != "Never") {
        return Err("its restartPolicy must be Never, so that a name never has two processes.".to_owned());
    }
    Ok(template)
}

/// Returns the path of an unknown field that was read. `path`: the path of the value.
fn unknown(path: &str, read: &Value, known: Option<&Value>) -> Option<String> {
    match (read, known) {
        (Value::Null, _) => None,
        (Value::Object(read), Some(Value::Object(known))) => {
            read.iter().find_map(|(key, value)| unknown(&format!("{path}.{key}"), value, known.get(key)))
        }
        (Value::Array(read), Some(Value::Array(known))) => {
            let mut pairs = read.iter().zip(known).enumerate();
            pairs.find_map(|(n, (read, known))| unknown(&format!("{path}[{n}]"), read, Some(known)))
        }
        (_, Some(_)) => None,
        (_, None) => Some(path.to_owned()),
    }
}

/// Returns the container that runs the program.
pub(crate) fn program_container(containers: &[Container]) -> Option<&Container> {
    containers.iter().find(|container| container.name == CONTAINER).or(containers.first())
}

fn text(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })
}

/// Reads a duration such as `90s`, `5m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is not a duration. Write it as 90s, 5m or 1h.");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    digits.parse().ok().and_then(|number: u64| number.checked_mul(unit)).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "metadata: {labels: {tier: agents}}\nspec:\n  containers:\n  - {name: claude, image: 'x:1', command: [claude]}\n";

    fn read(config: &str, template: &str) -> Result<Profiles, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("host.toml"), config).unwrap();
        fs::write(directory.path().join("claude.yaml"), template).unwrap();
        Profiles::read(&directory.path().join("host.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_names_templates_beside_it() {
        let profiles = read(
            "name = \"cluster\"\nslots = 20\nlabels = { gpu = \"a100\" }\n[kubernetes]\nnamespace = \"agents\"\nkeep = \"10m\"\n\
             [profiles.claude]\npod = \"claude.yaml\"\nvia = \"claude\"\nclaim = true\nstart_deadline = \"90s\"\n",
            TEMPLATE,
        );
        let profiles = profiles.unwrap();
        assert_eq!(
            (profiles.slots, profiles.namespace.as_str(), profiles.keep),
            (20, "agents", Duration::from_secs(600))
        );
        let claude = &profiles.profiles["claude"];
        assert_eq!(claude.arguments, ["--via=claude", "--claim"]);
        assert_eq!(claude.start_deadline, Duration::from_secs(90));
        assert_eq!(claude.template.metadata.as_ref().unwrap().labels.as_ref().unwrap()["tier"], "agents");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_with_a_remedy() {
        let profile = "[profiles.claude]\npod = \"claude.yaml\"\n";
        let refused = |config: &str, template: &str| read(config, template).unwrap_err();
        for (config, template, expected) in [
            ("[profiles]\n", TEMPLATE, "it has no profile"),
            ("[profiles.claude]\npod = \"claude.yml\"\n", TEMPLATE, "claude.yml cannot be read"),
            ("slot = 3\n[profiles.claude]\npod = \"claude.yaml\"\n", TEMPLATE, "slot"),
            ("[profiles.claude]\npod = \"claude.yaml\"\nstart_deadline = \"soon\"\n", TEMPLATE, "5m or 1h"),
            (profile, "spec: [", "claude.yaml"),
            (profile, "metadata: {}\n", "no `spec`"),
            (
                profile,
                "spec: {containers: [{name: a, image: b, command: [c], resources: {limit: {}}}]}\n",
                "spec.containers[0].resources.limit`",
            ),
            (profile, "spec: {containers: []}\n", "no `containers`"),
            (profile, "spec: {containers: [{name: a, image: b}]}\n", "no `command`"),
            (
                profile,
                "spec: {restartPolicy: Always, containers: [{name: a, image: b, command: [c]}]}\n",
                "must be Never",
            ),
        ] {
            let text = refused(config, template);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn the_container_named_teammate_runs_the_program() {
        let container = |name: &str| Container { name: name.to_owned(), ..Container::default() };
        let name = |containers: &[Container]| program_container(containers).map(|found| found.name.clone());
        assert_eq!(name(&[container("proxy"), container(CONTAINER)]).unwrap(), CONTAINER);
        assert_eq!(name(&[container("proxy"), container("other")]).unwrap(), "proxy");
        assert_eq!(name(&[]), None);
    }
}
