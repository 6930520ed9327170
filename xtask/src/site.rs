//! Builds the site from the Markdown pages.
//!
//! The work is done by `xtask/site/build.py`, with the packages that are pinned beside it.

use crate::{
    install::venv,
    step::{Failure, Step},
};

/// Builds the site in `target/site`. Fails if a link or an anchor leads nowhere.
pub(crate) fn build() -> Result<(), Failure> {
    let python = venv("xtask/site/requirements.txt", "target/tools/site")?.join("python");
    // -B: no compiled files beside the sources.
    Step::new(&python, &["-B", "xtask/site/build_test.py"]).advice("fix xtask/site/build.py").run()?;
    Step::new(&python, &["-B", "xtask/site/build.py"]).advice("fix the page that it names").run()
}
