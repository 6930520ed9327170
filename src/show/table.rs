//! Tables.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, presets};

/// How much of the last column must fit for a table to be of use, in terminal columns.
const LAST_WIDTH_MIN: u16 = 12;

/// The space between two columns.
const GAP: u16 = 2;

/// Prints rows under headings, without borders.
///
/// On a terminal, the last column is truncated to the terminal's width. If the others do not fit, each row becomes a block
/// with a line for each column. Elsewhere nothing is truncated.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) {
    let width = Table::new().width();
    for line in render(headings, &rows, width).lines() {
        anstream::println!("{}", line.trim_end());
    }
}

/// Renders a table for a terminal of this width. `None`: there is no terminal.
fn render(headings: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
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
    if let Some(width) = width {
        if needed(&table.column_max_content_widths()) > width {
            return blocks(&headings, rows);
        }
        table.set_width(width);
    }
    let last = headings.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, GAP));
        if index < last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.to_string()
}

/// Returns how wide a terminal must be for columns whose contents are this wide.
fn needed(widths: &[u16]) -> u16 {
    let Some((last, others)) = widths.split_last() else { return 0 };
    others.iter().fold((*last).min(LAST_WIDTH_MIN) + GAP, |sum, width| sum.saturating_add(width + GAP))
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
            let text = render(&["member", "state", "waits for", "note"], &rows(), Some(width));
            for heading in ["MEMBER", "STATE", "WAITS FOR", "NOTE"] {
                assert!(text.contains(heading), "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn a_narrow_terminal_gets_blocks_and_a_wide_one_a_table() {
        let narrow = render(&["member", "state", "inbox", "note"], &rows(), Some(40));
        assert_eq!(
            narrow,
            "MEMBER  ann\nSTATE   \u{1b}[32mactive\u{1b}[0m\nINBOX   5\nNOTE    reads the plan of the new release\n\n\
             MEMBER  knowledge-manager\nSTATE   exited\nINBOX   0\n"
        );
        let wide = render(&["member", "state", "inbox", "note"], &rows(), Some(60));
        let lines: Vec<&str> = wide.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 3, "{wide}");
        assert!(lines[1].ends_with('…'), "{wide}");
        assert!(render(&["member", "state", "inbox", "note"], &rows(), None).contains("plan of the new release"));
    }
}
