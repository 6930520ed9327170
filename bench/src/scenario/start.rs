//! How long a coordinator takes to serve.

use std::{sync::Arc, time::Instant};

use super::{queue, row, turns};
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate, Mail, Shape,
        grpc::{Team, start_null_server},
    },
    process::{Coordinator, Scratch},
    report::Report,
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "start";

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[("empty: ms", "empty", "ms"), ("with queued messages: ms", "queued", "ms")],
    compared: "empty",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let queued = format!("{} messages queued", bench.queued);
    let of_stores = bench.stores.iter().map(|store| Candidate::Teamwire(*store));
    let candidates: Vec<_> = [Candidate::NullServer(None)].into_iter().chain(of_stores).collect();
    for candidate in turns(bench, &candidates) {
        bench.quiet.wait().await?;
        let (empty, full) = match candidate {
            Candidate::Teamwire(store) => of_teamwire(bench, store).await?,
            _ => of_null_server(bench).await?,
        };
        report.add("empty", row(candidate), &[("ms", empty)]);
        report.add(&queued, row(candidate), &[("ms", full)]);
    }
    Ok(())
}

/// Returns the time of a start, twice: it has no store, so it starts empty.
async fn of_null_server(bench: &Bench) -> Result<(f64, f64)> {
    let scratch = Scratch::prepare(&bench.directory, None).await?;
    let began = Instant::now();
    let _server = start_null_server(scratch.directory(), "", false).await?;
    let empty = ms(began);
    Ok((empty, empty))
}

/// Returns the times of a start without and with queued messages.
async fn of_teamwire(bench: &Bench, store: Store) -> Result<(f64, f64)> {
    let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
    let began = Instant::now();
    let coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
    let empty = ms(began);
    drop(coordinator);
    let mut team = filled(bench, store).await?;
    let coordinator = team.coordinator.as_mut().ok_or("no coordinator")?;
    coordinator.process().kill()?;
    let began = Instant::now();
    coordinator.restart()?;
    coordinator.await_serving().await?;
    Ok((empty, ms(began)))
}

/// Returns a team with messages queued in its first inbox.
pub(super) async fn filled(bench: &Bench, store: Store) -> Result<Team> {
    let shape = Shape { callers: 64, inboxes: 1 };
    let team = Arc::new(Team::of_teamwire(bench, store, shape).await?);
    let mail: Arc<dyn Mail> = team.clone();
    queue(&mail, bench.queued).await?;
    drop(mail);
    Arc::into_inner(team).ok_or_else(|| "a sender is still running".into())
}

pub(super) fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
