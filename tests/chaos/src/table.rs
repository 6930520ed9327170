//! The table of what came of faults.

use std::{fs, io, path::Path};

use teamwire_chaos::{
    check::{Counts, Promise},
    faults::FAULTS,
};

use crate::Outcome;

/// How its first row begins.
const HEAD: &str = "| fault | store | seed |";

/// Returns the rows of a table, the two of its head included.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<String> {
    let promises: Vec<_> = Promise::ALL.iter().map(|promise| format!("{promise:?}")).collect();
    let first = format!(
        "{HEAD} s | strikes | sent | handed out | again | claims | decisions | seen besides | {} |",
        promises.join(" | ")
    );
    let second = format!("|{}", "---|".repeat(first.matches('|').count() - 1));
    [first, second].into_iter().chain(outcomes.iter().map(row)).collect()
}

fn row(outcome: &Outcome) -> String {
    let Outcome { fault, store, seed, seconds, strikes, counts, tried, violations } = outcome;
    let Counts { sent, delivered, redelivered, claimed, decided, .. } = counts;
    let kept =
        Promise::ALL.map(|promise| match violations.iter().filter(|violation| violation.promise == promise).count() {
            0 if tried.contains(&promise) => "✓".to_owned(),
            0 => "–".to_owned(),
            times => format!("**{times}**"),
        });
    format!(
        "| {fault} | {store:?} | {seed} | {seconds} | {strikes} | {sent} | {delivered} | {redelivered} | {claimed} | {decided} | \
         {} | {} |",
        outcome.besides(),
        kept.join(" | ")
    )
}

/// Puts the rows into the table of a file. What stands there of other faults and stores stays; a file without a table gets
/// one at its end.
pub(crate) fn put(file: &Path, outcomes: &[Outcome]) -> io::Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    fs::write(file, merge(&text, &rows(outcomes)))
}

/// Returns the text with the rows in its table, in the order of the faults.
fn merge(text: &str, rows: &[String]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().position(|line| line.starts_with(HEAD)).unwrap_or(lines.len());
    let until =
        lines[from..].iter().position(|line| !line.starts_with('|')).map_or(lines.len(), |length| from + length);
    let mut merged: Vec<&str> = rows[2..].iter().map(String::as_str).collect();
    let is_new = |old: &&str| !rows[2..].iter().any(|row| about(row) == about(old));
    merged.extend(lines[from..until].iter().skip(2).copied().filter(is_new));
    merged.sort_by_key(|row| {
        let (fault, store) = about(row);
        (FAULTS.iter().position(|known| known.name == fault), store.to_owned())
    });
    let table = rows[..2].iter().map(String::as_str).chain(merged);
    let all: Vec<&str> = lines[..from].iter().copied().chain(table).chain(lines[until..].iter().copied()).collect();
    all.join("\n") + "\n"
}

/// Returns the fault and the store of a row.
fn about(row: &str) -> (&str, &str) {
    let mut cells = row.split('|').map(str::trim).skip(1);
    (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_takes_the_place_of_what_was_there_and_nothing_else() {
        let head = [format!("{HEAD} x |"), "|---|---|---|---|".to_owned()];
        let with = |rows: &[&str]| [&head[..], &rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>()].concat();
        let before = "text\n\n".to_owned()
            + &with(&["| none | Redis | 1 | a |", "| member-killed | Redis | 2 | b |"]).join("\n");
        let after = merge(
            &(before + "\n\nmore\n"),
            &with(&["| member-killed | Redis | 3 | c |", "| none | Embedded | 4 | d |"]),
        );
        let expected = ["| none | Embedded | 4 | d |", "| none | Redis | 1 | a |", "| member-killed | Redis | 3 | c |"];
        assert_eq!(after, "text\n\n".to_owned() + &with(&expected).join("\n") + "\n\nmore\n");
        assert_eq!(merge("text\n", &with(&expected)), "text\n".to_owned() + &with(&expected).join("\n") + "\n");
    }
}
