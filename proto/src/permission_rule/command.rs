//! Command lines that are one simple command, and the patterns that match them.

use std::fmt;

/// How many bytes the command or the path of a rule may have.
pub const PATTERN_BYTES_MAX: usize = 1_000;

/// How many bytes a command line may have that a rule can match.
pub const COMMAND_BYTES_MAX: usize = 4_096;

/// The characters besides letters and digits that mean only themselves, in every place and in every shell, inside quotes
/// and outside. A command line with any other character matches no rule.
const PLAIN: &str = "_-./:,@%+= ";

/// The quotes, which may surround plain characters.
const QUOTES: [char; 2] = ['\'', '"'];

/// The words that a shell does not run as a program when a command begins with them: keywords, and builtins that run or
/// define other commands.
const SHELL_WORDS: &[&str] = &[
    ".",
    "-",
    "alias",
    "bg",
    "bind",
    "builtin",
    "case",
    "command",
    "coproc",
    "declare",
    "do",
    "done",
    "elif",
    "else",
    "enable",
    "end",
    "esac",
    "eval",
    "exec",
    "fc",
    "fg",
    "fi",
    "for",
    "foreach",
    "function",
    "if",
    "in",
    "nocorrect",
    "noglob",
    "repeat",
    "select",
    "source",
    "then",
    "time",
    "trap",
    "typeset",
    "until",
    "while",
];

/// Splits a command line into its words. `None` if it is anything but one simple command of plain words, so that a shell
/// could read it in another way, or run more than one program for it.
pub fn simple_command(line: &str) -> Option<Vec<String>> {
    split(line).ok()
}

/// Says why a command line is not one simple command: continues "No rule can match this command:". `None` if it is one.
pub fn not_simple(line: &str) -> Option<String> {
    split(line).err()
}

fn split(line: &str) -> Result<Vec<String>, String> {
    if line.len() > COMMAND_BYTES_MAX {
        return Err(format!("it has more than {COMMAND_BYTES_MAX} bytes"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c) || QUOTES.contains(&c);
    if let Some(other) = line.chars().find(|c| !is_plain(*c)) {
        return Err(format!("it contains `{}`, which is more than a plain word", other.escape_debug()));
    }
    let Some(words) = shlex::split(line) else { return Err("its quotes are not balanced".to_owned()) };
    let Some(program) = words.first() else { return Err("it is empty".to_owned()) };
    // An assignment, an option, a job, or a word that zsh expands.
    let is_program = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    if program.is_empty() || !program.chars().all(is_program) || program.starts_with(['-', '+']) {
        return Err("it does not begin with the name of a program".to_owned());
    }
    if SHELL_WORDS.contains(&program.as_str()) {
        return Err(format!("`{program}` is a word of the shell and not a program"));
    }
    if words.iter().any(|word| word.contains(QUOTES)) {
        return Err("a word contains a quote".to_owned());
    }
    // zsh replaces `=name` by the path of a program.
    if words.iter().any(|word| word.starts_with('=')) {
        return Err("a word begins with `=`".to_owned());
    }
    Ok(words)
}

/// Returns the words with the quotes that a shell needs.
pub(super) fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

/// The first words of a command, and whether further words may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// At least one.
    pub(super) words: Vec<String>,
    /// Whether any further words match, also none.
    pub(super) is_open: bool,
}

impl Pattern {
    /// Reads a pattern. Fails with a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("The command has {} bytes; the limit is {PATTERN_BYTES_MAX}.", text.len()));
        }
        let text = text.trim_matches(' ');
        let (literal, is_open) = match text.strip_suffix('*') {
            Some("") => {
                return Err("`*` alone would permit every command. Write the program and its first words.".to_owned());
            }
            Some(literal) if literal.ends_with(' ') => (literal, true),
            _ => (text, false),
        };
        let words = split(literal).map_err(|why| {
            format!(
                "A rule's command must be plain words, and may end in the word `*` for any further words. This one \
                 cannot be matched: {why}."
            )
        })?;
        Ok(Self { words, is_open })
    }

    pub(super) fn matches(&self, words: &[String]) -> bool {
        if self.is_open { words.starts_with(&self.words) } else { words == self.words }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.words))?;
        f.write_str(if self.is_open { " *" } else { "" })
    }
}
