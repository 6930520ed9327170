//! The latency from the call to the subscriber, at a low rate.

use std::sync::Arc;

use super::{check_running, receive_all, row, send_at, teamwire_and_baselines, turns};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, Shape},
    measure::Arrivals,
    report::Report,
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "latency";

/// Messages per second.
const RATE: f64 = 50.0;

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[("p50 ms", "", "p50 ms"), ("p90 ms", "", "p90 ms"), ("p99 ms", "", "p99 ms")],
    compared: "",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let shape = Shape { callers: 1, inboxes: 1 };
    let case = format!("{RATE} messages a second, from when a send was due to the subscriber");
    // A log has no blocking reads.
    let mut candidates = teamwire_and_baselines(bench);
    candidates.retain(|candidate| *candidate != Candidate::StoreOnly(Store::Embedded));
    for candidate in turns(bench, &candidates) {
        bench.quiet.wait().await?;
        let mail = candidate.open(bench, shape).await?;
        let arrivals = Arc::new(Arrivals::default());
        let mut receiving = receive_all(&mail, shape, &arrivals);
        let window = bench.pace.for_low_rates().window();
        send_at(&mail, shape, window, RATE).await?;
        check_running(&mut receiving)?;
        let arrived = arrivals.within(window)?;
        report.add(
            &case,
            row(candidate),
            &[
                ("p50 ms", arrived.percentile_ms(50.0)),
                ("p90 ms", arrived.percentile_ms(90.0)),
                ("p99 ms", arrived.percentile_ms(99.0)),
            ],
        );
        report.add_latencies(&case, &row(candidate).name, &arrived)?;
    }
    Ok(())
}
