//! Embeds the console: writes a table of the built files in `console/dist`, each also compressed.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};

const DIST: &str = "console/dist";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DIST}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join(DIST);
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = "&[\n".to_owned();
    for (number, file) in files.iter().enumerate() {
        let compressed = out.join(format!("console-{number}.gz"));
        let mut gzip = GzBuilder::new().write(fs::File::create(&compressed)?, Compression::best());
        gzip.write_all(&fs::read(file)?)?;
        gzip.finish()?;
        let path = file.strip_prefix(&root)?.to_str().ok_or("a file of the console has a name that is not UTF-8")?;
        writeln!(
            table,
            "File {{ path: {path:?}, bytes: include_bytes!({file:?}), gzip: include_bytes!({compressed:?}) }},"
        )?;
    }
    table.push_str("]\n");
    fs::write(out.join("console.rs"), table)?;
    Ok(())
}

/// Adds every file below a folder. A missing folder has none.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
