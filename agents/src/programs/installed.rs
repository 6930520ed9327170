//! The agent programs on this machine: which are installed, in which versions, and whether they are signed in.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::{KnownProgram, find, known};
use crate::process::find_program;

/// How long a program may take to answer a question about itself.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The variables with which Gemini CLI needs no sign-in.
const GEMINI_KEYS: [&str; 3] = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"];

/// An agent program that is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The program.
    pub program: &'static KnownProgram,
    /// Its version. `None` if it does not say.
    pub version: Option<String>,
    /// Whether it is signed in. `None` if that is unknown, or if it works without.
    pub is_signed_in: Option<bool>,
}

impl Installed {
    /// Returns what people call it, its version and, if that is another one, which version was tried.
    pub fn description(&self) -> String {
        match &self.version {
            Some(version) => self.program.version(&self.program.title, version),
            None => self.program.title.clone(),
        }
    }
}

/// Finds the agent programs on the PATH, and asks them about themselves.
pub async fn installed() -> Vec<Installed> {
    let found = known().iter().filter_map(|program| {
        let file = find_program(program.command.as_ref(), None, None)?;
        Some(tokio::spawn(async move {
            let (version, is_signed_in) = tokio::join!(version(&file), is_signed_in(&program.command, &file));
            Installed { program, version, is_signed_in }
        }))
    });
    let mut programs = Vec::new();
    for asked in found.collect::<Vec<_>>() {
        programs.extend(asked.await);
    }
    programs
}

/// Asks an agent program whether it is signed in, if this is one. Returns what a person should know if it is not: a
/// sentence.
pub async fn sign_in_warning(program: &OsStr) -> Option<String> {
    let known = find(program)?;
    let file = find_program(program, None, None)?;
    let is_not = is_signed_in(&known.command, &file).await == Some(false);
    // Some of its configurations need no sign-in, such as a provider with its own key.
    is_not.then(|| {
        format!(
            "{} says that it is not signed in, so it may answer no message. To sign in, run `{}` in a terminal.",
            known.title, known.sign_in
        )
    })
}

async fn version(file: &Path) -> Option<String> {
    let (_, said) = ask(file, &["--version"]).await?;
    version_in(&said)
}

/// Returns the first version number in a text.
fn version_in(text: &str) -> Option<String> {
    let numbers = text.split_whitespace().map(|word| word.trim_start_matches('v'));
    let mut versions = numbers.filter(|word| {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() >= 3 && parts.iter().take(2).all(|part| part.parse::<u32>().is_ok())
    });
    versions.next().map(str::to_owned)
}

async fn is_signed_in(command: &str, file: &Path) -> Option<bool> {
    match command {
        "claude" => {
            let (_, said) = ask(file, &["auth", "status"]).await?;
            serde_json::from_str::<Value>(said.trim()).ok()?["loggedIn"].as_bool()
        }
        "codex" => {
            let (is_success, said) = ask(file, &["login", "status"]).await?;
            // An older one may not know the question, and another provider than OpenAI has its own key.
            let is_known = is_success || (said.contains("Not logged in") && !has_other_provider());
            is_known.then_some(is_success)
        }
        "gemini" => {
            let has_key = GEMINI_KEYS.iter().any(|key| env::var_os(key).is_some_and(|value| !value.is_empty()));
            let home = env::var_os("HOME")?;
            Some(has_key || Path::new(&home).join(".gemini/oauth_creds.json").exists())
        }
        // opencode has models that need no sign-in. The others do not say.
        _ => None,
    }
}

/// Returns whether Codex is set to ask another provider than OpenAI.
fn has_other_provider() -> bool {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".codex"));
    let directory = env::var_os("CODEX_HOME").map(PathBuf::from).or(home);
    let settings = directory.and_then(|directory| fs::read_to_string(directory.join("config.toml")).ok());
    settings.is_some_and(|settings| settings.lines().any(|line| line.trim_start().starts_with("model_provider")))
}

/// Starts a program that ends by itself. Returns whether it succeeded, and what it printed. `None` if it did not end in
/// time.
async fn ask(file: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new(file);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(ANSWER_MAX, command.output()).await.ok()?.ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_print() {
        for (printed, version) in [
            ("2.1.330 (Claude Code)\n", Some("2.1.330")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("v1.18.33", Some("1.18.33")),
            ("0.62.0-preview.1", Some("0.62.0-preview.1")),
            ("see example.com/a.b.c", None),
            ("", None),
        ] {
            assert_eq!(version_in(printed).as_deref(), version, "{printed}");
        }
    }
}
