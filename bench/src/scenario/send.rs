//! The throughput and latency of sends. No one receives, so only sending is measured.

use super::{row, send_all, send_at, teamwire_and_baselines, turns};
use crate::{
    Bench, Result,
    candidate::{Candidate, Shape},
    report::Report,
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "send";

/// The number of inboxes, which messages go to in turn.
const INBOXES: usize = 32;

/// The numbers of callers; and the number whose rate the open loop halves.
const CALLERS: [usize; 4] = [1, 8, 64, 512];
const HALVED: usize = 64;

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("1 caller: sends/s", "1 caller,", "sends/s"),
        ("8 callers", "8 callers,", "sends/s"),
        ("64 callers", "64 callers, closed", "sends/s"),
        ("512 callers", "512 callers,", "sends/s"),
        ("64 callers: server CPU µs", "64 callers, closed", "server CPU µs each"),
        ("half load: p50 ms", "open loop", "p50 ms"),
        ("p99 ms", "open loop", "p99 ms"),
        ("late p99 ms", "open loop", "late p99 ms"),
    ],
    compared: "64 callers, closed",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let mut candidates = teamwire_and_baselines(bench);
    for callers in CALLERS.into_iter().filter(|callers| !bench.is_quick || [1, HALVED].contains(callers)) {
        let shape = Shape { callers, inboxes: INBOXES };
        for candidate in turns(bench, &candidates) {
            bench.quiet.wait().await?;
            let mail = candidate.open(bench, shape).await?;
            let sent = send_all(&mail, shape, bench.pace.window()).await?;
            let calls = &sent.calls;
            let mut figures = vec![
                ("sends/s", calls.per_second()),
                ("p50 ms", calls.percentile_ms(50.0)),
                ("p99 ms", calls.percentile_ms(99.0)),
                ("p99.9 ms", calls.percentile_ms(99.9)),
            ];
            // CPU time hardly depends on the load of the machine.
            figures.extend(sent.cpu_each(calls.calls()));
            report.add(&closed(callers), row(candidate), &figures);
        }
    }
    let shape = Shape { callers: HALVED, inboxes: INBOXES };
    let case = format!("open loop at half the rate of {HALVED} callers");
    candidates.retain(|candidate| !matches!(candidate, Candidate::StoreOnly(_)));
    for candidate in turns(bench, &candidates) {
        let name = row(candidate).name;
        // The same for all runs, so that one stray run changes it little.
        let reached = report.median(&closed(HALVED), &name).ok_or("the closed loop has no rate")?;
        bench.quiet.wait().await?;
        let mail = candidate.open(bench, shape).await?;
        let sent = send_at(&mail, shape, bench.pace.window(), reached / 2.0).await?;
        let (p50, p99) = (sent.calls.percentile_ms(50.0), sent.calls.percentile_ms(99.0));
        report.add(
            &case,
            row(candidate),
            &[
                ("p50 ms", p50),
                ("p99 ms", p99),
                ("p99.9 ms", sent.calls.percentile_ms(99.9)),
                ("p99 / p50", p99 / p50),
                ("sends/s", sent.calls.per_second()),
                // What of the latencies is the generator's own.
                ("late p50 ms", sent.lateness.percentile_ms(50.0)),
                ("late p99 ms", sent.lateness.percentile_ms(99.0)),
            ],
        );
        report.add_latencies(&case, &name, &sent.calls)?;
    }
    Ok(())
}

fn closed(callers: usize) -> String {
    format!("{callers} {}, closed loop", if callers == 1 { "caller" } else { "callers" })
}
