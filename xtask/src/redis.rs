//! Finds a redis-server for the tests, or installs one.

use std::{
    env,
    path::{self, Path, PathBuf},
};

use crate::step::{Failure, Step};

/// Names the server to test against, here and in the tests.
pub(crate) const VARIABLE: &str = "TEAMWIRE_REDIS_SERVER";

const INSTALL_IT: &str = "\
    install Redis 7.0 or newer (Debian and Ubuntu: `sudo apt-get install redis-server`; macOS: `brew install redis`), \
    or set TEAMWIRE_REDIS_SERVER to the path of a redis-server or valkey-server";

/// Returns the path of a server. Installs one where there is none and this may.
pub(crate) fn server() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return file(named.as_ref()).ok_or_else(|| {
            Failure::new(
                format!("{VARIABLE} is `{}`, which is no file", named.display()),
                "set it to the path of a redis-server, or unset it to use the one in PATH",
            )
        });
    }
    if let Some(found) = in_path("redis-server") {
        return Ok(found);
    }
    if in_path("apt-get").is_none() || Step::new("id", &["-u"]).output().as_deref() != Some("0") {
        return Err(Failure::new(format!("there is no redis-server in PATH, and {VARIABLE} names none"), INSTALL_IT));
    }
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends", "redis-server"]] {
        Step::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive").advice(INSTALL_IT).run()?;
    }
    in_path("redis-server")
        .ok_or_else(|| Failure::new("apt-get has installed redis-server, but it is not in PATH", INSTALL_IT))
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|directory| file(&directory.join(program)))
}

/// Returns the path as it stands from anywhere, since tests run elsewhere; `None` where there is no file.
fn file(path: &Path) -> Option<PathBuf> {
    path::absolute(path).ok().filter(|path| path.is_file())
}
