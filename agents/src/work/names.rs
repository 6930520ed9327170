//! The names of members as parts of the names of refs.

use std::{ffi::OsStr, fmt::Write as _};

/// Returns a member's name as a part of the name of a branch or of another ref. `Backend` and `backend` are the same,
/// because a file system may not tell them apart. A name in this form stays as it is. Git refuses two dots in a row, a dot at the beginning, `.` or `.lock`
/// at the end, and many characters; `%` is in no member's name.
pub fn as_branch(member: &str) -> String {
    let mut name = String::new();
    for character in member.to_lowercase().chars() {
        match character {
            '.' if name.is_empty() || name.ends_with('.') => name.push_str("%2e"),
            'a'..='z' | '0'..='9' | '.' | '_' | '-' | '%' => name.push(character),
            other => {
                for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(name, "%{byte:02x}");
                }
            }
        }
    }
    for end in [".", ".lock"] {
        if let Some(rest) = name.strip_suffix(end) {
            name = format!("{rest}%2e{}", &end[1..]);
        }
    }
    if name.is_empty() { "%".to_owned() } else { name }
}

/// Returns a name as a text shows it, on one line.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    name.as_ref().to_string_lossy().escape_debug().to_string()
}

/// Returns whether a text is the id of an object.
pub(super) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
