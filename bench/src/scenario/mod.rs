//! The scenarios, one module each.

mod claim;
mod drain;
mod fanout;
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
    time::Instant,
};

use clap::ValueEnum;
use tokio::task::JoinSet;

use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Mail, Shape},
    measure::{Arrivals, Measurement, Pace, closed_loop, open_loop, stamped},
    report::{Report, Row},
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
            Self::Joins => joins::NAME,
            Self::Scale => scale::NAME,
        }
    }

    /// Returns whether it runs by default. The others compare nothing: they show how cost grows.
    pub(crate) fn is_default(self) -> bool {
        !matches!(self, Self::Joins | Self::Scale)
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
            Self::Joins => joins::run(bench, report).await,
            Self::Scale => scale::run(bench, report).await,
        }
    }
}

/// Returns teamwire on each store, after its baselines.
fn teamwire_and_baselines(bench: &Bench) -> Vec<Candidate> {
    let with_baselines = |store: &Store| {
        [Candidate::StoreOnly(*store), Candidate::NullServer(Some(*store)), Candidate::Teamwire(*store)]
    };
    [Candidate::NullServer(None)].into_iter().chain(bench.stores.iter().flat_map(with_baselines)).collect()
}

/// Describes a candidate for a table. Teamwire's baselines are those on its store, and the null server without one.
fn row(candidate: Candidate) -> Row {
    let baselines = match candidate {
        Candidate::Teamwire(store) => {
            vec![Candidate::StoreOnly(store), Candidate::NullServer(Some(store)), Candidate::NullServer(None)]
        }
        _ => Vec::new(),
    };
    let baselines = baselines.iter().map(ToString::to_string).collect();
    Row { name: candidate.to_string(), promise: candidate.promise(), baselines }
}

/// Sends to all inboxes in turn, in a closed loop.
async fn send_all(mail: &Arc<dyn Mail>, shape: Shape, pace: Pace) -> Result<Measurement> {
    let mail = mail.clone();
    let turn = Arc::new(AtomicUsize::new(0));
    closed_loop(shape.callers, pace, move |caller| {
        let (mail, turn) = (mail.clone(), turn.clone());
        async move {
            let inbox = turn.fetch_add(1, Relaxed) % shape.inboxes;
            mail.send(caller, inbox, stamped(Instant::now())).await
        }
    })
    .await
}

/// Sends to all inboxes in turn, in an open loop.
async fn send_at(mail: &Arc<dyn Mail>, shape: Shape, pace: Pace, per_second: f64) -> Result<Measurement> {
    let mail = mail.clone();
    open_loop(per_second, pace, move |number, due| {
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
