//! The page of the results: the text of `page.md`, with a table for each scenario from the files of its figures.
//!
//! A table has one row for each candidate and the columns that matter. Everything else is in the files beside the page.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;

use crate::{
    Result,
    results::{Results, Series, Spread, number},
    scenario::Scenario,
    section::{Column, SectionLayout},
};

/// The text of the page. A line `<!-- NAME -->` is replaced by the table of that scenario.
const TEXT: &str = include_str!("page.md");

/// The line that is replaced by where the figures come from.
const PROVENANCE: &str = "<!-- provenance -->";

/// The directory of the figures, beside the page.
const DATA: &str = "data";

/// Returns the file of a scenario's figures. Creates its directory.
pub(crate) fn data(page: &Path, scenario: Scenario) -> Result<PathBuf> {
    let directory = beside(page).join(DATA);
    fs::create_dir_all(&directory)?;
    Ok(directory.join(format!("{}.json", scenario.name())))
}

/// Returns the directory of a page.
pub(crate) fn beside(page: &Path) -> &Path {
    page.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a page from all figures beside it.
pub(crate) fn write(page: &Path) -> Result<()> {
    Ok(fs::write(page, render(&read(beside(page))?)?)?)
}

/// Reads all figures beside a page.
fn read(directory: &Path) -> Result<Vec<Results>> {
    let files = Scenario::value_variants().iter().map(|scenario| format!("{}.json", scenario.name()));
    let paths = files.map(|file| directory.join(DATA).join(file)).filter(|path| path.exists());
    paths.map(|path| Results::read(&path)).collect()
}

/// Returns the page.
fn render(all: &[Results]) -> Result<String> {
    let differs = all.iter().any(|results| !results.provenance.is_known_to_be(&all[0].provenance));
    let mut page = String::new();
    for line in TEXT.lines() {
        let scenario = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        match scenario {
            _ if line == PROVENANCE => page += &provenance(all, differs),
            Some(name) => {
                let view = Scenario::from_str(name, false)?.view().ok_or("the page shows a scenario without a view")?;
                page += &match all.iter().find(|results| results.scenario == name) {
                    Some(results) => section(results, view, differs),
                    None => "Not measured yet.".to_owned(),
                };
            }
            None => page += line,
        }
        page.push('\n');
    }
    Ok(page)
}

/// Says where the figures come from, and warns if they cannot be compared.
fn provenance(all: &[Results], differs: bool) -> String {
    match all {
        [] => "Nothing has been measured yet.".to_owned(),
        _ if differs => {
            "**The sections don't all come from one known commit on one machine, so don't compare figures from different \
             sections.** Each section says where its figures come from."
                .to_owned()
        }
        [one, ..] => {
            let of = &one.provenance;
            format!("All figures come from one commit on one machine: {}; {}.", of.built(), of.machine.describe())
        }
    }
}

/// Returns a table, followed by its plots and where its figures come from.
fn section(results: &Results, view: SectionLayout, differs: bool) -> String {
    let rows = table(results, view);
    let mut lines: Vec<_> = rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    lines.insert(1, format!("|{}", "---|".repeat(rows[0].len())));
    lines.push(String::new());
    lines.push(footer(results, differs));
    lines.join("\n")
}

fn footer(results: &Results, differs: bool) -> String {
    let Results { scenario, date, provenance, runs, seconds, load, flush_us, note, plots, absent, .. } = results;
    let mut text = String::new();
    if let Some(first) = plots.first() {
        text += &format!("![{}]({}) ", first.title, first.file);
    }
    let links = plots.iter().skip(1).map(|plot| {
        let (_, title) = plot.title.split_once(": ").unwrap_or(("", &plot.title));
        format!("[{title}]({}), ", plot.file)
    });
    text.extend(links);
    let noun = if *runs == 1 { "run" } else { "runs" };
    text += &format!("[data]({DATA}/{scenario}.json): {runs} {noun} of {} s on {date}; {load}; ", number_of(*seconds));
    text += &format!("a flush of 4 KiB took {} µs.", number(*flush_us));
    if differs {
        text += &format!(" {}; {}.", provenance.built(), provenance.machine.describe());
    }
    if let Some(note) = note {
        text += &format!(" {note}");
    }
    for absent in absent {
        text += &format!(" {} was not measured: {}.", absent.candidate, absent.why);
    }
    text
}

/// Formats seconds without needless decimals.
fn number_of(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("{seconds:.0}") } else { number(seconds) }
}

/// Returns the cells of a table, the header first. Leaves out columns without figures.
fn table(results: &Results, view: SectionLayout) -> Vec<Vec<String>> {
    let cases = results.cases();
    let mut candidates: Vec<&Series> = Vec::new();
    for series in cases.iter().flatten() {
        let is_shown = !view.only_compared || !series.baselines.is_empty();
        if is_shown && !candidates.iter().any(|known| known.candidate == series.candidate) {
            candidates.push(series);
        }
    }
    let of = |candidate: &Series, part: &str| {
        let cases = cases.iter().filter(|case| case[0].case.contains(part));
        let found = |case: &Vec<&Series>| case.iter().position(|series| series.candidate == candidate.candidate);
        cases.filter_map(|case| Some((case.clone(), found(case)?))).next()
    };
    let figure = |candidate: &Series, (_, part, quantity): &Column| {
        let (case, at) = of(candidate, part)?;
        Some(number(case[at].spread(quantity)?.median))
    };
    let ratios = |candidate: &Series| {
        let Some((case, at)) = of(candidate, view.compared) else { return String::new() };
        let write = |(baseline, ratio): (String, Spread)| format!("{} × {baseline}", ratio.write());
        case[at].ratios(&case).into_iter().map(write).collect::<Vec<_>>().join("; ")
    };
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    columns.push(("candidate".to_owned(), candidates.iter().map(|series| series.candidate.clone()).collect()));
    for column in view.columns {
        let cells = candidates.iter().map(|candidate| figure(candidate, column).unwrap_or_default());
        columns.push((column.0.to_owned(), cells.collect()));
    }
    let first = view.columns.iter().find(|(_, part, _)| *part == view.compared).map_or("", |(heading, ..)| heading);
    columns.push((format!("{first} vs. baselines"), candidates.iter().map(|candidate| ratios(candidate)).collect()));
    columns.push(("an OK means".to_owned(), candidates.iter().map(|series| series.promise.clone()).collect()));
    columns.retain(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()));
    let header = columns.iter().map(|(heading, _)| heading.trim().to_owned()).collect();
    let row = |at: usize| columns.iter().map(|(_, cells)| cells[at].clone()).collect();
    [header].into_iter().chain((0..candidates.len()).map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    const VIEW: SectionLayout = SectionLayout {
        columns: &[
            ("8: sends/s", "8 callers", "sends/s"),
            ("64: sends/s", "64 callers", "sends/s"),
            ("p50 ms", "64 callers", "p50 ms"),
            ("CPU", "64 callers", "not measured"),
        ],
        compared: "64 callers",
        only_compared: false,
    };

    /// The committed page, with its figures beside it.
    fn committed() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks/results.md")
    }

    #[test]
    fn a_table_has_a_row_for_each_candidate_and_the_columns_with_figures() {
        let rows: Vec<_> = table(&results("send", "1a2b"), VIEW).iter().map(|row| row.join(" | ")).collect();
        assert_eq!(
            rows,
            [
                "candidate | 8: sends/s | 64: sends/s | p50 ms | 64: sends/s vs. baselines | an OK means",
                "null server |  | 2,000 | 2.00 |  | on disk",
                "**teamwire** | 100 | 1,000 | 2.00 | 0.75 (0.50–0.90) × null server | on disk",
            ]
        );
    }

    #[test]
    fn a_page_of_one_commit_names_it_once() {
        let page = render(&[results("send", "1a2b"), results("latency", "1a2b")]).expect("rendered");
        assert!(
            page.contains("All figures come from one commit on one machine: teamwire 1.2.3, commit 1a2b; 2 ×"),
            "{page}"
        );
        assert_eq!(page.matches("commit 1a2b").count(), 1, "{page}");
        assert!(page.contains("[data](data/send.json): 3 runs of 5 s on 2026-11-24; others idle;"), "{page}");
        assert!(page.contains("Not measured yet."), "the other scenarios have no figures: {page}");
    }

    #[test]
    fn a_page_of_two_commits_or_machines_warns_at_the_top_and_names_them_in_each_section() {
        let page = render(&[results("send", "1a2b"), results("latency", "3c4d")]).expect("rendered");
        let warning = page.find("**The sections don't all come").expect("a warning");
        assert!(warning < page.find("\n## ").expect("a section"), "{page}");
        assert!(page.contains("commit 1a2b; 2 × processor") && page.contains("commit 3c4d; 2 × processor"), "{page}");

        let mut other = results("latency", "1a2b");
        other.provenance.machine.kernel = "7.0".to_owned();
        let page = render(&[results("send", "1a2b"), other]).expect("rendered");
        assert!(
            page.contains("**The sections don't all come") && page.contains("Linux 6.18") && page.contains("Linux 7.0")
        );

        let mut old = results("send", "1a2b");
        old.provenance.commit = None;
        let page = render(&[old]).expect("rendered");
        assert!(page.contains("**The sections don't all come") && page.contains("commit not recorded; 2 ×"), "{page}");
    }

    #[test]
    fn the_page_has_every_scenario_once() {
        for scenario in Scenario::value_variants().iter().filter(|scenario| scenario.view().is_some()) {
            let line = format!("<!-- {} -->", scenario.name());
            assert_eq!(TEXT.lines().filter(|found| *found == line).count(), 1, "{line}");
        }
        assert_eq!(TEXT.lines().filter(|line| *line == PROVENANCE).count(), 1);
    }

    #[test]
    fn the_committed_page_is_rendered_from_the_committed_figures_and_is_short() {
        let page = fs::read_to_string(committed()).expect("a page");
        let rendered = render(&read(beside(&committed())).expect("figures")).expect("rendered");
        assert!(page == rendered, "run `cargo run --package teamwire-bench -- --render docs/benchmarks/results.md`");
        assert!(page.lines().count() <= 200, "the page has {} lines", page.lines().count());
    }

    #[test]
    fn every_column_of_the_committed_page_has_figures() {
        // What earlier versions of the benchmark, which recorded no commit, did not measure.
        let is_new = |quantity: &str| quantity.contains("CPU") || quantity.starts_with("late ");
        for results in read(beside(&committed())).expect("figures") {
            let scenario = Scenario::from_str(&results.scenario, false).expect("a scenario");
            let is_old = results.provenance.commit.is_none();
            let view = scenario.view().expect("a view");
            for column in view.columns.iter().filter(|column| !(is_old && is_new(column.2))) {
                let view = SectionLayout { columns: std::slice::from_ref(column), ..view };
                let header = &table(&results, view)[0];
                assert!(header.iter().any(|heading| heading == column.0), "{}: {column:?}", results.scenario);
            }
        }
    }
}
