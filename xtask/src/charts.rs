//! Checks the charts and manifests in `deploy/`, and renders the manifests.
//!
//! The work is done by `xtask/charts/check.py`, with the Python packages that are pinned beside it, and by Helm and
//! kube-score, which Go builds in the versions below.

use std::{env, fs, path::PathBuf};

use crate::{
    build,
    install::{go, venv},
    step::{Failure, Step, root},
};

/// The version of Helm.
pub(crate) const HELM: &str = "v3.22.0";

/// Names the teamwire that reads and runs what was rendered. If it is not set, cargo builds one.
pub(crate) const TEAMWIRE: &str = "TEAMWIRE_TEST_BINARY";

/// Checks the charts, and that the committed manifests are what they render.
pub(crate) fn check() -> Result<(), Failure> {
    let teamwire = teamwire()?;
    script(&[])?.env("TEAMWIRE", teamwire).advice("fix what it names, in deploy/; xtask/charts says why").run()
}

/// Returns the path of teamwire. Builds it unless the environment names one.
pub(crate) fn teamwire() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os(TEAMWIRE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    build::workspace()?;
    Ok(build::program("teamwire"))
}

/// Renders the manifests.
pub(crate) fn write() -> Result<(), Failure> {
    script(&["--write"])?.run()
}

/// Renders the chart of coordinators with a host, and returns the file.
pub(crate) fn render_host() -> Result<PathBuf, Failure> {
    let helm = go("helm.sh/helm/v3/cmd/helm", HELM)?;
    let values = "deploy/helm/teamwire/ci/host.yaml";
    let rendered = Step::new(
        helm,
        &[
            "template",
            "teamwire",
            "deploy/helm/teamwire",
            "--values",
            values,
            "--namespace",
            "teamwire",
            "--kube-version",
            "1.37",
        ],
    )
    .output()
    .ok_or_else(|| Failure::new("the chart with a host cannot be rendered", "run `cargo xtask charts`"))?;
    let file = root().join("target/tools/host-chart.yaml");
    fs::write(&file, rendered).map_err(|error| Failure::io(&file, &error))?;
    Ok(file)
}

/// Installs what the script needs, except teamwire.
pub(crate) fn install() -> Result<(), Failure> {
    script(&[]).map(drop)
}

/// Returns the script with all that it needs except teamwire.
fn script(arguments: &[&str]) -> Result<Step, Failure> {
    let helm = go("helm.sh/helm/v3/cmd/helm", HELM)?;
    let kube_score = go("github.com/zegl/kube-score/cmd/kube-score", "v1.20.0")?;
    let python = venv("xtask/charts/requirements.txt", "target/tools/charts")?.join("python");
    // -B: no compiled files beside the sources.
    let step = Step::new(python, &[&["-B", "xtask/charts/check.py"], arguments].concat());
    Ok(step.env("HELM", helm).env("KUBE_SCORE", kube_score))
}
