//! The programs of others that are measured: where they are, and how they get here.

use std::{
    fmt, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{Result, process};

/// A program that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Redis,
    Nats,
    Rabbit,
    /// What runs teamwire's own client for Python.
    TeamwirePython,
    Autogen,
    Slim,
}

/// What can be fetched into the directory of tools, or installed. Redis is in every distribution, and teamwire's tests
/// have it as well.
const FETCHED: [Program; 5] =
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
    /// Returns its path, which is that of the interpreter where it is in Python; or why there is none.
    pub(crate) fn find(self) -> std::result::Result<PathBuf, String> {
        let advice = match self {
            Self::Redis => "install it",
            Self::Rabbit => "install it, or --fetch as root on Debian",
            _ => "--fetch",
        };
        let missing = || format!("{self} is not here ({advice})");
        match self {
            Self::Redis | Self::Nats => process::find(&self.to_string()).ok_or_else(missing),
            // What is in PATH becomes another user first.
            Self::Rabbit => Some(PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server"))
                .filter(|path| path.is_file())
                .or_else(|| process::find(&self.to_string()))
                .ok_or_else(missing),
            Self::TeamwirePython | Self::Autogen | Self::Slim => {
                let directory = self.environment().ok_or_else(missing)?;
                // Another version is not what the tables say.
                let found = fs::read_to_string(directory.join("package")).unwrap_or_default();
                if found == self.package() { Ok(directory.join("bin/python")) } else { Err(missing()) }
            }
        }
    }

    fn fetch(self) -> Result<()> {
        let tools = process::tools().ok_or("no directory for tools")?;
        match self {
            Self::Redis => Err("it comes with the system".into()),
            Self::Nats => {
                let module = "github.com/nats-io/nats-server/v2@v2.15.2";
                run(Command::new("go").args(["install", module]).env("GOBIN", tools))
            }
            // Without its service: what is measured is started here.
            Self::Rabbit => run(Command::new("apt-get")
                .args(["install", "--yes", "--no-install-recommends", "rabbitmq-server"])
                .envs([("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")])),
            // Each in an environment of its own, since what they need contradicts each other.
            Self::TeamwirePython | Self::Autogen | Self::Slim => {
                let directory = self.environment().ok_or("no directory for tools")?;
                run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
                run(Command::new(directory.join("bin/pip")).args(["install", "--quiet", self.package()]))?;
                Ok(fs::write(directory.join("package"), self.package())?)
            }
        }
    }

    /// Returns what is installed, as pip wants it.
    fn package(self) -> &'static str {
        match self {
            // That of this repository, as it is whenever it is measured.
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

/// Fetches what is not there. What cannot be had is told, and is shown as not measured in the tables.
pub(crate) fn all() {
    for program in FETCHED {
        if program.find().is_err() {
            eprintln!("fetching {program}");
            if let Err(error) = program.fetch() {
                eprintln!("{program} cannot be fetched: {error}");
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Tables go to the standard output, nothing else.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status.map_err(|error| format!("{name}: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("{name} failed ({status})").into()),
    }
}
