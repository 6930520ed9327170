//! A member asks for permission at the command line; its approver answers, by command or as a program.

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_script_waits_until_its_request_is_refused_or_granted,
    the_named_approver_answers_and_others_cannot,
    #[cfg(target_os = "linux")]
    a_plan_is_shown_whole_before_it_is_approved_at_a_terminal,
    a_withdrawn_request_ends_the_wait_and_can_no_longer_be_answered,
    last_means_the_newest_request_to_the_caller_and_the_answer_says_what_it_decided,
    a_command_for_one_kind_of_request_answers_no_other,
    a_permission_request_appears_everywhere_that_requests_do,
    a_program_reads_what_is_asked_and_grants_it,
    #[cfg(target_os = "linux")]
    the_command_is_shown_wherever_a_lying_request_can_be_decided,
    a_runner_refuses_an_approver_that_is_not_a_member,
    the_lead_is_asked_until_the_approver_has_joined,
}

store_scenarios! {
    a_request_that_no_one_answers_is_refused_and_both_sides_learn_it,
}

const ASK: [&str; 6] = ["permission", "request", "--tool", "Bash", "--summary", "clean up"];

/// Asks for permission. Returns the request's id.
fn ask(world: &World, who: &str, options: &[&str]) -> String {
    let sent = world.cli(who, &[&ASK[..], options, &["--json"]].concat()).succeeds().json();
    sent["request_id"].as_str().unwrap().to_owned()
}

fn await_request(world: &World, approver: &str, detail: &str) -> String {
    let arrived = world.await_inbox(approver, detail, |message| message["content"] == detail);
    let (kind, tool) = (&arrived["type"], &arrived["tool"]);
    assert_eq!((kind, tool), (&"permission_request".into(), &"Bash".into()), "{arrived}");
    arrived["request_id"].as_str().unwrap().to_owned()
}

fn a_script_waits_until_its_request_is_refused_or_granted(world: World) {
    world.create_team("acme");
    world.join("ann");
    let asking = |detail: &str| world.spawn("ann", &[&ASK[..], &["--wait", "--detail", "-"]].concat(), detail);
    let first = asking("rm -r /");
    let request = await_request(&world, LEAD, "rm -r /");
    world.cli("ann", &["approve", &request]).exits(77).complains_of("NOT_REQUEST_TARGET");
    world.cli(LEAD, &["reject", &request, "--reason", "only the build directory"]).succeeds();
    first.output().exits(3).complains_of("Your permission request was rejected by lead: only the build directory");

    let second = asking("rm -r target");
    let request = await_request(&world, LEAD, "rm -r target");
    world.cli(LEAD, &["permission", "approve", &request]).succeeds();
    let granted = second.output().succeeds();
    assert!(granted.stdout.contains("Your permission request was approved by lead"), "{}", granted.stdout);
    world.cli(LEAD, &["permission", "reject", &request, "-r", "or not"]).exits(1).complains_of("ALREADY_DECIDED");
    assert!(world.take_inbox("ann").is_empty(), "the wait has shown both answers");
    let refused = world.cli(LEAD, &ASK).exits(64);
    refused.complains_of("Another member must approve what you ask for");
}

fn the_named_approver_answers_and_others_cannot(world: World) {
    world.create_team("acme");
    for name in ["ann", "bob", "eve"] {
        world.join(name);
    }
    let request = ask(&world, "ann", &["--approver", "bob"]);
    world.cli("eve", &["approve", &request]).exits(1).complains_of("REQUEST_NOT_FOUND");
    world.cli("eve", &["approve", "last"]).exits(1).complains_of("Nothing waits for your answer.");
    world.cli("ann", &["approve", "last"]).exits(1).complains_of("Nothing waits for your answer.");
    let approved = world.cli("bob", &["approve", "last", "-m", "fine"]).succeeds().stdout;
    assert_eq!(approved, format!("Approved ann's permission request: Bash (described as: clean up) {request}\n"));
    let answer = world.await_inbox("ann", "the answer", |message| message["request_id"] == request.as_str());
    let said = [&answer["type"], &answer["from"], &answer["approve"], &answer["content"]];
    assert_eq!(said, [&"permission_response".into(), &"bob".into(), &Value::Bool(true), &"fine".into()]);
    // The lead asks a teammate, and a person at a terminal is one.
    let request = ask(&world, LEAD, &["--approver", "bob"]);
    world.cli("bob", &["reject", &request, "-r", "no"]).succeeds();
    world.cli(LEAD, &["requests", &request, "--wait"]).exits(3).complains_of("rejected by bob: no");
}

fn a_request_that_no_one_answers_is_refused_and_both_sides_learn_it(world: World) {
    world.create_team("acme");
    world.join("ann");
    let asking = world.cli("ann", &[&ASK[..], &["--deadline", "1", "--wait", "--json"]].concat()).exits(4);
    assert_eq!(asking.json()["state"], "expired");
    let notice = world.await_inbox(LEAD, "the notice", |message| message["notice"]["kind"] == "request_expired");
    assert!(notice["content"].as_str().unwrap().contains("ann was refused permission to use Bash"), "{notice}");
    let said = |entry: &Value| entry["message"]["content"].as_str().is_some_and(|text| text.contains("so it expired"));
    assert!(world.history("ann").iter().any(said), "the asker got its own notice");
}

fn a_withdrawn_request_ends_the_wait_and_can_no_longer_be_answered(world: World) {
    world.create_team("acme");
    world.join("ann");
    let asking = world.spawn("ann", &[&ASK[..], &["--wait"]].concat(), "");
    let request = world.await_inbox(LEAD, "the request", |message| message["tool"] == "Bash")["request_id"].clone();
    let withdrawn = world.cli("ann", &["permission", "withdraw", "last"]).succeeds().stdout;
    assert!(
        withdrawn.starts_with("Your permission request: Bash (described as: clean up) is cancelled (withdrawn) req_"),
        "{withdrawn}"
    );
    asking.output().exits(4).complains_of("cancelled (withdrawn)");
    let late = world.cli(LEAD, &["approve", request.as_str().unwrap()]).exits(1);
    late.complains_of("the member that asked has withdrawn it");
    let plan = world.cli("ann", &["plan", "submit", "a plan", "--json"]).succeeds().json();
    let withdraw = |what: &str| world.cli("ann", &["permission", "withdraw", what]).exits(1);
    withdraw(plan["request_id"].as_str().unwrap()).complains_of("REQUEST_KIND_MISMATCH");
    withdraw("last").complains_of("None of your permission requests is pending.");
}

fn last_means_the_newest_request_to_the_caller_and_the_answer_says_what_it_decided(world: World) {
    world.create_team("acme");
    world.join("ann");
    let nothing_waits = |who: &str| {
        for answer in ["approve", "reject"] {
            world.cli(who, &[answer, "last"]).exits(1).complains_of("Nothing waits for your answer.");
        }
    };
    nothing_waits(LEAD);
    let plan = "\n# Move the files\n\nFirst the tests.";
    let first = world.cli_with_input("ann", &["plan", "submit", "-", "--json"], plan).succeeds().json();
    let second = ask(&world, "ann", &["--detail", "rm -r target"]);
    // The newest request of all is the lead's own, which ann answers.
    world.cli(LEAD, &["shutdown", "ann", "Well done."]).succeeds();
    let rejected = world.cli(LEAD, &["reject", "last", "--reason", "later"]).succeeds().stdout;
    assert_eq!(rejected, format!("Rejected ann's permission request: Bash: rm -r target {second}\n"));
    let approved = world.cli(LEAD, &["approve", "last"]).succeeds().stdout;
    let (first, summary) = (first["request_id"].as_str().unwrap(), "Move the files");
    assert!(approved.starts_with("Approved ann's plan: ") && approved.contains(summary), "{approved}");
    assert!(approved.trim_end().ends_with(first), "{approved}");
    nothing_waits(LEAD);
    let again = world.cli(LEAD, &["approve", first]).succeeds().stdout;
    assert!(again.starts_with("Approved ann's plan, as before: "), "{again}");
    let approved = world.cli("ann", &["approve", "last"]).succeeds().stdout;
    assert!(approved.starts_with("Approved your shutdown request: Well done. req_"), "{approved}");
}

fn a_command_for_one_kind_of_request_answers_no_other(world: World) {
    world.create_team("acme");
    world.join("ann");
    let permission = ask(&world, "ann", &[]);
    let none = world.cli(LEAD, &["plan", "approve", "last"]).exits(1);
    none.complains_of("No plan waits for your answer.");
    let plan = world.cli("ann", &["plan", "submit", "a plan", "--json"]).succeeds().json();
    let plan = plan["request_id"].as_str().unwrap();
    let shutdown = world.cli(LEAD, &["shutdown", "ann", "--json"]).succeeds().json();
    let shutdown = shutdown["request_id"].as_str().unwrap();
    for verb in ["approve", "reject"] {
        let refused = |who: &str, group: &str, id: &str, says: String| {
            let refused = world.cli(who, &[group, verb, id]).exits(1);
            refused.complains_of("REQUEST_KIND_MISMATCH").complains_of(&format!("{says} {id}`."));
        };
        let is = |what: &str, group: &str| format!("This is ann's {what}. To {verb} it: `teamwire {group}{verb}");
        refused(LEAD, "permission", plan, is("plan, not a permission request", "plan "));
        refused(LEAD, "plan", &permission, is("permission request, not a plan", "permission "));
        refused("ann", "permission", shutdown, is("shutdown request, not a permission request", ""));
        refused("ann", "plan", shutdown, is("shutdown request, not a plan", ""));
    }
    let pending = world.cli(LEAD, &["requests", "--state", "pending", "--json"]).succeeds().lines();
    assert_eq!(pending.len(), 3, "nothing is decided: {pending:?}");
    // `last` is the newest one of the kind, although the plan is newer.
    let approved = world.cli(LEAD, &["permission", "approve", "last"]).succeeds().stdout;
    assert!(approved.contains(&permission), "{approved}");
    let rejected = world.cli(LEAD, &["plan", "reject", "last", "-r", "smaller steps"]).succeeds().stdout;
    assert!(rejected.contains(plan), "{rejected}");
}

fn a_permission_request_appears_everywhere_that_requests_do(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (first, second) = (ask(&world, "ann", &["--detail", "rm -r target"]), ask(&world, "ann", &[]));
    let listed = world.cli(LEAD, &["requests", "--state", "pending", "--json"]).succeeds().lines();
    let ids: Vec<_> = listed.iter().map(|request| request["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&*second, &*first]);
    let shown = &listed[1];
    let facts = [&shown["kind"], &shown["member"], &shown["tool"], &shown["summary"], &shown["content"]];
    assert_eq!(facts, ["permission", "ann", "Bash", "clean up", "rm -r target"].map(Value::from).each_ref());
    world.cli("ann", &["plan", "submit", "# Move the files\n\nFirst the tests."]).succeeds();
    world.cli(LEAD, &["shutdown", "ann", "Well done."]).succeeds();
    let table = world.cli(LEAD, &["requests"]).succeeds().stdout;
    let has =
        |kind: &str, says: &str| table.lines().any(|line| line.contains(kind) && line.contains(&format!("  {says}  ")));
    assert!(
        has("  permission  ", "Bash: rm -r target") && has("  permission  ", "Bash (described as: clean up)"),
        "{table}"
    );
    assert!(has("  plan  ", "# Move the files"), "{table}");
    assert!(has("  shutdown  ", "Well done."), "{table}");
    assert_eq!(world.member("ann")["pending_permissions"], serde_json::json!([first, second]));
    assert!(world.cli(LEAD, &["status"]).succeeds().stdout.contains("waits for 2 permissions"));
    let inbox = world.cli(LEAD, &["inbox"]).succeeds().stdout;
    assert!(inbox.contains("Bash (described as: clean up)") && inbox.contains("Bash: rm -r target ("), "{inbox}");

    let doctor = |who| world.cli(who, &["doctor", "--patience", "0", "--json"]).lines();
    let finding = |who| {
        let found = doctor(who).into_iter().find(|finding| finding["class"] == "permission_unanswered");
        found.unwrap_or_else(|| panic!("nothing for {who}"))["next"].as_str().unwrap().to_owned()
    };
    eventually("the doctor sees it", || {
        doctor(LEAD).iter().any(|it| it["class"] == "permission_unanswered").then_some(())
    });
    assert!(finding(LEAD).contains("teamwire approve"), "{}", finding(LEAD));
    assert!(finding("ann").contains("Only the lead can decide it"), "{}", finding("ann"));

    world.cli(LEAD, &["approve", &first]).succeeds();
    let shown = world.cli(LEAD, &["message", "show", listed[1]["message_id"].as_str().unwrap()]).succeeds().stdout;
    assert!(shown.contains("permission request") && shown.contains("Bash: rm -r target"), "{shown}");
    assert!(world.cli(LEAD, &["history"]).succeeds().stdout.contains("permission of ann approved by lead"));
    world.cli("ann", &["leave"]).succeeds();
    let cancelled = world.cli(LEAD, &["requests", &second, "--json"]).succeeds().json();
    assert_eq!((&cancelled["state"], &cancelled["cancel_cause"]), (&"cancelled".into(), &"target_exited".into()));
}

#[cfg(target_os = "linux")]
fn the_command_is_shown_wherever_a_lying_request_can_be_decided(world: World) {
    world.create_team("acme");
    world.join("ann");
    let command =
        format!("make clean{} # {}\nrm -rf target && git push --force", " ".repeat(300), "clean ".repeat(100));
    let id = ask(&world, "ann", &["--detail", &command]);
    let last = "rm -rf target && git push --force";
    let shows = |shown: &str| {
        let (command, lie) = (shown.find(last), shown.find("clean up"));
        assert!(command.is_some() && lie.is_none_or(|lie| command < Some(lie)), "{shown}");
    };
    for look in [&["requests"][..], &["requests", "last"], &["inbox"], &["history"], &["doctor", "--patience", "0"]] {
        shows(&world.cli(LEAD, look).stdout);
    }
    // At a terminal, the command asks; its answer decides.
    let at_a_terminal = |answer: &str| {
        let typed = format!("printf '{answer}\\n' | script --quiet --return --command \"'$0' approve {id}\" /dev/null");
        world.spawn_shell(LEAD, &typed).output()
    };
    let asked = at_a_terminal("n");
    shows(&asked.stdout);
    assert!(asked.stdout.contains("[301 spaces]"), "{}", asked.stdout);
    let question = asked.stdout.lines().find(|line| line.contains("[y/N]")).unwrap_or_default();
    assert!(question.starts_with("Approve Bash: make clean # ") && question.contains(last), "{question}");
    let state = || world.cli(LEAD, &["requests", &id, "--json"]).succeeds().json()["state"].clone();
    assert_eq!(state(), "pending");
    shows(&at_a_terminal("y").stdout);
    assert_eq!(state(), "approved");
    // Without one, the answer still shows what was decided.
    ask(&world, "ann", &["--detail", &command]);
    let approved = world.cli(LEAD, &["approve", "last"]).succeeds();
    shows(&approved.stdout);
    shows(&approved.stderr);
}

#[cfg(target_os = "linux")]
fn a_plan_is_shown_whole_before_it_is_approved_at_a_terminal(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli_with_input("ann", &["plan", "submit", "-"], "# Move the files\n\nThen delete the backups.").succeeds();
    let at_a_terminal = |answer: &str| {
        let typed = format!("printf '{answer}\\n' | script --quiet --return --command \"'$0' approve last\" /dev/null");
        world.spawn_shell(LEAD, &typed).output()
    };
    let asked = at_a_terminal("n");
    assert!(asked.stdout.contains("    Then delete the backups."), "{}", asked.stdout);
    assert!(asked.stdout.contains("Approve the plan of ann? [y/N]"), "{}", asked.stdout);
    assert!(at_a_terminal("y").stdout.contains("Approved ann's plan"));
}

fn a_program_reads_what_is_asked_and_grants_it(world: World) {
    world.create_team("acme");
    world.join("ann");
    let guard = world.run("guard", &[], agents::GRANTING).ready();
    let asking = world.spawn("ann", &[&ASK[..], &["--approver", "guard", "--detail", "rm <x>", "--wait"]].concat(), "");
    let heard = guard.await_heard("the request", |line| line["type"] == "permission_request");
    let text = heard["text"].as_str().unwrap();
    let ends = "What the tool would do:\n    rm &lt;x&gt;\nann describes it as: clean up</teammate-message>";
    assert!(text.contains("teamwire approve") && text.ends_with(ends), "{text}");
    asking.output().succeeds();
    world.cli(LEAD, &["shutdown", "guard", "--wait"]).succeeds();
    assert_eq!(guard.exit(), 0);
}

fn a_runner_refuses_an_approver_that_is_not_a_member(world: World) {
    world.create_team("acme");
    world.join("guard");
    let run = |approver: &str| world.cli(LEAD, &["run", "backend", "--approver", approver, "--", "true"]);
    run("guards").exits(64).complains_of("There is no member \"guards\" in team acme. Did you mean \"guard\"?");
    run("anyone").exits(64).complains_of("Its members are: lead, guard.");
    run("guard@else").exits(64).complains_of("name a member of your own team");
    assert_eq!(world.member("backend"), Value::Null, "it has not joined");
    for approver in ["GUARD", "team-lead", "lead@acme"] {
        run(approver).succeeds();
    }
}

fn the_lead_is_asked_until_the_approver_has_joined(world: World) {
    world.create_team("acme");
    let join_string = world.invite("backend");
    let options = ["--join", &join_string, "--via", "acp", "--approver", "guard"];
    let backend = world.run_program("backend", &options, agents::ACP).ready();
    backend.await_log("warning: --approver names no member yet. There is no member \"guard\" in team acme.");
    let asked = |who: &str| {
        world.cli(LEAD, &["send", "backend", "Use Bash."]).succeeds();
        let request = world.await_inbox(who, "the request", |message| message["type"] == "permission_request");
        world.cli(who, &["approve", request["request_id"].as_str().unwrap()]).succeeds();
        eventually("the message is processed", || (world.member("backend")["inbox_depth"].is_null()).then_some(()));
    };
    asked(LEAD);
    world.join("guard");
    asked("guard");
}
