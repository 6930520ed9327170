//! The watchdog's process.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead as _},
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{Pid, setsid},
};

use crate::process::{cgroup::Cgroup, descendants::Family, process_table::Entry};

/// How often the watchdog notes orphans. Only one that cleared its environment, left its group and lost its parent within
/// this time before the runner was killed is not recognized.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often the watchdog repeats its kills.
const KILL_INTERVAL: Duration = Duration::from_millis(10);

/// How long the watchdog kills at most. What survives this is stuck in the kernel.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// Watches over the runner that has started this process for [`RunnerConfig::watchdog`](crate::RunnerConfig::watchdog).
/// Returns when the runner has ended and nothing of its programs is left.
///
/// Call it before anything else, since it blocks all signals: only SIGKILL ends a watchdog early.
pub fn watch() {
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"tw-watchdog");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut watched = Watched::default();
    loop {
        match lines.recv_timeout(LOOK_INTERVAL) {
            Ok(line) => watched.apply(&line),
            Err(RecvTimeoutError::Timeout) => watched.note_orphans(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The kernel closes a dying process's files before its children get another parent.
    watched.note_orphans();
    watched.end();
}

/// What the watchdog knows.
#[derive(Debug, Default)]
struct Watched {
    /// The process whose orphans are noted: its id, and when it was started.
    runner: Option<(i32, u64)>,
    /// By mark.
    families: HashMap<String, Family>,
}

impl Watched {
    /// Takes a line of the runner. The pipe carries whole lines, and only the runner holds its other end.
    fn apply(&mut self, line: &str) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let number = |text: &str| -> Option<(i32, u64)> {
            let (pid, started) = text.split_once(' ')?;
            Some((pid.parse().ok()?, started.parse().ok()?))
        };
        match words[..] {
            ["runner", pid, started] => self.runner = number(&format!("{pid} {started}")),
            ["watch", mark, cgroup] => {
                let cgroup = (!cgroup.is_empty()).then(|| Cgroup::at(PathBuf::from(cgroup)));
                self.families.insert(mark.to_owned(), Family::new(mark.to_owned(), cgroup));
            }
            ["root", mark, root] => {
                if let (Some(family), Some((pid, started))) = (self.families.get_mut(mark), number(root)) {
                    (family.root, family.started) = (pid, started);
                }
            }
            ["release", mark] => drop(self.families.remove(mark)),
            _ => {}
        }
    }

    /// Notes the runner's children, so that they are recognized when they have another parent.
    fn note_orphans(&mut self) {
        let Some((runner, started)) = self.runner else { return };
        if self.families.is_empty() || Entry::of(runner).is_none_or(|entry| entry.started != started) {
            return;
        }
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        let children = children(runner).into_iter().filter(|pid| *pid != this).filter_map(Entry::of);
        let orphans: Vec<Entry> = children.filter(|child| child.parent == runner).collect();
        for family in self.families.values_mut() {
            family.seen.extend(orphans.iter().map(|orphan| (orphan.pid, orphan.started)));
        }
    }

    /// Kills everything that is watched, until nothing of it is left.
    fn end(&mut self) {
        let began = Instant::now();
        loop {
            let mut left = 0;
            for family in self.families.values_mut() {
                if let Some(cgroup) = &family.cgroup {
                    cgroup.kill();
                }
                // Without /proc, its process group is all that is known of a program.
                #[cfg(not(target_os = "linux"))]
                if family.root > 0 {
                    let _ = nix::sys::signal::killpg(Pid::from_raw(family.root), Signal::SIGKILL);
                }
                let live = family.live();
                left += live.len();
                for member in live {
                    let _ = kill(Pid::from_raw(member.pid), Signal::SIGKILL);
                }
            }
            if left == 0 || began.elapsed() >= KILL_DEADLINE {
                break;
            }
            thread::sleep(KILL_INTERVAL);
        }
        for cgroup in self.families.values().filter_map(|family| family.cgroup.as_ref()) {
            cgroup.remove();
        }
    }
}

/// Returns the children of a process. Empty if the kernel does not list them.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<i32>>()).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    fn lives(pid: i32) -> bool {
        Entry::of(pid).is_some_and(|entry| !entry.is_zombie)
    }

    /// Starts a shell that plays the runner. Returns it, and the process ids that it prints.
    fn runner(script: &str, pids: usize) -> (std::process::Child, Vec<i32>) {
        let mut runner = Command::new("sh").arg("-c").arg(script).stdout(Stdio::piped()).spawn().expect("sh");
        let lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines().take(pids);
        let pids = lines.map(|line| line.expect("readable").trim().parse().expect("a pid")).collect();
        (runner, pids)
    }

    fn kill_runner(mut runner: std::process::Child) {
        runner.kill().expect("it runs");
        runner.wait().expect("it ends");
    }

    #[test]
    fn a_watched_program_is_killed_by_its_mark_and_a_released_one_is_not() {
        let script = "TEAMWIRE_RUN=wd-a sh -c 'echo $$; exec sleep 1000' & TEAMWIRE_RUN=wd-b sh -c 'echo $$; exec sleep 1000' & wait";
        let (runner, pids) = runner(script, 2);
        let marked = |mark: &str| {
            let of = |pid: &i32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mark = format!("TEAMWIRE_RUN={mark}");
            let is_marked = |pid: &&i32| of(pid).split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
            // While a process executes another program, its environment reads as empty.
            let began = std::time::Instant::now();
            loop {
                match pids.iter().find(is_marked) {
                    Some(pid) => break *pid,
                    None => assert!(began.elapsed().as_secs() < 30, "it runs"),
                }
            }
        };
        let (a, b) = (marked("wd-a"), marked("wd-b"));
        let mut watched = Watched::default();
        for line in ["watch wd-a ", "watch wd-b ", "release wd-b", "nonsense"] {
            watched.apply(line);
        }
        kill_runner(runner);
        watched.end();
        assert_eq!((lives(a), lives(b)), (false, true));
        kill(Pid::from_raw(b), Signal::SIGKILL).expect("it runs");
    }

    #[test]
    fn an_orphan_that_hides_is_recognized_once_the_runner_has_adopted_it() {
        let (runner, pids) = runner("env -i setsid sh -c 'echo $$; exec sleep 1000' & wait", 1);
        let id = i32::try_from(runner.id()).expect("a pid");
        let mut watched = Watched::default();
        watched.apply(&format!("runner {id} {}", Entry::of(id).expect("it runs").started));
        watched.apply("watch wd-c ");
        watched.note_orphans();
        kill_runner(runner);
        watched.end();
        assert!(!lives(pids[0]));
    }

    #[test]
    fn a_process_that_reuses_the_runners_id_has_no_orphans() {
        let (runner, pids) = runner("sleep 1000 & echo $!; wait", 1);
        let mut watched = Watched::default();
        watched.apply(&format!("runner {} 1", runner.id()));
        watched.apply("watch wd-d ");
        watched.note_orphans();
        watched.end();
        assert!(lives(pids[0]));
        kill_runner(runner);
        kill(Pid::from_raw(pids[0]), Signal::SIGKILL).expect("it runs");
    }
}
