//! Loops that call, and clocks that they are measured by.

use std::{
    future::Future,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinSet, spawn_blocking},
};

use crate::Result;

/// How many characters the content of every message has.
pub(crate) const CONTENT: usize = 500;

/// The longest latency that is told from longer ones.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// How long is measured at least where there are but a few calls a second.
const FEW_MIN: Duration = Duration::from_secs(3);

/// What stamps count from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How long is measured, and how long the same is done before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// What is not counted: connections open, caches and files grow.
    pub(crate) warm_up: Duration,
    /// What is.
    pub(crate) length: Duration,
}

impl Pace {
    /// Returns how long is measured where there are but a few calls a second: long enough for percentiles.
    pub(crate) fn for_low_rates(self) -> Self {
        Self { length: self.length.max(FEW_MIN), ..self }
    }
}

/// What was counted between two instants.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// From when to when.
    pub(crate) window: (Instant, Instant),
    /// How many calls there were in all; in a closed loop those before the window as well.
    pub(crate) calls: u64,
    /// How long they took, in nanoseconds.
    pub(crate) latencies: Histogram<u64>,
}

impl Measurement {
    /// Takes what was counted between two instants.
    pub(crate) fn new(window: (Instant, Instant), latencies: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut histogram = Histogram::new_with_max(nanos(LATENCY_MAX), 3)?;
        for latency in latencies {
            histogram.saturating_record(nanos(latency));
        }
        Ok(Self { window, calls: histogram.len(), latencies: histogram })
    }

    /// Returns how many there were a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / (self.window.1 - self.window.0).as_secs_f64()
    }

    /// Returns the latency in milliseconds that so many percent did not exceed.
    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e6
    }
}

/// Lets so many callers call, each again as soon as the last call was answered. A slow answer makes them ask for less, so
/// this finds how much can be done, not how long it takes at a given load.
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

/// Calls so many times a second, whether or not earlier calls were answered. Latency counts from when a call was due, not
/// from when it was made: a server that stalls makes all those late that were due meanwhile, and they say so (corrected for
/// coordinated omission). `call` is given the instant at which it was due.
pub(crate) async fn open_loop<C, F>(per_second: f64, pace: Pace, call: C) -> Result<Measurement>
where
    C: Fn(usize, Instant) -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let handle = Handle::current();
    let start = Instant::now() + Duration::from_millis(10);
    let begin = start + pace.warm_up;
    let end = begin + pace.length;
    // Timers of the runtime have a precision of a millisecond only.
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

/// Writes a content that says when it was sent, or due.
pub(crate) fn stamped(at: Instant) -> String {
    let nanos = at.saturating_duration_since(*EPOCH).as_nanos();
    format!("{nanos:020}{:x<1$}", "", CONTENT - 20)
}

/// What has arrived at all receivers together.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// How many receivers are there; none is counted twice where it comes back.
    receivers: watch::Sender<u64>,
    losses: AtomicU64,
    count: watch::Sender<u64>,
    /// When, and how long after it was sent.
    all: Mutex<Vec<(Instant, Duration)>>,
}

impl Arrivals {
    /// Notes one by its content.
    pub(crate) fn record(&self, content: &str) -> Result<()> {
        let now = Instant::now();
        let nanos: u64 = content.get(..20).and_then(|nanos| nanos.parse().ok()).ok_or("a content without a stamp")?;
        let sent = *EPOCH + Duration::from_nanos(nanos);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push((now, now.saturating_duration_since(sent)));
        self.count.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Notes that a receiver is there.
    pub(crate) fn record_receiver(&self) {
        self.receivers.send_modify(|count| *count += 1);
    }

    /// Notes that a receiver has lost its session. It comes back by itself, which takes its time.
    pub(crate) fn record_loss(&self, detail: &str) {
        if self.losses.fetch_add(1, Relaxed) == 0 {
            eprintln!("a session was lost, perhaps not the only one: {detail}");
        }
    }

    /// Returns how many sessions were lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Relaxed)
    }

    /// Waits until so many receivers are there.
    pub(crate) async fn reach_receivers(&self, count: u64) -> Result<()> {
        self.receivers.subscribe().wait_for(|now| *now >= count).await?;
        Ok(())
    }

    /// Waits until there are so many.
    pub(crate) async fn reach(&self, count: u64) -> Result<()> {
        self.count.subscribe().wait_for(|now| *now >= count).await?;
        Ok(())
    }

    /// Returns what arrived within a window.
    pub(crate) fn within(&self, window: (Instant, Instant)) -> Result<Measurement> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = all.iter().filter(|(at, _)| (window.0..window.1).contains(at));
        Measurement::new(window, arrived.map(|(_, latency)| *latency))
    }

    /// Forgets all, and returns when the first and the last came.
    pub(crate) fn take_span(&self) -> Option<(Instant, Instant)> {
        let all = std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.send_replace(0);
        let instants = || all.iter().map(|(at, _)| *at);
        Some((instants().min()?, instants().max()?))
    }
}

/// Fixes what stamps count from. Called before anything is stamped.
pub(crate) fn start_clock() {
    LazyLock::force(&EPOCH);
}
