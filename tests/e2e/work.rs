//! The members' work in a git repository: seen, reviewed, merged, and never lost.
//!
//! The members are programs that run the shell commands that a test sends them, each in its worktree of one repository.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::{
    agents,
    readme::block_with,
    world::{FreshMachine, Output, Repository, StartedCommand, TEAMWIRE, World, eventually, is_alive, kill_process},
};

/// A machine with a repository, and a team of which each member has a worktree of it.
struct Shop {
    machine: FreshMachine,
    /// Where the person works.
    app: Repository,
}

impl Shop {
    /// Starts a team on a new machine.
    fn open(members: &[&str]) -> Self {
        Self::open_on(FreshMachine::new(), members, |_| {})
    }

    /// Starts a team on a machine. `prepare`: what is done in the repository before.
    fn open_on(machine: FreshMachine, members: &[&str], prepare: impl FnOnce(&Repository)) -> Self {
        let app = Repository::make(&machine.path().join("app"));
        prepare(&app);
        fs::create_dir_all(machine.path().join("heard")).unwrap();
        let mut file = "name = \"acme\"\n".to_owned();
        for member in members {
            file += &format!("[[members]]\nname = \"{member}\"\nprofile = \"agent\"\n");
        }
        file += &format!(
            "[hosts.local.profiles.agent]\ncommand = {}\nworktree = \"~/app\"\ndir = \"~/work\"\n\
             env = {{ TW = \"{TEAMWIRE}\", HEARD = \"{}\" }}\n",
            json!(agents::SHELL),
            machine.path().join("heard").display()
        );
        fs::write(machine.path().join("team.toml"), file).unwrap();
        machine.run(&["up"]).succeeds();
        Self { machine, app }
    }

    /// Returns the worktree of a member.
    fn worktree(&self, member: &str) -> Repository {
        Repository::at(&self.machine.path().join("work").join(member))
    }

    /// Runs a command of the person's in the repository.
    fn run(&self, arguments: &[&str]) -> Output {
        self.machine.run_command(self.command(), arguments)
    }

    /// Runs a command of `teamwire work` in the repository.
    fn work(&self, arguments: &[&str]) -> Output {
        self.run(&[&["work"], arguments].concat())
    }

    /// Starts a command of the person's in the repository.
    fn start(&self, arguments: &[&str]) -> StartedCommand {
        World::start_command(self.command(), self.machine.path().parent().unwrap(), "a person", arguments, "")
    }

    fn command(&self) -> Command {
        let mut command = self.machine.command();
        command.current_dir(self.app.path());
        command
    }

    /// Lets a member run shell commands, and waits for it. Returns the exit code and the output.
    #[track_caller]
    fn tries(&self, member: &str, script: &str) -> (i32, String) {
        let command = format!("$ {script}");
        let sent = self.machine.run(&["send", member, &command, "-s", "do it", "--wait-reply", "60", "--json"]);
        let answer = sent.succeeds().json()["reply"]["content"].as_str().unwrap().to_owned();
        let (code, said) = answer.split_once('\n').unwrap();
        (code.strip_prefix("exit ").unwrap().parse().unwrap(), said.to_owned())
    }

    /// Lets a member run shell commands that succeed. Returns the output.
    #[track_caller]
    fn does(&self, member: &str, script: &str) -> String {
        let (code, said) = self.tries(member, &format!("set -e\n{script}"));
        assert_eq!(code, 0, "{member}: {script}: {said}");
        said
    }

    /// Lets a member run shell commands, without waiting.
    fn begins(&self, member: &str, script: &str) {
        self.machine.run(&["send", member, &format!("$ {script}"), "-s", "do it"]).succeeds();
    }

    /// Lets a member write a file and commit it.
    fn commits(&self, member: &str, file: &str, text: &str) {
        self.does(
            member,
            &format!("printf '{text}' > {file}\ngit add --all\ngit commit --quiet --message 'Write {file}'"),
        );
    }

    /// Merges a member's work.
    fn merges(&self, member: &str) {
        self.work(&["merge", member]).succeeds();
    }

    /// Returns what a member's program has read.
    fn heard(&self, member: &str) -> Vec<Value> {
        let heard = fs::read_to_string(self.machine.path().join("heard").join(member)).unwrap_or_default();
        heard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the notices of a kind that a member's program has read.
    fn notices_to(&self, member: &str, kind: &str) -> Vec<Value> {
        self.heard(member).into_iter().filter(|line| line["notice"]["kind"] == kind).collect()
    }

    /// Returns the notices of a kind in the lead's inbox.
    fn notices(&self, kind: &str) -> Vec<Value> {
        let inbox = self.machine.run(&["inbox", "--json"]).succeeds().lines();
        let messages = inbox.into_iter().map(|delivery| delivery["message"].clone());
        messages.filter(|message| message["notice"]["kind"] == kind).collect()
    }

    /// Returns what is kept of a member's work, the newest first.
    fn kept(&self, member: &str) -> Vec<Value> {
        self.work(&["restore", "--member", member, "--json"]).succeeds().lines()
    }

    /// Waits until a state with a file is kept of a member's work. Returns its ref.
    #[track_caller]
    fn await_kept(&self, member: &str, file: &str) -> String {
        eventually(&format!("{file} of {member} is kept"), || {
            let kept = self.kept(member).into_iter().map(|kept| kept["ref"].as_str().unwrap().to_owned());
            kept.into_iter().find(|kept| self.app.has(kept, file))
        })
    }

    /// Returns the work of a member, in numbers.
    #[track_caller]
    fn summary(&self, member: &str) -> Value {
        let shown = self.work(&[member, "--json"]).succeeds().json();
        assert!(shown["work"].is_object(), "{shown}");
        shown["work"].clone()
    }

    /// Returns the process of a member's runner.
    #[track_caller]
    fn runner(&self, member: &str) -> u32 {
        let orders = self.machine.state().join("hosts/acme/orders");
        eventually("the runner's process is recorded", || {
            fs::read_dir(&orders).unwrap().flatten().find_map(|entry| {
                let record: Value = serde_json::from_slice(&fs::read(entry.path().join("order.json")).ok()?).ok()?;
                let pid = u32::try_from(record["phase"]["started"]["id"].as_u64()?).ok()?;
                (record["member"] == member && is_alive(pid)).then_some(pid)
            })
        })
    }

    /// Returns everything of the person's that a merge must not change.
    fn belongings(&self) -> Vec<String> {
        let git = |arguments: &[&str]| self.app.git(arguments);
        let hooks = fs::read_dir(self.app.file(".git/hooks")).unwrap().flatten();
        let mut hooks: Vec<String> = hooks.map(|hook| hook.file_name().into_string().unwrap()).collect();
        hooks.sort();
        vec![
            git(&["stash", "list"]),
            git(&["stash", "show", "--patch", "stash@{0}"]),
            git(&["for-each-ref", "refs/heads/mine", "refs/tags", "--format=%(refname) %(objectname)"]),
            git(&["config", "--local", "--list"]),
            hooks.join(" "),
            git(&["status", "--porcelain", "--ignored"]),
            git(&["branch", "--show-current"]),
        ]
    }

    /// Asserts that the repository is whole, and that nothing of the merges is left.
    fn assert_whole(&self) {
        let (is_whole, said) = self.app.try_git(&["fsck", "--strict", "--no-dangling"]);
        assert!(is_whole && !said.contains("error"), "{said}");
        assert_eq!(self.app.git(&["worktree", "prune", "--dry-run"]), "");
        assert_eq!(self.app.git(&["status", "--porcelain"]), "");
    }

    /// Ends the team.
    fn close(self) -> String {
        let said = self.machine.run(&["down"]).succeeds().stdout;
        self.machine.assert_nothing_is_left();
        said
    }
}

/// Every hook of git's that a merge could run.
const HOOKS: [&str; 9] = [
    "pre-commit",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "pre-merge-commit",
    "post-merge",
    "post-index-change",
    "post-rewrite",
    "reference-transaction",
];

#[test]
fn three_members_work_reaches_main_and_nothing_of_the_persons_changes() {
    let shop = Shop::open(&["ann", "bob", "eve"]);
    let app = &shop.app;
    app.git(&["branch", "mine"]);
    app.git(&["tag", "v1"]);
    app.write("README", "half a thought\n");
    app.git(&["stash"]);
    app.git(&["config", "alias.last", "log -1"]);
    fs::write(app.file(".git/info/exclude"), "secrets\n").unwrap();
    app.write("secrets", "hunter2");

    for (id, member) in [(1, "ann"), (2, "bob"), (3, "eve")] {
        let subject = format!("Write {member}.txt");
        let mut create = vec!["task", "create", &subject, "--owner", member, "--review", "team-lead"];
        create.extend((member == "ann").then_some("--merge-on-approval"));
        shop.run(&create).succeeds();
        shop.does(
            member,
            &format!(
                "teamwire task claim {id}\nprintf 'one\\ntwo\\n' > {member}.txt\ngit add --all\n\
                 git commit --quiet --message 'Write {member}.txt'\nteamwire task complete {id} --result 'It is written.'"
            ),
        );
    }
    for hook in HOOKS {
        let file = app.file(".git/hooks").join(hook);
        fs::write(&file, format!("#!/bin/sh\necho {hook} >> '{}'\n", shop.machine.path().join("ran").display()))
            .unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let before = shop.belongings();

    // Seen.
    let table = shop.work(&[]).succeeds().stdout;
    for member in ["ann", "bob", "eve"] {
        let row = table.lines().find(|line| line.starts_with(member)).expect(&table);
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            words[1..],
            [&format!("teamwire/{member}"), "1", "0", "1", "+2", "-0", "0", "merges", "into", "main"]
        );
    }
    let lines = shop.work(&["--json"]).succeeds().lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let work = &lines[0]["work"];
    assert_eq!(
        (&lines[0]["member"], &work["forecast"], &work["paths"]),
        (&"ann".into(), &"clean".into(), &json!(["ann.txt"]))
    );
    assert_eq!((&work["base_branch"], &work["ahead"], &work["insertions"]), (&"main".into(), &1.into(), &2.into()));
    assert_eq!(work["head"], app.id("teamwire/ann"));
    let one = shop.work(&["bob"]).succeeds().stdout;
    assert!(one.contains("1 commit on teamwire/bob, 1 file +2 -0, merges into main without conflicts"), "{one}");
    let stat = shop.work(&["diff", "ann", "--stat"]).succeeds().stdout;
    assert!(stat.contains("ann.txt | 2 ++") && stat.contains("create mode 100644 ann.txt"), "{stat}");
    let diff = shop.work(&["diff", "ann"]).succeeds().stdout;
    assert!(
        diff.starts_with("diff --git a/ann.txt b/ann.txt\nnew file mode 100644\n") && diff.ends_with("+one\n+two\n"),
        "{diff}"
    );
    let log = shop.work(&["log", "eve"]).succeeds().stdout;
    assert!(log.ends_with("Ada: Write eve.txt\n") && log.lines().count() == 1, "{log}");

    // Reviewed. One is merged by its approval.
    let reviews = shop.run(&["requests", "--state", "pending", "--json"]).succeeds().lines();
    assert_eq!(reviews.len(), 3, "{reviews:?}");
    assert!(!app.has("main", "ann.txt"));
    for review in &reviews {
        shop.run(&["approve", review["id"].as_str().unwrap()]).succeeds();
    }
    eventually("the approved work is merged", || app.has("main", "ann.txt").then_some(()));
    eventually("the lead learns it", || {
        let told = shop.notices("merge");
        told.iter()
            .any(|told| told.to_string().contains("The approved work of ann on task 1 is merged into main"))
            .then_some(())
    });
    assert_eq!(app.git(&["diff", "--name-only", "mine", "main"]), "ann.txt", "only what has the key merge_on_approval");

    // Merged.
    let merged = shop.work(&["merge", "bob", "--check", "test -f ann.txt && test -f bob.txt"]).succeeds();
    assert!(merged.stdout.starts_with("Merged 1 commit of bob into main, at "), "{}", merged.stdout);
    let failed = shop.work(&["merge", "eve", "--check", "echo no such file; test -f zoe.txt"]).exits(1);
    let failed =
        failed.complains_of("The check of the merged files failed: it ended with code 1. It printed:\nno such file");
    assert!(!app.has("main", "eve.txt"), "{}", failed.stderr);
    let merged = shop.work(&["merge", "eve", "--check", "test -f eve.txt", "--json"]).succeeds().json();
    assert_eq!((&merged["into"], &merged["commit"]), (&"main".into(), &app.id("main").into()));
    assert_eq!(app.git(&["ls-tree", "--name-only", "main"]), "README\nann.txt\nbob.txt\neve.txt");
    assert_eq!(app.read("eve.txt"), "one\ntwo\n", "the checkout is brought along");
    let again = shop.work(&["merge", "eve"]).succeeds().stdout;
    assert_eq!(again, "main has all commits of eve already.\n");
    let tasks = shop.run(&["task", "list", "--json"]).succeeds().lines();
    assert!(tasks.iter().all(|task| task["status"] == "completed"), "{tasks:?}");

    assert_eq!(shop.belongings(), before);
    assert_eq!(app.git(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(shop.machine.path().join("ran")).unwrap_or_default(), "", "no hook runs");
    shop.assert_whole();
    let app = app.clone();
    let members = shop.machine.path().join("work");
    let machine = shop.machine.path().to_owned();
    let said = shop.machine.run(&["down"]).succeeds().stdout;
    assert!(!said.contains("stays"), "{said}");
    assert!(fs::read_dir(members).map_or(0, Iterator::count) == 0, "git holds everything, so the worktrees are gone");
    assert_eq!(app.git(&["branch", "--list", "teamwire/*"]), "");
    assert_eq!(app.git(&["ls-tree", "--name-only", "main"]), "README\nann.txt\nbob.txt\neve.txt");
    assert!(!machine.join("ran").exists(), "no hook runs");
    shop.machine.assert_nothing_is_left();
}

#[test]
fn an_agents_work_is_reviewed_and_merged_as_the_readme_prints() {
    let shop = Shop::open(&["backend"]);
    shop.run(&["task", "create", "Write the API", "--review", "team-lead"]).succeeds();
    shop.does("backend", "teamwire task claim 1");
    shop.commits("backend", "api.txt", "the API\\n");
    shop.does("backend", "teamwire task complete 1");
    for command in block_with("work merge") {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        if arguments == ["approve"] {
            let mut terminal = shop.machine.at_terminal(shop.app.path(), &arguments);
            let shown = terminal.shows("[q]uit: ");
            assert!(shown.contains("backend asks for a review"), "{shown}");
            terminal.presses("a");
            terminal.shows("Nothing else waits for your answer.");
            assert_eq!(terminal.ends().0, Some(0));
            continue;
        }
        let shown = shop.run(&arguments).succeeds().stdout;
        let expected = match arguments[1..] {
            ["diff", ..] => "+the API",
            ["merge", ..] => "Merged 1 commit of backend into main",
            _ => "merges into main",
        };
        assert!(shown.contains(expected), "{command}: {shown}");
    }
    assert_eq!(shop.app.read("api.txt"), "the API\n");
    shop.close();
}

#[test]
fn a_conflict_goes_to_the_member_that_has_to_resolve_it() {
    let shop = Shop::open(&["ann", "bob"]);
    let app = &shop.app;
    shop.commits("ann", "README", "the shop of ann\\n");
    shop.commits("bob", "README", "the shop of bob\\n");
    shop.merges("ann");
    let before = (app.id("main"), app.git(&["status", "--porcelain"]));
    let table = shop.work(&["bob"]).succeeds().stdout;
    assert!(table.contains("conflicts with main in README"), "{table}");
    let against = shop.work(&["bob", "--against", "ann"]).succeeds().stdout;
    assert!(against.contains("conflict in README"), "{against}");
    let refused = shop.work(&["merge", "bob"]).exits(3);
    refused.complains_of("The work of bob conflicts with main in README. bob got a message with the paths.");
    assert_eq!((app.id("main"), app.git(&["status", "--porcelain"])), before);
    assert_eq!(app.read("README"), "the shop of ann\n");
    let told = |member: &str| {
        let heard = shop.heard(member).into_iter();
        heard
            .filter(|line| line["content"].as_str().unwrap_or_default().starts_with("Your work conflicts"))
            .collect::<Vec<_>>()
    };
    let message = eventually("bob gets a message", || told("bob").pop());
    let text = message["content"].as_str().unwrap();
    assert!(
        text.contains("conflicts with main") && text.contains("in README.") && text.contains("`git merge main`"),
        "{text}"
    );
    assert!(told("ann").is_empty());

    shop.does("bob", "git merge --quiet main || true\nprintf 'the shop of ann and bob\\n' > README\ngit commit --quiet --all --no-edit");
    shop.merges("bob");
    assert_eq!(app.read("README"), "the shop of ann and bob\n");
    shop.assert_whole();
    shop.close();
}

#[test]
fn a_checkout_with_changes_is_never_merged_into() {
    let shop = Shop::open(&["ann"]);
    let app = &shop.app;
    shop.commits("ann", "README", "the shop of ann\\n");
    let main = app.id("main");
    app.write("README", "half a thought\n");
    let refused = shop.work(&["merge", "ann"]).exits(1);
    refused.complains_of("it has changes that are not committed: README. Commit or stash them, and merge again.");
    assert_eq!((app.id("main"), app.read("README")), (main.clone(), "half a thought\n".to_owned()));
    // A new file in the way, even an ignored one.
    app.git(&["checkout", "--quiet", "README"]);
    shop.commits("ann", "notes", "of ann\\n");
    fs::write(app.file(".git/info/exclude"), "notes\n").unwrap();
    app.write("notes", "mine\n");
    shop.work(&["merge", "ann"]).exits(1).complains_of("notes is in the way. Move it away, and merge again.");
    assert_eq!((app.id("main"), app.read("notes")), (main, "mine\n".to_owned()));
    // Elsewhere the branch is free.
    fs::remove_file(app.file("notes")).unwrap();
    app.git(&["checkout", "--quiet", "-b", "mine"]);
    app.write("README", "half a thought\n");
    shop.work(&["merge", "ann", "--into", "main"]).succeeds();
    assert_eq!(app.read("README"), "half a thought\n");
    assert!(app.has("main", "notes"));
    assert_eq!(app.git(&["branch", "--show-current"]), "mine");
}

#[test]
fn what_the_person_commits_or_edits_during_a_check_is_kept() {
    let shop = Shop::open(&["ann"]);
    let app = &shop.app;
    shop.commits("ann", "ann.txt", "ann\\n");
    // The check says when it runs, and waits for its turn.
    let check = "echo $$ >> \"$HOME/checking\"; cat \"$HOME/gate\"; test -f ann.txt";
    let gate = shop.machine.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let checks = || fs::read_to_string(shop.machine.path().join("checking")).unwrap_or_default().lines().count();
    let await_check = |number: usize| eventually("the check runs", || (checks() == number).then_some(()));

    let merging = shop.start(&["work", "merge", "ann", "--check", check]);
    await_check(1);
    app.write("mine.txt", "mine\n");
    let mine = app.commit_all("Mine");
    fs::write(&gate, "").unwrap();
    await_check(2);
    fs::write(&gate, "").unwrap();
    merging.output().succeeds();
    assert_eq!((app.read("mine.txt"), app.read("ann.txt")), ("mine\n".to_owned(), "ann\n".to_owned()));
    assert!(app.try_git(&["merge-base", "--is-ancestor", &mine, "main"]).0, "it began again with the person's commit");
    shop.assert_whole();

    shop.commits("ann", "README", "the shop of ann\\n");
    let merging = shop.start(&["work", "merge", "ann", "--check", check]);
    await_check(3);
    app.write("README", "half a thought\n");
    let main = app.id("main");
    fs::write(&gate, "").unwrap();
    merging.output().exits(1).complains_of("Commit or stash them, and merge again.");
    assert_eq!((app.read("README"), app.id("main")), ("half a thought\n".to_owned(), main));
    app.git(&["checkout", "--quiet", "README"]);

    // Someone who commits every time keeps it from happening, and loses nothing either.
    let merging = shop.start(&["work", "merge", "ann", "--check", check]);
    for number in 4..7 {
        await_check(number);
        app.write("mine.txt", &format!("mine {number}\n"));
        app.commit_all("Mine");
        fs::write(&gate, "").unwrap();
    }
    merging.output().exits(1).complains_of("Others keep committing to the branch. Try again.");
    assert_eq!((app.read("mine.txt"), app.read("README")), ("mine 6\n".to_owned(), "app\n".to_owned()));
    shop.assert_whole();
}

#[test]
fn work_in_progress_survives_a_killed_runner_and_a_killed_host() {
    let shop = Shop::open(&["ann", "bob"]);
    let app = &shop.app;
    let gate = shop.machine.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let begin = "printf 'edited\\n' > README; mkdir src; printf 'new\\n' > src/new; git add src; printf 'newer\\n' > src/new; \
                 printf 'x' > untracked; touch begun; cat ~/gate";
    let in_work = |member: &str, file: &str| {
        let worktree = shop.worktree(member);
        eventually("it is in the middle of its work", || worktree.file(file).exists().then_some(()));
        worktree
    };
    let assert_there = |member: &str| {
        let worktree = shop.worktree(member);
        assert_eq!(
            [worktree.read("README"), worktree.read("src/new"), worktree.read("untracked")],
            ["edited\n", "newer\n", "x"]
        );
    };

    // The runner.
    shop.begins("ann", begin);
    in_work("ann", "begun");
    kill_process(shop.runner("ann"));
    eventually("ann counts as exited", || (shop.machine.member("ann")["state"] == "exited").then_some(()));
    assert_there("ann");
    let left = shop.work(&["ann"]).succeeds().stdout;
    assert!(left.contains("4 files not committed"), "what it has left is shown: {left}");
    assert!(shop.work(&["diff", "ann"]).succeeds().stdout.contains("+edited"));
    shop.machine.run(&["up"]).succeeds();
    assert_there("ann");
    // It goes on: the command, which was not acknowledged, comes again.
    fs::remove_file(shop.worktree("ann").file("begun")).unwrap();

    // The host.
    shop.begins("bob", begin);
    in_work("bob", "begun");
    let runner = shop.runner("bob");
    kill_process(shop.machine.host());
    kill_process(runner);
    shop.machine.run(&["up"]).succeeds();
    assert_there("bob");

    // Kept at the end, and said so.
    let said = shop.machine.run(&["down", "--force"]).succeeds().stdout;
    for member in ["ann", "bob"] {
        assert_there(member);
        let stays = format!(
            "The worktree of {member} stays in {}, on branch teamwire/{member}",
            shop.worktree(member).path().display()
        );
        assert!(said.contains(&stays), "{said}");
        // And kept, should someone remove it.
        let kept = shop.await_kept(member, "untracked");
        assert_eq!(app.git(&["show", &format!("{kept}:src/new")]), "newer");
    }
    app.git(&["worktree", "remove", "--force", &shop.worktree("ann").path().display().to_string()]);
    let kept = shop.await_kept("ann", "untracked");
    let restored = shop.work(&["restore", &kept, "--to", "../again", "--json"]).succeeds().json();
    assert_eq!(restored["ref"], kept.as_str());
    let again = Repository::at(&shop.machine.path().join("again"));
    assert_eq!([again.read("README"), again.read("src/new"), again.read("untracked")], ["edited\n", "newer\n", "x"]);
    assert_eq!(again.id("HEAD"), app.id("main"), "what was not committed is not committed");
    // Without a coordinator, too.
    shop.work(&["drop", "bob", "--yes"]).succeeds();
    assert!(!shop.worktree("bob").path().exists());
    assert_eq!(app.git(&["show", &format!("{}:src/new", shop.await_kept("bob", "untracked"))]), "newer");
    shop.assert_whole();
}

#[test]
fn a_clean_end_of_a_member_keeps_every_state_of_its_turns() {
    let shop = Shop::open(&["ann"]);
    shop.does("ann", "printf 'first\\n' > draft");
    let first = shop.await_kept("ann", "draft");
    shop.does("ann", "rm draft; printf 'second\\n' > other");
    let second = shop.await_kept("ann", "other");
    assert!(shop.app.has(&first, "draft") && !shop.app.has(&second, "draft"));
    let count = shop.kept("ann").len();
    shop.does("ann", "true");
    shop.does("ann", "git status");
    shop.machine.run(&["shutdown", "ann", "--wait"]).succeeds();
    assert_eq!(shop.kept("ann").len(), count, "nothing is kept twice");
    assert_eq!(shop.worktree("ann").read("other"), "second\n");
    let listed = shop.work(&["restore"]).succeeds().stdout;
    assert!(listed.contains(first.strip_prefix("refs/teamwire/salvage/").unwrap()), "{listed}");
}

#[test]
fn dropped_work_comes_back_byte_for_byte_until_it_is_purged() {
    let shop = Shop::open(&["ann"]);
    let app = &shop.app;
    shop.commits("ann", "ann.txt", "ann\\n");
    shop.does(
        "ann",
        "printf '\\000\\377\\r\\nbinary' > 'sp ace'; printf '#!/bin/sh\\n' > tool; chmod +x tool; ln -s tool link\n\
         printf 'staged\\n' > staged; git add staged; printf 'not staged\\n' >> ann.txt; rm README",
    );
    shop.work(&["drop", "ann", "--yes"]).exits(1).complains_of("ann still works in its worktree.");
    shop.machine.run(&["shutdown", "ann", "--wait"]).succeeds();
    shop.work(&["drop", "ann"]).exits(64).complains_of("--yes");
    let worktree = shop.worktree("ann");
    let head = worktree.id("HEAD");
    let dropped = shop.work(&["drop", "ann", "--yes", "--json"]).succeeds().json();
    assert!(!worktree.path().exists() && !app.try_git(&["rev-parse", "--verify", "teamwire/ann"]).0);
    let kept = dropped["ref"].as_str().unwrap();
    let restored = shop.work(&["restore", kept, "--json"]).succeeds().json();
    let again = Repository::at(&PathBuf::from(restored["directory"].as_str().unwrap()));
    assert_eq!(fs::read(again.file("sp ace")).unwrap(), b"\0\xff\r\nbinary");
    assert_eq!(fs::read_link(again.file("link")).unwrap(), PathBuf::from("tool"));
    assert_eq!([again.read("staged"), again.read("ann.txt")], ["staged\n", "ann\nnot staged\n"]);
    assert!(is_executable(&again.file("tool")) && !again.file("README").exists());
    assert_eq!(again.id("HEAD"), head);
    assert_eq!(again.git(&["branch", "--show-current"]), restored["branch"].as_str().unwrap());
    shop.work(&["drop", "ann", "--yes"]).exits(1).complains_of("ann has left no branch in this repository.");

    shop.work(&["purge", "ann"]).exits(64).complains_of("--yes");
    let count = shop.kept("ann").len();
    let purged = shop.work(&["purge", "ann", "--yes", "--json"]).succeeds().json();
    assert_eq!(purged["deleted"], count);
    assert_eq!(app.git(&["for-each-ref", "refs/teamwire/salvage"]), "");
    shop.work(&["restore", kept, "--to", "../no"]).exits(1);
    assert_eq!(again.read("staged"), "staged\n", "what was brought back stays");
    shop.assert_whole();
}

fn is_executable(file: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).unwrap().permissions().mode() & 0o111 != 0
}

/// A notice names every file of the two, so the last one shows which files are in none.
#[test]
fn two_members_that_change_one_file_learn_it_once_and_so_does_the_lead() {
    let shop = Shop::open_on(FreshMachine::new(), &["ann", "bob"], |app| {
        app.write(".gitattributes", "*.gen linguist-generated\n");
        app.write("Cargo.lock", "1\n");
        app.write("api.gen", "1\n");
        app.commit_all("Second");
    });
    shop.run(&["task", "create", "Open the shop", "--owner", "ann"]).succeeds();
    shop.does("ann", "teamwire task claim 1");
    // What ann has merged is no one's change any more, even where bob's worktree gets it by a merge.
    shop.commits("ann", "merged.txt", "ann\\n");
    shop.merges("ann");
    shop.commits("bob", "bob.txt", "bob\\n");
    shop.does("bob", "git merge --quiet --no-commit main");
    shop.await_kept("bob", "merged.txt");
    shop.does("bob", "git commit --quiet --no-edit; echo bob > README");
    // What programs write.
    for member in ["ann", "bob"] {
        shop.does(member, &format!("echo {member} > Cargo.lock; echo {member} > api.gen"));
    }
    shop.does("ann", "echo ann > README");
    let texts = |told: Vec<Value>| -> Vec<String> {
        told.iter().map(|told| told["content"].as_str().unwrap().to_owned()).collect()
    };
    let to_member = |member: &str| texts(shop.notices_to(member, "same_files"));
    let to_lead = || texts(shop.notices("same_files"));
    let of = |file: &str, told: Vec<String>| told.iter().any(|text| text.contains(file)).then_some(told);
    let [to_ann, to_bob] = ["ann", "bob"].map(|member| eventually("a notice", || of("README", to_member(member))));
    assert!(to_ann[0].starts_with("You and bob have both changed \"README\", and neither"), "{to_ann:?}");
    assert!(
        to_bob[0].starts_with("You and ann (task 1: Open the shop) have both changed \"README\", and neither"),
        "{to_bob:?}"
    );
    let told = eventually("a notice", || of("README", to_lead()));
    let pair = told[0].split(" have both changed \"README\", and neither").next().unwrap();
    assert!(["ann (task 1: Open the shop) and bob", "bob and ann (task 1: Open the shop)"].contains(&pair), "{told:?}");
    assert_eq!((to_ann.len(), to_bob.len(), told.len()), (1, 1, 1));

    // With the notice, ann's runner has reported that merged.txt is merged. Further changes of README are nothing new.
    shop.commits("bob", "merged.txt", "ann and bob\\n");
    shop.does("ann", "echo ann again > README");
    shop.does("bob", "echo bob again > README; echo bob > last.txt");
    shop.does("ann", "echo ann > last.txt");
    for member in ["ann", "bob"] {
        let told =
            eventually("the last notice", || of("have both changed \"README\", \"last.txt\", and", to_member(member)));
        assert_eq!(told.len(), 2, "{told:?}");
    }
    let told = eventually("the last notice", || of("have both changed \"README\", \"last.txt\", and", to_lead()));
    assert_eq!(told.len(), 1, "it replaces the one that the lead has not acknowledged: {told:?}");
    shop.machine.run(&["down", "--force"]).succeeds();
}

#[test]
fn exclusive_paths_keep_another_member_away_until_the_task_is_done() {
    let shop = Shop::open(&["ann", "bob"]);
    shop.run(&["task", "create", "Rewrite", "--path", "src/**", "--exclusive"]).succeeds();
    shop.run(&["task", "create", "Fix", "--path", "src/a.rs"]).succeeds();
    shop.run(&["task", "create", "Document", "--path", "docs/**"]).succeeds();
    shop.does("ann", "teamwire task claim 1");
    let (code, refused) = shop.tries("bob", "teamwire task claim 2");
    assert!(code == 1 && refused.contains("task 1") && refused.contains("ann"), "{refused}");
    shop.does("bob", "teamwire task claim 3");
    shop.does("ann", "teamwire task complete 1");
    shop.does("bob", "teamwire task claim 2");
}

#[test]
fn a_newer_commit_voids_a_review() {
    let shop = Shop::open(&["ann"]);
    shop.run(&["task", "create", "Write", "--owner", "ann", "--review", "team-lead", "--merge-on-approval"]).succeeds();
    shop.does("ann", "teamwire task claim 1");
    shop.commits("ann", "ann.txt", "ann\\n");
    shop.does("ann", "teamwire task complete 1 --result done");
    let pending = || shop.run(&["requests", "--state", "pending", "--json"]).succeeds().lines();
    let review = pending().remove(0);
    let id = review["id"].as_str().unwrap();
    let shown = shop.run(&["requests", id]).succeeds().stdout;
    assert!(shown.contains(&shop.app.id("teamwire/ann")) && shown.contains("1 file +1 -0"), "{shown}");
    shop.commits("ann", "ann.txt", "malice\\n");
    eventually("the review is void", || pending().is_empty().then_some(()));
    shop.run(&["approve", id]).exits(1);
    assert_eq!(shop.run(&["task", "show", "1", "--json"]).succeeds().json()["task"]["status"], "in_progress");
    // A review of the newer commit merges exactly that.
    shop.does("ann", "teamwire task complete 1 --result 'done again'");
    shop.run(&["approve", pending()[0]["id"].as_str().unwrap()]).succeeds();
    eventually("it is merged", || shop.app.has("main", "ann.txt").then_some(()));
    assert_eq!(shop.app.read("ann.txt"), "malice\n");
    shop.close();
}

/// A git that does what git 2.30 does with what came later. `$GIT`: the real one.
const OLD_GIT: &str = r#"#!/bin/sh
later=
for word; do
    case "$word" in
        version | --version) echo 'git version 2.30.2'; exit ;;
        --write-tree) echo 'usage: git merge-tree <base-tree> <branch1> <branch2>' >&2; exit 129 ;;
        --path-format=*) later=path ;;
        worktree) later=worktree ;;
        -z) [ "$later" = worktree ] && { echo "error: unknown switch \`z'" >&2; exit 129; } ;;
    esac
done
if [ "$later" = path ]; then
    # An option that it does not know, it prints.
    echo '--path-format=absolute'
    for word; do
        shift
        case "$word" in --path-format=*) ;; *) set -- "$@" "$word" ;; esac
    done
fi
exec "$GIT" "$@"
"#;

#[test]
fn with_an_old_git_everything_works_but_forecasts_and_merges() {
    let machine = FreshMachine::new();
    let bin = machine.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|directory| directory.join("git")).find(|git| git.is_file()).unwrap();
    fs::write(bin.join("git"), OLD_GIT.replace("$GIT", &real.display().to_string())).unwrap();
    fs::set_permissions(bin.join("git"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", bin.display());
    let shop = Shop::open_on(machine.and("PATH", path), &["ann"], |_| {});
    shop.commits("ann", "ann.txt", "ann\\n");
    shop.does("ann", "printf 'x' > untracked");

    let table = shop.work(&[]).succeeds().stdout;
    let row = table.lines().find(|line| line.starts_with("ann")).expect(&table);
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[1..8], ["teamwire/ann", "1", "0", "2", "+2", "-0", "1"], "{table}");
    assert!(row.contains("git 2.38 or later is needed for a forecast"), "{table}");
    let work = shop.summary("ann");
    assert_eq!(work["detail"], "git 2.38 or later is needed for a forecast; this is git 2.30.2");
    assert!(shop.work(&["diff", "ann", "--stat"]).succeeds().stdout.contains("untracked | 1 +"));
    assert!(shop.work(&["log", "ann"]).succeeds().stdout.contains("Write ann.txt"));
    let main = shop.app.id("main");
    shop.work(&["merge", "ann"]).exits(1).complains_of("git 2.38 or later is needed for a merge; this is git 2.30.2");
    assert_eq!(shop.app.id("main"), main);

    shop.await_kept("ann", "untracked");
    shop.machine.run(&["shutdown", "ann", "--wait"]).succeeds();
    assert_eq!(shop.worktree("ann").read("untracked"), "x");
    let dropped = shop.work(&["drop", "ann", "--yes", "--json"]).succeeds().json();
    assert!(!shop.worktree("ann").path().exists());
    shop.work(&["restore", dropped["ref"].as_str().unwrap(), "--to", "../again"]).succeeds();
    let again = Repository::at(&shop.machine.path().join("again"));
    assert_eq!([again.read("untracked"), again.read("ann.txt")], ["x", "ann\n"]);
    shop.assert_whole();
    shop.close();
}

/// Returns the most memory that a process has used at a time, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Whether the tests do what is too much for every change. `cargo xtask nightly work` sets the variable.
pub(crate) fn is_large() -> bool {
    std::env::var("TEAMWIRE_TEST_WORK").is_ok_and(|size| size == "large")
}

#[test]
fn a_diff_of_20_mb_arrives_whole_and_in_bounded_memory() {
    let shop = Shop::open(&["ann"]);
    let writes = |lines: usize| {
        let write =
            "with open('large.txt', 'w') as file:\n    file.writelines(f'{line:064d}\\n' for line in range(LINES))";
        let write = write.replace("LINES", &lines.to_string());
        shop.does("ann", &format!("python3 -c \"{write}\"\ngit add --all\ngit commit --quiet --message Large"));
    };
    let run_in_app = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let environment = shop.command();
        command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.current_dir(shop.app.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    // Returns the size of the diff, and the most memory that its reader used.
    let read = || {
        let measured = "import resource, subprocess, sys\n\
                        subprocess.run(sys.argv[1:], stdout=open('../diff', 'wb'), check=True)\n\
                        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
        let kib = run_in_app("python3", &["-c", measured, TEAMWIRE, "work", "diff", "ann"]);
        let diff = fs::read(shop.machine.path().join("diff")).unwrap();
        assert!(
            diff == run_in_app("git", &["diff", "main", "teamwire/ann"]),
            "{} bytes that are not git's",
            diff.len()
        );
        (diff.len(), String::from_utf8(kib).unwrap().trim().parse::<u64>().unwrap())
    };
    // Large enough that the allocator has what it keeps: what grows with the diff grows by three times this.
    writes(100_000);
    let (small, small_reader) = read();
    let runner = shop.runner("ann");
    let before = peak_kib(runner);
    writes(300_000);
    let (large, large_reader) = read();
    let after = peak_kib(runner);
    eprintln!(
        "diffs of {small} and {large} bytes: peaks of {before} and {after} KiB in the runner, of {small_reader} and \
         {large_reader} KiB in the reader"
    );
    assert!(small > 6_500_000 && large > 19_500_000, "{small} {large}");
    assert!(after < before + 10_000 && large_reader < small_reader + 10_000, "it grows with the diff");
    let piped = shop.machine.type_in(shop.app.path(), "teamwire work diff ann | wc -c").output().succeeds();
    assert_eq!(piped.stdout.trim(), large.to_string());
    shop.machine.run(&["down", "--force"]).succeeds();
}

#[test]
fn work_in_a_repository_of_many_files_is_kept_and_shown() {
    let files = if is_large() { 100_000 } else { 2_000 };
    let write = |directory: &str, app: &Repository| {
        for number in 0..files {
            app.write(&format!("{directory}/{:03}/{number:06}.txt", number % 500), &format!("file {number}\n"));
        }
    };
    let shop = Shop::open_on(FreshMachine::new(), &["ann"], |app| {
        write("old", app);
        app.commit_all("Many");
    });
    let runner = shop.runner("ann");
    let began = peak_kib(runner);
    let measure = |what: &str, file: &str| {
        let asked = std::time::Instant::now();
        eventually("the state is kept", || {
            let kept = shop.app.git(&["for-each-ref", "--format=%(refname)", "refs/teamwire/salvage/ann"]);
            kept.lines().any(|kept| shop.app.has(kept, file)).then_some(())
        });
        let kept = asked.elapsed();
        let asked = std::time::Instant::now();
        let work = shop.summary("ann");
        eprintln!(
            "{files} files, {what}: kept within {kept:?} of the end of the turn, shown in {:?}, the runner's peak is {} KiB, \
             {began} KiB at its start",
            asked.elapsed(),
            peak_kib(runner)
        );
        work
    };
    shop.does("ann", "echo edited > old/000/000000.txt; echo new > new.txt");
    let work = measure("two changed", "new.txt");
    assert_eq!((&work["files"], &work["uncommitted"]), (&2.into(), &2.into()));
    write("new", &shop.worktree("ann"));
    shop.does("ann", "echo new > last.txt");
    let work = measure("as many new ones", "last.txt");
    assert_eq!(work["files"], files + 3);
    assert_eq!(work["paths"].as_array().unwrap().len(), 500);
    shop.machine.run(&["down", "--force"]).succeeds();
    assert_eq!(shop.worktree("ann").read("new/001/000001.txt"), "file 1\n");
}
