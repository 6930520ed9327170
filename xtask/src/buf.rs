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

/// The protocol as it was released last.
const RELEASED: &str = "proto/released.binpb";

/// Checks what the files say, how they are formatted, and that nothing of what was released is broken.
pub(crate) fn lint() -> Result<(), Failure> {
    let buf = install()?;
    Step::new(&buf, &["lint"]).advice("put right what it names; buf.yaml says what is checked").run()?;
    Step::new(&buf, &["format", "--diff", "--exit-code"])
        .advice("`xtask/node_modules/.bin/buf format --write` puts it right")
        .run()?;
    Step::new(&buf, &["breaking", "--against", RELEASED])
        .advice("docs/stability.md says what may change; bring back what was there, and add beside it")
        .run()
}

/// Keeps the protocol as it is now as what was released.
pub(crate) fn keep_as_released() -> Result<(), Failure> {
    Step::new(install()?, &["build", "--output", RELEASED]).run()
}
