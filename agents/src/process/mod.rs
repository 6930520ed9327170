//! A process that is owned: it never outlives its owner, and nothing that it has started outlives it.

mod descendants;
mod parent_death;

use std::{collections::HashMap, io, sync::mpsc, thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use uuid::Uuid;

use self::{
    descendants::{Entry, Family, MARK_VARIABLE, own},
    parent_death::die_with_parent,
};
use crate::runner::exit::Exit;

/// How often it is looked whether descendants have ended. The kernel tells of children only.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often ended descendants that were left to this process are waited for.
const REAP_INTERVAL: Duration = Duration::from_secs(10);

/// How long processes are killed again and again. What lives on then is stuck in the kernel.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// A process in a group of its own. Dropped while it runs, it is killed with all that it has started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    family: Family,
    began: Instant,
    exit: Option<Exit>,
    /// Ends the thread that has started the process.
    _starter: mpsc::Sender<()>,
    /// Takes what the process abandons out of the process table while it runs.
    _reaper: AbortOnDropHandle<()>,
}

impl Process {
    /// Starts a process.
    pub(crate) async fn start(mut command: Command, claims_orphans: bool) -> io::Result<Self> {
        let mark = Uuid::new_v4().simple().to_string();
        command.env(MARK_VARIABLE, &mark).process_group(0);
        die_with_parent(&mut command);
        let (child, starter) = start_from_a_lasting_thread(command).await?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| io::Error::other("no pid"))?;
        own().insert(pid);
        let started = Entry::of(pid).map(|entry| entry.started).unwrap_or_default();
        let family = Family { root: pid, started, mark, claims_orphans, seen: HashMap::new() };
        let reaper = AbortOnDropHandle::new(tokio::spawn(reap(family.clone())));
        Ok(Self { child, family, began: Instant::now(), exit: None, _starter: starter, _reaper: reaper })
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

    /// Waits until the process itself has ended. May be cancelled, and repeated.
    pub(crate) async fn wait(&mut self) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        let exit = match self.child.wait().await {
            Ok(status) => Exit::of(status, self.began.elapsed()),
            // Somebody else has waited for our child; it is gone, and how is lost.
            Err(error) => Exit { detail: format!("How it ended is not known: {error}."), ..Exit::default() },
        };
        own().remove(&self.pid());
        self.exit.insert(exit).clone()
    }

    /// Ends the process and all that it has started: SIGTERM, SIGKILL when the grace is over or there is a hurry.
    pub(crate) async fn end(&mut self, grace: Duration, hurry: &CancellationToken) -> Exit {
        self.signal(Signal::SIGTERM);
        tokio::select! {
            _ = timeout(grace, self.gone()) => {}
            () = hurry.cancelled() => {}
        }
        self.kill().await
    }

    /// Kills the process and all that it has started.
    pub(crate) async fn kill(&mut self) -> Exit {
        let began = Instant::now();
        loop {
            // Again each time: what was forked meanwhile has to be found, too.
            let live = self.signal(Signal::SIGKILL);
            let is_child_gone = timeout(LOOK_INTERVAL, self.wait()).await.is_ok();
            if live == 0 && is_child_gone {
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
        self.exit.clone().unwrap_or_default()
    }

    async fn gone(&mut self) {
        self.wait().await;
        while !self.family.live().is_empty() {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Sends a signal to all that live, and returns how many they are.
    fn signal(&mut self, signal: Signal) -> usize {
        let is_waited_for = self.exit.is_some();
        if !is_waited_for {
            // At once to the whole group, so that none of it can fork in between. The group's number is safe to use
            // as long as its leader was not waited for.
            let _ = killpg(Pid::from_raw(self.pid()), signal);
        }
        let live = self.family.live();
        for member in live.iter().filter(|member| is_waited_for || member.group != self.pid()) {
            let _ = kill(Pid::from_raw(member.pid), signal);
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

/// Starts a process from a thread that lives as long as what is returned with it.
///
/// The kernel sends the parent-death signal when the *thread* that has started the process ends, and a runtime's threads
/// may come and go.
async fn start_from_a_lasting_thread(mut command: Command) -> io::Result<(Child, mpsc::Sender<()>)> {
    let (started, child) = oneshot::channel();
    let (keep, kept) = mpsc::channel::<()>();
    let runtime = Handle::current();
    thread::Builder::new().name("teamwire-starter".to_owned()).spawn(move || {
        let _guard = runtime.enter();
        if started.send(command.spawn()).is_ok() {
            // Returns when the sender is dropped; nothing is ever sent.
            let _ = kept.recv();
        }
    })?;
    let child = child.await.map_err(|_| io::Error::other("the starting thread has ended"))??;
    Ok((child, keep))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};

    use super::*;

    async fn shell(script: &str) -> (Process, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped());
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let mut process = Process::start(command, false).await.expect("sh");
        let lines = BufReader::new(process.take_stdout().expect("a pipe")).lines();
        (process, lines)
    }

    async fn pid(lines: &mut Lines<BufReader<ChildStdout>>) -> i32 {
        lines.next_line().await.expect("readable").expect("a line").trim().parse().expect("a pid")
    }

    fn lives(pid: i32) -> bool {
        Entry::of(pid).is_some_and(|entry| !entry.is_zombie)
    }

    fn no_hurry() -> CancellationToken {
        CancellationToken::new()
    }

    #[tokio::test]
    async fn a_process_that_ends_on_sigterm_is_not_killed() {
        let (mut process, mut lines) = shell("trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let exit = process.end(Duration::from_secs(10), &no_hurry()).await;
        assert_eq!((exit.code, exit.signal), (Some(7), 0));
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_after_the_grace() {
        let (mut process, mut lines) = shell("trap '' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let exit = process.end(Duration::from_millis(100), &no_hurry()).await;
        assert_eq!((exit.code, exit.signal), (None, 9));
    }

    #[tokio::test]
    async fn a_hurry_cuts_the_grace_short() {
        let (mut process, mut lines) = shell("trap '' TERM; echo $$; while :; do sleep 0.01; done").await;
        pid(&mut lines).await;
        let hurry = no_hurry();
        hurry.cancel();
        let exit =
            timeout(Duration::from_secs(10), process.end(Duration::from_secs(60), &hurry)).await.expect("at once");
        assert_eq!(exit.signal, 9);
    }

    #[tokio::test]
    async fn grandchildren_that_ignore_sigterm_and_left_the_group_are_ended_too() {
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
        process.end(Duration::from_millis(200), &no_hurry()).await;
        assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
        // None is left as a zombie either.
        assert!(pids.iter().all(|pid| Entry::of(*pid).is_none()), "{pids:?}");
    }

    #[tokio::test]
    async fn what_outlives_a_process_that_ended_by_itself_can_still_be_ended() {
        let (mut process, mut lines) = shell("setsid sh -c 'echo $$; exec sleep 1000' & exit 3").await;
        let straggler = pid(&mut lines).await;
        assert_eq!(process.wait().await.code, Some(3));
        assert!(lives(straggler));
        assert_eq!(process.end(Duration::from_secs(10), &no_hurry()).await.code, Some(3));
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
    async fn a_command_that_does_not_exist_is_an_error() {
        let error = Process::start(Command::new("/no/such/program"), false).await.expect_err("no program");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
