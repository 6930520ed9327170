//! What was found: tables for people, which are Markdown, and JSON for programs.

use std::{fmt::Write as _, fs, path::Path, time::Instant};

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use crate::{Result, machine::Machine};

/// One figure of one run: what it is in which unit, and how much.
pub(crate) type Figure = (&'static str, f64);

/// All that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    series: Vec<Series>,
    #[serde(skip)]
    began: Instant,
}

/// What one contender reached in one case, run by run.
#[derive(Debug, Serialize)]
struct Series {
    scenario: &'static str,
    case: String,
    who: String,
    promise: &'static str,
    /// Whom it is compared with.
    floors: Vec<String>,
    /// One for each quantity, the first of which is compared.
    figures: Vec<Quantity>,
}

#[derive(Debug, Serialize)]
struct Quantity {
    name: &'static str,
    runs: Vec<f64>,
}

/// Who has reached something.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// As a table shows it.
    pub(crate) name: String,
    /// What an OK of it is worth.
    pub(crate) promise: &'static str,
    /// Whom it is compared with.
    pub(crate) floors: Vec<String>,
}

impl Report {
    /// Begins one.
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, series: Vec::new(), began: Instant::now() }
    }

    /// Adds what one run has brought. Runs of one case must come for all in turn: a run is compared with that of the floor
    /// beside it.
    pub(crate) fn add(&mut self, scenario: &'static str, case: &str, who: Who, figures: &[Figure]) {
        let shown: Vec<_> = figures.iter().map(|(name, value)| format!("{} {name}", number(*value))).collect();
        let seconds = self.began.elapsed().as_secs();
        eprintln!("{seconds:>5} s  {scenario}, {case}: {}: {}", plain(&who.name), shown.join(", "));
        let known = self
            .series
            .iter()
            .position(|series| series.scenario == scenario && series.case == case && series.who == who.name);
        let at = known.unwrap_or_else(|| {
            let figures = figures.iter().map(|(name, _)| Quantity { name, runs: Vec::new() }).collect();
            let Who { name, promise, floors } = who;
            self.series.push(Series { scenario, case: case.to_owned(), who: name, promise, floors, figures });
            self.series.len() - 1
        });
        for (quantity, (_, value)) in self.series[at].figures.iter_mut().zip(figures) {
            quantity.runs.push(*value);
        }
    }

    /// Returns the figure of the last run of a case, to base another one on.
    pub(crate) fn last(&self, scenario: &str, case: &str, who: &str) -> Option<f64> {
        let found =
            self.series.iter().find(|found| found.scenario == scenario && found.case == case && found.who == who)?;
        found.figures.first()?.runs.last().copied()
    }

    /// Writes the tables of a scenario.
    pub(crate) fn tables(&self, scenario: &str) -> String {
        let mut text = String::new();
        let of_scenario = || self.series.iter().filter(|series| series.scenario == scenario);
        let mut cases: Vec<_> = of_scenario().map(|series| &series.case).collect();
        // In the order in which they came, which takes turns in some scenarios.
        cases.sort_by_key(|case| of_scenario().position(|series| series.case == **case));
        cases.dedup();
        for case in cases {
            let rows: Vec<_> = of_scenario().filter(|series| series.case == *case).collect();
            let _ = writeln!(text, "\n#### {scenario}: {case}\n\n{}", self.table(&rows));
        }
        text
    }

    fn table(&self, rows: &[&Series]) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        let quantities: Vec<_> =
            rows.iter().flat_map(|row| &row.figures).map(|figure| figure.name).fold(Vec::new(), |mut names, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
                names
            });
        let mut header = vec!["who"];
        header.extend(&quantities);
        header.extend(["beside its floors", "an OK means"]);
        table.set_header(header);
        for row in rows {
            let mut cells = vec![row.who.clone()];
            for name in &quantities {
                let runs = row.figures.iter().find(|figure| figure.name == *name).map(|figure| &figure.runs[..]);
                cells.push(runs.map_or(String::new(), spread));
            }
            cells.push(ratios(row, rows));
            cells.push(row.promise.to_owned());
            table.add_row(cells);
        }
        table
    }

    /// Writes all of it as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_vec_pretty(self)?)?)
    }
}

/// Compares the runs of one with those of its floors, each with the one beside it.
fn ratios(row: &Series, rows: &[&Series]) -> String {
    let runs = |row: &Series| row.figures.first().map(|figure| figure.runs.clone()).unwrap_or_default();
    let beside = |floor: &&&Series| row.floors.contains(&floor.who);
    let compare = |floor: &&Series| {
        let ratios: Vec<f64> = runs(row).iter().zip(runs(floor)).map(|(own, floor)| own / floor).collect();
        format!("{} × {}", spread(&ratios), floor.who)
    };
    rows.iter().filter(beside).map(compare).collect::<Vec<_>>().join("; ")
}

/// Writes the median of some runs, with the least and the greatest.
fn spread(runs: &[f64]) -> String {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (sorted.first(), sorted.last()) else { return String::new() };
    let middle = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
    match sorted.len() {
        1 => number(middle),
        _ => format!("{} ({}–{})", number(middle), number(*least), number(*greatest)),
    }
}

/// Writes a number with three digits that matter.
fn number(value: f64) -> String {
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
