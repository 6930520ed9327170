//! The Markdown tables in `docs/proof.md`: the promises, and the outcome of each fault.

use std::{fs, io, path::Path};

use teamwire_chaos::{
    check::{Counts, PROMISES, promise_table},
    faults::FAULTS,
};

use crate::Outcome;

/// The start of the outcome table's first line.
const HEAD: &str = "| fault | store | seed |";

/// Returns the outcome table, its two header lines included.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<String> {
    let promises: Vec<_> = PROMISES.iter().map(|spec| format!("{:?}", spec.promise)).collect();
    let first = format!(
        "{HEAD} s | faults | sent | delivered | redelivered | claims | decisions | also seen | {} |",
        promises.join(" | ")
    );
    let second = format!("|{}", "---|".repeat(first.matches('|').count() - 1));
    [first, second].into_iter().chain(outcomes.iter().map(row)).collect()
}

fn row(outcome: &Outcome) -> String {
    let Outcome { fault, store, seed, seconds, injections, counts, tried, violations, .. } = outcome;
    let Counts { sent, delivered, redelivered, claimed, decided, .. } = counts;
    let kept = PROMISES.each_ref().map(|spec| {
        match violations.iter().filter(|violation| violation.promise == spec.promise).count() {
            0 if tried.contains(&spec.promise) => "✓".to_owned(),
            0 => "–".to_owned(),
            times => format!("**{times}**"),
        }
    });
    format!(
        "| {fault} | {store:?} | {seed} | {seconds} | {injections} | {sent} | {delivered} | {redelivered} | {claimed} | \
         {decided} | {} | {} |",
        outcome.also_seen(),
        kept.join(" | ")
    )
}

/// Updates the tables of a file: replaces the table of promises, and the outcomes of the same faults and stores. Keeps
/// all other rows. A file without tables gets them at its end.
pub(crate) fn update(file: &Path, outcomes: &[Outcome]) -> io::Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let promises = promise_table();
    let text = replace_table(&text, &promises[0], |_| promises.clone());
    fs::write(file, merge(&text, &rows(outcomes)))
}

/// Replaces the table that starts with a line by what `with` makes of its rows; the header lines are not among them.
fn replace_table(text: &str, head: &str, with: impl FnOnce(&[&str]) -> Vec<String>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().position(|line| line.starts_with(head)).unwrap_or(lines.len());
    let until =
        lines[from..].iter().position(|line| !line.starts_with('|')).map_or(lines.len(), |length| from + length);
    let table = with(lines[from..until].get(2..).unwrap_or_default());
    let before = lines[..from].iter().map(|line| (*line).to_owned());
    let after = lines[until..].iter().map(|line| (*line).to_owned());
    before.chain(table).chain(after).collect::<Vec<_>>().join("\n") + "\n"
}

/// Merges rows into the outcome table of a text, in the order of the faults.
fn merge(text: &str, rows: &[String]) -> String {
    replace_table(text, HEAD, |old| {
        let (head, new) = rows.split_at(2);
        let is_kept = |old: &&&str| !new.iter().any(|row| subject(row) == subject(old));
        let mut merged: Vec<String> = new.to_vec();
        merged.extend(old.iter().filter(is_kept).map(|row| (*row).to_owned()));
        merged.sort_by_key(|row| {
            let (fault, store) = subject(row);
            (FAULTS.iter().position(|known| known.name == fault), store.to_owned())
        });
        head.iter().cloned().chain(merged).collect()
    })
}

/// Returns the fault and the store of a row.
fn subject(row: &str) -> (&str, &str) {
    let mut cells = row.split('|').map(str::trim).skip(1);
    (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_rows_replace_those_of_the_same_fault_and_store_and_no_others() {
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
