//! The results of a scenario, as they are kept: the figures of every run, and where they come from.
//!
//! A file is JSON with a line for each series, so that a difference between two versions of it can be read.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Result, provenance::Provenance};

/// The results of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) scenario: String,
    /// When it was measured: year, month and day.
    pub(crate) date: String,
    pub(crate) provenance: Provenance,
    /// How many runs there are of each candidate, and for how many seconds a run was measured.
    pub(crate) runs: u32,
    pub(crate) seconds: f64,
    /// What other programs did meanwhile.
    pub(crate) load: String,
    /// The median time to append 4 KiB to a file and flush them, in the directory of the stores.
    pub(crate) flush_us: f64,
    /// What a reader must know about these figures in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The plots that show it.
    pub(crate) plots: Vec<Plot>,
    pub(crate) absent: Vec<Absent>,
    pub(crate) series: Vec<Series>,
}

/// A plot in a file beside the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plot {
    pub(crate) file: String,
    pub(crate) title: String,
}

/// A candidate that was not measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absent {
    pub(crate) candidate: String,
    pub(crate) why: String,
}

/// The figures of one candidate in one case, run by run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// The parameters of the scenario.
    pub(crate) case: String,
    /// Its name, which may be Markdown.
    pub(crate) candidate: String,
    /// What its OK guarantees.
    pub(crate) promise: String,
    /// The names of the candidates to compare it with.
    pub(crate) baselines: Vec<String>,
    /// One per quantity. Comparisons use the first.
    pub(crate) figures: Vec<Quantity>,
    /// Points of a plot, of all runs: milliseconds, and the fraction of latencies that took longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tail: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantity {
    pub(crate) name: String,
    pub(crate) runs: Vec<f64>,
}

/// The median, the minimum and the maximum of some runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Results {
    /// Reads them from a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| named(&error))?;
        Ok(serde_json::from_slice(&text).map_err(|error| named(&error))?)
    }

    /// Writes them to a file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, self.to_json()? + "\n")?)
    }

    /// Returns them as JSON, with a line for each series.
    pub(crate) fn to_json(&self) -> Result<String> {
        let without = Self { series: Vec::new(), ..self.clone() };
        let series: Vec<_> = self.series.iter().map(serde_json::to_string).collect::<std::result::Result<_, _>>()?;
        let text = serde_json::to_string_pretty(&without)?;
        let lines = format!("\"series\": [\n    {}\n  ]", series.join(",\n    "));
        Ok(text.replace("\"series\": []", &lines))
    }

    /// Returns the series, grouped by case.
    pub(crate) fn cases(&self) -> Vec<Vec<&Series>> {
        let mut cases: Vec<Vec<&Series>> = Vec::new();
        for series in &self.series {
            // Cases may be interleaved.
            match cases.iter_mut().find(|case| case[0].case == series.case) {
                Some(case) => case.push(series),
                None => cases.push(vec![series]),
            }
        }
        cases
    }
}

impl Series {
    /// Returns the name of the candidate, without Markdown.
    pub(crate) fn plain_candidate(&self) -> String {
        plain(&self.candidate)
    }

    /// Returns the spread of a quantity.
    pub(crate) fn spread(&self, quantity: &str) -> Option<Spread> {
        Spread::of(&self.figures.iter().find(|figure| figure.name == quantity)?.runs)
    }

    /// Returns the quantity that comparisons use, and its values.
    pub(crate) fn compared(&self) -> Option<(&str, Spread)> {
        let figure = self.figures.first()?;
        Some((&figure.name, Spread::of(&figure.runs)?))
    }

    /// Returns its ratios to each of its baselines, from adjacent runs.
    pub(crate) fn ratios(&self, case: &[&Self]) -> Vec<(String, Spread)> {
        let runs = |series: &Self| series.figures.first().map(|figure| figure.runs.clone()).unwrap_or_default();
        let compare = |baseline: &&Self| {
            let ratios: Vec<f64> =
                runs(self).iter().zip(runs(baseline)).map(|(own, baseline)| own / baseline).collect();
            Some((baseline.plain_candidate(), Spread::of(&ratios)?))
        };
        case.iter().filter(|baseline| self.baselines.contains(&baseline.candidate)).filter_map(compare).collect()
    }
}

impl Spread {
    /// Returns that of some runs. `None` if there are none.
    pub(crate) fn of(runs: &[f64]) -> Option<Self> {
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

/// Removes Markdown from a name.
pub(crate) fn plain(name: &str) -> String {
    name.replace("**", "")
}

/// Rounds a figure to the digits that are kept.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::provenance::tests::provenance;

    /// Returns the results of a scenario with a baseline and a candidate, measured at a commit.
    pub(crate) fn results(scenario: &str, commit: &str) -> Results {
        let series = |case: &str, candidate: &str, baselines: &[&str], runs: [f64; 3]| Series {
            case: case.to_owned(),
            candidate: candidate.to_owned(),
            promise: "on disk".to_owned(),
            baselines: baselines.iter().map(ToString::to_string).collect(),
            figures: vec![
                Quantity { name: "sends/s".to_owned(), runs: runs.to_vec() },
                Quantity { name: "p50 ms".to_owned(), runs: vec![1.0, 2.0, 4.0] },
            ],
            tail: vec![(0.5, 1.0), (2.5, 0.01)],
        };
        Results {
            scenario: scenario.to_owned(),
            date: "2026-11-24".to_owned(),
            provenance: provenance(commit),
            runs: 3,
            seconds: 5.0,
            load: "others idle".to_owned(),
            flush_us: 150.0,
            note: None,
            plots: vec![Plot { file: format!("{scenario}.svg"), title: format!("{scenario}: figures") }],
            absent: Vec::new(),
            series: vec![
                series("64 callers, closed loop", "null server", &[], [1000.0, 2000.0, 4000.0]),
                series("64 callers, closed loop", "**teamwire**", &["null server"], [900.0, 1000.0, 3000.0]),
                series("8 callers, closed loop", "**teamwire**", &["null server"], [90.0, 100.0, 300.0]),
            ],
        }
    }

    #[test]
    fn a_file_has_a_line_for_each_series_and_reads_back_the_same() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let results = results("send", "1a2b");
        results.write(file.path()).expect("written");
        let text = fs::read_to_string(file.path()).expect("read");
        assert_eq!(text.lines().filter(|line| line.contains("\"candidate\"")).count(), 3, "{text}");
        assert_eq!(Results::read(file.path()).expect("parsed"), results);
    }

    #[test]
    fn a_ratio_compares_each_run_with_the_run_of_the_baseline_beside_it() {
        let results = results("send", "1a2b");
        let cases = results.cases();
        let [(baseline, ratio)] = &cases[0][1].ratios(&cases[0])[..] else { panic!("it has one baseline") };
        assert_eq!(baseline, "null server");
        // 900 / 1000, 1000 / 2000, 3000 / 4000: not 1000 / 2000 of the medians.
        assert_eq!(ratio.write(), "0.75 (0.50–0.90)");
        assert!(cases[1][0].ratios(&cases[1]).is_empty(), "its baseline was not measured in this case");
    }

    #[test]
    fn numbers_have_three_digits_and_are_kept_with_six() {
        let shown: Vec<_> = [0.0123, 0.5, 12.34, 123.4, 1234.0, 1_234_567.0].map(number).to_vec();
        assert_eq!(shown, ["0.012", "0.50", "12.3", "123", "1,234", "1,234,567"]);
        assert!((rounded(1_234.567_89) - 1_234.57).abs() < 1e-9);
    }
}
