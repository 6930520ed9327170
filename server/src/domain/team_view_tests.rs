use super::*;

fn name(text: &str) -> Name {
    Name::parse(text, "name").unwrap()
}

fn member(text: &str) -> Principal {
    Principal::Member { name: name(text), lead: false }
}

fn task(id: u64, subject: &str) -> (ItemKey, Item) {
    (ItemKey::Task(id), Item::Task(v1::Task { id, subject: subject.to_owned(), ..Default::default() }))
}

fn request(id: &str, approver: &str, state: v1::RequestState) -> (ItemKey, Item) {
    let request = v1::Request {
        id: id.to_owned(),
        member: "ann".to_owned(),
        approver: approver.to_owned(),
        state: state.into(),
        ..Default::default()
    };
    (ItemKey::Request(id.to_owned()), Item::Request(request))
}

fn put(view: &mut TeamView, (key, item): (ItemKey, Item)) {
    view.put(key, item);
}

/// Reads until caught up. Returns the frames' items and keys as text, and the position.
fn drain(view: &TeamView, from: Option<Position>, caller: &Principal) -> (bool, Vec<String>, Position) {
    let (mut reset, mut seen, mut from) = (false, Vec::new(), from);
    loop {
        let (changes, position) = view.read(from.as_ref(), caller);
        reset |= changes.reset;
        seen.extend(changes.items.iter().map(|item| match &**item {
            Item::Task(task) => format!("{}: {}", task.id, task.subject),
            Item::Request(request) => format!("{} {}", request.id, request.state().as_str_name()),
            Item::Member(member) => member.name.clone(),
            other => format!("{other:?}"),
        }));
        seen.extend(changes.removed.iter().map(|key| format!("-{key:?}")));
        if changes.caught_up {
            return (reset, seen, position);
        }
        from = Some(position);
    }
}

#[test]
fn a_reader_gets_a_snapshot_and_then_only_the_latest_states() {
    let mut view = TeamView::new(7);
    (1..4).for_each(|id| put(&mut view, task(id, "new")));
    let (reset, seen, position) = drain(&view, None, &Principal::Operator);
    assert_eq!((reset, seen), (true, vec!["1: new".to_owned(), "2: new".to_owned(), "3: new".to_owned()]));
    let (reset, seen, position) = drain(&view, Some(position), &Principal::Operator);
    assert_eq!((reset, seen.len()), (false, 0));
    for subject in ["new", "a", "b", "c"] {
        put(&mut view, task(1, subject));
    }
    view.remove(&ItemKey::Task(2));
    view.remove(&ItemKey::Task(9));
    let (reset, seen, position) = drain(&view, Some(position), &Principal::Operator);
    assert_eq!((reset, seen), (false, vec!["1: c".to_owned(), "-TaskId(2)".to_owned()]));
    // What is gone is in no snapshot.
    assert_eq!(drain(&view, None, &Principal::Operator).1, ["3: new", "1: c"]);
    put(&mut view, task(2, "again"));
    assert_eq!(drain(&view, Some(position), &Principal::Operator).1, ["2: again"]);
}

#[test]
fn a_token_resumes_at_its_position_and_one_from_another_view_or_viewer_starts_with_a_snapshot() {
    let mut view = TeamView::new(u64::MAX);
    put(&mut view, task(1, "new"));
    let (_, _, position) = drain(&view, None, &member("Ann.x"));
    let read = Position::parse(&position.token()).unwrap().unwrap();
    assert_eq!(read, position);
    assert!(!drain(&view, Some(read.clone()), &member("ann.x")).0);
    assert!(drain(&view, Some(read.clone()), &Principal::Observer).0, "another viewer");
    assert!(drain(&TeamView::new(2), Some(read), &member("ann.x")).0, "another view");
    assert_eq!(Position::parse(""), Ok(None));
    for wrong in ["7", "zz", &page::token("1.2"), &page::token("x.1.1.*"), &page::token("1.1.1.")] {
        assert_eq!(Position::parse(wrong).unwrap_err().field.as_deref(), Some("resume_token"), "{wrong}");
    }
}

#[test]
fn a_reader_that_misses_removals_which_the_view_has_forgotten_gets_a_new_snapshot() {
    let mut view = TeamView::new(1);
    (1..=2 * GONE_MAX as u64 + 1).for_each(|id| put(&mut view, task(id, "new")));
    let (_, _, early) = drain(&view, None, &Principal::Operator);
    (1..=GONE_MAX as u64).for_each(|id| view.remove(&ItemKey::Task(id)));
    let (reset, seen, late) = drain(&view, Some(early.clone()), &Principal::Operator);
    assert_eq!((reset, seen.len()), (false, GONE_MAX));
    view.remove(&ItemKey::Task(GONE_MAX as u64 + 1));
    let (reset, seen, _) = drain(&view, Some(early), &Principal::Operator);
    assert_eq!((reset, seen.len()), (true, GONE_MAX));
    let (reset, seen, _) = drain(&view, Some(late), &Principal::Operator);
    assert_eq!((reset, seen.len()), (false, 1));
    assert!(view.entries.len() <= 2 * GONE_MAX && view.changes.len() == view.entries.len());
}

#[test]
fn a_snapshot_that_is_read_while_items_change_ends_with_the_latest_states() {
    let mut view = TeamView::new(1);
    let count = FRAME_ITEMS_MAX as u64 + 10;
    (1..=count).for_each(|id| put(&mut view, task(id, "new")));
    let (first, position) = view.read(None, &Principal::Operator);
    assert!(first.reset && !first.caught_up && first.items.len() == FRAME_ITEMS_MAX);
    view.remove(&ItemKey::Task(1));
    put(&mut view, task(count, "changed"));
    let (_, seen, _) = drain(&view, Some(position), &Principal::Operator);
    assert_eq!(seen.len(), 11);
    assert_eq!(seen[9..], [format!("{count}: changed"), "-TaskId(1)".to_owned()]);
}

#[test]
fn a_frame_ends_before_it_is_too_large() {
    let mut view = TeamView::new(1);
    (1..=3).for_each(|id| put(&mut view, task(id, &"x".repeat(FRAME_BYTES_MAX / 2))));
    let (changes, _) = view.read(None, &Principal::Operator);
    assert_eq!((changes.items.len(), changes.caught_up), (1, false));
}

#[test]
fn a_teammate_sees_only_requests_that_concern_it_and_learns_when_one_no_longer_does() {
    use v1::RequestState::{Approved, Pending};
    let mut view = TeamView::new(1);
    put(&mut view, request("req_1", "bob", Pending));
    let (_, seen, of_bob) = drain(&view, None, &member("BOB"));
    assert_eq!(seen, ["req_1 REQUEST_STATE_PENDING"]);
    let (_, seen, of_eve) = drain(&view, None, &member("eve"));
    assert!(seen.is_empty());
    put(&mut view, request("req_1", "", Pending));
    assert_eq!(drain(&view, Some(of_bob.clone()), &member("bob")).1, ["-RequestId(\"req_1\")"]);
    assert!(drain(&view, Some(of_eve.clone()), &member("eve")).1.is_empty());
    let (key, decided) = request("req_1", "", Approved);
    view.end(key.clone(), decided.clone());
    view.end(key, decided);
    assert_eq!(drain(&view, Some(of_bob.clone()), &Principal::Observer).1.len(), 0, "in no snapshot");
    assert!(drain(&view, Some(of_eve), &member("eve")).1.is_empty());
    let (_, _, fresh) = drain(&view, None, &Principal::Observer);
    put(&mut view, request("req_2", "", Pending));
    let (key, decided) = request("req_2", "", Approved);
    view.end(key, decided);
    assert_eq!(drain(&view, Some(fresh.clone()), &Principal::Observer).1, ["req_2 REQUEST_STATE_APPROVED"]);
    // It was asked and decided between two reads of the team.
    let (key, decided) = request("req_3", "", Approved);
    view.end(key, decided);
    assert_eq!(drain(&view, Some(fresh), &Principal::Observer).1.len(), 2);
    assert!(drain(&view, None, &Principal::Observer).1.is_empty(), "in no snapshot");
}

#[test]
fn a_later_call_of_an_active_detached_member_is_not_a_change() {
    let mut view = TeamView::new(1);
    let called = |seconds, state: MemberState| {
        let since = prost_types::Timestamp { seconds, nanos: 0 };
        let mut ann = v1::Member { name: "ann".to_owned(), state_since: Some(since), ..Default::default() };
        (ann.liveness, ann.state) = (Liveness::Detached.into(), state.into());
        (ItemKey::Member("ann".to_owned()), Item::Member(ann))
    };
    put(&mut view, called(1, MemberState::Active));
    let (_, _, position) = drain(&view, None, &Principal::Operator);
    put(&mut view, called(2, MemberState::Active));
    assert!(drain(&view, Some(position.clone()), &Principal::Operator).1.is_empty());
    put(&mut view, called(3, MemberState::Away));
    assert_eq!(drain(&view, Some(position), &Principal::Operator).1, ["ann"]);
}
