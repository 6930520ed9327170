//! Runs the clients of all languages against a real coordinator, through the one list of scenarios in
//! `tests/conformance`.
//!
//! A [`driver`] runs a client in its language; a [`scenario`] says what the drivers do and which answers it expects. A
//! client that `cargo xtask clients` has not made ready is skipped with a notice; with `CI` set, that is a failure.

mod driver;
mod scenario;

use std::{env, path::Path};

use self::scenario::{Cast, Scenario};
use crate::world::{LEAD, TEAMWIRE, World};

/// The environment variable that names the languages whose clients are ready, separated by commas. Rust's is ready once
/// its driver is built.
const READY: &str = "TEAMWIRE_CLIENTS";

const RUST: &str = "rust";

/// Follows the name of a language whose client is to send its calls in frames from the first one.
const IN_FRAMES: &str = " in frames";

macro_rules! languages {
    ($($language:ident: $needs:expr, $advice:expr;)*) => {
        /// Every language, in the order in which a mixed team is cast.
        const LANGUAGES: &[&str] = &[$(stringify!($language),)* RUST];

        $(
            #[test]
            fn $language() {
                play_alone(stringify!($language));
            }
        )*
    };
}

include!("../../../client/languages.rs");

#[test]
fn rust() {
    play_alone(RUST);
}

#[test]
fn rust_in_frames() {
    play_alone("rust in frames");
}

#[test]
fn python_in_frames() {
    play_alone("python in frames");
}

#[test]
fn all_languages_in_one_team() {
    if LANGUAGES.iter().all(|language| is_ready(language)) {
        play("all", Cast::All, LANGUAGES);
    }
}

#[test]
fn typescript_watches_teams_over_grpc_and_grpc_web() {
    if !is_ready("typescript") {
        return;
    }
    // It starts, kills and restarts its own coordinator.
    let world = World::embedded();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("client/typescript/build/with-coordinator/watch.js");
    let mut node = world.program(LEAD, Path::new("node"));
    node.args(["--test", "--test-timeout=120000"]).arg(tests).env("TEAMWIRE_BINARY", TEAMWIRE);
    let ran = node.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

fn play_alone(language: &str) {
    if is_ready(language) {
        play(language, Cast::One, &[language]);
    }
}

fn is_ready(language: &str) -> bool {
    let language = language.trim_end_matches(IN_FRAMES);
    let ready = env::var(READY).unwrap_or_default();
    let is_ready = match language {
        RUST => driver::path(language).exists(),
        _ => ready.split(',').any(|ready| ready == language),
    };
    if !is_ready {
        let notice = format!("the {language} client is not ready: run `cargo xtask clients`");
        assert!(env::var_os("CI").is_none(), "{notice}");
        eprintln!("skipped: {notice}");
    }
    is_ready
}

/// Plays every scenario of a cast, and names all that fail.
fn play(label: &str, cast: Cast, languages: &[&str]) {
    let scenarios = Scenario::load();
    let scenarios: Vec<_> = scenarios.iter().filter(|scenario| scenario.cast == cast).collect();
    assert!(!scenarios.is_empty());
    let failed: Vec<_> = scenarios.iter().filter(|scenario| !scenario.succeeds(languages)).map(|s| &s.name).collect();
    assert!(failed.is_empty(), "{label}: {} of {} scenarios failed: {failed:#?}", failed.len(), scenarios.len());
}
