//! `teamwire setup`: what it writes into the settings of agent programs, and how it takes that back.

use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Stdio};

use serde_json::Value;

use crate::world::{LEAD, TEAMWIRE, World};

/// The settings of a user before setup: a path in the home directory, and the text.
const SETTINGS: [(&str, &str); 6] = [
    (
        ".claude.json",
        "{\n  \"numStartups\": 3,\n  \"projects\": {\n    \"/x\": {\n      \"history\": []\n    }\n  }\n}\n",
    ),
    (
        ".claude/settings.local.json",
        "{\n    // Mine.\n    \"permissions\": { \"allow\": [\"Bash\"] },\n    \"hooks\": {\n        \"Stop\": [\n            \
         {\n                \"hooks\": [ { \"type\": \"command\", \"command\": \"say done\" } ]\n            }\n        ],\n        \
         \"PreCompact\": []\n    }\n}",
    ),
    (
        ".codex/config.toml",
        "# The top.\nmodel = \"x\" # here\n\n[mcp_servers.mine]\ncommand = \"mine\"\n\n# The end.\n",
    ),
    (".gemini/settings.json", "{\n\t\"ui\": {\"theme\": \"Dark\"}, /* dark */\n\t\"tools\": []\n}\n"),
    (
        "opencode.jsonc",
        "{\n  // Mine.\n  \"mcp\": {\n    \"other\": { \"type\": \"remote\", \"url\": \"https://x\" }\n  }\n}\n",
    ),
    (".vscode/mcp.json", "{\n\t\"inputs\": []\n}\n"),
];

/// The files that setup creates if the user has only [`SETTINGS`].
const CREATED: [&str; 3] = [".codex/hooks.json", ".github/mcp.json", ".cursor/mcp.json"];

const PROGRAMS: [&str; 7] = ["claude", "codex", "gemini", "opencode", "copilot", "cursor", "vscode"];

fn team_with_settings() -> World {
    let world = World::embedded();
    world.create_team("acme");
    // The project is the repository around the working directory, wherever the tests run.
    fs::create_dir(file(&world, ".git")).unwrap();
    fs::write(file(&world, ".git/HEAD"), "ref: refs/heads/main").unwrap();
    for (path, text) in SETTINGS {
        let path = file(&world, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    world
}

fn file(world: &World, path: &str) -> PathBuf {
    world.home(LEAD).join(path)
}

fn text(world: &World, path: &str) -> String {
    fs::read_to_string(file(world, path)).unwrap()
}

/// Returns a file without its comments.
fn json(world: &World, path: &str) -> Value {
    let text = text(world, path);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    serde_json::from_str(&lines.collect::<Vec<_>>().join("\n").replace("/* dark */", "")).unwrap()
}

#[track_caller]
fn assert_untouched(world: &World) {
    for (path, before) in SETTINGS {
        assert_eq!(text(world, path), before, "{path}");
    }
    for path in CREATED {
        assert!(!file(world, path).exists(), "{path}");
    }
}

#[test]
fn undo_restores_the_settings_byte_for_byte() {
    let world = team_with_settings();
    for program in PROGRAMS {
        let shown = world.cli(LEAD, &["setup", program, "--yes"]).succeeds().stdout;
        assert!(shown.contains("+") && shown.contains("teamwire") && shown.contains("lead@acme"), "{shown}");
    }
    // Everything else is still there, comments included.
    let codex = text(&world, ".codex/config.toml");
    for kept in ["# The top.", "model = \"x\" # here", "[mcp_servers.mine]", "# The end.", "[mcp_servers.teamwire]"] {
        assert!(codex.contains(kept), "{kept}: {codex}");
    }
    assert!(text(&world, ".claude/settings.local.json").contains("// Mine."));
    assert!(text(&world, ".gemini/settings.json").contains("/* dark */"));
    assert_eq!(json(&world, ".claude/settings.local.json")["hooks"]["Stop"][0]["hooks"][0]["command"], "say done");
    for program in PROGRAMS {
        world.cli(LEAD, &["setup", program, "--undo", "--yes"]).succeeds();
    }
    assert_untouched(&world);
    for program in PROGRAMS {
        let again = world.cli(LEAD, &["setup", program, "--undo"]).succeeds().stdout;
        assert!(again.contains("Nothing was changed"), "{again}");
    }
}

#[test]
fn setup_can_be_repeated_and_follows_another_identity() {
    let world = team_with_settings();
    world.cli(LEAD, &["team", "create", "blue", "--lead", "chief"]).succeeds();
    for program in PROGRAMS {
        world.cli(LEAD, &["setup", program, "--yes", "--as", "lead@acme"]).succeeds();
        let again = world.cli(LEAD, &["setup", program, "--as", "lead@acme"]).succeeds().stdout;
        assert!(again.contains("is set up already"), "{again}");
    }
    let server = |world: &World| json(world, ".gemini/settings.json")["mcpServers"]["teamwire"].clone();
    assert_eq!(server(&world)["command"], TEAMWIRE);
    let arguments: Vec<String> = serde_json::from_value(server(&world)["args"].clone()).unwrap();
    assert_eq!(arguments[..3], ["mcp", "--as", "lead@acme"], "the identity is written down");
    assert!(arguments.contains(&"--context".to_owned()), "a session does not depend on the environment: {arguments:?}");
    // Another identity replaces the first.
    world.cli(LEAD, &["setup", "gemini", "--yes"]).succeeds();
    assert_eq!(server(&world)["args"][2], "chief@blue");
    let hooks = &json(&world, ".gemini/settings.json")["hooks"]["AfterTool"];
    assert_eq!(hooks.as_array().unwrap().len(), 1, "{hooks}");
    for program in PROGRAMS {
        world.cli(LEAD, &["setup", program, "--undo", "--yes"]).succeeds();
    }
    assert_untouched(&world);
}

#[test]
fn settings_name_the_link_that_survives_an_upgrade_and_the_doctor_notices_when_it_is_gone() {
    let world = team_with_settings();
    let (version, link) = (world.home(LEAD).join("cellar/1.0"), world.home(LEAD).join("bin dir/teamwire"));
    fs::create_dir_all(&version).unwrap();
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    // A link to the file would be resolved, too.
    fs::hard_link(TEAMWIRE, version.join("teamwire"))
        .or_else(|_| fs::copy(TEAMWIRE, version.join("teamwire")).map(drop))
        .unwrap();
    symlink(version.join("teamwire"), &link).unwrap();
    for program in PROGRAMS {
        let status =
            world.program(LEAD, &link).args(["setup", program, "--yes"]).stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
    }
    for settings in [".claude.json", ".claude/settings.local.json", ".codex/config.toml", ".gemini/settings.json"] {
        let text = text(&world, settings);
        assert!(text.contains("bin dir/teamwire") && !text.contains("cellar"), "{settings}: {text}");
    }
    let outdated = || {
        let findings = world.cli(LEAD, &["doctor", "--json"]).lines();
        findings.iter().filter(|finding| finding["class"] == "setup_outdated").count()
    };
    assert_eq!(outdated(), 0);
    fs::remove_file(&link).unwrap();
    assert!(outdated() >= PROGRAMS.len());
    let shown = world.cli(LEAD, &["doctor"]).exits(1).stdout;
    assert!(shown.contains("Write the settings again: `teamwire setup claude`."), "{shown}");
}

#[test]
fn programs_without_hooks_start_the_tools_and_their_settings_hold_no_credential() {
    let world = team_with_settings();
    for (program, path, servers) in [
        ("opencode", "opencode.jsonc", "mcp"),
        ("copilot", ".github/mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ] {
        let said = world.cli(LEAD, &["setup", program, "--yes"]).succeeds().stdout;
        assert!(said.contains("CheckInbox"), "{said}");
        assert!(!text(&world, path).contains(&world.credential(LEAD)), "{path}");
        let settings = json(&world, path);
        let server = &settings[servers]["teamwire"];
        let words: Vec<String> = match &server["command"] {
            Value::Array(words) => serde_json::from_value(words.clone().into()).unwrap(),
            command => {
                let arguments: Vec<String> = serde_json::from_value(server["args"].clone()).unwrap();
                [vec![command.as_str().unwrap().to_owned()], arguments].concat()
            }
        };
        assert_eq!(words[0], TEAMWIRE);
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let answer = world.cli_with_input("stranger", &arguments, &format!("{request}\n")).succeeds().stdout;
        assert!(answer.contains("You are lead of team acme"), "{program}: {answer}");
    }
    let copilot = json(&world, ".github/mcp.json");
    assert_eq!(copilot["mcpServers"]["teamwire"]["tools"][0], "*");
    world.cli(LEAD, &["setup", "vscode", "--scope", "user", "--yes"]).succeeds();
    assert!(file(&world, ".config/Code/User/mcp.json").exists());
}

#[test]
fn setup_for_all_sessions_of_a_user_leaves_the_project_alone() {
    let world = team_with_settings();
    world.cli(LEAD, &["setup", "claude", "--scope", "user", "--yes"]).succeeds();
    assert_eq!(json(&world, ".claude.json")["mcpServers"]["teamwire"]["args"][0], "mcp");
    assert!(json(&world, ".claude/settings.json")["hooks"]["UserPromptSubmit"].is_array());
    assert_eq!(text(&world, ".claude/settings.local.json"), SETTINGS[1].1);
    world.cli(LEAD, &["setup", "claude", "--scope", "user", "--undo", "--yes"]).succeeds();
    assert!(!file(&world, ".claude/settings.json").exists());
    assert_untouched(&world);
}

#[test]
fn settings_that_cannot_be_read_are_refused_and_left_alone() {
    let world = team_with_settings();
    for (program, path, broken, says) in [
        ("claude", ".claude/settings.local.json", "{\"hooks\": ", "cannot be read as JSON"),
        ("claude", ".claude.json", "{'projects': {}}", "cannot be read as JSON"),
        ("codex", ".codex/config.toml", "model = ", "cannot be read as TOML"),
        ("codex", ".codex/hooks.json", "{\"hooks\": {\"Stop\": 7}}", "`hooks.Stop` is not a list"),
        ("gemini", ".gemini/settings.json", "[]", "is not an object"),
        (
            "gemini",
            ".gemini/settings.json",
            "{\"mcpServers\": {\"teamwire\": {\"command\": \"x\"}}}",
            "Rename that server",
        ),
    ] {
        let before = fs::read_to_string(file(&world, path)).ok();
        fs::write(file(&world, path), broken).unwrap();
        world.cli(LEAD, &["setup", program, "--yes"]).exits(64).complains_of(says);
        assert_eq!(text(&world, path), broken);
        match before {
            Some(before) => fs::write(file(&world, path), before).unwrap(),
            None => fs::remove_file(file(&world, path)).unwrap(),
        }
        assert_untouched(&world);
    }
}

#[test]
fn setup_changes_nothing_without_consent_or_identity() {
    let world = team_with_settings();
    assert!(world.cli(LEAD, &["setup", "codex", "--dry-run"]).succeeds().stdout.contains("+[mcp_servers.teamwire]"));
    assert_untouched(&world);
    world.cli(LEAD, &["setup", "codex"]).exits(64).complains_of("add --yes");
    world.cli(LEAD, &["setup", "codex", "--as", "bob@acme", "--yes"]).exits(64).complains_of("no identity");
    world.cli("stranger", &["setup", "codex", "--yes"]).exits(77).complains_of("No identity is saved");
    let within = [("TEAMWIRE_RUN", "mark")];
    world.cli_in(LEAD, &["setup", "codex", "--yes"], &within).exits(77).complains_of("runs under `teamwire run`");
    assert_untouched(&world);
}
