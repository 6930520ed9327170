//! Teammates that the lead's agent starts on a host.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::{self, Program},
    setup::{Setup, approval},
    world::{HostProcess, LEAD, MARK, Orderer, eventually, processes_with},
};

/// The person who wants something done.
const ANN: &str = "ann";

/// The name of the host.
const HOST: &str = "gpu-1";

/// A Claude Code leads. It starts another one and a Codex on a host, gives each a task, and asks both to end.
#[test]
fn a_lead_starts_a_claude_and_a_codex_gives_them_tasks_and_ends_them() {
    let (Some(setup), Some(_)) = (Setup::with("claude"), Program::installed("codex")) else { return };
    let world = &setup.world;
    world.join(ANN);
    let home = world.home(HOST);
    program::configure(&home, &setup.model.address());
    let app = home.join("app");
    make_repository(&app);
    write_profiles(&home, &app);
    let host = HostProcess::start(world, HOST, &["--name", HOST, "--join", &Orderer::new(world).invite_host("")]);
    script(&setup);

    program::configure(&world.home(LEAD), &setup.model.address());
    let lead = world.run_program(LEAD, &["--yes"], &[setup.program.name]).ready();
    world.cli(ANN, &["send", LEAD, "Ship the API."]).succeeds();
    let shipped = |message: &Value| message["content"] == "The API is shipped.";
    let told = world.await_inbox(ANN, "the lead's answer", shipped);
    assert_eq!(told["from"], LEAD, "{told}");
    let member = |name: &str| {
        let status = world.cli(ANN, &["status", "--json"]).succeeds().json();
        status["members"].as_array().unwrap().iter().find(|member| member["name"] == name).cloned().unwrap()
    };
    for name in ["backend", "reviewer"] {
        eventually("it has exited", || (member(name)["state"] == "exited").then_some(()));
        let exit = &member(name)["exit"];
        assert!(exit["code"] == 0 && exit["approved_request_id"].is_string(), "{exit}");
        assert_eq!(member(name)["spawned_on"], HOST);
    }
    let tasks = world.cli(ANN, &["task", "list", "--json"]).succeeds().lines();
    assert_eq!((&tasks[0]["status"], &tasks[0]["owner"]), (&"completed".into(), &"backend".into()), "{tasks:?}");

    // Only the changes are left.
    let members = home.join("members");
    let orders = world.host_state(HOST).join("orders");
    eventually("the orders are forgotten", || fs::read_dir(&orders).unwrap().next().is_none().then_some(()));
    assert_eq!(fs::read_to_string(members.join("backend/schema.sql")).unwrap(), "create table invoice;\n");
    assert!(!members.join("reviewer").exists(), "its worktree had no changes");
    assert_eq!(git(&app, &["branch", "--format=%(refname:short)", "--list", "teamwire/*"]), "teamwire/backend\n");
    host.terminate().succeeds();
    eventually("no process is left there", || processes_with("HOME", &home).is_empty().then_some(()));
    drop(lead);
}

/// Writes what each model does.
fn script(setup: &Setup) {
    let model = &setup.model;
    let send = |to: &str, text: &str| json!({"to": to, "message": text, "summary": "the API"});
    // The lead.
    let start = |name: &str, profile: &str, prompt: &str| json!({"name": name, "team_name": "acme", "profile": profile, "prompt": prompt});
    model.add(
        Rule::when("teammate_id=\"ann\"(?s:.*)Ship the API").calls("Task", start("backend", "claude", "You write.")),
    );
    let reviewer = start("reviewer", "codex", "You review.");
    model.add(Rule::when("backend has started on gpu-1, with the profile claude").calls("Task", reviewer));
    let task = json!({"subject": "Write the schema", "description": "For invoices.", "owner": "backend"});
    model.add(Rule::when("reviewer has started on gpu-1, with the profile codex").calls("TaskCreate", task));
    let review = send("reviewer", "Review the schema.");
    model.add(Rule::when("teammate_id=\"backend\"(?s:.*)The schema is written").calls("SendMessage", review));
    let end = |name: &str| json!({"type": "shutdown_request", "recipient": name, "content": "The API is done."});
    let is_reviewed = Rule::when("teammate_id=\"reviewer\"(?s:.*)The schema is sound");
    let is_reviewed = is_reviewed.calls("SendMessage", end("backend")).calls("SendMessage", end("reviewer"));
    model.add(is_reviewed.calls("SendMessage", send(ANN, "The API is shipped.")));
    // The teammates.
    model.add(Rule::when("Task 1 is assigned to you: Write the schema").calls("TaskClaim", json!({})));
    setup.on_shell(
        "#\\d+ \\[in_progress\\] Write the schema",
        "echo 'create table invoice;' > schema.sql; echo written: $?",
    );
    let done = json!({"taskId": "1", "status": "completed", "result": "schema.sql"});
    let is_written = Rule::when("written: 0").calls("TaskUpdate", done);
    model.add(is_written.calls("SendMessage", send("team-lead", "The schema is written.")));
    let sound = send("team-lead", "The schema is sound.");
    model.add(Rule::when("teammate_id=\"lead\"(?s:.*)Review the schema").calls("SendMessage", sound));
    model.add(approval());
    model.add(approval());
}

/// Writes the file of a host that starts each member in a worktree of a repository.
fn write_profiles(home: &Path, repository: &Path) {
    let profile = |name: &str, variables: &str| {
        format!(
            "[profiles.{name}]\ncommand = [\"{name}\"]\ndir = \"{}\"\nworktree = \"{}\"\npermissions = \"allow\"\n\
             pass_env = [\"{MARK}\", {variables}]\n",
            home.join("members").display(),
            repository.display()
        )
    };
    let text = profile("claude", "\"ANTHROPIC_*\", \"CLAUDE_*\", \"IS_SANDBOX\"") + &profile("codex", "\"OPENAI_*\"");
    fs::write(home.join("host.toml"), text).unwrap();
}

fn make_repository(path: &Path) {
    fs::create_dir_all(path).unwrap();
    git(path, &["init", "--quiet"]);
    git(
        path,
        &["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "-m", "first"],
    );
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
