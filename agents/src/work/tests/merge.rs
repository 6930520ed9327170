//! Merges, and why there are none.

use std::{ffi::OsString, time::Duration};

use super::{
    super::{
        check::visible,
        merge::{Merged, Order, Unmerged, merge},
    },
    *,
};

fn order() -> Order {
    Order {
        commit: "teamwire/backend".to_owned(),
        into: "main".to_owned(),
        message: "Merge teamwire/backend".to_owned(),
        squash: false,
        check: None,
        check_timeout: Duration::from_secs(60),
        author: None,
    }
}

fn checked(check: &str) -> Order {
    Order { check: Some(check.to_owned()), ..order() }
}

/// Returns a repository whose member has committed, and in which nothing has `main` checked out.
fn committed(work: &str) -> Repository {
    let repository = Repository::new();
    repository.script("member", &format!("{work}; git add --all; git commit --quiet -m work"));
    repository.script("app", "git switch --quiet --detach");
    repository
}

async fn merged(repository: &Repository, order: Order) -> Result<Merged, Unmerged> {
    merge(&repository.place("member").await, order).await
}

#[tokio::test]
async fn a_merge_is_a_commit_with_two_parents_that_says_what_was_merged() {
    let repository = committed("echo two >file; chmod +x file; ln -s file link; git mv docs/page docs/Page");
    let users = repository.users("member");
    let done = merged(&repository, order()).await.expect("merged");
    assert_eq!((done.was_merged_already, done.updated_checkout, done.branch.as_str()), (false, false, "main"));
    assert_eq!(
        repository.script("app", "git log --format='%an <%ae> %s %p' -1 main | cut -d' ' -f1-4"),
        "a <a@example.com> Merge teamwire/backend"
    );
    assert_eq!(repository.script("app", "git rev-list --count main^2; git diff main teamwire/backend"), "2");
    assert_eq!(repository.script("app", "git log -g --format=%gs -1 main"), "teamwire: merge");
    let after = repository.users("member");
    assert_eq!((&after[0], &after[3..],), (&users[0], &users[3..]));
    let again = merged(&repository, order()).await.expect("there already");
    assert_eq!(again, Merged { was_merged_already: true, ..done });
    repository.script("app", "git fsck --strict --no-dangling");
}

#[tokio::test]
async fn a_squashed_merge_has_one_parent_and_the_author_that_was_named() {
    let repository = committed("echo two >file");
    repository.script("app", "git config user.email ''");
    let squash = || Order {
        squash: true,
        author: Some("Backend <b@example.com>".to_owned()),
        message: String::new(),
        ..order()
    };
    let done = merged(&repository, squash()).await.expect("merged");
    let shown = repository.script("app", "git log --format='%an %ae %cn %s' -1 main; git rev-list --count main");
    let member = repository.script("member", "git rev-parse HEAD");
    assert_eq!(shown, format!("Backend b@example.com teamwire Merge {member} into main\n2"));
    let again = merged(&repository, squash()).await.expect("there already");
    assert!(again.was_merged_already && again.commit == done.commit);
}

#[tokio::test]
async fn conflicts_are_named_and_change_nothing() {
    let repository = committed("echo two >file; echo x >'a b'; echo mine >docs/page");
    repository.script("app", "git switch --quiet main; echo three >file; rm docs/page; git commit --quiet -am three; git switch --quiet --detach");
    let before = repository.users("app");
    let conflicts = Unmerged::Conflicts(vec!["docs/page".to_owned(), "file".to_owned()]);
    assert_eq!(merged(&repository, order()).await, Err(conflicts));
    assert_eq!(repository.users("app"), before);
}

#[tokio::test]
async fn what_cannot_be_merged_says_why() {
    let repository = committed("echo two >file");
    repository.script(
        "app",
        "git branch unrelated $(git commit-tree -m x 'main^{tree}'); git symbolic-ref refs/heads/alias refs/heads/main",
    );
    for (commit, into, words) in [
        ("unrelated", "main", "unrelated histories"),
        ("missing", "main", "has no commit missing"),
        ("teamwire/backend", "missing", "has no branch missing"),
        ("teamwire/backend", "alias", "another name"),
        ("--all", "main", "has no commit --all"),
    ] {
        let order = Order { commit: commit.to_owned(), into: into.to_owned(), ..order() };
        let Err(Unmerged::Failed(why)) = merged(&repository, order).await else { panic!("{commit}") };
        assert!(why.contains(words), "{why}");
    }
    let old = repository.old_git();
    let place = Place::find_with(old.as_os_str(), &repository.path("member")).await.expect("found").expect("found");
    let why = "git 2.38 or later is needed for a merge; this is git 2.30.2".to_owned();
    assert_eq!(merge(&place, order()).await, Err(Unmerged::Failed(why)));
}

#[tokio::test]
async fn a_clean_checkout_of_the_branch_comes_along() {
    let repository = committed("echo two >file; rm -r docs; mkdir new; echo x >new/a");
    repository.script("app", "git switch --quiet main; echo mine >notes; echo x >a.out");
    let done = merged(&repository, order()).await.expect("merged");
    assert!(done.updated_checkout);
    assert_eq!(
        repository.script("app", "git status --porcelain; cat file new/a notes a.out; test ! -e docs"),
        "?? notes\ntwo\nx\nmine\nx"
    );
    assert_eq!(
        repository.script("app", "git log -g --format=%gs -1 HEAD; git rev-parse HEAD"),
        format!("teamwire: merge\n{}", done.commit)
    );
}

#[tokio::test]
async fn a_checkout_that_is_not_clean_stays_as_it_is_and_so_does_the_branch() {
    for (what, script, words) in [
        ("an edit", "echo mine >tool", "tool"),
        ("an edit of what is merged", "echo mine >file", "file"),
        ("a staged edit", "echo mine >tool; git add tool", "tool"),
        ("a deletion", "rm tool", "tool"),
        ("a file in the way", "echo mine >new", "new"),
        ("an ignored file in the way", "echo mine >b.out", "b.out"),
        ("an ignored file where a directory goes", "echo mine >deep.out", "deep.out"),
        ("an ignored directory where a file goes", "mkdir b.out; echo mine >b.out/x", "b.out/x"),
        ("an edit that is assumed away", "git update-index --assume-unchanged file; echo mine >file", "file"),
        ("an edit that is skipped", "git update-index --skip-worktree file; echo mine >file", "file"),
        ("a merge", "git merge --quiet --no-commit --no-ff side >/dev/null", "a merge is under way"),
        (
            "a rebase",
            "git checkout --quiet -b x; git switch --quiet main; GIT_SEQUENCE_EDITOR='echo break >' git rebase --quiet -i HEAD~ 2>/dev/null",
            "a rebase of the branch",
        ),
        ("a lock", ": >.git/index.lock", "index.lock"),
        ("two checkouts", "git worktree add --quiet --force ../second main", "more than one"),
    ] {
        let repository = committed(
            "echo two >file; echo x >new; echo x >b.out; mkdir deep.out; echo x >deep.out/x; git add --force b.out deep.out",
        );
        repository.script("app", "git switch --quiet main; git commit --quiet --allow-empty -m x; git branch side $(git commit-tree -p HEAD~ -m side 'HEAD^{tree}')");
        repository.script("app", script);
        let (before, bytes) = (repository.users("app"), files(&repository.path("app")));
        let result = merged(&repository, order()).await;
        let Err(Unmerged::Checkout { directory, why }) = result else { panic!("{what}: {result:?}") };
        assert!(why.contains(words), "{what}: {why}");
        assert!(directory.exists(), "{what}");
        assert_eq!((repository.users("app"), files(&repository.path("app"))), (before, bytes), "{what}");
    }
}

#[tokio::test]
async fn a_check_decides_and_its_output_is_kept() {
    let repository = committed("echo two >file");
    let before = repository.users("app");
    let failed = merged(&repository, checked("seq 10000; cat file; echo wrong >&2; touch left; exit 3")).await;
    let Err(Unmerged::CheckFailed { output_tail, how }) = failed else { panic!("{failed:?}") };
    assert_eq!(how, "it ended with code 3");
    assert!(output_tail.ends_with("\n10000\ntwo\nwrong\n") && output_tail.len() <= OUTPUT_TAIL_BYTES, "{output_tail}");
    assert_eq!(repository.users("app"), before);
    let done = merged(&repository, checked("grep -q two file && git log -1 --format=%s | grep -q Merge")).await;
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(repository.script("app", "git worktree list | wc -l; ls .git/worktrees"), "2\nmember");
}

#[tokio::test]
async fn a_check_that_hangs_ends_with_all_that_it_has_started() {
    let repository = committed("echo two >file");
    let pids = repository.path("pids");
    let background = format!(
        "(trap '' TERM; echo $$ >/dev/null; exec sleep 1000) & echo $! >>{0}; setsid sh -c 'echo $$ >>{0}; exec sleep 1000' &",
        pids.display()
    );
    let hang =
        Order { check_timeout: Duration::from_secs(2), ..checked(&format!("{background} echo begun; sleep 1000")) };
    let failed = merged(&repository, hang).await;
    let Err(Unmerged::CheckFailed { output_tail, how }) = failed else { panic!("{failed:?}") };
    assert_eq!((output_tail.as_str(), how.as_str()), ("begun\n", "it did not end within 2 s"));
    // What a check that succeeds leaves in the background ends, too.
    let done =
        merged(&repository, checked(&format!("{background} until test $(wc -l <{}) = 4; do :; done", pids.display())))
            .await;
    assert!(done.is_ok(), "{done:?}");
    let written = fs::read_to_string(pids).expect("written");
    assert_eq!(written.lines().count(), 4);
    for pid in written.lines() {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}

#[tokio::test]
async fn a_check_sees_no_credential() {
    let hidden = [
        "TEAMWIRE_CREDENTIAL",
        "teamwire_x",
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "PASSWORD_FILE",
        "SSH_AUTH_SOCK",
        "AWS_PROFILE",
        "GIT_DIR",
        "GIT_ASKPASS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NPM_CONFIG__AUTH",
    ];
    let shown = ["PATH", "HOME", "LANG", "CARGO_HOME", "HTTPS_PROXY", "KEYBOARD"];
    let all = hidden.iter().chain(&shown).map(|name| (OsString::from(name), OsString::from("x")));
    let seen: Vec<OsString> = visible(all).map(|(name, _)| name).collect();
    assert_eq!(seen, shown);
    let repository = committed("echo two >file");
    let wrong = "! env | grep -v ^TEAMWIRE_RUN= | grep -E '^(TEAMWIRE_|GIT_)' && test -n \"$PATH\"";
    let done = merged(&repository, checked(wrong)).await;
    assert!(done.is_ok(), "{done:?}");
}

#[tokio::test]
async fn a_person_who_commits_meanwhile_loses_nothing() {
    for checkout in ["git switch --quiet --detach", "git switch --quiet main"] {
        let repository = committed("echo two >file");
        repository.script("app", checkout);
        let app = repository.path("app").display().to_string();
        let person = format!(
            "unset GIT_DIR; cd {app}; n=$(git rev-list --count main)
             new=$(git commit-tree -p main -m person$n 'main^{{tree}}'); git update-ref refs/heads/main $new"
        );
        assert_eq!(merged(&repository, checked(&person)).await, Err(Unmerged::Moved));
        assert_eq!(
            repository.script("app", "git log --format=%s main; git status --porcelain"),
            "person3\nperson2\nperson1\nfirst"
        );
        // Once only.
        let once = format!("test -e {app}/../once || {{ touch {app}/../once; {person}; }}");
        let done = merged(&repository, checked(&once)).await.expect("merged");
        assert_eq!(
            repository.script("app", "git log --first-parent --format=%s main | head -2"),
            "Merge teamwire/backend\nperson4"
        );
        assert_eq!(done.updated_checkout, checkout.ends_with("main"));
        assert_eq!(repository.script("app", "git status --porcelain"), "");
    }
}

#[tokio::test]
async fn two_merges_at_once_wait_for_each_other() {
    let repository = committed("echo two >file");
    repository.script("app", "git switch --quiet -c topic main; echo x >topic; git add .; git commit --quiet -m topic; git switch --quiet main");
    let (one, other) = (repository.place("member").await, repository.place("app").await);
    let topic = Order {
        commit: "topic".to_owned(),
        message: "Merge topic".to_owned(),
        check: Some("test -e tool".to_owned()),
        ..order()
    };
    let (one, other) = tokio::join!(merge(&one, checked("test -e tool")), merge(&other, topic));
    assert!(one.is_ok_and(|done| done.updated_checkout) && other.is_ok_and(|done| done.updated_checkout));
    assert_eq!(
        repository.script("app", "git status --porcelain; cat file topic; git rev-list --count main"),
        "two\nx\n5"
    );
}

#[tokio::test]
async fn a_checkout_goes_back_if_the_branch_cannot_be_changed() {
    let repository = committed("echo two >file; echo x >new; rm tool");
    repository.script("app", "git switch --quiet main; : >.git/refs/heads/main.lock");
    let (before, bytes) = (repository.users("app"), files(&repository.path("app")));
    let Err(Unmerged::Failed(why)) = merged(&repository, order()).await else { panic!("it is locked") };
    assert!(why.contains("main.lock"), "{why}");
    assert_eq!((&repository.users("app")[..3], files(&repository.path("app"))), (&before[..3], bytes));
    repository.script("app", "rm .git/refs/heads/main.lock");
    assert!(merged(&repository, order()).await.is_ok_and(|done| done.updated_checkout));
}
