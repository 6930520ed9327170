//! The scenarios, one module each.

mod claim;
mod drain;
mod fanout;
mod floors;
mod growth;
mod idle;
mod joins;
mod latency;
mod peers;
mod python;
mod recovery;
pub(crate) mod scale;
mod send;
mod start;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use clap::ValueEnum;
use tokio::task::JoinSet;

use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Mail, Shape},
    measure::{Arrivals, Measurement, Paced, Window, at_ends, closed_loop, open_loop, stamped},
    process::own_cpu,
    report::{Figure, Report, Row},
    section::SectionLayout,
};

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)] // The help describes them.
pub(crate) enum Scenario {
    Send,
    Latency,
    Fanout,
    Idle,
    Drain,
    Claim,
    Start,
    Recovery,
    Growth,
    Watch,
    Peers,
    Python,
    Floors,
    Joins,
    Scale,
}

impl Scenario {
    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => send::NAME,
            Self::Latency => latency::NAME,
            Self::Fanout => fanout::NAME,
            Self::Idle => idle::NAME,
            Self::Drain => drain::NAME,
            Self::Claim => claim::NAME,
            Self::Start => start::NAME,
            Self::Recovery => recovery::NAME,
            Self::Growth => growth::NAME,
            Self::Watch => watch::NAME,
            Self::Peers => peers::NAME,
            Self::Python => python::NAME,
            Self::Floors => floors::NAME,
            Self::Joins => joins::NAME,
            Self::Scale => scale::NAME,
        }
    }

    /// Returns whether it runs by default. The others show how cost grows, and what a figure of the page is made of.
    pub(crate) fn is_default(self) -> bool {
        self.view().is_some()
    }

    /// Returns what the page shows of it. `None` if it is not on the page.
    pub(crate) fn view(self) -> Option<SectionLayout> {
        Some(match self {
            Self::Send => send::VIEW,
            Self::Latency => latency::VIEW,
            Self::Fanout => fanout::VIEW,
            Self::Idle => idle::VIEW,
            Self::Drain => drain::VIEW,
            Self::Claim => claim::VIEW,
            Self::Start => start::VIEW,
            Self::Recovery => recovery::VIEW,
            Self::Growth => growth::VIEW,
            Self::Watch => watch::VIEW,
            Self::Peers => peers::VIEW,
            Self::Python => python::VIEW,
            Self::Floors | Self::Joins | Self::Scale => return None,
        })
    }

    /// Runs it on all candidates, and adds the results to the report.
    pub(crate) async fn run(self, bench: &Bench, report: &mut Report) -> Result<()> {
        match self {
            Self::Send => send::run(bench, report).await,
            Self::Latency => latency::run(bench, report).await,
            Self::Fanout => fanout::run(bench, report).await,
            Self::Idle => idle::run(bench, report).await,
            Self::Drain => drain::run(bench, report).await,
            Self::Claim => claim::run(bench, report).await,
            Self::Start => start::run(bench, report).await,
            Self::Recovery => recovery::run(bench, report).await,
            Self::Growth => growth::run(bench, report).await,
            Self::Watch => watch::run(bench, report).await,
            Self::Peers => peers::run(bench, report).await,
            Self::Python => python::run(bench, report).await,
            Self::Floors => floors::run(bench, report).await,
            Self::Joins => joins::run(bench, report).await,
            Self::Scale => scale::run(bench, report).await,
        }
    }
}

/// Returns teamwire on each store, after its baselines.
fn teamwire_and_baselines(bench: &Bench) -> Vec<Candidate> {
    let with_baselines = |store: &Store| {
        [
            Candidate::StoreOnly(*store),
            Candidate::NullServer(Some(*store)),
            Candidate::Teamwire(*store),
            Candidate::TeamwireCalls(*store),
        ]
    };
    [Candidate::NullServer(None)].into_iter().chain(bench.stores.iter().flat_map(with_baselines)).collect()
}

/// Describes a candidate for a table. Teamwire's baselines are those on its store, and the null server without one.
fn row(candidate: Candidate) -> Row {
    let baselines = match candidate {
        Candidate::Teamwire(store) | Candidate::TeamwireCalls(store) => {
            vec![Candidate::StoreOnly(store), Candidate::NullServer(Some(store)), Candidate::NullServer(None)]
        }
        _ => Vec::new(),
    };
    let baselines = baselines.iter().map(ToString::to_string).collect();
    Row { name: candidate.to_string(), promise: candidate.promise(), baselines }
}

/// Returns the candidates as they take turns: all of them once for each run. Each run starts with another one, so that
/// none always follows the same one, or always comes first.
fn turns<T: Copy>(bench: &Bench, candidates: &[T]) -> Vec<T> {
    let (runs, count) = (bench.runs as usize, candidates.len());
    (0..runs).flat_map(|run| (0..count).map(move |at| candidates[(at + run * count / runs) % count])).collect()
}

/// The sends of a closed loop, and the CPU time that they took.
struct Sent {
    calls: Measurement,
    /// At both ends of the window.
    cpu: (Cpu, Cpu),
}

impl Sent {
    /// Returns the CPU time for each of a number of messages, in microseconds.
    fn cpu_each(&self, messages: u64) -> Vec<Figure> {
        self.cpu.1.since(self.cpu.0, messages)
    }
}

/// The CPU time used up to an instant.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// Of the benchmark's process, which has the clients.
    client: Duration,
    /// Of all processes of the candidate. `None` if it has none.
    server: Option<Duration>,
    /// What of it is Redis'.
    redis: Option<Duration>,
}

impl Cpu {
    fn now(mail: &Arc<dyn Mail>) -> Result<Self> {
        Ok(Self { client: own_cpu()?, server: mail.cpu()?, redis: mail.redis_cpu()? })
    }

    fn since(self, before: Self, messages: u64) -> Vec<Figure> {
        let each = |before: Option<Duration>, after: Option<Duration>| {
            let used = before.zip(after).map(|(before, after)| after.saturating_sub(before).as_secs_f64());
            used.filter(|_| messages > 0).map(|used| used * 1e6 / messages as f64)
        };
        let client = ("client CPU µs each", each(Some(before.client), Some(self.client)));
        let server = ("server CPU µs each", each(before.server, self.server));
        let redis = ("of which Redis", each(before.redis, self.redis));
        [client, server, redis].into_iter().filter_map(|(name, each)| Some((name, each?))).collect()
    }
}

/// Sends to all inboxes in turn, in a closed loop.
async fn send_all(mail: &Arc<dyn Mail>, shape: Shape, window: Window) -> Result<Sent> {
    let (sender, turn) = (mail.clone(), Arc::new(AtomicUsize::new(0)));
    let calls = closed_loop(shape.callers, window, move |caller| {
        let (mail, turn) = (sender.clone(), turn.clone());
        async move {
            let inbox = turn.fetch_add(1, Relaxed) % shape.inboxes;
            mail.send(caller, inbox, stamped(Instant::now())).await
        }
    });
    let (calls, cpu) = tokio::try_join!(calls, at_ends(window, || Cpu::now(mail)))?;
    Ok(Sent { calls, cpu })
}

/// Sends to all inboxes in turn, in an open loop.
async fn send_at(mail: &Arc<dyn Mail>, shape: Shape, window: Window, per_second: f64) -> Result<Paced> {
    let mail = mail.clone();
    open_loop(per_second, window, move |number, due| {
        let mail = mail.clone();
        async move { mail.send(number, number % shape.inboxes, stamped(due)).await }
    })
    .await
}

/// Receives from all inboxes until the returned set is dropped.
fn receive_all(mail: &Arc<dyn Mail>, shape: Shape, arrivals: &Arc<Arrivals>) -> JoinSet<Result<()>> {
    (0..shape.inboxes).map(|inbox| mail.receive(inbox, u64::MAX, arrivals.clone())).collect()
}

/// Fails if a receiver ended.
fn check_running(receiving: &mut JoinSet<Result<()>>) -> Result<()> {
    match receiving.try_join_next() {
        Some(ended) => Err(format!("a receiver ended: {:?}", ended?).into()),
        None => Ok(()),
    }
}

/// The concurrent calls that fill an inbox. Filling is not measured, so many.
const FILLING: usize = 512;

/// Puts messages into the first inbox.
async fn queue(mail: &Arc<dyn Mail>, messages: u64) -> Result<()> {
    let left = Arc::new(AtomicU64::new(messages));
    let mut sending = JoinSet::new();
    for caller in 0..FILLING {
        let (mail, left) = (mail.clone(), left.clone());
        sending.spawn(async move {
            while left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                mail.send(caller, 0, stamped(Instant::now())).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(done) = sending.join_next().await {
        done??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::bench;

    #[test]
    fn every_candidate_runs_once_in_each_turn_and_the_first_one_changes() {
        let taken = turns(&bench(4), &[1, 2, 3, 4, 5]);
        let runs: Vec<_> = taken.chunks(5).collect();
        for run in &runs {
            let mut sorted = run.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [1, 2, 3, 4, 5]);
        }
        let first: Vec<_> = runs.iter().map(|run| run[0]).collect();
        assert_eq!(first, [1, 2, 3, 4]);
        assert_eq!(turns(&bench(2), &[1, 2, 3, 4]), [1, 2, 3, 4, 3, 4, 1, 2]);
        assert_eq!(turns(&bench(2), &[] as &[u8]), [] as [u8; 0]);
    }

    #[test]
    fn cpu_time_is_divided_among_the_messages() {
        let ms = Duration::from_millis;
        let before = Cpu { client: ms(100), server: Some(ms(10)), redis: None };
        let after = Cpu { client: ms(300), server: Some(ms(110)), redis: None };
        let each = after.since(before, 1_000);
        assert_eq!(each, [("client CPU µs each", 200.0), ("server CPU µs each", 100.0)]);
        assert!(after.since(before, 0).is_empty(), "no message, no share");
    }
}
