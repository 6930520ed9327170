//! Workspaces, with a real git.

use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A repository with a file, an ignored name, and a branch `other` that changes the file.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(repository.path()).expect("created");
        repository.script(
            &repository.path(),
            "git init --quiet --initial-branch main && git config user.email a@example.com && git config user.name a
             echo one >file && echo '*.out' >.gitignore && git add . && git commit --quiet --message first
             git switch --quiet --create other && echo two >file && git commit --quiet --all --message other
             git switch --quiet main",
        );
        repository
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("app")
    }

    fn workspace(&self, discard_ignored: bool) -> Workspace {
        let plain = Workspace::plan(&self.directory.path().join("members"), "backend", "");
        plain.in_worktree(&self.path(), "backend", discard_ignored)
    }

    /// Runs a script that must succeed, and returns what it prints. `$REPOSITORY` is the repository.
    fn script(&self, directory: &Path, script: &str) -> String {
        let output = Command::new("sh")
            .args(["-ec", script])
            .env("REPOSITORY", self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(directory)
            .output()
            .expect("sh");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn branches(&self) -> String {
        self.script(&self.path(), "git branch --list 'teamwire/*'")
    }
}

/// What a member leaves behind that exists nowhere else, and what the host says about it.
const ONLY_HERE: &[(&str, &str, &str)] = &[
    ("a new file", "echo x >new", "the new file new"),
    ("a new file that the settings hide", "git config status.showUntrackedFiles no; echo x >new", "the new file new"),
    ("an edit", "echo x >file", "changes to file"),
    ("a deletion", "rm file", "changes to file"),
    ("a mode", "git config core.fileMode false; chmod +x file", "changes to file"),
    ("an edit that is assumed away", "git update-index --assume-unchanged file; echo x >file", "changes to file"),
    ("an edit that is skipped", "git update-index --skip-worktree file; echo x >file", "changes to file"),
    (
        "an edit that only its content shows",
        "git config core.trustctime false; git config core.checkStat minimal; git status >/dev/null
         touch -r file before; echo ONE | head -c 3 >/dev/null; printf 'oNe\\n' >file; touch -r before file; rm before",
        "changes to file",
    ),
    (
        "an edit that a file monitor hides",
        "printf '#!/bin/sh\\nprintf \"t\\\\0\"\\n' >$REPOSITORY/.git/monitor; chmod +x $REPOSITORY/.git/monitor
         git config core.fsmonitor $REPOSITORY/.git/monitor; git update-index --fsmonitor; git status >/dev/null
         echo x >file",
        "changes to file",
    ),
    (
        "an edit that a filter hides",
        "git config filter.hide.clean 'sed /hidden/d'; git config filter.hide.smudge cat
         echo 'file filter=hide' >$REPOSITORY/.git/info/attributes; echo hidden >>file; git add file",
        "changes to file",
    ),
    (
        "an edit that a filter by the name of another hides",
        "git config filter.lfs.clean 'sed /hidden/d'; git config filter.lfs.smudge cat
         echo 'file filter=lfs' >$REPOSITORY/.git/info/attributes; echo hidden >>file; git add file",
        "changes to file",
    ),
    (
        "an edit that git takes for its own",
        "echo '$Id$' >id; echo 'id ident' >.gitattributes; git add .; git commit --quiet --message id; git branch kept
         printf '$Id: all my work $\\n' >id; git add id",
        "changes to id",
    ),
    (
        "an edit of a name that is not text, and that a filter hides",
        "git config filter.hide.clean 'sed /hidden/d'; git config filter.hide.smudge cat
         name=$(printf 'f\\377'); echo one >$name; git add .; git commit --quiet --message f; git branch kept
         echo '* filter=hide' >$REPOSITORY/.git/info/attributes; echo hidden >>$name; git add .",
        "changes to f",
    ),
    ("a file that differs in its case only", "git config core.ignorecase true; echo x >FILE", "the new file FILE"),
    ("a name of two lines", "echo x >'a\nb'", "the new file a\\"),
    (
        "a repository in a directory of the commit",
        "mkdir docs; echo x >docs/x; git add .; git commit --quiet --message docs; git branch kept
         cd docs; git init --quiet; git config user.email a@example.com; git config user.name a; git add .; git commit --quiet --message inner",
        "the repository ",
    ),
    ("half of a repository", "mkdir -p part/.git; echo x >part/.git/notes", "the repository "),
    ("a staged edit that was taken back", "echo x >file; git add file; echo one >file", "staged changes"),
    ("a file to be added", "echo x >new; git add --intent-to-add new", ""),
    ("an ignored file", "echo x >a.out", "the ignored file a.out"),
    (
        "a file that only this clone ignores",
        "echo new >>$REPOSITORY/.git/info/exclude; echo x >new",
        "ignored file new",
    ),
    ("a repository within", "git init --quiet within; echo x >within/x", "the repository "),
    (
        "a submodule",
        "git -c protocol.file.allow=always submodule --quiet add $REPOSITORY within
         git commit --quiet --message module; git branch elsewhere; echo x >within/x",
        "the submodule within",
    ),
    ("a commit", "git commit --quiet --allow-empty --message x", "the commit "),
    ("a log that is gone", "rm $(git rev-parse --git-dir)/logs/HEAD", "logs/HEAD"),
    ("a commit that is replaced", "git commit --quiet --allow-empty --message x; git replace @ @~", "the commit "),
    (
        "a ref of this worktree",
        "git update-ref refs/worktree/kept $(git commit-tree -m x 'HEAD^{tree}')",
        "the commit ",
    ),
    (
        "a commit in the log of a ref of this worktree",
        "git update-ref --create-reflog refs/worktree/k $(git commit-tree -m x 'HEAD^{tree}'); git update-ref refs/worktree/k main",
        "the commit ",
    ),
    (
        "a commit that is grafted",
        "git commit --quiet --allow-empty --message x
         echo $(git rev-parse other) $(git rev-parse HEAD) >$REPOSITORY/.git/info/grafts",
        "the commit ",
    ),
    ("a ref of a name of one's own", "git update-ref SAVED_HEAD $(git commit-tree -m x 'HEAD^{tree}')", "SAVED_HEAD"),
    ("a message of a tag", "echo x >$(git rev-parse --git-dir)/TAG_EDITMSG", "TAG_EDITMSG"),
    (
        "a commit that a symbolic ref names",
        "git commit --quiet --allow-empty --message x; git symbolic-ref refs/heads/alias refs/heads/teamwire/backend",
        "the commit ",
    ),
    (
        "a branch that is another name of main",
        "git switch --quiet --detach; git symbolic-ref refs/heads/teamwire/backend refs/heads/main",
        "another name of refs/heads/main",
    ),
    (
        "a merge of notes",
        "git notes add -m ours; git notes --ref theirs add -m theirs; git notes merge -s manual theirs 2>/dev/null || true",
        "half done",
    ),
    (
        "a merge with a conflict",
        "echo x >file; git commit --quiet -am x; git branch kept; git merge --quiet other >/dev/null || true",
        "half done",
    ),
    ("a merge before its commit", "git merge --quiet --no-ff --no-commit other >/dev/null", "half done"),
    (
        "a rebase",
        "echo x >file; git commit --quiet -am x; git branch kept; git rebase --quiet other >/dev/null 2>&1 || true",
        "half done",
    ),
    (
        "a pick",
        "echo x >file; git commit --quiet -am x; git branch kept; git cherry-pick other >/dev/null 2>&1 || true",
        "half done",
    ),
    (
        "a revert",
        "echo x >file; git commit --quiet -am x; git branch kept; git revert --no-edit @~ >/dev/null 2>&1 || true",
        "half done",
    ),
    ("a bisection", "git bisect start >/dev/null", "half done"),
    ("a lock of the worktree", "git worktree lock .", "a lock"),
    ("a lock of the index", ": >$(git rev-parse --git-dir)/index.lock", "index.lock"),
    ("a branch without a commit", "git switch --quiet --orphan new", "HEAD"),
    ("no registration", "rm -r $(git rev-parse --git-dir)", "not a git repository"),
    (
        "files elsewhere",
        "git config extensions.worktreeConfig true; mkdir ../x; git config --worktree core.worktree $PWD/../x",
        "",
    ),
];

#[tokio::test]
async fn a_worktree_with_anything_that_exists_nowhere_else_stays() {
    let mut wrong = Vec::new();
    for (what, script, words) in ONLY_HERE {
        let repository = Repository::new();
        let workspace = repository.workspace(false);
        workspace.prepare().await.expect(what);
        repository.script(&workspace.root, script);
        let all = "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 cksum";
        let before = repository.script(&workspace.root, all);
        match workspace.clean().await {
            Some(why) if why.contains(words) => assert_eq!(repository.script(&workspace.root, all), before, "{what}"),
            Some(why) => wrong.push(format!("{what}: {why}")),
            None => wrong.push(format!("{what}: it was removed")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_repository_in_an_ignored_directory_stays_even_if_ignored_files_may_go() {
    let repository = Repository::new();
    let workspace = repository.workspace(true);
    workspace.prepare().await.expect("prepared");
    for (script, named) in [
        ("mkdir -p deep.out/a && git init --quiet deep.out/a/b", "deep.out/a/b"),
        ("rm -r deep.out; git init --quiet --bare bare.out", "bare.out"),
        ("rm -r bare.out; name=$(printf 'd\\377.out'); mkdir $name; git init --quiet $name/r", ".out/r"),
    ] {
        repository.script(&workspace.root, script);
        let why = workspace.clean().await.expect("it stays");
        assert!(why.contains("the repository ") && why.ends_with(named), "{why}");
    }
}

#[tokio::test]
async fn a_staged_file_stays_even_if_its_name_is_ignored_and_ignored_files_may_go() {
    let repository = Repository::new();
    let workspace = repository.workspace(true);
    workspace.prepare().await.expect("prepared");
    repository.script(&workspace.root, "echo x >kept.out; echo x >other.out; git add --force kept.out");
    let why = workspace.clean().await.expect("it stays");
    assert_eq!(why, "it has staged changes");
}

/// What a member leaves behind that git holds elsewhere, too.
const HELD: &[(&str, &str)] = &[
    ("nothing", ""),
    (
        "a commit that was merged",
        "git commit --quiet --allow-empty --message x; git -C $REPOSITORY merge --quiet teamwire/backend",
    ),
    (
        "a commit that was pushed",
        "git commit --quiet --allow-empty --message x; git update-ref refs/remotes/origin/x HEAD",
    ),
    ("a commit with a tag", "git commit --quiet --allow-empty --message x; git tag x"),
    (
        "a commit that was reset",
        "git commit --quiet --allow-empty --message x; git reset --quiet --hard @~",
    ),
    (
        "a commit that was amended",
        "echo x >file; git commit --quiet -am x; git branch kept; git commit --quiet --amend --message y; git switch --quiet kept; git branch -D teamwire/backend >/dev/null",
    ),
    (
        "a commit that no branch had",
        "git switch --quiet --detach; git commit --quiet --allow-empty --message x; git switch --quiet -",
    ),
    (
        "a commit without a log",
        "git config core.logAllRefUpdates false
         git switch --quiet --detach; git commit --quiet --allow-empty --message x; git switch --quiet -",
    ),
    (
        "a commit that was fetched",
        "git clone --quiet $REPOSITORY ../clone; cd ../clone; git config user.email a@example.com; git config user.name a
         git commit --quiet --allow-empty --message x; cd - >/dev/null; git fetch --quiet ../clone; rm -r ../clone",
    ),
    ("another branch", "git switch --quiet --create feature; git commit --quiet --allow-empty --message x"),
    ("a stash", "echo x >file; git stash --quiet"),
    ("an empty directory", "mkdir empty"),
    ("files that it leaves out", "git sparse-checkout set --no-cone /.gitignore >/dev/null"),
    ("an ignored file that may go", "echo x >a.out; mkdir b.out; echo x >b.out/x"),
    ("line ends", "git config core.autocrlf true; rm file; git checkout --quiet file"),
];

#[tokio::test]
async fn a_worktree_of_which_git_holds_everything_elsewhere_is_removed_with_its_branch() {
    for (what, script) in HELD {
        let repository = Repository::new();
        let workspace = repository.workspace(true);
        workspace.prepare().await.expect(what);
        assert!(repository.branches().contains("teamwire/backend"));
        let held = "git rev-list --count --exclude=refs/teamwire/* --all; git stash list";
        repository.script(&workspace.root, script);
        let before = repository.script(&repository.path(), held);
        assert_eq!(workspace.clean().await, None, "{what}");
        assert!(!workspace.root.exists(), "{what}");
        assert_eq!(repository.branches(), "", "{what}");
        assert_eq!(repository.script(&repository.path(), held), before, "{what}");
    }
}

#[tokio::test]
async fn what_a_worktree_loses_is_kept_as_a_salvage_of_its_member() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    let reset = "git commit --quiet --allow-empty --message lost; git rev-parse HEAD; git reset --quiet --hard @~";
    let lost = repository.script(&workspace.root, reset);
    assert_eq!(workspace.clean().await, None);
    assert!(!workspace.root.exists());
    let salvages = "git gc --quiet --prune=now; git for-each-ref --format='%(refname)' refs/teamwire/salvage";
    let salvages = repository.script(&repository.path(), salvages);
    assert!(salvages.starts_with("refs/teamwire/salvage/backend/") && salvages.lines().count() == 1, "{salvages}");
    let is_held = format!("git merge-base --is-ancestor {} {}", lost.trim(), salvages.trim());
    repository.script(&repository.path(), &is_held);

    // It stays with what is not committed, which is kept, too.
    workspace.prepare().await.expect("prepared");
    fs::write(workspace.root.join("new"), "x").expect("written");
    assert!(workspace.clean().await.is_some_and(|why| why.contains("the new file new")));
    let newest =
        "git show $(git for-each-ref --count=1 --sort=-refname --format='%(refname)' refs/teamwire/salvage):new";
    assert_eq!(repository.script(&repository.path(), newest), "x");

    // What cannot be kept stays.
    let hinder = "rm -r .git/refs/teamwire; git pack-refs --all; rm -rf .git/refs/teamwire; : >.git/refs/teamwire; echo y >$REPOSITORY/../members/backend/new";
    repository.script(&repository.path(), hinder);
    assert!(workspace.clean().await.is_some_and(|why| why.contains("what is in it cannot be kept elsewhere")));
}

#[tokio::test]
async fn the_worktrees_of_others_stay_registered_while_their_disk_is_away() {
    let repository = Repository::new();
    let others = repository.directory.path().join("others");
    repository.script(&repository.path(), &format!("git worktree add --quiet --detach {}", others.display()));
    repository.script(&others, "git commit --quiet --allow-empty --message theirs; echo x >new; git add new");
    let away = repository.directory.path().join("away");
    fs::rename(&others, &away).expect("moved");
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    assert_eq!(workspace.clean().await, None);
    fs::rename(&away, &others).expect("moved back");
    assert_eq!(repository.script(&others, "git status --porcelain; git log --format=%s -1"), "A  new\ntheirs\n");
}

#[tokio::test]
async fn a_worktree_that_an_earlier_member_left_is_used_again() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    fs::write(workspace.root.join("new"), "x").expect("written");
    assert!(workspace.clean().await.is_some());
    workspace.prepare().await.expect("there already");
    assert!(workspace.root.join("new").exists());
}

#[tokio::test]
async fn a_worktree_whose_directory_was_removed_comes_back_with_what_git_still_has() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    repository.script(&workspace.root, "git commit --quiet --allow-empty --message mine; echo x >new; git add new");
    fs::remove_dir_all(&workspace.root).expect("removed");
    workspace.prepare().await.expect("prepared again");
    assert_eq!(repository.script(&workspace.root, "cat new file; git log --format=%s -1"), "x\none\nmine\n");
    assert_eq!(repository.script(&workspace.root, "git status --porcelain"), "A  new\n");
}

#[tokio::test]
async fn a_directory_that_is_no_worktree_of_the_repository_any_more_is_refused_and_stays() {
    for broken in ["rm -r $REPOSITORY/.git/worktrees/backend", "rm .git; git init --quiet", "echo nothing >.git"] {
        let repository = Repository::new();
        let workspace = repository.workspace(false);
        workspace.prepare().await.expect("prepared");
        repository.script(&workspace.root, broken);
        let error = workspace.prepare().await.expect_err(broken);
        assert!(error.reason.contains("is not a worktree of") && error.try_another_host, "{}", error.reason);
        assert!(workspace.clean().await.is_some() && workspace.root.join("file").exists(), "{broken}");
    }
}

#[tokio::test]
async fn a_worktree_that_cannot_be_made_leaves_no_branch() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    fs::create_dir_all(&workspace.root).expect("created");
    fs::write(workspace.root.join("in-the-way"), "").expect("written");
    let error = workspace.prepare().await.expect_err("the directory is not empty");
    assert!(error.reason.starts_with("git cannot make a worktree"), "{}", error.reason);
    assert_eq!(repository.branches(), "");
}

#[tokio::test]
async fn a_lock_of_the_configuration_does_not_matter() {
    let repository = Repository::new();
    fs::write(repository.path().join(".git/config.lock"), "").expect("written");
    repository.workspace(false).prepare().await.expect("prepared");
    assert_eq!(repository.workspace(false).clean().await, None);
}

#[tokio::test]
async fn a_repository_that_is_missing_is_named_with_what_git_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = Workspace::plan(directory.path(), "backend", "");
    let workspace = workspace.in_worktree(&directory.path().join("app"), "backend", false);
    let error = workspace.prepare().await.expect_err("refused");
    assert!(error.try_another_host && error.reason.starts_with("git cannot make a worktree"), "{}", error.reason);
    assert!(error.reason.lines().count() > 1, "{}", error.reason);
}

#[tokio::test]
async fn a_shared_directory_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("docs")).expect("created");
    let workspace = Workspace::shared(directory.path(), "docs");
    workspace.prepare().await.expect("it is there");
    assert_eq!(workspace.clean().await, None);
    assert!(workspace.start.is_dir(), "it is empty, and was there before");
    let missing = Workspace::shared(directory.path(), "services").prepare().await.expect_err("refused");
    assert!(missing.reason.starts_with("There is no directory services in "), "{}", missing.reason);
    assert!(!directory.path().join("services").exists());
    let nowhere = Workspace::shared(&directory.path().join("gone"), "").prepare().await.expect_err("refused");
    assert!(nowhere.reason.ends_with("/gone."), "{}", nowhere.reason);
}

#[tokio::test]
async fn a_directory_is_removed_only_if_it_is_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = Workspace::plan(directory.path(), "backend", "services/api");
    workspace.prepare().await.expect("created");
    assert!(workspace.start.ends_with("backend/services/api") && workspace.start.is_dir());
    fs::write(workspace.root.join("notes"), "").expect("written");
    workspace.clean().await;
    assert!(workspace.root.join("notes").exists());
    fs::remove_file(workspace.root.join("notes")).expect("removed");
    workspace.clean().await;
    assert!(!workspace.root.exists());
}

#[tokio::test]
async fn a_program_that_a_hook_leaves_in_the_background_delays_nothing() {
    let repository = Repository::new();
    repository.script(
        &repository.path(),
        "mkdir -p .git/hooks; printf '#!/bin/sh\\nsleep 300 & echo $! >>\"$(git rev-parse --git-common-dir)\"/pids\\n' >.git/hooks/post-checkout
         chmod +x .git/hooks/post-checkout",
    );
    let workspace = repository.workspace(false);
    let prepared = tokio::time::timeout(std::time::Duration::from_secs(60), workspace.prepare()).await;
    // Only these: the hook has written their ids.
    repository.script(&repository.path(), "kill $(cat .git/pids)");
    prepared.expect("in time").expect("prepared");
    assert!(workspace.root.join("file").exists());
}

#[tokio::test]
async fn a_worktree_that_git_was_killed_over_is_made_again() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    repository
        .script(&workspace.root, "rm file; cd \"$(git rev-parse --git-dir)\"; rm index; echo initializing >locked");
    workspace.prepare().await.expect("prepared");
    assert_eq!(repository.script(&workspace.root, "git status --porcelain"), "");
    // Killed even earlier.
    let early = "cd \"$(git rev-parse --git-dir)\"; echo initializing >locked; rm -r \"$OLDPWD\"/* \"$OLDPWD\"/.git*";
    repository.script(&workspace.root, early);
    workspace.prepare().await.expect("prepared");
    assert_eq!(repository.script(&workspace.root, "git status --porcelain"), "");
    assert!(workspace.clean().await.is_none());
}

#[tokio::test]
async fn a_worktree_whose_restoration_was_killed_is_restored() {
    let repository = Repository::new();
    let workspace = repository.workspace(false);
    workspace.prepare().await.expect("prepared");
    // Nothing but a part of a file was written.
    let half = "touch \"$(git rev-parse --git-dir)\"/teamwire-restoring; rm .git; echo o >file";
    repository.script(&workspace.root, half);
    workspace.prepare().await.expect("prepared");
    assert_eq!(repository.script(&workspace.root, "git status --porcelain"), "");

    // Without that, what is there is someone's.
    repository.script(&workspace.root, "rm .git; echo mine >file");
    workspace.prepare().await.expect("prepared");
    assert_eq!(repository.script(&workspace.root, "git status --porcelain"), " M file\n");
    assert_eq!(repository.script(&workspace.root, "cat file"), "mine\n");
}
