//! What always holds of a task board, read from the store itself.

use std::collections::{BTreeMap, BTreeSet};

use teamwire_proto::name::Name;
use teamwire_server::{
    coordinator::keys::team_key,
    domain::{
        records::{Life, RecordType, TeamRecord},
        task::board::{BoardRecord, Ids, Status, TaskRecord, WaitingRecord},
    },
    store::{Key, Namespace, Store},
};

/// A board that is sound.
pub(crate) struct SoundBoard {
    pub(crate) tasks: BTreeMap<u64, TaskRecord>,
}

/// Checks that each task is in exactly one place, the one that its record says; that what waits is what has an open
/// task before it; that dependencies are known at both ends; and that only members that live hold claims. And that the
/// board counts the bytes of the tasks.
pub(crate) async fn check_board(store: &dyn Store, namespace: &Namespace) -> SoundBoard {
    let keys = [team_key(), Key::new(BoardRecord::KIND, ""), Key::new(WaitingRecord::KIND, "")];
    let mut found = store.read(namespace, &keys).await.unwrap().into_iter();
    let Some(Some(team)) = found.next() else { return SoundBoard { tasks: BTreeMap::new() } };
    let team = TeamRecord::decode(&team.data).unwrap();
    let board = found.next().unwrap().map_or_else(BoardRecord::default, |r| BoardRecord::decode(&r.data).unwrap());
    let waiting =
        found.next().unwrap().map_or_else(WaitingRecord::default, |r| WaitingRecord::decode(&r.data).unwrap());
    let records = store.scan(namespace, TaskRecord::KIND, "", 100_000).await.unwrap();
    let bytes: usize = records.iter().map(|(_, record)| record.data.len()).sum();
    assert_eq!(board.bytes, bytes as u64, "the bytes of all tasks: {board:?}");
    let tasks: BTreeMap<u64, TaskRecord> = records
        .into_iter()
        .map(|(id, record)| (id.parse().unwrap(), TaskRecord::decode(&record.data).unwrap()))
        .collect();

    let is_open = |id: &u64| tasks.get(id).is_some_and(|task| !task.is_closed());
    for id in 1..=board.last_id {
        let expected = tasks.get(&id).map(|task| place_of(task, &is_open));
        let places = places(&board, id);
        assert_eq!(places, Vec::from_iter(expected), "where task {id} is: {board:?} {:?}", tasks.get(&id));
    }
    assert!(tasks.keys().all(|id| (1..=board.last_id).contains(id)), "a task that was never added");
    for (id, task) in &tasks {
        assert_eq!(
            (*id, task.status == Status::InProgress),
            (task.id, task.claim.is_some() && !rests(task)),
            "{task:?}"
        );
        let on: BTreeSet<u64> = task.blocked_by.iter().copied().filter(|id| is_open(id)).collect();
        match waiting.waiting.get(id) {
            Some(known) => assert_eq!((&known.on, &known.owner), (&on, &task.owner), "{task:?}"),
            None => assert!(task.is_closed() || on.is_empty(), "nobody knows what {task:?} waits for"),
        }
        // A deleted task has forgotten what it blocked.
        let is_deleted = |other: &TaskRecord| other.status == Status::Deleted;
        let knows = |other: &u64| tasks.get(other).is_none_or(|other| is_deleted(other) || other.blocks.contains(id));
        assert!(task.blocked_by.iter().all(knows), "a blocker does not know of {task:?}");
        let knows = |other: &u64| tasks.get(other).is_none_or(|other| other.blocked_by.contains(id));
        assert!(task.blocks.iter().all(knows), "{task:?} is in the way of one that does not know");
    }
    let waits = |id: &u64, on: &BTreeSet<u64>| is_open(id) && !on.is_empty();
    assert!(waiting.waiting.iter().all(|(id, known)| waits(id, &known.on)), "waits for nothing: {waiting:?}");
    for (name, ids) in &board.claimed {
        let life = &team.member(name).unwrap().life;
        let works = match life {
            Life::Live => true,
            Life::Stopping { cause, .. } => cause.is_own_decision(),
            _ => false,
        };
        assert!(works && !ids.is_empty(), "{name} is {life:?} and holds {ids:?}");
    }
    let expires = |(id, task): &(&u64, &TaskRecord)| {
        let owner = task.owner.as_ref().filter(|_| task.status == Status::InProgress);
        owner.is_some_and(|owner| team.member(owner).unwrap().detached) && board.expiring.contains_key(id)
    };
    let of_detached = tasks.iter().filter(expires).count();
    assert_eq!(of_detached, board.expiring.len(), "a claim expires that is not of a detached life: {board:?}");
    SoundBoard { tasks }
}

/// Returns whether a task that nobody works on remembers the token by which it was completed or given back.
fn rests(task: &TaskRecord) -> bool {
    matches!(task.status, Status::Completed | Status::Pending)
}

fn place_of(task: &TaskRecord, is_open: &impl Fn(&u64) -> bool) -> String {
    let owned = |place: &str| format!("{place} {}", task.owner.as_ref().map_or("?", Name::folded));
    match (task.status, &task.owner) {
        (Status::Pending, _) if task.blocked_by.iter().any(is_open) => "blocked".to_owned(),
        (Status::Pending, None) => "ready".to_owned(),
        (Status::Pending, Some(_)) => owned("assigned"),
        (Status::InProgress, _) => owned("claimed"),
        (Status::InReview, _) => "in review".to_owned(),
        (Status::Completed, _) => "completed".to_owned(),
        (Status::Deleted, _) => "deleted".to_owned(),
    }
}

/// Returns every place in which a board has a task.
fn places(board: &BoardRecord, id: u64) -> Vec<String> {
    let closed = [("completed", &board.completed), ("deleted", &board.deleted)];
    let plain = [("ready", &board.ready), ("blocked", &board.blocked), ("in review", &board.in_review)]
        .into_iter()
        .chain(closed);
    let by = |place: &'static str, by: &BTreeMap<Name, Ids>| {
        let of: Vec<_> = by.iter().filter(|(_, ids)| ids.contains(&id)).map(|(name, _)| name.folded()).collect();
        of.into_iter().map(|name| format!("{place} {name}")).collect::<Vec<_>>()
    };
    let plain = plain.filter(|(_, ids)| ids.contains(&id)).map(|(place, _)| place.to_owned());
    plain.chain(by("assigned", &board.assigned)).chain(by("claimed", &board.claimed)).collect()
}
