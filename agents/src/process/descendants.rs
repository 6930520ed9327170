//! Finds the descendants of a process, including those that have left its process group, in the process table.
//!
//! On Linux, a runner is a child subreaper: a process whose parent ends becomes the runner's child, not init's, and so
//! stays in reach. On systems without a process table nothing is found, and only the process group is ended.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io,
    sync::LazyLock,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, killpg},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::process::{Child, Command};

use super::{
    cgroup::Cgroup,
    process_table::{Children, ProcessEntry, all, has_variable},
};

/// How often to look whether a process has ended that is not this one's child.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The environment variable that marks the descendants of a process.
pub(crate) const MARK_VARIABLE: &str = teamwire_client::RUN_VARIABLE;

/// The programs, watchdogs and helpers that the runners of this process have started. Each runner waits for its own, so a
/// reaper must not, and they belong to no program. Global, because a reaper sees every child of the process.
static OWN: LazyLock<Mutex<HashSet<i32>>> = LazyLock::new(Mutex::default);

pub(crate) fn own() -> MutexGuard<'static, HashSet<i32>> {
    OWN.lock()
}

/// Keeps a process from being taken for a descendant of a program.
#[derive(Debug)]
pub(crate) struct Helper {
    pid: i32,
}

impl Helper {
    /// Starts a process for the runner itself. What it returns must be kept until the process was waited for.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        // Locked, so that anyone who sees the process also sees that it is the runner's.
        let mut own = own();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| io::Error::other("no pid"))?;
        own.insert(pid);
        Ok((child, Self { pid }))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        own().remove(&self.pid);
    }
}

/// Returns whether a process is another one's descendant, as the process table says.
pub(crate) fn descends_from(pid: i32, ancestor: i32) -> bool {
    let mut next = ProcessEntry::of(pid);
    while let Some(entry) = next {
        if entry.parent == ancestor {
            return true;
        }
        next = ProcessEntry::of(entry.parent).filter(|_| entry.parent > 1);
    }
    false
}

/// Ends the processes with a variable in their environment: with SIGTERM, and with SIGKILL what is left after `grace`.
/// Returns once they are gone, or at the latest when they have been killed for another `grace`.
pub(crate) async fn end_marked(name: &str, value: &str, grace: Duration) {
    let marked = || -> Vec<ProcessEntry> {
        all().into_iter().filter(|entry| !entry.is_zombie && has_variable(entry.pid, name, value)).collect()
    };
    let kill_at = Instant::now() + grace;
    let mut told: HashSet<i32> = HashSet::new();
    loop {
        let live = marked();
        if live.is_empty() || Instant::now() >= kill_at + grace {
            return;
        }
        for entry in live {
            if Instant::now() >= kill_at {
                entry.signal(Signal::SIGKILL);
            } else if told.insert(entry.pid) {
                entry.signal(Signal::SIGTERM);
            }
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// A process and its descendants.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The process id of the root, which is also its process group.
    pub(crate) root: i32,
    /// When the root was started, as the process table says. Zero if there is no such table.
    pub(crate) started: u64,
    /// The value of [`MARK_VARIABLE`] in the root and its descendants.
    pub(crate) mark: String,
    /// See [`RunnerConfig::claims_orphans`](crate::RunnerConfig::claims_orphans).
    pub(crate) claims_orphans: bool,
    /// The members found so far, with their start times. They remain members whatever they do.
    pub(crate) seen: HashMap<i32, u64>,
    /// The cgroup in which they live. `None` if they share one with other processes.
    pub(super) cgroup: Option<Cgroup>,
}

impl Family {
    /// Creates the family of a program that is about to start.
    pub(super) fn new(mark: String, cgroup: Option<Cgroup>) -> Self {
        Self { root: 0, started: 0, mark, claims_orphans: false, seen: HashMap::new(), cgroup }
    }

    /// Returns all members that live. Reaps those that have ended and were reparented to this process.
    pub(crate) fn live(&mut self) -> Vec<ProcessEntry> {
        let members = self.members();
        self.seen.extend(members.iter().map(|member| (member.pid, member.started)));
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        self.seen.retain(|pid, started| match ProcessEntry::of(*pid) {
            Some(entry) if entry.started == *started && !entry.is_zombie => true,
            Some(entry) if entry.started == *started => {
                // The runner of a program waits for it.
                let is_ours = entry.parent == this && !own().contains(pid);
                if is_ours {
                    let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
                }
                !is_ours
            }
            _ => false,
        });
        members.into_iter().filter(|member| !member.is_zombie).collect()
    }

    /// Records the descendants that live now, so that they stay members when their parents end, whatever they do to
    /// hide. Also notes the descendants of the process that adopts orphans, if one is given.
    ///
    /// Reads only about these processes, however many others there are.
    pub(super) fn note_descendants(&mut self, adopter: Option<i32>) {
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        let children = Children::read();
        let known = self.seen.drain().chain([(self.root, self.started)]);
        let is_same = |(pid, started)| ProcessEntry::of(pid).filter(|entry| entry.started == started);
        let mut found: Vec<ProcessEntry> = known.filter_map(is_same).collect();
        found.extend(adopter.into_iter().flat_map(|pid| children.of(pid)));
        while let Some(entry) = found.pop() {
            let is_member = !entry.is_zombie && entry.pid != this;
            if is_member && self.seen.insert(entry.pid, entry.started).is_none() {
                found.extend(children.of(entry.pid));
            }
        }
    }

    /// Sends a signal to the root's process group, all of it at once: a process cannot outrun it by forking and ending,
    /// as it can outrun a look at the process table.
    pub(super) fn signal_group(&self, signal: Signal) {
        // A group keeps its id while a process is in it, also after its leader is reaped.
        let is_reused = ProcessEntry::of(self.root).is_some_and(|entry| entry.started != self.started);
        if self.root > 0 && !is_reused {
            let _ = killpg(Pid::from_raw(self.root), signal);
        }
    }

    /// Kills all members that live, once. First stops them all, so that none forks or loses its parent, and with it its
    /// place in the family, before it is found; until `deadline`. Returns how many there were.
    pub(super) fn kill(&mut self, deadline: Instant) -> usize {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        self.signal_group(Signal::SIGSTOP);
        let mut stopped = HashSet::new();
        let mut live = self.live();
        while Instant::now() < deadline {
            let running: Vec<ProcessEntry> =
                live.iter().filter(|entry| stopped.insert((entry.pid, entry.started))).copied().collect();
            if running.is_empty() {
                break;
            }
            running.iter().for_each(|entry| entry.signal(Signal::SIGSTOP));
            live = self.live();
        }
        // Children first: a stopped process may be continued when its parent ends.
        live.sort_by_key(|entry| Reverse(entry.started));
        live.iter().for_each(|entry| entry.signal(Signal::SIGKILL));
        self.signal_group(Signal::SIGKILL);
        live.len()
    }

    fn members(&self) -> Vec<ProcessEntry> {
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        // Before and after the entries: what has ended or was started meanwhile is known to be the runner's.
        let mut before = own().clone();
        let entries = all();
        before.extend(own().iter());
        let own = before;
        let enclosed: HashSet<i32> = self.cgroup.iter().flat_map(Cgroup::pids).collect();
        let is_marked = |entry: &ProcessEntry| {
            enclosed.contains(&entry.pid)
                || (entry.started >= self.started && has_variable(entry.pid, MARK_VARIABLE, &self.mark))
        };
        self.select(entries, this, &own, is_marked)
    }

    fn select(
        &self,
        entries: Vec<ProcessEntry>,
        this: i32,
        own: &HashSet<i32>,
        is_marked: impl Fn(&ProcessEntry) -> bool,
    ) -> Vec<ProcessEntry> {
        let is_founder = |entry: &ProcessEntry| {
            (entry.pid == self.root && entry.started == self.started)
                || (entry.group == self.root && self.root > 0 && entry.started >= self.started)
                || self.seen.get(&entry.pid) == Some(&entry.started)
                || (self.claims_orphans && entry.parent == this && !own.contains(&entry.pid))
                || is_marked(entry)
        };
        let (mut members, mut others): (Vec<_>, Vec<_>) =
            entries.into_iter().filter(|entry| entry.pid != this).partition(is_founder);
        let mut reached = 0;
        while reached < members.len() {
            let parents: HashSet<i32> = members[reached..].iter().map(|entry| entry.pid).collect();
            reached = members.len();
            others.retain(|entry| {
                let is_child = parents.contains(&entry.parent);
                if is_child {
                    members.push(*entry);
                }
                !is_child
            });
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_descends_from_this_process_and_not_the_other_way_round() {
        let own = std::process::id().cast_signed();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let pid = child.id().cast_signed();
        assert!(descends_from(pid, own) && !descends_from(own, pid) && !descends_from(own, own));
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    #[tokio::test]
    async fn marked_processes_are_ended_and_others_are_not() {
        let start = |mark: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env("TEAMWIRE_TEST_MARK", mark).spawn().expect("started")
        };
        let (mut one, mut other) = (start("one"), start("other"));
        // A zombie counts as gone.
        end_marked("TEAMWIRE_TEST_MARK", "one", Duration::from_secs(60)).await;
        assert!(one.wait().expect("ended").code().is_none(), "a signal ended it");
        assert!(other.try_wait().expect("a status").is_none());
        other.kill().expect("killed");
        other.wait().expect("ended");
    }

    #[tokio::test]
    async fn a_helper_of_the_runner_belongs_to_no_program_and_is_not_reaped_in_its_place() {
        let mut family = Family { claims_orphans: true, ..Family::new("none".into(), None) };
        let (mut helper, kept) = Helper::spawn(Command::new("sleep").arg("60")).expect("started");
        let pid = helper.id().expect("runs").cast_signed();
        assert!(!family.live().iter().any(|member| member.pid == pid));
        helper.start_kill().expect("killed");
        while !ProcessEntry::of(pid).expect("not reaped").is_zombie {
            tokio::task::yield_now().await;
        }
        family.live();
        helper.wait().await.expect("its status is there");
        drop(kept);
        assert!(!own().contains(&pid));
    }

    fn entry(pid: i32, parent: i32, group: i32) -> ProcessEntry {
        ProcessEntry { pid, parent, group, started: 100, is_zombie: false }
    }

    fn family(claims_orphans: bool) -> Family {
        Family { root: 10, started: 100, claims_orphans, ..Family::new("m".into(), None) }
    }

    fn pids(mut members: Vec<ProcessEntry>) -> Vec<i32> {
        members.sort_by_key(|entry| entry.pid);
        members.iter().map(|entry| entry.pid).collect()
    }

    #[test]
    fn a_family_is_the_group_the_tree_and_the_marked_processes() {
        let entries = vec![
            entry(1, 0, 1),
            entry(5, 1, 5),
            entry(10, 5, 10),
            entry(11, 10, 10),
            entry(12, 11, 12), // left the group
            entry(13, 12, 13),
            entry(14, 5, 14), // reparented, and marked
            entry(15, 14, 15),
            entry(20, 5, 20), // another child of the runner
            entry(21, 5, 21), // reparented, and not marked
        ];
        let own = HashSet::from([10, 20]);
        let is_marked = |entry: &ProcessEntry| entry.pid == 14;
        let members = family(false).select(entries.clone(), 5, &own, is_marked);
        assert_eq!(pids(members), [10, 11, 12, 13, 14, 15]);
        let members = family(true).select(entries, 5, &own, is_marked);
        assert_eq!(pids(members), [10, 11, 12, 13, 14, 15, 21]);
    }

    #[test]
    fn a_process_that_reuses_the_id_is_not_a_member() {
        let again = ProcessEntry { started: 200, ..entry(10, 1, 7) };
        assert!(family(false).select(vec![again], 5, &HashSet::new(), |_| false).is_empty());
    }

    #[test]
    fn a_process_stays_in_the_family_once_seen_but_one_that_reuses_its_id_does_not() {
        let mut family = family(false);
        family.seen.insert(30, 100);
        assert_eq!(pids(family.select(vec![entry(30, 1, 30)], 5, &HashSet::new(), |_| false)), [30]);
        let again = ProcessEntry { started: 200, ..entry(30, 1, 30) };
        assert!(family.select(vec![again], 5, &HashSet::new(), |_| false).is_empty());
    }
}
