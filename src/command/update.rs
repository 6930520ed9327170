//! `teamwire update`: says how to replace this program with a newer version.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;

use super::Output;
use crate::{
    failure::Failure,
    show::{self, bold, paint},
};

/// Print the command that upgrades teamwire
///
/// Recognizes how this program was installed, and prints the command that installs the newest version in the same way. It
/// changes nothing. Afterward, `teamwire restart` restarts the coordinator that `teamwire up` started.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire update")]
pub(super) struct Update {
    #[command(flatten)]
    pub output: Output,
}

/// How this program was installed.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    /// The command that upgrades it.
    command: String,
}

impl Update {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let this = env::current_exe()?;
        let this = fs::canonicalize(&this).unwrap_or(this);
        let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let way = way(&this, home.as_deref());
        let version = env!("CARGO_PKG_VERSION");
        if self.output.json {
            show::line(&json!({
                "version": version, "path": this, "installed_with": way.name, "command": way.command,
            }));
            return Ok(());
        }
        anstream::println!("This is teamwire {version}, installed with {}. To upgrade it, run:\n", way.name);
        anstream::println!("    {}\n", paint(bold(), &way.command));
        anstream::println!(
            "Then run `teamwire restart`, if `teamwire up` started the coordinator. The agents keep running."
        );
        Ok(())
    }
}

/// Recognizes how a program was installed, by its path and what is around it.
fn way(this: &Path, home: Option<&Path>) -> Way {
    let text = this.to_string_lossy();
    let has = |part: &str| text.contains(part);
    let directory = this.parent().unwrap_or(Path::new("/"));
    let way = |name, command: &str| Way { name, command: command.to_owned() };
    if has("/Cellar/") {
        return way("Homebrew", "brew upgrade teamwire");
    }
    if has("/_npx/") {
        return way("npx", "npx teamwire@latest --version");
    }
    if has("/node_modules/") {
        let global = if has("/lib/node_modules/") { "--global " } else { "" };
        return way("npm", &format!("npm install {global}teamwire@latest"));
    }
    if has("/uv/archive-v") {
        return way("uvx", "uvx teamwire@latest --version");
    }
    let environment = directory.parent().unwrap_or(directory);
    for (file, name, command) in [
        ("uv-receipt.toml", "uv", "uv tool upgrade teamwire".to_owned()),
        ("pipx_metadata.json", "pipx", "pipx upgrade teamwire".to_owned()),
        ("pyvenv.cfg", "pip", format!("{} install --upgrade teamwire", directory.join("pip").display())),
    ] {
        if environment.join(file).exists() {
            return Way { name, command };
        }
    }
    if let Some(clone) = clone_of(directory) {
        return way("cargo, in a clone", &format!("cd {} && git pull && cargo build", clone.display()));
    }
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    if let Some(cargo_home) = cargo_home.filter(|cargo_home| directory == cargo_home.join("bin")) {
        return by_cargo(&cargo_home);
    }
    if directory == Path::new("/usr/bin") && Path::new("/var/lib/dpkg/info/teamwire.list").exists() {
        return way("its Debian package", "sudo apt install ./teamwire_VERSION_ARCH.deb");
    }
    let default = home.is_some_and(|home| directory == home.join(".local/bin"));
    let options = if default { String::new() } else { format!(" -s -- --dir {}", directory.display()) };
    let script = concat!(env!("CARGO_PKG_REPOSITORY"), "/releases/latest/download/install.sh");
    way("install.sh or an archive", &format!("curl -LsSf {script} | sh{options}"))
}

/// Returns the clone in which a program was built. `directory`: where the program is.
fn clone_of(directory: &Path) -> Option<&Path> {
    let clone = directory.parent().filter(|target| target.ends_with("target"))?.parent()?;
    clone.join("Cargo.toml").exists().then_some(clone)
}

/// Returns what cargo has recorded about the program that it installed.
fn by_cargo(cargo_home: &Path) -> Way {
    let recorded = fs::read_to_string(cargo_home.join(".crates.toml")).unwrap_or_default();
    let line = recorded.lines().find(|line| line.starts_with("\"teamwire ")).unwrap_or_default();
    let clone = line.split_once("(path+file://").and_then(|(_, rest)| rest.split_once(')'));
    let from_binaries = fs::read_to_string(cargo_home.join("binstall/crates-v1.json")).unwrap_or_default();
    let (name, command) = match clone {
        Some((clone, _)) => ("cargo, from a clone", format!("cd {clone} && git pull && cargo install --path .")),
        None if from_binaries.contains("\"teamwire\"") => ("cargo binstall", "cargo binstall teamwire".to_owned()),
        None => ("cargo", "cargo install teamwire".to_owned()),
    };
    Way { name, command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_recognized_by_the_path() {
        for (path, name, command) in [
            ("/opt/homebrew/Cellar/teamwire/0.1.0/bin/teamwire", "Homebrew", "brew upgrade teamwire"),
            (
                "/usr/lib/node_modules/teamwire/node_modules/@teamwire/cli-linux-x64/bin/teamwire",
                "npm",
                "npm install --global teamwire@latest",
            ),
            ("/work/app/node_modules/@teamwire/cli-linux-x64/bin/teamwire", "npm", "npm install teamwire@latest"),
            ("/home/ann/.npm/_npx/1f/node_modules/@teamwire/cli/bin/teamwire", "npx", "npx teamwire@latest --version"),
            ("/home/ann/.cache/uv/archive-v0/5Xa/bin/teamwire", "uvx", "uvx teamwire@latest --version"),
            (
                "/home/ann/.local/bin/teamwire",
                "install.sh or an archive",
                "curl -LsSf https://github.com/teamwire/teamwire/releases/latest/download/install.sh | sh",
            ),
            (
                "/srv/bin/teamwire",
                "install.sh or an archive",
                "curl -LsSf https://github.com/teamwire/teamwire/releases/latest/download/install.sh | sh -s -- --dir /srv/bin",
            ),
        ] {
            assert_eq!(way(Path::new(path), Some(Path::new("/home/ann"))), Way { name, command: command.to_owned() });
        }
    }

    #[test]
    fn the_way_is_recognized_by_what_is_around_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let commanded = |path: &str| way(&root.path().join(path), Some(root.path())).command;
        write("venv/pyvenv.cfg", "");
        assert!(commanded("venv/bin/teamwire").ends_with("/venv/bin/pip install --upgrade teamwire"));
        write("venv/pipx_metadata.json", "");
        assert_eq!(commanded("venv/bin/teamwire"), "pipx upgrade teamwire");
        write("venv/uv-receipt.toml", "");
        assert_eq!(commanded("venv/bin/teamwire"), "uv tool upgrade teamwire");
        write("clone/Cargo.toml", "");
        assert!(commanded("clone/target/debug/teamwire").ends_with("/clone && git pull && cargo build"));
        let of_cargo = || by_cargo(&root.path().join(".cargo")).command;
        assert_eq!(of_cargo(), "cargo install teamwire");
        write(".cargo/binstall/crates-v1.json", r#"{"name":"teamwire"}"#);
        assert_eq!(of_cargo(), "cargo binstall teamwire");
        write(".cargo/.crates.toml", "[v1]\n\"teamwire 0.1.0 (path+file:///home/ann/teamwire)\" = [\"teamwire\"]\n");
        assert_eq!(of_cargo(), "cd /home/ann/teamwire && git pull && cargo install --path .");
    }
}
