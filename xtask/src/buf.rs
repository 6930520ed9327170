//! Checks the protocol's files with buf, in the version that `package-lock.json` pins.

use std::path::PathBuf;

use crate::{
    install::npm,
    step::{Failure, Step, root},
};

/// The protocol of the last release.
const RELEASED: &str = "proto/released.binpb";

/// Returns the path of buf. Installs it if it is missing.
pub(crate) fn install() -> Result<PathBuf, Failure> {
    npm("xtask")?;
    Ok(root().join("xtask/node_modules/.bin/buf"))
}

/// Checks the style and the formatting of the files, and that they break nothing in the last release.
pub(crate) fn lint() -> Result<(), Failure> {
    let buf = install()?;
    Step::new(&buf, &["lint"]).advice("fix what it names; buf.yaml lists the rules").run()?;
    Step::new(&buf, &["format", "--diff", "--exit-code"])
        .advice("run `xtask/node_modules/.bin/buf format --write`")
        .run()?;
    Step::new(&buf, &["breaking", "--against", RELEASED])
        .advice("docs/stability.md says what may change; restore what it names, and add the new beside it")
        .run()
}

/// Records the protocol as it is now as that of the last release.
pub(crate) fn keep_as_released() -> Result<(), Failure> {
    Step::new(install()?, &["build", "--output", RELEASED]).run()
}
