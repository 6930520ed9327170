//! The bounds of replies. Whatever a team holds and whatever a call asks for, a reply is no larger than
//! `docs/limits.md` says, a list read page by page has everything once, and no page examines more than a stretch.

use std::{cell::Cell, collections::BTreeSet, fmt::Debug, sync::Arc};

use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, RequestState, TaskStatus, TeamEventKind, history_entry::Event},
};
use teamwire_server::{
    coordinator::{Coordinator, history::HistoryQuery},
    domain::{
        Limits,
        audit::chain::{Chain, Subject},
        identity::CallerCredentials,
        page::{self, PAGE_BYTES_MAX, SEARCHED_BYTES_MAX, SEARCHED_MAX, page_size},
        records::RecordType as _,
        streams::{HISTORY, REQUESTS},
        time::timestamp,
    },
    store::{
        Entry, Key, Namespace, Outcome, Range, Record, Store, StoreError, StoreLayer, Txn, Write,
        embedded::EmbeddedStore,
    },
};

use crate::{
    board::{task, task_for},
    calls::RuleCalls as _,
    team::*,
};

/// How many bytes a page has besides its items: a token and a few numbers.
const TOKEN_BYTES_MAX: usize = 400;

/// The most records that are read at once. A page examines up to one such batch beyond its stretch.
const BATCH: usize = 128;

/// How many records a call reads besides those that it lists: the team, the caller, the board.
const OTHERS: usize = 64;

/// The longest text of a line, in characters of four bytes.
fn line(chars: usize) -> String {
    "\u{1f9e8}".repeat(chars)
}

tokio::task_local! {
    /// How many records and entries the current call has read, and how many bytes they had.
    static EXAMINED: Cell<(usize, usize)>;
}

/// A store that counts what a call reads.
#[derive(Debug)]
struct Examined(Arc<dyn Store>);

impl Examined {
    fn note<'d>(read: impl Iterator<Item = &'d bytes::Bytes>) {
        let _ = EXAMINED.try_with(|examined| {
            examined.set(read.fold(examined.get(), |(items, bytes), data| (items + 1, bytes + data.len())));
        });
    }
}

impl StoreLayer for Examined {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let found = self.0.read(namespace, keys).await?;
        Self::note(found.iter().flatten().map(|record| &record.data));
        Ok(found)
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let found = self.0.scan(namespace, kind, after, limit).await?;
        Self::note(found.iter().map(|(_, record)| &record.data));
        Ok(found)
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        let found = self.0.range(namespace, stream, range).await?;
        Self::note(found.iter().map(|entry| &entry.data));
        Ok(found)
    }
}

/// A team whose inboxes are not full soon, in a store that counts what calls read.
async fn team() -> Team {
    let store = Arc::new(Examined(EmbeddedStore::in_memory().unwrap()));
    Team::on(store, |limits| (limits.inbox_bytes_max, limits.inbox_entries_max) = (1 << 30, 1_000_000)).await
}

/// A page: what identifies each item, the bytes of the reply, and the token of the next page.
struct Listed<K> {
    keys: Vec<K>,
    bytes: usize,
    next: String,
}

fn listed<K>(reply: &impl prost::Message, next: &str, keys: impl Iterator<Item = K>) -> Result<Listed<K>, Refusal> {
    Ok(Listed { keys: keys.collect(), bytes: reply.encoded_len(), next: next.to_owned() })
}

/// How a list asks for a page: which coordinator, how many items, the token.
trait List<K>: AsyncFn(Arc<Coordinator>, u32, String) -> Result<Listed<K>, Refusal> {}
impl<K, F: AsyncFn(Arc<Coordinator>, u32, String) -> Result<Listed<K>, Refusal>> List<K> for F {}

/// Makes a call at a coordinator that has nothing in its cache, and checks that it examines no more than a stretch.
async fn examined<R>(t: &Team, what: &str, call: impl AsyncFn(Arc<Coordinator>) -> R) -> R {
    let coordinator = t.another_coordinator().await;
    let (reply, (items, bytes)) =
        EXAMINED.scope(Cell::default(), async { (call(coordinator).await, EXAMINED.with(Cell::get)) }).await;
    // An entry and the record that it names.
    let items_max = 2 * (SEARCHED_MAX + BATCH) + OTHERS;
    assert!(items <= items_max, "{what}: a call has read {items} items");
    let bytes_max = SEARCHED_BYTES_MAX + BATCH * (Limits::default().content_bytes_max + 4 * 1024);
    assert!(bytes <= bytes_max, "{what}: a call has read {bytes} bytes");
    reply
}

/// Reads a list to its end in pages of these sizes, one after the other, and checks each page. Returns what it has, in
/// order.
async fn read<K: Ord + Debug + Clone>(t: &Team, what: &str, sizes: &[u32], list: &impl List<K>) -> Vec<K> {
    let (mut keys, mut token) = (Vec::new(), String::new());
    for turn in 0.. {
        let size = sizes[turn % sizes.len()];
        let page = examined(t, what, async |at| list(at, size, token.clone()).await).await;
        let Listed { keys: found, bytes, next } = page.unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
        assert!(found.len() <= size as usize, "{what}: {} items of {size}", found.len());
        assert!(bytes <= PAGE_BYTES_MAX + TOKEN_BYTES_MAX, "{what}: {bytes} bytes in {} items", found.len());
        assert!(next.is_empty() || next != token, "{what}: a page leads to itself");
        keys.extend(found);
        token = next;
        if token.is_empty() {
            let distinct: BTreeSet<&K> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len(), "{what}: an item comes twice");
            return keys;
        }
        assert!(turn < 20_000, "{what}: no end");
    }
    unreachable!()
}

/// Reads a list in each of these sequences of page sizes, and checks that it is always the same one.
async fn is_complete<K: Ord + Debug + Clone>(t: &Team, what: &str, sizes: &[&[u32]], list: impl List<K>) -> Vec<K> {
    let mut first: Option<Vec<K>> = None;
    for sizes in sizes {
        let mut keys = read(t, what, sizes, &list).await;
        // Pages of the newest entries come in another order.
        keys.sort();
        assert_eq!(*first.get_or_insert_with(|| keys.clone()), keys, "{what} in pages of {sizes:?}");
    }
    first.unwrap_or_default()
}

/// Asks for pages that no client asks for: each is refused because of the field, or a page like any other.
async fn takes_anything<K>(t: &Team, what: &str, tokens: &[String], list: &impl List<K>) {
    for size in [0, 1, 1_000, 1_001, u32::MAX] {
        for token in tokens {
            match examined(t, what, async |at| list(at, size, token.clone()).await).await {
                Ok(page) => {
                    assert!(page.bytes <= PAGE_BYTES_MAX + TOKEN_BYTES_MAX, "{what}: {} bytes", page.bytes);
                    assert!(size <= 1_000, "{what}: a page of {size}");
                }
                Err(refusal) => {
                    assert_eq!(refusal.reason, Reason::InvalidField, "{what}, token {token:?}: {refusal}");
                    let field = refusal.field.as_deref();
                    assert!(matches!(field, Some("page_size" | "page_token")), "{what}, token {token:?}: {refusal}");
                }
            }
        }
    }
}

/// Tokens that no list has returned, or that another list has.
fn tokens(more: &[String]) -> Vec<String> {
    let positions =
        ["", "0", "1", "18446744073709551615", "-1", "a", "../x", "member/", "access/alpha 1", "console/~", "\0"];
    let forged = positions.iter().map(page::token);
    let raw = more.iter().flat_map(|text| [text.clone(), page::token(text)]);
    [String::new(), "zz".to_owned(), "0".to_owned()].into_iter().chain(forged).chain(raw).collect()
}

/// Checks a list in full: its pages, and what it makes of anything else.
macro_rules! check {
    ($t:ident, $sizes:expr, $tokens:expr, $what:expr, $list:expr) => {{
        let list = $list;
        takes_anything(&$t, $what, $tokens, &list).await;
        is_complete(&$t, $what, $sizes, list).await
    }};
}

/// Returns how the history service answers, which turns positions into tokens.
fn history(who: &CallerCredentials, filter: v1::HistoryFilter, newest: bool) -> impl List<u64> {
    async move |at: Arc<Coordinator>, size, token: String| {
        let position = page::number(&token)?;
        let query = HistoryQuery {
            filter: Some(filter.clone()),
            after: position.filter(|_| !newest).unwrap_or(0),
            before: position.filter(|_| newest),
            limit: page_size(size)?,
            newest,
            ..HistoryQuery::default()
        };
        let page = at.history(who, "", &query).await?;
        let covered = if newest { page.looked_from } else { page.looked_to };
        let reply = v1::ListHistoryResponse {
            entries: page.entries,
            last_sequence: page.looked_to,
            next_page_token: if page.more { page::token(covered) } else { String::new() },
        };
        listed(&reply, &reply.next_page_token, reply.entries.iter().map(|entry| entry.sequence))
    }
}

fn tasks(who: &CallerCredentials, filter: v1::ListTasksRequest) -> impl List<u64> {
    async move |at: Arc<Coordinator>, page_size, page_token| {
        let reply = at.list_tasks(who, &v1::ListTasksRequest { page_size, page_token, ..filter.clone() }).await?;
        listed(&reply, &reply.next_page_token, reply.tasks.iter().map(|task| task.id))
    }
}

fn requests(who: &CallerCredentials, filter: v1::ListRequestsRequest) -> impl List<String> {
    async move |at: Arc<Coordinator>, page_size, page_token| {
        let reply = at.list_requests(who, &v1::ListRequestsRequest { page_size, page_token, ..filter.clone() }).await?;
        listed(&reply, &reply.next_page_token, reply.requests.iter().map(|request| request.id.clone()))
    }
}

/// Has members say, ask and plan contents of these sizes, and reads all of it in pages of these sizes.
async fn contents(sizes: Vec<usize>, pages: Vec<u32>, forged: Vec<String>) {
    let t = team().await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    let (mut asked, mut added, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for (number, bytes) in sizes.iter().enumerate() {
        let text = "x".repeat(*bytes);
        sent.push(t.send(&t.lead, message("bob", &text)).await.message_id);
        if number % 3 == 0 {
            sent.push(t.send(&eve, broadcast(&text)).await.message_id);
            asked.push(t.ask(&bob, plan(&text)).await);
        }
        if number % 8 == 1 {
            // The lead decides it, so that another may be asked for.
            let request = t.ask(&eve, permission_for("", &text)).await;
            t.send(&t.lead, allow(&request, true, &text)).await;
            asked.push(request);
        }
        let owned = if number % 4 == 0 { task_for("bob") } else { task("for anyone") };
        added.push(t.add(v1::CreateTaskRequest { description: text, ..owned }).await);
    }
    let (pages, forged) = ([&pages[..], &[1_000]], &tokens(&forged)[..]);

    let inbox = check!(t, &pages, forged, "the inbox", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListInboxRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_inbox(&bob.who, &request).await?;
        listed(&reply, &reply.next_page_token, reply.deliveries.iter().map(|delivery| delivery.sequence))
    });
    assert!(inbox.len() >= sizes.len() + sizes.len().div_ceil(3), "{}", inbox.len());

    let who = &t.lead.who;
    assert_eq!(check!(t, &pages, forged, "the tasks", tasks(who, Default::default())), added);
    let of_bob = v1::ListTasksRequest { owner: "bob".to_owned(), ..Default::default() };
    let of_bob = check!(t, &pages, forged, "the tasks of bob", tasks(who, of_bob));
    assert_eq!(of_bob, added.iter().copied().step_by(4).collect::<Vec<_>>());
    let done = v1::ListTasksRequest { status: TaskStatus::Completed.into(), ..Default::default() };
    assert!(check!(t, &pages, forged, "the completed tasks", tasks(who, done)).is_empty());

    asked.sort();
    assert_eq!(check!(t, &pages, forged, "the requests", requests(who, Default::default())), asked);
    let approved = v1::ListRequestsRequest { state: RequestState::Approved.into(), ..Default::default() };
    let approved = check!(t, &pages, forged, "the approved requests", requests(who, approved));
    assert_eq!(approved.len(), (0..sizes.len()).filter(|number| number % 8 == 1).count());

    let all = check!(t, &pages, forged, "the history", history(who, Default::default(), false));
    assert_eq!(check!(t, &pages, forged, "the newest history", history(who, Default::default(), true)), all);
    let of_bob = v1::HistoryFilter { member: "bob".to_owned(), messages_only: true, ..Default::default() };
    for newest in [false, true] {
        let found = check!(t, &pages, forged, "the messages of bob", history(who, of_bob.clone(), newest));
        assert!(found.len() >= inbox.len() && found.len() < all.len(), "{} of {}", found.len(), all.len());
    }
    let text = v1::HistoryFilter { text: "never said".to_owned(), ..Default::default() };
    assert!(check!(t, &pages, forged, "what was never said", history(&bob.who, text, false)).is_empty());
    let receipts = v1::HistoryFilter { include_receipts: true, ..Default::default() };
    assert_eq!(check!(t, &pages, forged, "the history with receipts", history(who, receipts, false)), all);

    for (number, id) in sent.iter().enumerate() {
        let request = v1::GetMessageRequest { message_id: id.clone(), ..Default::default() };
        let reply = examined(&t, "a message", async |at| at.get_message(who, &request).await.unwrap()).await;
        assert!(reply.encoded_len() <= PAGE_BYTES_MAX, "message {number}: {} bytes", reply.encoded_len());
    }
    for id in &asked {
        let reply = examined(&t, "a request", async |at| at.get_request(who, "", id).await.unwrap()).await;
        assert!(reply.encoded_len() <= PAGE_BYTES_MAX, "a request: {} bytes", reply.encoded_len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_stay_within_their_bounds_and_are_complete_for_any_contents(
        sizes in vec(prop_oneof![1_usize..2_000, 1_usize..=65_536, Just(65_536)], 1..50),
        pages in vec(prop_oneof![1_u32..10, 10_u32..=1_000], 1..4),
        forged in vec(any::<String>(), 0..2),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(contents(sizes, pages, forged));
    }
}

/// Returns labels as large as may be.
fn labels<L: FromIterator<(String, String)>>() -> L {
    (0..32).map(|number| (format!("{number}{}", line(60)), line(255))).collect()
}

#[tokio::test]
async fn lists_of_few_large_items_stay_within_their_bounds_and_are_complete() {
    const MANY: usize = 30;
    let t = team().await;
    let mut members = vec!["lead".to_owned()];
    let mut hosts = Vec::new();
    let mut teams = vec!["alpha".to_owned()];
    let profiles = (0..64).map(|number| v1::HostProfile {
        name: format!("p{number}{}", "x".repeat(50)),
        description: line(200),
        ..Default::default()
    });
    let profiles: Vec<_> = profiles.collect();
    for number in 0..MANY {
        let name = format!("member-{number}");
        let token = t.invite(&name).await;
        let attributes = v1::MemberAttributes {
            agent_type: line(100),
            model: line(100),
            host: line(255),
            color: line(32),
            labels: labels(),
            plan_mode_required: true,
        };
        let request = v1::JoinRequest { attributes: Some(attributes), ..Default::default() };
        let member = presented(&t.try_join(&presented(&token), request).await.unwrap().credential);
        let report =
            v1::HeartbeatRequest { activity: v1::Activity::Idle.into(), summary: line(200), ..Default::default() };
        t.coordinator.heartbeat(&member, &report).await.unwrap();
        members.push(name);

        let name = format!("host-{number}");
        let invite = v1::InviteRequest { member: name.clone(), host: true, ..Default::default() };
        let token = t.coordinator.invite(&t.lead.who, &invite).await.unwrap().join_token;
        let join = v1::JoinRequest { host: true, ..Default::default() };
        let host = presented(&t.try_join(&presented(&token), join).await.unwrap().credential);
        let offer = v1::HostOffer { labels: labels(), profiles: profiles.clone(), slots: 1_000, platform: line(100) };
        t.coordinator.update_host(&host, &v1::UpdateHostRequest { offer: Some(offer) }).await.unwrap();
        hosts.push(name);

        let description = line(1_000);
        let name = format!("team-{number}");
        let create = v1::CreateTeamRequest { description, ..create(&name) };
        t.coordinator.create_team(&t.operator, &create).await.unwrap();
        teams.push(name);
        t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap();
        t.coordinator.invite(&t.lead.who, &Default::default()).await.unwrap();
    }
    let bob = t.join("bob").await;
    members.push("bob".to_owned());
    for _ in 0..3 {
        let lines = (0..100).map(|_| v1::ReportedLine { text: line(600), ..Default::default() }).collect();
        t.coordinator
            .report_activity(&bob.who, &v1::ReportActivityRequest { lines, ..Default::default() })
            .await
            .unwrap();
    }
    // More than two pages in each of two chains.
    for subject in [Subject::Access, Subject::Privileged] {
        let chain = Chain::new(subject, Some(&Name::parse("alpha", "team").unwrap()));
        for batch in 0..3 {
            let entry = |number: usize| v1::AuditEntry {
                at: Some(timestamp(t.coordinator.now_ms())),
                object: format!("{batch} {number} {}", line(1_000)),
                calls: 1,
                ..Default::default()
            };
            let entries: Vec<_> = (0..200).map(entry).collect();
            t.coordinator.append_to_audit(&chain, &format!("{subject:?} {batch}"), &entries).await.unwrap();
        }
    }
    for list in [&mut members, &mut hosts, &mut teams] {
        list.sort();
    }
    let (pages, forged) = ([&[1_000][..], &[7, 1, 30], &[2]], &tokens(&[line(70)])[..]);
    let (who, operator) = (&t.lead.who, &t.operator);

    let found = check!(t, &pages, forged, "the members", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListMembersRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_members(who, &request).await?;
        listed(&reply, &reply.next_page_token, reply.members.iter().map(|member| member.name.clone()))
    });
    assert_eq!(found, members);
    let found = check!(t, &pages, forged, "the hosts", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListHostsRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_hosts(who, &request).await?;
        listed(&reply, &reply.next_page_token, reply.hosts.iter().map(|host| host.name.clone()))
    });
    assert_eq!(found, hosts);
    let found = check!(t, &pages, forged, "the teams", async |at: Arc<Coordinator>, page_size, page_token| {
        let reply = at.list_teams(operator, &v1::ListTeamsRequest { page_size, page_token }).await?;
        listed(&reply, &reply.next_page_token, reply.teams.iter().map(|team| team.name.clone()))
    });
    assert_eq!(found, teams);
    let found = check!(t, &pages, forged, "the activity", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListActivityRequest { member: "bob".to_owned(), page_size, page_token, ..Default::default() };
        let reply = at.list_activity(who, &request).await?;
        listed(&reply, &reply.next_page_token, reply.lines.iter().map(|line| line.sequence))
    });
    assert_eq!(found, (101..=300).collect::<Vec<_>>());
    let found = check!(t, &pages, forged, "the credentials", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListCredentialsRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_credentials(who, &request).await?;
        listed(&reply, &reply.next_page_token, reply.credentials.iter().map(|credential| credential.id.clone()))
    });
    assert_eq!(found.len(), members.len() + hosts.len() + 2 * MANY, "members, hosts, observers, invitations");
    let found = check!(t, &pages, forged, "the audit log", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListAuditEntriesRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_audit_entries(who, &request).await?;
        let place = |record: &v1::AuditRecord| (record.chain.clone(), record.sequence);
        listed(&reply, &reply.next_page_token, reply.records.iter().map(place))
    });
    assert_eq!(found.len(), 2 * 3 * 200);
    let found = check!(t, &pages, forged, "the chains", async |at: Arc<Coordinator>, page_size, page_token| {
        let request = v1::ListAuditChainsRequest { page_size, page_token, ..Default::default() };
        let reply = at.list_audit_chains(operator, &request).await?;
        listed(&reply, &reply.next_page_token, reply.chains.iter().map(|chain| chain.name.clone()))
    });
    assert_eq!(found, ["access/alpha", "privileged/alpha"]);

    let bytes = examined(&t, "the team", async |at| at.get_team(who, "").await.unwrap().encoded_len()).await;
    assert!(bytes <= PAGE_BYTES_MAX, "the team: {bytes} bytes");
    let request = v1::DiagnoseRequest { patience: Some(prost_types::Duration::default()), ..Default::default() };
    let diagnose = async |at: Arc<Coordinator>| at.diagnose(who, &request).await.unwrap().0.encoded_len();
    let bytes = examined(&t, "a diagnosis", diagnose).await;
    assert!(bytes <= PAGE_BYTES_MAX + TOKEN_BYTES_MAX, "a diagnosis: {bytes} bytes");
    let bytes = examined(&t, "the caller", async |at| at.get_caller(who).await.unwrap().encoded_len()).await;
    assert!(bytes <= PAGE_BYTES_MAX, "the caller: {bytes} bytes");
    let request = v1::CreateTaskRequest {
        subject: line(200),
        description: "x".repeat(65_536),
        metadata: (0..32).map(|number| (format!("{number}{}", line(60)), line(1_024))).collect(),
        ..Default::default()
    };
    let id = t.add(request).await;
    let bytes = examined(&t, "a task", async |at| at.get_task(who, "", id).await.unwrap().encoded_len()).await;
    assert!((65_536..=PAGE_BYTES_MAX).contains(&bytes), "a task: {bytes} bytes");
}

/// Writes as a rule would, without the time that it takes.
async fn write(t: &Team, writes: Vec<Write>) {
    let txn = Txn { writes, ..Txn::default() };
    let done = Store::commit(&*t.clock, &t.namespace, &txn).await.unwrap();
    assert!(matches!(done, Outcome::Committed(_)));
}

/// Adds more than two stretches of small entries to the history, and as many requests.
async fn much_that_is_small(t: &Team) {
    for thousand in 0..(2 * SEARCHED_MAX / 1_000 + 1) {
        let mut writes = Vec::new();
        for number in 0..1_000 {
            let event = v1::TeamEvent { kind: TeamEventKind::LeadChanged.into(), ..Default::default() };
            let entry = v1::HistoryEntry { event: Some(Event::Team(event)), ..Default::default() };
            let data = entry.encode_to_vec().into();
            writes.push(Write::Append { stream: HISTORY.to_owned(), data, weight: 0, bound: None });
            let id = format!("req_{thousand:013}{number:013}");
            let data = id.clone().into_bytes().into();
            writes.push(Write::Append { stream: REQUESTS.to_owned(), data, weight: 0, bound: None });
            let request = v1::Request { id: id.clone(), state: RequestState::Approved.into(), ..Default::default() };
            writes.push(Write::Put { key: Key::new(v1::Request::KIND, id), data: request.encode_to_vec().into() });
        }
        write(t, writes).await;
    }
}

#[tokio::test]
async fn a_search_among_very_many_items_is_complete_although_each_call_scans_only_a_part() {
    let t = team().await;
    let bob = t.join("bob").await;
    much_that_is_small(&t).await;
    let (last, asked) = (t.send(&t.lead, message("bob", "found")).await, t.ask(&bob, plan("found")).await);
    let pages = [&[1_000][..]];
    let messages = v1::HistoryFilter { messages_only: true, text: "found".to_owned(), ..Default::default() };
    for newest in [false, true] {
        let found = is_complete(&t, "the history", &pages, history(&t.lead.who, messages.clone(), newest)).await;
        assert_eq!(found.len(), 2, "the message {} and the plan", last.message_id);
    }
    let pending = v1::ListRequestsRequest { state: RequestState::Pending.into(), ..Default::default() };
    assert_eq!(is_complete(&t, "the requests", &pages, requests(&t.lead.who, pending)).await, [asked]);
    let denied = v1::ListRequestsRequest { state: RequestState::Rejected.into(), ..Default::default() };
    assert!(is_complete(&t, "the rejected requests", &pages, requests(&t.lead.who, denied)).await.is_empty());
}

#[tokio::test]
async fn a_search_among_very_large_items_is_complete_although_each_call_scans_only_a_part() {
    let t = team().await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    let text = "x".repeat(65_536);
    let mut asked = Vec::new();
    for _ in 0..2 * SEARCHED_BYTES_MAX / text.len() {
        t.send(&t.lead, message("bob", &text)).await;
        // Each plan cancels the one before.
        asked.push(t.ask(&eve, plan(&text)).await);
        t.add(v1::CreateTaskRequest { description: text.clone(), ..task("for anyone") }).await;
    }
    let mine = t.add(task_for("bob")).await;
    let pages = [&[1_000][..]];
    let said = v1::HistoryFilter { text: "never said".to_owned(), ..Default::default() };
    for newest in [false, true] {
        // Neither the lead, which may read all of it, nor a member that may read none of it.
        for who in [&t.lead.who, &bob.who] {
            assert!(is_complete(&t, "the history", &pages, history(who, said.clone(), newest)).await.is_empty());
        }
    }
    let of_bob = v1::ListTasksRequest { owner: "bob".to_owned(), ..Default::default() };
    assert_eq!(is_complete(&t, "the tasks", &pages, tasks(&t.lead.who, of_bob)).await, [mine]);
    let pending = v1::ListRequestsRequest { state: RequestState::Pending.into(), ..Default::default() };
    assert_eq!(is_complete(&t, "the requests", &pages, requests(&t.lead.who, pending)).await, asked[asked.len() - 1..]);
    assert!(is_complete(&t, "the requests of others", &pages, requests(&bob.who, Default::default())).await.is_empty());
}
