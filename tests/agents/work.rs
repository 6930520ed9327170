//! Three agents of two makers on one repository: each commits in its own worktree, an agent and a person review the work, and the
//! main branch gets all three.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::{self, Program},
    setup::{Setup, approval},
    world::{FreshMachine, eventually},
};

/// Runs git in a directory, which must succeed, and returns its output.
#[track_caller]
fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn team(project: &Path) -> String {
    let profile = |program: &str| {
        let project = project.display();
        format!(
            "[hosts.local.profiles.{program}]\ncommand = [\"{program}\"]\npermissions = \"allow\"\nclaim = true\n\
             worktree = \"{project}\"\npass_env = [\"ANTHROPIC_*\", \"CLAUDE_*\", \"IS_SANDBOX\", \"OPENAI_*\"]\n"
        )
    };
    let members = [("backend", "claude"), ("frontend", "codex"), ("writer", "claude")]
        .map(|(name, program)| format!("[[members]]\nname = \"{name}\"\nprofile = \"{program}\"\n"));
    let tasks = [
        ("backend", "Build the API", "team-lead", false, ""),
        ("frontend", "Build the page", "writer", false, ""),
        // The writer reviews the page first.
        ("writer", "Write the guide", "team-lead", true, "\"Build the page\""),
    ]
    .map(|(owner, subject, review, merges, first)| {
        format!(
            "[[tasks]]\nsubject = \"{subject}\"\nowner = \"{owner}\"\nblocked_by = [{first}]\nreview = \"{review}\"\n\
             merge_on_approval = {merges}\n"
        )
    });
    format!("name = \"acme\"\n{}{}{}{}", members.concat(), tasks.concat(), profile("claude"), profile("codex"))
}

/// Has the model commit a file when it gets a task, and complete the task then.
fn does(setup: &Setup, program: &Program, subject: &str, id: u64, file: &str) {
    let directory = file.split('/').next().unwrap();
    let (tool, input) = program.shell(&format!(
        "mkdir -p {directory} && echo {directory} > {file} && git add {directory} && git commit -qm '{subject}' && echo commit''ted-{id}"
    ));
    setup.model.add(Rule::when(&format!("You have taken task {id}[^\\d]")).calls(tool, input));
    let done = json!({"taskId": id.to_string(), "status": "completed", "result": format!("{file} is there.")});
    setup.model.add(Rule::when(&format!("committed-{id}")).calls("TaskUpdate", done));
}

#[test]
fn three_agents_of_two_makers_merge_their_work_into_one_branch() {
    let Some(setup) = Setup::with("claude") else { return };
    let Some(codex) = Program::installed("codex") else { return };
    let machine = FreshMachine::with(program::environment(&setup.model.address()));
    program::configure(machine.path(), &setup.model.address());
    let project = machine.path().join("shop");
    fs::create_dir(&project).unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["config", "user.name", "Ann"]);
    git(&project, &["config", "user.email", "ann@example.com"]);
    fs::write(project.join("README.md"), "The shop\n").unwrap();
    fs::write(project.join("team.toml"), team(&project)).unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "Begin"]);

    does(&setup, setup.program, "Build the API", 1, "api/mod.txt");
    does(&setup, codex, "Build the page", 2, "page/index.txt");
    does(&setup, setup.program, "Write the guide", 3, "guide/start.txt");
    let asked = Rule::when("asks you to review its work on task 2\\.[\\s\\S]*Commit: (\\w+)");
    setup
        .model
        .add(asked.calls("WorkDiff", json!({"member": "frontend", "commit": "$1"})).at_gate("the request is known"));

    let begun = machine.type_in(&project, "teamwire up").output().succeeds().stdout;
    assert!(begun.contains(" is up. Next:"), "{begun}");
    let status_of = |id: u64| {
        let shown = machine.run(&["task", "show", &id.to_string(), "--json"]).succeeds().json();
        shown["task"]["status"].as_str().unwrap_or_default().to_owned()
    };
    let is = |id: u64, status: &str| {
        eventually(&format!("task {id} is {status}"), || (status_of(id) == status).then_some(()));
    };
    let request_of = |task: u64| {
        let requests = machine.run(&["requests", "--state", "pending", "--json"]).succeeds().lines();
        let found = requests.iter().find(|request: &&Value| request["task_id"] == task)?;
        Some(found["id"].as_str().unwrap().to_owned())
    };
    let asked = eventually("the page awaits its review", || request_of(2));
    let verdict = json!({"type": "review_response", "request_id": asked, "approve": true});
    setup.model.add(Rule::when("\\+page").calls("SendMessage", verdict));
    setup.model.open("the request is known");
    is(1, "in_review");
    is(2, "completed");
    is(3, "in_review");

    // What the lead sees, and reads.
    let work = machine.type_in(&project, "teamwire work").output().succeeds().stdout;
    for member in ["backend", "frontend", "writer"] {
        let is_ready = |line: &str| line.starts_with(member) && line.contains("merges into main");
        assert!(work.lines().any(is_ready), "{member}: {work}");
    }
    let stat = machine.type_in(&project, "teamwire work diff backend --stat").output().succeeds().stdout;
    assert!(stat.contains("api/mod.txt | 1 +"), "{stat}");

    // One is merged by its approval, the others by the lead.
    machine.type_in(&project, &format!("teamwire approve {} --yes", request_of(3).unwrap())).output().succeeds();
    eventually("the guide is merged", || project.join("guide/start.txt").exists().then_some(()));
    machine.type_in(&project, &format!("teamwire approve {} --yes", request_of(1).unwrap())).output().succeeds();
    is(1, "completed");
    is(3, "completed");
    for (member, file) in [("backend", "api/mod.txt"), ("frontend", "page/index.txt")] {
        let merge = format!("teamwire work merge {member} --check 'test -f {file}'");
        let merged = machine.type_in(&project, &merge).output().succeeds().stdout;
        assert!(merged.contains(&format!("Merged 1 commit of {member} into main")), "{merged}");
    }
    let files = git(&project, &["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        ["README.md", "api/mod.txt", "guide/start.txt", "page/index.txt", "team.toml"]
    );
    assert_eq!(git(&project, &["status", "--porcelain"]), "", "the person's checkout is at main");
    let kept = git(&project, &["for-each-ref", "--format=%(refname)", "refs/teamwire/salvage"]);
    for member in ["backend", "frontend", "writer"] {
        assert!(kept.contains(&format!("refs/teamwire/salvage/{member}/")), "{kept}");
    }

    for _ in 0..3 {
        setup.model.add(approval());
    }
    machine.type_in(&project, "teamwire down --yes").output().succeeds();
    machine.assert_nothing_is_left();
    git(&project, &["fsck", "--strict"]);
    assert_eq!(git(&project, &["branch", "--format=%(refname:short)"]), "main", "all of it is merged");
}
