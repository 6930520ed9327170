//! Tables.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, presets};

/// How much of a text must fit for a table to be of use, in terminal columns.
const TEXT_WIDTH_MIN: u16 = 12;

/// The space between two columns.
const GAP: u16 = 2;

/// Prints rows under headings, without borders.
///
/// On a terminal, the last column is truncated to the terminal's width. If the others do not fit, each row becomes a
/// block with a line for each column. Elsewhere nothing is truncated.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) {
    table_with_texts(1, headings, rows);
}

/// Prints rows as [`table`] does, but truncates so many of the last columns, which share what the others leave.
pub(crate) fn table_with_texts(texts: usize, headings: &[&str], rows: Vec<Vec<String>>) {
    let width = Table::new().width();
    for line in render(texts, headings, &rows, width).lines() {
        anstream::println!("{}", line.trim_end());
    }
}

/// Renders a table for a terminal of this width. `None` if there is no terminal. `texts`: how many of the last columns
/// may be truncated.
fn render(texts: usize, headings: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let headings: Vec<String> = headings.iter().map(|heading| heading.to_uppercase()).collect();
    let mut table = Table::new();
    table.force_no_tty().load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_truncation_indicator("…");
    table.set_header(headings.iter().map(Cell::new));
    for row in rows {
        table.add_row(row);
    }
    for row in table.row_iter_mut() {
        row.max_height(1);
    }
    let first_text = headings.len().saturating_sub(texts);
    if let Some(width) = width {
        if needed(first_text, &table.column_max_content_widths()) > width {
            return blocks(&headings, rows);
        }
        table.set_width(width);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP));
        if index < first_text {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.to_string()
}

/// Returns how wide a terminal must be for columns whose contents are this wide.
fn needed(first_text: usize, widths: &[u16]) -> u16 {
    let least = |(index, width): (usize, &u16)| if index < first_text { *width } else { (*width).min(TEXT_WIDTH_MIN) };
    widths.iter().enumerate().map(least).fold(0, |sum, width| sum.saturating_add(width + GAP))
}

/// Renders each row as a block: a line for each column that is not empty, and an empty line between two blocks.
fn blocks(headings: &[String], rows: &[Vec<String>]) -> String {
    let width = headings.iter().map(String::len).max().unwrap_or_default();
    let blocks = rows.iter().map(|row| {
        let lines = headings.iter().zip(row).filter(|(_, text)| !text.is_empty());
        lines.map(|(heading, text)| format!("{heading:width$}  {text}\n")).collect::<String>()
    });
    blocks.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["ann", "\u{1b}[32mactive\u{1b}[0m", "5", "reads the plan of the new release"]),
            row(["knowledge-manager", "exited", "0", ""]),
        ]
    }

    #[test]
    fn no_heading_is_ever_broken() {
        for width in 1..120 {
            let text = render(1, &["member", "state", "waits for", "note"], &rows(), Some(width));
            for heading in ["MEMBER", "STATE", "WAITS FOR", "NOTE"] {
                assert!(text.contains(heading), "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_blocks_and_a_wide_one_a_table() {
        let narrow = render(1, &["member", "state", "inbox", "note"], &rows(), Some(40));
        assert_eq!(
            narrow,
            "MEMBER  ann\nSTATE   \u{1b}[32mactive\u{1b}[0m\nINBOX   5\nNOTE    reads the plan of the new release\n\n\
             MEMBER  knowledge-manager\nSTATE   exited\nINBOX   0\n"
        );
        let wide = render(1, &["member", "state", "inbox", "note"], &rows(), Some(60));
        let lines: Vec<&str> = wide.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 3, "{wide}");
        assert!(lines[1].ends_with('…'), "{wide}");
        assert!(render(1, &["member", "state", "inbox", "note"], &rows(), None).contains("plan of the new release"));
    }
    #[test]
    fn texts_share_the_width_of_a_terminal() {
        let row = |summary: &str, state: &str| ["req_1", summary, state].map(str::to_owned).to_vec();
        let rows = [
            row("Move the files to the new directory", "rejected by lead: not before the release"),
            row("x", "pending"),
        ];
        let headings = ["request", "summary", "state"];
        for width in 37..120 {
            let text = render(2, &headings, &rows, Some(width));
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            assert_eq!(lines.len(), 3, "{width}:\n{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{width}:\n{text}");
            assert!(lines[1].contains("Move the") && lines[1].contains("rejected"), "{width}:\n{text}");
        }
        assert!(render(2, &headings, &rows, None).contains("new directory  rejected by lead: not before the release"));
        assert!(render(2, &headings, &rows, Some(30)).contains("SUMMARY  Move the files to the new directory\n"));
    }
}
