//! Reading a team for those who watch it: whatever may have changed since the last time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use teamwire_proto::{
    Refusal,
    name::Name,
    v1::{self, RequestKind, RequestState, team_item::Item},
    word,
};

use super::{
    Coordinator,
    keys::team_key,
    store_errors::{corrupt, unavailable},
};
use crate::{
    domain::{
        activity,
        host::show as show_host,
        identity::team_not_found,
        query::{MemberFacts, show_member, show_team},
        records::{HostRecord, MemberRecord, TeamRecord},
        streams::{self, HISTORY, REQUESTS},
        task::{
            board::{BoardRecord, show as show_task},
            listing::undeleted,
        },
        team_view::{GONE_MAX, ItemKey, TeamView},
        tx::CachedRecord,
    },
    notify::Unread,
    store::{Extent, Leases, Namespace, Range},
};

/// How many tasks are read at once.
const CHUNK: usize = 256;

/// After how long the board is read although no task has changed: tasks that were completed long ago leave it silently.
const BOARD_MS: u64 = 60_000;

/// What was read of a team the last time.
#[derive(Debug)]
pub struct TeamReader {
    namespace: Namespace,
    /// The version of the team's record.
    version: u64,
    team: Option<Arc<TeamRecord>>,
    /// What is known about each member and host, by folded name.
    facts: HashMap<String, MemberFacts>,
    /// What each host offers, by folded name.
    offers: HashMap<String, Option<Arc<HostRecord>>>,
    /// The sequence that each member's next activity line gets, by folded name.
    activity: HashMap<String, u64>,
    /// The sequence that the next request gets. `None` if the requests were not read yet.
    requests: Option<u64>,
    /// How far the history was searched for changed tasks. `None` if the board was not read yet.
    searched: Option<u64>,
    /// When the board was read, by the store's clock.
    board_ms: u64,
}

/// A change to a view.
enum Change {
    Put(ItemKey, Item),
    End(ItemKey, Item),
    Remove(ItemKey),
}

impl TeamReader {
    /// Makes a reader that has read nothing.
    pub fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            version: 0,
            team: None,
            facts: HashMap::new(),
            offers: HashMap::new(),
            activity: HashMap::new(),
            requests: None,
            searched: None,
            board_ms: 0,
        }
    }

    /// Returns the version of the roster as last read. Differs whenever the roster does.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Coordinator {
    /// Reads what may have changed in a team, and brings a view of it up to date. Fails if the team is gone, even if
    /// there is a new one of its name.
    pub(crate) async fn read_team(
        &self,
        reader: &mut TeamReader,
        unread: &Unread,
        view: &Mutex<TeamView>,
    ) -> Result<(), Refusal> {
        let leases = self.store.leases(&reader.namespace).await.map_err(unavailable)?;
        let team = self.read_roster(reader, unread).await?;
        self.read_facts(reader, unread, &team, &leases).await?;
        let mut changes = self.activity_changes(reader, unread, &team).await?;
        changes.extend(self.request_changes(reader, unread, &team, view).await?);
        changes.extend(self.task_changes(reader, unread, leases.now_ms, view).await?);
        let mut view = view.lock();
        view.put(ItemKey::Team, Item::Team(show_team(&team)));
        for change in self.roster_items(reader, &team, &leases).into_iter().chain(changes) {
            match change {
                Change::Put(key, item) => view.put(key, item),
                Change::End(key, item) => view.end(key, item),
                Change::Remove(key) => view.remove(&key),
            }
        }
        let names: BTreeSet<&str> = team.members.iter().map(|member| member.name.folded()).collect();
        let is_gone = |key: &&ItemKey| match key {
            ItemKey::Member(name) => !names.contains(name.as_str()) || reader.offers.contains_key(name),
            ItemKey::Host(name) => !reader.offers.contains_key(name),
            ItemKey::Activity(name) => !names.contains(name.as_str()),
            ItemKey::Team | ItemKey::Request(_) | ItemKey::Task(_) => false,
        };
        let gone: Vec<ItemKey> = view.keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|key| view.remove(key));
        Ok(())
    }

    async fn read_roster(&self, reader: &mut TeamReader, unread: &Unread) -> Result<Arc<TeamRecord>, Refusal> {
        let namespace = &reader.namespace;
        if let Some(team) = &reader.team
            && !unread.roster
            && !unread.everything
        {
            return Ok(Arc::clone(team));
        }
        let gone = || team_not_found(namespace.as_str());
        let record = self.store.read(namespace, &[team_key()]).await.map_err(unavailable)?.pop().flatten();
        let version = record.as_ref().ok_or_else(gone)?.version;
        if let Some(team) = &reader.team
            && reader.version == version
        {
            return Ok(Arc::clone(team));
        }
        let team = CachedRecord::new(record).get::<TeamRecord>().map_err(|_| corrupt(namespace, "the team"))?;
        let team = team.ok_or_else(gone)?;
        if reader.team.as_ref().is_some_and(|before| before.id != team.id) {
            return Err(gone());
        }
        let folded: BTreeSet<&str> = team.members.iter().map(|member| member.name.folded()).collect();
        let hosts: BTreeSet<&str> = team.hosts().map(|host| host.name.folded()).collect();
        reader.facts.retain(|name, _| folded.contains(name.as_str()));
        reader.activity.retain(|name, _| folded.contains(name.as_str()));
        reader.offers.retain(|name, _| hosts.contains(name.as_str()));
        (reader.version, reader.team) = (version, Some(Arc::clone(&team)));
        Ok(team)
    }

    async fn read_facts(
        &self,
        reader: &mut TeamReader,
        unread: &Unread,
        team: &TeamRecord,
        leases: &Leases,
    ) -> Result<(), Refusal> {
        let is_unread = |member: &&MemberRecord| {
            let name = member.name.folded();
            unread.everything || unread.all_members || unread.members.contains(name) || !reader.facts.contains_key(name)
        };
        let members: Vec<&MemberRecord> = team.members.iter().filter(is_unread).collect();
        let names = |of: &[&MemberRecord]| of.iter().map(|member| member.name.folded().to_owned()).collect::<Vec<_>>();
        let facts = self.facts(&reader.namespace, &members, leases).await?;
        let hosts: Vec<&MemberRecord> = members.iter().copied().filter(|member| member.is_host).collect();
        let offers = self.fetch::<HostRecord>(&reader.namespace, names(&hosts)).await?;
        reader.facts.extend(names(&members).into_iter().zip(facts));
        reader.offers.extend(names(&hosts).into_iter().zip(offers));
        Ok(())
    }

    /// Shows every member and host as it is now: the end of a lease changes one without any commit.
    fn roster_items(&self, reader: &TeamReader, team: &TeamRecord, leases: &Leases) -> Vec<Change> {
        let show = |member: &MemberRecord| {
            let name = member.name.folded().to_owned();
            let facts = reader.facts.get(&name).cloned().unwrap_or_default();
            let MemberFacts { lease_until_ms, lease_ttl_ms, now_ms, .. } =
                MemberFacts::of_lease(&member.name, leases, &self.limits);
            let facts = MemberFacts { lease_until_ms, lease_ttl_ms, now_ms, ..facts };
            if member.is_host {
                let offer = reader.offers.get(&name).and_then(Option::as_deref);
                return Change::Put(ItemKey::Host(name), Item::Host(show_host(team, member, offer, &facts)));
            }
            Change::Put(ItemKey::Member(name), Item::Member(show_member(team, member, &facts)))
        };
        team.members.iter().map(show).collect()
    }

    async fn activity_changes(
        &self,
        reader: &mut TeamReader,
        unread: &Unread,
        team: &TeamRecord,
    ) -> Result<Vec<Change>, Refusal> {
        let is_unread = |name: &&Name| {
            unread.everything || unread.activity.contains(name.folded()) || !reader.activity.contains_key(name.folded())
        };
        let members = team.members.iter().filter(|member| !member.is_host).map(|member| &member.name);
        let names: Vec<&Name> = members.filter(is_unread).collect();
        let streams: Vec<String> = names.iter().map(|name| streams::activity(name)).collect();
        let extents = match streams.as_slice() {
            [] => Vec::new(),
            _ => self.store.extents(&reader.namespace, &streams).await.map_err(unavailable)?,
        };
        let mut changes = Vec::new();
        for ((name, stream), Extent { next, .. }) in names.into_iter().zip(streams).zip(extents) {
            if reader.activity.get(name.folded()).copied().unwrap_or(1) != next {
                let last = Range { first: 1, last: u64::MAX, limit: 1, newest_first: true };
                let entries = self.entries(&reader.namespace, &stream, last).await?;
                let shown = activity::show(entries, 0, 1)
                    .map_err(|error| corrupt(&reader.namespace, &format!("activity of {name}: {error}")))?;
                let key = ItemKey::Activity(name.folded().to_owned());
                let item = |line| Item::Activity(v1::MemberActivity { member: name.to_string(), line: Some(line) });
                changes.push(match shown.lines.into_iter().next() {
                    Some(line) => Change::Put(key, item(line)),
                    None => Change::Remove(key),
                });
            }
            reader.activity.insert(name.folded().to_owned(), next);
        }
        Ok(changes)
    }

    async fn request_changes(
        &self,
        reader: &mut TeamReader,
        unread: &Unread,
        team: &TeamRecord,
        view: &Mutex<TeamView>,
    ) -> Result<Vec<Change>, Refusal> {
        let of_member = |member: &MemberRecord| {
            let all = member.pending().chain(&member.pending_reviews);
            all.map(|pending| pending.id.to_string()).collect::<Vec<_>>()
        };
        let pending: BTreeSet<String> = team.members.iter().flat_map(of_member).collect();
        let shown: BTreeSet<String> = view.lock().keys().filter_map(request_id).collect();
        let is_unread = |id: &&String| {
            let has_moved = pending.contains(*id) != shown.contains(*id);
            unread.everything || unread.all_requests || unread.requests.contains(*id) || has_moved
        };
        let mut ids: BTreeSet<String> = pending.union(&shown).filter(is_unread).cloned().collect();
        let mut next = reader.requests;
        if unread.everything || unread.all_requests || !unread.requests.is_empty() {
            let (new, after) = self.new_requests(reader).await?;
            ids.extend(new);
            next = Some(after);
        }
        let ids = Vec::from_iter(ids);
        let found = self.fetch::<v1::Request>(&reader.namespace, ids.clone()).await?;
        reader.requests = next;
        let change = |(id, found): (String, Option<Arc<v1::Request>>)| {
            let is_pending = pending.contains(&id);
            let key = ItemKey::Request(id);
            let Some(found) = found else { return Some(Change::Remove(key)) };
            let item = Item::Request(v1::Request { content: content(&found), ..v1::Request::clone(&found) });
            match found.state() {
                RequestState::Pending => is_pending.then_some(Change::Put(key, item)),
                _ => Some(Change::End(key, item)),
            }
        };
        Ok(ids.into_iter().zip(found).filter_map(change).collect())
    }

    /// Returns the requests made since the last time, and the sequence that the next one gets. One that was decided
    /// since then is not among the pending ones of any member.
    async fn new_requests(&self, reader: &TeamReader) -> Result<(Vec<String>, u64), Refusal> {
        let Extent { next, .. } = self.extent(&reader.namespace, REQUESTS).await?;
        // Of more, the view would forget the first ones.
        let first = reader.requests.unwrap_or(next).max(next.saturating_sub(GONE_MAX as u64));
        let mut ids = Vec::new();
        if first < next {
            let range = Range { first, last: next - 1, limit: GONE_MAX, newest_first: false };
            let entries = self.entries(&reader.namespace, REQUESTS, range).await?;
            ids.extend(entries.iter().map(|entry| String::from_utf8_lossy(&entry.data).into_owned()));
        }
        Ok((ids, next))
    }

    async fn task_changes(
        &self,
        reader: &mut TeamReader,
        unread: &Unread,
        now_ms: u64,
        view: &Mutex<TeamView>,
    ) -> Result<Vec<Change>, Refusal> {
        if reader.searched.is_some() && !unread.everything && !unread.board {
            return Ok(Vec::new());
        }
        let namespace = reader.namespace.clone();
        let Extent { next, entries, .. } = self.extent(&namespace, HISTORY).await?;
        // What has left the history, or was lost with the store's commits, cannot say which tasks have changed.
        let is_covered = |searched: &u64| *searched < next && next - entries <= searched + 1;
        let from = reader.searched.filter(is_covered);
        let is_recent = now_ms.saturating_sub(reader.board_ms) < BOARD_MS;
        if from == Some(next - 1) && !unread.board && is_recent {
            return Ok(Vec::new());
        }
        let (mut changed, mut searched) = (BTreeSet::new(), from.unwrap_or(next - 1));
        loop {
            let (ids, to) = self.changed_tasks(&namespace, searched).await?;
            changed.extend(ids);
            if to == searched {
                break;
            }
            searched = to;
        }
        let board =
            self.fetch::<BoardRecord>(&namespace, vec![String::new()]).await?.pop().flatten().unwrap_or_default();
        let listed: BTreeSet<u64> = undeleted(&board).into_iter().collect();
        let shown: BTreeSet<u64> = match from {
            Some(_) => view.lock().keys().filter_map(task_id).collect(),
            None => BTreeSet::new(),
        };
        let gone: Vec<u64> = view.lock().keys().filter_map(task_id).filter(|id| !listed.contains(id)).collect();
        changed.extend(listed.difference(&shown));
        changed.extend(&gone);
        let mut tasks = self.listed_tasks(&namespace, &board, &listed, &changed).await?;
        // Tasks on the other side of a dependency have changed, too.
        let mut related: BTreeSet<u64> = tasks.iter().flat_map(related_tasks).collect();
        {
            let view = view.lock();
            let before = changed.iter().filter_map(|id| view.get(&ItemKey::Task(*id)));
            related.extend(before.filter_map(as_task).flat_map(related_tasks));
        }
        let related: BTreeSet<u64> = related.difference(&changed).copied().collect();
        tasks.extend(self.listed_tasks(&namespace, &board, &listed, &related).await?);
        (reader.searched, reader.board_ms) = (Some(searched), now_ms);
        let puts = tasks.into_iter().map(|task| Change::Put(ItemKey::Task(task.id), Item::Task(task)));
        Ok(puts.chain(gone.into_iter().map(|id| Change::Remove(ItemKey::Task(id)))).collect())
    }

    /// Reads those of the tasks that are on the board, without their long texts.
    async fn listed_tasks(
        &self,
        namespace: &Namespace,
        board: &BoardRecord,
        listed: &BTreeSet<u64>,
        ids: &BTreeSet<u64>,
    ) -> Result<Vec<v1::Task>, Refusal> {
        let ids: Vec<u64> = ids.intersection(listed).copied().collect();
        let mut shown = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(CHUNK) {
            let found = self.tasks(namespace, chunk).await?;
            let short = |task: v1::Task| v1::Task { description: String::new(), result: String::new(), ..task };
            shown.extend(found.iter().flatten().map(|task| short(show_task(task, board))));
        }
        Ok(shown)
    }
}

fn request_id(key: &ItemKey) -> Option<String> {
    match key {
        ItemKey::Request(id) => Some(id.clone()),
        _ => None,
    }
}

fn task_id(key: &ItemKey) -> Option<u64> {
    match key {
        ItemKey::Task(id) => Some(*id),
        _ => None,
    }
}

/// Returns what a watch shows of a request's content: of a request for permission, one line, so that no one decides on
/// what the member says about it.
fn content(request: &v1::Request) -> String {
    match request.kind() {
        RequestKind::Permission => word::permission("", &request.content, ""),
        _ => String::new(),
    }
}

fn as_task(item: &Item) -> Option<&v1::Task> {
    match item {
        Item::Task(task) => Some(task),
        _ => None,
    }
}

fn related_tasks(task: &v1::Task) -> impl Iterator<Item = u64> + use<> {
    [task.blocked_by.clone(), task.blocks.clone()].into_iter().flatten()
}
