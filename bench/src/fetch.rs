//! The peers' programs: where they are, and how to install them.

use std::{
    env, fmt, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{Result, process};

/// Names the Redis server. If it is not set, the one in `PATH` is used.
const REDIS: &str = "TEAMWIRE_REDIS_SERVER";

/// A program that a scenario needs besides teamwire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Redis,
    Nats,
    Rabbit,
    /// The environment of teamwire's Python client.
    TeamwirePython,
    Autogen,
    Slim,
}

/// The programs that this installs. Redis comes with every distribution, and teamwire's tests need it anyway.
const INSTALLED: [Program; 5] =
    [Program::Nats, Program::Rabbit, Program::TeamwirePython, Program::Autogen, Program::Slim];

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "redis-server",
            Self::Nats => "nats-server",
            Self::Rabbit => "rabbitmq-server",
            Self::TeamwirePython => "teamwire for Python",
            Self::Autogen => "AutoGen 0.7.5",
            Self::Slim => "AGNTCY SLIM 3.3.8",
        })
    }
}

impl Program {
    /// Returns its path, or that of its Python interpreter. Fails with the reason if it is not installed.
    pub(crate) fn find(self) -> std::result::Result<PathBuf, String> {
        let advice = match self {
            Self::Redis => "install it",
            Self::Rabbit => "install it, or --fetch as root on Debian",
            _ => "--fetch",
        };
        let missing = || format!("{self} is not installed ({advice})");
        match self {
            // As in the tests.
            Self::Redis if env::var_os(REDIS).is_some_and(|path| !path.is_empty()) => {
                env::var_os(REDIS).map(PathBuf::from).filter(|path| path.is_file()).ok_or_else(missing)
            }
            Self::Redis | Self::Nats => process::find(&self.to_string()).ok_or_else(missing),
            // The wrapper in PATH switches to another user.
            Self::Rabbit => Some(PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server"))
                .filter(|path| path.is_file())
                .or_else(|| process::find(&self.to_string()))
                .ok_or_else(missing),
            Self::TeamwirePython | Self::Autogen | Self::Slim => {
                let directory = self.environment().ok_or_else(missing)?;
                // The tables name the version, so another one does not count.
                let found = fs::read_to_string(directory.join("package")).unwrap_or_default();
                if found == self.package() { Ok(directory.join("bin/python")) } else { Err(missing()) }
            }
        }
    }

    fn install(self) -> Result<()> {
        let tools = process::tools().ok_or("this program is not in a target directory")?;
        match self {
            Self::Redis => Err("install it from your distribution".into()),
            Self::Nats => {
                let module = "github.com/nats-io/nats-server/v2@v2.15.2";
                run(Command::new("go").args(["install", module]).env("GOBIN", tools))
            }
            // RUNLEVEL=1 keeps apt-get from starting its service: the benchmark starts its own.
            Self::Rabbit => run(Command::new("apt-get")
                .args(["install", "--yes", "--no-install-recommends", "rabbitmq-server"])
                .envs([("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")])),
            // Each in its own environment, since their dependencies conflict.
            Self::TeamwirePython | Self::Autogen | Self::Slim => {
                let directory = self.environment().ok_or("this program is not in a target directory")?;
                run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
                run(Command::new(directory.join("bin/pip")).args(["install", "--quiet", self.package()]))?;
                Ok(fs::write(directory.join("package"), self.package())?)
            }
        }
    }

    /// Returns the argument for pip.
    fn package(self) -> &'static str {
        match self {
            // Editable, so that changes to this repository take effect.
            Self::TeamwirePython => concat!("--editable=", env!("CARGO_MANIFEST_DIR"), "/../client/python"),
            Self::Autogen => "autogen-ext[grpc]==0.7.5",
            Self::Slim => "slim-bindings==3.3.8",
            Self::Redis | Self::Nats | Self::Rabbit => "",
        }
    }

    fn environment(self) -> Option<PathBuf> {
        let name = match self {
            Self::TeamwirePython => "peer-teamwire",
            Self::Autogen => "peer-autogen",
            Self::Slim => "peer-slim",
            Self::Redis | Self::Nats | Self::Rabbit => return None,
        };
        Some(process::tools()?.join(name))
    }
}

/// Installs missing programs. Reports failures on standard error; the tables then show the peer as not measured.
pub(crate) fn all() {
    for program in INSTALLED {
        if program.find().is_err() {
            eprintln!("installing {program}");
            if let Err(error) = program.install() {
                eprintln!("{program} cannot be installed: {error}");
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Standard output is for tables only.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map_err(|error| format!("{name}: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("{name} failed ({status})").into()),
    }
}
