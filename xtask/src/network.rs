//! Installs `ip`, with which the tests create network namespaces.

use crate::{
    install::{apt_install, in_path, may_install},
    step::Failure,
};

const ADVICE: &str = "install iproute2 (Debian and Ubuntu: `sudo apt-get install iproute2`)";

/// Installs `ip` if it is missing and this is root. Other users cannot create namespaces, so they don't need it.
pub(crate) fn prepare() -> Result<(), Failure> {
    if in_path("ip").is_some() || !may_install() {
        return Ok(());
    }
    apt_install(&["iproute2"], ADVICE)
}
