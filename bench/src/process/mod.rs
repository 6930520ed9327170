//! The processes of candidates. They listen on free loopback ports, have their own directories, and are killed by id
//! however the benchmark ends.

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
        prctl,
        resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
        signal::{Signal, killpg},
        time::TimeVal,
    },
    unistd::Pid,
};
use parking_lot::Mutex;
use procfs::process as proc;
use rustix::process::setpriority_process;
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

/// The nice value of a thread that must not wait.
const PREFERRED: i32 = -20;

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
        let process = proc::Process::new(self.id.cast_signed())?;
        let kib = process.status()?.vmrss.ok_or("/proc does not show the process' memory")?;
        Ok(Usage { resident: kib * 1024, cpu: cpu(&process.stat()?) })
    }

    /// Returns the CPU time of its group: of the process and of those that it has started.
    pub(crate) fn group_cpu(&self) -> Result<Duration> {
        let group = self.id.cast_signed();
        // A process that ends meanwhile is gone with its time.
        let stats = proc::all_processes()?.filter_map(|process| process.ok()?.stat().ok());
        Ok(stats.filter(|stat| stat.pgrp == group).map(|stat| cpu(&stat)).sum())
    }
}

fn cpu(stat: &proc::Stat) -> Duration {
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Returns the CPU time of this process.
pub(crate) fn own_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(Duration::from_secs_f64(seconds(usage.user_time()) + seconds(usage.system_time())))
}

/// Lets the calling thread run as soon as it wakes up, and wake up when it asked to. The kernel grants the first only
/// to root.
pub(crate) fn prefer_this_thread() {
    let _ = setpriority_process(None, PREFERRED);
    let _ = prctl::set_timerslack(1);
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
