//! Load loops, and the clocks that measure them.

use std::{
    future::Future,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinSet,
    time::sleep_until,
};
use tokio_util::task::TaskTracker;

use crate::{Error, Result, process::prefer_this_thread};

/// The length of every message's content, in characters.
pub(crate) const CONTENT: usize = 500;

/// Longer latencies count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// The origin of stamps.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The start and the end of what is measured.
pub(crate) type Window = (Instant, Instant);

/// How long a run warms up and is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Not measured: connections open, caches and files grow.
    pub(crate) warm_up: Duration,
    /// Measured.
    pub(crate) length: Duration,
    /// The least time to measure at low rates: long enough for percentiles.
    pub(crate) length_at_low_rates: Duration,
}

impl Pace {
    /// Returns the pace for low rates.
    pub(crate) fn for_low_rates(self) -> Self {
        Self { length: self.length.max(self.length_at_low_rates), ..self }
    }

    /// Returns what to measure of a load that starts now.
    pub(crate) fn window(self) -> Window {
        let begin = Instant::now() + self.warm_up;
        (begin, begin + self.length)
    }
}

/// The calls within a window of time.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Its start and end.
    pub(crate) window: Window,
    /// Their latencies, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
}

impl Measurement {
    /// Creates the measurement of a window from the latencies in it.
    pub(crate) fn new(window: Window, latencies: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut histogram = Histogram::new_with_max(nanos(LATENCY_MAX), 3)?;
        for latency in latencies {
            histogram.saturating_record(nanos(latency));
        }
        Ok(Self { window, latencies: histogram })
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.latencies.len()
    }

    /// Returns the calls per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.calls() as f64 / (self.window.1 - self.window.0).as_secs_f64()
    }

    /// Returns a percentile of the latencies, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e6
    }
}

/// Runs a closed loop: each caller calls again as soon as its last call returns. Slow replies reduce the load, so this
/// measures throughput, not latency at a given load.
pub(crate) async fn closed_loop<C, F>(callers: usize, (begin, end): Window, call: C) -> Result<Measurement>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let mut calling = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        calling.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let called = Instant::now();
                if called >= end {
                    return Result::Ok(latencies);
                }
                call(caller).await?;
                let answered = Instant::now();
                if (begin..end).contains(&answered) {
                    latencies.push(answered - called);
                }
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = calling.join_next().await {
        latencies.extend(done??);
    }
    Measurement::new((begin, end), latencies)
}

/// The calls of an open loop.
#[derive(Debug)]
pub(crate) struct Paced {
    /// Their latencies, from the instant at which each was due.
    pub(crate) calls: Measurement,
    /// How late the generator made them. Part of their latencies.
    pub(crate) lateness: Measurement,
}

/// What the calls of an open loop have recorded.
#[derive(Debug, Default)]
struct Answers {
    /// The latency and the lateness of each call that was due in the window.
    times: Mutex<Vec<(Duration, Duration)>>,
    failure: Mutex<Option<Error>>,
}

/// Runs an open loop: calls at a fixed rate, whether or not earlier calls have returned. Latency counts from the
/// instant at which a call was due, so a stall shows in every call that it delayed (which corrects for coordinated
/// omission). `call` takes its number and that instant.
///
/// A thread makes the calls, because the runtime's timers have a resolution of only a millisecond. The kernel prefers
/// it if it may: with as many busy threads as processors, it would wait for milliseconds each time it wakes up.
pub(crate) async fn open_loop<C, F>(per_second: f64, window: Window, call: C) -> Result<Paced>
where
    C: Fn(usize, Instant) -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (begin, end) = window;
    let (handle, start) = (Handle::current(), Instant::now());
    // Frees each call when it returns, so that memory doesn't grow with the number of calls.
    let (calling, answers) = (TaskTracker::new(), Arc::new(Answers::default()));
    let (done, ended) = oneshot::channel();
    let (tracker, recorded) = (calling.clone(), answers.clone());
    thread::Builder::new().name("open-loop".to_owned()).spawn(move || {
        prefer_this_thread();
        for number in 0.. {
            let due = start + Duration::from_secs_f64(number as f64 / per_second);
            // An interrupted benchmark awaits no calls.
            if due >= end || done.is_closed() {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let (called, recorded) = (call(number, due), recorded.clone());
            let late = due.elapsed();
            tracker.spawn_on(
                async move {
                    match called.await {
                        Ok(()) if due >= begin => recorded.times.lock().push((due.elapsed(), late)),
                        Ok(()) => {}
                        Err(error) => *recorded.failure.lock() = Some(error),
                    }
                },
                &handle,
            );
        }
        // Its receiver may be gone, as above.
        let _ = done.send(());
    })?;
    ended.await?;
    calling.close();
    calling.wait().await;
    if let Some(failure) = answers.failure.lock().take() {
        return Err(failure);
    }
    let times = std::mem::take(&mut *answers.times.lock());
    Ok(Paced {
        calls: Measurement::new(window, times.iter().map(|(latency, _)| *latency))?,
        lateness: Measurement::new(window, times.iter().map(|(_, late)| *late))?,
    })
}

/// Samples something at both ends of a window.
pub(crate) async fn at_ends<T>((begin, end): Window, sample: impl Fn() -> Result<T>) -> Result<(T, T)> {
    sleep_until(begin.into()).await;
    let before = sample()?;
    sleep_until(end.into()).await;
    Ok((before, sample()?))
}

/// Returns a content that starts with the instant at which it was sent or due.
pub(crate) fn stamped(at: Instant) -> String {
    let nanos = at.saturating_duration_since(*EPOCH).as_nanos();
    format!("{nanos:020}{:x<1$}", "", CONTENT - 20)
}

/// The messages that all receivers got.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// The number of receivers that have connected. One that reconnects counts once.
    receivers: watch::Sender<u64>,
    losses: AtomicU64,
    count: watch::Sender<u64>,
    /// When each arrived, and its latency.
    all: Mutex<Vec<(Instant, Duration)>>,
}

impl Arrivals {
    /// Records a message by its content.
    pub(crate) fn record(&self, content: &str) -> Result<()> {
        let now = Instant::now();
        let nanos: u64 = content.get(..20).and_then(|nanos| nanos.parse().ok()).ok_or("a message has no stamp")?;
        let sent = *EPOCH + Duration::from_nanos(nanos);
        self.all.lock().push((now, now.saturating_duration_since(sent)));
        self.count.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Records that a receiver has connected.
    pub(crate) fn record_receiver(&self) {
        self.receivers.send_modify(|count| *count += 1);
    }

    /// Records that a receiver has lost its session. Its client reopens it, which costs time.
    pub(crate) fn record_loss(&self, detail: &str) {
        if self.losses.fetch_add(1, Relaxed) == 0 {
            eprintln!("a session was lost, perhaps more than one: {detail}");
        }
    }

    /// Returns the number of lost sessions.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Relaxed)
    }

    /// Waits for a number of receivers.
    pub(crate) async fn reach_receivers(&self, count: u64) -> Result<()> {
        self.receivers.subscribe().wait_for(|now| *now >= count).await?;
        Ok(())
    }

    /// Waits for a number of messages.
    pub(crate) async fn reach(&self, count: u64) -> Result<()> {
        self.count.subscribe().wait_for(|now| *now >= count).await?;
        Ok(())
    }

    /// Returns the measurement of the messages that arrived within a window.
    pub(crate) fn within(&self, window: (Instant, Instant)) -> Result<Measurement> {
        let all = self.all.lock();
        let arrived = all.iter().filter(|(at, _)| (window.0..window.1).contains(at));
        Measurement::new(window, arrived.map(|(_, latency)| *latency))
    }

    /// Clears the messages, and returns when the first and the last arrived.
    pub(crate) fn take_span(&self) -> Option<(Instant, Instant)> {
        let all = std::mem::take(&mut *self.all.lock());
        self.count.send_replace(0);
        let instants = || all.iter().map(|(at, _)| *at);
        Some((instants().min()?, instants().max()?))
    }
}

/// Sets the origin of stamps. Must run before the first stamp.
pub(crate) fn start_clock() {
    LazyLock::force(&EPOCH);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const PACE: Pace = Pace {
        warm_up: Duration::from_millis(20),
        length: Duration::from_millis(50),
        length_at_low_rates: Duration::from_millis(70),
    };

    #[tokio::test]
    async fn an_open_loop_makes_the_calls_that_are_due_and_counts_those_after_the_warm_up() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = made.clone();
        let paced = open_loop(1_000.0, PACE.window(), move |_, _| {
            counted.fetch_add(1, Relaxed);
            async { Ok(()) }
        });
        let paced = paced.await.expect("measured");
        // One call a millisecond, however late.
        assert!((50..=51).contains(&paced.calls.calls()), "{}", paced.calls.calls());
        assert!((69..=71).contains(&made.load(Relaxed)), "{made:?}");
        assert_eq!(paced.lateness.calls(), paced.calls.calls());
    }

    #[tokio::test]
    async fn the_latency_of_an_open_loop_includes_how_late_the_call_was_made() {
        // The first calls are made late, because the generator does not get to them.
        let paced = open_loop(1_000.0, PACE.window(), move |number, due| {
            if number == 0 {
                while due.elapsed() < PACE.warm_up + PACE.length {}
            }
            async { Ok(()) }
        });
        let paced = paced.await.expect("measured");
        assert!((50..=51).contains(&paced.calls.calls()), "a late call is not left out");
        assert!(paced.lateness.percentile_ms(50.0) >= 20.0, "{:?}", paced.lateness.percentile_ms(50.0));
        assert!(paced.calls.percentile_ms(100.0) >= paced.lateness.percentile_ms(100.0));
    }

    #[tokio::test]
    async fn a_failed_call_fails_the_open_loop() {
        let paced = open_loop(1_000.0, PACE.window(), |number, _| async move {
            if number == 30 { Err("refused".into()) } else { Ok(()) }
        });
        assert_eq!(paced.await.expect_err("a call failed").to_string(), "refused");
    }

    #[tokio::test]
    async fn a_closed_loop_leaves_out_the_warm_up() {
        let made = Arc::new(AtomicU64::new(0));
        let counted = made.clone();
        let window = PACE.window();
        let calls = closed_loop(2, window, move |_| {
            let counted = counted.clone();
            async move {
                counted.fetch_add(u64::from(Instant::now() >= window.0), Relaxed);
                tokio::task::yield_now().await;
                Ok(())
            }
        });
        let calls = calls.await.expect("measured");
        // At each end of the window, a call of each caller may be begun on one side and answered on the other.
        assert!(made.load(Relaxed).abs_diff(calls.calls()) <= 4, "{made:?} calls, {} counted", calls.calls());
        assert_eq!(PACE.for_low_rates().length, Duration::from_millis(70));
    }
}
