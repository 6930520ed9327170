//! Tables.

use comfy_table::{Cell, ContentArrangement, Table, presets};

/// Prints rows under headings, aligned, without lines.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| Cell::new(heading.to_uppercase())));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.to_string().lines() {
        anstream::println!("{}", line.trim_end());
    }
}
