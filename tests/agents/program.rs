//! The agent programs: how each is started without a maker, and what it can do.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

/// The environment variable with the directories of the programs, as in `PATH`.
const VARIABLE: &str = "TEAMWIRE_TEST_AGENTS";

/// An agent program.
pub(crate) struct Program {
    /// Its command.
    pub name: &'static str,
    /// The arguments that a user gives it, after the command.
    pub arguments: &'static [&'static str],
    /// The tool that runs a shell command, and the field of its input that holds it.
    shell: (&'static str, &'static str),
}

/// How the programs are used.
const PROGRAMS: [Program; 7] = [
    Program { name: "claude", arguments: &[], shell: ("Bash", "command") },
    Program { name: "codex", arguments: &[], shell: ("exec_command", "cmd") },
    Program { name: "gemini", arguments: &["-m", "gemini-2.5-flash"], shell: ("run_shell_command", "command") },
    Program { name: "opencode", arguments: &[], shell: ("bash", "command") },
    Program { name: "copilot", arguments: &[], shell: ("bash", "command") },
    Program { name: "qwen", arguments: &[], shell: ("run_shell_command", "command") },
    Program { name: "kimi", arguments: &[], shell: ("Bash", "command") },
];

macro_rules! programs {
    ($($name:ident: $package:expr, $version:expr, $is_in_ci:expr, $can:expr;)*) => {
        /// The names of the programs that CI must test.
        const IN_CI: &[(&str, bool)] = &[$((stringify!($name), $is_in_ci)),*];

        /// What each program can do.
        const ABILITIES: &[(&str, &[Can])] = &[$((stringify!($name), &$can)),*];

        /// The names of all programs.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Declares a test with each program.
        macro_rules! with_each_program {
            ($scenario:path) => {$(
                #[test]
                fn $name() {
                    if let Some(setup) = $crate::setup::Setup::with(stringify!($name)) {
                        $scenario(setup);
                    }
                }
            )*};
        }
        pub(crate) use with_each_program;
    };
}

include!("programs.rs");

impl Program {
    /// Returns the program of this name. None, with a notice: it is not installed; with `CI`, that fails if CI must
    /// test it.
    pub(crate) fn installed(name: &str) -> Option<&'static Self> {
        let directories = env::var_os(VARIABLE).unwrap_or_default();
        if env::split_paths(&directories).any(|directory| directory.join(name).exists()) {
            return PROGRAMS.iter().find(|program| program.name == name);
        }
        let notice = format!("{name} is not installed: run `cargo xtask agents {name}`");
        let must_be = env::var_os("CI").is_some() && IN_CI.contains(&(name, true));
        assert!(!must_be, "{notice}");
        eprintln!("skipped: {notice}");
        None
    }

    /// Returns whether the program can do what not all can.
    pub(crate) fn can(&self, what: Can) -> bool {
        ABILITIES.iter().any(|(name, can)| *name == self.name && can.contains(&what))
    }

    /// Returns the tool call that runs a shell command: the tool and its input.
    pub(crate) fn shell(&self, command: &str) -> (&'static str, Value) {
        let (tool, field) = self.shell;
        let mut input = json!({field: command});
        match self.name {
            // Otherwise, the call returns while the command runs.
            "codex" => input["yield_time_ms"] = 30_000.into(),
            "claude" | "opencode" => input["description"] = "Run a command of the test".into(),
            _ => {}
        }
        (tool, input)
    }

    /// Returns the tool call that asks for permission to run a shell command.
    pub(crate) fn shell_that_asks(&self, command: &str) -> (&'static str, Value) {
        let (tool, mut input) = self.shell(command);
        if self.name == "codex" {
            // Otherwise, the command runs within its sandbox, for which it asks no one.
            input["sandbox_permissions"] = "require_escalated".into();
            input["justification"] = "The test wants it.".into();
        }
        (tool, input)
    }
}

/// Returns the environment in which each program talks to the model at this address, and to nothing else.
pub(crate) fn environment(model: &str) -> Vec<(String, String)> {
    let mut directories: Vec<_> = env::split_paths(&env::var_os(VARIABLE).unwrap_or_default()).collect();
    directories.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(directories).unwrap().into_string().unwrap();
    let openai = format!("{model}/v1");
    let variables = [
        ("PATH", path.as_str()),
        ("ANTHROPIC_API_KEY", "dummy"),
        ("ANTHROPIC_BASE_URL", model),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // Otherwise, Claude Code refuses to let root skip its permissions.
        ("IS_SANDBOX", "1"),
        ("OPENAI_API_KEY", "dummy"),
        ("GEMINI_API_KEY", "dummy"),
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_PROVIDER_TYPE", "openai"),
        ("COPILOT_PROVIDER_BASE_URL", &openai),
        ("COPILOT_PROVIDER_API_KEY", "dummy"),
        ("COPILOT_MODEL", "scripted"),
        ("OPENAI_BASE_URL", &openai),
        ("OPENAI_MODEL", "scripted"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        ("GOOGLE_GEMINI_BASE_URL", model),
    ];
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Writes the settings of every program into a user's directory.
pub(crate) fn configure(home: &Path, model: &str) {
    let codex = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"OPENAI_API_KEY\"\nsupports_websockets = false\n"
    );
    let gemini = json!({
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "scripted",
        "options": {"baseURL": format!("{model}/v1"), "apiKey": "dummy"},
        // Otherwise, it never compacts its context.
        "models": {"scripted": {"name": "scripted", "limit": {"context": 100_000, "output": 8_000}}},
    });
    let opencode = json!({
        "autoupdate": false, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
        // Otherwise, it asks no one.
        "permission": {"bash": "ask"},
    });
    // Otherwise, Claude Code asks its maker at a terminal, and then the person.
    let claude = json!({
        "hasCompletedOnboarding": true, "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {home.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
    });
    let claude_file = home.join(".claude.json");
    if !claude_file.exists() {
        fs::write(claude_file, claude.to_string()).unwrap();
    }
    let qwen = json!({
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "security": {"auth": {"selectedType": "openai"}},
    });
    let kimi = format!(
        "default_model = \"scripted\"\ntelemetry = false\n\
         [providers.scripted]\ntype = \"openai\"\nbase_url = \"{model}/v1\"\napi_key = \"dummy\"\n\
         [models.scripted]\nprovider = \"scripted\"\nmodel = \"scripted\"\nmax_context_size = 100000\n"
    );
    for (file, text) in [
        (".qwen/settings.json", qwen.to_string()),
        (".kimi-code/config.toml", kimi),
        (".codex/config.toml", codex),
        (".gemini/settings.json", gemini.to_string()),
        (".config/opencode/opencode.json", opencode.to_string()),
    ] {
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}
