//! Tables.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, presets};

/// Prints rows under headings, without borders.
///
/// On a terminal, the last column is truncated to the terminal's width; elsewhere nothing is truncated.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_truncation_indicator("…");
    table.set_header(headings.iter().map(|heading| Cell::new(heading.to_uppercase())));
    for row in rows {
        table.add_row(row);
    }
    for row in table.row_iter_mut() {
        row.max_height(1);
    }
    let last = headings.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index < last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for line in table.to_string().lines() {
        anstream::println!("{}", line.trim_end());
    }
}
