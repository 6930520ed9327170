//! A view of a team for those who watch it: its items in their latest state, in the order in which they last changed.
//!
//! Each change gets a revision, and each item appears once, at the revision of its last change. So a reader that knows
//! how far it has gotten gets everything that it misses by reading on from there, whether it begins with a snapshot,
//! resumes or was slow; and the view needs no memory for any reader.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use prost::Message as _;
use prost_types::Duration;
use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, Liveness, MemberState, SenderKind, team_item::Item, team_item_key},
};

use super::{identity::Principal, page, query::may_see_request};

/// How many items that are gone a view remembers.
pub const GONE_MAX: usize = 2_000;

/// How many bytes the last states of items that are gone take at most.
const GONE_BYTES_MAX: usize = 1 << 20;

/// How many bytes of items a frame has, unless a single one has more.
const FRAME_BYTES_MAX: usize = 256 * 1024;

/// How many items a frame has at most.
const FRAME_ITEMS_MAX: usize = 1_000;

/// Names an item. Members are given by their folded names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKey {
    /// The team.
    Team,
    /// A member.
    Member(String),
    /// A host.
    Host(String),
    /// The last activity line of a member.
    Activity(String),
    /// A request.
    Request(String),
    /// A task.
    Task(u64),
}

/// The items of a team.
#[derive(Debug)]
pub struct TeamView {
    /// Distinguishes this view from all others, since revisions mean nothing in another one.
    id: u64,
    /// The latest change.
    revision: u64,
    entries: BTreeMap<ItemKey, VersionedItem>,
    /// Which item changed last at a revision.
    changes: BTreeMap<u64, ItemKey>,
    /// The items that are gone, by the revision at which they went.
    gone: BTreeSet<u64>,
    gone_bytes: usize,
    /// The view has forgotten items that went at this revision or before.
    forgotten: u64,
    /// The revision at the last call of [`Self::take_changed`].
    taken: u64,
}

#[derive(Debug)]
struct VersionedItem {
    revision: u64,
    /// Its latest state. `None` if it is gone without a last state.
    item: Option<Arc<Item>>,
    /// The last name that the item had, as its key shows it.
    shown_key: team_item_key::Key,
    bytes: usize,
    is_gone: bool,
    /// The members that could see a request at any time, by their folded names.
    audience: BTreeSet<String>,
}

/// How far a reader has gotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    view: u64,
    revision: u64,
    /// The revision at which the reader's snapshot began. It needs to learn nothing of items that were gone by then.
    snapshot: u64,
    /// Whom the reader's items were for.
    viewer: String,
}

/// What a reader gets next.
#[derive(Debug, Default)]
pub struct Changes {
    /// Whether a snapshot begins here.
    pub reset: bool,
    /// The latest states.
    pub items: Vec<Arc<Item>>,
    /// The keys of items that are gone.
    pub removed: Vec<team_item_key::Key>,
    /// Whether the reader then has everything.
    pub caught_up: bool,
}

impl TeamView {
    /// Makes an empty view. `id`: unlike that of any other view.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            revision: 0,
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            gone: BTreeSet::new(),
            gone_bytes: 0,
            forgotten: 0,
            taken: 0,
        }
    }

    /// Returns the item with this key, unless it is gone.
    pub fn get(&self, key: &ItemKey) -> Option<&Item> {
        self.entries.get(key).filter(|entry| !entry.is_gone)?.item.as_deref()
    }

    /// Returns the keys of all items that are not gone.
    pub fn keys(&self) -> impl Iterator<Item = &ItemKey> {
        self.entries.iter().filter(|(_, entry)| !entry.is_gone).map(|(key, _)| key)
    }

    /// Returns whether anything has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.taken, self.revision) != self.revision
    }

    /// Records the state of an item. Does nothing if it has not changed.
    pub fn put(&mut self, key: ItemKey, item: Item) {
        let Some(shown_key) = shown_key(&item) else { return self.record(key, team_key(), item, false) };
        self.record(key, shown_key, item, false);
    }

    /// Records the last state of an item, which is gone with it, even if no reader has seen it before.
    pub fn end(&mut self, key: ItemKey, item: Item) {
        let shown_key = shown_key(&item).unwrap_or_else(team_key);
        self.record(key, shown_key, item, true);
        self.forget_excess();
    }

    /// Records that an item is gone. Does nothing if it is not there.
    pub fn remove(&mut self, key: &ItemKey) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| !entry.is_gone) else { return };
        self.revision += 1;
        self.changes.remove(&entry.revision);
        self.changes.insert(self.revision, key.clone());
        (entry.revision, entry.item, entry.bytes, entry.is_gone) = (self.revision, None, 0, true);
        self.gone.insert(self.revision);
        self.forget_excess();
    }

    fn record(&mut self, key: ItemKey, shown_key: team_item_key::Key, item: Item, is_gone: bool) {
        let before = self.entries.remove(&key);
        if let Some(entry) = &before
            && entry.is_gone == is_gone
            && entry.item.as_deref().is_some_and(|before| is_same(before, &item))
        {
            self.entries.extend(before.map(|entry| (key, entry)));
            return;
        }
        let mut audience = BTreeSet::new();
        if let Some(before) = before {
            self.changes.remove(&before.revision);
            if self.gone.remove(&before.revision) {
                self.gone_bytes -= before.bytes;
            }
            audience = before.audience;
        }
        if let Item::Request(request) = &item {
            audience.extend(audience_of(request));
        }
        self.revision += 1;
        let bytes = v1::TeamItem { item: Some(item.clone()) }.encoded_len();
        if is_gone {
            self.gone.insert(self.revision);
            self.gone_bytes += bytes;
        }
        self.changes.insert(self.revision, key.clone());
        let item = Some(Arc::new(item));
        self.entries.insert(key, VersionedItem { revision: self.revision, item, shown_key, bytes, is_gone, audience });
    }

    fn forget_excess(&mut self) {
        while self.gone.len() > GONE_MAX || self.gone_bytes > GONE_BYTES_MAX {
            let Some(oldest) = self.gone.pop_first() else { return };
            let entry = self.changes.remove(&oldest).and_then(|key| self.entries.remove(&key));
            self.gone_bytes -= entry.map_or(0, |entry| entry.bytes);
            self.forgotten = oldest;
        }
    }

    /// Returns what a reader gets next, and how far it has gotten by then. `from`: `None` begins with a snapshot.
    pub fn read(&self, from: Option<&Position>, caller: &Principal) -> (Changes, Position) {
        let viewer = viewer(caller);
        let resumed = from.filter(|from| {
            from.view == self.id
                && from.viewer == viewer
                && from.revision <= self.revision
                && from.revision.max(from.snapshot) >= self.forgotten
        });
        let mut changes = Changes { reset: resumed.is_none(), ..Changes::default() };
        let start = Position { view: self.id, revision: 0, snapshot: self.revision, viewer };
        let mut position = resumed.cloned().unwrap_or(start);
        let mut bytes = 0;
        for (revision, key) in self.changes.range(position.revision + 1..) {
            let Some(entry) = self.entries.get(key) else { continue };
            let is_full = changes.items.len() + changes.removed.len() >= FRAME_ITEMS_MAX;
            if is_full || (bytes > 0 && bytes + entry.bytes > FRAME_BYTES_MAX) {
                return (changes, position);
            }
            position.revision = *revision;
            if entry.is_gone && *revision <= position.snapshot {
                continue;
            }
            match entry.seen_by(caller) {
                Seen::Item(item) => {
                    bytes += entry.bytes;
                    changes.items.push(item);
                }
                Seen::Gone => changes.removed.push(entry.shown_key.clone()),
                Seen::Nothing => {}
            }
        }
        position.revision = self.revision;
        changes.caught_up = true;
        (changes, position)
    }
}

/// What a reader sees of a change.
enum Seen {
    Item(Arc<Item>),
    Gone,
    Nothing,
}

impl VersionedItem {
    fn seen_by(&self, caller: &Principal) -> Seen {
        let is_visible = |item: &Item| match item {
            Item::Request(request) => may_see_request(caller, request),
            _ => true,
        };
        match &self.item {
            Some(item) if is_visible(item) => Seen::Item(Arc::clone(item)),
            _ if self.could_see(caller) => Seen::Gone,
            _ => Seen::Nothing,
        }
    }

    /// Returns whether the caller could see the item at any time. The id of a request is not for others.
    fn could_see(&self, caller: &Principal) -> bool {
        match (&self.shown_key, caller) {
            (team_item_key::Key::RequestId(_), Principal::Member { name, lead: false }) => {
                self.audience.contains(name.folded())
            }
            _ => true,
        }
    }
}

/// Returns the members, besides the lead, that may see a request.
fn audience_of(request: &v1::Request) -> impl Iterator<Item = String> {
    let requester = request.requester.as_ref().filter(|sender| sender.kind() == SenderKind::Member);
    let names = [Some(&request.member), Some(&request.approver), requester.map(|sender| &sender.name)];
    names.into_iter().flatten().filter_map(|name| Name::parse(name, "name").ok()).map(|name| name.folded().to_owned())
}

/// Returns whether two states differ in nothing but what shrinks and grows with time: how long a lease that has not run
/// out still lasts, and when an active detached member called last.
fn is_same(before: &Item, after: &Item) -> bool {
    match (before, after) {
        (Item::Member(before), Item::Member(after)) => {
            let is_detached = before.liveness() == Liveness::Detached && before.state() == MemberState::Active;
            let state_since = if is_detached { after.state_since } else { before.state_since };
            let lease_left = same_lease(before.lease_left, after.lease_left);
            v1::Member { state_since, lease_left, ..before.clone() } == *after
        }
        (Item::Host(before), Item::Host(after)) => {
            let lease_left = same_lease(before.lease_left, after.lease_left);
            v1::Host { lease_left, ..before.clone() } == *after
        }
        _ => before == after,
    }
}

/// Returns the later of two remaining times, unless the lease has run out in only one of them.
fn same_lease(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    let has_lease = |left: Option<Duration>| left.is_some_and(|left| left.seconds > 0 || left.nanos > 0);
    if has_lease(before) == has_lease(after) { after } else { before }
}

/// The key of the team, which never goes, so no frame shows it.
fn team_key() -> team_item_key::Key {
    team_item_key::Key::Member(String::new())
}

fn shown_key(item: &Item) -> Option<team_item_key::Key> {
    match item {
        Item::Team(_) => None,
        Item::Member(member) => Some(team_item_key::Key::Member(member.name.clone())),
        Item::Host(host) => Some(team_item_key::Key::Host(host.name.clone())),
        Item::Request(request) => Some(team_item_key::Key::RequestId(request.id.clone())),
        Item::Task(task) => Some(team_item_key::Key::TaskId(task.id)),
        Item::Activity(activity) => Some(team_item_key::Key::ActivityOf(activity.member.clone())),
    }
}

/// Names whom the items are for: all who see everything get the same ones.
fn viewer(caller: &Principal) -> String {
    match caller {
        Principal::Member { name, lead: false } => name.folded().to_owned(),
        _ => "*".to_owned(),
    }
}

impl Position {
    /// Writes the position as a token.
    pub fn token(&self) -> String {
        let Self { view, revision, snapshot, viewer } = self;
        page::token(format!("{view:x}.{revision:x}.{snapshot:x}.{viewer}"))
    }

    /// Reads a position from a token. `None` if it is empty.
    pub fn parse(token: &str) -> Result<Option<Self>, Refusal> {
        let unknown = || {
            let text = "resume_token is not one that a frame has had. Pass on the one of the last frame, or leave it out for a \
                        new snapshot.";
            Refusal::new(Reason::InvalidField, text).field("resume_token")
        };
        let Some(text) = page::position(token).map_err(|_| unknown())? else { return Ok(None) };
        let mut parts = text.splitn(4, '.');
        let mut number = || parts.next().and_then(|part| u64::from_str_radix(part, 16).ok()).ok_or_else(unknown);
        let (view, revision, snapshot) = (number()?, number()?, number()?);
        let viewer = parts.next().filter(|viewer| !viewer.is_empty()).ok_or_else(unknown)?.to_owned();
        Ok(Some(Self { view, revision, snapshot, viewer }))
    }
}

#[cfg(test)]
#[path = "team_view_tests.rs"]
mod tests;
