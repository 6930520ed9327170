//! Ways to lose work, and what brings it back.

use jiff::Timestamp;

use super::{
    super::salvage::{prune_at, salvage_up_to},
    *,
};

/// A way to lose work.
struct Case {
    what: &'static str,
    /// The work. It runs in the member's working tree.
    work: &'static str,
    /// The damage.
    damage: &'static str,
    /// What is left out, in words, and the paths that do not come back.
    left_out: &'static [(&'static str, &'static str)],
    /// What must hold afterwards. It runs in the restored working tree. `$REF` is the salvage.
    then: &'static str,
}

const fn case(what: &'static str, work: &'static str, damage: &'static str) -> Case {
    Case { what, work, damage, left_out: &[], then: "" }
}

const fn named(
    what: &'static str,
    work: &'static str,
    damage: &'static str,
    left_out: &'static [(&'static str, &'static str)],
) -> Case {
    Case { what, work, damage, left_out, then: "" }
}

const fn then(what: &'static str, work: &'static str, damage: &'static str, then: &'static str) -> Case {
    Case { what, work, damage, left_out: &[], then }
}

/// Keeps the id of a commit, and shows that the salvage holds it.
const IS_HELD: &str = "git merge-base --is-ancestor $(cat $T/commit) $REF";

const CASES: &[Case] = &[
    case("an edit", "echo two >file", "git checkout --quiet ."),
    case("an edit and git restore", "echo two >file", "git restore ."),
    then("an untracked file", "mkdir new; echo x >new/a", "git clean --quiet -fdx", "git status --porcelain | grep -Fx '?? new/'"),
    then("a staged file", "echo x >new; git add new", "git reset --quiet --hard", "test \"$(cat new)\" = x"),
    then(
        "what was staged and then edited",
        "echo staged >file; git add file; echo later >file",
        "git reset --quiet --hard",
        "test \"$(git show :file)\" = staged",
    ),
    then(
        "what was staged and then deleted",
        "echo staged >new; git add new; rm new",
        "git reset --quiet --hard",
        "test \"$(git show :new)\" = staged",
    ),
    case("a deletion", "rm -r file docs", "git checkout --quiet ."),
    case("a directory in the place of a file", "rm file; mkdir file; echo x >file/x", "rm -r file"),
    case("a file in the place of a directory", "rm -r docs; echo x >docs", "rm docs; git checkout --quiet ."),
    case("a rename", "git mv file other; echo more >>other", "git reset --quiet --hard"),
    case("a stash that was dropped", "echo two >file", "git stash --quiet; git stash drop --quiet"),
    then(
        "a commit that was reset after",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit",
        "git reset --quiet --hard HEAD~; git reflog expire --expire=now --all; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "a commit that was reset before",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit; git reset --quiet --hard HEAD~",
        "git reflog expire --expire=now --all; rm $(git rev-parse --git-dir)/ORIG_HEAD; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "a commit that was amended",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit; git commit --quiet --amend -m three",
        "git reflog expire --expire=now --all; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "a commit that was rebased away",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit
         git -C $T/app commit --quiet --allow-empty -m x; git rebase --quiet main 2>/dev/null; git reset --quiet --hard main",
        "git reflog expire --expire=now --all; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "the tip of a branch that was deleted",
        "git switch --quiet --create topic; git commit --quiet --allow-empty -m x; git rev-parse HEAD >$T/commit
         git switch --quiet -; git branch --quiet -D topic",
        "git reflog expire --expire=now --all; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "commits on a detached HEAD",
        "git switch --quiet --detach; echo two >file; git commit --quiet -am x; git rev-parse HEAD >$T/commit",
        "git switch --quiet teamwire/backend; git reflog expire --expire=now --all; git gc --quiet --prune=now",
        IS_HELD,
    ),
    then(
        "a branch that is deleted with its working tree",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit; echo three >file",
        "cd $T/app; git worktree remove --force ../member; git branch --quiet -D teamwire/backend; git gc --quiet --prune=now",
        IS_HELD,
    ),
    case("a working tree that rm removes", "echo two >file; echo x >new", "rm -rf $T/member; git -C $T/app worktree prune"),
    case("a mode", "chmod +x file; chmod -x tool; git config core.fileMode false", "git config core.fileMode true; git checkout --quiet ."),
    case("a symbolic link", "ln -s nowhere link; rm file; ln -s docs/page file", "git clean --quiet -fd; git checkout --quiet ."),
    case(
        "an edit that is assumed away",
        "git update-index --assume-unchanged file; echo two >file",
        "git update-index --no-assume-unchanged file; git checkout --quiet .",
    ),
    case(
        "an edit that is skipped",
        "git update-index --skip-worktree file; echo two >file",
        "git update-index --no-skip-worktree file; git checkout --quiet .",
    ),
    Case {
        what: "an edit in a sparse working tree",
        work: "git sparse-checkout set --no-cone /file /.gitignore >/dev/null 2>&1; echo two >file; mkdir -p docs; echo x >docs/new",
        damage: "git checkout --quiet .; rm -r docs",
        left_out: &[],
        then: "test -e tool; test \"$(git status --porcelain)\" = \"$(printf ' M file\\n?? docs/new')\"",
    },
    Case {
        what: "an edit beside a sparse index",
        work: "git sparse-checkout set --cone --sparse-index none 2>/dev/null; test ! -e docs; echo two >file",
        damage: "git checkout --quiet .",
        left_out: &[],
        then: "test -e docs/page; test \"$(git status --porcelain)\" = ' M file'",
    },
    case("a name of two lines", "echo x >'a\nb'; git add . ; git commit --quiet -m x; echo y >'a\nb'; echo z >'c\nd'", "rm a* c*"),
    case("names with a colon", "echo x >:file; echo x >':(top)x'; echo x >'*'; echo x >'a\\b'", "git clean --quiet -fd"),
    case("a name that is not text", "name=$(printf 'f\\377'); echo x >$name", "git clean --quiet -fd"),
    case("a name that git quotes", "echo x >'ä \"b\"\t'", "git clean --quiet -fd"),
    case(
        "line ends that git converts",
        "git config core.autocrlf true; rm -r file docs tool .gitignore; git checkout --quiet .; printf 'a\\r\\nb\\r\\n' >new; printf 'a\\r\\nb\\n' >mixed; printf 'a\\nb\\n' >unix",
        "git clean --quiet -fd",
    ),
    case(
        "line ends by attributes",
        "echo '* text eol=crlf' >.gitattributes; printf 'a\\r\\nb\\n' >mixed; printf 'a\\n' >unix; printf 'one\\r\\n' >file",
        "git clean --quiet -fd; git checkout --quiet .",
    ),
    case(
        "a filter that fails",
        "echo '*.big filter=lfs' >.gitattributes; git config filter.lfs.clean false; git config filter.lfs.smudge false
         git config filter.lfs.required true; echo x >a.big",
        "rm a.big",
    ),
    case(
        "a filter that drops lines",
        "echo 'file filter=hide' >.gitattributes; git config filter.hide.clean 'sed /hidden/d'
         git config filter.hide.smudge cat; printf 'two\\nhidden\\n' >file",
        "git checkout --quiet -- file; rm .gitattributes",
    ),
    case("a file that is to be added", "echo x >new; git add --intent-to-add new", "git reset --quiet; rm new"),
    case("a file that is removed from the index only", "git rm --quiet --cached file; echo two >file", "rm file"),
    case("an ignored file that was staged", "echo x >a.out; git add --force a.out; echo y >a.out", "git reset --quiet --hard"),
    then(
        "a merge with conflicts",
        "echo two >file; git commit --quiet -am two; git -C $T/app switch --quiet -c theirs; echo other >$T/app/file
         git -C $T/app commit --quiet -am other; git merge --quiet theirs >/dev/null || true",
        "git merge --abort",
        "grep -q '<<<<<<<' file",
    ),
    then(
        "a rebase with conflicts",
        "echo two >file; git commit --quiet -am two; git rev-parse HEAD >$T/commit; git -C $T/app switch --quiet -c theirs
         echo other >$T/app/file; git -C $T/app commit --quiet -am other; git rebase --quiet theirs >/dev/null 2>&1 || true",
        "git rebase --abort",
        "grep -q '<<<<<<<' file; git rev-parse --verify --quiet $(cat $T/commit)",
    ),
    then(
        "what a rebase has stashed",
        "echo two >file; git commit --quiet -am two; echo page2 >docs/page; git -C $T/app switch --quiet -c theirs
         echo other >$T/app/file; git -C $T/app commit --quiet -am other
         git rebase --quiet --autostash theirs >/dev/null 2>&1 || true
         cat $(git rev-parse --git-dir)/rebase-merge/autostash >$T/commit",
        "git rebase --quit; git stash clear; git gc --quiet --prune=now",
        IS_HELD,
    ),
    named(
        "changes in a submodule",
        "git -c protocol.file.allow=always submodule --quiet add $T/app within; git commit --quiet -m within
         echo x >within/file; echo two >file",
        "git checkout --quiet .; rm -rf within",
        &[("changes in the submodule within", "within/")],
    ),
    named(
        "a nested repository",
        "git init --quiet nested; echo x >nested/x; git init --quiet filled; cd filled; echo x >x; git add .
         git -c user.name=a -c user.email=b commit --quiet -m x; cd ..; echo two >file",
        "git checkout --quiet .; rm -rf nested filled",
        &[("the repository nested/", "nested/"), ("the repository filled/", "filled/")],
    ),
    named(
        "a repository in a directory that is committed",
        "git init --quiet docs; echo x >docs/new; echo two >docs/page",
        "rm -rf docs",
        &[("the repository in docs", "docs/.git")],
    ),
    named(
        "a file that git ignores",
        "echo x >a.out; echo two >file",
        "git clean --quiet -fdx; git checkout --quiet .",
        &[("a.out, which git ignores", "a.out")],
    ),
    named(
        "a large file",
        "mkdir deep; head -c 2000 /dev/zero >deep/large; echo two >file",
        "rm -r deep; git checkout --quiet .",
        &[("the file deep/large, which is too large", "deep/large")],
    ),
    named(
        "an empty directory",
        "mkdir empty; echo two >file",
        "rmdir empty; git checkout --quiet .",
        &[("the empty directory empty/", "empty/")],
    ),
    case("an index that another process has locked", "echo two >file; : >$(git rev-parse --git-dir)/index.lock", "rm file"),
    case("an index that is broken", "echo two >file; echo x >new; rm $(git rev-parse --git-dir)/index", "rm file new"),
    case("a branch without a commit", "git switch --quiet --orphan fresh; echo x >new; git add new; echo y >other", "rm new other"),
    case("a stash", "echo stashed >file; git stash --quiet; echo two >file", "git checkout --quiet ."),
    case("settings that hide files", "git config status.showUntrackedFiles no; git config core.ignoreCase true; echo x >new; echo y >FILE", "rm new FILE"),
    case("a setting that removes what is deleted only", "git config core.excludesFile $T/none; git config add.ignoreErrors false; echo x >new", "rm new"),
    case("a split index", "git update-index --split-index; echo two >file; git add file; echo three >file", "git reset --quiet --hard"),
];

#[tokio::test]
async fn no_work_is_lost() {
    let mut wrong = Vec::new();
    for case in CASES {
        if let Err(why) = lose(case).await {
            wrong.push(format!("{}: {why}", case.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn lose(case: &Case) -> Result<(), String> {
    let repository = Repository::new();
    let worked = repository.run("member", case.work);
    if !worked.status.success() {
        return Err(format!("the work: {}", String::from_utf8_lossy(&worked.stderr)));
    }
    let (place, main) = (repository.place("member").await, repository.place("app").await);
    let before = files(&place.root);
    let users = repository.users("member");
    let kept = salvage_up_to(&place, "Backend", "a turn\n\nHead: none", &repository.index(), 1000).await?;
    let kept = kept.ok_or("nothing was kept")?;
    if repository.users("member") != users {
        return Err(format!("{users:#?} became {:#?}", repository.users("member")));
    }
    let again = salvage_up_to(&place, "backend", "again", &repository.index(), 1000).await?;
    if let Some(again) = again {
        return Err(format!("it was kept twice: {kept:?}, {again:?}"));
    }
    if list(&main, Some("BACKEND")).await? != [kept.clone()] {
        return Err(format!("listed: {:?}, kept: {kept:?}", list(&main, None).await?));
    }
    let damaged = repository.run("member", case.damage);
    if !damaged.status.success() {
        return Err(format!("the damage: {}", String::from_utf8_lossy(&damaged.stderr)));
    }
    let branches = repository.script("app", "git branch; git status --porcelain");
    let back = repository.path("back");
    restore(&main, &kept.reference, &back, "restored").await?;
    let is_left_out = |path: &[u8]| case.left_out.iter().any(|(_, left_out)| path.starts_with(left_out.as_bytes()));
    let mut expected = before;
    expected.retain(|path, _| !is_left_out(path));
    let mut restored = files(&back);
    if case.what.contains("sparse") {
        restored.retain(|path, _| expected.contains_key(path));
    }
    if restored != expected {
        return Err(format!("{expected:?} became {restored:?}"));
    }
    let missing = case.left_out.iter().find(|(words, _)| !kept.left_out.iter().any(|found| found == words));
    if missing.is_some() || kept.left_out.len() != case.left_out.len() {
        return Err(format!("left out: {:?}", kept.left_out));
    }
    let then = format!(
        "REF={}; git status >/dev/null; test \"$(git branch --show-current)\" = restored; {}",
        kept.reference, case.then
    );
    let output = repository.run("back", &then);
    if !output.status.success() {
        return Err(format!("{then}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let after = repository.script("app", "git branch | grep -v restored; git status --porcelain");
    if after != branches {
        return Err(format!("{branches} became {after}"));
    }
    let checked = repository.run("app", "git fsck --strict --no-dangling 2>&1");
    if !checked.status.success() {
        return Err(String::from_utf8_lossy(&checked.stdout).into_owned());
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_kept_of_commits_of_the_base_branch_alone() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    let keep = async || salvage(&place, "backend", "", &repository.index()).await.expect("salvaged");
    assert_eq!(keep().await, None);
    repository.script("member", "git commit --quiet --allow-empty -m x");
    assert!(keep().await.is_some_and(|kept| kept.left_out.is_empty()));
    assert_eq!(keep().await, None);
    repository.script("app", "git merge --quiet --ff-only teamwire/backend");
    assert_eq!(keep().await, None);
}

#[tokio::test]
async fn a_private_index_stays_right_while_head_moves() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    for script in [
        "echo x >new; echo y >other",
        "git add .; git commit --quiet -m both; rm other",
        "git reset --quiet --hard main; echo z >late",
        "git switch --quiet -c topic main; git rm --quiet file; git commit --quiet -m gone",
        "echo new >>.gitignore; rm -f late",
        "head -c 2000 /dev/zero >new; echo '' >.gitignore",
    ] {
        repository.script("member", script);
        let kept = salvage_up_to(&place, "backend", "", &repository.index(), 1000).await.expect(script).expect(script);
        let fresh = repository.path("fresh-index");
        let _ = fs::remove_file(&fresh);
        let fresh = salvage_up_to(&place, "other", "", &fresh, 1000).await.expect(script).expect(script);
        assert_eq!((kept.tree, kept.left_out), (fresh.tree, fresh.left_out), "{script}");
    }
}

#[tokio::test]
async fn many_keep_states_at_once_and_a_lock_of_the_private_index_does_not_matter() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    repository.script("member", "echo two >file");
    let members = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let index = repository.index();
    let all: tokio::task::JoinSet<_> = members
        .into_iter()
        .map(|member| {
            let (place, index) = (place.clone(), index.clone());
            async move { salvage(&place, member, "", &index).await }
        })
        .collect();
    let kept = all.join_all().await;
    assert!(kept.iter().all(|kept| kept.as_ref().is_ok_and(Option::is_some)), "{kept:?}");
    repository.script("member", "echo three >file; : >$T/private-index.lock");
    assert!(salvage(&place, "a", "", &index).await.expect("kept").is_some());
    assert!(repository.path("private-index.lock").exists());
}

#[tokio::test]
async fn names_of_members_cannot_leave_their_refs() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    for (number, member) in ["a..b", "a.lock", "a.", "../main", "@{0}", "a b~^:?*[\\"].iter().enumerate() {
        repository.script("member", &format!("echo {number} >file"));
        let kept = salvage(&place, member, "", &repository.index()).await.expect(member).expect(member);
        assert!(kept.reference.starts_with(&format!("refs/teamwire/salvage/{}/", as_branch(member))));
        assert_eq!(list(&place, Some(member)).await, Ok(vec![kept]));
    }
    repository.script("member", "git fsck --strict --no-dangling");
}

#[tokio::test]
async fn the_newest_salvages_stay_and_old_ones_go() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    let head = repository.script("member", "git rev-parse HEAD");
    let at = |day: usize, number: usize| {
        format!("refs/teamwire/salvage/backend/202610{day:02}T0000{:02}.{:03}Z", number / 1000, number % 1000)
    };
    let create =
        |day, count| -> String { (0..count).map(|number| format!("create {} {head}\n", at(day, number))).collect() };
    fs::write(repository.path("refs"), create(1, 60) + &create(20, 530)).expect("written");
    repository.script("app", "git update-ref --stdin <$T/refs");
    let now: Timestamp = "2026-10-21T00:00:00Z".parse().expect("a time");
    assert_eq!(prune_at(&place, "backend", now).await, Ok(90));
    assert_eq!(list(&place, None).await.map(|all| all.len()), Ok(KEPT_MAX));
    let later: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a time");
    assert_eq!(prune_at(&place, "backend", later).await, Ok(KEPT_MAX - KEPT_MIN));
    assert_eq!(list(&place, None).await.expect("listed")[0].reference, at(20, 529));
    assert_eq!((purge(&place, Some("other")).await, purge(&place, None).await), (Ok(0), Ok(KEPT_MIN)));
    assert_eq!(list(&place, None).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_restore_replaces_nothing() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    repository.script("member", "echo two >file");
    let kept = salvage(&place, "backend", "", &repository.index()).await.expect("kept").expect("kept");
    fs::create_dir(repository.path("there")).expect("created");
    let before = repository.script("app", "git worktree list; git branch");
    for (what, directory, branch, words) in [
        (kept.reference.as_str(), "there", "new", "exists"),
        (&kept.reference, "back", "main", "The branch main exists"),
        (&kept.reference, "back", "a..b", "no name for a branch"),
        ("main", "back", "new", "main is no salvage"),
        ("refs/heads/main", "back", "new", "no salvage"),
        ("--all", "back", "new", "no salvage"),
    ] {
        let why = restore(&place, what, &repository.path(directory), branch).await.expect_err(what);
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(repository.script("app", "git worktree list; git branch"), before);
    restore(&place, &kept.commit, &repository.path("back"), "new").await.expect("restored");
}

#[tokio::test]
async fn an_old_git_keeps_and_restores() {
    let repository = Repository::new();
    let program = repository.old_git();
    let place = Place::find_with(program.as_os_str(), &repository.path("member")).await.expect("found").expect("found");
    repository.script("member", "echo two >file");
    let kept = salvage(&place, "backend", "", &repository.index()).await.expect("kept").expect("kept");
    restore(&place, &kept.reference, &repository.path("back"), "new").await.expect("restored");
    assert_eq!(repository.script("back", "cat file"), "two");
}

#[tokio::test]
async fn neither_hooks_nor_monitors_of_the_user_run() {
    let repository = Repository::new();
    repository.script(
        "app",
        "mkdir -p .git/hooks; for hook in post-checkout post-commit post-index-change post-merge pre-commit reference-transaction; do
             printf '#!/bin/sh\necho %s >>%s/ran\n' $hook $T >.git/hooks/$hook; chmod +x .git/hooks/$hook
         done; git config core.fsmonitor .git/hooks/pre-commit; git config commit.gpgSign true
         git config gpg.program .git/hooks/pre-commit; git config diff.external .git/hooks/pre-commit",
    );
    let place = repository.place("member").await;
    fs::write(repository.path("member/file"), "two\n").expect("written");
    let kept = salvage(&place, "backend", "", &repository.index()).await.expect("kept").expect("kept");
    restore(&place, &kept.reference, &repository.path("back"), "new").await.expect("restored");
    crate::work::survey::survey(&place, None, &repository.index()).await.expect("surveyed");
    let order = crate::work::merge::Order {
        commit: kept.commit,
        into: "main".to_owned(),
        message: String::new(),
        squash: true,
        check: Some("true".to_owned()),
        check_timeout: std::time::Duration::from_secs(60),
        author: None,
    };
    assert!(crate::work::merge::merge(&place, order).await.is_ok_and(|done| done.updated_checkout));
    assert!(!repository.path("ran").exists(), "{:?}", fs::read_to_string(repository.path("ran")));
}
