//! The watchdog's process.

use std::{
    collections::HashMap,
    io::{self, BufRead as _},
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::{sys::signal::SigSet, unistd::setsid};

use crate::process::{cgroup::Cgroup, descendants::Family, process_table::ProcessEntry};

/// How often the watchdog notes the programs' descendants. A descendant escapes if it was born within this time before
/// the runner was killed, and it cleared its environment, left its process group, and lost its parent before the
/// watchdog looked again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often the watchdog repeats its kills.
const KILL_INTERVAL: Duration = Duration::from_millis(10);

/// How long the watchdog kills at most. What survives this is stuck in the kernel.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// Watches over the runner that has started this process for [`RunnerConfig::watchdog`](crate::RunnerConfig::watchdog).
/// Returns when the runner has ended and none of its programs' processes are left.
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
    let mut look_at = Instant::now();
    loop {
        match lines.recv_timeout(look_at.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if watched.apply(&line) {
                    look_at = Instant::now();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                watched.look();
                look_at = Instant::now() + LOOK_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The kernel closes a dying process's files before its children get another parent.
    watched.look();
    watched.end();
}

/// What the watchdog knows.
#[derive(Debug, Default)]
struct Watched {
    /// The process that adopts orphans: its id, and when it was started.
    runner: Option<(i32, u64)>,
    /// By mark.
    families: HashMap<String, Family>,
}

impl Watched {
    /// Takes a line of the runner. The pipe carries whole lines, and only the runner holds its other end. Returns
    /// whether the line names a program that may have descendants by now.
    fn apply(&mut self, line: &str) -> bool {
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
                    return true;
                }
            }
            ["release", mark] => drop(self.families.remove(mark)),
            _ => {}
        }
        false
    }

    /// Records the programs' descendants.
    fn look(&mut self) {
        let is_same =
            |(pid, started): &(i32, u64)| ProcessEntry::of(*pid).is_some_and(|entry| entry.started == *started);
        let runner = self.runner.filter(is_same).map(|(pid, _)| pid);
        for family in self.families.values_mut() {
            family.note_descendants(runner);
        }
    }

    /// Kills everything that is watched, until none of it is left.
    fn end(&mut self) {
        let deadline = Instant::now() + KILL_DEADLINE;
        while self.kill(deadline) > 0 && Instant::now() < deadline {
            thread::sleep(KILL_INTERVAL);
        }
        for cgroup in self.families.values().filter_map(|family| family.cgroup.as_ref()) {
            cgroup.remove();
        }
    }

    fn kill(&mut self, deadline: Instant) -> usize {
        self.families.values_mut().map(|family| family.kill(deadline)).sum()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        fs,
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use super::*;

    fn lives(pid: i32) -> bool {
        ProcessEntry::of(pid).is_some_and(|entry| !entry.is_zombie)
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
        watched.apply(&format!("runner {id} {}", ProcessEntry::of(id).expect("it runs").started));
        watched.apply("watch wd-c ");
        watched.look();
        kill_runner(runner);
        watched.end();
        assert!(!lives(pids[0]));
    }

    #[test]
    fn a_child_that_hides_is_recognized_once_it_was_seen_with_its_parent() {
        // It survives its parent, the program, and so has another parent when the runner ends.
        let script = "sh -c 'echo $$; env -i setsid sh -c \"echo \\$\\$; exec sleep 1000\" & wait' & wait";
        let (runner, pids) = runner(script, 2);
        let mut watched = Watched::default();
        watched.apply("watch wd-e ");
        assert!(watched.apply(&format!(
            "root wd-e {} {}",
            pids[0],
            ProcessEntry::of(pids[0]).expect("it runs").started
        )));
        watched.look();
        kill(Pid::from_raw(pids[0]), Signal::SIGKILL).expect("it runs");
        kill_runner(runner);
        watched.end();
        assert!(!lives(pids[1]));
    }

    #[test]
    fn a_program_that_keeps_forking_and_orphaning_itself_is_stopped_and_killed() {
        // Each process starts the next one and ends.
        let script = r#"export NEXT='sleep 0.001; sh -c "$NEXT" &'
            setsid sh -c 'echo $$; sh -c "$NEXT" & sh -c "$NEXT" & sh -c "$NEXT" & exec sleep 1000' & wait"#;
        let (runner, pids) = runner(script, 1);
        let mut watched = Watched::default();
        watched.apply("watch wd-f ");
        watched.apply(&format!("root wd-f {} {}", pids[0], ProcessEntry::of(pids[0]).expect("it runs").started));
        watched.look();
        kill_runner(runner);
        watched.end();
        assert!(watched.families["wd-f"].clone().live().is_empty());
    }

    #[test]
    fn a_process_that_has_the_id_of_a_member_that_ended_is_not_killed() {
        let (runner, pids) = runner("sleep 1000 & echo $!; wait", 1);
        let mut watched = Watched::default();
        watched.apply("watch wd-g ");
        let started = ProcessEntry::of(pids[0]).expect("it runs").started;
        watched.families.get_mut("wd-g").expect("it is watched").seen.insert(pids[0], started - 1);
        watched.look();
        watched.end();
        ProcessEntry { started: started - 1, ..ProcessEntry::of(pids[0]).expect("it runs") }.signal(Signal::SIGKILL);
        assert!(lives(pids[0]));
        kill_runner(runner);
        kill(Pid::from_raw(pids[0]), Signal::SIGKILL).expect("it runs");
    }

    #[test]
    fn a_process_that_reuses_the_runners_id_has_no_orphans() {
        let (runner, pids) = runner("sleep 1000 & echo $!; wait", 1);
        let mut watched = Watched::default();
        watched.apply(&format!("runner {} 1", runner.id()));
        watched.apply("watch wd-d ");
        watched.look();
        watched.end();
        assert!(lives(pids[0]));
        kill_runner(runner);
        kill(Pid::from_raw(pids[0]), Signal::SIGKILL).expect("it runs");
    }
}
