//! The throughput and latency of sends. No one receives, so only sending is measured.

use super::{row, send_all, send_at, teamwire_and_baselines};
use crate::{
    Bench, Result,
    candidate::{Candidate, Shape},
    report::Report,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "send";

/// The number of inboxes, which messages go to in turn.
const INBOXES: usize = 32;

/// The numbers of callers; and the number whose rate the open loop halves.
const CALLERS: [usize; 4] = [1, 8, 64, 512];
const HALVED: usize = 64;

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let candidates = teamwire_and_baselines(bench);
    for callers in CALLERS.into_iter().filter(|callers| !bench.is_quick || [1, HALVED].contains(callers)) {
        let shape = Shape { callers, inboxes: INBOXES };
        for _ in 0..bench.runs {
            for candidate in &candidates {
                let mail = candidate.open(bench, shape).await?;
                let before = [mail.cpu()?, mail.redis_cpu()?];
                let sent = send_all(&mail, shape, bench.pace).await?;
                let after = [mail.cpu()?, mail.redis_cpu()?];
                let mut figures = vec![
                    ("sends/s", sent.per_second()),
                    ("p50 ms", sent.percentile_ms(50.0)),
                    ("p99 ms", sent.percentile_ms(99.0)),
                    ("p99.9 ms", sent.percentile_ms(99.9)),
                ];
                // CPU time hardly depends on the load of the machine.
                let names = ["server CPU µs each", "of which Redis"];
                for ((name, before), after) in names.into_iter().zip(before).zip(after) {
                    let used = before.zip(after).map(|(before, after)| after - before);
                    figures.extend(used.map(|used| (name, used.as_secs_f64() * 1e6 / sent.calls as f64)));
                }
                report.add(NAME, &closed(callers), row(*candidate), &figures);
            }
        }
    }
    let shape = Shape { callers: HALVED, inboxes: INBOXES };
    let case = format!("open loop at half the rate of {HALVED} callers");
    for _ in 0..bench.runs {
        for candidate in candidates.iter().filter(|candidate| !matches!(candidate, Candidate::StoreOnly(_))) {
            let reached = report.last(NAME, &closed(HALVED), &row(*candidate).name).unwrap_or(0.0);
            let mail = candidate.open(bench, shape).await?;
            let sent = send_at(&mail, shape, bench.pace, reached / 2.0).await?;
            let (p50, p99) = (sent.percentile_ms(50.0), sent.percentile_ms(99.0));
            report.add(
                NAME,
                &case,
                row(*candidate),
                &[
                    ("p50 ms", p50),
                    ("p99 ms", p99),
                    ("p99.9 ms", sent.percentile_ms(99.9)),
                    ("p99 / p50", p99 / p50),
                    ("sends/s", sent.per_second()),
                ],
            );
            report.add_latencies(NAME, &case, &row(*candidate).name, &sent)?;
        }
    }
    Ok(())
}

fn closed(callers: usize) -> String {
    format!("{callers} {}, closed loop", if callers == 1 { "caller" } else { "callers" })
}
