//! Writes the parts of the clients that need more than a code generator for Protocol Buffers: what the protocol's options
//! say of refusals and calls, and the helpers that make one call. `cargo xtask generate` runs it.
//!
//! Usage: `clients ROOT`, where ROOT is the root of the repository.

mod helpers;
mod policy;
mod protocol;

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let root = Path::new(&root);
    let protocol = protocol::Protocol::read();
    let helpers = helpers::read(&fs::read_to_string(root.join("client/helpers.toml"))?, &protocol)?;
    for (file, text) in policy::files().into_iter().chain(helpers::files(&helpers, &protocol)) {
        fs::write(root.join(file), text)?;
    }
    let readme = root.join("client/README.md");
    fs::write(&readme, helpers::with_table(&fs::read_to_string(&readme)?, &helpers)?)?;
    Ok(())
}

/// Returns words that are separated by spaces or underscores as one word, such as `requestId`.
fn camel(words: &str) -> String {
    let mut words = words.split([' ', '_']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &upper(word))
}

/// Returns words as one word that begins with a capital, such as `RequestId`.
fn pascal(words: &str) -> String {
    upper(&camel(words))
}

/// Returns a text with a capital first letter.
fn upper(text: &str) -> String {
    let (first, rest) = text.split_at(text.len().min(1));
    first.to_ascii_uppercase() + rest
}
