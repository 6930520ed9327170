//! Finds the tools that the commands run, and installs what is missing.
//!
//! What a package manager of a language installs goes below `target/tools` or `node_modules`, in pinned versions.
//! apt-get installs into the machine, so it runs only for root.

use std::{
    env, fs,
    path::{self, Path, PathBuf},
    time::SystemTime,
};

use crate::step::{Failure, Step, root};

/// What comes before the packages that apt-get installs.
pub(crate) const APT_INSTALL: [&str; 3] = ["install", "--yes", "--no-install-recommends"];

/// Returns the absolute path of a program in `PATH`.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|directory| file(&directory.join(program)))
}

/// Returns whether all programs that something needs are in `PATH`. If one is missing, says that this is skipped, or
/// fails if it `must` not be.
pub(crate) fn has_needs(what: &str, needs: &[&str], advice: &'static str, must: bool) -> Result<bool, Failure> {
    let Some(missing) = needs.iter().find(|program| in_path(program).is_none()) else { return Ok(true) };
    if must {
        return Err(Failure::new(format!("{what} needs {missing}: no {missing} in PATH"), advice));
    }
    eprintln!("xtask: skipping {what}, because there is no {missing} in PATH: {advice}");
    Ok(false)
}

/// Returns the absolute path of a file, for tests that run in other directories. `None` if there is no such file.
pub(crate) fn file(path: &Path) -> Option<PathBuf> {
    path::absolute(path).ok().filter(|path| path.is_file())
}

/// Returns whether apt-get can install packages here: it exists, and this is root.
pub(crate) fn may_install() -> bool {
    in_path("apt-get").is_some() && Step::new("id", &["-u"]).output().as_deref() == Some("0")
}

/// Updates the lists of packages, and installs some.
pub(crate) fn apt_install(packages: &[&str], advice: &'static str) -> Result<(), Failure> {
    apt_get(&["update"], advice)?;
    apt_get(&[&APT_INSTALL[..], packages].concat(), advice)
}

/// Runs apt-get without questions.
pub(crate) fn apt_get(arguments: &[&str], advice: &'static str) -> Result<(), Failure> {
    Step::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive").advice(advice).run()
}

/// Installs what the `package-lock.json` of a directory pins, unless it is up to date.
pub(crate) fn npm(directory: &str) -> Result<(), Failure> {
    let lock = root().join(directory).join("package-lock.json");
    // npm writes the second file last.
    let done = root().join(directory).join("node_modules/.package-lock.json");
    if changed(&lock) <= changed(&done) {
        return Ok(());
    }
    Step::new("npm", &["ci", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund"])
        .advice("npm comes with Node.js 20 or newer (Debian and Ubuntu: `sudo apt-get install npm`)")
        .run()
}

/// Returns the directory of the programs of a Python environment with what a file of requirements pins. Creates it
/// unless it is up to date, and where it was created: its programs name that place.
pub(crate) fn venv(requirements: &str, directory: &str) -> Result<PathBuf, Failure> {
    let programs = root().join(directory).join("bin");
    let done = root().join(directory).join("done");
    let place = programs.to_string_lossy();
    let is_in_place = fs::read_to_string(&done).is_ok_and(|created_at| created_at == place);
    if is_in_place && changed(&root().join(requirements)) <= changed(&done) {
        return Ok(programs);
    }
    let advice = "it needs Python 3.10 or newer with venv (Debian and Ubuntu: `sudo apt-get install python3-venv`)";
    Step::new("python3", &["-m", "venv", "--clear", directory]).advice(advice).run()?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", requirements];
    Step::new(programs.join("python"), &install).advice(advice).run()?;
    fs::write(&done, &*place).map_err(|error| Failure::io(&done, &error))?;
    Ok(programs)
}

/// Returns the path of a Go program. Builds it from its module unless this version was built before.
pub(crate) fn go(module: &str, version: &str) -> Result<PathBuf, Failure> {
    let name = module.rsplit('/').next().unwrap_or(module);
    let directory = root().join(format!("target/tools/{name}-{version}"));
    let program = directory.join(name);
    if !program.exists() {
        Step::new("go", &["install", &format!("{module}@{version}")])
            .env("GOBIN", &directory)
            .advice("it needs Go 1.26 or newer, and takes some minutes the first time")
            .run()?;
    }
    Ok(program)
}

/// Returns when a file was last written. `None`, which is earlier than any time, if it does not exist.
fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
