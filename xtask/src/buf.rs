//! Checks the protocol's files with buf, in the version that `package-lock.json` pins.

use std::path::PathBuf;

use crate::{
    generate,
    step::{Failure, Step, root},
};

/// Returns the path of buf. Installs it where it is not there.
pub(crate) fn install() -> Result<PathBuf, Failure> {
    generate::npm("xtask")?;
    Ok(root().join("xtask/node_modules/.bin/buf"))
}

/// Checks what the files say and how they are formatted.
pub(crate) fn lint() -> Result<(), Failure> {
    let buf = install()?;
    Step::new(&buf, &["lint"]).advice("put right what it names; buf.yaml says what is checked").run()?;
    Step::new(&buf, &["format", "--diff", "--exit-code"])
        .advice("`xtask/node_modules/.bin/buf format --write` puts it right")
        .run()
}
