//! A control plane of Kubernetes on this machine: etcd, the API server, the controllers and the scheduler, without
//! nodes.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use serde_json::json;
use tempfile::TempDir;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running control plane. Ends with the test.
pub(crate) struct ControlPlane {
    directory: TempDir,
    children: Vec<Child>,
    server: String,
}

impl ControlPlane {
    /// Starts one, with a node that has 2 CPUs.
    pub(crate) async fn start() -> Self {
        let programs = env::var_os("TEAMWIRE_TEST_KUBERNETES").expect("run `cargo xtask kubernetes`");
        let directory = TempDir::with_prefix("teamwire-kubernetes-").unwrap();
        let [etcd, peers, api] = [(); 3].map(|()| free_port());
        let server = format!("https://127.0.0.1:{api}");
        let mut plane = Self { directory, children: Vec::new(), server };
        plane.write_keys();
        let (programs, at) =
            (PathBuf::from(programs), |name: &str| plane.directory.path().join(name).display().to_string());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let children = [
            (
                "etcd",
                vec![
                    format!("--data-dir={}", at("etcd")),
                    format!("--listen-client-urls={}", url(etcd)),
                    format!("--advertise-client-urls={}", url(etcd)),
                    format!("--listen-peer-urls={}", url(peers)),
                    format!("--initial-advertise-peer-urls={}", url(peers)),
                    format!("--initial-cluster=default={}", url(peers)),
                ],
            ),
            (
                "kube-apiserver",
                vec![
                    format!("--etcd-servers={}", url(etcd)),
                    "--bind-address=127.0.0.1".to_owned(),
                    // Only written into the Service of the API server. It may not be a loopback address.
                    "--advertise-address=192.0.2.1".to_owned(),
                    format!("--secure-port={api}"),
                    format!("--tls-cert-file={}", at("server.crt")),
                    format!("--tls-private-key-file={}", at("server.key")),
                    format!("--token-auth-file={}", at("tokens.csv")),
                    "--authorization-mode=RBAC".to_owned(),
                    "--service-account-issuer=https://kubernetes.test".to_owned(),
                    format!("--service-account-key-file={}", at("accounts.pub")),
                    format!("--service-account-signing-key-file={}", at("accounts.key")),
                    "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                ],
            ),
            (
                "kube-controller-manager",
                vec![
                    format!("--kubeconfig={}", at("admin.kubeconfig")),
                    "--leader-elect=false".to_owned(),
                    "--secure-port=0".to_owned(),
                    format!("--service-account-private-key-file={}", at("accounts.key")),
                    format!("--root-ca-file={}", at("ca.crt")),
                    "--controllers=job-controller,garbage-collector-controller,serviceaccount-controller,\
                 namespace-controller,ttl-after-finished-controller,root-ca-certificate-publisher-controller"
                        .to_owned(),
                ],
            ),
            (
                "kube-scheduler",
                vec![
                    format!("--kubeconfig={}", at("admin.kubeconfig")),
                    "--leader-elect=false".to_owned(),
                    "--secure-port=0".to_owned(),
                ],
            ),
        ];
        for (program, arguments) in children {
            let log = fs::File::create(plane.directory.path().join(format!("{program}.log"))).unwrap();
            let child = Command::new(programs.join(program))
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap_or_else(|error| panic!("{program} cannot run: {error}"));
            plane.children.push(child);
            if program == "kube-apiserver" {
                plane.await_ready().await;
            }
        }
        plane.add_node().await;
        plane
    }

    /// Returns the kubeconfig of the administrator, or of another user by its token.
    pub(crate) fn kubeconfig(&self, token: &str, namespace: &str) -> Kubeconfig {
        let ca = fs::read_to_string(self.directory.path().join("ca.crt")).unwrap();
        let written = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}],
            "clusters": [{"name": "it", "cluster": {"server": self.server, "certificate-authority-data": base64(ca.as_bytes())}}],
            "users": [{"name": "it", "user": {"token": token}}],
        });
        serde_json::from_value(written).unwrap()
    }

    /// Returns a client with all rights.
    pub(crate) async fn admin(&self) -> Client {
        self.client("admin", "default").await
    }

    /// Returns a client of the user with a token.
    pub(crate) async fn client(&self, token: &str, namespace: &str) -> Client {
        let kubeconfig = self.kubeconfig(token, namespace);
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Creates a namespace, and waits until Pods can be created in it.
    pub(crate) async fn namespace(&self, name: &str, labels: serde_json::Value) {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        Api::all(self.admin().await).create(&PostParams::default(), &namespace).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await, name);
        let account = async || accounts.get_opt("default").await.unwrap();
        eventually("the service account of the namespace", account).await;
    }

    async fn await_ready(&self) {
        let client = self.admin().await;
        eventually("the API server", async || {
            let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
            client.request_text(request).await.ok()
        })
        .await;
    }

    /// Adds a node that nothing runs on; a test says what a kubelet would report.
    async fn add_node(&self) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}},
            "spec": {},
        }))
        .unwrap();
        let nodes: Api<Node> = Api::all(self.admin().await);
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let room = json!({"cpu": "2", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"});
        let status = json!({"status": {
            "capacity": room, "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "",
                            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        nodes.patch_status("node-1", &Default::default(), &kube::api::Patch::Merge(status)).await.unwrap();
        // The admission plugin taints new nodes until a controller, which does not run here, finds them ready.
        let untaint = json!({"spec": {"taints": null}});
        nodes.patch("node-1", &Default::default(), &kube::api::Patch::Merge(untaint)).await.unwrap();
    }

    fn write_keys(&self) {
        let write = |name: &str, text: &str| fs::write(self.directory.path().join(name), text).unwrap();
        let mut of_ca = CertificateParams::new(Vec::new()).unwrap();
        of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        write("ca.crt", &of_ca.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(of_ca, key);
        let mut of_server = CertificateParams::new(Vec::new()).unwrap();
        of_server.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        let key = KeyPair::generate().unwrap();
        write("server.crt", &of_server.signed_by(&key, &issuer).unwrap().pem());
        write("server.key", &key.serialize_pem());
        let key = KeyPair::generate().unwrap();
        write("accounts.key", &key.serialize_pem());
        write("accounts.pub", &key.public_key_pem());
        write("tokens.csv", "admin,admin,admin,system:masters\nhost,host,host\n");
        write("admin.kubeconfig", &serde_json::to_string(&self.kubeconfig("admin", "default")).unwrap());
    }

    /// Returns where the logs are.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!("the logs of Kubernetes are in {}", self.directory().display());
        }
    }
}

/// Waits until something is there, and returns it.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn free_port() -> u16 {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap().local_addr().unwrap().port()
}

fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).unwrap().as_str().unwrap().to_owned()
}
