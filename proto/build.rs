//! Compiles the protocol with protox, so that building needs no protoc.

use std::{env, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["message", "team", "request", "task", "history"].map(|name| format!("teamwire/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=teamwire");
    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // Ordered, so that the same request has one encoding, by which a repeated call is known.
    tonic_prost_build::configure().btree_map(".teamwire.v1.CreateTaskRequest").compile_fds(descriptors)?;
    Ok(())
}
