//! Builds the images and tests them in real containers.
//!
//! If a Docker daemon is reachable, it builds the images and fetches their bases. Otherwise root on Debian starts a
//! private daemon for this command. It runs in its own namespaces, which hide its bridges, filter rules and mounts from
//! the machine, and end everything in them with the daemon. It cannot reach the network, so this program makes the base
//! images: with debootstrap, and from the Rust and the crates of this machine.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    build,
    install::{apt_install, in_path, may_install},
    step::{Failure, Step, root},
};

const ADVICE: &str = "start a Docker daemon (23 or newer, with the compose plugin), or run this as root on Debian, which \
                      installs and starts a private one";

/// The packages that a private daemon needs.
const PACKAGES: [&str; 6] = ["docker.io", "containerd", "runc", "iptables", "iproute2", "debootstrap"];

/// The compose plugin for the private daemon: Debian's is too old.
const COMPOSE: &str = "github.com/docker/compose/v2@v2.40.3";

/// How long the daemon may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the daemon in its namespaces, with an empty `/run`. The shell remains the first process there, and reaps
/// orphans.
const DAEMON: &str = r#"mount -t tmpfs tmpfs /run && ip link set lo up && dockerd "$@"; exit"#;

/// The variables by which deploy/compose.yaml and the tests find the images, and the names that this command gives
/// them.
const IMAGES: [(&str, &str); 2] =
    [("TEAMWIRE_IMAGE", "teamwire-test"), ("TEAMWIRE_TEAMMATE_IMAGE", "teamwire-test-teammate")];

/// Builds the images with deploy/compose.yaml, and runs tests/containers.rs on them.
pub(crate) fn test() -> Result<(), Failure> {
    let own = if Step::new("docker", &["info"]).succeeds() { None } else { Some(Daemon::start()?) };
    let mut environment: Vec<(&str, String)> = IMAGES.map(|(variable, image)| (variable, image.to_owned())).into();
    let mut build = vec!["compose", "--file", "deploy/compose.yaml", "build", "coordinator", "setup"];
    if let Some(daemon) = &own {
        environment.extend(daemon.environment());
        daemon.make_bases()?;
        build.extend(["--build-arg", "RUST_IMAGE=base-rust", "--build-arg", "PYTHON_IMAGE=base-debian"]);
        environment.push(("TEAMWIRE_REDIS_IMAGE", "base-debian".to_owned()));
    }
    let revision = Step::new("git", &["rev-parse", "HEAD"]).output().unwrap_or_else(|| "unknown".to_owned());
    environment.push(("TEAMWIRE_REVISION", revision));
    let with = |step: Step| environment.iter().fold(step, |step, (variable, value)| step.env(variable, value));

    let tested = with(Step::new("docker", &build)).advice(ADVICE).run().and_then(|()| {
        let test = build::cargo("test", &["--test", "containers"]).env("TEAMWIRE_TEST_CONTAINERS", "1");
        with(test).advice("the output of the containers is above").run()
    });
    if own.is_none() {
        // Fails if the build failed, which does not matter.
        with(Step::new("docker", &["image", "rm", IMAGES[0].1, IMAGES[1].1])).succeeds();
    }
    tested
}

/// A private Docker daemon. It ends, with everything in it, when this is dropped or this process dies.
struct Daemon {
    process: Child,
    /// Its data. Removed on drop.
    state: PathBuf,
    /// What the next run reuses: the directories that debootstrap filled, and the compose plugin.
    kept: PathBuf,
    /// Lets one run per checkout at a time proceed.
    _lock: File,
}

impl Daemon {
    fn start() -> Result<Self, Failure> {
        let failed = |what: &Path, error| Failure::new(format!("{}: {error}", what.display()), ADVICE);
        if !may_install() {
            return Err(Failure::new("no Docker daemon can be reached", ADVICE));
        }
        if ["dockerd", "debootstrap", "ip", "iptables"].iter().any(|program| in_path(program).is_none()) {
            apt_install(&PACKAGES, ADVICE)?;
        }
        let kept = root().join("target/containers");
        let state = kept.join("docker");
        fs::create_dir_all(&kept).map_err(|error| failed(&kept, error))?;
        let lock = File::create(kept.join("lock")).map_err(|error| failed(&kept, error))?;
        lock.lock().map_err(|error| failed(&kept, error))?;
        // Left by a run that was killed.
        let _ = fs::remove_dir_all(&state);
        fs::create_dir_all(&state).map_err(|error| failed(&state, error))?;

        let log = File::create(kept.join("dockerd.log")).map_err(|error| failed(&kept, error))?;
        // The kernel kills setpriv when this process dies, and unshare then kills the first process of the namespaces.
        let mut command = Command::new("setpriv");
        let alone = "unshare --net --mount --pid --mount-proc --fork --kill-child";
        command.args(["--pdeathsig", "KILL"]).args(alone.split(' '));
        command.args(["sh", "-c", DAEMON, "sh"]);
        command.arg(format!("--host=unix://{}", state.join("socket").display()));
        command.arg(format!("--data-root={}", state.join("data").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        eprintln!("xtask: starting a private dockerd; its log is {}", kept.join("dockerd.log").display());
        let process = command.spawn().map_err(|error| failed(Path::new("setpriv"), error))?;
        let mut daemon = Self { process, state, kept, _lock: lock };
        daemon.await_start()?;
        daemon.provide_compose()?;
        Ok(daemon)
    }

    fn await_start(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        while !self.step("docker", &["info"]).succeeds() {
            let is_over = !matches!(self.process.try_wait(), Ok(None));
            if is_over || began.elapsed() > PATIENCE {
                let what = format!("dockerd did not start; see {}", self.kept.join("dockerd.log").display());
                return Err(Failure::new(what, ADVICE));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Returns the environment in which a Docker client reaches this daemon and no other.
    fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("DOCKER_HOST", format!("unix://{}", self.state.join("socket").display())),
            ("DOCKER_CONFIG", self.kept.join("config").display().to_string()),
        ]
    }

    fn step(&self, program: &str, arguments: &[&str]) -> Step {
        let step = Step::new(program, arguments).advice(ADVICE);
        self.environment().iter().fold(step, |step, (variable, value)| step.env(variable, value))
    }

    /// Builds the compose plugin from source, unless an earlier run did.
    fn provide_compose(&self) -> Result<(), Failure> {
        const GO: &str = "install Go 1.24 or newer: the compose plugin is built from its module";
        if self.step("docker", &["compose", "version"]).succeeds() {
            return Ok(());
        }
        Step::new("go", &["mod", "download", COMPOSE]).advice(GO).run()?;
        let modules = Step::new("go", &["env", "GOMODCACHE"]).output().unwrap_or_default();
        // In its own directory, whose go.mod pins its dependencies; `go install` cannot install it.
        let source = format!("{modules}/{COMPOSE}");
        let plugin = self.kept.join("config/cli-plugins/docker-compose").display().to_string();
        let build = ["build", "-C", &source, "-trimpath", "-ldflags=-s -w", "-o", &plugin, "./cmd"];
        Step::new("go", &build).env("CGO_ENABLED", "0").advice(GO).run()
    }

    /// Makes the base images of ours, and the one that Redis runs in.
    fn make_bases(&self) -> Result<(), Failure> {
        let debian = self.debootstrap("ca-certificates,python3,redis-server")?;
        run("chroot", &[&debian, "install", "-d", "-o", "redis", "-g", "redis", "/data"])?;
        self.import(&debian, "base-debian", &[])?;

        let rust = self.debootstrap("ca-certificates,gcc,libc6-dev")?;
        let [toolchain, crates] = [format!("{rust}/usr/local"), format!("{rust}/opt/cargo/registry")];
        run("rm", &["-rf", &toolchain, &crates])?;
        run("mkdir", &["-p", &toolchain, &crates])?;
        let sysroot = Step::new("rustc", &["--print", "sysroot"]).output().unwrap_or_default();
        run("cp", &["-a", &format!("{sysroot}/bin"), &format!("{sysroot}/lib"), &toolchain])?;
        let target = Step::new("rustc", &["--version", "--verbose"]).output().unwrap_or_default();
        let target = target.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        Step::cargo(&["fetch", "--locked", "--target", target]).run()?;
        let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
        let cargo =
            cargo.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"))).unwrap_or_default();
        for part in ["cache", "index"] {
            run("cp", &["-a", &cargo.join("registry").join(part).display().to_string(), &crates])?;
        }
        self.import(&rust, "base-rust", &["--change=ENV CARGO_HOME=/opt/cargo CARGO_NET_OFFLINE=true"])
    }

    /// Returns a root directory with this machine's release of Debian and some packages.
    fn debootstrap(&self, packages: &str) -> Result<String, Failure> {
        let directory = self.kept.join(packages.replace(',', "+")).display().to_string();
        if !Path::new(&directory).exists() {
            let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
            let codename = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
            let (include, part) = (format!("--include={packages}"), format!("{directory}.part"));
            run("rm", &["-rf", &part])?;
            run("debootstrap", &["--variant=minbase", &include, codename, &part])?;
            run("mv", &[&part, &directory])?;
        }
        Ok(directory)
    }

    fn import(&self, directory: &str, image: &str, options: &[&str]) -> Result<(), Failure> {
        let script = r#"tar -C "$0" -c . | docker import "${@:2}" - "$1" >/dev/null"#;
        let arguments = [&["-o", "pipefail", "-c", script, directory, image], options].concat();
        self.step("bash", &arguments).run()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // This also kills the first process of the namespaces, and so everything in them.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let began = Instant::now();
        // Dying processes may still write for a moment. The next run removes what remains.
        while fs::remove_dir_all(&self.state).is_err() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    Step::new(program, arguments).advice(ADVICE).run()
}
