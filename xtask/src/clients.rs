//! Builds, checks and tests the clients in languages other than Rust, each by its own `check`.

use crate::{
    install::has_needs,
    step::{Failure, Step, root},
};

/// The environment variable that tells the tests which clients are ready: their languages, separated by commas.
pub(crate) const READY: &str = "TEAMWIRE_CLIENTS";

/// A client in `client/`.
struct Client {
    /// The name of its directory.
    language: &'static str,
    /// The programs that its `check` needs in `PATH`.
    needs: &'static [&'static str],
    /// How to install them.
    advice: &'static str,
}

macro_rules! languages {
    ($($language:ident: $needs:expr, $advice:expr;)*) => {
        const CLIENTS: &[Client] =
            &[$(Client { language: stringify!($language), needs: &$needs, advice: $advice }),*];
    };
}

include!("../../client/languages.rs");

/// Runs the `check` of every client whose tools are installed, and returns the value of [`READY`]. With `all`, a
/// missing tool is a failure.
pub(crate) fn prepare(all: bool) -> Result<String, Failure> {
    let mut ready = Vec::new();
    for Client { language, needs, advice } in CLIENTS {
        if !has_needs(&format!("the {language} client"), needs, advice, all)? {
            continue;
        }
        let path = root().join("client").join(language).join("check");
        let check = || Step::new(&path, &[]).advice("fix what it reports; you can run this program alone").run();
        // Like a test of the workspace: see `.config/nextest.toml`.
        if check().is_err() {
            eprintln!("xtask: the check of the {language} client failed; running it once more");
            check()?;
            eprintln!(
                "xtask: FLAKY, the check of the {language} client passed only when run again; mend what makes it so"
            );
        }
        ready.push(*language);
    }
    Ok(ready.join(","))
}
