//! The check that every change must pass.

use crate::{
    build, charts, faults, generate, lint,
    parts::Parts,
    step::{Failure, beside},
    test::Tests,
};

/// Checks everything that does not take too long for every change. [`nightly`](crate::nightly) has the rest.
///
/// Two processors have work most of the time: while rustc compiles one crate after the other, the rest is prepared, and
/// while faults strike, which is mostly waiting, what was built is checked.
pub(crate) fn run() -> Result<(), Failure> {
    let parts = Parts::new(false);
    let mut tests = None;
    beside(
        || {
            parts.run("format", lint::format)?;
            parts.run("clippy", lint::clippy)?;
            parts.run("build", build::workspace)
        },
        || {
            parts.run("lint of everything else", lint::files)?;
            tests = Some(parts.run("clients, console, tools", || Tests::prepare(true))?);
            // Last, because a client is incomplete until the rest is generated, which takes the build.
            parts.run("stubs", generate::stubs)?;
            parts.run("tools for charts", charts::install)
        },
    )?;
    let faults = |store: &'static str| {
        faults::inject(&["--seconds", "30", "--store", store])?;
        faults::inject(&["--fault", "mix-hosts", "--seconds", "15", "--store", store])
    };
    let faults = || {
        beside(
            || parts.run("faults on the embedded store", || faults("embedded")),
            || parts.run("faults on Redis", || faults("redis")),
        )
    };
    beside(faults, || {
        parts.run("generated code", generate::check_after_stubs)?;
        parts.run("charts", charts::check)
    })?;
    parts.run("tests", || tests.map_or(Ok(()), |tests| tests.run()))
}
