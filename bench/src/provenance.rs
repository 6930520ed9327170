//! Where figures come from. Only figures of one version, built from one commit, on one machine can be compared with
//! each other.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{Result, machine::Machine};

/// What is added to a commit if files differ from it.
const CHANGED: &str = " with changes";

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// The version of teamwire. `None` means not recorded.
    pub(crate) version: Option<String>,
    /// The commit that it was built from. `None` means not recorded.
    pub(crate) commit: Option<String>,
    pub(crate) machine: Machine,
}

impl Provenance {
    /// Describes a binary on this machine. `commit`: what it was built from, if that is known.
    pub(crate) fn of(teamwire: &Path, commit: Option<String>, machine: Machine) -> Result<Self> {
        let said = Command::new(teamwire).arg("--version").output()?;
        let version = String::from_utf8(said.stdout)?.split_whitespace().nth(1).map(str::to_owned);
        Ok(Self { version, commit, machine })
    }

    /// Returns whether both are the same version, commit and machine. What was not recorded may differ.
    pub(crate) fn is_known_to_be(&self, other: &Self) -> bool {
        self.version.is_some() && self.commit.is_some() && self == other
    }

    /// Returns what was measured, in words.
    pub(crate) fn built(&self) -> String {
        let version = self.version.as_deref().unwrap_or("of an unrecorded version");
        match &self.commit {
            Some(commit) => format!("teamwire {version}, commit {commit}"),
            None => format!("teamwire {version}, commit not recorded"),
        }
    }
}

/// Returns the commit of this source tree, and whether files differ from it. What the benchmark writes itself does not
/// count. `None` if the tree has no history.
pub(crate) fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let said = Command::new("git").arg("-C").arg(tree).args(arguments).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(said.stdout).ok().filter(|_| said.status.success())?;
        Some(text.trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", ".", ":!docs/benchmarks"])?;
    Some(if changes.is_empty() { head } else { head + CHANGED })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns that of a commit.
    pub(crate) fn provenance(commit: &str) -> Provenance {
        Provenance {
            version: Some("1.2.3".to_owned()),
            commit: Some(commit.to_owned()),
            machine: Machine {
                processor: "processor".to_owned(),
                processors: 2,
                memory_gib: 24.0,
                kernel: "6.18".to_owned(),
                servers: vec!["Redis server v=7.0.15".to_owned()],
            },
        }
    }

    #[test]
    fn provenance_names_the_version_and_commit_or_says_that_they_were_not_recorded() {
        assert_eq!(provenance("1a2b with changes").built(), "teamwire 1.2.3, commit 1a2b with changes");
        let old = Provenance { version: None, commit: None, ..provenance("") };
        assert_eq!(old.built(), "teamwire of an unrecorded version, commit not recorded");
    }
}
