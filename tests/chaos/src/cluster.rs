//! Everything that a run owns: the store, the coordinators and the members. Dropping it ends all of them.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
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
    hosts::Hosts,
    proxy::Proxy,
};

/// The operator's credential of every cluster, which only loopback can reach.
pub(crate) const OPERATOR: &str = "two:proof0123456789abcdef0123456789";

/// The longest wait for something to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The default lease and its grace, in seconds.
const LEASE_AND_GRACE_S: u64 = 45;

/// The lease, without a grace, where clocks are set or hosts are stopped, in seconds.
const SHORT_LEASE_S: u64 = 10;

/// The shell command that starts a coordinator, given the binary and its arguments: it gets as many open files as it
/// asks for.
const OPEN_FILES: &str = "ulimit -n 4128; exec \"$0\" \"$@\"";

/// How many bytes a team may hold beside hostile members that are to fill it within seconds.
const SMALL_QUOTA: &str = "16MiB";

/// The same where an attack lasts so long that the members that work meanwhile need more.
const LONG_QUOTA: &str = "32MiB";

/// The name under which the supervisor records events.
const SUPERVISOR: &str = "supervisor";

/// The team's name.
pub const TEAM: &str = "proof";

/// The store that the coordinators share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A file, with one coordinator.
    Embedded,
    /// A Redis that flushes before it answers, with two coordinators.
    Redis,
}

/// What a cluster has besides its store, coordinators and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterSpec {
    /// Nothing else.
    Plain,
    /// Proxies between the coordinators and their clients and Redis.
    Proxied,
    /// A small disk for the store's file.
    SmallDisk,
    /// A Redis that flushes once a second.
    Everysec,
    /// A primary and a replica in memory, and a Sentinel. `replicas`: sends are answered after the replica has them.
    SentinelPair { replicas: bool },
    /// A Redis Cluster of three nodes in memory.
    RedisCluster,
    /// A separate clock for each coordinator.
    OwnClock,
    /// Small bounds for what a team and the audit log hold, few open files, and listeners for health and metrics.
    /// `is_long`: the team may hold enough for an attack of two minutes.
    Hostile { is_long: bool },
    /// Hosts, from which the lead orders members. `sentinels`: the store is a primary and a replica, and sends are
    /// answered after the replica has them.
    Hosts { sentinels: bool },
}

impl ClusterSpec {
    /// Returns whether members are declared lost early, because a run would be over otherwise.
    fn has_short_lease(self) -> bool {
        matches!(self, Self::OwnClock | Self::Hosts { .. })
    }
}

/// A process, killed on drop.
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
        // The process may have exited already.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the exit code if the process has ended; the inner `None` means a signal.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().ok().flatten().map(|status| status.code())
    }

    /// Waits for the process to end. Returns `None` if it is still running after `patience`.
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
    /// The proxies to its store and to its clients.
    pub proxies: Vec<Proxy>,
    /// The ports of its listeners for health and metrics, if it has them.
    pub listeners: Vec<u16>,
    launch: Launch,
    address: String,
}

/// How to start a coordinator.
#[derive(Debug)]
struct Launch {
    port: u16,
    directory: PathBuf,
    store: String,
    operator: PathBuf,
    /// Additional environment variables.
    environment: Vec<(&'static str, OsString)>,
}

/// A member and its running processes.
#[derive(Debug)]
pub struct Member {
    pub credential: String,
    pub processes: BTreeMap<u32, Process>,
    started: u32,
}

/// A store, its coordinators and a team.
#[derive(Debug)]
pub struct Cluster {
    pub coordinators: Vec<Coordinator>,
    pub members: BTreeMap<String, Member>,
    /// The single Redis, if any.
    pub redis: Option<TestRedis>,
    /// A primary and a replica, in any order, and their Sentinel.
    pub sentinel_pair: Option<(Vec<TestRedis>, TestSentinel)>,
    pub redis_cluster: Option<TestCluster>,
    /// The small disk of the store's file, if any.
    pub disk: Option<Disk>,
    /// The hosts, if any.
    pub hosts: Option<Hosts>,
    /// The lead, without a session.
    pub lead: Client,
    /// The lead's credential, for clients that open a session.
    pub lead_credential: String,
    pub(crate) teamwire: PathBuf,
    pub(crate) directory: PathBuf,
    seed: u64,
}

impl Cluster {
    /// Starts a store, coordinators and a team in a directory. The members have no processes yet.
    pub async fn start_all(
        directory: &Path,
        teamwire: &Path,
        store: Store,
        spec: ClusterSpec,
        members: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Context(format!("the cluster cannot be started: {error}"));
        let no_redis = || failed(io::Error::other("redis-server is not installed"));
        fs::create_dir_all(directory.join("history")).map_err(failed)?;
        fs::write(directory.join("operator"), OPERATOR).map_err(failed)?;
        let (mut redis, mut sentinel_pair, mut redis_cluster, mut disk) = (None, None, None, None);
        let url = match (store, spec) {
            (Store::Embedded, ClusterSpec::SmallDisk) => {
                let mounted = disk.insert(Disk::mount(&directory.join("disk")).map_err(failed)?);
                format!("embedded:{}", mounted.directory().join("store").display())
            }
            (Store::Embedded, _) => format!("embedded:{}", directory.join("store").display()),
            (Store::Redis, ClusterSpec::SentinelPair { .. } | ClusterSpec::Hosts { sentinels: true }) => {
                let replicas = spec != ClusterSpec::SentinelPair { replicas: false };
                let primary = TestRedis::start().ok_or_else(no_redis)?;
                let replica = TestRedis::start_replica_of(&primary).await.ok_or_else(no_redis)?;
                let sentinel = TestSentinel::start(&primary, 1).await.ok_or_else(no_redis)?;
                sentinel.set_down_after(faults::NEVER).await;
                let url = format!("redis+sentinel://127.0.0.1:{}/{}", sentinel.port(), TestSentinel::SERVICE);
                sentinel_pair = Some((vec![primary, replica], sentinel));
                if replicas { format!("{url}?replicas=1&wait=500ms") } else { url }
            }
            (Store::Redis, ClusterSpec::RedisCluster) => {
                redis_cluster.insert(TestCluster::start().await.ok_or_else(no_redis)?).url()
            }
            (Store::Redis, _) => {
                let fsync = if spec == ClusterSpec::Everysec { "everysec" } else { "always" };
                let settings = ["--save", "", "--appendonly", "yes", "--appendfsync", fsync];
                let settings = [&settings[..], &["--maxmemory-policy", "noeviction"]].concat();
                redis.insert(TestRedis::within(&directory.join("redis"), &settings).ok_or_else(no_redis)?).url()
            }
        };
        let mut coordinators = Vec::new();
        for number in 1..=if store == Store::Redis { 2 } else { 1 } {
            let directory = directory.join(format!("coordinator-{number}"));
            let (mut store, mut proxies) = (url.clone(), Vec::new());
            if let (ClusterSpec::Proxied, Some(redis)) = (spec, &redis) {
                let proxy = Proxy::before(redis.port()).await.map_err(failed)?;
                store = format!("redis://127.0.0.1:{}", proxy.port());
                proxies.push(proxy);
            }
            let operator = directory.with_file_name("operator");
            let mut environment = if spec.has_short_lease() { short_lease() } else { Vec::new() };
            if spec == ClusterSpec::OwnClock {
                environment.extend(clock(&directory).map_err(failed)?);
            }
            let mut listeners = Vec::new();
            if let ClusterSpec::Hostile { is_long } = spec {
                let ports = [free_port(), free_port()];
                environment.extend(small_bounds(is_long, ports));
                listeners.extend(ports);
            }
            let mut coordinator =
                Coordinator::start(teamwire, &directory, store, &operator, environment).map_err(failed)?;
            if spec == ClusterSpec::Proxied {
                let proxy = Proxy::before(coordinator.port()).await.map_err(failed)?;
                coordinator.address = format!("http://127.0.0.1:{}", proxy.port());
                proxies.push(proxy);
            }
            coordinators.push(Coordinator { proxies, listeners, ..coordinator });
        }
        let address = addresses(&coordinators);
        let anonymous = Client::connect(&address)?.with_retry(Retry::within(PATIENCE));
        let create = v1::CreateTeamRequest { name: TEAM.to_owned(), ..Default::default() };
        let team = anonymous.with_credential(OPERATOR)?.create_team_with(create).await?;
        let lead = anonymous.with_credential(&team.credential)?;
        let mut cluster = Self {
            coordinators,
            members: BTreeMap::new(),
            redis,
            sentinel_pair,
            redis_cluster,
            disk,
            hosts: None,
            lead,
            lead_credential: team.credential,
            teamwire: teamwire.to_owned(),
            directory: directory.to_owned(),
            seed,
        };
        let lost_after_s = if spec.has_short_lease() { SHORT_LEASE_S } else { LEASE_AND_GRACE_S };
        cluster.note(What::Started { lost_after_s }).map_err(failed)?;
        for number in 1..=members {
            let name = format!("m{number}");
            let invite = v1::InviteRequest { member: name.clone(), ..Default::default() };
            let token = cluster.lead.invite(invite).await?.join_token;
            let joined = anonymous.with_credential(&token)?.join(v1::JoinRequest::default()).await?;
            let member = Member { credential: joined.credential, processes: BTreeMap::new(), started: 0 };
            cluster.members.insert(name, member);
        }
        if matches!(spec, ClusterSpec::Hosts { .. }) {
            let ports: Vec<u16> = cluster.coordinators.iter().map(Coordinator::port).collect();
            cluster.hosts = Some(Hosts::start(teamwire, directory, &cluster.lead, &ports).await?);
        }
        Ok(cluster)
    }

    /// Returns the directory of the histories.
    pub fn history(&self) -> PathBuf {
        self.directory.join("history")
    }

    /// Starts another process of a member, which supersedes the others. It runs this same program.
    pub fn start(&mut self, name: &str) -> io::Result<()> {
        let others: Vec<_> = self.members.keys().filter(|other| *other != name).cloned().collect();
        let (address, history, seed) = (addresses(&self.coordinators), self.history(), self.seed);
        let log = self.directory.join(format!("{name}.log"));
        let Some(member) = self.members.get_mut(name) else { return Ok(()) };
        member.started += 1;
        let mut command = Command::new(env::current_exe()?);
        command.arg("member").arg(history).args([name, &member.started.to_string(), &seed.to_string(), &address]);
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

    /// Records which processes have exited. `restarts`: starts a process for each member that has none.
    pub fn reap(&mut self, restarts: bool) -> io::Result<()> {
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
            self.hosts.as_mut().map(Hosts::reap).transpose()?;
            for name in alone {
                self.start(&name)?;
            }
        }
        Ok(())
    }

    /// Returns the addresses of all coordinators, as a client takes them.
    pub fn address(&self) -> String {
        addresses(&self.coordinators)
    }

    /// Returns the file with the operator's credential.
    pub fn operator(&self) -> PathBuf {
        self.directory.join("operator")
    }

    /// Records something that the supervisor did or saw.
    pub fn note(&self, what: What) -> io::Result<()> {
        Recorder::open(&self.history(), SUPERVISOR, 1)?.note(what);
        Ok(())
    }

    /// Records the peak memory of each coordinator.
    pub fn note_memory(&self) -> io::Result<()> {
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            // An exited process has no memory.
            if let Some(peak_bytes) = peak_bytes(coordinator.process.id()) {
                self.note(What::Memory { coordinator: number + 1, peak_bytes })?;
            }
        }
        Ok(())
    }

    /// Returns the size of the store: of its file on the disk, or of the memory that Redis uses. `None` if it is
    /// neither.
    pub async fn store_bytes(&self) -> Option<u64> {
        match &self.redis {
            Some(redis) => {
                // An answer that is too late is none.
                let memory: String = ::redis::from_redis_value(redis.ask(&["INFO", "memory"]).await.ok()?).ok()?;
                memory.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
            }
            None => disk_bytes(&self.directory.join("store")),
        }
    }

    /// Restarts a coordinator that has ended.
    pub fn restart(&mut self, number: usize) -> io::Result<()> {
        self.restart_with(number, &[])
    }

    /// Restarts a coordinator with additional environment variables for this run.
    pub fn restart_with(&mut self, number: usize, more: &[(&'static str, OsString)]) -> io::Result<()> {
        let coordinator = &mut self.coordinators[number];
        coordinator.process = coordinator.launch.spawn(&self.teamwire, more)?;
        Ok(())
    }

    /// Terminates a coordinator, waits for its end, and restarts it.
    pub async fn roll(&mut self, number: usize) -> io::Result<()> {
        let process = &mut self.coordinators[number].process;
        process.signal(Signal::SIGTERM);
        if process.end(PATIENCE).await.is_none() {
            return Err(io::Error::other("a coordinator does not exit"));
        }
        self.restart(number)
    }
}

impl Coordinator {
    /// Creates a directory and starts a coordinator in it.
    pub(crate) fn start(
        teamwire: &Path,
        directory: &Path,
        store: String,
        operator: &Path,
        environment: Vec<(&'static str, OsString)>,
    ) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let port = free_port();
        let launch =
            Launch { port, directory: directory.to_owned(), store, operator: operator.to_owned(), environment };
        let process = launch.spawn(teamwire, &[])?;
        let (proxies, listeners) = (Vec::new(), Vec::new());
        Ok(Self { process, launch, proxies, listeners, address: format!("http://127.0.0.1:{port}") })
    }

    /// Returns the address for clients, which may be a proxy's.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the port that the coordinator itself listens on.
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// Returns the path of a file in its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.launch.directory.join(name)
    }
}

impl Launch {
    fn spawn(&self, teamwire: &Path, more: &[(&'static str, OsString)]) -> io::Result<Process> {
        let mut command = Command::new("sh");
        command.args(["-c", OPEN_FILES]).arg(teamwire);
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--store", &self.store]);
        command.env("TEAMWIRE_STATE_DIR", self.directory.join("state"));
        command.env("TEAMWIRE_OPERATOR_CREDENTIAL", &self.operator);
        command.envs(self.environment.iter().chain(more).map(|(name, value)| (name, value)));
        Process::start(command, &self.directory.join("log"))
    }
}

/// Returns how much of the disk a file takes, in bytes. `None` if there is no such file.
pub fn disk_bytes(file: &Path) -> Option<u64> {
    Some(fs::metadata(file).ok()?.blocks() * 512)
}

/// Returns the peak memory of a process, in bytes. `None` if the process has ended.
pub fn peak_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak_kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))?;
    Some(peak_kib.parse::<u64>().ok()? * 1024)
}

fn addresses(coordinators: &[Coordinator]) -> String {
    let addresses: Vec<_> = coordinators.iter().map(|it| it.address.as_str()).collect();
    addresses.join(",")
}

/// Returns the environment that gives a coordinator its own clock, set by the file `clock` in its directory.
fn clock(directory: &Path) -> io::Result<Vec<(&'static str, OsString)>> {
    let library = env::var_os("TEAMWIRE_FAKETIME").filter(|path| Path::new(path).is_file());
    let library = library.ok_or_else(|| {
        io::Error::other(
            "the clock faults need libfaketime: install it (Debian and Ubuntu: `sudo apt-get install \
             faketime`) and set TEAMWIRE_FAKETIME to the path of libfaketimeMT.so.1",
        )
    })?;
    fs::create_dir_all(directory)?;
    let file = directory.join("clock");
    fs::write(&file, "+0h")?;
    // Only the wall clock changes. libfaketime rereads the file once a second.
    Ok(vec![
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file.into()),
        ("FAKETIME_CACHE_DURATION", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ])
}

/// Returns the environment that gives a coordinator small bounds of what it stores, and listeners at these ports.
fn small_bounds(is_long: bool, [health, metrics]: [u16; 2]) -> Vec<(&'static str, OsString)> {
    let quota = if is_long { LONG_QUOTA } else { SMALL_QUOTA };
    vec![
        ("TEAMWIRE_LIMITS_TEAM_BYTES_MAX", quota.into()),
        ("TEAMWIRE_LIMITS_AUDIT_CHAIN_BYTES_MAX", "64KiB".into()),
        ("TEAMWIRE_HEALTH", format!("127.0.0.1:{health}").into()),
        ("TEAMWIRE_METRICS", format!("127.0.0.1:{metrics}").into()),
    ]
}

/// Returns the environment that gives a coordinator a short lease: with the default one no member could become lost in
/// a run of less than a minute.
fn short_lease() -> Vec<(&'static str, OsString)> {
    vec![
        ("TEAMWIRE_LIMITS_LEASE_TTL", format!("{SHORT_LEASE_S}s").into()),
        ("TEAMWIRE_LIMITS_LOST_GRACE", "0s".into()),
        ("TEAMWIRE_DELIVERY_HEARTBEAT_INTERVAL", format!("{}s", SHORT_LEASE_S / 5).into()),
    ]
}
