//! Plays every input that is kept, so that what was found once stays found.

use std::{fs, panic, path::PathBuf};

use teamwire_fuzz_targets::TARGETS;

/// Together, so that a clone stays small.
const BYTES_MAX: u64 = 1 << 20;

#[test]
fn every_input_of_the_corpus_passes() {
    let corpora = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let (mut failed, mut bytes) = (Vec::new(), 0);
    for (name, target) in TARGETS {
        let inputs: Vec<_> = fs::read_dir(corpora.join(name)).expect(name).map(|file| file.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "nothing is kept for {name}");
        for path in inputs {
            let input = fs::read(&path).unwrap();
            bytes += input.len() as u64;
            if panic::catch_unwind(|| target(&input)).is_err() {
                failed.push(path.display().to_string());
            }
        }
    }
    assert!(failed.is_empty(), "what it says stands above; the inputs are {failed:#?}");
    assert!(bytes < BYTES_MAX, "{bytes} bytes are kept: `cargo xtask fuzz --minimize` keeps what adds something");
}

#[test]
fn every_target_can_be_run_under_libfuzzer() {
    let fuzz = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        let runs = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).expect(name);
        assert!(runs.contains(&format!("run(\"{name}\"")), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
