//! What a run owns: the store, the coordinators, the workers. All of it ends with the stage.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use teamwire_client::{Client, Error, Retry, v1};
use teamwire_test_redis::{TestCluster, TestRedis, TestSentinel, free_port};
use tokio::time::sleep;

use crate::{
    disk::Disk,
    faults,
    history::{Recorder, What},
    proxy::Proxy,
};

/// The operator's credential of a stage. It is good on loopback, while the stage stands.
pub(crate) const OPERATOR: &str = "two:proof0123456789abcdef0123456789";

/// How long something may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a lease and the grace after it last, in seconds, as coordinators have it by default.
const LEASE_AND_GRACE_S: u64 = 45;

/// How long a lease lasts, without a grace, where clocks are set.
const SHORT_LEASE_S: u64 = 10;

/// Whom the supervisor's own notes are by.
const SUPERVISOR: &str = "supervisor";

/// The team.
pub const TEAM: &str = "proof";

/// Which store the coordinators share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A file of one coordinator.
    Embedded,
    /// A Redis that flushes before it answers, and two coordinators.
    Redis,
}

/// What a stage is made of, besides what is on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Nothing else.
    Plain,
    /// Proxies between coordinators and all that they speak with.
    Proxied,
    /// A small disk for the file of the store.
    SmallDisk,
    /// A Redis that flushes once a second.
    Everysec,
    /// A Redis in memory with a replica, under a Sentinel. `replicas`: sends are answered once the replica has them.
    Pair { replicas: bool },
    /// Three nodes of Redis in memory.
    Cluster,
    /// Coordinators with clocks of their own.
    OwnClock,
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(mut command: Command, log: &Path) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { child: command.spawn()? })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        // It may be gone already.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns how it has ended, if it has. Within: none for a signal.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().ok().flatten().map(|status| status.code())
    }

    pub(crate) async fn end(&mut self, patience: Duration) -> Option<Option<i32>> {
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(code) = self.ended() {
                return Some(code);
            }
            sleep(Duration::from_millis(20)).await;
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A coordinator.
#[derive(Debug)]
pub struct Coordinator {
    pub process: Process,
    /// What stands between it and its store, and between it and its clients.
    pub proxies: Vec<Proxy>,
    setup: Setup,
    address: String,
}

/// What a coordinator is started with, each time.
#[derive(Debug)]
struct Setup {
    port: u16,
    directory: PathBuf,
    store: String,
    operator: PathBuf,
    /// What it is started with besides, in its environment.
    environment: Vec<(&'static str, OsString)>,
}

/// A member, and the processes that were or are it.
#[derive(Debug)]
pub struct Member {
    pub credential: String,
    pub processes: BTreeMap<u32, Process>,
    started: u32,
}

/// All of it.
#[derive(Debug)]
pub struct Stage {
    pub coordinators: Vec<Coordinator>,
    pub members: BTreeMap<String, Member>,
    /// The one Redis, where there is one.
    pub redis: Option<TestRedis>,
    /// A primary and a replica, in any order, and who watches them.
    pub pair: Option<(Vec<TestRedis>, TestSentinel)>,
    pub cluster: Option<TestCluster>,
    /// The disk that the file of the store lies on, where it has one of its own.
    pub disk: Option<Disk>,
    /// The lead, outside of any session. Clones share that.
    pub lead: Client,
    /// The lead's own credential, for clients with a session of their own.
    pub lead_credential: String,
    pub(crate) teamwire: PathBuf,
    pub(crate) directory: PathBuf,
    seed: u64,
}

impl Stage {
    /// Sets everything up in a directory: a store, coordinators, a team with so many members, which do not work yet.
    pub async fn set(
        directory: &Path,
        teamwire: &Path,
        store: Store,
        scene: Scene,
        members: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Context(format!("the stage cannot be set: {error}"));
        let no_redis = || failed(io::Error::other("there is no redis-server"));
        fs::create_dir_all(directory.join("history")).map_err(failed)?;
        fs::write(directory.join("operator"), OPERATOR).map_err(failed)?;
        let (mut redis, mut pair, mut cluster, mut disk) = (None, None, None, None);
        let url = match (store, scene) {
            (Store::Embedded, Scene::SmallDisk) => {
                let mounted = disk.insert(Disk::mount(&directory.join("disk")).map_err(failed)?);
                format!("embedded:{}", mounted.directory().join("store").display())
            }
            (Store::Embedded, _) => format!("embedded:{}", directory.join("store").display()),
            (Store::Redis, Scene::Pair { replicas }) => {
                let primary = TestRedis::start().ok_or_else(no_redis)?;
                let replica = TestRedis::start_replica_of(&primary).await.ok_or_else(no_redis)?;
                let sentinel = TestSentinel::start(&primary, 1).await.ok_or_else(no_redis)?;
                sentinel.set_down_after(faults::NEVER).await;
                let url = format!("redis+sentinel://127.0.0.1:{}/{}", sentinel.port(), TestSentinel::SERVICE);
                pair = Some((vec![primary, replica], sentinel));
                if replicas { format!("{url}?replicas=1&wait=500ms") } else { url }
            }
            (Store::Redis, Scene::Cluster) => cluster.insert(TestCluster::start().await.ok_or_else(no_redis)?).url(),
            (Store::Redis, _) => {
                let fsync = if scene == Scene::Everysec { "everysec" } else { "always" };
                let settings = ["--save", "", "--appendonly", "yes", "--appendfsync", fsync];
                let settings = [&settings[..], &["--maxmemory-policy", "noeviction"]].concat();
                redis.insert(TestRedis::within(&directory.join("redis"), &settings).ok_or_else(no_redis)?).url()
            }
        };
        let mut coordinators = Vec::new();
        for number in 1..=if store == Store::Redis { 2 } else { 1 } {
            let directory = directory.join(format!("coordinator-{number}"));
            let (mut store, mut proxies) = (url.clone(), Vec::new());
            if let (Scene::Proxied, Some(redis)) = (scene, &redis) {
                let proxy = Proxy::before(redis.port()).await.map_err(failed)?;
                store = format!("redis://127.0.0.1:{}", proxy.port());
                proxies.push(proxy);
            }
            let operator = directory.with_file_name("operator");
            let environment = if scene == Scene::OwnClock { clock(&directory).map_err(failed)? } else { Vec::new() };
            let mut coordinator =
                Coordinator::start(teamwire, &directory, store, &operator, environment).map_err(failed)?;
            if scene == Scene::Proxied {
                let proxy = Proxy::before(coordinator.port()).await.map_err(failed)?;
                coordinator.address = format!("http://127.0.0.1:{}", proxy.port());
                proxies.push(proxy);
            }
            coordinators.push(Coordinator { proxies, ..coordinator });
        }
        let address = addresses(&coordinators);
        let stranger = Client::connect(&address)?.with_retry(Retry::within(PATIENCE));
        let create = v1::CreateTeamRequest { name: TEAM.to_owned(), ..Default::default() };
        let team = stranger.with_credential(OPERATOR)?.create_team(create).await?;
        let lead = stranger.with_credential(&team.credential)?;
        let mut stage = Self {
            coordinators,
            members: BTreeMap::new(),
            redis,
            pair,
            cluster,
            disk,
            lead,
            lead_credential: team.credential,
            teamwire: teamwire.to_owned(),
            directory: directory.to_owned(),
            seed,
        };
        let lost_after_s = if scene == Scene::OwnClock { SHORT_LEASE_S } else { LEASE_AND_GRACE_S };
        stage.note(What::Started { lost_after_s }).map_err(failed)?;
        for number in 1..=members {
            let name = format!("m{number}");
            let invite = v1::InviteRequest { member: name.clone(), ..Default::default() };
            let token = stage.lead.invite(invite).await?.join_token;
            let joined = stranger.with_credential(&token)?.join(v1::JoinRequest::default()).await?;
            let member = Member { credential: joined.credential, processes: BTreeMap::new(), started: 0 };
            stage.members.insert(name, member);
        }
        Ok(stage)
    }

    /// Returns where histories are written.
    pub fn history(&self) -> PathBuf {
        self.directory.join("history")
    }

    /// Starts another process of a member: a worker of this very program. Others of it are superseded.
    pub fn start(&mut self, name: &str) -> io::Result<()> {
        let others: Vec<_> = self.members.keys().filter(|other| *other != name).cloned().collect();
        let (address, history, seed) = (addresses(&self.coordinators), self.history(), self.seed);
        let log = self.directory.join(format!("{name}.log"));
        let Some(member) = self.members.get_mut(name) else { return Ok(()) };
        member.started += 1;
        let mut command = Command::new(env::current_exe()?);
        command.arg("worker").arg(history).args([name, &member.started.to_string(), &seed.to_string(), &address]);
        command.args(others).env("TEAMWIRE_CREDENTIAL", &member.credential);
        member.processes.insert(member.started, Process::start(command, &log)?);
        Ok(())
    }

    /// Kills the newest process of a member.
    pub fn kill(&mut self, name: &str) -> io::Result<()> {
        let history = self.history();
        let Some(member) = self.members.get_mut(name) else { return Ok(()) };
        if let Some((number, mut process)) = member.processes.pop_last() {
            process.kill();
            Recorder::open(&history, name, number)?.note(What::Killed);
        }
        Ok(())
    }

    /// Notes which processes have ended by themselves. Starts one for each member that has none, unless it is to end.
    pub fn look_after(&mut self, restarts: bool) -> io::Result<()> {
        let history = self.history();
        let mut alone = Vec::new();
        for (name, member) in &mut self.members {
            let mut ended = Vec::new();
            for (number, process) in &mut member.processes {
                if let Some(code) = process.ended() {
                    ended.push(*number);
                    Recorder::open(&history, name, *number)?.note(What::Exited { code });
                }
            }
            member.processes.retain(|number, _| !ended.contains(number));
            if member.processes.is_empty() {
                alone.push(name.clone());
            }
        }
        if restarts {
            for name in alone {
                self.start(&name)?;
            }
        }
        Ok(())
    }

    /// Returns where all coordinators are, as clients want it.
    pub fn address(&self) -> String {
        addresses(&self.coordinators)
    }

    /// Returns the file with the operator's credential.
    pub fn operator(&self) -> PathBuf {
        self.directory.join("operator")
    }

    /// Notes something that the supervisor has done or seen.
    pub fn note(&self, what: What) -> io::Result<()> {
        Recorder::open(&self.history(), SUPERVISOR, 1)?.note(what);
        Ok(())
    }

    /// Notes how much memory each coordinator has taken at most.
    pub fn note_memory(&self) -> io::Result<()> {
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            // One that has just ended has taken none.
            if let Some(peak_bytes) = peak_bytes(coordinator.process.id()) {
                self.note(What::Memory { coordinator: number + 1, peak_bytes })?;
            }
        }
        Ok(())
    }

    /// Starts a coordinator again that was killed or has ended.
    pub fn restart(&mut self, number: usize) -> io::Result<()> {
        self.restart_with(number, &[])
    }

    /// The same, with more in its environment this time.
    pub fn restart_with(&mut self, number: usize, more: &[(&'static str, OsString)]) -> io::Result<()> {
        let coordinator = &mut self.coordinators[number];
        coordinator.process = coordinator.setup.spawn(&self.teamwire, more)?;
        Ok(())
    }

    /// Asks a coordinator to end, waits until it has, and starts it again.
    pub async fn roll(&mut self, number: usize) -> io::Result<()> {
        let process = &mut self.coordinators[number].process;
        process.signal(Signal::SIGTERM);
        if process.end(PATIENCE).await.is_none() {
            return Err(io::Error::other("a coordinator does not end"));
        }
        self.restart(number)
    }
}

impl Coordinator {
    /// Starts a coordinator in a directory, which is made.
    pub(crate) fn start(
        teamwire: &Path,
        directory: &Path,
        store: String,
        operator: &Path,
        environment: Vec<(&'static str, OsString)>,
    ) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let port = free_port();
        let setup = Setup { port, directory: directory.to_owned(), store, operator: operator.to_owned(), environment };
        let process = setup.spawn(teamwire, &[])?;
        Ok(Self { process, setup, proxies: Vec::new(), address: format!("http://127.0.0.1:{port}") })
    }

    /// Returns where its clients find it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns where it listens itself.
    pub fn port(&self) -> u16 {
        self.setup.port
    }

    /// Returns a file of its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.setup.directory.join(name)
    }
}

impl Setup {
    fn spawn(&self, teamwire: &Path, more: &[(&'static str, OsString)]) -> io::Result<Process> {
        let mut command = Command::new(teamwire);
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--store", &self.store]);
        command.env("TEAMWIRE_STATE_DIR", self.directory.join("state"));
        command.env("TEAMWIRE_OPERATOR_CREDENTIAL", &self.operator);
        command.envs(self.environment.iter().chain(more).map(|(name, value)| (name, value)));
        Process::start(command, &self.directory.join("log"))
    }
}

/// Returns the most memory that a process has taken so far, in bytes. `None`: it has ended.
pub fn peak_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak_kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))?;
    Some(peak_kib.parse::<u64>().ok()? * 1024)
}

fn addresses(coordinators: &[Coordinator]) -> String {
    let addresses: Vec<_> = coordinators.iter().map(|it| it.address.as_str()).collect();
    addresses.join(",")
}

/// Returns what gives a coordinator a clock of its own, which its file `clock` sets.
fn clock(directory: &Path) -> io::Result<Vec<(&'static str, OsString)>> {
    let library = env::var_os("TEAMWIRE_FAKETIME").filter(|path| Path::new(path).is_file());
    let library = library.ok_or_else(|| {
        io::Error::other(
            "libfaketime gives coordinators clocks of their own: install it (Debian and Ubuntu: `sudo apt-get install \
             faketime`), and name its libfaketimeMT.so.1 in TEAMWIRE_FAKETIME",
        )
    })?;
    fs::create_dir_all(directory)?;
    let file = directory.join("clock");
    fs::write(&file, "+0h")?;
    // The monotonic clock is not anybody's to set. The file is looked at once a second.
    Ok(vec![
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file.into()),
        ("FAKETIME_CACHE_DURATION", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
        // Or nobody could be taken for lost in a run of less than a minute.
        ("TEAMWIRE_LIMITS_LEASE_TTL", format!("{SHORT_LEASE_S}s").into()),
        ("TEAMWIRE_LIMITS_LOST_GRACE", "0s".into()),
        ("TEAMWIRE_DELIVERY_HEARTBEAT_INTERVAL", "5s".into()),
    ])
}
