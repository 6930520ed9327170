//! The paths of rules. They are compared as text, component by component: nothing here reads a file system.

use super::command::PATTERN_BYTES_MAX;

/// The path of a rule for every file in the working directory.
const HERE: &str = "./";

/// Checks the path of a rule. Fails with a sentence.
pub(super) fn check(path: &str) -> Result<(), String> {
    if path.len() > PATTERN_BYTES_MAX {
        return Err(format!("The path has {} bytes; the limit is {PATTERN_BYTES_MAX}.", path.len()));
    }
    if path == "/" {
        return Err("`/` would permit every file of the machine. Name a directory.".to_owned());
    }
    if path == HERE || is_plain(path) {
        return Ok(());
    }
    Err("A rule's path must be a file, or a directory with a `/` at its end, without `.`, `..`, empty parts and control \
         characters; `./` stands for the working directory."
        .to_owned())
}

/// Returns whether a path has only named components. A `/` at its beginning and one at its end are allowed.
fn is_plain(path: &str) -> bool {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let is_named = |part: &str| !part.is_empty() && part != "." && part != "..";
    inner.split('/').all(is_named) && !path.chars().any(char::is_control)
}

/// Returns whether the path of a rule stands for this file. `directory`: where relative paths of rules begin.
pub(super) fn contains(rule: &str, directory: &str, path: &str) -> bool {
    let is_absolute = |path: &str| path.starts_with('/') && is_plain(path) && !path.ends_with('/');
    if !is_absolute(path) {
        return false;
    }
    let whole = match rule.starts_with('/') {
        true => rule.to_owned(),
        false if !is_absolute(directory) => return false,
        false if rule == HERE => format!("{directory}/"),
        false => format!("{directory}/{rule}"),
    };
    if whole.ends_with('/') { path.starts_with(&whole) } else { path == whole }
}
