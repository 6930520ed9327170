//! Finds libfaketime, which gives a process a shifted clock, or installs it.

use std::{env, fs, path::PathBuf};

use crate::{
    install::{apt_install, may_install},
    step::Failure,
};

/// Names the library, here and in `tests/chaos/`.
pub(crate) const VARIABLE: &str = "TEAMWIRE_FAKETIME";

const ADVICE: &str = "install libfaketime (Debian and Ubuntu: `sudo apt-get install faketime`), or set TEAMWIRE_FAKETIME to the \
                      path of its libfaketimeMT.so.1";

/// Returns the path of the library. Installs it if it is missing and this is root.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os(VARIABLE).map(PathBuf::from).filter(|named| named.is_file()) {
        return Ok(named);
    }
    if installed().is_none() && may_install() {
        apt_install(&["faketime"], ADVICE)?;
    }
    installed().ok_or_else(|| Failure::new("libfaketime is missing, and the faults of clocks need it", ADVICE))
}

/// Returns the path where Debian installs it: below the directory of this machine's architecture.
fn installed() -> Option<PathBuf> {
    let architectures = fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    architectures.map(|each| each.join("faketime/libfaketimeMT.so.1")).find(|library| library.is_file())
}
