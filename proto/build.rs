//! Compiles the protocol with protox, so that building needs no protoc.

use std::{env, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["message", "team", "request", "history"].map(|name| format!("teamwire/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=teamwire");
    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
