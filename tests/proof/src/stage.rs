//! What a run owns: the store, the coordinators, the workers. All of it ends with the stage.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use teamwire_client::{Client, Error, Retry, v1};
use tokio::time::sleep;

use crate::history::{Recorder, What};

/// The operator's credential of a stage. It is good on loopback, while the stage stands.
const OPERATOR: &str = "two:proof0123456789abcdef0123456789";

/// How long something may take to come up.
const PATIENCE: Duration = Duration::from_secs(60);

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

    async fn end(&mut self, patience: Duration) -> Option<Option<i32>> {
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

/// A Redis of the stage's own.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    directory: PathBuf,
}

impl Redis {
    fn start(directory: &Path) -> io::Result<Self> {
        let (directory, port) = (directory.join("redis"), free_port()?);
        fs::create_dir_all(&directory)?;
        let process = Self::spawn(&directory, port)?;
        Ok(Self { process, port, directory })
    }

    fn spawn(directory: &Path, port: u16) -> io::Result<Process> {
        let binary = env::var_os("TEAMWIRE_REDIS_SERVER").filter(|path| !path.is_empty());
        let mut command = Command::new(binary.unwrap_or_else(|| "redis-server".into()));
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]);
        command.arg("--dir").arg(directory);
        Process::start(command, &directory.join("log"))
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Starts it again on the same port and files.
    pub fn restart(&mut self) -> io::Result<()> {
        self.process = Self::spawn(&self.directory, self.port)?;
        Ok(())
    }

    /// Has it carry out a command.
    pub async fn tell(&self, words: &[&str]) -> redis::RedisResult<()> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async::<redis::Value>(&mut connection).await.map(drop)
    }

    async fn await_ready(&self) -> io::Result<()> {
        let began = Instant::now();
        while self.tell(&["PING"]).await.is_err() {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("redis-server does not come up; is it installed?"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

/// A coordinator.
#[derive(Debug)]
pub struct Coordinator {
    pub process: Process,
    pub port: u16,
    directory: PathBuf,
    store: String,
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
    pub redis: Option<Redis>,
    pub coordinators: Vec<Coordinator>,
    pub members: BTreeMap<String, Member>,
    /// The lead, outside of any session. Clones share that.
    pub lead: Client,
    /// The lead's own credential, for clients with a session of their own.
    pub lead_credential: String,
    teamwire: PathBuf,
    seed: u64,
    directory: PathBuf,
}

impl Stage {
    /// Sets everything up in a directory: a store, coordinators, a team with so many members, which do not work yet.
    pub async fn set(
        directory: &Path,
        teamwire: &Path,
        store: Store,
        members: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Context(format!("the stage cannot be set: {error}"));
        fs::create_dir_all(directory.join("history")).map_err(failed)?;
        fs::write(directory.join("operator"), OPERATOR).map_err(failed)?;
        let redis = match store {
            Store::Embedded => None,
            Store::Redis => {
                let redis = Redis::start(directory).map_err(failed)?;
                redis.await_ready().await.map_err(failed)?;
                Some(redis)
            }
        };
        let url = match &redis {
            Some(redis) => format!("redis://127.0.0.1:{}", redis.port),
            None => format!("embedded:{}", directory.join("store").display()),
        };
        let mut coordinators = Vec::new();
        for number in 1..=if redis.is_some() { 2 } else { 1 } {
            let directory = directory.join(format!("coordinator-{number}"));
            fs::create_dir_all(&directory).map_err(failed)?;
            let port = free_port().map_err(failed)?;
            let process = Coordinator::spawn(teamwire, &directory, &url, port).map_err(failed)?;
            coordinators.push(Coordinator { process, port, directory, store: url.clone() });
        }
        let address = addresses(&coordinators);
        let stranger = Client::connect(&address)?.with_retry(Retry::within(PATIENCE));
        let create = v1::CreateTeamRequest { name: TEAM.to_owned(), ..Default::default() };
        let team = stranger.with_credential(OPERATOR)?.create_team(create).await?;
        let lead = stranger.with_credential(&team.credential)?;
        let mut stage = Self {
            redis,
            coordinators,
            members: BTreeMap::new(),
            lead,
            lead_credential: team.credential,
            teamwire: teamwire.to_owned(),
            seed,
            directory: directory.to_owned(),
        };
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

    /// Starts a coordinator again that was killed or has ended.
    pub fn restart(&mut self, number: usize) -> io::Result<()> {
        let Coordinator { port, directory, store, .. } = &self.coordinators[number];
        let process = Coordinator::spawn(&self.teamwire, directory, store, *port)?;
        self.coordinators[number].process = process;
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
    fn spawn(teamwire: &Path, directory: &Path, store: &str, port: u16) -> io::Result<Process> {
        let mut command = Command::new(teamwire);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--store", store]);
        command.env("TEAMWIRE_STATE_DIR", directory.join("state"));
        command.env("TEAMWIRE_OPERATOR_CREDENTIAL", directory.with_file_name("operator"));
        Process::start(command, &directory.join("log"))
    }
}

fn addresses(coordinators: &[Coordinator]) -> String {
    let addresses: Vec<_> = coordinators.iter().map(|it| format!("http://127.0.0.1:{}", it.port)).collect();
    addresses.join(",")
}

/// Returns a port that nobody listens on just now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
