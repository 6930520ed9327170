//! Which files tasks will change: claims that overlap are warned of, or refused.

use teamwire_proto::{Reason, v1};

use crate::{board::*, team::*};

fn changing(paths: &[&str], exclusive: bool) -> v1::CreateTaskRequest {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    v1::CreateTaskRequest { paths, exclusive, ..task("change") }
}

#[tokio::test]
async fn a_claim_that_overlaps_is_warned_of() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    for paths in [&["src/login/**"][..], &["src/*/mod.rs", "docs"], &["tests"], &[]] {
        t.add(changing(paths, false)).await;
    }
    assert_eq!(t.try_claim(&ann, 1).await.unwrap().warnings, Vec::<String>::new());
    let warned = t.try_claim(&bob, 2).await.unwrap().warnings;
    assert!(warned.len() == 1 && warned[0].contains("ann works on task 1, which changes src/login/**"), "{warned:?}");
    assert!(t.try_claim(&bob, 3).await.unwrap().warnings.is_empty());
    assert!(t.try_claim(&bob, 4).await.unwrap().warnings.is_empty());
}

#[tokio::test]
async fn an_exclusive_claim_excludes_others_until_it_ends() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    t.add(changing(&["src"], true)).await;
    t.add(changing(&["src/a.rs"], false)).await;
    t.add(changing(&["docs/a.md"], false)).await;
    let token = t.claim(&ann, 1).await;
    let refusal = t.refused(t.try_claim(&bob, 2), Reason::PathsClaimed.code(), Reason::PathsClaimed, "task_id").await;
    assert_eq!((refusal.metadata["task_id"].as_str(), refusal.metadata["owner"].as_str()), ("1", "ann"));
    assert_eq!(t.next(&bob).await, Some(3), "the next task that nothing excludes");
    assert_eq!(t.next(&eve).await, None);
    t.try_release(&ann, 1, &token).await.unwrap();
    assert_eq!(t.next(&eve).await, Some(1));
    t.leave(&eve).await;
    // It works the other way round, too.
    t.claim(&bob, 2).await;
    t.refused(t.try_claim(&ann, 1), Reason::PathsClaimed.code(), Reason::PathsClaimed, "task_id").await;
}

#[tokio::test]
async fn what_is_no_pattern_is_refused_and_paths_can_be_changed() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    for paths in [&["/etc"][..], &[".."], &["a/./b"], &[""]] {
        t.refused(t.try_add(&ann, changing(paths, false)), Reason::InvalidField.code(), Reason::InvalidField, "paths")
            .await;
    }
    let many: Vec<String> = (0..33).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    t.refused(t.try_add(&ann, changing(&many, false)), Reason::InvalidField.code(), Reason::InvalidField, "paths")
        .await;
    t.add(changing(&["a", "b/"], false)).await;
    t.add(changing(&["c"], true)).await;
    assert_eq!(t.task(1).await.paths, ["a", "b"]);
    let changed =
        v1::UpdateTaskRequest { add_paths: vec!["c/d".to_owned()], remove_paths: vec!["a".to_owned()], ..change(1) };
    assert_eq!(t.update(changed).await.paths, ["b", "c/d"]);
    t.claim(&ann, 1).await;
    t.refused(t.try_claim(&bob, 2), Reason::PathsClaimed.code(), Reason::PathsClaimed, "task_id").await;
    t.update(v1::UpdateTaskRequest { exclusive: Some(false), ..change(2) }).await;
    assert_eq!(t.try_claim(&bob, 2).await.unwrap().warnings.len(), 1);
}
