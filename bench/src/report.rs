//! The results: Markdown tables for people, JSON for programs.

use std::{fmt::Write as _, fs, path::Path, time::Instant};

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{Result, machine::Machine, measure::Measurement};

/// A figure of a run: its quantity with unit, and its value.
pub(crate) type Figure = (&'static str, f64);

/// All results.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    series: Vec<Series>,
    absent: Vec<Absent>,
    #[serde(skip)]
    began: Instant,
}

/// The figures of one candidate in one case, run by run.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    scenario: &'static str,
    /// The parameters of the scenario.
    pub(crate) case: String,
    candidate: String,
    promise: &'static str,
    /// The names of the candidates to compare it with.
    baselines: Vec<String>,
    /// One per quantity. Comparisons use the first.
    figures: Vec<Quantity>,
    /// The latencies of all runs, in nanoseconds, if a plot shows them.
    #[serde(skip)]
    pub(crate) latencies: Option<Histogram<u64>>,
}

#[derive(Debug, Serialize)]
struct Quantity {
    name: &'static str,
    runs: Vec<f64>,
}

/// A candidate that was not measured, and why.
#[derive(Debug, Serialize)]
struct Absent {
    scenario: &'static str,
    candidate: String,
    why: String,
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

/// The median, the minimum and the maximum of some runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Report {
    /// Creates an empty report.
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, series: Vec::new(), absent: Vec::new(), began: Instant::now() }
    }

    /// Returns the machine.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Adds the figures of a run. The candidates of a case must take turns: a run is compared with the adjacent run of each
    /// baseline.
    pub(crate) fn add(&mut self, scenario: &'static str, case: &str, candidate: Row, figures: &[Figure]) {
        let shown: Vec<_> = figures.iter().map(|(name, value)| format!("{} {name}", number(*value))).collect();
        let seconds = self.began.elapsed().as_secs();
        eprintln!("{seconds:>5} s  {scenario}, {case}: {}: {}", plain(&candidate.name), shown.join(", "));
        let at = self.find(scenario, case, &candidate.name).unwrap_or_else(|| {
            let figures = figures.iter().map(|(name, _)| Quantity { name, runs: Vec::new() }).collect();
            let Row { name: candidate, promise, baselines } = candidate;
            let case = case.to_owned();
            self.series.push(Series { scenario, case, candidate, promise, baselines, figures, latencies: None });
            self.series.len() - 1
        });
        for (quantity, (_, value)) in self.series[at].figures.iter_mut().zip(figures) {
            quantity.runs.push(*value);
        }
    }

    /// Adds the latencies of a run, for a plot. Its figures must have been added.
    pub(crate) fn add_latencies(
        &mut self,
        scenario: &str,
        case: &str,
        candidate: &str,
        taken: &Measurement,
    ) -> Result<()> {
        let at = self.find(scenario, case, candidate).ok_or("these latencies belong to no run")?;
        match &mut self.series[at].latencies {
            Some(all) => all.add(&taken.latencies)?,
            none => *none = Some(taken.latencies.clone()),
        }
        Ok(())
    }

    /// Adds a candidate that was not measured, and why.
    pub(crate) fn add_absent(&mut self, scenario: &'static str, candidate: impl Into<String>, why: impl Into<String>) {
        let (candidate, why) = (candidate.into(), why.into());
        eprintln!("not measured: {scenario}, {}: {why}", plain(&candidate));
        self.absent.push(Absent { scenario, candidate, why });
    }

    /// Returns the first figure of the last run of a case.
    pub(crate) fn last(&self, scenario: &str, case: &str, candidate: &str) -> Option<f64> {
        self.series[self.find(scenario, case, candidate)?].figures.first()?.runs.last().copied()
    }

    /// Returns the tables of a scenario, with aligned columns for a terminal.
    pub(crate) fn tables(&self, scenario: &str) -> String {
        self.tables_by(scenario, |rows| {
            let mut table = Table::new();
            table.load_style(ASCII_MARKDOWN).set_header(&rows[0]).add_rows(&rows[1..]);
            table.to_string()
        })
    }

    /// Returns the tables of a scenario without padding.
    pub(crate) fn markdown(&self, scenario: &str) -> String {
        self.tables_by(scenario, |rows| {
            let mut lines: Vec<_> = rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
            lines.insert(1, format!("|{}", "---|".repeat(rows[0].len())));
            lines.join("\n")
        })
    }

    /// Returns the results of a scenario, grouped by case.
    pub(crate) fn cases(&self, scenario: &str) -> Vec<Vec<&Series>> {
        let mut cases: Vec<Vec<&Series>> = Vec::new();
        for series in self.series.iter().filter(|series| series.scenario == scenario) {
            // Cases may be interleaved.
            match cases.iter_mut().find(|case| case[0].case == series.case) {
                Some(case) => case.push(series),
                None => cases.push(vec![series]),
            }
        }
        cases
    }

    /// Writes everything as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_vec_pretty(self)?)?)
    }

    fn find(&self, scenario: &str, case: &str, candidate: &str) -> Option<usize> {
        let is = |found: &Series| found.scenario == scenario && found.case == case && found.candidate == candidate;
        self.series.iter().position(is)
    }

    fn tables_by(&self, scenario: &str, table: impl Fn(&[Vec<String>]) -> String) -> String {
        let mut text = String::new();
        let cases = self.cases(scenario);
        if cases.is_empty() {
            for Absent { candidate, why, .. } in self.absent.iter().filter(|absent| absent.scenario == scenario) {
                let _ = write!(text, "{candidate}: not measured: {why}\n\n");
            }
        }
        for case in cases {
            let _ = write!(text, "`{scenario}`, {}:\n\n{}\n\n", case[0].case, table(&self.rows(&case)));
        }
        text
    }

    /// Returns the cells of a table, the header first.
    fn rows(&self, case: &[&Series]) -> Vec<Vec<String>> {
        let mut quantities: Vec<&str> = Vec::new();
        for quantity in case.iter().flat_map(|series| &series.figures) {
            if !quantities.contains(&quantity.name) {
                quantities.push(quantity.name);
            }
        }
        let mut header = vec!["candidate"];
        header.extend(&quantities);
        header.extend(["vs. baselines", "an OK means"]);
        let mut rows = vec![header.into_iter().map(str::to_owned).collect()];
        for series in case {
            let mut cells = vec![series.candidate.clone()];
            for name in &quantities {
                let runs = series.figures.iter().find(|figure| figure.name == *name);
                cells.push(runs.and_then(|figure| Spread::of(&figure.runs)).map_or(String::new(), Spread::write));
            }
            let ratios =
                ratios(series, case).into_iter().map(|(baseline, ratio)| format!("{} × {baseline}", ratio.write()));
            cells.push(ratios.collect::<Vec<_>>().join("; "));
            cells.push(series.promise.to_owned());
            rows.push(cells);
        }
        for absent in self.absent.iter().filter(|absent| absent.scenario == case[0].scenario) {
            let mut cells = vec!["–".to_owned(); quantities.len() + 3];
            cells[0].clone_from(&absent.candidate);
            cells[quantities.len() + 2] = format!("not measured: {}", absent.why);
            rows.push(cells);
        }
        rows
    }
}

impl Series {
    /// Returns the name of the candidate, without Markdown.
    pub(crate) fn candidate(&self) -> String {
        plain(&self.candidate)
    }

    /// Returns the quantity that comparisons use, and its values.
    pub(crate) fn compared(&self) -> Option<(&'static str, Spread)> {
        let figure = self.figures.first()?;
        Some((figure.name, Spread::of(&figure.runs)?))
    }
}

/// Returns the ratios of a candidate to each of its baselines, from adjacent runs.
pub(crate) fn ratios(of: &Series, case: &[&Series]) -> Vec<(String, Spread)> {
    let runs = |series: &Series| series.figures.first().map(|figure| figure.runs.clone()).unwrap_or_default();
    let compare = |baseline: &&Series| {
        let ratios: Vec<f64> = runs(of).iter().zip(runs(baseline)).map(|(own, baseline)| own / baseline).collect();
        Some((baseline.candidate(), Spread::of(&ratios)?))
    };
    case.iter().filter(|baseline| of.baselines.contains(&baseline.candidate)).filter_map(compare).collect()
}

impl Spread {
    fn of(runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median, least, greatest })
    }

    /// Formats it for a table.
    pub(crate) fn write(self) -> String {
        let Self { median, least, greatest } = self;
        // A single run has no spread.
        if least < greatest {
            format!("{} ({}–{})", number(median), number(least), number(greatest))
        } else {
            number(median)
        }
    }
}

/// Formats a number with three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let whole = format!("{value:.0}");
            let cut = whole.len() - 3;
            match cut.checked_sub(3).filter(|cut| *cut > 0) {
                Some(million) => format!("{},{},{}", &whole[..million], &whole[million..cut], &whole[cut..]),
                None => format!("{},{}", &whole[..cut], &whole[cut..]),
            }
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.095 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn plain(name: &str) -> String {
    name.replace("**", "")
}
