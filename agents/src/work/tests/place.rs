//! Where a working tree is, and what its repository is called.

use super::*;

#[tokio::test]
async fn one_repository_has_one_id_whatever_leads_there() {
    let repository = Repository::new();
    let place = repository.place("member").await;
    let root = repository.script("app", "git rev-list --max-parents=0 main");
    assert_eq!(place.repository_id().await, Ok(Some(format!("root:{root}"))));
    repository.script("app", "git remote add origin x");
    for (address, id) in [
        ("https://GitHub.com/acme/App.git", "github.com/acme/App"),
        ("https://user:secret@github.com/acme/App/", "github.com/acme/App"),
        ("git@github.com:acme/App.git", "github.com/acme/App"),
        ("github.com:/acme/App", "github.com/acme/App"),
        ("ssh://git@github.com:22/acme/App.git", "github.com/acme/App"),
        ("https://github.com:8443/acme/App", "github.com:8443/acme/App"),
        ("git://github.com/acme/App?x=1", "github.com/acme/App"),
    ] {
        repository.script("app", &format!("git remote set-url origin '{address}'"));
        assert_eq!(place.repository_id().await, Ok(Some(id.to_owned())), "{address}");
    }
    for directory in ["/srv/app.git", "../app", "file:///srv/app.git", "./a:b"] {
        repository.script("app", &format!("git remote set-url origin '{directory}'"));
        assert_eq!(place.repository_id().await, Ok(Some(format!("root:{root}"))), "{directory}");
    }
    repository.script(".", "git init --quiet empty");
    assert_eq!(repository.place("empty").await.repository_id().await, Ok(None));
    repository.script(".", "git clone --quiet --depth 1 file://$T/app shallow");
    assert_eq!(repository.place("shallow").await.repository_id().await, Ok(None));
}

#[tokio::test]
async fn a_working_tree_is_found_from_anywhere_in_it_with_its_branch_and_its_base() {
    let repository = Repository::new();
    let place = Place::find(&repository.path("member/docs")).await.expect("found").expect("a working tree");
    assert_eq!(place, repository.place("member").await);
    assert_eq!(place.root, repository.path("member").canonicalize().expect("a path"));
    assert_eq!(place.common_directory, repository.path("app/.git").canonicalize().expect("a path"));
    assert!(place.git_directory.ends_with(".git/worktrees/member"));
    assert_eq!(place.branch().await, Ok(Some("teamwire/backend".to_owned())));
    assert_eq!(place.base_branch().await, Ok(Some("main".to_owned())));
    assert_eq!(place.head().await, Ok(Some(repository.script("app", "git rev-parse main"))));

    let main = repository.place("app").await;
    assert_eq!(main.base_branch().await, Ok(None));
    repository.script("app", "git clone --quiet . ../clone");
    assert_eq!(repository.place("clone").await.base_branch().await, Ok(Some("origin/main".to_owned())));
    repository.script("member", "git checkout --quiet --detach");
    assert_eq!(place.branch().await, Ok(None));

    repository.script(".", "git init --quiet --bare bare.git; mkdir plain; git init --quiet 'a\nb '");
    for none in ["bare.git", "plain", "app/.git"] {
        assert_eq!(Place::find(&repository.path(none)).await, Ok(None), "{none}");
    }
    assert!(repository.place("a\nb ").await.root.ends_with("a\nb "));
    let missing = Place::find(&repository.path("missing")).await.expect_err("missing");
    assert!(missing.starts_with("git rev-parse in ") && missing.contains("missing"), "{missing}");
}

#[tokio::test]
async fn different_names_of_members_make_different_branches_that_git_accepts() {
    let names =
        ["a.b", "a..b", "a...b", "a....b", "a.lock", "a.", "a..", "a..lock", "a.%", ".a", "@", "a b", "ä", "-", "."];
    let branches: std::collections::BTreeSet<String> = names.iter().map(|name| as_branch(name)).collect();
    assert_eq!(branches.len(), names.len());
    assert_eq!((as_branch("a.b"), as_branch("Backend.LOCK")), ("a.b".to_owned(), as_branch("backend.lock")));
    let repository = Repository::new();
    for branch in branches {
        assert_eq!(as_branch(&branch), branch);
        repository.script("app", &format!("git check-ref-format 'refs/teamwire/salvage/{branch}/x'"));
        repository.script("app", &format!("git check-ref-format 'refs/heads/teamwire/{branch}'"));
    }
}
