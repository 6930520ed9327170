//! A namespace of a test, and what its kubelet would do.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, Pod, ResourceQuota, Secret},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, Patch, PostParams},
    config::KubeConfigOptions,
};
use serde_json::{Value, json};
use teamwire_agents::host::{Backend as _, Ended, Order, Ticket};
use teamwire_client::TlsOptions;
use teamwire_kubernetes::{ConnectError, Jobs, Profiles};
use teamwire_proto::v1::SpawnTerms;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::control_plane::{ControlPlane, PATIENCE, eventually};

pub(crate) const TOKEN: &str = "twj:acme:x1:0123456789abcdef";
const OWNER: &str = "teamwire-host";

/// Meets the Pod Security Standard "restricted".
pub(crate) const TEMPLATE: &str = r#"
metadata: {labels: {tier: agents}}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: teammate
      image: registry.example.com/agent:1
      command: [python3, /opt/agent/main.py]
      resources: {requests: {cpu: 10m}, limits: {memory: 1Gi}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"#;
const HUGE: &str = "spec: {containers: [{name: a, image: b, command: [c], resources: {requests: {cpu: 64}}}]}\n";
const ROOT: &str = "spec: {containers: [{name: a, image: b, command: [c]}]}\n";

/// The namespace of one test.
pub(crate) struct Cluster {
    admin: Client,
    /// What the host uses: the rights of the chart's Role.
    host: Config,
    namespace: String,
    directory: TempDir,
}

impl Cluster {
    pub(crate) async fn new(plane: &ControlPlane, test: &str) -> Self {
        let name = test.replace('_', "-");
        let namespace = name[..name.len().min(60)].trim_end_matches('-').to_owned();
        plane.namespace(&namespace, json!({})).await;
        let options = KubeConfigOptions::default();
        let host = Config::from_custom_kubeconfig(plane.kubeconfig("host", &namespace), &options).await.unwrap();
        let directory = TempDir::new().unwrap();
        let kubeconfig = serde_json::to_string(&plane.kubeconfig("host", &namespace)).unwrap();
        fs::write(directory.path().join("kubeconfig"), kubeconfig).unwrap();
        let cluster = Self { admin: plane.admin().await, host, namespace, directory };
        cluster.give_rights().await;
        let owner = ConfigMap { metadata: named(OWNER), ..ConfigMap::default() };
        cluster.api::<ConfigMap>().create(&PostParams::default(), &owner).await.unwrap();
        cluster
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// Gives the host the rights that the chart gives it.
    async fn give_rights(&self) {
        let chart = env::var_os("TEAMWIRE_TEST_HOST_CHART").expect("run `cargo xtask kubernetes`");
        let chart = fs::read_to_string(chart).unwrap();
        let role = chart.split("\n---\n").find(|object| object.contains("kind: Role\n")).unwrap();
        let mut role: Role = serde_json::from_value(serde_saphyr::from_str::<Value>(role).unwrap()).unwrap();
        role.metadata = named(OWNER);
        self.api::<Role>().create(&PostParams::default(), &role).await.unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": OWNER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": OWNER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "host"}],
        }))
        .unwrap();
        self.api::<RoleBinding>().create(&PostParams::default(), &binding).await.unwrap();
    }

    /// Starts a host.
    pub(crate) async fn host(&self) -> Jobs {
        self.host_with(TEMPLATE).await.unwrap()
    }

    /// Starts a host whose profile `agent` has another template.
    pub(crate) async fn host_with(&self, template: &str) -> Result<Jobs, ConnectError> {
        self.write_profiles(template);
        let profiles = Profiles::read(&self.directory.path().join("host.toml")).unwrap();
        Jobs::with_config(self.host.clone(), profiles, "cluster", "acme").await
    }

    /// Writes the file of a host, and its templates. Returns the directory that they are in, with a kubeconfig.
    pub(crate) fn write_profiles(&self, template: &str) -> &Path {
        let write = |name: &str, text: &str| fs::write(self.directory.path().join(name), text).unwrap();
        let profile = |name: &str| format!("[profiles.{name}]\npod = \"{name}.yaml\"\n");
        let profiles: String = ["agent", "huge", "root"].map(profile).concat();
        let head = format!("slots = 10\n[kubernetes]\nowner = \"{OWNER}\"\n");
        // A program that is here, for the test that runs it.
        let program = crate::whole::teamwire();
        let runner = format!("[profiles.echo]\npod = \"echo.yaml\"\nrunner = {program:?}\n");
        write("host.toml", &format!("{head}{profiles}{runner}"));
        let echo = TEMPLATE.replace("[python3, /opt/agent/main.py]", &format!("[{program:?}, echo-teammate]"));
        for (name, text) in [("agent", template), ("huge", HUGE), ("root", ROOT), ("echo", &echo)] {
            write(&format!("{name}.yaml"), text);
        }
        self.directory.path()
    }

    /// Returns a new order.
    pub(crate) fn order(&self, member: &str) -> Order {
        Order {
            request_id: uuid::Uuid::now_v7().to_string(),
            member: member.to_owned(),
            team: "acme".to_owned(),
            terms: SpawnTerms { profile: "agent".to_owned(), ..SpawnTerms::default() },
            expires_at: Some(SystemTime::now() + Duration::from_secs(300)),
        }
    }

    /// Returns an order that a coordinator has given to the host, once the host has made its Job.
    pub(crate) async fn order_of(&self, request_id: &str) -> Order {
        let order = Order { request_id: request_id.to_owned(), ..self.order("any") };
        eventually("the Job", async || self.job(&order).await).await;
        order
    }

    /// Returns a directory that is deleted with the test.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket {
            join_token: TOKEN.to_owned(),
            address: "https://teamwire-headless.teamwire.svc:7420".to_owned(),
            tls: TlsOptions::default(),
        }
    }

    pub(crate) async fn jobs(&self) -> Vec<Job> {
        self.api::<Job>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn job(&self, order: &Order) -> Option<Job> {
        self.jobs().await.into_iter().find(|job| is_of(job, order))
    }

    /// Returns the Pod of an order once the scheduler has placed it.
    pub(crate) async fn pod_on_a_node(&self, order: &Order) -> Pod {
        let placed = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let look = async || self.pods().await.into_iter().find(|pod| is_of(pod, order) && placed(pod));
        eventually("the Pod on a node", look).await
    }

    /// Returns the Secret that a Pod mounts.
    pub(crate) async fn secret_of(&self, pod: &Pod) -> Option<Secret> {
        let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
        let name = volumes.into_iter().find_map(|volume| volume.secret.as_ref()?.secret_name.clone()).unwrap();
        self.api::<Secret>().get_opt(&name).await.unwrap()
    }

    /// Writes what the kubelet reports of the program's container.
    pub(crate) async fn report(&self, pod: &Pod, phase: &str, state: Value) {
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let status = json!({"name": container.name, "image": container.image, "imageID": "", "ready": false,
                            "restartCount": 0, "state": state});
        let change = json!({"status": {"phase": phase, "containerStatuses": [status]}});
        self.api::<Pod>().patch_status(name(&pod.metadata), &Default::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Waits until a Pod is deleted, which its node has yet to carry out.
    pub(crate) async fn deleted(&self, pod: &Pod) {
        let look = async || {
            let found = self.api::<Pod>().get(name(&pod.metadata)).await.unwrap();
            found.metadata.deletion_timestamp
        };
        eventually("the deletion of the Pod", look).await;
    }

    /// Waits until a Pod is deleted, and then ends it as its kubelet does.
    pub(crate) async fn removed_by_its_node(&self, pod: &Pod) {
        let pods = self.api::<Pod>();
        let pod_name = name(&pod.metadata);
        self.deleted(pod).await;
        let found = pods.get(pod_name).await.unwrap();
        if !matches!(found.status.and_then(|status| status.phase).as_deref(), Some("Succeeded" | "Failed")) {
            self.report(pod, "Failed", json!({"terminated": {"exitCode": 143, "reason": "Error"}})).await;
        }
        let now = DeleteParams::default().grace_period(0);
        match pods.delete(pod_name, &now).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => panic!("{error}"),
        }
        eventually("the end of the Pod", async || pods.get_opt(pod_name).await.unwrap().is_none().then_some(())).await;
    }

    /// Waits until nothing is left of an order.
    pub(crate) async fn gone(&self, order: &Order) {
        let look = async || {
            let is_gone = self.job(order).await.is_none() && !self.pods().await.iter().any(|pod| is_of(pod, order));
            is_gone.then_some(())
        };
        eventually("the end of the Job and its Pod", look).await;
    }

    /// Waits until a Job has finished.
    pub(crate) async fn finished(&self, order: &Order) {
        let look = async || {
            let conditions = self.job(order).await?.status?.conditions?;
            conditions.iter().any(|condition| ["Complete", "Failed"].contains(&condition.type_.as_str())).then_some(())
        };
        eventually("the end of the Job", look).await;
    }

    pub(crate) async fn no_secrets(&self) {
        let secrets = self.api::<Secret>();
        let look = async || secrets.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(());
        eventually("the deletion of the Secrets", look).await;
    }

    pub(crate) async fn delete_pod(&self, pod: &Pod) {
        self.api::<Pod>().delete(name(&pod.metadata), &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn delete_job(&self, order: &Order) {
        let job = self.job(order).await.unwrap();
        self.api::<Job>().delete(name(&job.metadata), &DeleteParams::background()).await.unwrap();
    }

    pub(crate) async fn delete_owner(&self) {
        self.api::<ConfigMap>().delete(OWNER, &DeleteParams::background()).await.unwrap();
    }

    pub(crate) async fn label_namespace(&self, label: &str, value: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let change = json!({"metadata": {"labels": {label: value}}});
        namespaces.patch(&self.namespace, &Default::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Limits how many Pods the namespace may have, as the quota controller would.
    pub(crate) async fn allow_pods(&self, pods: u32) {
        let quotas = self.api::<ResourceQuota>();
        let hard = json!({"pods": pods.to_string()});
        let quota = serde_json::from_value(json!({"metadata": {"name": "few"}, "spec": {"hard": hard}})).unwrap();
        quotas.create(&PostParams::default(), &quota).await.unwrap();
        let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
        quotas.patch_status("few", &Default::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Leaves what a host leaves that dies before it has created the Secret: a suspended Job.
    pub(crate) async fn start_and_die_before_the_secret(&self, order: &Order) {
        let host = self.host().await;
        host.start(order, self.ticket()).await.unwrap();
        let made = self.job(order).await.unwrap();
        let mut job = Job { status: None, ..made.clone() };
        job.metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: made.metadata.name.clone(),
            labels: made.metadata.labels.clone(),
            annotations: made.metadata.annotations.clone(),
            ..Default::default()
        };
        let spec = job.spec.as_mut().unwrap();
        spec.suspend = Some(true);
        spec.selector = None;
        let labels: &mut BTreeMap<String, String> = spec.template.metadata.as_mut().unwrap().labels.as_mut().unwrap();
        labels.retain(|label, _| label.starts_with("teamwire.dev/"));
        self.pod_on_a_node(order).await;
        drop(host);
        let pod = self.pods().await.pop().unwrap();
        self.delete_job(order).await;
        self.removed_by_its_node(&pod).await;
        self.gone(order).await;
        self.no_secrets().await;
        self.api::<Job>().create(&PostParams::default(), &job).await.unwrap();
    }

    /// Waits for the end of an order's member.
    pub(crate) async fn end_of(&self, host: &Jobs, order: &Order) -> Ended {
        let wait = async {
            loop {
                let ended = host.next_end().await;
                if ended.request_id == order.request_id {
                    return ended;
                }
            }
        };
        timeout(PATIENCE, wait).await.expect("the end is reported")
    }
}

/// Returns whether an object was made for an order.
pub(crate) fn is_of(object: &impl kube::ResourceExt, order: &Order) -> bool {
    object.labels().get("teamwire.dev/order") == Some(&order.request_id)
}

fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap()
}

fn named(name: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}
