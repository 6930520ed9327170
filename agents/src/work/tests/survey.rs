//! What a member has changed.

use super::{
    super::{
        diff::{diff, log},
        survey::{Forecast, PATHS_MAX, forecast, survey, touched},
    },
    *,
};

#[tokio::test]
async fn a_survey_counts_commits_lines_and_paths_of_the_working_state() {
    let repository = Repository::new();
    repository.script(
        "member",
        "printf 'two\nthree\n' >file; git commit --quiet -am two; echo x >'a\nb'; git mv tool moved; rm -r docs",
    );
    repository.script("app", "git commit --quiet --allow-empty -m x; git commit --quiet --allow-empty -m y");
    let place = repository.place("member").await;
    let users = repository.users("member");
    let seen = survey(&place, None, &repository.index()).await.expect("surveyed");
    assert_eq!(repository.users("member"), users);
    assert_eq!((seen.branch.as_deref(), seen.base_branch.as_deref()), (Some("teamwire/backend"), Some("main")));
    assert_eq!(seen.base, Some(repository.script("app", "git rev-parse main~2")));
    assert_eq!((seen.ahead, seen.behind, seen.uncommitted), (1, 2, 4));
    assert_eq!((seen.files, seen.insertions, seen.deletions), (4, 3, 2));
    assert_eq!(seen.paths, ["a\nb", "docs/page", "file", "moved", "tool"]);
    assert_eq!((seen.paths_total, seen.forecast), (5, Forecast::Clean));
    assert_eq!(seen.repository, place.repository_id().await.expect("known"));
    repository.script("member", "git fsck --strict --no-dangling");
}

#[tokio::test]
async fn a_survey_names_a_bounded_number_of_paths() {
    let repository = Repository::new();
    repository.script("member", "mkdir many; cd many; seq 1100 | xargs touch");
    let seen = survey(&repository.place("member").await, None, &repository.index()).await.expect("surveyed");
    assert_eq!((seen.paths.len(), seen.paths_total, seen.uncommitted), (PATHS_MAX, 1100, 1100));
}

#[tokio::test]
async fn a_survey_without_a_base_or_a_commit_says_so() {
    let repository = Repository::new();
    repository.script(".", "git init --quiet empty; echo x >empty/new");
    let seen = survey(&repository.place("empty").await, None, &repository.path("a")).await.expect("surveyed");
    assert_eq!((seen.head, seen.base, seen.files, seen.uncommitted), (None, None, 1, 1));
    assert!(matches!(seen.forecast, Forecast::Unknown(_)));
    repository.script("app", "echo two >file");
    let seen = survey(&repository.place("app").await, None, &repository.path("b")).await.expect("surveyed");
    assert_eq!((seen.base_branch, seen.files), (None, 1));
    let seen = survey(&repository.place("app").await, Some("teamwire/backend"), &repository.path("b")).await;
    assert_eq!(seen.expect("surveyed").forecast, Forecast::Clean);
}

#[tokio::test]
async fn a_forecast_sees_uncommitted_conflicts_and_writes_nothing() {
    let repository = Repository::new();
    repository.script("app", "echo theirs >file; git commit --quiet -am theirs");
    repository
        .script("member", "echo ours >file; git mv docs/page docs/other; git commit --quiet -m moved; echo new >'a b'");
    let place = repository.place("member").await;
    let seen = survey(&place, None, &repository.index()).await.expect("surveyed");
    assert_eq!(seen.forecast, Forecast::Conflicts(vec!["file".to_owned()]));
    let count = "git count-objects -v; ls .git/objects | wc -l";
    let before = repository.script("app", count);
    assert_eq!(forecast(&place, "main", "teamwire/backend").await, Forecast::Clean);
    assert_eq!(repository.script("app", count), before);

    let unrelated = repository.script("app", "git commit-tree -m x 'main^{tree}'");
    let Forecast::Unknown(why) = forecast(&place, "main", &unrelated).await else { panic!("it is unrelated") };
    assert!(why.contains("unrelated histories"), "{why}");

    let old = repository.old_git();
    let place = Place::find_with(old.as_os_str(), &place.root).await.expect("found").expect("found");
    let why = "git 2.38 or later is needed for a forecast; this is git 2.30.2".to_owned();
    let seen = survey(&place, None, &repository.index()).await.expect("surveyed");
    assert_eq!((seen.forecast, seen.ahead), (Forecast::Unknown(why), 1));
}

#[tokio::test]
async fn what_programs_write_does_not_count_as_touched() {
    let repository = Repository::new();
    repository.script(
        "member",
        "printf '*.gen linguist-generated\\nCHANGES merge=union\\n*.png binary\\n' >.gitattributes
         mkdir deep; touch deep/Cargo.lock yarn.lock a.gen CHANGES a.png 'x\ny' FILE; chmod +x file; ln -s file link
         git add .; git commit --quiet -m x; git mv docs/page docs/Page; git commit --quiet -m y",
    );
    let place = repository.place("member").await;
    let paths = touched(&place, "main", "teamwire/backend").await.expect("compared");
    assert_eq!(paths, [".gitattributes", "FILE", "a.png", "docs/Page", "docs/page", "file", "link", "x\ny"]);
    assert_eq!(touched(&place, "main", "main").await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_diff_and_a_log_are_written_into_files_whatever_the_settings_are() {
    let repository = Repository::new();
    repository.script(
        "member",
        "git config diff.external 'touch $T/ran #'; git config diff.noprefix true; git config color.ui always
         git config log.showSignature true; git config diff.hide.textconv 'touch $T/ran #'; git config core.pager false
         echo '* diff=hide' >.gitattributes; echo two >file; printf 'a\\0b' >binary; git mv tool moved; git add .
         git commit --quiet -m subject -m body; git commit --quiet --allow-empty -m second",
    );
    let place = repository.place("member").await;
    let file = repository.path("out");
    let read = || fs::read_to_string(&file).expect("written");
    diff(&place, "main", "HEAD", false, &file).await.expect("written");
    let written = read();
    for part in
        ["--- a/file\n+++ b/file\n", "-one\n+two\n", "Binary files /dev/null and b/binary differ", "rename to moved"]
    {
        assert!(written.contains(part), "{written}");
    }
    let tree = repository.script("member", "git rev-parse 'HEAD^{tree}'");
    diff(&place, "main", &tree, true, &file).await.expect("written");
    assert!(read().contains("4 files changed") && read().contains("rename tool => moved"), "{}", read());
    log(&place, "main", "HEAD", &file).await.expect("written");
    assert_eq!(read().lines().count(), 2, "{}", read());
    assert!(read().ends_with(" a: subject\n") && !read().contains('\x1b'), "{}", read());
    let why = log(&place, "main", "--output=x", &file).await.expect_err("no commit");
    assert!(why.contains("no commit --output=x"), "{why}");
    assert!(!repository.path("ran").exists());
}
