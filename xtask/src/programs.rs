//! Renews the copy of the registry of the Agent Client Protocol.

use crate::step::{Failure, Step, root};

/// Where the registry is published.
const REGISTRY: &str = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json";

/// Reads the registry, and writes what is needed of it.
pub(crate) fn renew() -> Result<(), Failure> {
    let file = root().join("target/acp-registry.json");
    let file = file.to_string_lossy();
    Step::new(
        "curl",
        &["--fail", "--silent", "--show-error", "--location", "--create-dirs", "--output", &file, REGISTRY],
    )
    .advice("it needs the network")
    .run()?;
    let programs = "agents/src/programs";
    let (table, copy) = (format!("{programs}/table.toml"), format!("{programs}/acp_registry.json"));
    Step::new("python3", &["xtask/src/programs.py", &table, &copy, &file])
        .advice("correct `registry` in agents/src/programs/table.toml")
        .run()
}
