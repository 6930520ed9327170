//! Shows the results of a scenario in a terminal: a table for each case, with every figure.

use std::fmt::Write as _;

use comfy_table::{Table, presets::ASCII_MARKDOWN};

use crate::results::{Absent, Results, Series, Spread};

/// Returns all results as text.
pub(crate) fn show(results: &Results) -> String {
    let Results { scenario, absent, runs, seconds, load, .. } = results;
    let mut text = String::new();
    for case in results.cases() {
        let rows = rows(&case);
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(&rows[0]).add_rows(&rows[1..]);
        let _ = write!(text, "`{scenario}`, {}:\n\n{table}\n\n", case[0].case);
    }
    for Absent { candidate, why } in absent {
        let _ = writeln!(text, "{candidate}: not measured: {why}");
    }
    let _ = writeln!(text, "Runs: {runs}, of {seconds} s; {load}.");
    text
}

/// Returns the cells of a table, the header first.
fn rows(case: &[&Series]) -> Vec<Vec<String>> {
    let mut quantities: Vec<&str> = Vec::new();
    for quantity in case.iter().flat_map(|series| &series.figures) {
        if !quantities.contains(&&*quantity.name) {
            quantities.push(&quantity.name);
        }
    }
    let mut header = vec!["candidate"];
    header.extend(&quantities);
    header.extend(["vs. baselines", "an OK means"]);
    let mut rows = vec![header.into_iter().map(str::to_owned).collect()];
    for series in case {
        let mut cells = vec![series.candidate.clone()];
        cells.extend(quantities.iter().map(|name| series.spread(name).map_or(String::new(), Spread::write)));
        let ratios = series.ratios(case).into_iter().map(|(baseline, ratio)| format!("{} × {baseline}", ratio.write()));
        cells.push(ratios.collect::<Vec<_>>().join("; "));
        cells.push(series.promise.clone());
        rows.push(cells);
    }
    rows
}
