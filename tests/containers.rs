//! The images of deploy/Dockerfile and the services of deploy/compose.yaml, as `cargo xtask containers` builds them, in
//! real containers on real networks of Docker.
//!
//! Without `TEAMWIRE_TEST_CONTAINERS`, which that command sets, the tests say so and are left out. A [`ContainerTest`]
//! owns what a test starts and removes it in the end, also when the test fails. Nothing here waits for a time to pass:
//! a test awaits what it wants to see, for as long as [`PATIENCE`].

#![allow(clippy::unwrap_used, missing_debug_implementations)]

use std::{
    collections::BTreeMap,
    env, fs,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long a test waits for what must come. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// What any container of teamwire must do with.
const CONFINED: [&str; 5] = ["--read-only", "--user=65532", "--cap-drop=ALL", "--security-opt", "no-new-privileges"];

/// The files of the coordinator's image, but for what Docker puts into every container.
const FILES: [&str; 3] = ["LICENSE", "etc/ssl/certs/ca-certificates.crt", "teamwire"];

/// More than the binary has, and less than anything else would add.
const BYTES_MAX: u64 = 80_000_000;

/// Acknowledges every message after writing its content to a file; approves its shutdown.
const RECORDER: &str = r#"
import json, sys
took = open("/var/lib/teamwire/took", "a", buffering=1)
for line in sys.stdin:
    said = json.loads(line)
    if said["type"] == "shutdown_request":
        print(json.dumps({"type": "shutdown_response", "request_id": said["request_id"], "approve": True}), flush=True)
        continue
    if said["type"] == "message":
        print(said["content"], file=took)
    if "id" in said:
        print(json.dumps({"ack": said["id"]}), flush=True)
"#;

/// Sends one number after the other until there is a file `/tmp/stop`, each once the one before was stored. Says the
/// last. Slow enough that an inbox holds what comes until a cut is noticed.
const SENDER: &str = r#"
number=0
until [ -e /tmp/stop ]; do
    number=$((number + 1))
    teamwire send recorder "$number" -s "a number" >/dev/null || exit
    echo "$number" >/tmp/sent
    sleep 0.1
done
echo "$number"
"#;

#[test]
fn the_versions_of_the_images_and_of_the_package_are_the_same() {
    let dockerfile = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/Dockerfile")).unwrap();
    let version = dockerfile.lines().find_map(|line| line.strip_prefix("ARG VERSION="));
    assert_eq!(version, Some(env!("CARGO_PKG_VERSION")), "in deploy/Dockerfile");
}

#[test]
fn the_image_is_one_binary_that_serves_in_a_confined_container() {
    let Some(stage) = ContainerTest::new() else { return };
    let image = &docker(&["image", "inspect", &stage.image]).json()[0];
    let label = |name: &str| image["Config"]["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap();
    assert_eq!((label("licenses"), label("title")), ("Apache-2.0", "teamwire"));
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(label("revision"), env::var("TEAMWIRE_REVISION").unwrap());
    assert!(image["Size"].as_u64().unwrap() < BYTES_MAX, "{}", image["Size"]);

    let state = stage.volume("state");
    stage.start(
        "coordinator",
        &[&CONFINED[..], &["-v", &format!("{state}:/var/lib/teamwire")]].concat(),
        &stage.image,
        &[],
    );
    stage.await_health("coordinator", "healthy");
    assert_eq!(files(&stage.name("coordinator")), FILES);
    let no_shell = docker_fails(&["exec", &stage.name("coordinator"), "sh"]);
    assert!(no_shell.contains("executable file not found"), "{no_shell}");
    stage.exec("coordinator", &["/teamwire", "team", "create", "acme"]);
    docker(&["stop", "--time=35", &stage.name("coordinator")]);
    assert_eq!(stage.await_exit("coordinator"), 0);
    docker(&["start", &stage.name("coordinator")]);
    stage.await_health("coordinator", "healthy");
    let status = stage.exec("coordinator", &["/teamwire", "status", "--json"]).json();
    assert_eq!(status["team"]["name"], "acme", "{status}");

    // Without a volume, for a coordinator that keeps everything in Redis.
    let tmpfs = ["--tmpfs", "/var/lib/teamwire:uid=65532,gid=65532,mode=0700"];
    stage.start("fleeting", &[&CONFINED[..], &tmpfs].concat(), &stage.image, &[]);
    stage.await_health("fleeting", "healthy");
}

#[test]
fn a_teammate_joins_over_tls_answers_and_ends_with_0_once_its_shutdown_is_approved() {
    let Some(stage) = ContainerTest::serving() else { return };
    let echo = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/echo.py")).unwrap();
    stage.join("backend", &["python3", "-c", &echo]);
    // A user who has only the image and the lead's volume.
    let lead = format!("{}:/var/lib/teamwire:ro", stage.name("lead"));
    let network = stage.name("team");
    let run = [&["run", "--rm", "--network", &network, "-v", &lead], &CONFINED[..]].concat();
    let answer = docker(&[&run[..], &[&stage.image, "send", "backend", "Hello!", "-s", "hi", "--wait-reply"]].concat());
    assert!(answer.stdout.contains("You said: Hello!"), "{}", answer.stdout);

    stage.lead(&["shutdown", "backend", "Well done.", "--wait"]);
    assert_eq!(stage.await_exit("backend"), 0);
    assert_eq!(stage.member("backend")["state"], "exited");
}

#[test]
fn a_teammate_that_is_stopped_ends_in_order_and_its_tasks_are_back() {
    let Some(stage) = ContainerTest::serving() else { return };
    stage.join("backend", &["python3", "-c", RECORDER]);
    stage.lead(&["task", "create", "Write it"]);
    stage.exec("backend", &["teamwire", "--as", "backend", "task", "claim", "1"]);
    assert_eq!(stage.task(1)["owner"], "backend");

    docker(&["stop", "--time=25", &stage.name("backend")]);
    // As a shell says of a program that SIGTERM has ended.
    assert_eq!(stage.await_exit("backend"), 143);
    let member = stage.member("backend");
    assert_eq!(member["state"], "exited", "{member}");
    let task = stage.task(1);
    assert!(task["status"] == "pending" && task["owner"].as_str().unwrap_or("").is_empty(), "{task}");
}

#[test]
fn a_teammate_that_was_killed_comes_back_in_a_new_life() {
    let Some(stage) = ContainerTest::serving() else { return };
    stage.join("backend", &["python3", "-c", RECORDER]);
    docker(&["kill", &stage.name("backend")]);
    // Its join string is spent; what it is lies in its volume.
    docker(&["start", &stage.name("backend")]);
    stage.await_member("backend", "it is there again", |member| {
        member["connected"] == true && member["incarnation"] == 2
    });
}

#[test]
fn networks_that_are_cut_cost_no_message() {
    let Some(stage) = ContainerTest::serving() else { return };
    stage.join("recorder", &["python3", "-c", RECORDER]);
    let sender = stage.send_numbers();
    stage.await_numbers(20);

    let health = ["/teamwire", "health"];
    let coordinator = stage.name("coordinator-1");
    let ask = || Output::of(Command::new("docker").args(["exec", &coordinator]).args(health)).code;
    docker(&["network", "disconnect", &stage.name("store"), &coordinator]);
    eventually("the coordinator notices that its store is silent", || (ask() == 1).then_some(()));
    docker(&["network", "connect", &stage.name("store"), &coordinator]);
    eventually("the coordinator serves again", || (ask() == 0).then_some(()));
    stage.await_numbers(20);

    docker(&["network", "disconnect", &stage.name("team"), &stage.name("recorder")]);
    eventually("the teammate notices that it is alone", || {
        stage.log("recorder").contains("connection lost").then_some(())
    });
    docker(&["network", "connect", &stage.name("team"), &stage.name("recorder")]);
    stage.await_numbers(20);
    stage.assert_all_taken(sender);
    assert_eq!(stage.member("recorder")["incarnation"], 1, "it is the same life");
}

#[test]
fn coordinators_are_replaced_under_load_and_no_sender_notices() {
    let Some(stage) = ContainerTest::serving() else { return };
    stage.join("recorder", &["python3", "-c", RECORDER]);
    let sender = stage.send_numbers();
    stage.await_numbers(20);
    for (old, new) in [("coordinator-1", "coordinator-2"), ("coordinator-2", "coordinator-1")] {
        stage.serve(new);
        stage.await_numbers(20);
        docker(&["stop", "--time=35", &stage.name(old)]);
        assert_eq!(stage.await_exit(old), 0, "{old} has drained");
        let log = stage.log(old);
        assert!(!log.contains(" ERROR "), "{log}");
        docker(&["rm", "--volumes", &stage.name(old)]);
        stage.await_numbers(20);
    }
    stage.assert_all_taken(sender);
}

#[test]
fn compose_starts_a_team_that_answers_ends_and_comes_again() {
    let Some(compose) = Compose::new() else { return };
    compose.up();
    for name in ["alpha", "beta"] {
        compose.asks(name);
    }
    // While all of it runs, it changes nothing.
    let lives = compose.lives();
    compose.up();
    assert_eq!(compose.lives(), lives);

    compose.lead(&["shutdown", "beta", "Well done.", "--wait"]);
    let beta = compose.run(&["ps", "--all", "--quiet", "beta"]).stdout;
    assert_eq!(await_exit(beta.trim()), 0);
    assert_eq!(docker(&["inspect", beta.trim()]).json()[0]["RestartCount"], 0);
    compose.run(&["restart", "alpha"]);
    compose.asks("alpha");

    compose.run(&["down"]);
    assert_eq!(compose.left("container"), "");
    assert_eq!(compose.left("network"), "");
    compose.up();
    compose.asks("alpha");
    compose.asks("beta");
    assert_eq!(compose.lives().len(), 3, "the lead and two teammates");

    compose.run(&["down", "--volumes"]);
    for kind in ["container", "network", "volume"] {
        assert_eq!(compose.left(kind), "");
    }
}

/// What one test has started. All of it bears a label, by which it is found and removed in the end.
struct ContainerTest {
    /// What the names of everything begin with.
    id: String,
    image: String,
    teammate_image: String,
    redis_image: String,
}

impl ContainerTest {
    /// Begins with nothing. `None`, with a notice, where there are no containers to test in.
    fn new() -> Option<Self> {
        let image = |variable: &str, default: &str| env::var(variable).unwrap_or_else(|_| default.to_owned());
        Some(Self {
            id: new_id()?,
            image: image("TEAMWIRE_IMAGE", "teamwire"),
            teammate_image: image("TEAMWIRE_TEAMMATE_IMAGE", "teamwire-teammate"),
            redis_image: image("TEAMWIRE_REDIS_IMAGE", "redis:7-bookworm"),
        })
    }

    /// Starts Redis on a separate network, a coordinator with TLS, and the team `acme`, whose lead is in
    /// a container, too.
    fn serving() -> Option<Self> {
        let stage = Self::new()?;
        let label = format!("teamwire.test={}", stage.id);
        docker(&["network", "create", "--label", &label, "--internal", &stage.name("store")]);
        docker(&["network", "create", "--label", &label, &stage.name("team")]);
        let server = ["redis-server", "--dir", "/data", "--appendonly", "yes", "--appendfsync", "always"];
        let store = ["--network", &stage.name("store"), "--network-alias=redis", "--user=redis", "--cap-drop=ALL"];
        stage.start("redis", &store, &stage.redis_image, &[&server[..], &["--protected-mode", "no"]].concat());

        eventually("Redis answers", || {
            let ping = Output::of(Command::new("docker").args(["exec", &stage.name("redis"), "redis-cli", "ping"]));
            (ping.stdout.trim() == "PONG").then_some(())
        });

        let state = format!("{}:/var/lib/teamwire", stage.volume("lead"));
        let certs = ["certs", "--dir=/var/lib/teamwire/certs", "--host=coordinator"];
        let made = [&["run", "--rm", "-v", &state], &CONFINED[..], &[&stage.image]].concat();
        docker(&[&made[..], &certs].concat());
        stage.serve("coordinator-1");

        let environment = [
            "--env=TEAMWIRE_ADDRESS=https://coordinator:7420",
            "--env=TEAMWIRE_CA=/var/lib/teamwire/certs/ca.crt",
            "--env=TEAMWIRE_STATE_DIR=/var/lib/teamwire",
            "--env=TEAMWIRE_TIMEOUT=120",
        ];
        let waits = ["--tmpfs=/tmp", "--entrypoint=sleep", "--network", &stage.name("team"), "-v", &state];
        let options = [&CONFINED[..], &waits, &environment].concat();
        stage.start("lead", &options, &stage.teammate_image, &["infinity"]);
        stage.lead(&["team", "create", "acme"]);
        Some(stage)
    }

    /// Starts a coordinator, and waits until it serves.
    fn serve(&self, name: &str) {
        let state = format!("{}:/var/lib/teamwire", self.name("lead"));
        let at = ["--network", &self.name("store"), "-v", &state];
        let serve = [
            "serve",
            "--listen=0.0.0.0:7420",
            "--store=redis://redis:6379",
            "--tls-cert=/var/lib/teamwire/certs/server.crt",
            "--tls-key=/var/lib/teamwire/certs/server.key",
            "--advertise=https://coordinator:7420",
        ];
        self.start(name, &[&CONFINED[..], &at].concat(), &self.image, &serve);
        docker(&["network", "connect", "--alias=coordinator", &self.name("team"), &self.name(name)]);
        self.await_health(name, "healthy");
    }

    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.id)
    }

    fn volume(&self, what: &str) -> String {
        docker(&["volume", "create", "--label", &format!("teamwire.test={}", self.id), &self.name(what)]);
        self.name(what)
    }

    /// Starts a container.
    #[track_caller]
    fn start(&self, what: &str, options: &[&str], image: &str, command: &[&str]) {
        let (name, label) = (self.name(what), format!("teamwire.test={}", self.id));
        let named = ["run", "--detach", "--name", &name, "--hostname", what, "--label", &label];
        docker(&[&named, options, &[image], command].concat());
    }

    /// Starts a program as a member, with a join string, and waits until it is there.
    #[track_caller]
    fn join(&self, member: &str, program: &[&str]) {
        let join_string = self.lead(&["invite", member]).stdout.trim().to_owned();
        let state = format!("{}:/var/lib/teamwire", self.volume(member));
        let network = self.name("team");
        let options = [&CONFINED[..], &["--network", &network, "-v", &state]].concat();
        let run = ["run", "--join", &join_string, member, "--"];
        self.start(member, &options, &self.teammate_image, &[&run[..], program].concat());
        self.await_member(member, "it is there", |found| found["connected"] == true);
    }

    /// Runs a command in a container that runs.
    #[track_caller]
    fn exec(&self, what: &str, command: &[&str]) -> Output {
        docker(&[&["exec", &self.name(what)], command].concat())
    }

    /// Runs a command of teamwire as the lead.
    #[track_caller]
    fn lead(&self, arguments: &[&str]) -> Output {
        self.exec("lead", &[&["teamwire"], arguments].concat())
    }

    /// Returns a member as the lead sees it.
    fn member(&self, name: &str) -> Value {
        let status = self.lead(&["status", "--json"]).json();
        status["members"]
            .as_array()
            .unwrap()
            .iter()
            .find(|member| member["name"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    }

    #[track_caller]
    fn await_member(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
        eventually(&format!("{name}: {what}"), || is_so(&self.member(name)).then_some(()));
    }

    fn task(&self, number: u32) -> Value {
        self.lead(&["task", "show", &number.to_string(), "--json"]).json()["task"].clone()
    }

    #[track_caller]
    fn await_health(&self, what: &str, health: &str) {
        let format = "--format={{.State.Health.Status}}";
        eventually(&format!("{what} is {health}"), || {
            (docker(&["inspect", format, &self.name(what)]).stdout.trim() == health).then_some(())
        });
    }

    fn await_exit(&self, what: &str) -> i64 {
        await_exit(&self.name(what))
    }

    /// Returns all that a container has said.
    fn log(&self, what: &str) -> String {
        let said = docker(&["logs", &self.name(what)]);
        said.stdout + &said.stderr
    }

    /// Begins to send numbers to the recorder.
    fn send_numbers(&self) -> Child {
        let mut command = Command::new("docker");
        command.args(["exec", &self.name("lead"), "sh", "-c", SENDER]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn numbers(&self) -> Vec<u64> {
        // Until the first comes, there is no file.
        let took = self.exec("recorder", &["sh", "-c", "cat /var/lib/teamwire/took || true"]);
        took.stdout.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until some more numbers have been sent than at this moment, and the last of these was taken.
    #[track_caller]
    fn await_numbers(&self, more: u64) {
        let sent =
            || self.exec("lead", &["sh", "-c", "cat /tmp/sent 2>/dev/null || echo 0"]).stdout.trim().parse::<u64>();
        let enough = sent().unwrap_or(0) + more;
        eventually("numbers come", || (self.numbers().last() >= Some(&enough)).then_some(()));
    }

    /// Stops the sender, and asserts that it met with no error, and that every number was taken, once, in order.
    #[track_caller]
    fn assert_all_taken(&self, sender: Child) {
        self.exec("lead", &["touch", "/tmp/stop"]);
        let said = sender.wait_with_output().unwrap();
        assert!(said.status.success(), "a send has failed: {}", String::from_utf8_lossy(&said.stderr));
        let sent: u64 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
        eventually("the last number comes", || (self.numbers().last() >= Some(&sent)).then_some(()));
        assert_eq!(self.numbers(), (1..=sent).collect::<Vec<_>>(), "all, once, in order");
    }
}

impl Drop for ContainerTest {
    fn drop(&mut self) {
        if thread::panicking() {
            for container in ids("container", &format!("label=teamwire.test={}", self.id)) {
                let said = Output::of(Command::new("docker").args(["logs", "--tail=40", &container]));
                eprintln!("{container}:\n{}{}", said.stdout, said.stderr);
            }
        }
        remove(&format!("label=teamwire.test={}", self.id));
    }
}

/// The services of deploy/compose.yaml under a project of the test's own, on a free port.
struct Compose {
    project: String,
}

impl Compose {
    fn new() -> Option<Self> {
        new_id().map(|project| Self { project })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/compose.yaml");
        command.args(["compose", "--file", file, "--project-name", &self.project]).args(arguments);
        command.env("TEAMWIRE_PORT", "0");
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.command(arguments)).succeeds()
    }

    #[track_caller]
    fn up(&self) {
        self.run(&["up", "--detach", "--no-build"]);
    }

    /// Runs a command as the lead, as the head of the file says.
    #[track_caller]
    fn lead(&self, arguments: &[&str]) -> Output {
        self.run(&[&["exec", "--no-TTY", "coordinator", "/teamwire"], arguments].concat())
    }

    /// Asserts that a teammate answers.
    #[track_caller]
    fn asks(&self, name: &str) {
        let answer = self.lead(&["send", name, "Hello!", "-s", "greeting", "--wait-reply"]);
        assert!(answer.stdout.contains("You said: Hello!"), "{name}: {}", answer.stdout);
    }

    /// Returns which life each member is in.
    fn lives(&self) -> BTreeMap<String, u64> {
        let status = self.lead(&["status", "--json"]).json();
        let members = status["members"].as_array().unwrap().iter();
        members
            .map(|member| (member["name"].as_str().unwrap().to_owned(), member["incarnation"].as_u64().unwrap()))
            .collect()
    }

    /// Returns what there is of a kind that belongs to the project.
    fn left(&self, kind: &str) -> String {
        ids(kind, &format!("label=com.docker.compose.project={}", self.project)).join(" ")
    }
}

impl Drop for Compose {
    fn drop(&mut self) {
        if thread::panicking() {
            let said = Output::of(&mut self.command(&["logs", "--tail=40"]));
            eprintln!("{}{}", said.stdout, said.stderr);
        }
        remove(&format!("label=com.docker.compose.project={}", self.project));
    }
}

/// Returns a name that no other test has. `None`, with a notice, where there are no containers to test in.
fn new_id() -> Option<String> {
    static IDS: AtomicUsize = AtomicUsize::new(0);
    if env::var_os("TEAMWIRE_TEST_CONTAINERS").is_none() {
        eprintln!("left out: `cargo xtask containers` runs it");
        return None;
    }
    Some(format!("teamwire-test-{}-{}", std::process::id(), IDS.fetch_add(1, Ordering::Relaxed)))
}

/// What a command has said, and how it ended.
struct Output {
    what: String,
    code: i32,
    stdout: String,
    stderr: String,
}

impl Output {
    fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Self { what: format!("{command:?}"), code: output.status.code().unwrap_or(-1), stdout, stderr }
    }

    #[track_caller]
    fn succeeds(self) -> Self {
        assert_eq!(self.code, 0, "{}\n{}{}", self.what, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.stdout))
    }
}

#[track_caller]
fn docker(arguments: &[&str]) -> Output {
    Output::of(Command::new("docker").args(arguments)).succeeds()
}

/// Returns why it failed.
#[track_caller]
fn docker_fails(arguments: &[&str]) -> String {
    let output = Output::of(Command::new("docker").args(arguments));
    assert_ne!(output.code, 0, "{}", output.what);
    output.stdout + &output.stderr
}

/// Waits until a container has ended, and returns its exit code.
#[track_caller]
fn await_exit(container: &str) -> i64 {
    eventually(&format!("{container} ends"), || {
        let state = docker(&["inspect", container]).json()[0]["State"].clone();
        (state["Running"] == false && state["Restarting"] == false).then(|| state["ExitCode"].as_i64().unwrap())
    })
}

/// Returns the files of a container that have something in them, without what Docker has put there.
fn files(container: &str) -> Vec<String> {
    let archive = tempfile::NamedTempFile::new().unwrap();
    let path = archive.path().to_str().unwrap();
    docker(&["export", "--output", path, container]);
    let listed = Output::of(Command::new("tar").args(["--list", "--verbose", "--file", path])).succeeds();
    // The mode and the size stand first and third.
    let name = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].starts_with('-') && words[2] != "0").then(|| words[5].to_owned())
    };
    let mut names: Vec<String> = listed.stdout.lines().filter_map(name).collect();
    names.sort();
    names
}

fn ids(kind: &str, filter: &str) -> Vec<String> {
    let all: &[&str] = if kind == "container" { &["--all"] } else { &[] };
    let listed = Output::of(Command::new("docker").args([kind, "ls", "--quiet", "--filter", filter]).args(all));
    listed.stdout.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Removes everything with a label.
fn remove(filter: &str) {
    for (kind, options) in [("container", &["--force", "--volumes"][..]), ("network", &[]), ("volume", &["--force"])] {
        let found = ids(kind, filter);
        if !found.is_empty() {
            Output::of(Command::new("docker").args([kind, "rm"]).args(options).args(found));
        }
    }
}

/// Waits until something is there. Asks again and again, for as long as [`PATIENCE`].
#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(200));
    }
}
