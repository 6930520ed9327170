//! Load loops, and the clocks that measure them.

use std::{
    future::Future,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinSet, spawn_blocking},
};

use crate::Result;

/// The length of every message's content, in characters.
pub(crate) const CONTENT: usize = 500;

/// Longer latencies count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// The least time to measure at low rates.
const FEW_MIN: Duration = Duration::from_secs(3);

/// The origin of stamps.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long a run warms up and is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Not measured: connections open, caches and files grow.
    pub(crate) warm_up: Duration,
    /// Measured.
    pub(crate) length: Duration,
}

impl Pace {
    /// Returns the pace for low rates: long enough for percentiles.
    pub(crate) fn for_low_rates(self) -> Self {
        Self { length: self.length.max(FEW_MIN), ..self }
    }
}

/// The calls within a window of time.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Its start and end.
    pub(crate) window: (Instant, Instant),
    /// The number of calls. In a closed loop it includes the warm-up.
    pub(crate) calls: u64,
    /// Their latencies, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
}

impl Measurement {
    /// Creates the measurement of a window from the latencies in it.
    pub(crate) fn new(window: (Instant, Instant), latencies: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut histogram = Histogram::new_with_max(nanos(LATENCY_MAX), 3)?;
        for latency in latencies {
            histogram.saturating_record(nanos(latency));
        }
        Ok(Self { window, calls: histogram.len(), latencies: histogram })
    }

    /// Returns the calls per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / (self.window.1 - self.window.0).as_secs_f64()
    }

    /// Returns a percentile of the latencies, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e6
    }
}

/// Runs a closed loop: each caller calls again as soon as its last call returns. Slow replies reduce the load, so this measures
/// throughput, not latency at a given load.
pub(crate) async fn closed_loop<C, F>(callers: usize, pace: Pace, call: C) -> Result<Measurement>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let begin = Instant::now() + pace.warm_up;
    let end = begin + pace.length;
    let mut calling = JoinSet::new();
    for caller in 0..callers {
        let call = call.clone();
        calling.spawn(async move {
            let (mut latencies, mut calls) = (Vec::new(), 0);
            loop {
                let called = Instant::now();
                if called >= end {
                    return Result::Ok((latencies, calls));
                }
                call(caller).await?;
                calls += 1;
                let answered = Instant::now();
                if (begin..end).contains(&answered) {
                    latencies.push(answered - called);
                }
            }
        });
    }
    let (mut latencies, mut calls) = (Vec::new(), 0);
    while let Some(done) = calling.join_next().await {
        let (of_one, calls_of_one) = done??;
        latencies.extend(of_one);
        calls += calls_of_one;
    }
    Ok(Measurement { calls, ..Measurement::new((begin, end), latencies)? })
}

/// Runs an open loop: calls at a fixed rate, whether or not earlier calls have returned. Latency counts from the instant at
/// which a call was due, so a stall shows in every call that it delayed (which corrects for coordinated omission). `call`
/// takes its number and that instant.
pub(crate) async fn open_loop<C, F>(per_second: f64, pace: Pace, call: C) -> Result<Measurement>
where
    C: Fn(usize, Instant) -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let handle = Handle::current();
    let start = Instant::now() + Duration::from_millis(10);
    let begin = start + pace.warm_up;
    let end = begin + pace.length;
    // The runtime's timers have a resolution of only a millisecond.
    let mut calling = spawn_blocking(move || {
        let mut calling = JoinSet::new();
        for number in 0.. {
            let due = start + Duration::from_secs_f64(number as f64 / per_second);
            if due >= end {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let called = call(number, due);
            calling.spawn_on(async move { called.await.map(|()| (due, Instant::now())) }, &handle);
        }
        calling
    })
    .await?;
    let mut latencies = Vec::new();
    while let Some(done) = calling.join_next().await {
        let (due, answered) = done??;
        if due >= begin {
            latencies.push(answered - due);
        }
    }
    Measurement::new((begin, end), latencies)
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
