//! Two members that change the same file.

use std::time::Duration;

use teamwire_proto::v1::{self, NoticeKind};

use crate::team::*;

const SHOP: &str = "example.com/shop";

async fn change(t: &Team, who: &Member, repository: &str, paths: &[&str]) {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let changed = Some(v1::ChangedFiles { repository: repository.to_owned(), paths });
    let request = v1::ReportActivityRequest { changed, ..Default::default() };
    t.coordinator.report_activity(&who.who, &request).await.unwrap();
}

async fn told(t: &Team, who: &Member) -> Vec<(String, String)> {
    let notices = t.notices(who, NoticeKind::SameFiles).await;
    notices.into_iter().map(|notice| (notice.member, notice.text)).collect()
}

#[tokio::test]
async fn both_and_the_lead_learn_it_once_with_who_and_which_task() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.add_some(1).await;
    t.claim(&ann, 1).await;
    change(&t, &ann, SHOP, &["src/lib.rs", "a.rs"]).await;
    change(&t, &bob, "example.com/other", &["src/lib.rs"]).await;
    change(&t, &bob, SHOP, &["b.rs"]).await;
    assert!(told(&t, &bob).await.is_empty() && told(&t, &ann).await.is_empty());
    change(&t, &bob, SHOP, &["src/lib.rs", "b.rs"]).await;
    change(&t, &ann, SHOP, &["src/lib.rs"]).await;
    let (to_ann, to_bob, to_lead) = (told(&t, &ann).await, told(&t, &bob).await, told(&t, &t.lead).await);
    assert!(matches!(&to_ann[..], [(about, text)] if about == "bob" && text.contains("src/lib.rs")), "{to_ann:?}");
    assert!(matches!(&to_bob[..], [(about, text)] if about == "ann" && text.contains("ann (task 1: ")), "{to_bob:?}");
    assert!(matches!(&to_lead[..], [(about, _)] if about == "ann, bob"), "{to_lead:?}");
    assert!(!to_bob[0].1.contains("\"b.rs"), "{to_bob:?}");
}

#[tokio::test]
async fn a_merged_or_reverted_or_old_change_does_not_count() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    change(&t, &ann, SHOP, &["merged.rs", "open.rs"]).await;
    let work = v1::Work {
        repository: SHOP.to_owned(),
        files: 1,
        paths: vec!["open.rs".to_owned()],
        head: "c".to_owned(),
        ..Default::default()
    };
    let request = v1::ReportActivityRequest { work: Some(work), ..Default::default() };
    t.coordinator.report_activity(&ann.who, &request).await.unwrap();
    change(&t, &bob, SHOP, &["merged.rs"]).await;
    assert!(told(&t, &bob).await.is_empty(), "it is merged");
    t.pass_and_run_due(Duration::from_secs(31 * 60), &[&ann, &bob]).await;
    change(&t, &bob, SHOP, &["open.rs"]).await;
    assert!(told(&t, &bob).await.is_empty(), "it is long ago");
    change(&t, &ann, SHOP, &["open.rs"]).await;
    assert_eq!(told(&t, &bob).await.len(), 1);
}

#[tokio::test]
async fn many_files_are_one_notice() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let files: Vec<String> = (0..300).map(|number| format!("f{number:03}.rs")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    change(&t, &ann, SHOP, &files).await;
    change(&t, &bob, SHOP, &files).await;
    let told = told(&t, &bob).await;
    assert!(matches!(&told[..], [(_, text)] if text.contains("\"f009.rs\" and 290 more files")), "{told:?}");
}
