//! How fast one subscriber takes and acknowledges what has piled up.

use std::{sync::Arc, time::Instant};

use super::{queue, teamwire_and_floors, who};
use crate::{
    Bench, Result, Store,
    contender::{Contender, Shape},
    measure::Arrivals,
    report::Report,
};

/// Its name.
pub(crate) const NAME: &str = "drain";

/// Measures it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let shape = Shape { callers: 64, inboxes: 1 };
    let case = format!("{} messages, received and acknowledged by one", bench.backlog);
    let mut contenders = teamwire_and_floors(bench);
    // redb has no readers; and what the bare server has stored it does not read again.
    contenders.retain(|contender| !matches!(contender, Contender::Raw(Store::Embedded) | Contender::Bare(Some(_))));
    for _ in 0..bench.runs {
        for contender in &contenders {
            let mail = contender.open(bench, shape).await?;
            queue(&mail, bench.backlog).await?;
            let arrivals = Arc::new(Arrivals::default());
            let began = Instant::now();
            mail.receive(0, bench.backlog, arrivals).await?;
            let seconds = began.elapsed().as_secs_f64();
            report.add(NAME, &case, who(*contender), &[("messages/s", bench.backlog as f64 / seconds), ("s", seconds)]);
        }
    }
    Ok(())
}
