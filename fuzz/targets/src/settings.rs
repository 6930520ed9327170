//! The configuration of a coordinator: a file, and variables.

use std::{cell::OnceCell, fs, path::Path, str};

use tempfile::TempDir;

use crate::{config::Config, failure::Failure};

thread_local! {
    static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A file, then after a zero byte a line `VARIABLE=VALUE` for each variable. What is taken prints as a file that comes
/// to the same.
pub(crate) fn config(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (file, environment) = text.split_once('\0').unwrap_or((text, ""));
    let environment = environment.lines().filter_map(|line| line.split_once('='));
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    DIRECTORY.with(|directory| {
        let directory = directory.get_or_init(|| tempfile::tempdir().expect("a directory"));
        let path = directory.path().join("teamwire.toml");
        match load(&path, file, environment) {
            Ok(config) => {
                // Without the store: its password is not printed.
                let printed = config.print();
                let again = load(&path, &printed, []).unwrap_or_else(|failure| panic!("{failure:?} in {printed}"));
                let store = again.settings.store.clone();
                assert_eq!(again.settings, crate::config::Settings { store, ..config.settings }, "{printed}");
                assert_eq!(again.print(), printed);
            }
            Err(Failure::Other { code, message }) => {
                assert_eq!(code, crate::failure::USAGE);
                assert!(!message.is_empty());
            }
            Err(other) => panic!("{other:?}"),
        }
    });
}

fn load(path: &Path, text: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<Config, Failure> {
    fs::write(path, text).expect("a file");
    Config::load(Some(path), environment, &[])
}
