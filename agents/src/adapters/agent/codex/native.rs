//! Finds the native binary behind the launcher that npm installs as `codex`.
//!
//! The launcher is a Node program. With an older Node, it keeps running beside the binary, and SIGKILL ends only the
//! launcher.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Returns the native binary behind a launcher. `None` if this is not a launcher, or it has no binary for this machine.
pub(super) fn binary(launcher: &Path) -> Option<PathBuf> {
    let launcher = launcher.canonicalize().ok()?;
    if launcher.file_name()? != "codex.js" {
        return None;
    }
    let package = launcher.parent()?.parent()?;
    let platform = platform_package()?;
    let homes =
        [package.parent()?.join(&platform), package.join("node_modules/@openai").join(&platform), package.into()];
    homes.iter().find_map(|home| {
        let targets = fs::read_dir(home.join("vendor")).ok()?;
        targets.flatten().map(|target| target.path().join("bin/codex")).find(|binary| binary.is_file())
    })
}

/// Returns the directory of the npm package with the binary for this machine.
fn platform_package() -> Option<String> {
    let system = if env::consts::OS == "macos" { "darwin" } else { env::consts::OS };
    let processor = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    Some(format!("codex-{system}-{processor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(path, "").expect("written");
    }

    #[test]
    fn the_native_binary_is_found_behind_the_launcher() {
        let modules = tempfile::tempdir().expect("a directory");
        let scope = modules.path().canonicalize().expect("it exists").join("@openai");
        let launcher = scope.join("codex/bin/codex.js");
        write(&launcher);
        let link = modules.path().join("codex");
        std::os::unix::fs::symlink(&launcher, &link).expect("linked");
        assert_eq!(binary(&link), None);
        let platform = platform_package().expect("a platform");
        for home in ["codex", &format!("codex/node_modules/@openai/{platform}"), &platform] {
            let native = scope.join(home).join("vendor/some-target/bin/codex");
            write(&native);
            assert_eq!(binary(&link), Some(native));
        }
    }

    #[test]
    fn another_program_is_not_a_launcher() {
        assert_eq!(binary(Path::new("/bin/sh")), None);
        assert_eq!(binary(Path::new("/nowhere/codex")), None);
    }
}
