//! Checks the charts and manifests in `deploy/`, and renders the manifests.
//!
//! The work is done by `xtask/charts/check.py`, with the Python packages that are pinned beside it, and by Helm and
//! kube-score, which Go builds in the versions below.

use std::{env, path::PathBuf};

use crate::{
    install::{go, venv},
    step::{Failure, Step, root},
};

/// Names the teamwire that reads and runs what was rendered. If it is not set, cargo builds one.
const TEAMWIRE: &str = "TEAMWIRE_TEST_BINARY";

/// Checks the charts, and that the committed manifests are what they render.
pub(crate) fn check() -> Result<(), Failure> {
    let teamwire = match env::var_os(TEAMWIRE).filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None => {
            Step::cargo(&["build", "--locked", "--package", "teamwire", "--bin", "teamwire"]).run()?;
            let built = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
            built.join("debug/teamwire")
        }
    };
    script(&[])?.env("TEAMWIRE", teamwire).advice("fix what it names, in deploy/; xtask/charts says why").run()
}

/// Renders the manifests.
pub(crate) fn write() -> Result<(), Failure> {
    script(&["--write"])?.run()
}

/// Returns the script with all that it needs except teamwire.
fn script(arguments: &[&str]) -> Result<Step, Failure> {
    let helm = go("helm.sh/helm/v3/cmd/helm", "v3.22.0")?;
    let kube_score = go("github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")?;
    let python = venv("xtask/charts/requirements.txt", "target/tools/charts")?.join("python");
    // -B: no compiled files beside the sources.
    let step = Step::new(python, &[&["-B", "xtask/charts/check.py"], arguments].concat());
    Ok(step.env("HELM", helm).env("KUBE_SCORE", kube_score))
}
