//! Installs agent programs, and tests teamwire with them.

use std::{env, ffi::OsString, fs, path::PathBuf};

use crate::{
    build,
    step::{Failure, Step, root},
};

/// The environment variable that tells the tests where the programs are: directories, as in `PATH`.
pub(crate) const VARIABLE: &str = "TEAMWIRE_TEST_AGENTS";

/// An agent program.
struct Program {
    /// Its command.
    name: &'static str,
    /// Its npm package.
    package: &'static str,
    version: &'static str,
    /// Whether CI must test it.
    is_in_ci: bool,
}

macro_rules! programs {
    ($($name:ident: $package:expr, $version:expr, $is_in_ci:expr;)*) => {
        const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name), package: $package, version: $version, is_in_ci: $is_in_ci,
        }),*];
    };
}

include!("../../tests/agents/programs.rs");

/// Installs the programs of these names, or all, and runs the tests with them.
pub(crate) fn test(names: &[&str]) -> Result<(), Failure> {
    if let Some(unknown) = names.iter().find(|name| PROGRAMS.iter().all(|program| program.name != **name)) {
        return Err(Failure::new(
            format!("there is no test with an agent program `{unknown}`"),
            "name some of the programs in tests/agents/programs.rs, or none for all of them",
        ));
    }
    let chosen = |program: &&Program| names.is_empty() || names.contains(&program.name);
    let path = install(PROGRAMS.iter().filter(chosen))?;
    // A test is named after its program.
    build::cargo("test", &[&["--test", "agents", "--"], names].concat())
        .env(VARIABLE, path)
        .advice("`cargo xtask agents PROGRAM` repeats the tests of one program")
        .run()
}

/// Returns the value of [`VARIABLE`] for all tests. In CI, installs the programs that it must test; otherwise, takes
/// those that [`test`] has installed, and says how to install the others.
pub(crate) fn prepare(ci: bool) -> Result<OsString, Failure> {
    if ci {
        return install(PROGRAMS.iter().filter(|program| program.is_in_ci));
    }
    let (ready, missing): (Vec<_>, Vec<_>) = PROGRAMS.iter().partition(|program| program.is_installed());
    for program in missing {
        let name = program.name;
        eprintln!("xtask: skipping the tests with {name}: `cargo xtask agents {name}` installs and tests it");
    }
    install(ready)
}

/// Installs what is missing of these programs, and returns where all of them are.
fn install(programs: impl IntoIterator<Item = &'static Program>) -> Result<OsString, Failure> {
    let paths: Vec<PathBuf> = programs.into_iter().map(Program::install).collect::<Result<_, _>>()?;
    env::join_paths(paths)
        .map_err(|error| Failure::new(error.to_string(), "move the repository to a path without a colon"))
}

impl Program {
    fn directory(&self) -> PathBuf {
        root().join(format!("target/tools/agents/{}-{}", self.name, self.version))
    }

    /// Returns whether it was installed, and has shown its version.
    fn is_installed(&self) -> bool {
        self.directory().join("done").exists()
    }

    /// Installs it unless it is installed. Returns the directory of its command.
    fn install(&self) -> Result<PathBuf, Failure> {
        let directory = self.directory();
        let commands = directory.join("node_modules/.bin");
        if self.is_installed() {
            return Ok(commands);
        }
        let package = format!("{}@{}", self.package, self.version);
        let prefix = directory.to_string_lossy();
        Step::new("npm", &["install", "--prefix", &prefix, "--no-audit", "--no-fund", &package])
            .advice(
                "it needs the network, up to 500 MB of disk, and npm, which comes with Node.js 20 or newer (Debian and Ubuntu: \
                 `sudo apt-get install npm`)",
            )
            .run()?;
        let shown = Step::new(commands.join(self.name), &["--version"]).output().unwrap_or_default();
        if !shown.contains(self.version) {
            return Err(Failure::new(
                format!("{} {} was installed, but shows the version \"{shown}\"", self.name, self.version),
                "check that Node.js is 20 or newer, and run `npm cache verify`",
            ));
        }
        let done = directory.join("done");
        fs::write(&done, "").map_err(|error| Failure::io(&done, &error))?;
        Ok(commands)
    }
}
