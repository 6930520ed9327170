//! From the call to the subscriber, at a low rate and one message at a time.

use std::sync::Arc;

use super::{receive_all, send_at, still_there, teamwire_and_floors, who};
use crate::{
    Bench, Result, Store,
    contender::{Contender, Shape},
    measure::Arrivals,
    report::Report,
};

/// Its name.
pub(crate) const NAME: &str = "latency";

/// How many messages a second.
const RATE: f64 = 50.0;

/// Measures it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let shape = Shape { callers: 1, inboxes: 1 };
    let case = format!("{RATE} messages a second, from when a send was due to the subscriber");
    // redb has nobody who waits for a message.
    let mut contenders = teamwire_and_floors(bench);
    contenders.retain(|contender| *contender != Contender::Raw(Store::Embedded));
    for _ in 0..bench.runs {
        for contender in &contenders {
            let mail = contender.open(bench, shape).await?;
            let arrivals = Arc::new(Arrivals::default());
            let mut receiving = receive_all(&mail, shape, &arrivals);
            let window = send_at(&mail, shape, bench.pace.of_few(), RATE).await?.window;
            still_there(&mut receiving)?;
            let arrived = arrivals.within(window)?;
            report.add(
                NAME,
                &case,
                who(*contender),
                &[
                    ("p50 ms", arrived.percentile_ms(50.0)),
                    ("p90 ms", arrived.percentile_ms(90.0)),
                    ("p99 ms", arrived.percentile_ms(99.0)),
                ],
            );
            report.add_latencies(NAME, &case, &who(*contender).name, &arrived)?;
        }
    }
    Ok(())
}
