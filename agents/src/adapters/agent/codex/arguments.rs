//! Reads the arguments that a user gives to `codex`, and carries them over to `codex app-server`, which ignores most of
//! them.

use serde_json::{Value, json};

/// What the user's arguments ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Settings, as the option `-c` takes them.
    pub(super) settings: Vec<String>,
    /// The agent's working directory, if it is not the program's.
    pub(super) directory: Option<String>,
    /// Whether the user has typed `app-server`.
    pub(super) names_app_server: bool,
    /// Whether they choose a sandbox.
    chooses_sandbox: bool,
}

/// The setting of the sandbox.
const SANDBOX: &str = "sandbox_mode";

/// The settings that decide what commands may do.
const SANDBOX_SETTINGS: [&str; 2] = [SANDBOX, "default_permissions"];

/// Options that `codex app-server` takes and carries out, with a value.
const CARRIED_OUT: [&str; 4] = ["-c", "--config", "--enable", "--disable"];

/// Options that `codex app-server` accepts and ignores, and for which it has no setting.
const IGNORED: [&str; 9] = [
    "-i",
    "--image",
    "--oss",
    "--local-provider",
    "--remote",
    "--remote-auth-token-env",
    "--worktree",
    "-p",
    "--profile",
];

/// Reads the arguments. Fails with a sentence that says which one cannot be carried over and what to do.
pub(super) fn read(arguments: &[String]) -> Result<Arguments, String> {
    let mut read = Arguments::default();
    let mut directories = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (option, attached) = split(argument);
        let mut value = || attached.or_else(|| rest.next().map(String::as_str)).unwrap_or_default();
        match option {
            "-m" | "--model" => read.set("model", &json!(value())),
            "-s" | "--sandbox" => read.set(SANDBOX, &json!(value())),
            "-a" | "--ask-for-approval" => read.set("approval_policy", &json!(value())),
            "-C" | "--cd" => read.directory = Some(value().to_owned()),
            "--add-dir" => directories.push(value()),
            "--search" => read.set("web_search", &json!("live")),
            "--approve-for-me" => {
                read.set("approvals_reviewer", &json!("auto_review"));
                read.set(SANDBOX, &json!("workspace-write"));
            }
            "--dangerously-bypass-approvals-and-sandbox" | "--yolo" => {
                read.set("approval_policy", &json!("never"));
                read.set(SANDBOX, &json!("danger-full-access"));
            }
            option if CARRIED_OUT.contains(&option) => {
                let setting = value().split('=').next().unwrap_or_default().trim();
                read.chooses_sandbox |= SANDBOX_SETTINGS.contains(&setting);
            }
            option if IGNORED.contains(&option) => return Err(not_carried_over(option)),
            "app-server" => {
                read.names_app_server = true;
                break;
            }
            // Codex itself refuses an option that it does not know.
            option if option.starts_with('-') => {}
            other => {
                return Err(format!(
                    "`{other}` is neither an option of Codex nor its value. Give the first prompt to teamwire, with --prompt; \
                     teamwire starts `codex app-server`, so it takes no other command."
                ));
            }
        }
    }
    if !directories.is_empty() {
        read.set("sandbox_workspace_write.writable_roots", &json!(directories));
    }
    Ok(read)
}

impl Arguments {
    /// Returns the arguments of the program after the user's own.
    pub(super) fn after(&self) -> Vec<String> {
        let command = (!self.names_app_server).then(|| "app-server".to_owned());
        let settings = self.settings.iter().flat_map(|setting| ["-c".to_owned(), setting.clone()]);
        command.into_iter().chain(settings).collect()
    }

    /// Turns the sandbox off, unless the arguments choose one. Returns whether it is off now for this reason.
    pub(super) fn turn_sandbox_off(&mut self) -> bool {
        if self.chooses_sandbox {
            return false;
        }
        self.set(SANDBOX, &json!("danger-full-access"));
        true
    }

    /// Adds a setting. JSON's strings and lists of strings are TOML's, too.
    fn set(&mut self, key: &str, value: &Value) {
        self.chooses_sandbox |= key == SANDBOX;
        self.settings.push(format!("{key}={value}"));
    }
}

/// Splits an argument into the option and a value that is attached to it, as in `--model=NAME` and `-mNAME`.
fn split(argument: &str) -> (&str, Option<&str>) {
    if argument.starts_with("--") {
        return match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument, None),
        };
    }
    match argument.char_indices().nth(2) {
        Some((at, _)) if argument.starts_with('-') => {
            let (option, value) = argument.split_at(at);
            (option, Some(value.strip_prefix('=').unwrap_or(value)))
        }
        _ => (argument, None),
    }
}

fn not_carried_over(option: &str) -> String {
    format!(
        "`codex app-server` does not carry out {option}. Put what it does into ~/.codex/config.toml, or give it as a setting: \
         -c KEY=VALUE."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        read(&arguments).expect("they are carried over").after()
    }

    fn refused(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        read(&arguments).expect_err("they are refused")
    }

    #[test]
    fn options_that_the_app_server_ignores_become_settings() {
        assert_eq!(after(&[]), ["app-server"]);
        assert_eq!(
            after(&["-m", "gpt", "--sandbox=read-only", "-anever"]),
            [
                "app-server",
                "-c",
                "model=\"gpt\"",
                "-c",
                "sandbox_mode=\"read-only\"",
                "-c",
                "approval_policy=\"never\""
            ]
        );
        assert_eq!(
            after(&["--add-dir", "/a", "--add-dir", "/b"]),
            ["app-server", "-c", "sandbox_workspace_write.writable_roots=[\"/a\",\"/b\"]"]
        );
        let everything = after(&["--yolo"]);
        assert_eq!(everything, after(&["--dangerously-bypass-approvals-and-sandbox"]));
        assert_eq!(
            everything,
            ["app-server", "-c", "approval_policy=\"never\"", "-c", "sandbox_mode=\"danger-full-access\""]
        );
    }

    #[test]
    fn the_sandbox_is_turned_off_unless_the_user_chooses_one() {
        let off = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            let mut read = read(&arguments).expect("they are carried over");
            (read.turn_sandbox_off(), read.after().join(" "))
        };
        assert_eq!(off(&["-m", "x"]).1, "app-server -c model=\"x\" -c sandbox_mode=\"danger-full-access\"");
        assert!(off(&["-c", "model=x", "--ask-for-approval", "on-request"]).0);
        for choice in [
            &["--sandbox", "read-only"][..],
            &["-sworkspace-write"],
            &["--approve-for-me"],
            &["--yolo"],
            &["-c", "sandbox_mode=\"read-only\""],
            &["--config=default_permissions=\":workspace\""],
        ] {
            assert!(!off(choice).0, "{choice:?}");
        }
    }

    #[test]
    fn options_that_the_app_server_carries_out_are_not_repeated() {
        assert_eq!(after(&["-c", "model=x", "--enable", "goals", "--config=a=b", "--strict-config"]), ["app-server"]);
        assert_eq!(after(&["app-server", "-c", "model=x"]), Vec::<String>::new());
        assert_eq!(after(&["-mx", "app-server", "--strict-config"]), ["-c", "model=\"x\""]);
    }

    #[test]
    fn a_directory_is_kept_for_the_thread() {
        let read = read(&["-C".to_owned(), "sub".to_owned()]).expect("it is carried over");
        assert_eq!(read, Arguments { directory: Some("sub".to_owned()), ..Arguments::default() });
    }

    #[test]
    fn arguments_that_cannot_be_carried_over_are_refused_with_advice() {
        assert!(refused(&["--profile", "work"]).contains("--profile"));
        assert!(refused(&["-i=a.png"]).contains("-c KEY=VALUE"));
        assert!(refused(&["-m", "gpt", "Fix the bug"]).contains("--prompt"));
        assert!(refused(&["exec", "hello"]).contains("`exec`"));
    }
}
