//! The latency from the call to the subscriber, at a low rate.

use std::sync::Arc;

use super::{check_running, receive_all, row, send_at, teamwire_and_baselines};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Shape},
    measure::Arrivals,
    report::Report,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "latency";

/// Messages per second.
const RATE: f64 = 50.0;

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let shape = Shape { callers: 1, inboxes: 1 };
    let case = format!("{RATE} messages a second, from when a send was due to the subscriber");
    // redb has no blocking reads.
    let mut candidates = teamwire_and_baselines(bench);
    candidates.retain(|candidate| *candidate != Candidate::StoreOnly(Store::Embedded));
    for _ in 0..bench.runs {
        for candidate in &candidates {
            let mail = candidate.open(bench, shape).await?;
            let arrivals = Arc::new(Arrivals::default());
            let mut receiving = receive_all(&mail, shape, &arrivals);
            let window = send_at(&mail, shape, bench.pace.for_low_rates(), RATE).await?.window;
            check_running(&mut receiving)?;
            let arrived = arrivals.within(window)?;
            report.add(
                NAME,
                &case,
                row(*candidate),
                &[
                    ("p50 ms", arrived.percentile_ms(50.0)),
                    ("p90 ms", arrived.percentile_ms(90.0)),
                    ("p99 ms", arrived.percentile_ms(99.0)),
                ],
            );
            report.add_latencies(NAME, &case, &row(*candidate).name, &arrived)?;
        }
    }
    Ok(())
}
