//! Plots of the results, as SVG with a white background, readable on any page.

use std::{fs, path::Path};

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Result, Store,
    results::{Plot, Results, Series, Spread, number},
};

/// The width of a picture, and the heights of a row of bars, a title and a panel with axes, in pixels.
const WIDTH: i32 = 960;
const ROW: i32 = 22;
const TITLE: i32 = 34;
const PANEL: i32 = 360;

/// Where bars end and their figures start; and the approximate width of a letter, in pixels.
const BARS_END: i32 = 780;
const LETTER: f64 = 6.6;

const FONT: &str = "sans-serif";
const TEXT: RGBColor = RGBColor(36, 41, 47);
const RULE: RGBColor = RGBColor(208, 215, 222);
const TEAMWIRE: RGBColor = RGBColor(9, 105, 218);
/// The colors of all other candidates: of their bars; and of their lines, in turn.
const OTHER: RGBColor = RGBColor(110, 119, 129);
const OTHERS: [RGBColor; 8] = [
    RGBColor(188, 76, 0),
    RGBColor(110, 119, 129),
    RGBColor(26, 127, 55),
    RGBColor(130, 80, 223),
    RGBColor(191, 57, 137),
    RGBColor(154, 103, 0),
    RGBColor(207, 34, 46),
    RGBColor(27, 124, 131),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the results of a scenario into files in a directory.
pub(crate) fn draw(results: &Results, directory: &Path) -> Result<Vec<Plot>> {
    fs::create_dir_all(directory)?;
    let (scenario, cases) = (&results.scenario, results.cases());
    // Three or more cases that differ only in their leading number, and in the plural after it, become the points of
    // lines.
    let after_number = |case: &[&Series]| case[0].case.split_once(' ').map(|(_, rest)| rest.to_owned());
    let singular = |case: &[&Series]| after_number(case).map(|rest| rest.replacen("s,", ",", 1));
    let is_point = |case: &Vec<&Series>| {
        let alike = cases.iter().filter(|other| singular(other) == singular(case)).count();
        at(case[0]).is_some() && alike >= 3
    };
    let (points, single): (Vec<_>, Vec<_>) = cases.iter().cloned().partition(is_point);
    let mut plots = Vec::new();
    let mut plot = |name: &str, title: &str| {
        let plot = Plot { file: format!("{scenario}{name}.svg"), title: format!("{scenario}: {title}") };
        let path = directory.join(&plot.file);
        plots.push(plot);
        path
    };
    if let Some(last) = points.last() {
        let quantity = last[0].compared().map_or("", |(name, _)| name);
        let at = after_number(last).unwrap_or_default();
        lines(&plot("", &format!("{quantity} by {at}")), quantity, &at, &points)?;
    }
    if !single.is_empty() {
        let (name, title) = if points.is_empty() { ("", "figures") } else { ("-more", "more figures") };
        bars(&plot(name, title), &single)?;
    }
    if cases.iter().any(|case| case.iter().any(|series| !series.ratios(case).is_empty())) {
        ratio_bars(&plot("-ratios", "ratios"), &cases)?;
    }
    if let Some(case) = cases.iter().find(|case| case.iter().any(|series| !series.tail.is_empty())) {
        tails(&plot("-tail", "latency tail"), case)?;
    }
    Ok(plots)
}

/// Draws the compared quantity over the leading number of the cases, with a panel per store.
fn lines(path: &Path, quantity: &str, at_what: &str, cases: &[Vec<&Series>]) -> Result<()> {
    let all: Vec<_> = cases.iter().flatten().copied().collect();
    panels(path, &all, |area, title, candidate| {
        let of_one = |candidate: &str| -> Vec<(f64, f64)> {
            let own = all.iter().filter(|series| series.plain_candidate() == candidate);
            own.filter_map(|series| Some((at(series)?, series.compared()?.1.median))).collect()
        };
        let lines: Vec<_> = candidate.iter().map(|candidate| (candidate.clone(), of_one(candidate))).collect();
        axes(area, title, (at_what, quantity), SeriesLabelPosition::UpperLeft, &lines)
    })
}

/// Draws the fraction of latencies that exceed a time, with a panel per store.
fn tails(path: &Path, case: &[&Series]) -> Result<()> {
    panels(path, case, |area, title, candidate| {
        let of_one = |candidate: &str| -> Vec<(f64, f64)> {
            let found = case.iter().find(|series| series.plain_candidate() == candidate);
            found.map(|series| series.tail.clone()).unwrap_or_default()
        };
        let lines: Vec<_> = candidate.iter().map(|candidate| (candidate.clone(), of_one(candidate))).collect();
        axes(area, title, ("ms", "fraction that took longer"), SeriesLabelPosition::LowerLeft, &lines)
    })
}

/// Draws a panel per store, with the candidates on that store and those on none.
fn panels(path: &Path, all: &[&Series], panel: impl Fn(&Area<'_>, &str, &[String]) -> Result<()>) -> Result<()> {
    let mut candidate: Vec<String> = Vec::new();
    for series in all {
        if !candidate.contains(&series.plain_candidate()) {
            candidate.push(series.plain_candidate());
        }
    }
    let stores = [Store::Embedded, Store::RedisAlways, Store::RedisEverysec].map(|store| store.to_string());
    let stores: Vec<_> =
        stores.iter().filter(|store| candidate.iter().any(|candidate| candidate.contains(*store))).collect();
    let is_of = |candidate: &str, store: &str| {
        candidate.contains(store) || !stores.iter().any(|store| candidate.contains(*store))
    };
    let root = canvas(path, PANEL * i32::try_from(stores.len().max(1))?)?;
    for (area, store) in root.split_evenly((stores.len().max(1), 1)).iter().zip(&stores) {
        let candidate: Vec<_> = candidate.iter().filter(|candidate| is_of(candidate, store)).cloned().collect();
        panel(area, store, &candidate)?;
    }
    Ok(root.present()?)
}

/// A line: its candidate and its points.
type Line = (String, Vec<(f64, f64)>);

/// Draws lines on logarithmic axes.
fn axes(area: &Area<'_>, title: &str, (x, y): (&str, &str), names: SeriesLabelPosition, lines: &[Line]) -> Result<()> {
    let all = || lines.iter().flat_map(|(_, points)| points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (least, greatest) = all().map(of).fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        least..greatest.max(least * 1.01)
    };
    if all().next().is_none() {
        return Ok(());
    }
    let (across, up) = (range(|point| point.0), range(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 16).into_font().color(&TEXT))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(across.log_scale(), (up.start * 0.9..up.end * 1.1).log_scale())?;
    let label = |value: &f64| number(*value);
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RULE)
        .axis_style(RULE)
        .label_style((FONT, 12).into_font().color(&TEXT))
        .axis_desc_style((FONT, 13).into_font().color(&TEXT))
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .x_desc(x)
        .y_desc(y)
        .draw()?;
    for (at, (candidate, points)) in lines.iter().enumerate() {
        let (color, width) = if is_teamwire(candidate) { (TEAMWIRE, 3) } else { (OTHERS[at % OTHERS.len()], 2) };
        let style = color.stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(candidate)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(names)
        .background_style(WHITE.mix(0.8))
        .border_style(RULE)
        .label_font((FONT, 12).into_font().color(&TEXT))
        .draw()?;
    Ok(())
}

/// Draws the compared quantity of each case as bars, with minimum and maximum.
fn bars(path: &Path, cases: &[Vec<&Series>]) -> Result<()> {
    let groups: Vec<_> = cases
        .iter()
        .map(|case| {
            let (quantity, _) = case[0].compared().unwrap_or(("", Spread::default()));
            let bars = case.iter().filter_map(|series| Some((series.plain_candidate(), series.compared()?.1)));
            (format!("{}: {quantity}", case[0].case), bars.collect::<Vec<_>>())
        })
        .collect();
    draw_bars(
        path,
        &groups,
        |candidate| if is_teamwire(candidate) { TEAMWIRE } else { OTHER },
        |bars| {
            let greatest = bars.iter().map(|(_, spread)| spread.greatest).fold(0.0, f64::max);
            (0.0, Box::new(move |value| value / greatest.max(f64::MIN_POSITIVE)))
        },
    )
}

/// Draws ratios to the baselines as bars that start at 1.
fn ratio_bars(path: &Path, cases: &[Vec<&Series>]) -> Result<()> {
    let groups: Vec<_> = cases
        .iter()
        .map(|case| {
            let (quantity, _) = case[0].compared().unwrap_or(("", Spread::default()));
            let of_one = |series: &&Series| {
                let own = series.plain_candidate();
                series.ratios(case).into_iter().map(move |(baseline, ratio)| (format!("{own} / {baseline}"), ratio))
            };
            let bars = case.iter().flat_map(|series| of_one(series).collect::<Vec<_>>());
            (format!("{}: {quantity}, own / baseline", case[0].case), bars.collect::<Vec<_>>())
        })
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    draw_bars(
        path,
        &groups,
        |_| TEAMWIRE,
        |bars| {
            let ends = bars.iter().flat_map(|(_, spread)| [spread.least, spread.greatest]);
            let far = ends.filter(|end| *end > 0.0).map(|end| end.ln().abs()).fold(2_f64.ln(), f64::max);
            (1.0, Box::new(move |value: f64| 0.5 + value.max(f64::MIN_POSITIVE).ln() / far / 2.0))
        },
    )
}

/// Maps a value to a position from 0 to 1.
type Scale = Box<dyn Fn(f64) -> f64>;

/// Draws groups of bars. `scale` returns the value where the bars of a group start, and the scale.
fn draw_bars(
    path: &Path,
    groups: &[(String, Vec<(String, Spread)>)],
    color: impl Fn(&str) -> RGBColor,
    scale: impl Fn(&[(String, Spread)]) -> (f64, Scale),
) -> Result<()> {
    let rows = groups.iter().map(|(_, bars)| bars.len()).sum::<usize>();
    let height = ROW * i32::try_from(rows)? + TITLE * i32::try_from(groups.len())? + ROW;
    let root = canvas(path, height)?;
    let words =
        |size: i32, at: HPos| TextStyle::from((FONT, size).into_font()).color(&TEXT).pos(Pos::new(at, VPos::Center));
    let longest =
        groups.iter().flat_map(|(_, bars)| bars).map(|(candidate, _)| candidate.chars().count()).max().unwrap_or(0);
    let left = 24 + (longest as f64 * LETTER) as i32;
    let mut top = 0;
    for (title, bars) in groups {
        root.draw(&Text::new(title.as_str(), (12, top + TITLE / 2), words(15, HPos::Left)))?;
        top += TITLE;
        let (origin, scale) = scale(bars);
        let x = |value: f64| left + (scale(value) * f64::from(BARS_END - left)).round() as i32;
        let bottom = top + ROW * i32::try_from(bars.len())?;
        root.draw(&PathElement::new([(x(origin), top), (x(origin), bottom)], RULE))?;
        for (candidate, spread) in bars {
            let middle = top + ROW / 2;
            let corners = [(x(origin), top + 4), (x(spread.median), top + ROW - 4)];
            root.draw(&Rectangle::new(corners, color(candidate).mix(0.75).filled()))?;
            root.draw(&PathElement::new([(x(spread.least), middle), (x(spread.greatest), middle)], TEXT))?;
            root.draw(&Text::new(candidate.as_str(), (left - 8, middle), words(12, HPos::Right)))?;
            root.draw(&Text::new(spread.write(), (BARS_END + 8, middle), words(12, HPos::Left)))?;
            top += ROW;
        }
    }
    Ok(root.present()?)
}

fn canvas(path: &Path, height: i32) -> Result<Area<'_>> {
    let root = SVGBackend::new(path, (WIDTH.unsigned_abs(), height.unsigned_abs())).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

/// Returns the leading number of a case.
fn at(series: &Series) -> Option<f64> {
    series.case.split(' ').next()?.parse().ok()
}

fn is_teamwire(candidate: &str) -> bool {
    candidate.contains("teamwire")
}
