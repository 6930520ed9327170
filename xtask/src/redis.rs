//! Finds the Redis and Valkey servers for the tests, or installs them.

use std::{env, fs, path::PathBuf};

use crate::{
    install::{APT_INSTALL, apt_get, file, in_path, may_install},
    step::{Failure, Step},
};

/// A server to test against.
pub(crate) struct Server {
    /// The environment variable that holds its path, here and in the tests.
    pub(crate) variable: &'static str,
    /// The name of the program, and of its Debian package.
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
    /// Returns its path. Installs it if it is missing and this is root.
    pub(crate) fn find(&self) -> Result<PathBuf, Failure> {
        let Self { variable, name, advice } = self;
        if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
            return file(named.as_ref()).ok_or_else(|| {
                Failure::new(
                    format!("{variable} is `{}`, which is not a file", named.display()),
                    "set it to the path of a server, or unset it to use the one in PATH",
                )
            });
        }
        if let Some(found) = in_path(name) {
            return Ok(found);
        }
        if !may_install() {
            return Err(Failure::new(format!("there is no {name} in PATH, and {variable} is not set"), advice));
        }
        self.install()?;
        in_path(name).ok_or_else(|| Failure::new(format!("apt-get installed {name}, but it is not in PATH"), advice))
    }

    fn install(&self) -> Result<(), Failure> {
        let apt = |arguments: &[&str]| apt_get(arguments, self.advice);
        apt(&["update"])?;
        if Step::new("apt-get", &["install", "--simulate", self.name]).succeeds() {
            return apt(&[&APT_INSTALL[..], &[self.name]].concat());
        }
        // If the release is too old to have it, its backports do. Only these two commands see them, so this machine's
        // list of sources stays unchanged.
        let sources = Backports::write().map_err(|why| Failure::new(why, self.advice))?;
        let option = format!("Dir::Etc::sourceparts={}", sources.directory.display());
        apt(&["--option", &option, "update"])?;
        apt(&[&["--option", &option], &APT_INSTALL[..], &["--target-release", &sources.release, self.name]].concat())
    }
}

/// A copy of this machine's lists of sources, plus the backports of its release. Dropping it removes the directory.
struct Backports {
    directory: PathBuf,
    release: String,
}

impl Backports {
    fn write() -> Result<Self, String> {
        let codename = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = codename.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename.ok_or("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"');
        let format = "deb $(REPO_URI) $(CODENAME)-backports $(COMPONENT)";
        let only = [format!("Codename: {codename}"), "Created-By: Packages".to_owned()];
        let listed = Step::new("apt-get", &["indextargets", "--format", format, &only[0], &only[1]]).output();
        let listed = listed.filter(|listed| !listed.is_empty()).ok_or("apt-get does not list its sources")?;

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
        // A few small files left in a temporary directory do no harm.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
