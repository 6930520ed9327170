//! The processes of candidates. They listen on free loopback ports, have their own directories, and are killed by id however
//! the benchmark ends.

mod cluster;
mod coordinator;
mod scratch;
mod sockets;

use std::{
    env,
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, killpg},
    },
    unistd::{Pid, SysconfVar, sysconf},
};
use parking_lot::Mutex;
use tokio::{net::TcpStream, time::sleep};

pub(crate) use self::{
    cluster::{Cluster, ClusterUsage},
    coordinator::Coordinator,
    scratch::Scratch,
    sockets::{Traffic, traffic},
};
use crate::Result;

/// How long a process may take to start. Reached only if something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to poll whether it has started: the resolution of start-up times.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// All running processes, for [`end_all`].
static OURS: Mutex<Vec<Weak<Mutex<Child>>>> = Mutex::new(Vec::new());

/// A running process. Killed on drop, or by [`end_all`].
#[derive(Debug)]
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    id: u32,
    log: PathBuf,
}

/// A process' use of resources, as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory, in bytes.
    pub(crate) resident: u64,
    /// CPU time.
    pub(crate) cpu: Duration,
}

impl Process {
    /// Starts a command in a directory, and writes its output to a file there.
    pub(crate) fn start(mut command: Command, directory: &Path, name: &str) -> Result<Self> {
        let path = directory.join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(&path)?;
        // In its own group, so that Ctrl-C reaches only the benchmark, which then ends it.
        command.process_group(0).current_dir(directory);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let (id, child) = (child.id(), Arc::new(Mutex::new(child)));
        let mut ours = OURS.lock();
        ours.retain(|child| child.strong_count() > 0);
        ours.push(Arc::downgrade(&child));
        Ok(Self { child, id, log: path })
    }

    /// Waits for a line of output that contains a text, and returns it.
    pub(crate) async fn await_line(&mut self, text: &str) -> Result<String> {
        self.await_line_within(text, PATIENCE).await
    }

    /// Does the same with its own time limit.
    pub(crate) async fn await_line_within(&mut self, text: &str, patience: Duration) -> Result<String> {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log)?;
            // The last line may be incomplete.
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            if let Some(line) = whole.lines().rev().find(|line| line.contains(text)) {
                return Ok(line.to_owned());
            }
            if let Some(status) = self.child.lock().try_wait()? {
                return Err(format!("a process ended ({status}): {log}").into());
            }
            if began.elapsed() > patience {
                return Err(format!("a process did not print \"{text}\": {log}").into());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until it accepts connections on a port.
    pub(crate) async fn await_port(&mut self, port: u16) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if self.child.lock().try_wait()?.is_some() || began.elapsed() > PATIENCE {
                return Err(format!("a process does not listen: {}", fs::read_to_string(&self.log)?).into());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        Ok(end(&self.child)?)
    }

    /// Returns its current use of resources.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.id));
        let status = of("status")?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        let stat = of("stat")?;
        // After the name, which may contain anything, user and system time are the 12th and 13th fields.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>();
        let per_second = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
        let resident = kib.map(|kib: u64| kib * 1024).ok_or("/proc does not show the process' memory")?;
        Ok(Usage { resident, cpu: Duration::from_secs_f64(ticks / per_second) })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = end(&self.child);
    }
}

/// Kills all processes that are still running: an interrupted scenario may not have dropped them.
pub(crate) fn end_all() {
    for child in OURS.lock().drain(..).filter_map(|child| child.upgrade()) {
        let _ = end(&child);
    }
}

fn end(child: &Mutex<Child>) -> io::Result<()> {
    let mut child = child.lock();
    // Kills its whole group. Not after it was reaped: the id may then belong to another process.
    if child.try_wait()?.is_none() {
        killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
    }
    child.wait().map(|_| ())
}

/// Raises the limit of open files of this process and its children to the hard limit.
pub(crate) fn raise_file_limit() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

/// Returns how many files, connections included, this process may have open.
pub(crate) fn connections_max() -> Result<usize> {
    let (now, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(usize::try_from(now)?)
}

/// Returns a free port.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the path of a program in PATH or among the tools.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(tools()).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Returns the directory of tools, in the target directory.
pub(crate) fn tools() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.parent()?.join("tools"))
}
