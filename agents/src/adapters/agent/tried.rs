//! The versions of agent programs that teamwire is tested with.

/// A part of a program's name in small letters, and the version that was tried.
const TRIED: [(&str, &str); 4] =
    [("claude", "2.1.330"), ("codex", "0.169.0"), ("gemini", "0.61.0"), ("opencode", "1.18.33")];

/// Returns the version of a program that was tried. `command`: what starts it.
pub(crate) fn of(command: &str) -> Option<&'static str> {
    TRIED.iter().find(|(program, _)| *program == command).map(|(_, version)| *version)
}

/// Returns a program's name and version and, if that is another one, which version was tried.
pub(crate) fn version(name: &str, version: &str) -> String {
    let version = version.trim_start_matches('v');
    let small = name.to_ascii_lowercase();
    match TRIED.iter().find(|(program, _)| small.contains(program)) {
        Some((_, tried)) if *tried != version => format!("{name} {version} (tried: {tried})"),
        _ => format!("{name} {version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_than_the_tried_one_is_shown_with_it() {
        assert_eq!(version("Claude Code", "2.1.330"), "Claude Code 2.1.330");
        assert_eq!(version("Claude Code", "2.1.197"), "Claude Code 2.1.197 (tried: 2.1.330)");
        assert_eq!(version("OpenCode", "v1.18.33"), "OpenCode 1.18.33");
        assert_eq!(version("other", "7"), "other 7");
    }

    #[test]
    fn the_tried_versions_are_those_that_tests_install() {
        let installed = include_str!("../../../../tests/agents/programs.rs");
        for (program, tried) in TRIED {
            let row = installed.lines().find(|line| line.trim_start().starts_with(&format!("{program}:"))).unwrap();
            assert!(row.contains(&format!("\"{tried}\"")), "{row}");
        }
    }
}
