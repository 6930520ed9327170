//! Installs agent programs, and tests teamwire with them.

use std::{env, ffi::OsString, fmt::Write as _, fs, iter, path::PathBuf};

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
    can: &'static [Can],
}

macro_rules! programs {
    ($($name:ident: $package:expr, $version:expr, $is_in_ci:expr, $can:expr;)*) => {
        const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name), package: $package, version: $version, is_in_ci: $is_in_ci,
            can: &$can,
        }),*];
    };
}

include!("../../tests/agents/programs.rs");

/// The Node.js with which the programs run: some need a newer one than systems bring.
const NODE: &str = "node@22.23.3";

/// The page that shows what the programs can do.
const PAGE: &str = "docs/agents/tested.md";

/// What the page says about each ability, in the order of its columns.
const COLUMNS: [(Can, &str); 9] = [
    (TakeMessagesInMidTurn, "A message joins the turn that runs"),
    (Resume, "Goes on with its conversation after it was killed"),
    (ReportRunningCalls, "`status` shows the tool call that runs"),
    (ReportTokens, "Reports its tokens, so that budgets bind it"),
    (ReportCompaction, "Gets the welcome again after it has compacted its context"),
    (FailTurns, "A message on which every session fails becomes a dead letter"),
    (CompactRefusedSessions, "Compacts a session that the model refuses as too long"),
    (BeAttached, "A person can take over its session (`teamwire attach`)"),
    (BeStartedByAPerson, "Has the tools in a session that a person starts"),
];

/// Writes the page.
pub(crate) fn write_page() -> Result<(), Failure> {
    let head: String = PROGRAMS.iter().map(|program| format!(" {} {} |", program.name, program.version)).collect();
    let mut page = format!("{INTRODUCTION}\n| |{head}\n|---|{}\n", "---|".repeat(PROGRAMS.len()));
    for (what, text) in COLUMNS {
        let cells: String =
            PROGRAMS.iter().map(|program| if program.can.contains(&what) { " yes |" } else { " |" }).collect();
        _ = writeln!(page, "| {text} |{cells}");
    }
    let path = root().join(PAGE);
    fs::write(&path, page).map_err(|error| Failure::io(&path, &error))
}

/// What the page says before the table.
const INTRODUCTION: &str = "\
# What the tested programs can do

<!-- `cargo xtask generate` writes this page from tests/agents/programs.rs. -->

`cargo xtask agents` installs these versions from npm, and runs each program as a member against a scripted model, without its maker.
Every one of them answers messages with the tools, takes ten messages during a turn in order, works on tasks from the board, asks
for permissions, is interrupted, refuses and approves a shutdown, and leaves no process behind. All of them together pass a task round in
one team. The table shows what only some can do; the tests check each cell that says yes.
";

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
        Step::new("npm", &["install", "--prefix", &prefix, "--no-audit", "--no-fund", &package, NODE])
            .advice(
                "it needs the network, up to 500 MB of disk, and npm, which comes with Node.js 20 or newer (Debian and Ubuntu: \
                 `sudo apt-get install npm`)",
            )
            .run()?;
        // It runs with the Node.js beside it.
        let path = env::var_os("PATH").unwrap_or_default();
        let directories = iter::once(commands.clone()).chain(env::split_paths(&path));
        let path = env::join_paths(directories).map_err(|error| Failure::new(error.to_string(), "check your PATH"))?;
        let shown = Step::new(commands.join(self.name), &["--version"]).env("PATH", path).output().unwrap_or_default();
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
