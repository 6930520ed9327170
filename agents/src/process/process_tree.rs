//! A process that never outlives its owner, and whose descendants never outlive it.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use teamwire_proto::v1::RunnerAction;
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use uuid::Uuid;

use super::{
    before_exec,
    boundary::Boundary,
    descendants::{Family, MARK_VARIABLE, own},
    error_output::ErrorOutput,
    process_table::ProcessEntry,
};
use crate::exit::Exit;

/// How often to check whether descendants have ended. The kernel notifies only about children.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often to reap ended descendants that were reparented to this process.
const REAP_INTERVAL: Duration = Duration::from_secs(10);

/// How long to keep killing processes. One that survives this is stuck in the kernel.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// A process in its own group. Dropping it while it runs kills it and its descendants.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    family: Family,
    boundary: Arc<Boundary>,
    began: Instant,
    /// The strongest signal that was sent to the process itself while it ran.
    action: RunnerAction,
    exit: Option<Exit>,
    /// `None` if the program's error output is not a pipe.
    errors: Option<ErrorOutput>,
    /// Dropping it ends the thread that started the process.
    _starter: mpsc::Sender<()>,
    /// Reaps abandoned descendants while the process runs.
    _reaper: AbortOnDropHandle<()>,
}

impl Process {
    /// Starts a process within a boundary. If its error output is a pipe, passes everything in it on to that of this
    /// process.
    pub(crate) async fn start(mut command: Command, boundary: Arc<Boundary>) -> io::Result<Self> {
        let mark = Uuid::new_v4().simple().to_string();
        let cgroup = boundary.enclose(&mark);
        let mut family = Family { claims_orphans: boundary.claims_orphans, ..Family::new(mark, cgroup) };
        command.env(MARK_VARIABLE, &family.mark).process_group(0);
        before_exec::prepare(&mut command, family.cgroup.as_ref().and_then(|cgroup| cgroup.procs().ok()));
        let started = start_from_own_thread(command).await.and_then(|(child, starter)| {
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| io::Error::other("no pid"))?;
            Ok((child, starter, pid))
        });
        let (mut child, starter, pid) = started.inspect_err(|_| boundary.release(&family))?;
        own().insert(pid);
        (family.root, family.started) = (pid, ProcessEntry::of(pid).map(|entry| entry.started).unwrap_or_default());
        let admitted = boundary.admit(&mut family);
        let reaper = AbortOnDropHandle::new(tokio::spawn(reap(family.clone())));
        let (began, action) = (Instant::now(), RunnerAction::None);
        let errors = child.stderr.take().map(|errors| ErrorOutput::pass(errors, tokio::io::stderr()));
        let mut process =
            Self { child, family, boundary, began, action, exit: None, errors, _starter: starter, _reaper: reaper };
        if let Err(error) = admitted {
            process.kill().await;
            return Err(error);
        }
        Ok(process)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.family.root
    }

    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the process itself has ended. Cancel-safe, and may be repeated.
    pub(crate) async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        let status = self.child.wait().await;
        self.note_exit(status)
    }

    /// Ends the process and its descendants: with SIGTERM unless the process ends by itself before `wrap_up` does, and
    /// with SIGKILL when the grace period after that is over. Cancelling `hurry` cuts both short.
    pub(crate) async fn end(
        &mut self,
        wrap_up: impl Future<Output = ()>,
        grace: Duration,
        hurry: &CancellationToken,
    ) -> Exit {
        tokio::select! {
            biased;
            () = wrap_up => {}
            () = hurry.cancelled() => {}
            _ = self.wait() => {}
        }
        self.signal(Signal::SIGTERM);
        tokio::select! {
            _ = timeout(grace, self.gone()) => {}
            () = hurry.cancelled() => {}
        }
        self.kill().await
    }

    /// Kills the process and its descendants. If the process had failed by itself, the exit has the last lines of its
    /// error output.
    pub(crate) async fn kill(&mut self) -> Exit {
        let began = Instant::now();
        loop {
            // Repeatedly, to catch processes that were forked in the meantime.
            let live = self.signal(Signal::SIGKILL);
            let is_child_gone = timeout(LOOK_INTERVAL, self.wait()).await.is_ok();
            if live == 0 && is_child_gone {
                self.boundary.release(&self.family);
                break;
            }
            if began.elapsed() >= KILL_DEADLINE {
                tracing::error!(pid = self.pid(), live, "processes do not end after SIGKILL");
                break;
            }
            if is_child_gone {
                sleep(LOOK_INTERVAL).await;
            }
        }
        let exit = self.exit.clone().unwrap_or_else(|| Exit { action: self.action, ..Exit::default() });
        let Some(mut errors) = self.errors.take() else { return exit };
        let last_words = errors.finish().await;
        if exit.action != RunnerAction::None || exit.is_success() {
            return exit;
        }
        self.exit.insert(Exit { last_words, ..exit }).clone()
    }

    fn note_exit(&mut self, status: io::Result<ExitStatus>) -> Exit {
        let exit = match status {
            Ok(status) => Exit::of(status, self.began.elapsed(), self.action),
            // Other code in this process has reaped the child, so its status is lost.
            Err(error) => Exit { detail: format!("How it ended is unknown: {error}."), ..Exit::default() },
        };
        own().remove(&self.pid());
        self.exit.insert(exit).clone()
    }

    async fn gone(&mut self) {
        self.wait().await;
        while !self.family.live().is_empty() {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Sends a signal to all members that live, and returns how many there are.
    fn signal(&mut self, signal: Signal) -> usize {
        // A process that has ended by itself must not count as ended by this signal.
        if self.exit.is_none()
            && let Some(status) = self.child.try_wait().transpose()
        {
            self.note_exit(status);
        }
        if self.exit.is_none() {
            self.action = if signal == Signal::SIGKILL { RunnerAction::Sigkill } else { RunnerAction::Sigterm };
        }
        self.family.signal_group(signal);
        if signal == Signal::SIGKILL
            && let Some(cgroup) = &self.family.cgroup
        {
            cgroup.kill();
        }
        let live = self.family.live();
        for member in live.iter().filter(|member| member.group != self.pid()) {
            member.signal(signal);
        }
        live.len()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.signal(Signal::SIGKILL);
            own().remove(&self.pid());
        }
    }
}

async fn reap(mut family: Family) {
    loop {
        sleep(REAP_INTERVAL).await;
        family.live();
    }
}

/// Starts a process from a thread that lives as long as the returned sender.
///
/// The kernel sends the parent-death signal when the *thread* that started the process ends, and a runtime's threads
/// may end at any time.
async fn start_from_own_thread(mut command: Command) -> io::Result<(Child, mpsc::Sender<()>)> {
    let (started, child) = oneshot::channel();
    let (keep, kept) = mpsc::channel::<()>();
    let runtime = Handle::current();
    thread::Builder::new().name("teamwire-starter".to_owned()).spawn(move || {
        let _guard = runtime.enter();
        let spawned = command.spawn();
        // It holds file descriptors.
        drop(command);
        if started.send(spawned).is_ok() {
            // Returns when the sender is dropped. Nothing is ever sent.
            let _ = kept.recv();
        }
    })?;
    let child = child.await.map_err(|_| io::Error::other("the starting thread has ended"))??;
    Ok((child, keep))
}

#[cfg(test)]
mod tests {
    use std::{future::ready, process::Stdio};

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};

    use super::*;

    async fn shell(script: &str) -> (Process, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped());
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let mut process = Process::start(command, Arc::default()).await.expect("sh");
        let lines = BufReader::new(process.take_stdout().expect("a pipe")).lines();
        (process, lines)
    }

    async fn pid(lines: &mut Lines<BufReader<ChildStdout>>) -> i32 {
        lines.next_line().await.expect("readable").expect("a line").trim().parse().expect("a pid")
    }

    fn lives(pid: i32) -> bool {
        ProcessEntry::of(pid).is_some_and(|entry| !entry.is_zombie)
    }

    fn no_hurry() -> CancellationToken {
        CancellationToken::new()
    }

    #[tokio::test]
    async fn a_process_that_exits_on_sigterm_is_not_killed() {
        let (mut process, mut lines) = shell("trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let exit = process.end(ready(()), Duration::from_secs(10), &no_hurry()).await;
        assert_eq!((exit.code, exit.signal, exit.action), (Some(7), 0, RunnerAction::Sigterm));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_process_that_wraps_up_in_time_gets_no_signal_even_if_descendants_remain() {
        let script = "trap 'exit 7' TERM; setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & cat; exit 3";
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command, Arc::default()).await.expect("sh");
        let mut lines = BufReader::new(process.take_stdout().expect("a pipe")).lines();
        let straggler = pid(&mut lines).await;
        drop(process.take_stdin());
        let exit = process.end(sleep(Duration::from_secs(60)), Duration::from_millis(100), &no_hurry()).await;
        assert_eq!((exit.code, exit.action), (Some(3), RunnerAction::None));
        assert!(!lives(straggler));
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_after_the_grace() {
        let (mut process, mut lines) = shell("trap '' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let exit = process.end(ready(()), Duration::from_millis(100), &no_hurry()).await;
        assert_eq!((exit.code, exit.signal, exit.action), (None, 9, RunnerAction::Sigkill));
    }

    #[tokio::test]
    async fn hurrying_cuts_the_grace_period_short() {
        let (mut process, mut lines) = shell("trap '' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let hurry = no_hurry();
        hurry.cancel();
        let exit = timeout(Duration::from_secs(10), process.end(ready(()), Duration::from_secs(60), &hurry))
            .await
            .expect("at once");
        assert_eq!(exit.signal, 9);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn descendants_that_ignore_sigterm_or_leave_the_group_are_killed_too() {
        let script = "
            sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' &
            setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' &
            setsid sh -c 'sh -c \"echo \\$\\$; exec sleep 1000\" & exec true' &
            wait";
        let (mut process, mut lines) = shell(script).await;
        let mut pids = Vec::new();
        for _ in 0..3 {
            pids.push(pid(&mut lines).await);
        }
        assert!(pids.iter().all(|pid| lives(*pid)), "{pids:?}");
        process.end(ready(()), Duration::from_millis(200), &no_hurry()).await;
        assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
        // None is left as a zombie either.
        assert!(pids.iter().all(|pid| ProcessEntry::of(*pid).is_none()), "{pids:?}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn descendants_of_an_exited_process_can_still_be_ended() {
        let (mut process, mut lines) = shell("setsid sh -c 'echo $$; exec sleep 1000' & exit 3").await;
        let straggler = pid(&mut lines).await;
        assert_eq!(process.wait().await.code, Some(3));
        assert!(lives(straggler));
        assert_eq!(process.end(ready(()), Duration::from_secs(10), &no_hurry()).await.code, Some(3));
        assert!(!lives(straggler));
    }

    #[tokio::test]
    async fn a_dropped_process_is_killed() {
        let (process, mut lines) = shell("echo $$; exec sleep 1000").await;
        let pid = pid(&mut lines).await;
        drop(process);
        assert!(
            timeout(Duration::from_secs(10), lines.next_line()).await.expect("its pipe closes").expect("eof").is_none()
        );
        while lives(pid) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn starting_an_unknown_command_fails() {
        let error = Process::start(Command::new("/no/such/program"), Arc::default()).await.expect_err("no program");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
