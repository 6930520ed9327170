//! Patterns of paths, and whether two of them can mean the same file.

use teamwire_proto::{Reason, Refusal};

/// How many characters a pattern has.
const PATTERN_CHARS_MAX: usize = 200;

/// How many segments a pattern has.
const SEGMENTS_MAX: usize = 32;

/// Checks a pattern that was given in the request's field `field`. Returns it as it is stored.
pub(super) fn check(pattern: &str, field: &str) -> Result<String, Refusal> {
    checked(pattern).ok_or_else(|| {
        let text = format!(
            "{pattern:?} is no pattern of paths: write it relative to the root of the repository, such as src/*.rs, \
             without . and .., in up to {PATTERN_CHARS_MAX} characters."
        );
        Refusal::new(Reason::InvalidField, text).field(field)
    })
}

/// Returns a pattern as it is stored. `None` if it is none.
fn checked(pattern: &str) -> Option<String> {
    let pattern = pattern.trim_end_matches('/');
    let is_sound = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
    let sound = pattern.chars().count() <= PATTERN_CHARS_MAX
        && !pattern.chars().any(char::is_control)
        && pattern.split('/').count() <= SEGMENTS_MAX
        && pattern.split('/').all(is_sound);
    sound.then(|| pattern.to_owned())
}

/// Returns whether two patterns can mean the same file. A pattern also stands for everything below what it means. May say yes
/// where two segments with wildcards have no text in common.
pub(super) fn overlaps(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split('/').collect(), other.split('/').collect());
    // Whether the rests of both from these segments on can meet, filled from the end. Beyond its end, a pattern goes on with anything.
    let mut meets = vec![vec![true; other.len() + 1]; one.len() + 1];
    for i in (0..one.len()).rev() {
        for j in (0..other.len()).rev() {
            meets[i][j] = match (one[i] == "**", other[j] == "**") {
                (true, _) | (_, true) => meets[i + 1][j] || meets[i][j + 1] || meets[i + 1][j + 1],
                _ => segments_meet(one[i], other[j]) && meets[i + 1][j + 1],
            };
        }
    }
    meets[0][0]
}

/// Returns whether a pattern means a file. A pattern also stands for everything below what it means. In the path, no
/// character is a wildcard.
pub(super) fn covers(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    // Whether the rest of the pattern means the rest of the path, for each rest of the path, filled from the end.
    let mut means = vec![true; path.len() + 1];
    for segment in pattern.iter().rev() {
        let below = std::mem::replace(&mut means, vec![false; path.len() + 1]);
        if *segment == "**" {
            let mut is_any = false;
            for (means, below) in means.iter_mut().zip(&below).rev() {
                is_any |= below;
                *means = is_any;
            }
            continue;
        }
        for (n, name) in path.iter().enumerate() {
            means[n] = below[n + 1] && matches(segment, name);
        }
    }
    means[0]
}

fn segments_meet(one: &str, other: &str) -> bool {
    let has_wildcard = |segment: &str| segment.contains(['*', '?']);
    match (has_wildcard(one), has_wildcard(other)) {
        (false, false) => one == other,
        (true, false) => matches(one, other),
        (false, true) => matches(other, one),
        (true, true) => {
            let before = |segment: &str| segment.find(['*', '?']).unwrap_or(segment.len());
            let after = |segment: &str| segment.rfind(['*', '?']).map_or(0, |at| at + 1);
            let (a, b) = (&one[..before(one)], &other[..before(other)]);
            let (c, d) = (&one[after(one)..], &other[after(other)..]);
            (a.starts_with(b) || b.starts_with(a)) && (c.ends_with(d) || d.ends_with(c))
        }
    }
}

/// Returns whether a segment with wildcards matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where the last `*` was, and how much of the name it stands for so far.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_overlap_if_a_file_can_match_both() {
        for (one, other, is_expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src", "src/a/b.rs", true),
            ("src/", "srv/a.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.ts", false),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**/*.rs", "src/a/b/c.rs", true),
            ("src/**/*.rs", "src/c.rs", true),
            ("**/test_*.py", "a/b/test_c.py", true),
            ("**/x", "a/y", true), // as a/y/x
            ("b/**/x", "a/y", false),
            ("**", "anything/at/all", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*c", "*bc", true),
            ("a*", "b*", false),
            ("*.rs", "*.ts", false),
            ("docs/**", "src/**", false),
        ] {
            let (a, b) = (checked(one).unwrap(), checked(other).unwrap());
            assert_eq!(overlaps(&a, &b), is_expected, "{one} and {other}");
            assert_eq!(overlaps(&b, &a), is_expected, "{other} and {one}");
        }
    }

    #[test]
    fn a_pattern_covers_the_files_that_it_means_and_what_is_below() {
        for (pattern, path, is_expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src", false),
            ("src", "src/a/b.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**/*.rs", "src/a/b/c.rs", true),
            ("src/**/*.rs", "src/c.rs", true),
            ("src/**/*.rs", "src/c.ts", false),
            ("**/Cargo.toml", "Cargo.toml", true),
            ("**/Cargo.toml", "a/b/Cargo.toml", true),
            ("**/Cargo.toml", "src/main.rs", false),
            ("**", "anything/at/all", true),
            ("a/**", "a", true),
            ("a/**/b/**/c", "a/x/b/y/z/c", true),
            ("a/**/b/**/c", "a/x/y/z/c", false),
            ("src/a.rs", "**", false),
            ("src/a.rs", "src/*", false),
        ] {
            assert_eq!(covers(&checked(pattern).unwrap(), path), is_expected, "{pattern} and {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "x".repeat(PATTERN_CHARS_MAX + 1);
        for pattern in ["", "/", "/etc", "a//b", "./a", "a/../b", "a\nb", &long] {
            assert_eq!(checked(pattern), None, "{pattern}");
        }
    }

    proptest! {
        /// A path overlaps with a pattern that is made from it by replacing parts with wildcards.
        #[test]
        fn a_path_overlaps_with_its_generalizations(
            segments in prop::collection::vec("[a-c]{1,4}", 1..5),
            how in prop::collection::vec(0..5_u8, 5),
        ) {
            let path = segments.join("/");
            let general: Vec<String> = segments
                .iter()
                .zip(how)
                .map(|(segment, how)| match how {
                    0 => "*".to_owned(),
                    1 => format!("{}*", &segment[..1]),
                    2 => "?".repeat(segment.len()),
                    3 => "**".to_owned(),
                    _ => segment.clone(),
                })
                .collect();
            prop_assert!(overlaps(&path, &general.join("/")));
        }
    }
}
