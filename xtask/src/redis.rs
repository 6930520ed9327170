//! Finds the servers for the tests, or installs them.

use std::{
    env, fs,
    path::{self, Path, PathBuf},
};

use crate::step::{Failure, Step};

/// A server to test against.
pub(crate) struct Server {
    /// Names it, here and in the tests.
    pub(crate) variable: &'static str,
    /// What it is called in `PATH`, and its package as well.
    name: &'static str,
    advice: &'static str,
}

/// The servers that the tests use.
pub(crate) const SERVERS: [Server; 2] = [
    Server {
        variable: "TEAMWIRE_REDIS_SERVER",
        name: "redis-server",
        advice: "install Redis 7.0 or newer (Debian and Ubuntu: `sudo apt-get install redis-server`; macOS: `brew install \
                 redis`), or set TEAMWIRE_REDIS_SERVER to the path of a redis-server",
    },
    Server {
        variable: "TEAMWIRE_TEST_VALKEY",
        name: "valkey-server",
        advice: "install Valkey 8 or newer (Debian 12: `valkey-server` of bookworm-backports; later, and Ubuntu: `sudo apt-get \
                 install valkey-server`; macOS: `brew install valkey`), or set TEAMWIRE_TEST_VALKEY to the path of a \
                 valkey-server",
    },
];

impl Server {
    /// Returns its path. Installs it where there is none and this may.
    pub(crate) fn find(&self) -> Result<PathBuf, Failure> {
        let Self { variable, name, advice } = self;
        if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
            return file(named.as_ref()).ok_or_else(|| {
                Failure::new(
                    format!("{variable} is `{}`, which is no file", named.display()),
                    "set it to the path of a server, or unset it to use the one in PATH",
                )
            });
        }
        if let Some(found) = in_path(name) {
            return Ok(found);
        }
        if !may_install() {
            return Err(Failure::new(format!("there is no {name} in PATH, and {variable} names none"), advice));
        }
        self.install()?;
        in_path(name)
            .ok_or_else(|| Failure::new(format!("apt-get has installed {name}, but it is not in PATH"), advice))
    }

    fn install(&self) -> Result<(), Failure> {
        let apt = |arguments: &[&str]| apt_get(arguments, self.advice);
        apt(&["update"])?;
        if Step::new("apt-get", &["install", "--simulate", self.name]).succeeds() {
            return apt(&[&INSTALL[..], &[self.name]].concat());
        }
        // Where the release is too old to have it, its backports do. They are named for these two commands only, so that
        // this machine's own list of sources stays as it is.
        let sources = Backports::write().map_err(|why| Failure::new(why, self.advice))?;
        let option = format!("Dir::Etc::sourceparts={}", sources.directory.display());
        apt(&["--option", &option, "update"])?;
        apt(&[&["--option", &option], &INSTALL[..], &["--target-release", &sources.release, self.name]].concat())
    }
}

/// This machine's lists of sources with the backports of its release added, in a directory of their own that is removed
/// in the end.
struct Backports {
    directory: PathBuf,
    release: String,
}

impl Backports {
    fn write() -> Result<Self, String> {
        let codename = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = codename.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename.ok_or("this system does not tell which release it is")?.trim_matches('"');
        let format = "deb $(REPO_URI) $(CODENAME)-backports $(COMPONENT)";
        let only = [format!("Codename: {codename}"), "Created-By: Packages".to_owned()];
        let listed = Step::new("apt-get", &["indextargets", "--format", format, &only[0], &only[1]]).output();
        let listed =
            listed.filter(|listed| !listed.is_empty()).ok_or("apt-get does not tell where packages come from")?;

        let directory = env::temp_dir().join(format!("teamwire-sources-{}", std::process::id()));
        let sources = Self { directory, release: format!("{codename}-backports") };
        let failed = |error: std::io::Error| format!("{} cannot be written: {error}", sources.directory.display());
        fs::create_dir(&sources.directory).map_err(failed)?;
        for entry in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
            fs::copy(entry.path(), sources.directory.join(entry.file_name())).map_err(failed)?;
        }
        fs::write(sources.directory.join("teamwire-backports.list"), listed + "\n").map_err(failed)?;
        Ok(sources)
    }
}

impl Drop for Backports {
    fn drop(&mut self) {
        // A few small files left behind in a temporary directory do no harm.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What stands before the packages that apt-get installs.
const INSTALL: [&str; 3] = ["install", "--yes", "--no-install-recommends"];

/// Installs packages, of which it reads the latest list first.
pub(crate) fn apt_install(packages: &[&str], advice: &'static str) -> Result<(), Failure> {
    apt_get(&["update"], advice)?;
    apt_get(&[&INSTALL[..], packages].concat(), advice)
}

/// Runs apt-get, which asks nothing.
fn apt_get(arguments: &[&str], advice: &'static str) -> Result<(), Failure> {
    Step::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive").advice(advice).run()
}

/// Returns whether packages can be installed here.
pub(crate) fn may_install() -> bool {
    in_path("apt-get").is_some() && Step::new("id", &["-u"]).output().as_deref() == Some("0")
}

pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|directory| file(&directory.join(program)))
}

/// Returns the path as it stands from anywhere, since tests run elsewhere; `None` where there is no file.
fn file(path: &Path) -> Option<PathBuf> {
    path::absolute(path).ok().filter(|path| path.is_file())
}
