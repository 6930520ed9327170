//! A host with the members that it starts.

use std::{fs, path::PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use teamwire_client::{Client, ContextFile, v1};
use tokio::runtime::Runtime;

use super::{LEAD, MARK, StartedCommand, World, eventually, is_alive, signal};
use crate::agents;

/// The lead's client, for the calls about hosts.
pub(crate) struct Orderer {
    pub client: Client,
    pub runtime: Runtime,
}

impl Orderer {
    pub(crate) fn new(world: &World) -> Self {
        let runtime = Runtime::new().unwrap();
        let file = ContextFile::load(&world.home(LEAD).join("context.json")).unwrap();
        let own = &file.identities[0];
        let client = runtime.block_on(async {
            Client::connect_with(&own.address, own.tls.clone()).unwrap().with_credential(&own.credential).unwrap()
        });
        Self { client, runtime }
    }

    /// Returns a join string for a host. Empty name: for any.
    pub(crate) fn invite_host(&self, name: &str) -> String {
        let request = v1::InviteRequest { member: name.to_owned(), host: true, ..v1::InviteRequest::default() };
        self.runtime.block_on(self.client.invite(request)).unwrap().join_string
    }

    /// Orders a member with the profile `agent`. `change` completes the request. Returns the order.
    #[track_caller]
    pub(crate) fn spawn(&self, name: &str, change: impl FnOnce(&mut v1::SpawnRequest)) -> v1::Request {
        let mut request = v1::SpawnRequest {
            name: name.to_owned(),
            profile: "agent".to_owned(),
            prompt: "You own the API.".to_owned(),
            ..v1::SpawnRequest::default()
        };
        change(&mut request);
        self.runtime.block_on(self.client.spawn(request)).unwrap().request.unwrap()
    }

    /// Waits until an order is decided.
    #[track_caller]
    pub(crate) fn decision(&self, order: &v1::Request) -> v1::Request {
        let decided = self.runtime.block_on(self.client.wait_decision(&order.id, super::PATIENCE)).unwrap();
        assert_ne!(decided.state(), v1::RequestState::Pending, "{decided:?}");
        decided
    }

    /// Orders a member, and waits until it has started.
    #[track_caller]
    pub(crate) fn start(&self, name: &str) -> v1::Request {
        let decided = self.decision(&self.spawn(name, |_| {}));
        assert_eq!(decided.state(), v1::RequestState::Approved, "{decided:?}");
        decided
    }

    /// Returns a host as the lead sees it.
    #[track_caller]
    pub(crate) fn host(&self, name: &str) -> v1::Host {
        let hosts = self.runtime.block_on(self.client.list_hosts(v1::ListHostsRequest::default())).unwrap().hosts;
        hosts.into_iter().find(|host| host.name == name).expect("the host")
    }
}

/// `teamwire host`. Its members run on when it is dropped, until the world is.
pub(crate) struct HostProcess {
    running: StartedCommand,
    home: PathBuf,
}

impl HostProcess {
    /// Starts a host, and waits until it is ready. The first word of `arguments` that follows the name is usually
    /// `--join`.
    #[track_caller]
    pub(crate) fn start(world: &World, name: &str, arguments: &[&str]) -> Self {
        let started = Self::begin(world, name, arguments);
        started.running.await_said("is ready");
        started
    }

    /// Starts a host.
    pub(crate) fn begin(world: &World, name: &str, arguments: &[&str]) -> Self {
        let config = world.home(name).join("host.toml");
        let config = config.display().to_string();
        let fixed = ["host", "--config", &config];
        Self { running: world.spawn(name, &[&fixed[..], arguments].concat(), ""), home: world.home(name) }
    }

    /// Waits until it says something.
    #[track_caller]
    pub(crate) fn await_said(&self, text: &str) {
        self.running.await_said(text);
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(self) {
        self.running.kill();
    }

    /// Terminates it as a service manager does, and waits for its end.
    #[track_caller]
    pub(crate) fn terminate(self) -> super::Output {
        self.running.terminate()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn output(self) -> super::Output {
        self.running.output()
    }

    /// Returns the lines that the member's program has read.
    pub(crate) fn heard(&self, member: &str) -> Vec<Value> {
        let heard = fs::read_to_string(self.home.join("work").join(member).join("heard")).unwrap_or_default();
        heard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl World {
    /// Writes the file of a host with the profile `agent`: a script, and more lines for the profile.
    pub(crate) fn host_file(&self, name: &str, top: &str, script: &str, more: &str) {
        let script = agents::script(script);
        let work = self.home(name).join("work").display().to_string();
        let text = format!(
            "{top}\n[profiles.agent]\ncommand = [\"sh\", \"-c\", '''{script}''']\ndir = \"{work}\"\npass_env = [\"{MARK}\"]\n{more}\n"
        );
        fs::write(self.home(name).join("host.toml"), text).unwrap();
    }

    /// Returns the process of a member's runner on a host of the team `acme`.
    #[track_caller]
    pub(crate) fn runner_on(&self, host: &str, order: &v1::Request) -> u32 {
        let record = self.host_state(host).join("orders").join(&order.id).join("order.json");
        eventually("the runner's process is recorded", || {
            let record: Value = serde_json::from_slice(&fs::read(&record).ok()?).ok()?;
            u32::try_from(record["phase"]["started"]["id"].as_u64()?).ok()
        })
    }

    /// Returns the state directory of a host of the team `acme`.
    pub(crate) fn host_state(&self, host: &str) -> PathBuf {
        self.home(host).join("state/hosts/acme")
    }
}

/// Kills a process, and waits until it is gone.
pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::SIGKILL);
    eventually("a killed process is gone", || (!is_alive(pid)).then_some(()));
}
