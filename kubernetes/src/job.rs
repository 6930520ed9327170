//! Builds the Job and the Secret of an order.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{
            Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec, PodTemplateSpec,
            Secret, SecretVolumeSource, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference},
    },
    jiff::Timestamp,
};
use teamwire_agents::host::{Order, RestartWhen, StartError};
use teamwire_proto::v1::RestartPolicy;

use crate::profiles::{CONTAINER, Profile};

/// The label with the id of the order.
pub(crate) const ORDER: &str = "teamwire.dev/order";
/// The label with the name of the host that made an object.
pub(crate) const HOST: &str = "teamwire.dev/host";
/// The label of a Job whose end the coordinator knows. The Job is kept for its logs.
pub(crate) const REPORTED: &str = "teamwire.dev/reported";
/// The label with the name of the team, as the chart for teammates sets it.
pub(crate) const TEAM: &str = "teamwire.dev/team";
/// The label with the name of the member, as the chart for teammates sets it.
pub(crate) const MEMBER: &str = "teamwire.dev/member";
/// The label of Pods that may reach the coordinators.
const CLIENT: &str = "teamwire.dev/client";
/// The annotation with the time by which a member must have started.
pub(crate) const EXPIRES_AT: &str = "teamwire.dev/expires-at";
/// The annotation of a Job that the host ended: why, and whether another host may try.
pub(crate) const ENDED: &str = "teamwire.dev/ended";

/// Where the Secret is mounted.
const SECRETS: &str = "/run/secrets/teamwire";
/// Where the member's identity is kept while its Pod exists.
const STATE: &str = "/var/lib/teamwire";

/// The creator of Jobs: a host in its team.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maker {
    pub(crate) host: String,
    pub(crate) team: String,
    pub(crate) owner: Option<OwnerReference>,
    /// How long a finished Job is kept, in seconds.
    pub(crate) keep_s: i32,
}

impl Maker {
    /// Returns the selector for the objects that this host created and whose end it has not reported.
    pub(crate) fn selector(&self) -> String {
        format!("{},!{REPORTED}", self.selector_of_all())
    }

    /// Returns the selector for all objects that this host created.
    pub(crate) fn selector_of_all(&self) -> String {
        format!("{HOST}={},{TEAM}={}", label(&self.host), label(&self.team))
    }
}

/// Returns the name of an order's Job and Secret. The Job's Pod has the same name with a suffix.
///
/// The order's id makes the name unique, and the member's name makes it readable.
pub(crate) fn name(order: &Order) -> String {
    let of_member: String =
        order.member.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    let of_order: String =
        order.request_id.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    format!("{of_member}-{of_order}")
}

/// Returns a name in the form of a label's value, which must not end with punctuation.
pub(crate) fn label(name: &str) -> String {
    name.trim_end_matches(['.', '_', '-']).to_owned()
}

/// Returns the Job of an order, suspended until its Secret exists.
pub(crate) fn job(maker: &Maker, order: &Order, profile: &Profile, secrets: &[&str]) -> Result<Job, StartError> {
    let labels = BTreeMap::from([
        (ORDER.to_owned(), order.request_id.clone()),
        (HOST.to_owned(), label(&maker.host)),
        (TEAM.to_owned(), label(&maker.team)),
        (MEMBER.to_owned(), label(&order.member)),
        (CLIENT.to_owned(), "true".to_owned()),
    ]);
    let mut annotations = BTreeMap::from([(MEMBER.to_owned(), order.member.clone())]);
    if let Some(at) = order.expires_at.and_then(|at| Timestamp::try_from(at).ok()) {
        annotations.insert(EXPIRES_AT.to_owned(), at.to_string());
    }
    Ok(Job {
        metadata: ObjectMeta {
            name: Some(name(order)),
            labels: Some(labels.clone()),
            annotations: Some(annotations),
            owner_references: maker.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            suspend: Some(true),
            completions: Some(1),
            parallelism: Some(1),
            backoff_limit: Some(0),
            pod_replacement_policy: Some("Failed".to_owned()),
            ttl_seconds_after_finished: Some(maker.keep_s),
            template: pod(order, profile, labels, secrets)?,
            ..JobSpec::default()
        }),
        status: None,
    })
}

/// Returns a profile's template with a member's runner in it.
fn pod(
    order: &Order,
    profile: &Profile,
    labels: BTreeMap<String, String>,
    secrets: &[&str],
) -> Result<PodTemplateSpec, StartError> {
    let mut template = profile.template.clone();
    template.metadata.get_or_insert_default().labels.get_or_insert_default().extend(labels);
    let spec = template.spec.get_or_insert_default();
    spec.restart_policy = Some("Never".to_owned());
    // A member needs neither: see the charts.
    spec.automount_service_account_token.get_or_insert(false);
    spec.enable_service_links.get_or_insert(false);
    spec.termination_grace_period_seconds.get_or_insert(90);
    spec.volumes.get_or_insert_default().extend([
        Volume {
            name: "teamwire-secrets".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(name(order)),
                // Only the Pod's user, or its group, can read it.
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "teamwire-state".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity("16Mi".to_owned())),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]);
    let Some(container) = container(spec) else { return Ok(template) };
    let program = [container.command.take(), container.args.take()].into_iter().flatten().flatten();
    let program: Vec<String> = program.collect();
    container.command = Some(vec![profile.runner.clone()]);
    container.args = Some(runner(order, profile, program));
    if !order.terms.dir.is_empty() {
        let Some(base) = &container.working_dir else {
            let text = "The order names a directory, but the Pod template of its profile has no workingDir.";
            return Err(StartError::new(text));
        };
        container.working_dir = Some(format!("{}/{}", base.trim_end_matches('/'), order.terms.dir));
    }
    // The last lines of a failed program become part of its Pod's status, so that the host needs no access to logs.
    container.termination_message_policy.get_or_insert("FallbackToLogsOnError".to_owned());
    // Kubernetes expands $(NAME) only from variables that come earlier.
    let own = environment(secrets).into_iter().chain(container.env.take().into_iter().flatten());
    container.env = Some(own.collect());
    let mount = |name: &str, path: &str, read_only| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    };
    container
        .volume_mounts
        .get_or_insert_default()
        .extend([mount("teamwire-secrets", SECRETS, true), mount("teamwire-state", STATE, false)]);
    Ok(template)
}

fn container(spec: &mut PodSpec) -> Option<&mut Container> {
    let position = spec.containers.iter().position(|container| container.name == CONTAINER).unwrap_or(0);
    spec.containers.get_mut(position)
}

/// Returns the arguments of the runner.
fn runner(order: &Order, profile: &Profile, program: Vec<String>) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", order.member.as_str(), "--join-file"].map(str::to_owned).to_vec();
    arguments.push(format!("{SECRETS}/join"));
    let restart = match order.terms.restart() {
        RestartPolicy::Unspecified => profile.restart,
        RestartPolicy::Never => Some(RestartWhen::Never),
        RestartPolicy::OnFailure => Some(RestartWhen::OnFailure),
        RestartPolicy::Always => Some(RestartWhen::Always),
    };
    arguments.extend(restart.map(|restart| format!("--restart={}", restart.as_str())));
    for (label, variable) in
        [("k8s.pod.name", "POD_NAME"), ("k8s.namespace.name", "POD_NAMESPACE"), ("k8s.node.name", "NODE_NAME")]
    {
        arguments.push(format!("--label={label}=$({variable})"));
    }
    arguments.extend(profile.arguments.iter().cloned());
    arguments.push("--".to_owned());
    arguments.extend(program);
    arguments
}

/// Returns the environment of the runner. It contains no secrets, only the paths of the files with secrets.
fn environment(secrets: &[&str]) -> Vec<EnvVar> {
    let text = |name: &str, value: String| EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() };
    let field = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let mut variables = vec![
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("NODE_NAME", "spec.nodeName"),
        text("TEAMWIRE_CONTEXT", format!("{STATE}/context.json")),
    ];
    for (file, variable) in [("ca.crt", "TEAMWIRE_CA"), ("tls.crt", "TEAMWIRE_CERT"), ("tls.key", "TEAMWIRE_KEY")] {
        if secrets.contains(&file) {
            variables.push(text(variable, format!("{SECRETS}/{file}")));
        }
    }
    variables
}

/// Returns the Secret of an order, which is deleted with its Job. `files`: the files for the Pod in [`SECRETS`].
pub(crate) fn secret(job: &Job, files: BTreeMap<String, Vec<u8>>) -> Secret {
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: job.metadata.name.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    Secret {
        metadata: ObjectMeta {
            name: job.metadata.name.clone(),
            labels: job.metadata.labels.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(files.into_iter().map(|(name, text)| (name, ByteString(text))).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use teamwire_proto::v1::SpawnTerms;

    use super::*;

    fn order() -> Order {
        Order {
            request_id: "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000".to_owned(),
            member: "Back_End.".to_owned(),
            team: "acme".to_owned(),
            terms: SpawnTerms { profile: "claude".to_owned(), ..SpawnTerms::default() },
            expires_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
        }
    }

    fn profile() -> Profile {
        let template = serde_json::json!({
            "metadata": {"labels": {"tier": "agents"}},
            "spec": {"containers": [
                {"name": "proxy", "image": "p", "command": ["proxy"]},
                {"name": "teammate", "image": "a", "command": ["claude"], "args": ["--model", "opus"], "workingDir": "/workspace/",
                 "env": [{"name": "CI", "value": "1"}]},
            ]},
        });
        Profile {
            description: String::new(),
            start_deadline: Duration::from_secs(60),
            runner: "/opt/teamwire".to_owned(),
            arguments: vec!["--via=claude".to_owned()],
            restart: None,
            template: serde_json::from_value(template).unwrap(),
            tags: Vec::new(),
        }
    }

    fn maker() -> Maker {
        Maker { host: "cluster".to_owned(), team: "acme".to_owned(), owner: None, keep_s: 3_600 }
    }

    #[test]
    fn a_job_has_at_most_one_pod_and_starts_suspended() {
        let spec = job(&maker(), &order(), &profile(), &[]).unwrap().spec.unwrap();
        assert_eq!((spec.suspend, spec.backoff_limit), (Some(true), Some(0)));
        assert_eq!((spec.completions, spec.parallelism), (Some(1), Some(1)));
        assert_eq!(spec.pod_replacement_policy.as_deref(), Some("Failed"));
        assert_eq!(spec.template.spec.unwrap().restart_policy.as_deref(), Some("Never"));
    }

    #[test]
    fn a_jobs_name_is_the_same_for_each_start_of_an_order_and_differs_between_orders() {
        let name_of = |order: &Order| job(&maker(), order, &profile(), &[]).unwrap().metadata.name.unwrap();
        assert_eq!(name_of(&order()), "backend-0199aaaabbbb7ccc8dddeeeeffff0000");
        let other = Order { request_id: "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001".to_owned(), ..order() };
        assert_ne!(name_of(&order()), name_of(&other));
        // With a Pod's suffix, the name has at most 63 characters, the limit for a label.
        let long = Order { member: "m".repeat(63), ..order() };
        assert!(name_of(&long).len() + 6 <= 63);
    }

    #[test]
    fn the_runner_comes_before_the_program_of_the_template() {
        let mut order = order();
        order.terms.dir = "api".to_owned();
        order.terms.set_restart(RestartPolicy::OnFailure);
        let spec = job(&maker(), &order, &profile(), &["join", "ca.crt"]).unwrap().spec.unwrap().template.spec.unwrap();
        let [proxy, teammate] = spec.containers.try_into().unwrap();
        assert_eq!(proxy.command.unwrap(), ["proxy"]);
        assert_eq!(teammate.command.unwrap(), ["/opt/teamwire"]);
        let arguments = teammate.args.unwrap().join(" ");
        assert!(
            arguments.starts_with("run Back_End. --join-file /run/secrets/teamwire/join --restart=on-failure --label=")
        );
        assert!(arguments.ends_with("--via=claude -- claude --model opus"));
        assert_eq!(teammate.working_dir.unwrap(), "/workspace/api");
        let names: Vec<String> = teammate.env.unwrap().into_iter().map(|variable| variable.name).collect();
        assert_eq!(names, ["POD_NAME", "POD_NAMESPACE", "NODE_NAME", "TEAMWIRE_CONTEXT", "TEAMWIRE_CA", "CI"]);
    }

    #[test]
    fn an_ordered_directory_needs_a_working_directory_in_the_template() {
        let mut order = order();
        order.terms.dir = "api".to_owned();
        let mut profile = profile();
        container(profile.template.spec.as_mut().unwrap()).unwrap().working_dir = None;
        assert!(job(&maker(), &order, &profile, &[]).unwrap_err().reason.contains("workingDir"));
    }

    #[test]
    fn a_token_is_only_in_the_secret() {
        let made = job(&maker(), &order(), &profile(), &["join"]).unwrap();
        let secret = secret(&made, BTreeMap::from([("join".to_owned(), b"twj:secret".to_vec())]));
        assert_eq!(secret.metadata.name, made.metadata.name);
        assert_eq!(secret.metadata.owner_references.unwrap()[0].kind, "Job");
        assert!(!serde_json::to_string(&made).unwrap().contains("twj:"));
        let spec = made.spec.unwrap().template.spec.unwrap();
        let volume = spec.volumes.unwrap().into_iter().find_map(|volume| volume.secret).unwrap();
        assert_eq!(volume.default_mode, Some(0o440));
    }

    #[test]
    fn labels_end_with_a_letter_or_a_digit() {
        let labels = job(&maker(), &order(), &profile(), &[]).unwrap().metadata.labels.unwrap();
        assert_eq!(labels[MEMBER], "Back_End");
        assert_eq!(maker().selector(), "teamwire.dev/host=cluster,teamwire.dev/team=acme,!teamwire.dev/reported");
    }
}
