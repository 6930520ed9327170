//! Commits on their way to another machine.

use super::{
    super::bundle::{make, take, tips},
    *,
};

/// A repository, and a clone of it on another machine.
fn two_machines() -> Repository {
    let repository = Repository::new();
    repository.script(
        ".",
        "git clone --quiet app other; cd other; git config user.email a@example.com; git config user.name a",
    );
    repository
}

#[tokio::test]
async fn a_thin_bundle_brings_what_is_missing_once() {
    let repository = two_machines();
    repository.script("member", "echo two >file; git commit --quiet -am two");
    let (from, to) = (repository.place("member").await, repository.place("other").await);
    let file = repository.path("bundle");
    let mut have = tips(&to).await.expect("tips");
    have.extend(["0".repeat(40), "nonsense".to_owned(), "--all".to_owned()]);
    assert_eq!(make(&from, "teamwire/backend", &have, &file).await, Ok(true));
    let (users, commit) = (repository.users("other"), repository.script("member", "git rev-parse HEAD"));
    assert_eq!(take(&to, &file, "Backend", &commit).await, Ok("refs/teamwire/members/backend".to_owned()));
    assert_eq!(repository.script("other", "git show refs/teamwire/members/backend:file"), "two");
    assert_eq!(repository.users("other"), users);
    repository
        .script("other", "git fsck --strict --no-dangling; test ! -e .git/FETCH_HEAD; ! ls .git/objects | grep tmp");
    let have = tips(&to).await.expect("tips");
    assert!(have.contains(&commit));
    assert_eq!(make(&from, &commit, &have, &file).await, Ok(false));
    assert_eq!(repository.script("app", "git for-each-ref refs/teamwire"), "");
    // A whole repository, for a machine that has nothing.
    assert_eq!(make(&from, "HEAD", &[], &file).await, Ok(true));
    repository.script(".", "git init --quiet fresh");
    assert!(take(&repository.place("fresh").await, &file, "backend", &commit).await.is_ok());
}

#[tokio::test]
async fn a_hostile_bundle_changes_nothing() {
    let repository = two_machines();
    repository.script("member", "echo two >file; git commit --quiet -am two");
    let commit = repository.script("member", "git rev-parse HEAD");
    let place = repository.place("other").await;
    for (what, script, words) in [
        ("no bundle", "echo nonsense >bundle", "the line \"nonsense\""),
        ("nothing", ": >bundle", "no bundle"),
        ("another commit", "git -C app bundle create --quiet $T/bundle main", "and not"),
        ("a branch besides", "git -C app bundle create --quiet $T/bundle main teamwire/backend", "and not"),
        (
            "a tag",
            "git -C app tag -m x annotated teamwire/backend; git -C app rev-parse annotated >$T/commit
             git -C app bundle create --quiet $T/bundle annotated",
            "is no commit",
        ),
        ("broken objects", "git -C app bundle create --quiet $T/b main..teamwire/backend; head -c 300 b >bundle", ""),
        (
            "what its base has not",
            "git -C member commit --quiet --allow-empty -m x; git -C app bundle create --quiet $T/bundle teamwire/backend~..teamwire/backend",
            "",
        ),
        (
            "a commit without its files",
            "git -C member reset --quiet --hard HEAD~; printf '# v2 git bundle\n%s refs/heads/x\n\n' $COMMIT >bundle
             echo $COMMIT | git -C app pack-objects --quiet --stdout >>bundle",
            "",
        ),
        (
            "a tree that names .git",
            "cd member; blob=$(git hash-object -w file); tree=$(printf '100644 blob %s\\t.git\n' $blob | git mktree)
             git reset --quiet --soft $(git commit-tree -m x $tree); git rev-parse HEAD >$T/commit
             cd ..; git -C app bundle create --quiet $T/bundle teamwire/backend",
            "",
        ),
        (
            "a link in the place of .gitmodules",
            "cd member; blob=$(printf /etc/passwd | git hash-object -w --stdin)
             tree=$(printf '120000 blob %s\\t.gitmodules\n' $blob | git mktree)
             git reset --quiet --soft $(git commit-tree -m x $tree); git rev-parse HEAD >$T/commit
             cd ..; git -C app bundle create --quiet $T/bundle teamwire/backend",
            "",
        ),
    ] {
        let _ = fs::remove_file(repository.path("commit"));
        repository.script(".", &format!("COMMIT={commit}; {script}"));
        let commit = fs::read_to_string(repository.path("commit")).map_or(commit.clone(), |id| id.trim().to_owned());
        let state = "git for-each-ref; find .git -type f | sort | grep -v '/index$' | xargs cksum";
        let before = repository.script("other", state);
        let why = take(&place, &repository.path("bundle"), "backend", &commit).await.expect_err(what);
        assert!(why.contains(words) && (why.contains("git ") || why.contains("the bundle ")), "{what}: {why}");
        assert_eq!(repository.script("other", state), before, "{what}");
    }
    let why = take(&place, &repository.path("bundle"), "backend", "main").await.expect_err("a name");
    assert!(why.contains("no id of a commit"), "{why}");
}
