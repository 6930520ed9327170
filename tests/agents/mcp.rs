//! The tools of `teamwire mcp` in a program that a person has started.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::{self, Can},
    setup::Setup,
    world::{LEAD, TEAMWIRE},
};

scenarios! {
    a_program_that_a_person_started_sends_and_reads_through_its_tools,
    a_program_that_a_person_started_reaches_its_tools_by_url,
}

fn a_program_that_a_person_started_sends_and_reads_through_its_tools(setup: Setup) {
    if setup.program.can(Can::BeStartedByAPerson) {
        sends_and_reads(&setup, start);
    }
}

fn a_program_that_a_person_started_reaches_its_tools_by_url(setup: Setup) {
    // The command prints no setting for Gemini CLI.
    if setup.program.can(Can::BeStartedByAPerson) && setup.program.name != "gemini" {
        sends_and_reads(&setup, start_with_url);
    }
}

fn sends_and_reads(setup: &Setup, start: fn(&Setup, &str)) {
    setup.world.join("ann");
    setup.world.cli(LEAD, &["send", "ann", "Which <b>port</b>?"]).succeeds();
    setup.model.add(Rule::when("Look into your inbox").calls("CheckInbox", json!({})));
    let reply = json!({"to": "team-lead", "message": "Port 4180.", "summary": "the port"});
    setup.model.add(Rule::when("Which &lt;b&gt;port").calls("SendMessage", reply));
    setup.model.add(Rule::when("(?i)sent").says("I have answered."));
    start(setup, "Look into your inbox.");
    let received = setup.world.await_inbox(LEAD, "the answer", |message| message["content"] == "Port 4180.");
    assert_eq!(received["from"], "ann", "{received}");
    let history = setup.world.history(LEAD);
    let asked = history.iter().find(|entry| entry["message"]["content"] == "Which <b>port</b>?").unwrap();
    assert_eq!(received["in_reply_to"], asked["message"]["id"], "{received}");
}

/// The member whose program it is.
const ANN: &str = "ann";

/// Runs the program as ann types it, with the tools in its settings and one prompt.
fn start(setup: &Setup, prompt: &str) {
    let home = setup.world.home(ANN);
    program::configure(&home, &setup.model.address());
    let name = setup.program.name;
    let server = json!({"command": TEAMWIRE, "args": ["mcp", "--as", ANN]});
    let command = match name {
        "claude" => {
            let mut server = server;
            // Otherwise, the model must search for the tools before it can call them.
            server["alwaysLoad"] = true.into();
            let settings = json!({"mcpServers": {"teamwire": server}});
            fs::write(home.join("mcp.json"), settings.to_string()).unwrap();
            "claude --mcp-config mcp.json --allowedTools mcp__teamwire --disallowedTools SendMessage -p".to_owned()
        }
        "codex" => {
            let passed = r#"env_vars = ["TEAMWIRE_CONTEXT", "TEAMWIRE_STATE_DIR", "HOME"]"#;
            let server = format!(
                "[mcp_servers.teamwire]\ncommand = \"{TEAMWIRE}\"\nargs = [\"mcp\", \"--as\", \"{ANN}\"]\n{passed}\n"
            );
            let mut file = File::options().append(true).open(home.join(".codex/config.toml")).unwrap();
            file.write_all(server.as_bytes()).unwrap();
            "codex exec --skip-git-repo-check".to_owned()
        }
        "gemini" => {
            let mut server = server;
            server["trust"] = true.into();
            merge(&home.join(".gemini/settings.json"), "mcpServers", json!({"teamwire": server}));
            format!("gemini {} -p", setup.program.arguments.join(" "))
        }
        "opencode" => {
            let server = json!({"type": "local", "command": [TEAMWIRE, "mcp", "--as", ANN]});
            merge(&home.join(".config/opencode/opencode.json"), "mcp", json!({"teamwire": server}));
            "opencode run".to_owned()
        }
        other => panic!("{other} has no settings here"),
    };
    setup.world.spawn_shell(ANN, &format!("{command} '{prompt}'")).output().succeeds();
}

/// The same with nothing of teamwire in the settings but the coordinator's URL.
fn start_with_url(setup: &Setup, prompt: &str) {
    let home = setup.world.home(ANN);
    program::configure(&home, &setup.model.address());
    let name = setup.program.name;
    let printed = setup.world.cli(ANN, &["mcp", "--http", "--for", name, "--json"]).succeeds().json();
    let setting = printed["setting"].as_str().unwrap();
    let command = match name {
        "claude" => {
            fs::write(home.join("mcp.json"), setting).unwrap();
            "claude --mcp-config mcp.json --allowedTools mcp__teamwire --disallowedTools SendMessage -p"
        }
        "codex" => {
            let mut file = File::options().append(true).open(home.join(".codex/config.toml")).unwrap();
            file.write_all(setting.as_bytes()).unwrap();
            "codex exec --skip-git-repo-check"
        }
        _ => {
            let setting: Value = serde_json::from_str(setting).unwrap();
            merge(&home.join(".config/opencode/opencode.json"), "mcp", setting["mcp"].clone());
            "opencode run"
        }
    };
    let credential = printed["credential"].as_str().unwrap();
    let script = format!("export TEAMWIRE_TOOL_CREDENTIAL={credential}\n{command} '{prompt}'");
    setup.world.spawn_shell(ANN, &script).output().succeeds();
}

/// Sets a field in a file of settings.
fn merge(file: &Path, field: &str, value: Value) {
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    settings[field] = value;
    fs::write(file, settings.to_string()).unwrap();
}
