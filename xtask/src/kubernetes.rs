//! Tests hosts in a cluster against the control plane of Kubernetes: API server, controllers and scheduler, without
//! nodes.
//!
//! Go builds the programs from their modules, in the versions of `xtask/kubernetes/go.mod`.

use std::{fs, path::PathBuf};

use crate::{
    build, charts,
    step::{Failure, Step, root},
};

/// Tells the tests where the programs are.
const PROGRAMS: &str = "TEAMWIRE_TEST_KUBERNETES";

/// Tells the tests where the rendering of the chart with a host is.
const CHART: &str = "TEAMWIRE_TEST_HOST_CHART";

const VERSION: &str = "1.37.2";

/// The packages to build, and the names of their programs.
const PACKAGES: [(&str, &str); 4] = [
    ("go.etcd.io/etcd/server/v3", "etcd"),
    ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
    ("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
    ("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
];

/// Builds the programs unless they are there, and runs the tests that need them.
pub(crate) fn test() -> Result<(), Failure> {
    let programs = build()?;
    let chart = charts::render_host()?;
    let teamwire = charts::teamwire()?;
    build::cargo("test", &["--test", "api_server", "--", "--ignored"])
        .env(PROGRAMS, programs)
        .env(CHART, chart)
        .env(charts::TEAMWIRE, teamwire)
        .advice("its output names the directory with the logs of Kubernetes")
        .run()
}

/// Returns the directory of the programs.
fn build() -> Result<PathBuf, Failure> {
    let directory = root().join(format!("target/tools/kubernetes-{VERSION}"));
    let module = directory.join("module");
    if PACKAGES.iter().all(|(_, name)| directory.join(name).exists()) {
        return Ok(directory);
    }
    fs::create_dir_all(&module).map_err(|error| Failure::io(&module, &error))?;
    // Go writes the checksums beside it, which it has checked against the public database of checksums.
    let manifest = root().join("xtask/kubernetes/go.mod");
    fs::copy(&manifest, module.join("go.mod")).map_err(|error| Failure::io(&manifest, &error))?;
    let version = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}");
    for (package, name) in PACKAGES {
        let (module, program) = (module.display().to_string(), directory.join(name));
        if program.exists() {
            continue;
        }
        let program = program.display().to_string();
        Step::new(
            "go",
            &["-C", &module, "build", "-mod=mod", "-trimpath", "-ldflags", &version, "-o", &program, package],
        )
        .env("CGO_ENABLED", "0")
        .advice("it needs Go 1.26 or newer, 3 GB of disk, and ten minutes the first time")
        .run()?;
    }
    Ok(directory)
}
