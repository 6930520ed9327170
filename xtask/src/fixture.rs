//! Makes this release's fixture: stores that later versions must be able to open.

use crate::{
    build,
    step::{Failure, root},
};

/// Writes `tests/fixtures/stores/RELEASE`, unless it is there: what a release wrote never changes.
pub(crate) fn make() -> Result<(), Failure> {
    let release = format!("tests/fixtures/stores/{}", env!("CARGO_PKG_VERSION"));
    if root().join(&release).exists() {
        return Err(Failure::new(
            format!("{release} exists"),
            "a release's fixture is made once; delete it if the release is not out yet",
        ));
    }
    let path = root().join(&release).display().to_string();
    let test = ["--test", "e2e", "--", "upgrades::the_stores_of_this_version_open"];
    build::cargo("test", &test).env("TEAMWIRE_FIXTURE", &path).env("CI", "1").run()
}
