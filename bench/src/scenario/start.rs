//! How long a coordinator takes until it serves.

use std::{sync::Arc, time::Instant};

use super::{queue, who};
use crate::{
    Bench, Result, Store,
    contender::{
        Contender, Mail, Shape,
        grpc::{Team, start_bare},
    },
    process::{Coordinator, Ground},
    report::Report,
};

/// Its name.
pub(crate) const NAME: &str = "start";

/// Measures it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let queued = format!("{} messages queued", bench.queued);
    for _ in 0..bench.runs {
        let ground = Ground::prepare(&bench.directory, None).await?;
        let began = Instant::now();
        let _server = start_bare(ground.directory(), "").await?;
        let figure = [("ms", ms(began))];
        report.add(NAME, "empty", who(Contender::Bare(None)), &figure);
        report.add(NAME, &queued, who(Contender::Bare(None)), &figure);
        for store in &bench.stores {
            let ground = Ground::prepare(&bench.directory, Some(*store)).await?;
            let began = Instant::now();
            let _coordinator = Coordinator::start(&bench.teamwire, ground.directory(), &ground.url).await?;
            report.add(NAME, "empty", who(Contender::Teamwire(*store)), &[("ms", ms(began))]);
            let mut team = filled(bench, *store).await?;
            let coordinator = team.coordinator.as_mut().ok_or("no coordinator")?;
            coordinator.process().kill()?;
            let began = Instant::now();
            coordinator.start_again()?;
            coordinator.serves().await?;
            report.add(NAME, &queued, who(Contender::Teamwire(*store)), &[("ms", ms(began))]);
        }
    }
    Ok(())
}

/// Returns a team in the first inbox of which messages are queued.
pub(super) async fn filled(bench: &Bench, store: Store) -> Result<Team> {
    let shape = Shape { callers: 64, inboxes: 1 };
    let team = Arc::new(Team::of_teamwire(bench, store, shape).await?);
    let mail: Arc<dyn Mail> = team.clone();
    queue(&mail, bench.queued).await?;
    drop(mail);
    Arc::into_inner(team).ok_or_else(|| "somebody still sends".into())
}

pub(super) fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
