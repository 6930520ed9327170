//! Checks the charts and the manifests in `deploy/`, and renders those: with Helm and kube-score, which Go installs in the
//! versions that stand here, and `xtask/charts/check.py`, whose Python environment is pinned beside it.

use std::{env, path::PathBuf};

use crate::{
    generate::venv,
    step::{Failure, Step, root},
};

/// What is installed for it: the module of a program, and its version.
const HELM: [&str; 2] = ["helm.sh/helm/v3/cmd/helm", "v3.22.0"];
const KUBE_SCORE: [&str; 2] = ["github.com/zegl/kube-score/cmd/kube-score", "v1.20.0"];

/// The variable that names the teamwire which reads and plays what was rendered. Otherwise it is built.
const TEAMWIRE: &str = "TEAMWIRE_TEST_BINARY";

/// Checks the charts, and that the manifests are what they make.
pub(crate) fn check() -> Result<(), Failure> {
    let teamwire = match env::var_os(TEAMWIRE).filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None => {
            Step::cargo(&["build", "--locked", "--package", "teamwire", "--bin", "teamwire"]).run()?;
            let built = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
            built.join("debug/teamwire")
        }
    };
    script(&[])?.env("TEAMWIRE", teamwire).advice("put right what it names, in deploy/; xtask/charts says why").run()
}

/// Renders the manifests.
pub(crate) fn write() -> Result<(), Failure> {
    script(&["--write"])?.run()
}

/// Returns the script with all that it needs but teamwire.
fn script(arguments: &[&str]) -> Result<Step, Failure> {
    let (helm, kube_score) = (go(HELM)?, go(KUBE_SCORE)?);
    let python = venv("xtask/charts/requirements.txt", "target/tools/charts")?;
    // Without leaving compiled files beside the sources.
    let step = Step::new(python, &[&["-B", "xtask/charts/check.py"], arguments].concat());
    Ok(step.env("HELM", helm).env("KUBE_SCORE", kube_score))
}

/// Installs a program in Go, where it is not there, and returns its path.
fn go([module, version]: [&str; 2]) -> Result<PathBuf, Failure> {
    let name = module.rsplit('/').next().unwrap_or(module);
    // A directory for each version, so that another one is installed beside it.
    let directory = root().join(format!("target/tools/{name}-{version}"));
    let program = directory.join(name);
    if !program.exists() {
        Step::new("go", &["install", &format!("{module}@{version}")])
            .env("GOBIN", &directory)
            .advice("it needs Go 1.26 or newer, and takes some minutes the first time")
            .run()?;
    }
    Ok(program)
}
