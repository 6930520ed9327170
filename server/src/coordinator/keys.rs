//! The keys of records.

use teamwire_proto::{credential::Credential, name::Name};

use crate::{
    domain::{
        identity::CallerCredentials,
        records::{ConsoleRecord, DueNoticesRecord, RecordType, SessionRecord, TeamRecord},
        task::board::{BoardRecord, TaskRecord, record_id},
    },
    store::{Key, Namespace},
};

/// Returns the key of a team's record, which holds its roster.
pub fn team_key() -> Key {
    Key::new(TeamRecord::KIND, "")
}

/// Returns the key of the record that says when a team's waiting notices are due.
pub(super) fn due_key() -> Key {
    Key::new(DueNoticesRecord::KIND, "")
}

/// Returns the key of a member's record of one kind.
pub fn member_key<T: RecordType>(name: &Name) -> Key {
    Key::new(T::KIND, name.folded())
}

/// Returns the key of a team's task board.
pub(super) fn board_key() -> Key {
    Key::new(BoardRecord::KIND, "")
}

/// Returns the key of a task.
fn task_key(id: u64) -> Key {
    Key::new(TaskRecord::KIND, record_id(id))
}

/// Returns the keys of the records that nearly every call of this caller reads.
pub(super) fn usual_keys(who: &CallerCredentials) -> Vec<Key> {
    let mut keys = vec![team_key()];
    match &who.credential {
        Credential::Member { member, .. } if who.session_id.is_some() => keys.push(member_key::<SessionRecord>(member)),
        Credential::Console { team: Some(_), id, .. } => keys.push(Key::new(ConsoleRecord::KIND, id)),
        _ => {}
    }
    keys
}

/// Returns the namespace with the records of the caller's credential: its team's, or the directory for the operator.
pub(super) fn home_of(who: &CallerCredentials) -> Namespace {
    who.credential.team().map_or_else(Namespace::directory, Namespace::team)
}

/// Returns the keys of the records that nearly every call about this task, or about the whole board, reads.
pub(super) fn board_keys(who: &CallerCredentials, task: Option<u64>) -> Vec<Key> {
    let mut keys = usual_keys(who);
    keys.push(board_key());
    keys.extend(task.map(task_key));
    keys
}
