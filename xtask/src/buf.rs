//! Checks the protocol's files with buf, in the version that `package-lock.json` pins.

use std::{fs, path::Path, time::SystemTime};

use crate::step::{Failure, Step, root};

/// Checks what the files say and how they are formatted.
pub(crate) fn lint() -> Result<(), Failure> {
    let xtask = root().join("xtask");
    let modules = xtask.join("node_modules");
    // npm writes the second file when it is done.
    if changed(&xtask.join("package-lock.json")) > changed(&modules.join(".package-lock.json")) {
        Step::new("npm", &["ci", "--prefix", "xtask", "--ignore-scripts", "--no-audit", "--no-fund"])
            .advice("npm comes with Node.js 18 or newer (Debian and Ubuntu: `sudo apt-get install npm`)")
            .run()?;
    }
    let buf = modules.join(".bin/buf");
    Step::new(&buf, &["lint"]).advice("put right what it names; buf.yaml says what is checked").run()?;
    Step::new(&buf, &["format", "--diff", "--exit-code"])
        .advice("`xtask/node_modules/.bin/buf format --write` puts it right")
        .run()
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
