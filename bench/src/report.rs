//! Collects the figures of a scenario while it runs.

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::{
    Result,
    measure::Measurement,
    results::{Absent, Quantity, Series, number, plain, rounded},
};

/// A figure of a run: its quantity with unit, and its value.
pub(crate) type Figure = (&'static str, f64);

/// The smallest fraction of latencies to keep, and the number of points down to it.
const TAIL_MIN: f64 = 1e-4;
const TAIL_POINTS: u32 = 80;

/// The figures of a scenario.
#[derive(Debug)]
pub(crate) struct Report {
    scenario: &'static str,
    pub(crate) series: Vec<Series>,
    pub(crate) absent: Vec<Absent>,
    /// The latencies of all runs of a series, in nanoseconds, if a plot shows them.
    latencies: Vec<(usize, Histogram<u64>)>,
    began: Instant,
}

/// What the row of a table says about a candidate, besides figures.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// What its OK guarantees.
    pub(crate) promise: &'static str,
    /// The names of the candidates to compare it with.
    pub(crate) baselines: Vec<String>,
}

impl Report {
    /// Creates an empty report. `began`: when the benchmark did.
    pub(crate) fn new(scenario: &'static str, began: Instant) -> Self {
        Self { scenario, series: Vec::new(), absent: Vec::new(), latencies: Vec::new(), began }
    }

    /// Adds the figures of a run. Each candidate of a case must run once before any runs again: a run is compared with
    /// that of each baseline in the same turn.
    pub(crate) fn add(&mut self, case: &str, candidate: Row, figures: &[Figure]) {
        let shown: Vec<_> = figures.iter().map(|(name, value)| format!("{} {name}", number(*value))).collect();
        let (seconds, scenario) = (self.began.elapsed().as_secs(), self.scenario);
        eprintln!("{seconds:>5} s  {scenario}, {case}: {}: {}", plain(&candidate.name), shown.join(", "));
        let at = self.find(case, &candidate.name).unwrap_or_else(|| {
            let named = |(name, _): &Figure| Quantity { name: (*name).to_owned(), runs: Vec::new() };
            self.series.push(Series {
                case: case.to_owned(),
                candidate: candidate.name,
                promise: candidate.promise.to_owned(),
                baselines: candidate.baselines,
                figures: figures.iter().map(named).collect(),
                tail: Vec::new(),
            });
            self.series.len() - 1
        });
        for (quantity, (_, value)) in self.series[at].figures.iter_mut().zip(figures) {
            quantity.runs.push(rounded(*value));
        }
    }

    /// Adds the latencies of a run, for a plot. Its figures must have been added.
    pub(crate) fn add_latencies(&mut self, case: &str, candidate: &str, taken: &Measurement) -> Result<()> {
        let at = self.find(case, candidate).ok_or("these latencies belong to no run")?;
        let all = match self.latencies.iter_mut().find(|(of, _)| *of == at) {
            Some((_, all)) => {
                all.add(&taken.latencies)?;
                &*all
            }
            None => {
                self.latencies.push((at, taken.latencies.clone()));
                &taken.latencies
            }
        };
        self.series[at].tail = tail(all);
        Ok(())
    }

    /// Adds a candidate that was not measured, and why.
    pub(crate) fn add_absent(&mut self, candidate: impl Into<String>, why: impl Into<String>) {
        let (candidate, why) = (candidate.into(), why.into());
        eprintln!("not measured: {}, {}: {why}", self.scenario, plain(&candidate));
        self.absent.push(Absent { candidate, why });
    }

    /// Returns the median of the first figure of a case.
    pub(crate) fn median(&self, case: &str, candidate: &str) -> Option<f64> {
        Some(self.series[self.find(case, candidate)?].compared()?.1.median)
    }

    fn find(&self, case: &str, candidate: &str) -> Option<usize> {
        self.series.iter().position(|found| found.case == case && found.candidate == candidate)
    }
}

/// Returns points of the fraction of latencies that exceed a time in milliseconds.
fn tail(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let fractions = (0..=TAIL_POINTS).map(|step| TAIL_MIN.powf(f64::from(step) / f64::from(TAIL_POINTS)));
    let seen = fractions.take_while(|fraction| fraction * latencies.len() as f64 >= 1.0);
    let point = |fraction: f64| (latencies.value_at_quantile(1.0 - fraction) as f64 / 1e6, fraction);
    seen.map(point).map(|(ms, fraction)| (rounded(ms), rounded(fraction))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(name: &str) -> Row {
        Row { name: name.to_owned(), promise: "on disk", baselines: Vec::new() }
    }

    #[test]
    fn the_median_is_taken_over_all_runs_of_the_first_figure() {
        let mut report = Report::new("send", Instant::now());
        for rate in [100.0, 900.0, 300.0] {
            report.add("64 callers", row("teamwire"), &[("sends/s", rate), ("p50 ms", 1.0)]);
        }
        assert_eq!(report.median("64 callers", "teamwire"), Some(300.0));
        assert_eq!(report.median("8 callers", "teamwire"), None);
    }

    #[test]
    fn a_tail_ends_with_the_rarest_observed_latency() {
        let mut report = Report::new("send", Instant::now());
        report.add("half", row("teamwire"), &[("p50 ms", 1.0)]);
        let window = (Instant::now(), Instant::now());
        for slow in [1, 2] {
            let latencies = (0..100).map(|call| Duration::from_millis(if call < slow { 50 } else { 1 }));
            let taken = Measurement::new(window, latencies).expect("measured");
            report.add_latencies("half", "teamwire", &taken).expect("added");
        }
        let tail = &report.series[0].tail;
        // Three of 200 took 50 ms, and no fraction is smaller than one of 200.
        let slow = tail.iter().find(|(ms, _)| *ms > 10.0).expect("the slow ones show");
        assert!((0.012..0.016).contains(&slow.1), "{tail:?}");
        assert!(tail.last().is_some_and(|(_, fraction)| *fraction >= 0.005), "{tail:?}");
    }
}
