//! Programs that run what follows them, so that a rule with `*` behind them would permit everything.
//!
//! The lists are a help against mistakes, and cannot be complete: see SECURITY.md.

use super::command::Pattern;

/// Programs that run other programs, or commands in another language, wherever among their words these are. No rule for
/// them may end in `*`.
const WRAPPERS: &str = "\
    ash at awk bash batch busybox bwrap capsh chroot chrt crontab csh dash doas ed emacs entr env ex expect fd \
    fdfind find firejail fish flock gawk gdb ionice ksh less lldb ltrace man mawk mksh more nawk nice nohup nsenter \
    nvim parallel perf powershell pwsh rsync runuser scp screen script sed setpriv setsid sftp sh socat ssh stdbuf \
    strace su sudo systemd-run tar taskset tcsh timeout tmux toybox unbuffer unshare vi view vim watch xargs zsh";

/// Programs that take commands or scripts. A rule that ends in `*` must name one.
const WITH_COMMANDS: &str = "\
    ansible apt apt-get aws az brew bun bundle bunx cargo cmake composer deno docker dotnet gcloud gh git gmake go \
    gradle gradlew hatch helm hg java just kubectl lua make mise mix mvn nerdctl nix node nodejs nox npm npx perl \
    php pip pipx pnpm podman poetry python rake rscript ruby rustup svn systemctl ninja osascript pnpx tclsh \
    terraform tox uv uvx yarn";

/// Commands of these programs that run the program which follows.
const RUNS: &[(&str, &[&str])] = &[
    ("bun", &["run", "x"]),
    ("bundle", &["exec"]),
    ("deno", &["eval", "run", "task"]),
    ("docker", &["compose", "exec", "run"]),
    ("dotnet", &["exec", "run"]),
    ("git", &["bisect", "filter-branch", "rebase", "submodule"]),
    ("go", &["run", "tool"]),
    ("hatch", &["run"]),
    ("kubectl", &["debug", "exec", "run"]),
    ("mise", &["exec", "x"]),
    ("nix", &["develop", "run", "shell"]),
    ("npm", &["exec", "x"]),
    ("pipx", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("podman", &["exec", "run"]),
    ("poetry", &["run"]),
    ("rustup", &["run"]),
    ("uv", &["run", "tool"]),
    ("yarn", &["dlx", "exec"]),
];

/// Refuses a pattern whose words only start whatever follows. Fails with a sentence.
pub(super) fn check(pattern: &Pattern) -> Result<(), String> {
    let program = name(&pattern.words[0]);
    if has(WRAPPERS, &program) && (pattern.is_open || pattern.words.len() == 1) {
        return Err(format!(
            "{program} can run any command, so this rule would permit everything. Write out all words that {program} may be \
             called with, without `*`."
        ));
    }
    if !pattern.is_open || !has(WITH_COMMANDS, &program) {
        return Ok(());
    }
    let mut rest = pattern.words[1..].iter().map(String::as_str).peekable();
    let mut named = program.clone();
    if program == "python" && rest.peek() == Some(&"-m") {
        rest.next();
    }
    let runs = RUNS.iter().find(|(runner, _)| *runner == program).map_or(&[] as &[&str], |(_, commands)| commands);
    if let Some(command) = rest.next_if(|word| runs.contains(word)) {
        named = format!("{program} {command}");
    }
    match rest.next() {
        Some(word) if !word.is_empty() && !word.starts_with('-') => Ok(()),
        _ => Err(format!(
            "`{named}` with any further words can run other programs, so this rule would permit nearly everything. Write at \
             least the next word, such as `{named} WORD *`, or all of them without `*`."
        )),
    }
}

fn has(list: &str, program: &str) -> bool {
    list.split(' ').any(|name| name == program)
}

/// Returns a program's name, without its directory and its version, in lower case.
fn name(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        "" => name,
        bare => bare.to_owned(),
    }
}
