//! Waits before each measurement until other programs leave the machine alone.
//!
//! Averages of the last minute would contain what the benchmark itself did. So this looks at a moment in which the
//! benchmark does nothing: how much of the processors others use, and how long they wait for the disk.

use std::{thread::available_parallelism, time::Duration};

use parking_lot::Mutex;
use procfs::{Current as _, CurrentSI as _, IoPressure, KernelStats};
use tokio::time::{Instant, sleep};

use crate::{Result, process::own_cpu, results::number};

/// How long a look at the machine takes.
const LOOK: Duration = Duration::from_millis(300);

/// What others may use: of all processors, and of the time for waiting for the disk.
const PROCESSORS_MAX: f64 = 0.05;
const DISK_MAX: f64 = 0.1;

/// Waits for a quiet machine.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// How long to wait.
    pub(crate) patience: Duration,
    /// Whether to fail if the machine doesn't become quiet. Otherwise the measurement takes place anyway.
    pub(crate) is_required: bool,
    /// The greatest load that a measurement started with.
    worst: Mutex<Option<Load>>,
}

/// What other programs use.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Load {
    /// The fraction of all processors, including what other virtual machines take of them.
    processors: f64,
    /// The fraction of the time in which some program waits for a disk.
    disk: f64,
}

/// What to do after a look.
#[derive(Debug, PartialEq)]
enum Next {
    Measure,
    Wait,
    Refuse,
}

impl Quiet {
    /// Creates one.
    pub(crate) fn new(patience: Duration, is_required: bool) -> Self {
        Self { patience, is_required, worst: Mutex::new(None) }
    }

    /// Waits until others are quiet. Fails if they never are and that is required.
    pub(crate) async fn wait(&self) -> Result<()> {
        if self.patience.is_zero() && !self.is_required {
            return Ok(());
        }
        let (began, mut was_noted) = (Instant::now(), false);
        loop {
            let load = Load::look().await?;
            match self.next(load, began.elapsed()) {
                Next::Measure => {
                    if !load.is_small() {
                        eprintln!("measuring although {load}");
                    }
                    self.note(load);
                    return Ok(());
                }
                Next::Refuse => {
                    return Err(format!(
                        "{load}, and did so for {} s. Figures from such a machine mean little, so none are published: end \
                         those programs and repeat, wait longer with --patience, or publish anyway with --allow-load",
                        self.patience.as_secs()
                    )
                    .into());
                }
                Next::Wait if !was_noted => {
                    eprintln!("waiting up to {} s, because {load}", self.patience.as_secs());
                    was_noted = true;
                }
                Next::Wait => {}
            }
        }
    }

    /// Describes the greatest load that a measurement started with, and forgets it.
    pub(crate) fn take_worst(&self) -> String {
        match self.worst.lock().take() {
            Some(Load { processors, disk }) => format!(
                "just before each run, other programs used at most {}% of the processors, and waited for the disk for at most \
                 {}% of the time",
                number(processors * 100.0),
                number(disk * 100.0)
            ),
            None => "no look at other programs".to_owned(),
        }
    }

    fn next(&self, load: Load, waited: Duration) -> Next {
        match (load.is_small(), waited >= self.patience, self.is_required) {
            (true, ..) | (_, true, false) => Next::Measure,
            (_, true, true) => Next::Refuse,
            (_, false, _) => Next::Wait,
        }
    }

    fn note(&self, load: Load) {
        let mut worst = self.worst.lock();
        let before = worst.unwrap_or(load);
        *worst = Some(Load { processors: before.processors.max(load.processors), disk: before.disk.max(load.disk) });
    }
}

/// What the kernel has counted up to an instant.
#[derive(Clone, Copy, Debug)]
struct KernelTimes {
    at: Duration,
    /// The time that all processors were busy, and what of it this process used.
    busy: Duration,
    own: Duration,
    /// The time in which some program waited for a disk.
    disk: Duration,
}

impl KernelTimes {
    fn now(since: Instant) -> Result<Self> {
        let all = KernelStats::current()?.total;
        let ticks = all.user + all.nice + all.system;
        let ticks = ticks + all.irq.unwrap_or(0) + all.softirq.unwrap_or(0) + all.steal.unwrap_or(0);
        // Kernels without pressure information show no waiting.
        let disk = IoPressure::current().map_or(0, |pressure| pressure.some.total);
        Ok(Self {
            at: since.elapsed(),
            busy: Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64),
            own: own_cpu()?,
            disk: Duration::from_micros(disk),
        })
    }
}

impl Load {
    async fn look() -> Result<Self> {
        let since = Instant::now();
        let before = KernelTimes::now(since)?;
        sleep(LOOK).await;
        Ok(Self::between(before, KernelTimes::now(since)?, available_parallelism()?.get()))
    }

    fn between(before: KernelTimes, after: KernelTimes, processors: usize) -> Self {
        let took = (after.at - before.at).as_secs_f64();
        let busy = (after.busy - before.busy).saturating_sub(after.own - before.own).as_secs_f64();
        Self { processors: busy / took / processors as f64, disk: (after.disk - before.disk).as_secs_f64() / took }
    }

    fn is_small(self) -> bool {
        self.processors <= PROCESSORS_MAX && self.disk <= DISK_MAX
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |fraction: f64| number(fraction * 100.0);
        write!(
            f,
            "other programs used {}% of the processors, and waited for the disk for {}% of the time",
            percent(self.processors),
            percent(self.disk)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Load = Load { processors: 0.01, disk: 0.0 };
    const BUSY: Load = Load { processors: 0.4, disk: 0.0 };
    const FLUSHING: Load = Load { processors: 0.0, disk: 0.5 };

    fn counted(at: u64, busy: u64, own: u64, disk: u64) -> KernelTimes {
        let [at, busy, own, disk] = [at, busy, own, disk].map(Duration::from_millis);
        KernelTimes { at, busy, own, disk }
    }

    #[test]
    fn the_load_is_the_share_of_all_processors_that_others_use() {
        let load = Load::between(counted(0, 5_000, 700, 90), counted(300, 5_250, 800, 120), 2);
        // 250 ms of 600 ms were busy, 100 ms of them with this process.
        assert!((load.processors - 0.25).abs() < 1e-9, "{load:?}");
        assert!((load.disk - 0.1).abs() < 1e-9, "{load:?}");
        let idle = Load::between(counted(0, 0, 0, 0), counted(300, 100, 110, 0), 2);
        assert!(idle.is_small(), "the clocks of the process and the machine differ: {idle:?}");
    }

    #[test]
    fn a_busy_machine_is_waited_for_and_then_refused_if_figures_are_published() {
        let (early, late) = (Duration::from_secs(1), Duration::from_secs(60));
        let publishing = Quiet::new(late, true);
        for load in [BUSY, FLUSHING] {
            assert_eq!(publishing.next(load, early), Next::Wait);
            assert_eq!(publishing.next(load, late), Next::Refuse);
        }
        assert_eq!(publishing.next(QUIET, late), Next::Measure);
        assert_eq!(Quiet::new(late, false).next(BUSY, late), Next::Measure);
    }

    #[test]
    fn the_greatest_load_is_reported_once() {
        let quiet = Quiet::new(Duration::from_secs(60), false);
        for load in [QUIET, BUSY, FLUSHING, QUIET] {
            quiet.note(load);
        }
        let worst = quiet.take_worst();
        assert!(
            worst.contains("at most 40.0% of the processors") && worst.contains("at most 50.0% of the time"),
            "{worst}"
        );
        assert_eq!(quiet.take_worst(), "no look at other programs");
    }
}
