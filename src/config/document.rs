//! Reads and edits TOML documents.

use toml_edit::{DocumentMut, TableLike};

use super::key::KEYS;

/// Collects every key of a document: its path, the offset where it starts, and its value.
pub(super) fn leaves<'d>(
    above: &str,
    table: &'d dyn TableLike,
    found: &mut Vec<(String, Option<usize>, &'d toml_edit::Item)>,
) {
    for (name, item) in table.iter() {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        match item.as_table_like() {
            Some(table) if !table.is_empty() => leaves(&path, table, found),
            // A known section without keys is not a key itself.
            Some(_) if KEYS.iter().any(|key| key.path().0 == Some(path.as_str())) => {}
            _ => {
                let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
                found.push((path, span.map(|span| span.start), item));
            }
        }
    }
}

/// Replaces the value of a key and keeps its comments and spacing.
pub(super) fn put(document: &mut DocumentMut, name: &str, value: toml_edit::Value) {
    let (section, key) = name.split_once('.').map_or((None, name), |(section, key)| (Some(section), key));
    let item = match section {
        Some(section) => &mut document[section][key],
        None => &mut document[key],
    };
    let decor = item.as_value().map(|value| value.decor().clone());
    *item = toml_edit::value(value);
    if let (Some(value), Some(decor)) = (item.as_value_mut(), decor) {
        *value.decor_mut() = decor;
    }
}

/// Returns the line number of an offset in a text, starting at 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
