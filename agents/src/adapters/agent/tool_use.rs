//! What a program asks permission for, in the form that permission rules match.
//!
//! Each protocol describes what its program will really do. `None` means that the description may leave something out, so
//! no rule matches, and a person is asked.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use teamwire_proto::{permission_rule::check_use, v1::ToolUse};

use super::protocol::text;

/// The shells that programs start for a command.
const SHELLS: [&str; 4] = ["bash", "dash", "sh", "zsh"];

/// The option of these shells before a command. With `l`, the shell is a login shell.
const COMMAND_OPTIONS: [&str; 2] = ["-c", "-lc"];

/// Returns the use of a command line that a shell reads. `directory`: the member's working directory.
pub(super) fn command(line: &str, directory: &Path) -> Option<ToolUse> {
    bounded(ToolUse { command: line.to_owned(), ..of(directory) }).filter(|what| !what.command.is_empty())
}

/// Returns the use of a command line without the shell that it starts, if it starts one, as programs write what they
/// execute: `/bin/bash -lc 'make test'`. Takes one shell away, and no more.
pub(super) fn shell_command(line: &str, directory: &Path) -> Option<ToolUse> {
    // A comment or a second line would not be part of what is split.
    if line.contains(['#', '\n']) {
        return None;
    }
    arguments(&shlex::split(line)?, directory)
}

/// Returns the use of the words of a command, of which the first one is executed.
pub(super) fn arguments(words: &[String], directory: &Path) -> Option<ToolUse> {
    let program = Path::new(words.first()?).file_name()?.to_str()?;
    match words {
        [_, option, line] if SHELLS.contains(&program) && COMMAND_OPTIONS.contains(&option.as_str()) => {
            command(line, directory)
        }
        _ if SHELLS.contains(&program) => None,
        _ => command(&shlex::try_join(words.iter().map(String::as_str)).ok()?, directory),
    }
}

/// Returns the use of these files.
pub(super) fn files<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, directory: &Path) -> Option<ToolUse> {
    let paths = paths.into_iter().map(|path| absolute(path.as_ref(), directory)).collect::<Option<Vec<String>>>()?;
    bounded(ToolUse { paths, ..of(directory) }).filter(|what| !what.paths.is_empty())
}

/// Returns the use of a tool that neither runs a command nor touches files, as far as its program says.
pub(super) fn other(directory: &Path) -> Option<ToolUse> {
    bounded(of(directory))
}

/// Returns whether a command runs in the member's working directory or below it. `field`: where the command says that.
pub(super) fn is_within(input: &Value, field: &str, directory: &Path) -> bool {
    let named = text(input, field);
    let is_below =
        |path: String| of(directory).directory == path || Path::new(&path).starts_with(of(directory).directory);
    !named.is_empty() && absolute(Path::new(named), directory).is_some_and(is_below)
}

fn of(directory: &Path) -> ToolUse {
    ToolUse { directory: absolute(directory, Path::new("/")).unwrap_or_default(), ..ToolUse::default() }
}

fn bounded(what: ToolUse) -> Option<ToolUse> {
    check_use(&what).is_ok().then_some(what)
}

/// Returns a path from the root without `.` and `..`, which are resolved as text. `None` if it is not text.
fn absolute(path: &Path, directory: &Path) -> Option<String> {
    let mut whole = PathBuf::from("/");
    for component in directory.join(path).components() {
        match component {
            Component::Normal(name) => whole.push(name),
            Component::ParentDir => _ = whole.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    whole.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shell_is_taken_away_and_no_more() {
        for (line, expected) in [
            ("/bin/bash -lc 'cargo test'", Some("cargo test")),
            ("zsh -c \"git commit -m 'fix it'\"", Some("git commit -m 'fix it'")),
            ("bash -lc \"bash -lc 'cargo test'\"", Some("bash -lc 'cargo test'")),
            ("cargo test", Some("cargo test")),
            ("cargo 'test it'", Some("cargo 'test it'")),
            ("bash -lc 'cargo test; rm'", Some("cargo test; rm")),
            ("bash -lc cargo test", None),
            ("bash -xc 'cargo test'", None),
            ("bash -lc -- 'cargo test'", None),
            ("bash cargo", None),
            ("bash -lc ''", None),
            ("bash -lc 'cargo test' # x", None),
            ("bash -lc 'cargo test'\nrm", None),
            ("bash -lc 'cargo", None),
            ("", None),
        ] {
            let found = shell_command(line, Path::new("/work")).map(|what| what.command);
            assert_eq!(found.as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn paths_are_absolute_and_without_dots() {
        let paths = |path: &str| files([path], Path::new("/work/")).map(|what| what.paths.concat());
        assert_eq!(paths("src/../docs/./a").as_deref(), Some("/work/docs/a"));
        assert_eq!(paths("/etc//hosts").as_deref(), Some("/etc/hosts"));
        assert_eq!(paths("../../../x").as_deref(), Some("/x"));
        assert_eq!(files(Vec::<&str>::new(), Path::new("/work")), None);
        assert_eq!(files(vec!["x"; 65], Path::new("/work")), None, "too many for a rule");
        assert_eq!(other(Path::new("/work/x/..")).unwrap().directory, "/work");
        let cwd = |cwd: &str| is_within(&serde_json::json!({ "cwd": cwd }), "cwd", Path::new("/work"));
        assert_eq!(
            [cwd("/work"), cwd("/work/a"), cwd("/workshop"), cwd("/work/.."), cwd("")],
            [true, true, false, false, false]
        );
    }
}
