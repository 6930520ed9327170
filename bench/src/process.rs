//! The processes of candidates. They listen on free loopback ports, have their own directories, and are killed by id however
//! the benchmark ends.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, killpg},
    },
    unistd::{Pid, SysconfVar, sysconf},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use crate::{Result, Store};

/// How long a process may take to start. Reached only if something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to poll whether it has started: the resolution of start-up times.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The configuration of a coordinator. It raises rates and limits, which are made for agents and not for load. Everything that
/// affects the cost of a message has its default.
const CONFIGURATION: &str = "\
[network]
connections_max = 20000
[rates]
sends_per_second = 1000000
sends_burst = 1000000
broadcasts_per_second = 1000000
broadcasts_burst = 1000000
[limits]
inbox_entries_max = 1000000
inbox_bytes_max = \"1GiB\"
members_max = 1000
";

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
        let mut ours = lock(&OURS);
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
            if let Some(status) = lock(&self.child).try_wait()? {
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
            if lock(&self.child).try_wait()?.is_some() || began.elapsed() > PATIENCE {
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

/// Kills all processes that still run: an interrupted scenario may not have dropped them.
pub(crate) fn end_all() {
    for child in lock(&OURS).drain(..).filter_map(|child| child.upgrade()) {
        let _ = end(&child);
    }
}

fn end(child: &Mutex<Child>) -> io::Result<()> {
    let mut child = lock(child);
    // Kills its whole group. Not after it was reaped: the id may then belong to another process.
    if child.try_wait()?.is_none() {
        killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
    }
    child.wait().map(|_| ())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    process: Process,
    binary: PathBuf,
    directory: PathBuf,
    arguments: Vec<OsString>,
    address: String,
    starts: usize,
}

impl Coordinator {
    /// Starts one on the store of a URL, and waits until it serves.
    pub(crate) async fn start(binary: &Path, directory: &Path, store: &str) -> Result<Self> {
        let file = directory.join("teamwire.toml");
        fs::write(&file, CONFIGURATION)?;
        let port = free_port()?;
        let mut arguments = vec![OsString::from("serve"), "--config".into(), file.into()];
        arguments.extend(["--store", store, "--metrics", "127.0.0.1:0"].map(OsString::from));
        arguments.extend(["--listen".into(), format!("127.0.0.1:{port}").into()]);
        let mut started = Self {
            process: Self::spawn(binary, directory, &arguments)?,
            binary: binary.to_owned(),
            directory: directory.to_owned(),
            arguments,
            address: format!("http://127.0.0.1:{port}"),
            starts: 1,
        };
        started.await_serving().await?;
        Ok(started)
    }

    /// Restarts it after it was killed. Does not wait until it serves.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = Self::spawn(&self.binary, &self.directory, &self.arguments)?;
        self.starts += 1;
        Ok(())
    }

    /// Waits until it serves.
    pub(crate) async fn await_serving(&mut self) -> Result<()> {
        loop {
            self.process.await_line(" serving").await?;
            let log = fs::read_to_string(&self.process.log)?;
            if log.lines().filter(|line| line.contains(" serving")).count() >= self.starts {
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns its address, as a client takes it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the operator's credential.
    pub(crate) fn operator(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.join("state/operator.credential"))?.trim().to_owned())
    }

    /// Returns its process' current use of resources.
    pub(crate) fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// Returns its process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns how often it called its store with an operation.
    pub(crate) async fn store_calls(&mut self, operation: &str) -> Result<f64> {
        let line = self.process.await_line("metrics are served").await?;
        let address = line.split("address").nth(1).unwrap_or_default();
        let address = address.trim_matches(|c: char| !c.is_ascii_digit());
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").await?;
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).await?;
        let series = format!("teamwire_store_seconds_count{{operation=\"{operation}\"}} ");
        Ok(metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or(0.0))
    }

    fn spawn(binary: &Path, directory: &Path, arguments: &[OsString]) -> Result<Process> {
        let mut command = Command::new(binary);
        for (variable, _) in env::vars_os() {
            // The environment must not configure it.
            if ["TEAMWIRE_", "OTEL_"].iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
                command.env_remove(variable);
            }
        }
        command.args(arguments).env("TEAMWIRE_STATE_DIR", directory.join("state"));
        Process::start(command, directory, "teamwire")
    }
}

/// A scratch directory, and a Redis server if the store is in one.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The URL of the store.
    pub(crate) url: String,
    redis: Option<Process>,
    /// Dropped last.
    directory: TempDir,
}

impl Scratch {
    /// Creates it below a directory. `None`: no store is needed.
    pub(crate) async fn prepare(below: &Path, store: Option<Store>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(below)?;
        let Some(fsync) = store.and_then(Store::append_fsync) else {
            let url = format!("embedded:{}", directory.path().join("store.redb").display());
            return Ok(Self { url, redis: None, directory });
        };
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", fsync, "--maxmemory-policy", "noeviction"]);
        let mut redis = Process::start(command, directory.path(), "redis")?;
        redis.await_port(port).await?;
        Ok(Self { url: format!("redis://127.0.0.1:{port}"), redis: Some(redis), directory })
    }

    /// Returns the CPU time of Redis. `None`: it has none.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        self.redis.as_ref().map(|redis| Ok(redis.usage()?.cpu)).transpose()
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
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
