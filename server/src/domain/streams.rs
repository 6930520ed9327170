//! The names of a team's streams.

use teamwire_proto::name::Name;

/// The stream of a team's history. Each entry is a `HistoryEntry` that holds only the ids of its message or request.
pub const HISTORY: &str = "history";

/// The stream of the ids of all requests of a team, in the order of their creation.
pub const REQUESTS: &str = "requests";

/// The stream of the ids of messages that still lie in an inbox although the history no longer names them.
pub const LEFTOVERS: &str = "leftovers";

const INBOX_PREFIX: &str = "inbox/";

const ACTIVITY_PREFIX: &str = "activity/";

/// Returns the stream of a member's activity. Each entry is an `ActivityLine` without its sequence.
pub fn activity(member: &Name) -> String {
    activity_of(member.folded())
}

/// Returns the stream of the activity of a member with this folded name.
pub fn activity_of(folded: &str) -> String {
    format!("{ACTIVITY_PREFIX}{folded}")
}

/// Returns the folded name of the member whose activity a stream is. `None` if it is another stream.
pub fn activity_owner(stream: &str) -> Option<&str> {
    stream.strip_prefix(ACTIVITY_PREFIX)
}

/// Returns the stream of a member's inbox. Each entry is the 16 bytes of a message's id.
pub fn inbox(member: &Name) -> String {
    inbox_of(member.folded())
}

/// Returns the stream of the inbox of a member with this folded name.
pub fn inbox_of(folded: &str) -> String {
    format!("{INBOX_PREFIX}{folded}")
}

/// Returns the folded name of the member whose inbox a stream is. `None` if it is another stream.
pub fn inbox_owner(stream: &str) -> Option<&str> {
    stream.strip_prefix(INBOX_PREFIX)
}
