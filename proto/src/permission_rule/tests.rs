use std::{os::unix::fs::PermissionsExt as _, process::Command};

use proptest::prelude::*;

use super::*;

fn command_rule(command: &str) -> PermissionRule {
    let rule = PermissionRule { tool: "Bash".to_owned(), command: command.to_owned(), ..PermissionRule::default() };
    check(&rule).expect(command)
}

fn refused(rule: &PermissionRule) -> String {
    check(rule).expect_err("a refusal").message
}

fn runs(command: &str) -> ToolUse {
    ToolUse { command: command.to_owned(), ..ToolUse::default() }
}

fn permits_command(rule: &str, command: &str) -> bool {
    permits(&command_rule(rule), "ann", "Bash", &runs(command))
}

#[test]
fn a_rule_matches_its_words_and_no_others() {
    for (rule, command, expected) in [
        ("cargo test", "cargo test", true),
        ("cargo test", "  cargo   test ", true),
        ("cargo test", "cargo 'test'", true),
        ("cargo test", "cargo test --all", false),
        ("cargo test *", "cargo test --all", true),
        ("cargo test *", "cargo test", true),
        ("cargo test *", "cargo testx", false),
        ("cargo test *", "cargo", false),
        ("cargo test *", "cargo +nightly test", false),
        ("cargo test *", "/tmp/cargo test", false),
        ("git commit -m 'fix it'", "git commit -m \"fix it\"", true),
        ("git commit -m 'fix it'", "git commit -m fix it", false),
        ("ls -l *", "ls -l a=b @c %d +e ,f", true),
    ] {
        assert_eq!(permits_command(rule, command), expected, "{rule:?} on {command:?}");
    }
}

/// Ways to have a shell run more than the words that a rule names, or other words.
const SMUGGLED: &[&str] = &[
    "cargo test; rm -rf /",
    "cargo test;rm -rf /",
    "cargo test && rm -rf /",
    "cargo test || rm -rf /",
    "cargo test | sh",
    "cargo test |& sh",
    "cargo test & rm -rf /",
    "cargo test &",
    "cargo test\nrm -rf /",
    "cargo test\rrm -rf /",
    "cargo test\r\nrm -rf /",
    "cargo test\u{b}rm",
    "cargo test\u{c}rm",
    "cargo test\trm",
    "cargo test \\\nrm",
    "cargo test $(rm -rf /)",
    "cargo test `rm -rf /`",
    "cargo test \"$(rm -rf /)\"",
    "cargo test \"`rm -rf /`\"",
    "cargo test ${IFS}rm",
    "cargo test $HOME",
    "cargo test $'\\n'rm",
    "cargo test $((1+1))",
    "cargo test <(rm -rf /)",
    "cargo test >(rm -rf /)",
    "cargo test > ~/.bashrc",
    "cargo test >> /etc/passwd",
    "cargo test 2> /etc/passwd",
    "cargo test < /etc/passwd",
    "cargo test <<< rm",
    "cargo test << EOF\nrm\nEOF",
    "cargo test <<EOF",
    "(cargo test)",
    "cargo test (rm)",
    "{ cargo test; rm; }",
    "cargo test {a,b}",
    "cargo test {1..9}",
    "cargo test *",
    "cargo test ?",
    "cargo test [ab]",
    "cargo test '*'",
    "cargo test # rm",
    "cargo test #rm",
    "cargo test 'a",
    "cargo test \"a",
    "cargo test 'a' \"",
    "cargo test \\",
    "cargo test \"it's\"",
    "cargo test \\; rm",
    "cargo test ~",
    "cargo test ~root/.ssh",
    "cargo test a:~/b",
    "cargo test !!",
    "cargo test !rm",
    "! cargo test",
    "cargo test ^a^b",
    "cargo test =rm",
    "A=b cargo test",
    "PATH=/tmp cargo test",
    "RUSTC_WRAPPER=/tmp/x cargo test",
    "env cargo test",
    "time cargo test",
    "exec cargo test",
    "command cargo test",
    "eval cargo test",
    "noglob cargo test",
    "if cargo test",
    "function cargo test",
    ". cargo test",
    "cargo\u{a0}test",
    "cargo test\u{2003}rm",
    "cargo\u{3000}test",
    "cargo test\u{2028}rm",
    "cargo test\u{85}rm",
    "cargo test\u{ff1b} rm",
    "c\u{430}rgo test",
    "cargo test\u{200b}",
    "cargo test\u{202e}",
    "cargo test\0rm",
    "cargo test \u{1b}[2K",
    "cargo test \u{7f}",
    "bash -c 'cargo test; rm'",
    "bash -lc 'cargo test'",
    "sh -c \"cargo test\"",
    "$(echo cargo) test",
    "'cargo test' rm",
    "\"cargo test\"",
    "''cargo test; rm",
    "-- cargo test",
    "-cargo test",
    "%1 cargo test",
    "",
    " ",
    "''",
];

#[test]
fn nothing_is_smuggled_past_a_rule() {
    assert!(SMUGGLED.len() >= 40);
    let rules = ["cargo test", "cargo test *", "cargo *x", "cargo test a *"];
    let rules = rules.into_iter().filter_map(|rule| {
        check(&PermissionRule { tool: "Bash".to_owned(), command: rule.to_owned(), ..Default::default() }).ok()
    });
    for rule in rules.collect::<Vec<_>>() {
        for command in SMUGGLED {
            assert!(!permits(&rule, "ann", "Bash", &runs(command)), "{rule:?} permits {command:?}");
        }
    }
    let long = format!("cargo test {}", "a ".repeat(COMMAND_BYTES_MAX));
    assert!(!permits_command("cargo test *", &long));
}

#[test]
fn a_rule_that_would_permit_everything_is_refused() {
    for command in [
        "*",
        "sh",
        "sh *",
        "bash -c *",
        "bash x.sh *",
        "/bin/bash *",
        "zsh-5.9 *",
        "sudo *",
        "sudo cargo *",
        "env *",
        "env A=b cargo *",
        "find . *",
        "xargs -n 1 *",
        "timeout 10 *",
        "nohup *",
        "ssh host *",
        "git *",
        "git -c *",
        "git -C /x *",
        "git rebase *",
        "cargo *",
        "cargo --config *",
        "cargo -q *",
        "python3 *",
        "python3 -c *",
        "python3.12 -m *",
        "node -e *",
        "npm *",
        "npm exec *",
        "npx *",
        "npx --yes *",
        "uv run *",
        "go run *",
        "docker run *",
        "make *",
        "kubectl exec *",
        "awk *",
        "perl *",
        "./node *",
    ] {
        let rule = PermissionRule { tool: "Bash".to_owned(), command: command.to_owned(), ..Default::default() };
        let why = refused(&rule);
        assert!(why.contains("permit"), "{command}: {why}");
    }
    for command in [
        "git status *",
        "git log --oneline",
        "cargo test *",
        "make test *",
        "python3 -m pytest *",
        "python3 x.py *",
        "npx tsc *",
        "uv run pytest *",
        "timeout 60 cargo test",
        "bash x.sh",
        "find . -name x",
        "ls *",
        "rg *",
    ] {
        assert_eq!(command_rule(command).command, command);
    }
}

#[test]
fn a_rule_is_stored_in_one_form_or_refused() {
    assert_eq!(command_rule("  git   commit -m \"fix it\"  *").command, "git commit -m 'fix it' *");
    let rule = PermissionRule { tool: "Bash".to_owned(), ..Default::default() };
    let with = |command: &str| PermissionRule { command: command.to_owned(), ..rule.clone() };
    for command in ["cargo test; rm", "cargo * test", "cargo te*", "A=b c", "cargo 'x", "cargo 'a*' *"] {
        let why = refused(&with(command));
        assert!(why.starts_with("A rule's command must be plain words"), "{command}: {why}");
    }
    assert!(refused(&rule).contains("Say what the rule permits"));
    assert!(refused(&PermissionRule { any_use: true, ..with("cargo test") }).contains("only one of them"));
    assert!(refused(&PermissionRule { tool: "\u{200b}".to_owned(), ..with("cargo test") }).contains("Name the tool"));
    assert!(refused(&PermissionRule { tool: "a\nb".to_owned(), ..with("cargo test") }).contains("in one line"));
    assert!(check(&PermissionRule { member: "a b".to_owned(), ..with("cargo test") }).is_err());
    assert!(refused(&with(&"a".repeat(PATTERN_BYTES_MAX + 1))).contains("the limit is 1000"));
    let path = |path: &str| check(&PermissionRule { path: path.to_owned(), ..rule.clone() });
    for wrong in ["/", "..", "../x", "a/../b", "a/./b", "a//b", "//", ".", "a\nb", "/..", "//x"] {
        path(wrong).expect_err(wrong);
    }
    for right in ["./", "docs/", "docs/a.md", "/srv/x/", "/etc/hosts", ".github/"] {
        assert_eq!(path(right).map(|rule| rule.path).as_deref(), Ok(right));
    }
}

#[test]
fn a_rule_for_files_matches_paths_in_its_directory_only() {
    for (rule, paths, expected) in [
        ("docs/", &["/work/docs/a.md"] as &[&str], true),
        ("docs/", &["/work/docs/a.md", "/work/docs/b/c.md"], true),
        ("docs/", &["/work/docs/a.md", "/work/src/b.rs"], false),
        ("docs/", &["/work/docs"], false),
        ("docs/", &["/work/docs/"], false),
        ("docs/", &["/work/docsx/a"], false),
        ("docs/", &["/work/docs/../src/a"], false),
        ("docs/", &["/work/docs//a"], false),
        ("docs/", &["docs/a.md"], false),
        ("docs/", &["/other/docs/a.md"], false),
        ("docs/a.md", &["/work/docs/a.md"], true),
        ("docs/a.md", &["/work/docs/a.md/b"], false),
        ("./", &["/work/docs/a.md"], true),
        ("./", &["/workshop/a.md"], false),
        ("./", &["/work"], false),
        ("/srv/", &["/srv/a"], true),
        ("/srv/", &["/work/srv/a"], false),
        ("/etc/hosts", &["/etc/hosts"], true),
    ] {
        let rule = PermissionRule { tool: "Edit".to_owned(), path: rule.to_owned(), ..Default::default() };
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        let what = ToolUse { paths, directory: "/work".to_owned(), ..Default::default() };
        assert_eq!(permits(&check(&rule).unwrap(), "ann", "Edit", &what), expected, "{rule:?} on {what:?}");
        assert!(!permits(&rule, "ann", "Edit", &ToolUse { command: "ls".to_owned(), ..what.clone() }));
        let nowhere = ToolUse { directory: "work".to_owned(), ..what };
        assert!(rule.path.starts_with('/') || !permits(&rule, "ann", "Edit", &nowhere));
    }
}

#[test]
fn a_rule_is_for_its_member_and_its_tool() {
    let rule = PermissionRule { member: "Ann".to_owned(), ..command_rule("ls") };
    assert!(permits(&rule, "ann", "Bash", &runs("ls")));
    assert!(!permits(&rule, "bob", "Bash", &runs("ls")));
    assert!(!permits(&rule, "", "Bash", &runs("ls")));
    assert!(!permits(&rule, "ann", "bash", &runs("ls")));
    let any = PermissionRule { tool: "mcp__db__query".to_owned(), any_use: true, ..Default::default() };
    let nothing = ToolUse { directory: "/work".to_owned(), ..Default::default() };
    assert!(permits(&any, "ann", "mcp__db__query", &nothing));
    assert!(!permits(&any, "ann", "mcp__db__query", &runs("ls")));
    assert!(!permits(&any, "ann", "mcp__db__query", &ToolUse { paths: vec!["/a".to_owned()], ..nothing.clone() }));
    assert!(!permits(&command_rule("ls"), "ann", "Bash", &nothing));
}

#[test]
fn the_exact_rule_permits_what_was_asked_for_or_there_is_none() {
    let rule = exact("Bash", Some(&runs("git commit -m \"fix it\""))).unwrap();
    assert_eq!(sentence(&rule), "Every member may use Bash to run exactly `git commit -m 'fix it'`.");
    assert_eq!(extent(&command_rule("cargo test *")), "to run `cargo test` with any further words");
    let file = ToolUse { paths: vec!["/work/a".to_owned()], ..Default::default() };
    assert_eq!(extent(&exact("Edit", Some(&file)).unwrap()), "on the file `/work/a`");
    assert!(exact("Bash", Some(&runs("a; b"))).unwrap_err().contains("it contains `;`"));
    assert!(exact("Bash", Some(&runs("bash"))).unwrap_err().contains("can run any command"));
    assert!(exact("Bash", None).is_err());
    let two = ToolUse { paths: vec!["/a".to_owned(), "/b".to_owned()], ..Default::default() };
    assert!(exact("edit", Some(&two)).unwrap_err().contains("2 files"));
    let up = ToolUse { paths: vec!["/work/../a".to_owned()], ..Default::default() };
    assert!(exact("Edit", Some(&up)).is_err());
}

/// What a shell runs for a command line: each program that it finds prints its words, and nothing else exists.
struct Shell {
    name: &'static str,
    programs: tempfile::TempDir,
}

/// The programs that exist.
const PROGRAMS: [&str; 3] = ["cargo", "git", "ls"];

impl Shell {
    fn all() -> Vec<Self> {
        let mut shells = Vec::new();
        for name in ["sh", "bash", "dash", "zsh", "ksh", "busybox"] {
            if Command::new(name).arg("--help").output().is_err() {
                continue;
            }
            let programs = tempfile::tempdir().unwrap();
            for program in PROGRAMS {
                let file = programs.path().join(program);
                let script = format!("#!/bin/sh\nprintf '%s\\n' \"[{program}]\" \"$@\"\n");
                std::fs::write(&file, script).unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            shells.push(Self { name, programs });
        }
        assert!(!shells.is_empty());
        shells
    }

    fn run(&self, line: &str) -> Vec<String> {
        let path = which(self.name);
        let mut command = Command::new(path);
        if self.name == "busybox" {
            command.arg("sh");
        }
        command.args(["-c", line]).env_clear().env("PATH", self.programs.path()).current_dir("/");
        let output = command.output().unwrap();
        assert!(output.stderr.is_empty(), "{} {line:?}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        let mut words: Vec<String> = String::from_utf8(output.stdout).unwrap().split('\n').map(str::to_owned).collect();
        assert_eq!(words.pop().as_deref(), Some(""));
        words
    }
}

fn which(name: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.exists()).unwrap()
}

/// Command lines that rules can match, and many that they cannot.
fn line() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => "[a-zA-Z0-9_./:,@%+=-]{1,6}",
        2 => "'[a-z0-9 _./:,@%+=\"-]{0,6}'",
        2 => "\"[a-z0-9 _./:,@%+='-]{0,6}\"",
        1 => "[ -~\\t\\n]{1,3}",
    ];
    let word = proptest::collection::vec(part, 1..4).prop_map(|parts| parts.concat());
    (proptest::sample::select(&PROGRAMS), proptest::collection::vec(word, 0..5), " {1,2}")
        .prop_map(|(program, words, gap)| [vec![program.to_owned()], words].concat().join(&gap))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_shell_runs_exactly_the_words_that_were_compared(lines in proptest::collection::vec(line(), 8)) {
        use std::sync::LazyLock;
        static SHELLS: LazyLock<Vec<Shell>> = LazyLock::new(Shell::all);
        for line in lines {
            let Some(words) = simple_command(&line) else { continue };
            let mut expected = words.clone();
            expected[0] = format!("[{}]", words[0]);
            if !PROGRAMS.contains(&words[0].as_str()) {
                continue;
            }
            for shell in SHELLS.iter() {
                prop_assert_eq!(shell.run(&line), expected.clone(), "{} on {:?}", shell.name, line);
            }
            // The stored form means the same.
            prop_assert_eq!(simple_command(&quoted(&words)), Some(words));
        }
    }

    #[test]
    fn no_text_makes_a_rule_that_does_not_match_itself(text in "[ -~]{0,40}") {
        let rule = PermissionRule { tool: "Bash".to_owned(), command: text, ..PermissionRule::default() };
        if let Ok(rule) = check(&rule) {
            prop_assert_eq!(check(&rule).map(|again| again.command), Ok(rule.command.clone()));
            let literal = rule.command.strip_suffix(" *").unwrap_or(&rule.command);
            prop_assert!(permits(&rule, "", "Bash", &runs(literal)));
        }
    }
}
