//! How long a coordinator takes to serve.

use std::{sync::Arc, time::Instant};

use super::{queue, row};
use crate::{
    Bench, Result, Store,
    candidate::{
        Candidate, Mail, Shape,
        grpc::{Team, start_null_server},
    },
    process::{Coordinator, Scratch},
    report::Report,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "start";

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let queued = format!("{} messages queued", bench.queued);
    for _ in 0..bench.runs {
        let scratch = Scratch::prepare(&bench.directory, None).await?;
        let began = Instant::now();
        let _server = start_null_server(scratch.directory(), "").await?;
        let figure = [("ms", ms(began))];
        report.add(NAME, "empty", row(Candidate::NullServer(None)), &figure);
        report.add(NAME, &queued, row(Candidate::NullServer(None)), &figure);
        for store in &bench.stores {
            let scratch = Scratch::prepare(&bench.directory, Some(*store)).await?;
            let began = Instant::now();
            let _coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
            report.add(NAME, "empty", row(Candidate::Teamwire(*store)), &[("ms", ms(began))]);
            let mut team = filled(bench, *store).await?;
            let coordinator = team.coordinator.as_mut().ok_or("no coordinator")?;
            coordinator.process().kill()?;
            let began = Instant::now();
            coordinator.restart()?;
            coordinator.await_serving().await?;
            report.add(NAME, &queued, row(Candidate::Teamwire(*store)), &[("ms", ms(began))]);
        }
    }
    Ok(())
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
