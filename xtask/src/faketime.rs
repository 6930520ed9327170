//! Finds what gives a process a clock of its own, or installs it.

use std::{env, fs, path::PathBuf};

use crate::{
    redis::{apt_install, may_install},
    step::Failure,
};

/// Names it, here and in the proof suite.
pub(crate) const VARIABLE: &str = "TEAMWIRE_FAKETIME";

const ADVICE: &str = "install libfaketime (Debian and Ubuntu: `sudo apt-get install faketime`), or set TEAMWIRE_FAKETIME to the \
                      path of its libfaketimeMT.so.1";

/// Returns the path of the library. Installs it where there is none and this may.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os(VARIABLE).map(PathBuf::from).filter(|named| named.is_file()) {
        return Ok(named);
    }
    if installed().is_none() && may_install() {
        apt_install(&["faketime"], ADVICE)?;
    }
    installed().ok_or_else(|| Failure::new("there is no libfaketime, which clocks are set with", ADVICE))
}

/// Looks where Debian has it, in the directory of this machine's architecture.
fn installed() -> Option<PathBuf> {
    let architectures = fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    architectures.map(|each| each.join("faketime/libfaketimeMT.so.1")).find(|library| library.is_file())
}
