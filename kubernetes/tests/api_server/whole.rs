//! From the lead's order to the member's end: a coordinator, a host, the control plane, and the process that the Pod
//! describes.

use std::{
    collections::HashMap,
    env, fs,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use teamwire_client::{Client, v1};
use tempfile::TempDir;

use crate::{
    cluster::{Cluster, TEMPLATE},
    control_plane::eventually,
};

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, and returns its exit code.
    async fn exit_code(&mut self) -> Option<i32> {
        eventually("the end of a process", async || self.0.try_wait().unwrap()).await.code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A coordinator of a test.
struct Coordinator {
    _process: Process,
    directory: TempDir,
}

impl Coordinator {
    fn start() -> Self {
        let directory = TempDir::with_prefix("teamwire-coordinator-").unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let process = Command::new(teamwire())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env_clear()
            .env("TEAMWIRE_STATE_DIR", directory.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { _process: Process(process), directory }
    }

    /// Creates a team, and returns the client of its lead.
    async fn lead(&self) -> Client {
        let read = async |name: &str| {
            let look = async || {
                let text = fs::read_to_string(self.directory.path().join("state").join(name)).ok()?;
                Some(text.trim().to_owned()).filter(|text| !text.is_empty())
            };
            eventually(name, look).await
        };
        let address = read("address").await;
        let operator = Client::connect(&address).unwrap().with_credential(&read("operator.credential").await).unwrap();
        let created =
            operator.create_team_with(v1::CreateTeamRequest { name: "acme".to_owned(), ..Default::default() });
        operator.with_credential(&created.await.unwrap().credential).unwrap()
    }
}

pub(crate) async fn an_ordered_member_joins_from_its_pod_and_ends_with_it(cluster: Cluster) {
    let coordinator = Coordinator::start();
    let lead = coordinator.lead().await;
    let invite = v1::InviteRequest { member: "cluster".to_owned(), host: true, ..v1::InviteRequest::default() };
    let invited = lead.invite(invite).await.unwrap();
    let mut host = start_host(&cluster, Some(&invited.join_string));

    let request = || v1::SpawnRequest {
        name: "backend".to_owned(),
        profile: "echo".to_owned(),
        prompt: "You own the API.".to_owned(),
        ..v1::SpawnRequest::default()
    };
    let ordered = eventually("the host's offer", async || lead.spawn(request()).await.ok()).await.request.unwrap();
    let order = cluster.order_of(&ordered.id).await;
    let pod = cluster.pod_on_a_node(&order).await;
    let mut process = run(&cluster, &pod).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;

    let wait = v1::WaitForDecisionRequest { request_id: ordered.id.clone(), ..v1::WaitForDecisionRequest::default() };
    let decided = lead.wait_for_decision(wait).await.unwrap().request.unwrap();
    assert_eq!(decided.state(), v1::RequestState::Approved, "{decided:?}");
    let labels = member(&lead, "backend").await.attributes.unwrap().labels;
    assert_eq!(labels["k8s.pod.name"], pod.metadata.name.clone().unwrap());

    // The host dies, and the member keeps running. Then the node kills the member: it cannot report its end, so the
    // next host does.
    host.kill();
    process.kill();
    cluster.report(&pod, "Failed", json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})).await;
    let mut host = start_host(&cluster, None);
    let exited = async || {
        let found = member(&lead, "backend").await;
        (found.state() == v1::MemberState::Exited).then(|| found.exit.unwrap())
    };
    let exit = eventually("the report of the host", exited).await;
    assert_eq!(exit.detail, "It was killed because it exceeded its memory limit of 1Gi.");

    // The name is free again, and the second member has its own Pod.
    let ordered = lead.spawn(request()).await.unwrap().request.unwrap();
    let order = cluster.order_of(&ordered.id).await;
    let pod = cluster.pod_on_a_node(&order).await;
    let mut process = run(&cluster, &pod).await;
    cluster.report(&pod, "Running", json!({"running": {}})).await;
    let wait = v1::WaitForDecisionRequest { request_id: ordered.id, ..v1::WaitForDecisionRequest::default() };
    assert_eq!(lead.wait_for_decision(wait).await.unwrap().request.unwrap().state(), v1::RequestState::Approved);
    lead.send(teamwire_client::message::shutdown_request("backend", "Well done.")).await.unwrap();
    assert_eq!(process.exit_code().await, Some(0));
    cluster.report(&pod, "Succeeded", json!({"terminated": {"exitCode": 0, "reason": "Completed"}})).await;
    cluster.finished(&order).await;

    lead.delete_team("acme").await.unwrap();
    let code = host.exit_code().await;
    assert_eq!(code, Some(0), "{}", fs::read_to_string(cluster.directory().join("host.log")).unwrap());
    cluster.gone(&order).await;
}

async fn member(lead: &Client, name: &str) -> v1::Member {
    let listed = lead.list_members(v1::ListMembersRequest::default()).await.unwrap();
    listed.members.into_iter().find(|member| member.name == name).unwrap()
}

/// Starts `teamwire host --kubernetes`, with a kubeconfig that has the rights of the chart.
fn start_host(cluster: &Cluster, join_string: Option<&str>) -> Process {
    let directory = cluster.write_profiles(TEMPLATE);
    let log = fs::OpenOptions::new().create(true).append(true).open(directory.join("host.log")).unwrap();
    let file = directory.join("host.toml");
    let process = Command::new(teamwire())
        .args(["host", "--kubernetes", "--json", "--config", file.to_str().unwrap()])
        .env_clear()
        .env("KUBECONFIG", directory.join("kubeconfig"))
        .env("TEAMWIRE_STATE_DIR", directory.join("host-state"))
        .env("TEAMWIRE_CONTEXT", directory.join("context.json"))
        .envs(join_string.map(|text| ("TEAMWIRE_JOIN", text)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(process)
}

/// Runs what a Pod describes as a process: with its command, its environment, and its Secret as files.
async fn run(cluster: &Cluster, pod: &Pod) -> Process {
    let directory = cluster.directory().join(pod.metadata.name.as_deref().unwrap());
    let (secrets, state) = (directory.join("secrets"), directory.join("state"));
    for made in [&secrets, &state] {
        fs::create_dir_all(made).unwrap();
    }
    let secret = cluster.secret_of(pod).await.unwrap();
    for (name, content) in secret.data.unwrap() {
        write_private(&secrets.join(name), &content.0);
    }
    let here = |text: &str| {
        text.replace("/run/secrets/teamwire", &secrets.display().to_string())
            .replace("/var/lib/teamwire", &state.display().to_string())
    };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let metadata = |path: &str| match path {
        "metadata.name" => pod.metadata.name.clone().unwrap(),
        "metadata.namespace" => pod.metadata.namespace.clone().unwrap(),
        "spec.nodeName" => pod.spec.as_ref().unwrap().node_name.clone().unwrap(),
        other => panic!("{other} is unknown"),
    };
    let mut environment = HashMap::new();
    for variable in container.env.iter().flatten() {
        let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
        let value = field.map_or_else(|| here(variable.value.as_deref().unwrap()), |field| metadata(&field.field_path));
        environment.insert(variable.name.clone(), value);
    }
    let expand = |word: &String| {
        let named =
            environment.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("$({name})"), value));
        here(&named)
    };
    let log = fs::File::create(directory.join("log")).unwrap();
    let process = Command::new(&container.command.as_ref().unwrap()[0])
        .args(container.args.iter().flatten().map(expand))
        .env_clear()
        .env("HOME", &directory)
        .envs(&environment)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(process)
}

fn write_private(path: &Path, content: &[u8]) {
    use std::io::Write as _;
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o440).open(path).unwrap();
    file.write_all(content).unwrap();
}

/// Returns the path of the program under test.
pub(crate) fn teamwire() -> PathBuf {
    env::var_os("TEAMWIRE_TEST_BINARY").expect("run `cargo xtask kubernetes`").into()
}
