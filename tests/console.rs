//! The console in a real Chromium, against the real binary: runs the tests in `console/test/`, each file as one test.
//!
//! `cargo xtask test` builds the page and finds the browser, which `TEAMWIRE_TEST_CHROMIUM` names. Without it, the
//! tests are skipped with a notice; with `CI` set, that is a failure.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console");

/// Declares a test for each file of this name.
macro_rules! files {
    ($($name:ident),+ $(,)?) => {
        const FILES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )+
    };
}

files! {
    access,
    approvals,
    board,
    board_large,
    colors,
    crowd,
    health,
    hostile,
    lead_from_the_page,
    member,
    messages,
    outage,
    pages,
    palette,
    session,
    sign_in,
    team,
    timeline,
    watching,
    work,
}

#[test]
fn every_file_is_run() {
    let listed: BTreeSet<String> = FILES.iter().map(|&name| name.to_owned()).collect();
    let found = fs::read_dir(Path::new(DIRECTORY).join("test")).expect("console/test").filter_map(|entry| {
        let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
        Some(name.strip_suffix(".test.js")?.replace('-', "_"))
    });
    assert_eq!(listed, found.collect(), "list the files of console/test in tests/console.rs");
}

fn run(name: &str) {
    let Some(chromium) = env::var_os("TEAMWIRE_TEST_CHROMIUM") else {
        assert!(env::var_os("CI").is_none(), "TEAMWIRE_TEST_CHROMIUM must name a Chromium");
        eprintln!("skipped: TEAMWIRE_TEST_CHROMIUM names no Chromium");
        return;
    };
    let output = Command::new("node")
        .args(["--test", "--test-timeout=600000"])
        .arg(format!("test/{}.test.js", name.replace('_', "-")))
        .current_dir(DIRECTORY)
        .env("TEAMWIRE_TEST_CHROMIUM", chromium)
        .env("TEAMWIRE_TEST_BINARY", env!("CARGO_BIN_EXE_teamwire"))
        .output()
        .expect("node runs");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
