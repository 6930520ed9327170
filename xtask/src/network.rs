//! Installs what the tests make networks with.

use crate::{
    redis::{apt_install, in_path, may_install},
    step::Failure,
};

const ADVICE: &str = "install iproute2 (Debian and Ubuntu: `sudo apt-get install iproute2`)";

/// Installs `ip` where it is missing and this may. Whoever is not root could make no networks with it.
pub(crate) fn prepare() -> Result<(), Failure> {
    if in_path("ip").is_some() || !may_install() {
        return Ok(());
    }
    apt_install(&["iproute2"], ADVICE)
}
