//! The work of members on two hosts, each with a clone of the repository, merged into the lead's clone on a machine
//! between which there is only the coordinator. Members and hosts are killed meanwhile.
//!
//! The machines are network namespaces: see [`machines`](crate::machines).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    agents,
    machines::serve,
    work::is_large,
    world::{
        HostProcess, MARK, Network, Output, PATIENCE, Repository, TEAMWIRE, World, eventually, is_alive, kill_process,
    },
};

/// Who serves the coordinator, leads the team and merges.
const LEAD: &str = "host";

const HOSTS: [&str; 2] = ["gpu-1", "gpu-2"];

/// A task that is not done by its first attempt: a member is killed in the middle of it.
const KILLED_EVERY: usize = 4;

/// A task that changes the file that others change, too.
const SHARED_EVERY: usize = 5;

/// What a member's commands begin with: it takes up what a life that was killed has left.
const TIDY: &str = r#"
set -e
rm -f "$(git rev-parse --git-dir)/index.lock" "$(git rev-parse --git-common-dir)/refs/heads/teamwire/$TEAMWIRE_MEMBER.lock"
git merge --abort 2> /dev/null || true
without_markers() { sed -i -e '/^<<<<<<< /d' -e '/^=======$/d' -e '/^>>>>>>> /d' "$@"; }
record() { git rev-parse HEAD >> "$HEARD/$TEAMWIRE_MEMBER.commits"; }
keep() { git add --all . ':!notes'; git diff --cached --quiet || { git commit --quiet --message "$1"; record; }; }
test -e notes || echo "notes of $TEAMWIRE_MEMBER" > notes
without_markers shared.txt
keep 'What was left'
"#;

/// What a member does when its work conflicts.
const RESOLVE: &str = r#"
git merge --quiet --no-edit "$BASE" || {
    git diff --name-only --diff-filter=U | while read -r file; do
        without_markers "$file"
        git add "$file"
    done
    git commit --quiet --no-edit
}
record
"#;

/// What must hold of the merged files.
const CHECK: &str = r#"
for file in tasks/*; do test "$(cat "$file")" = "task $(basename "$file")" || exit 1; done
! grep -E '^(<<<<<<<|=======|>>>>>>>)' shared.txt
"#;

/// What the first attempt at some tasks does: it waits to be killed.
fn task(number: usize) -> String {
    let mut script = TIDY.to_owned();
    script += &format!("mkdir -p tasks\necho 'task {number}' > tasks/{number}\n");
    if number.is_multiple_of(SHARED_EVERY) {
        script += &format!("echo 'task {number}' >> shared.txt\n");
    }
    if number.is_multiple_of(KILLED_EVERY) {
        script += &format!(
            "if mkdir \"$ATTEMPTS/{number}\" 2> /dev/null; then\n\
             echo \"$TEAMWIRE_MEMBER\" > \"$ATTEMPTS/{number}/by\"; cat \"$ATTEMPTS/gate\"; fi\n"
        );
    }
    script + &format!("keep 'Task {number}'\n")
}

struct Fleet<'w> {
    world: &'w World,
    /// The lead's clone.
    app: Repository,
    hosts: BTreeMap<&'static str, HostProcess>,
    /// Each member, and its host.
    members: BTreeMap<String, &'static str>,
}

impl Fleet<'_> {
    fn cli(&self, arguments: &[&str]) -> Output {
        self.world.cli(LEAD, arguments)
    }

    fn heard(&self, host: &str) -> PathBuf {
        self.world.home(host).join("heard")
    }

    fn clone_on(&self, host: &str) -> Repository {
        Repository::at(&self.world.home(host).join("app"))
    }

    fn start_host(&mut self, host: &'static str, arguments: &[&str]) {
        self.hosts.insert(host, HostProcess::start(self.world, host, arguments));
    }

    /// Starts a member. Its former life may still be ending.
    fn spawn(&self, member: &str) {
        eventually("the member starts", || {
            let spawn = ["spawn", member, "--profile", "agent", "--on", self.members[member], "--json"];
            (self.cli(&spawn).code == 0).then_some(())
        });
    }

    /// Returns the process of a member's runner.
    fn runner(&self, member: &str) -> Option<u32> {
        let orders = fs::read_dir(self.world.host_state(self.members[member]).join("orders")).ok()?;
        orders.flatten().find_map(|entry| {
            let record: Value = serde_json::from_slice(&fs::read(entry.path().join("order.json")).ok()?).ok()?;
            let pid = u32::try_from(record["phase"]["started"]["id"].as_u64()?).ok()?;
            (record["member"] == member && is_alive(pid)).then_some(pid)
        })
    }

    /// Returns who is in the middle of the first attempt at a task.
    fn attempts(&self, number: usize) -> Option<String> {
        let by = fs::read_to_string(self.world.home(LEAD).join(format!("attempts/{number}/by"))).ok()?;
        Some(by.trim().to_owned()).filter(|by| !by.is_empty())
    }

    fn completed(&self) -> usize {
        self.cli(&["task", "list", "--status", "completed", "--json"]).succeeds().lines().len()
    }

    fn merged(&self) -> usize {
        self.app.git(&["ls-tree", "--name-only", "main", "tasks/"]).lines().count()
    }

    /// Merges a member's work, if its runner answers. Returns whether there was a conflict, about which it got a message.
    fn merge(&self, member: &str) -> bool {
        let merge = ["work", "merge", member, "--check", "sh check.sh", "--json"];
        let output = self.world.cli_at(LEAD, self.app.path(), &merge);
        match output.code {
            0 => false,
            3 => output.stdout.contains("\"told_member\":true"),
            // Its runner was killed.
            _ => {
                let refused =
                    ["is not connected", "has exited", "no longer", "nothing yet", "does not answer", "is lost"];
                let is_expected = refused.iter().any(|refused| output.stderr.contains(refused));
                eprintln!("{member} is not merged: {}", output.stderr);
                assert!(is_expected, "{}{}", output.stdout, output.stderr);
                false
            }
        }
    }
}

#[test]
fn the_work_of_two_hosts_meets_in_the_leads_clone_and_nothing_is_lost_to_kills() {
    let Some(network) = Network::of_two() else { return };
    let [here, there] = network.machines();
    let (members, tasks) = if is_large() { (12, 60) } else { (4, 12) };
    let world = World::embedded();
    let (coordinator, _) = serve(&world, here, &[(HOSTS[0], here), (HOSTS[1], there)]);
    let app = Repository::make(&world.home(LEAD).join("app"));
    app.write("check.sh", CHECK);
    app.write("shared.txt", "shared\n");
    app.commit_all("Second");
    let members = (1..=members).map(|number| (format!("m{number}"), HOSTS[number % 2])).collect();
    let mut fleet = Fleet { world: &world, app, hosts: BTreeMap::new(), members };
    let attempts = world.home(LEAD).join("attempts");
    fs::create_dir_all(&attempts).unwrap();
    assert!(Command::new("mkfifo").arg(attempts.join("gate")).status().unwrap().success());
    for host in HOSTS {
        fleet.app.cloned_to(&world.home(host).join("app"));
        fs::create_dir_all(fleet.heard(host)).unwrap();
        let (home, heard) = (world.home(host).display().to_string(), fleet.heard(host).display().to_string());
        let file = format!(
            "slots = 20\n[profiles.agent]\ncommand = {}\nworktree = \"{home}/app\"\ndir = \"{home}/work\"\nclaim = true\n\
             pass_env = [\"{MARK}\"]\nenv = {{ TW = \"{TEAMWIRE}\", HEARD = \"{heard}\", ATTEMPTS = {}, ON_CONFLICT = {} }}\n",
            json!(agents::SHELL),
            json!(attempts),
            json!(format!("{TIDY}{RESOLVE}"))
        );
        fs::write(world.home(host).join("host.toml"), file).unwrap();
        let invited = fleet.cli(&["invite", "--host", host]).succeeds().stdout;
        fleet.start_host(host, &["--join", invited.trim()]);
    }
    let began = Instant::now();
    for member in fleet.members.keys().cloned().collect::<Vec<_>>() {
        fleet.spawn(&member);
    }
    for number in 1..=tasks {
        let (subject, description) = (format!("Task {number}"), task(number));
        let mut create = vec!["task", "create", &subject, "--description", &description];
        // Two that append to one file from the same beginning, so that there are conflicts.
        let owner = fleet.members.keys().nth(number / SHARED_EVERY % fleet.members.len()).unwrap();
        create.extend(number.is_multiple_of(SHARED_EVERY).then_some(["--owner", owner]).into_iter().flatten());
        fleet.cli(&create).succeeds();
    }

    let (mut kills, mut conflicts) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let (mut merges, mut progress) = (0, (0, 0, Instant::now()));
    let mut host_was_killed = false;
    loop {
        for number in (1..=tasks).filter(|number| number.is_multiple_of(KILLED_EVERY)) {
            if !kills.contains(&number)
                && let Some(member) = fleet.attempts(number)
            {
                kills.insert(number);
                let host = fleet.members[&member];
                if !host_was_killed {
                    host_was_killed = true;
                    fleet.hosts.remove(host).unwrap().kill();
                }
                kill_process(fleet.runner(&member).expect("it is in the middle of a task"));
                if !fleet.hosts.contains_key(host) {
                    fleet.start_host(host, &[]);
                }
                fleet.spawn(&member);
            }
        }
        for member in fleet.members.keys() {
            merges += 1;
            if fleet.merge(member) {
                *conflicts.entry(member.clone()).or_default() += 1;
            }
        }
        let (completed, merged) = (fleet.completed(), fleet.merged());
        if completed == tasks && merged == tasks {
            break;
        }
        if (completed, merged) != (progress.0, progress.1) {
            progress = (completed, merged, Instant::now());
        }
        assert!(progress.2.elapsed() < PATIENCE, "{completed} of {tasks} tasks are completed, {merged} are merged");
    }
    // What members committed after their last merge, such as what a killed life had left.
    for member in fleet.members.keys() {
        eventually("none of it is left to merge", || {
            if fleet.merge(member) {
                *conflicts.entry(member.clone()).or_default() += 1;
            }
            let commits = fs::read_to_string(fleet.heard(fleet.members[member]).join(format!("{member}.commits")));
            let is_merged = |commit: &str| fleet.app.try_git(&["merge-base", "--is-ancestor", commit, "main"]).0;
            commits.unwrap_or_default().lines().all(is_merged).then_some(())
        });
    }
    eprintln!(
        "{tasks} tasks by {} members: {:?}, {merges} merges, {} kills, conflicts: {conflicts:?}",
        fleet.members.len(),
        began.elapsed(),
        kills.len(),
    );
    assert_eq!(kills.len(), tasks / KILLED_EVERY, "every task that waits to be killed");
    assert!(!conflicts.is_empty(), "no conflict happened");

    // All of it, and the check passes.
    for number in 1..=tasks {
        assert_eq!(fleet.app.read(&format!("tasks/{number}")), format!("task {number}\n"));
        let is_shared = fleet.app.read("shared.txt").lines().any(|line| line == format!("task {number}"));
        assert_eq!(is_shared, number.is_multiple_of(SHARED_EVERY), "{number}: {}", fleet.app.read("shared.txt"));
    }
    let check = Command::new("sh").arg("check.sh").current_dir(fleet.app.path()).status().unwrap();
    assert!(check.success());
    assert_eq!(fleet.app.git(&["status", "--porcelain"]), "");
    for (member, host) in &fleet.members {
        let heard = fs::read_to_string(fleet.heard(host).join(member)).unwrap();
        let told: BTreeSet<String> = heard
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|line| line["content"].as_str().unwrap_or_default().starts_with("Your work conflicts with main"))
            .map(|line| line["id"].to_string())
            .collect();
        let conflicts = conflicts.get(member).copied().unwrap_or_default();
        assert!(told.len() <= conflicts, "{member} got {} messages about {conflicts} conflicts", told.len());
    }
    let ids: Vec<String> = fleet.members.keys().cloned().collect();
    for member in &ids {
        fleet.cli(&["shutdown", member, "--wait"]).succeeds();
    }
    for (member, host) in &fleet.members {
        let worktree = Repository::at(&world.home(host).join("work").join(member));
        assert_eq!(worktree.read("notes"), format!("notes of {member}\n"));
        let kept = fleet.clone_on(host).git(&[
            "for-each-ref",
            "--format=%(refname)",
            &format!("refs/teamwire/salvage/{member}"),
        ]);
        let kept = kept.lines().last().expect("its work is kept");
        assert_eq!(fleet.clone_on(host).git(&["show", &format!("{kept}:notes")]), format!("notes of {member}"));
    }
    for repository in HOSTS.map(|host| fleet.clone_on(host)).into_iter().chain([fleet.app.clone()]) {
        let (is_whole, said) = repository.try_git(&["fsck", "--strict", "--no-dangling"]);
        assert!(is_whole, "{said}");
    }
    for (_, host) in std::mem::take(&mut fleet.hosts) {
        host.terminate();
    }
    coordinator.interrupt().succeeds();
}
