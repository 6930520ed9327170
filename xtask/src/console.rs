//! Builds and checks the page in `console/`, and finds a browser for its tests.

use std::{env, path::PathBuf};

use crate::{
    install::{apt_install, file, has_needs, in_path, may_install, npm},
    step::{Failure, Step, root},
};

/// The environment variable that tells the tests which browser to use. Not set: they are skipped.
const VARIABLE: &str = "TEAMWIRE_TEST_CHROMIUM";

/// The names of Chromium's program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const ADVICE: &str =
    "install Chromium (Debian: `sudo apt-get install chromium`), or set TEAMWIRE_TEST_CHROMIUM to its path";

/// Builds the page into `console/dist`, which is committed.
pub(crate) fn build() -> Result<(), Failure> {
    npm("client/typescript")?;
    npm("console")?;
    Step::new("npm", &["run", "--silent", "--prefix", "console", "build"])
        .advice("fix what it reports; `npm run dev` in console/ shows the page while you edit it")
        .run()
}

/// Checks the page, and returns the setting of the browser to test it with. `ci`: a missing tool is a failure.
/// Otherwise, the page is neither checked nor tested without its tools.
pub(crate) fn prepare(ci: bool) -> Result<Option<(&'static str, PathBuf)>, Failure> {
    let advice = "install Node.js 20 or newer and npm (Debian and Ubuntu: `sudo apt-get install npm`)";
    if !has_needs("the console", &["node", "npm"], advice, ci)? {
        return Ok(None);
    }
    Step::new(root().join("console/check"), &[]).advice("fix what it reports; you can run this program alone").run()?;
    match browser() {
        Ok(path) => Ok(Some((VARIABLE, path))),
        Err(failure) if ci => Err(failure),
        Err(failure) => {
            eprintln!("xtask: skipping the tests of the console: {failure}");
            Ok(None)
        }
    }
}

/// Returns the path of Chromium. Installs it if it is missing and this is root.
fn browser() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        let failure = || Failure::new(format!("{VARIABLE} is `{}`, which is not a file", named.display()), ADVICE);
        return file(named.as_ref()).ok_or_else(failure);
    }
    let find = || NAMES.iter().find_map(|name| in_path(name));
    if let Some(found) = find() {
        return Ok(found);
    }
    if may_install() {
        apt_install(&["chromium"], ADVICE)?;
    }
    find().ok_or_else(|| Failure::new("there is no Chromium in PATH", ADVICE))
}
