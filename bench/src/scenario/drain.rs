//! How fast one subscriber receives and acknowledges a backlog.

use std::{sync::Arc, time::Instant};

use super::{Cpu, queue, row, teamwire_and_baselines, turns};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Shape},
    measure::Arrivals,
    report::{Figure, Report},
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "drain";

/// What the page shows of it.
pub(super) const VIEW: SectionLayout =
    SectionLayout { columns: &[("messages/s", "", "messages/s")], compared: "", only_compared: false };

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut candidates = teamwire_and_baselines(bench);
    // A log has no blocking reads, and the null server never reads back what it stored.
    candidates.retain(|candidate| {
        !matches!(candidate, Candidate::StoreOnly(Store::Embedded) | Candidate::NullServer(Some(_)))
    });
    for candidate in turns(bench, &candidates) {
        report.add(&case(bench), row(candidate), &empty(bench, candidate).await?);
    }
    Ok(())
}

/// Names the case.
pub(super) fn case(bench: &Bench) -> String {
    format!("{} messages, received and acknowledged by one", bench.backlog)
}

/// Measures a run.
pub(super) async fn empty(bench: &Bench, candidate: Candidate) -> Result<Vec<Figure>> {
    bench.quiet.wait().await?;
    let mail = candidate.open(bench, Shape { callers: 64, inboxes: 1 }).await?;
    queue(&mail, bench.backlog).await?;
    let arrivals = Arc::new(Arrivals::default());
    let (began, cpu) = (Instant::now(), Cpu::now(&mail)?);
    mail.receive(0, bench.backlog, arrivals).await?;
    let seconds = began.elapsed().as_secs_f64();
    let mut figures = vec![("messages/s", bench.backlog as f64 / seconds), ("s", seconds)];
    figures.extend(Cpu::now(&mail)?.since(cpu, bench.backlog));
    Ok(figures)
}
