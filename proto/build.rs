//! Compiles the protocol, without protoc, and writes the crate's tables from its options.

mod codegen;

use std::{env, fs, path::PathBuf};

const FILES: [&str; 17] = [
    "access",
    "activity",
    "audit",
    "backup",
    "call",
    "history",
    "host",
    "message",
    "options",
    "query",
    "reason",
    "request",
    "task",
    "team",
    "transcript",
    "watch",
    "work",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=teamwire");
    println!("cargo:rerun-if-changed=codegen");
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(FILES.map(|name| format!("teamwire/v1/{name}.proto")))?;
    let pool = compiler.descriptor_pool();

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("reason.rs"), codegen::reason::table(&pool))?;
    fs::write(out.join("method.rs"), codegen::method::table(&pool))?;
    fs::write(out.join("body.rs"), codegen::body::table(&pool))?;
    fs::write(out.join("notice.rs"), codegen::notice::table(&pool))?;
    fs::write(out.join("redact.rs"), codegen::redact::table(&pool))?;

    tonic_prost_build::configure()
        // Ordered, so that equal requests have equal encodings: an idempotency key is checked against the encoding.
        .btree_map(".teamwire.v1.CreateTaskRequest")
        .btree_map(".teamwire.v1.SpawnRequest")
        .btree_map(".teamwire.v1.SpawnTerms")
        .btree_map(".teamwire.v1.HostOffer")
        // Frames refer to what has arrived.
        .bytes(".teamwire.v1.CallFrame")
        .bytes(".teamwire.v1.ReplyFrame")
        .bytes(".teamwire.v1.CallStatus")
        // Runners keep them in their files, or coordinators in their records.
        .type_attribute(".teamwire.v1.Usage", "#[derive(serde::Serialize, serde::Deserialize)] #[serde(default)]")
        .type_attribute(".teamwire.v1.Work", "#[derive(serde::Serialize, serde::Deserialize)] #[serde(default)]")
        .extern_path(".teamwire.v1.Reason", "crate::Reason")
        .codec_path("crate::codec::SmallBuffers")
        .skip_debug(codegen::redact::secret_messages(&pool).iter().map(|message| format!(".{}", message.full_name())))
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
