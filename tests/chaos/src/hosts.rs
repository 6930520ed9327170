//! The hosts of a cluster: `teamwire host`, real runners, and programs that record what they get done.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use teamwire_client::{ADDRESS_VARIABLE, CONTEXT_VARIABLE, Client, Error};
use tokio::time::sleep;

use crate::{cluster::Process, proxy::Proxy};

/// How many hosts a cluster has.
const HOSTS: usize = 3;

/// How many members each runs at a time: together, one more than there are names.
const SLOTS: usize = 2;

/// The directory of the hosts, in the directory of the cluster.
const DIRECTORY: &str = "hosts";

/// `teamwire host`. Dropping it kills the program, and not what it has started.
#[derive(Debug)]
pub struct HostProgram {
    pub name: String,
    pub process: Process,
    /// A proxy to each coordinator, for the program and the members that it starts.
    pub links: Vec<Proxy>,
    directory: PathBuf,
}

/// The hosts of a cluster. Dropping them ends everything that they have started.
#[derive(Debug)]
pub struct Hosts {
    pub programs: Vec<HostProgram>,
    teamwire: PathBuf,
    directory: PathBuf,
    twins: usize,
}

/// The file in a host's directory with the addresses at which it calls.
const ADDRESS: &str = "address";

impl Hosts {
    /// Starts hosts in a directory, each with its own way to the coordinators at these ports.
    pub(crate) async fn start(teamwire: &Path, directory: &Path, lead: &Client, ports: &[u16]) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Context(format!("a host cannot be started: {error}"));
        let (history, teamwire, directory) =
            (directory.join("history"), teamwire.to_owned(), directory.join(DIRECTORY));
        let mut hosts = Self { programs: Vec::new(), teamwire, directory, twins: 0 };
        for number in 1..=HOSTS {
            let mut links = Vec::new();
            for port in ports {
                links.push(Proxy::before(*port).await.map_err(failed)?);
            }
            let name = format!("host{number}");
            let directory = hosts.directory.join(&name);
            write_profile(&directory, &history).map_err(failed)?;
            fs::write(directory.join(ADDRESS), addresses(&links)).map_err(failed)?;
            let join = join_string(lead, &name, &links).await?;
            let process = hosts.launch(&directory, &["--name", &name, "--join", &join], &[]).map_err(failed)?;
            hosts.programs.push(HostProgram { name, process, links, directory });
        }
        Ok(hosts)
    }

    /// Starts a host's program again, with the state that it left.
    pub fn restart(&mut self, at: usize) -> io::Result<()> {
        self.restart_with(at, &[], &[])
    }

    /// Starts a host's program again, with additional arguments and environment variables.
    pub fn restart_with(&mut self, at: usize, more: &[&str], variables: &[(&str, OsString)]) -> io::Result<()> {
        self.programs[at].process = self.launch(&self.programs[at].directory, more, variables)?;
        Ok(())
    }

    /// Starts the programs that have ended, as a service manager does.
    pub fn reap(&mut self) -> io::Result<()> {
        for at in 0..self.programs.len() {
            if self.programs[at].process.ended().is_some() {
                self.restart(at)?;
            }
        }
        Ok(())
    }

    /// Starts another program with a copy of a host's identity.
    pub fn start_twin(&mut self, at: usize) -> io::Result<Process> {
        let (own, twin) = self.twin_of(at)?;
        copy_identity(&own.join("state"), &twin.join("state"))?;
        self.launch(&twin, &["--stop-members"], &[])
    }

    /// Starts another program that joins under a host's name, which must be free.
    pub async fn start_successor(&mut self, at: usize, lead: &Client) -> Result<Process, Error> {
        let failed = |error: io::Error| Error::Context(format!("a host cannot be started: {error}"));
        let (_, twin) = self.twin_of(at).map_err(failed)?;
        let name = self.programs[at].name.clone();
        let join = join_string(lead, &name, &self.programs[at].links).await?;
        self.launch(&twin, &["--stop-members", "--name", &name, "--join", &join], &[]).map_err(failed)
    }

    /// Starts a host's program again with the state that it left, as a new host of its name, which must be free.
    pub async fn rejoin(&mut self, at: usize, lead: &Client) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Context(format!("a host cannot be started: {error}"));
        let join = join_string(lead, &self.programs[at].name, &self.programs[at].links).await?;
        self.restart_with(at, &["--join", &join], &[]).map_err(failed)
    }

    /// Sends a signal to a host and to everything that it has started.
    pub fn signal_machine(&self, at: usize, signal: Signal) {
        self.programs[at].process.signal(signal);
        for (id, _) in started_in(&self.programs[at].directory) {
            // It may have ended already.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Returns the runners that run now.
    pub fn runners(&self) -> BTreeSet<i32> {
        let is_runner = |id: &i32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"run")
        };
        started_in(&self.directory).into_iter().map(|(id, _)| id).filter(is_runner).collect()
    }

    /// Returns what is left of members: records of their orders, and processes. Empty once all members have ended.
    pub fn left(&self) -> Vec<String> {
        left_in(&self.directory)
    }

    /// Waits until nothing of any member is left. Returns what is.
    pub async fn clear(&mut self, patience: Duration) -> io::Result<Vec<String>> {
        let began = Instant::now();
        loop {
            self.reap()?;
            let left = self.left();
            if left.is_empty() || began.elapsed() > patience {
                return Ok(left);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes the directory of another program of a host. Returns the host's directory and the other one.
    fn twin_of(&mut self, at: usize) -> io::Result<(PathBuf, PathBuf)> {
        self.twins += 1;
        let own = self.programs[at].directory.clone();
        let twin = self.directory.join(format!("{}-twin{}", self.programs[at].name, self.twins));
        fs::create_dir_all(&twin)?;
        for file in ["host.toml", ADDRESS] {
            fs::copy(own.join(file), twin.join(file))?;
        }
        Ok((own, twin))
    }

    fn launch(&self, directory: &Path, more: &[&str], variables: &[(&str, OsString)]) -> io::Result<Process> {
        let mut command = Command::new(&self.teamwire);
        command.arg("host").arg("--config").arg(directory.join("host.toml"));
        command.arg("--state-dir").arg(directory.join("state")).args(more);
        command.env(CONTEXT_VARIABLE, directory.join("context.json")).env("HOME", directory);
        // A credential goes to a plain port of this machine only if its address is named.
        command.env(ADDRESS_VARIABLE, fs::read_to_string(directory.join(ADDRESS))?);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Process::start(command, &directory.join("log"))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.programs.iter_mut().for_each(|program| program.process.kill());
        for (id, _) in started_in(&self.directory) {
            let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Returns what is left of the members of all hosts in a directory: records of their orders, and processes.
pub fn left_in(directory: &Path) -> Vec<String> {
    let processes = started_in(directory).into_iter().map(|(id, context)| format!("process {id} of {context}"));
    let records = subdirectories(directory).into_iter().flat_map(|host| subdirectories(&host.join("state/hosts")));
    let records = records.flat_map(|team| subdirectories(&team.join("orders")));
    processes.chain(records.map(|record| format!("the record {}", record.display()))).collect()
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Returns the processes of members of hosts in a directory, each with its context file, which names the order.
fn started_in(directory: &Path) -> Vec<(i32, String)> {
    let prefix = format!("{CONTEXT_VARIABLE}={}/", directory.display());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // A process of another user, or one that has ended, has no environment to read.
        let environment = String::from_utf8_lossy(&fs::read(entry.path().join("environ")).ok()?).into_owned();
        let context = environment.split('\0').find_map(|variable| variable.strip_prefix(&prefix))?;
        context.contains("/orders/").then(|| (id, context.to_owned()))
    });
    processes.collect()
}

fn write_profile(directory: &Path, history: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let this = std::env::current_exe()?;
    let command = [&this.display().to_string(), "ordered", &history.display().to_string()];
    let profile = format!("slots = {SLOTS}\n[profiles.agent]\ncommand = {command:?}\nvia = \"stdin\"\n");
    fs::write(directory.join("host.toml"), profile)
}

/// Invites a host to join over its own links.
async fn join_string(lead: &Client, name: &str, links: &[Proxy]) -> Result<String, Error> {
    let token = lead.invite_host(name).await?.join_token;
    Ok(format!("{token}@{}", addresses(links)))
}

/// Returns the addresses of a host's way to the coordinators, as a client takes them.
fn addresses(links: &[Proxy]) -> String {
    let addresses: Vec<_> = links.iter().map(|link| format!("http://127.0.0.1:{}", link.port())).collect();
    addresses.join(",")
}

/// Copies what a program needs to act as another host: its identity, and nothing about what runs.
fn copy_identity(from: &Path, to: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() && !["orders", "work", "logs"].iter().any(|own| entry.file_name() == *own) {
            copy_identity(&from, &to)?;
        } else if entry.file_name() == "identity.json" {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}
