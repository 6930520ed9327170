//! Checks the prose of the repository: its spelling, and the phrases that `docs/prose.md` lists.
//!
//! A phrase is a sequence of words, so it also matches across a line break inside a comment, and in a name in snake
//! case. Each row of the table is a phrase, what to write instead, and why.

use std::{collections::HashMap, fs};

use crate::step::{Failure, Step, root};

/// The page whose table lists the phrases.
const PAGE: &str = "docs/prose.md";

/// What `git ls-files` selects: text that people write.
const CHECKED: [&str; 20] = [
    "*.go",
    "*.java",
    "*.lua",
    "*.md",
    "*.proto",
    "*.js",
    "*.py",
    "*.rs",
    "*.sh",
    "*.svelte",
    "*.toml",
    "*.tpl",
    "*.ts",
    "*.txt",
    "*.yaml",
    "*Dockerfile",
    ":(exclude,attr:linguist-generated)",
    ":(exclude)CHANGELOG.md",
    ":(exclude)docs/prose.md",
    ":(exclude)fuzz/corpus",
];

const ADVICE: &str = "rewrite each as docs/prose.md suggests";

/// A row of the table.
struct Phrase {
    /// What the page shows.
    shown: String,
    /// The alternatives for each word, in lower case.
    words: Vec<Vec<String>>,
    instead: String,
    why: String,
}

/// Reports every listed phrase with its file, line and remedy. Fails if there is one.
pub(crate) fn check() -> Result<(), Failure> {
    let phrases = Phrases::read()?;
    let list = [&["ls-files", "--cached", "--others", "--exclude-standard", "--"][..], &CHECKED].concat();
    let files = Step::new("git", &list).output().ok_or_else(|| {
        Failure::new(
            "git cannot list the files to check",
            "run this in a clone of the repository, with git 2.13 or newer",
        )
    })?;
    let mut found = 0;
    for file in files.lines() {
        // A file that was deleted and not yet committed is still listed.
        let Ok(text) = fs::read(root().join(file)) else { continue };
        let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
        for (line, Phrase { shown, instead, why, .. }) in phrases.find(&text) {
            eprintln!("{file}:{line}: `{shown}`: write {instead} ({why})");
            found += 1;
        }
    }
    match found {
        0 => Ok(()),
        _ => Err(Failure::new(format!("the prose has {found} phrases that {PAGE} lists"), ADVICE)),
    }
}

/// The phrases, by the alternatives for their first word.
struct Phrases {
    phrases: Vec<Phrase>,
    by_first_word: HashMap<String, Vec<usize>>,
}

impl Phrases {
    /// Reads the table.
    fn read() -> Result<Self, Failure> {
        let page = fs::read_to_string(root().join(PAGE))
            .map_err(|error| Failure::new(format!("{PAGE}: {error}"), "run this in a clone of the repository"))?;
        let rows = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let phrases: Vec<_> = rows.filter_map(Phrase::parse).collect();
        if phrases.is_empty() {
            return Err(Failure::new(format!("{PAGE} has no table of phrases"), "restore its table of three columns"));
        }
        let mut by_first_word: HashMap<_, Vec<_>> = HashMap::new();
        for (at, phrase) in phrases.iter().enumerate() {
            for first in &phrase.words[0] {
                by_first_word.entry(first.clone()).or_default().push(at);
            }
        }
        Ok(Self { phrases, by_first_word })
    }

    /// Returns each phrase in a text in lower case, with the line that it starts in.
    fn find<'a>(&'a self, text: &str) -> Vec<(usize, &'a Phrase)> {
        let words = words(text);
        let mut found = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let candidates =
                self.by_first_word.get(word.text).into_iter().flatten().map(|&phrase| &self.phrases[phrase]);
            found.extend(candidates.filter(|phrase| phrase.is_at(&words[at..])).map(|phrase| (word.line, phrase)));
        }
        found
    }
}

impl Phrase {
    /// Reads a row. Returns `None` if the line is not a row.
    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let (shown, instead, why) = (cells.next()?, cells.next()?, cells.next()?);
        let words: Vec<Vec<String>> =
            shown.split([' ', '-']).map(|word| word.split('/').map(str::to_ascii_lowercase).collect()).collect();
        Some(Self { shown: shown.to_owned(), words, instead: instead.to_owned(), why: why.to_owned() })
    }

    /// Returns whether the text starts with this phrase.
    fn is_at(&self, text: &[Word<'_>]) -> bool {
        let is_word = |(at, alternatives): (usize, &Vec<String>)| {
            text.get(at).is_some_and(|word| {
                (at == 0 || word.continues) && alternatives.iter().any(|alternative| alternative == word.text)
            })
        };
        self.words.iter().enumerate().all(is_word)
    }
}

/// A word of a text.
struct Word<'a> {
    text: &'a str,
    /// Counted from 1.
    line: usize,
    /// Whether it continues the sentence of the word before: between them are only spaces, at most one line break, and
    /// the marks of comments, strings and names.
    continues: bool,
}

/// Splits a text into words.
fn words(text: &str) -> Vec<Word<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '\'';
    let joins = |c: char| c.is_whitespace() || "/!*#_-\"\\`".contains(c);
    let (mut words, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(start) = rest.find(is_word) {
        let (gap, from) = rest.split_at(start);
        let breaks = gap.matches('\n').count();
        line += breaks;
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        words.push(Word { text: &from[..end], line, continues: breaks < 2 && gap.chars().all(joins) });
        rest = &from[end..];
    }
    words
}
