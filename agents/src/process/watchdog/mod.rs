//! A small process that outlives a killed runner for just as long as it takes to kill what the runner has left behind.
//!
//! The runner starts it, and it moves to its own session. The runner writes to its standard input, a line for each
//! change:
//! - `runner PID STARTED`: this process adopts orphans;
//! - `watch MARK CGROUP`: a program is about to start; CGROUP is missing if it has none;
//! - `root MARK PID STARTED`: the program has started;
//! - `release MARK`: the program has ended with all its descendants.
//!
//! About once a second, the watchdog notes the programs' descendants. However the runner ends, the kernel closes the
//! pipe. The watchdog then kills whatever is left of the programs that are still watched, and exits.
//!
//! If the watchdog itself is killed, the runner starts another one and repeats what it must know.

mod watch;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::File,
    io::{self, ErrorKind, Write as _},
    iter,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use parking_lot::Mutex;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

pub use self::watch::watch;
use super::{
    cgroup::Cgroup,
    descendants::{Family, MARK_VARIABLE, own},
    process_table::ProcessEntry,
};
use crate::{config::OnEvent, event::RunnerEvent};

/// What is at stake without a watchdog, in a sentence for a person.
pub(super) const UNWATCHED: &str =
    "If this runner is killed with SIGKILL, processes that its program has started survive it.";

/// What `ps` shows, so that ending all processes named after teamwire does not end the watchdog as well.
const NAME: &str = "tw-watchdog";

/// How many times a watchdog is replaced with growing delays.
const DELAYS_MAX: usize = 9;

/// The longest delay before a watchdog is replaced.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// How long a watchdog must have run for the next one to start at once again.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// The runner's side of its watchdog.
#[derive(Debug)]
pub(super) struct Watchdog {
    link: Arc<Link>,
    _keeper: AbortOnDropHandle<()>,
}

impl Watchdog {
    /// Starts a watchdog with a command that calls [`watch`], and another whenever one ends. Must be called within a
    /// Tokio runtime.
    pub(super) fn start(command: &[OsString], notes_orphans: bool, on_event: OnEvent) -> io::Result<Self> {
        let link = Arc::new(Link { command: command.to_vec(), notes_orphans, input: Mutex::default() });
        let first = link.start()?;
        let keeper = AbortOnDropHandle::new(tokio::spawn(keep(link.clone(), first, on_event, delays)));
        Ok(Self { link, _keeper: keeper })
    }

    pub(super) fn watch(&self, mark: &str, cgroup: Option<&Cgroup>) {
        let cgroup = cgroup.map_or_else(String::new, |cgroup| cgroup.directory().display().to_string());
        self.link.input.lock().say(mark, &format!("watch {mark} {cgroup}\n"));
    }

    pub(super) fn name_root(&self, family: &Family) {
        let Family { mark, root, started, .. } = family;
        self.link.input.lock().say(mark, &format!("root {mark} {root} {started}\n"));
    }

    pub(super) fn release(&self, mark: &str) {
        self.link.input.lock().release(mark);
    }
}

/// What outlives a single watchdog.
#[derive(Debug)]
struct Link {
    command: Vec<OsString>,
    notes_orphans: bool,
    input: Mutex<WatchdogInput>,
}

impl Link {
    /// Starts a watchdog, and repeats to it what its predecessor had to know.
    fn start(&self) -> io::Result<WatchdogProcess> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        // It needs nothing from the environment, and no directory may be kept busy.
        command.args(arguments).arg0(NAME).env_clear().current_dir("/");
        // A runner around this one must recognize the watchdog.
        command.envs(env::var_os(MARK_VARIABLE).map(|mark| (MARK_VARIABLE, mark)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = WatchdogProcess::spawn(command)?;
        let input = running.child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?.into_owned_fd()?;
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        let runner = ProcessEntry::of(this).filter(|_| self.notes_orphans);
        let runner = runner.map(|entry| format!("runner {this} {}\n", entry.started));
        self.input.lock().repeat(File::from(input), runner);
        Ok(running)
    }
}

/// What the watchdog must know.
#[derive(Debug, Default)]
struct WatchdogInput {
    /// Never blocks: it refuses what the pipe does not take. `None` if no watchdog runs.
    input: Option<File>,
    /// The lines about each program, by mark.
    lines: BTreeMap<String, String>,
}

impl WatchdogInput {
    fn say(&mut self, mark: &str, line: &str) {
        self.lines.entry(mark.to_owned()).or_default().push_str(line);
        self.write(line);
    }

    fn release(&mut self, mark: &str) {
        self.lines.remove(mark);
        self.write(&format!("release {mark}\n"));
    }

    /// Says everything to a new watchdog.
    fn repeat(&mut self, input: File, runner: Option<String>) {
        self.input = Some(input);
        let lines: String = runner.into_iter().chain(self.lines.values().cloned()).collect();
        self.write(&lines);
    }

    fn write(&mut self, lines: &str) {
        let Some(input) = &mut self.input else { return };
        match input.write_all(lines.as_bytes()) {
            Ok(()) => {}
            // The next watchdog reads it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.input = None,
            Err(error) => {
                tracing::warn!(%error, "the watchdog does not listen: processes may survive this runner if it is killed");
            }
        }
    }
}

/// A watchdog's process. The runtime reaps it.
struct WatchdogProcess {
    child: Child,
    pid: i32,
}

impl WatchdogProcess {
    fn spawn(mut command: Command) -> io::Result<Self> {
        // Locked, so that a reaper that sees the process also sees that it is the runner's.
        let mut own = own();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| io::Error::other("no pid"))?;
        own.insert(pid);
        Ok(Self { child, pid })
    }
}

impl Drop for WatchdogProcess {
    fn drop(&mut self) {
        own().remove(&self.pid);
    }
}

/// Starts another watchdog whenever one ends, unless too many have.
async fn keep<D: Iterator<Item = Duration>>(
    link: Arc<Link>,
    mut running: WatchdogProcess,
    on_event: OnEvent,
    all_delays: impl Fn() -> D,
) {
    let mut delays = all_delays();
    loop {
        let began = Instant::now();
        let _ = running.child.wait().await;
        if began.elapsed() >= SETTLED_AFTER {
            delays = all_delays();
        }
        let ended = running.pid;
        running = loop {
            let Some(delay) = delays.next() else { return on_event(&RunnerEvent::Uncontained { detail: UNWATCHED }) };
            sleep(delay).await;
            match link.start() {
                Ok(running) => break running,
                Err(error) => tracing::warn!(%error, "the watchdog cannot be started"),
            }
        };
        on_event(&RunnerEvent::WatchdogReplaced { ended, pid: running.pid });
    }
}

/// Returns the delays before the next watchdogs: none at first.
fn delays() -> impl Iterator<Item = Duration> {
    let growing = ExponentialBuilder::new().with_max_delay(DELAY_MAX).with_max_times(DELAYS_MAX).build();
    iter::once(Duration::ZERO).chain(growing)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use tokio::{sync::mpsc, time::timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    async fn await_text(file: &std::path::Path, text: &str) {
        let reading = async {
            while fs::read_to_string(file).unwrap_or_default() != text {
                tokio::task::yield_now().await;
            }
        };
        let in_time = timeout(PATIENCE, reading).await;
        in_time.unwrap_or_else(|_| panic!("{text:?}, not {:?}", fs::read_to_string(file)));
    }

    #[tokio::test]
    async fn a_killed_watchdog_is_replaced_at_once_by_one_that_knows_what_is_watched() {
        let directory = tempfile::tempdir().expect("a directory");
        let heard = directory.path().join("heard");
        let script = format!("exec /bin/cat > {}", heard.display());
        let command = ["/bin/sh", "-c", &script].map(OsString::from);
        let (events, mut replaced) = mpsc::channel(16);
        let on_event: OnEvent = Arc::new(move |event| drop(events.try_send(event.clone())));
        let watchdog = Watchdog::start(&command, false, on_event).expect("it starts");
        watchdog.watch("a", None);
        watchdog.watch("b", None);
        watchdog.name_root(&Family { root: 7, started: 8, ..Family::new("b".into(), None) });
        watchdog.release("a");
        await_text(&heard, "watch a \nwatch b \nroot b 7 8\nrelease a\n").await;
        let mut first = None;
        // The second successor comes after a delay.
        for _ in 0..2 {
            let pid = match first {
                None => own_watchdog(&heard),
                Some(pid) => pid,
            };
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
            let event = timeout(PATIENCE, replaced.recv()).await.expect("in time").expect("an event");
            let RunnerEvent::WatchdogReplaced { ended, pid: next } = event else { panic!("{event}") };
            assert_eq!(ended, pid);
            assert!(own().contains(&next) && !own().contains(&pid), "{pid} {next}");
            await_text(&heard, "watch b \nroot b 7 8\n").await;
            first = Some(next);
        }
        watchdog.release("b");
        await_text(&heard, "watch b \nroot b 7 8\nrelease b\n").await;
    }

    /// Returns the process that has a file open as its standard output.
    fn own_watchdog(file: &std::path::Path) -> i32 {
        let is_it = |pid: &&i32| fs::read_link(format!("/proc/{pid}/fd/1")).is_ok_and(|target| target == file);
        own().iter().find(is_it).copied().expect("a watchdog")
    }

    #[tokio::test]
    async fn watchdogs_that_keep_exiting_are_replaced_a_bounded_number_of_times() {
        let command = vec!["/bin/sh".into(), "-c".into(), "exit".into()];
        let link = Arc::new(Link { command, notes_orphans: false, input: Mutex::default() });
        let (events, mut replaced) = mpsc::channel(16);
        let on_event: OnEvent = Arc::new(move |event| drop(events.try_send(event.clone())));
        let first = link.start().expect("it starts");
        timeout(PATIENCE, keep(link, first, on_event, || iter::repeat_n(Duration::ZERO, 2))).await.expect("in time");
        for _ in 0..2 {
            let event = replaced.recv().await;
            assert!(matches!(event, Some(RunnerEvent::WatchdogReplaced { .. })), "{event:?}");
        }
        assert_eq!(replaced.recv().await, Some(RunnerEvent::Uncontained { detail: UNWATCHED }));
        assert_eq!(replaced.recv().await, None);
    }

    #[test]
    fn the_first_replacement_starts_at_once_and_later_ones_are_delayed() {
        let delays: Vec<Duration> = delays().collect();
        assert_eq!(delays[..4], [0, 1, 2, 4].map(Duration::from_secs));
        assert_eq!((delays.len(), delays.last()), (DELAYS_MAX + 1, Some(&DELAY_MAX)));
    }
}
