//! The clients of all languages, against a real coordinator, by the one list of scenarios in `tests/conformance`.
//!
//! What a language is tested with is its [`driver`]; a [`scenario`] says what drivers do and what they must be told. A
//! language whose client was not made ready (`cargo xtask clients` does that) is left out, with a notice; with `CI=true`
//! that is a failure.

mod driver;
mod scenario;

use std::env;

use self::scenario::{Cast, Scenario};

/// Names the languages whose clients are ready, with commas between them. Rust's is when its driver was built.
const READY: &str = "TEAMWIRE_CLIENTS";

/// All of them, in the order in which a mixed team is cast.
const LANGUAGES: [&str; 5] = ["python", "typescript", "go", "java", "rust"];

fn is_ready(language: &str) -> bool {
    let ready = env::var(READY).unwrap_or_default();
    let is_ready = match language {
        "rust" => driver::path(language).exists(),
        _ => ready.split(',').any(|ready| ready == language),
    };
    if !is_ready {
        let notice = format!("the {language} client is not ready: run `cargo xtask clients`");
        assert!(env::var_os("CI").is_none(), "{notice}");
        eprintln!("left out: {notice}");
    }
    is_ready
}

/// Plays all scenarios of a kind, and names all that fail.
fn play(language: &str, cast: Cast, languages: &[&str]) {
    let scenarios = Scenario::load();
    let of_kind: Vec<_> = scenarios.iter().filter(|scenario| scenario.cast == cast).collect();
    assert!(!of_kind.is_empty());
    let failed: Vec<_> = of_kind.iter().filter(|scenario| !scenario.succeeds(languages)).map(|s| &s.name).collect();
    assert!(failed.is_empty(), "{language}: {} of {} failed: {failed:#?}", failed.len(), of_kind.len());
}

macro_rules! languages {
    ($($language:ident),*) => {$(
        #[test]
        fn $language() {
            let language = stringify!($language);
            if is_ready(language) {
                play(language, Cast::One, &[language]);
            }
        }
    )*};
}

languages!(python, typescript, go, java, rust);

#[test]
fn all_languages_in_one_team() {
    if LANGUAGES.iter().all(|language| is_ready(language)) {
        play("all", Cast::All, &LANGUAGES);
    }
}
