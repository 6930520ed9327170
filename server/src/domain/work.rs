//! Members' work, as their runners report it.

use teamwire_proto::v1;

use super::text::cut;

/// How many characters of a text are kept.
const TEXT_CHARS_MAX: usize = 500;

/// How many paths are kept, how many that conflict, and how many characters of each.
const PATHS_MAX: usize = 500;
const CONFLICTS_MAX: usize = 100;
const PATH_CHARS_MAX: usize = 1_000;

/// Returns work as it is kept.
pub fn kept(reported: &v1::Work) -> v1::Work {
    let text = |text: &str| cut(text, TEXT_CHARS_MAX);
    let paths = |paths: &[String], max| paths.iter().take(max).map(|path| cut(path, PATH_CHARS_MAX)).collect();
    v1::Work {
        repository: text(&reported.repository),
        branch: text(&reported.branch),
        base_branch: text(&reported.base_branch),
        base: text(&reported.base),
        head: text(&reported.head),
        detail: text(&reported.detail),
        conflicts: paths(&reported.conflicts, CONFLICTS_MAX),
        paths: paths(&reported.paths, PATHS_MAX),
        ..reported.clone()
    }
}

/// Returns whether a text is the id of a commit, and not a name, which could mean another one later.
pub fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
