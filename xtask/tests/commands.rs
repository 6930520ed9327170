//! The commands, on a machine where every other program is `tool.sh` under another name.

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

/// What `cargo` does where nextest is not installed.
const NO_NEXTEST: &str = "[ $1 != nextest ]";

/// A machine with a clone of the repository and just the programs that it is given.
struct Machine {
    directory: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // The one of an earlier run, if any.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("bin")).unwrap();
        fs::create_dir_all(directory.join("repository/xtask")).unwrap();
        fs::write(directory.join("repository/xtask/package-lock.json"), "{}").unwrap();
        Self { directory }
    }

    /// Installs a program that notes how it is called and then runs a line of shell.
    fn with(self, program: &str, does: &str) -> Self {
        let path = self.directory.join("bin").join(program);
        // As it is now: clones that share a target directory share this program.
        let tool = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/tool.sh");
        symlink(tool, &path).unwrap();
        fs::write(path.with_extension("does"), does).unwrap();
        self
    }

    /// Installs an npm that installs buf.
    fn with_npm(self) -> Self {
        let bin = "repository/xtask/node_modules/.bin";
        fs::create_dir_all(self.directory.join(bin)).unwrap();
        self.with(&format!("../{bin}/buf"), "")
            .with("npm", "/bin/mkdir -p $3/node_modules && : >$3/node_modules/.package-lock.json")
    }

    /// Installs a Go that installs programs, and a Python that makes environments.
    fn with_go_and_python(self) -> Self {
        self.with("go", "program=${2%@*} && /bin/mkdir -p $GOBIN && : >$GOBIN/${program##*/}")
            .with("python3", "/bin/mkdir -p $4/bin && /bin/ln -s $0 $4/bin/python")
            .with_file("xtask/charts/requirements.txt")
    }

    /// Installs all that the clients and the code that is made for them need, and puts the clients into the repository.
    fn with_clients(self) -> Self {
        let machine = self.with("mvn", "").with("javac", "").with("node", "").with("git", "");
        let machine = machine
            .with_file("client/typescript/package-lock.json")
            .with_file("client/python/requirements-generate.txt");
        LANGUAGES.iter().fold(machine, |machine, language| {
            machine
                .with_file(&format!("client/{language}/README.md"))
                .with(&format!("../repository/client/{language}/check"), "")
        })
    }

    /// Puts an empty file into the repository.
    fn with_file(self, name: &str) -> Self {
        let path = self.directory.join("repository").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
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

    /// Returns the calls of all programs since the last time.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.directory.join("calls")).unwrap_or_default();
        fs::write(self.directory.join("calls"), "").unwrap();
        calls.lines().map(str::to_owned).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_tests_are_given_the_server_in_the_path() {
    let machine = Machine::new("server-in-path")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with("cargo", &format!("{NO_NEXTEST} && echo CI=$CI $TEAMWIRE_REDIS_SERVER"));
    let output = machine.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        machine.calls(),
        [
            "cargo build --locked --package teamwire-conformance-driver",
            "cargo test --workspace --locked --doc",
            "cargo nextest --version",
            "cargo test --workspace --locked --lib --bins --tests"
        ]
    );
    let server = machine.directory.join("bin/redis-server");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("CI= {}\n", server.display()).repeat(3));
}

#[test]
fn the_tests_are_given_the_server_that_is_named_as_seen_from_anywhere() {
    let machine = Machine::new("server-named")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with("cargo", &format!("{NO_NEXTEST} && echo $TEAMWIRE_REDIS_SERVER"));
    let output = machine.xtask(&["test"], &[("TEAMWIRE_REDIS_SERVER", "bin/valkey-server")]);
    assert!(output.status.success(), "{output:?}");
    let server = machine.directory.join("bin/valkey-server");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", server.display()).repeat(3));
}

#[test]
fn a_named_server_that_is_not_there_is_an_error_even_with_another_in_the_path() {
    let machine = Machine::new("server-misnamed").with("redis-server", "").with("cargo", "");
    let output = machine.xtask(&["test"], &[("TEAMWIRE_REDIS_SERVER", "/nowhere/redis-server")]);
    assert!(!output.status.success());
    assert!(said(&output).contains("/nowhere/redis-server") && said(&output).contains("unset it"), "{output:?}");
    assert!(machine.calls().is_empty());
}

#[test]
fn nextest_is_used_where_it_is_there_after_the_tests_that_it_leaves_out() {
    let machine = Machine::new("nextest").with("redis-server", "").with("valkey-server", "").with("cargo", "");
    assert!(machine.xtask(&["test"], &[]).status.success());
    assert_eq!(
        machine.calls(),
        [
            "cargo build --locked --package teamwire-conformance-driver",
            "cargo test --workspace --locked --doc",
            "cargo nextest --version",
            "cargo nextest run --workspace --locked"
        ]
    );
}

#[test]
fn root_has_missing_servers_installed_and_what_makes_networks() {
    let machine = Machine::new("root")
        .with("id", "echo 0")
        .with("apt-get", "for last; do :; done; [ $1 = update ] || [ $2 = --simulate ] || : >${0%/*}/$last")
        .with("cargo", NO_NEXTEST);
    let output = machine.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        machine.calls(),
        [
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
            "cargo build --locked --package teamwire-conformance-driver",
            "cargo test --workspace --locked --doc",
            "cargo nextest --version",
            "cargo test --workspace --locked --lib --bins --tests"
        ]
    );
}

#[test]
fn nobody_else_needs_what_makes_networks() {
    let machine = Machine::new("no-networks")
        .with("id", "echo 1000")
        .with("apt-get", "")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with("cargo", NO_NEXTEST);
    assert!(machine.xtask(&["test"], &[]).status.success());
    let calls = machine.calls();
    assert!(calls.iter().all(|call| !call.starts_with("apt-get")), "{calls:?}");
}

#[test]
fn what_makes_networks_is_left_alone_where_it_is() {
    let machine = Machine::new("networks")
        .with("id", "echo 0")
        .with("apt-get", "")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with("ip", "")
        .with("cargo", NO_NEXTEST);
    assert!(machine.xtask(&["test"], &[]).status.success());
    let calls = machine.calls();
    assert!(calls.iter().all(|call| call.starts_with("cargo ")), "{calls:?}");
}

#[test]
fn faults_are_played_with_a_coordinator_that_has_places_to_die_at() {
    let machine = Machine::new("faults").with("redis-server", "").with("cargo", "echo $TEAMWIRE_REDIS_SERVER");
    let output = machine.xtask(&["faults", "--seconds", "5"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        machine.calls(),
        [
            "cargo build --locked --package teamwire --package teamwire-chaos --bins --features teamwire/failpoints",
            "cargo run --quiet --locked --package teamwire-chaos -- run --seconds 5"
        ]
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("bin/redis-server"), "{output:?}");
}

#[test]
fn anyone_else_is_told_to_install_a_missing_server() {
    let machine = Machine::new("not-root").with("id", "echo 1000").with("apt-get", "").with("cargo", "");
    let output = machine.xtask(&["test"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("sudo apt-get install redis-server"), "{output:?}");
    assert_eq!(machine.calls(), ["id -u"]);
}

#[test]
fn lint_installs_buf_once_and_checks_the_quickest_first() {
    let machine = Machine::new("lint").with("cargo", "").with_npm();
    let output = machine.xtask(&["lint"], &[]);
    assert!(output.status.success(), "{output:?}");
    let checks = [
        "cargo fmt --all --check",
        "buf lint",
        "buf format --diff --exit-code",
        "buf breaking --against proto/released.binpb",
        "cargo clippy --workspace --all-targets --locked -- -D warnings",
    ];
    let mut first = checks.to_vec();
    first.insert(1, "npm ci --prefix xtask --ignore-scripts --no-audit --no-fund");
    assert_eq!(machine.calls(), first);
    assert!(machine.xtask(&["lint"], &[]).status.success());
    assert_eq!(machine.calls(), checks);
}

#[test]
fn a_check_that_fails_is_the_last_and_says_what_to_do() {
    let machine = Machine::new("failing").with("cargo", "exit 1").with_npm();
    let output = machine.xtask(&["lint"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("`cargo fmt --all --check` failed (exit status: 1)"), "{output:?}");
    assert!(said(&output).contains("next: `cargo fmt --all` puts it right"), "{output:?}");
    assert_eq!(machine.calls(), ["cargo fmt --all --check"]);
}

#[test]
fn a_tool_that_is_missing_is_named_with_what_installs_it() {
    let machine = Machine::new("no-npm").with("cargo", "");
    let output = machine.xtask(&["lint"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("cannot run") && said(&output).contains("apt-get install npm"), "{output:?}");
}

#[test]
fn charts_installs_its_tools_once_and_checks_with_the_teamwire_that_it_builds() {
    let machine = Machine::new("charts").with("cargo", "").with_go_and_python();
    let output = machine.xtask(&["charts"], &[]);
    assert!(output.status.success(), "{output:?}");
    let calls = machine.calls();
    assert_eq!(calls[0], "cargo build --locked --package teamwire --bin teamwire");
    assert!(calls[1].starts_with("go install helm.sh/helm/v3/cmd/helm@v3."), "{calls:?}");
    assert!(calls[2].starts_with("go install github.com/zegl/kube-score/cmd/kube-score@v"), "{calls:?}");
    assert_eq!(calls[3], "python3 -m venv --clear target/tools/charts");
    assert!(calls[4].ends_with("--requirement xtask/charts/requirements.txt"), "{calls:?}");
    assert_eq!(calls[5..], ["python -B xtask/charts/check.py"]);

    let built = ("TEAMWIRE_TEST_BINARY", "/bin/true");
    assert!(machine.xtask(&["charts"], &[built]).status.success());
    assert_eq!(machine.calls(), ["python -B xtask/charts/check.py"]);
    assert!(machine.xtask(&["manifests"], &[]).status.success());
    assert_eq!(machine.calls(), ["python -B xtask/charts/check.py --write"]);
}

#[test]
fn containers_are_tested_on_the_docker_that_is_there_and_their_images_are_removed_even_after_a_failure() {
    let machine = Machine::new("containers").with("docker", "").with("git", "echo 1a2b");
    let machine = machine.with("cargo", "echo $TEAMWIRE_TEST_CONTAINERS $TEAMWIRE_IMAGE $TEAMWIRE_REVISION; exit 1");
    let output = machine.xtask(&["containers"], &[]);
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 teamwire-test 1a2b\n");
    assert_eq!(
        machine.calls(),
        [
            "docker info",
            "git rev-parse HEAD",
            "docker compose --file deploy/compose.yaml build coordinator setup",
            "cargo test --locked --test containers",
            "docker image rm teamwire-test teamwire-test-teammate"
        ]
    );
}

#[test]
fn anyone_else_is_told_that_containers_need_docker() {
    let machine = Machine::new("no-docker").with("docker", "exit 1").with("id", "echo 1000").with("apt-get", "");
    let output = machine.xtask(&["containers"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("start a Docker daemon"), "{output:?}");
    assert_eq!(machine.calls(), ["docker info", "id -u"]);
}

#[test]
fn ci_checks_then_tests_as_ci() {
    let machine = Machine::new("ci")
        .with("redis-server", "")
        .with("valkey-server", "")
        .with("cargo", &format!("{NO_NEXTEST} && echo $1 CI=$CI $TEAMWIRE_CLIENTS"))
        .with_npm()
        .with_go_and_python()
        .with_clients();
    let output = machine.xtask(&["ci"], &[]);
    assert!(output.status.success(), "{output:?}");
    let ready = LANGUAGES.join(",");
    let tested = ["build", "test", "test"].map(|step| format!("{step} CI=true {ready}\n")).concat();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("fmt CI=\nclippy CI=\nbuild CI=\nbuild CI=\nrun CI=\n{tested}")
    );
    let calls = machine.calls();
    let at = |call: &str| {
        calls.iter().position(|made| made.starts_with(call)).unwrap_or_else(|| panic!("{call}: {calls:#?}"))
    };
    let order = ["buf generate", "git status", "python -B xtask/charts/check.py", "check ", "cargo test"].map(at);
    assert!(order.is_sorted(), "{calls:#?}");
    assert_eq!(calls.iter().filter(|call| *call == "check ").count(), LANGUAGES.len());
}

#[test]
fn a_client_whose_language_is_not_there_is_left_out_but_not_of_ci() {
    let machine = |name| {
        let machine =
            Machine::new(name).with("redis-server", "").with("valkey-server", "").with_npm().with_go_and_python();
        machine.with("cargo", &format!("{NO_NEXTEST} && echo $TEAMWIRE_CLIENTS")).with_clients()
    };
    let without = machine("no-java");
    fs::remove_file(without.directory.join("bin/javac")).unwrap();
    let output = without.xtask(&["test"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(said(&output).contains("skipping the java client"), "{output:?}");
    let others: Vec<_> = LANGUAGES.iter().copied().filter(|language| *language != "java").collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", others.join(",")).repeat(3));
    let output = without.xtask(&["ci"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("no javac in PATH") && said(&output).contains("openjdk"), "{output:?}");
}

#[test]
fn made_code_that_differs_from_what_is_committed_is_a_failure() {
    let machine = Machine::new("differs").with("cargo", "").with_npm().with_go_and_python().with_clients();
    fs::write(machine.directory.join("bin/git.does"), "echo ' M client/go/teamwire/v1/team.pb.go'").unwrap();
    let output = machine.xtask(&["clients"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("team.pb.go") && said(&output).contains("cargo xtask generate"), "{output:?}");
}

#[test]
fn help_lists_the_commands_and_is_named_where_one_does_not_exist() {
    let machine = Machine::new("help");
    let output = machine.xtask(&["help"], &[]);
    assert!(output.status.success());
    assert!(["test", "lint", "ci"].iter().all(|name| String::from_utf8_lossy(&output.stdout).contains(name)));
    let output = machine.xtask(&["tset"], &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("`tset`") && said(&output).contains("cargo xtask help"), "{output:?}");
}
