//! Teams that are watched, and histories that are searched.

use std::{collections::BTreeMap, sync::LazyLock};

use teamwire_proto::v1::{
    self, RequestState, history_service_client::HistoryServiceClient, host_service_client::HostServiceClient,
    request_service_client::RequestServiceClient, send_request::Body, team_item::Item, team_item_key::Key,
    watch_service_client::WatchServiceClient,
};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Code, Status, Streaming};

use crate::{
    raw::{Raw, refused},
    world::{LEAD, PATIENCE, World},
};

scenarios! {
    a_watch_shows_the_final_state_of_a_request_however_soon_it_is_decided,
    a_watch_is_for_members_observers_and_the_operator_and_ends_with_the_team,
}

store_scenarios! {
    a_watch_begins_with_the_same_items_as_the_lists_and_follows_each_kind_of_change,
    a_client_that_reconnects_gets_what_has_changed_since_or_a_new_snapshot,
    a_slow_client_gets_only_the_latest_states,
    a_followed_status_prints_changes_through_a_coordinator_restart,
    the_history_is_searched_for_what_was_said,
}

redis_scenarios! {
    a_watch_shows_what_another_coordinator_has_changed,
}

/// Where connections are kept, since some outlive the call that opens them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn raw(world: &World, identity: &str) -> Raw {
    let _entered = RUNTIME.enter();
    Raw::at(&world.coordinator.address(), &world.credential(identity))
}

impl Raw {
    fn hosts(&self) -> HostServiceClient<tonic::transport::Channel> {
        HostServiceClient::new(self.channel.clone())
    }

    fn requests(&self) -> RequestServiceClient<tonic::transport::Channel> {
        RequestServiceClient::new(self.channel.clone())
    }

    async fn create_task(&self, subject: &str, blocked_by: &[u64]) -> u64 {
        let request = v1::CreateTaskRequest {
            subject: subject.to_owned(),
            description: "in full".to_owned(),
            blocked_by: blocked_by.to_vec(),
            ..Default::default()
        };
        self.tasks().create_task(self.request(request)).await.unwrap().into_inner().task.unwrap().id
    }

    async fn say(&self, to: &str, content: &str) {
        let (recipient, content) = (to.to_owned(), content.to_owned());
        let message = v1::DirectMessage { recipient, summary: "word".to_owned(), content };
        self.send(Some(Body::Message(message))).await.unwrap();
    }

    async fn report(&self, text: &str) {
        let lines = vec![v1::ReportedLine { text: text.to_owned(), age: None }];
        let request = v1::ReportActivityRequest { lines, ..Default::default() };
        self.teams().report_activity(self.request(request)).await.unwrap();
    }

    async fn idle(&self) {
        let request = v1::HeartbeatRequest { activity: v1::Activity::Idle.into(), ..Default::default() };
        self.teams().heartbeat(self.request(request)).await.unwrap();
    }

    async fn try_watch(&self, request: v1::WatchTeamRequest) -> Result<Watch, Status> {
        let mut watches = WatchServiceClient::new(self.channel.clone());
        let frames = watches.watch_team(self.request(request)).await?.into_inner();
        Ok(Watch { frames, items: BTreeMap::new(), token: String::new(), resets: 0, received: 0 })
    }

    /// Watches a team, and reads until caught up.
    async fn watch(&self, resume_token: &str) -> Watch {
        let request = v1::WatchTeamRequest { resume_token: resume_token.to_owned(), ..Default::default() };
        let mut watch = self.try_watch(request).await.unwrap();
        while !watch.next().await.unwrap() {}
        watch
    }
}

/// A client's map of the items of a team, as the protocol's documentation says to keep it.
struct Watch {
    frames: Streaming<v1::WatchTeamResponse>,
    items: BTreeMap<String, Item>,
    token: String,
    resets: usize,
    received: usize,
}

fn key_of(item: &Item) -> String {
    match item {
        Item::Team(_) => "team".to_owned(),
        Item::Member(member) => format!("{:?}", Key::Member(member.name.clone())),
        Item::Host(host) => format!("{:?}", Key::Host(host.name.clone())),
        Item::Request(request) => format!("{:?}", Key::RequestId(request.id.clone())),
        Item::Task(task) => format!("{:?}", Key::TaskId(task.id)),
        Item::Activity(activity) => format!("{:?}", Key::ActivityOf(activity.member.clone())),
    }
}

impl Watch {
    /// Reads a frame. Returns whether the client is caught up.
    async fn next(&mut self) -> Result<bool, Status> {
        let frame = timeout(PATIENCE, self.frames.message()).await.expect("a frame in time")?.expect("no silent end");
        if frame.reset {
            self.items.clear();
            self.resets += 1;
        }
        for item in frame.items.into_iter().filter_map(|item| item.item) {
            self.received += 1;
            self.items.insert(key_of(&item), item);
        }
        for key in frame.removed.into_iter().filter_map(|removed| removed.key) {
            self.items.remove(&format!("{key:?}"));
        }
        self.token = frame.resume_token;
        Ok(frame.caught_up)
    }

    /// Reads until an item is as wanted.
    async fn until(&mut self, what: &str, is_it: impl Fn(&BTreeMap<String, Item>) -> bool) {
        let wait = async {
            while !is_it(&self.items) {
                self.next().await.unwrap();
            }
        };
        let waited = timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "{what} in {:#?}", self.items);
    }

    async fn until_member(&mut self, name: &str, is_it: impl Fn(&v1::Member) -> bool) {
        let key = format!("{:?}", Key::Member(name.to_owned()));
        self.until(name, |items| matches!(items.get(&key), Some(Item::Member(member)) if is_it(member))).await;
    }

    /// Reads until the stream ends. Returns why.
    async fn end(&mut self) -> Status {
        let end = async {
            loop {
                if let Err(status) = self.next().await {
                    return status;
                }
            }
        };
        timeout(PATIENCE, end).await.expect("an end")
    }

    fn has(&self, key: &Key) -> bool {
        self.items.contains_key(&format!("{key:?}"))
    }
}

fn without_lease(item: Item) -> Item {
    match item {
        Item::Member(member) => Item::Member(v1::Member { lease_left: None, state_since: None, ..member }),
        Item::Host(host) => Item::Host(v1::Host { lease_left: None, ..host }),
        other => other,
    }
}

/// Returns what the calls that list things say, as a watch shows it.
async fn listed(lead: &Raw) -> BTreeMap<String, Item> {
    let team = lead.teams().get_team(lead.request(v1::GetTeamRequest::default())).await.unwrap().into_inner().team;
    // A watch does not show what the team holds in the store.
    let mut items = vec![Item::Team(v1::Team { storage: None, ..team.unwrap() })];
    let members = lead.teams().list_members(lead.request(v1::ListMembersRequest::default())).await.unwrap();
    items.extend(members.into_inner().members.into_iter().map(Item::Member));
    let hosts = lead.hosts().list_hosts(lead.request(v1::ListHostsRequest::default())).await.unwrap();
    items.extend(hosts.into_inner().hosts.into_iter().map(Item::Host));
    let pending = v1::ListRequestsRequest { state: RequestState::Pending.into(), ..Default::default() };
    let pending = lead.requests().list_requests(lead.request(pending)).await.unwrap().into_inner().requests;
    items.extend(pending.into_iter().map(|request| Item::Request(v1::Request { content: String::new(), ..request })));
    let tasks = lead.tasks().list_tasks(lead.request(v1::ListTasksRequest::default())).await.unwrap();
    let short = |task| v1::Task { description: String::new(), result: String::new(), ..task };
    items.extend(tasks.into_inner().tasks.into_iter().map(short).map(Item::Task));
    let activity = v1::ListActivityRequest { member: "ann".to_owned(), ..Default::default() };
    let lines = lead.teams().list_activity(lead.request(activity)).await.unwrap().into_inner().lines;
    items.extend(
        lines
            .into_iter()
            .last()
            .map(|line| Item::Activity(v1::MemberActivity { member: "ann".into(), line: Some(line) })),
    );
    items.into_iter().map(without_lease).map(|item| (key_of(&item), item)).collect()
}

/// Adds a host to the team. Returns its calls.
async fn add_host(lead: &Raw, name: &str) -> Raw {
    let invite = v1::InviteRequest { member: name.to_owned(), host: true, ..Default::default() };
    let token = lead.teams().invite(lead.request(invite)).await.unwrap().into_inner().join_token;
    let newcomer = Raw { channel: lead.channel.clone(), credential: Some(token) };
    let joined = newcomer
        .teams()
        .join(newcomer.request(v1::JoinRequest { host: true, ..Default::default() }))
        .await
        .unwrap()
        .into_inner();
    let host = Raw { channel: lead.channel.clone(), credential: Some(joined.credential) };
    offer(&host, 2).await;
    host
}

async fn offer(host: &Raw, slots: u32) {
    let offer = v1::HostOffer { slots, platform: "test".to_owned(), ..Default::default() };
    host.hosts().update_host(host.request(v1::UpdateHostRequest { offer: Some(offer) })).await.unwrap();
}

async fn plan(from: &Raw) -> String {
    let plan = v1::PlanApprovalRequest { plan: "dig, then fill".to_owned(), ..Default::default() };
    let request = v1::SendRequest { body: Some(Body::PlanApprovalRequest(plan)), ..Default::default() };
    from.messages().send(from.request(request)).await.unwrap().into_inner().request_id
}

async fn approve(lead: &Raw, request_id: &str) {
    let answer = v1::PlanApprovalResponse {
        recipient: "ann".to_owned(),
        request_id: request_id.to_owned(),
        approve: Some(true),
        ..Default::default()
    };
    lead.send(Some(Body::PlanApprovalResponse(answer))).await.unwrap();
}

fn a_watch_begins_with_the_same_items_as_the_lists_and_follows_each_kind_of_change(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (lead, ann) = (raw(&world, LEAD), raw(&world, "ann"));
    RUNTIME.block_on(async {
        let host = add_host(&lead, "box").await;
        let first = lead.create_task("Dig", &[]).await;
        let second = lead.create_task("Fill", &[first]).await;
        let request = plan(&ann).await;
        ann.report("reads the map").await;
        let mut watch = lead.watch("").await;
        // A new lead is away until its first call, which counts a little later.
        watch.until_member(LEAD, |lead| lead.state() != v1::MemberState::Away).await;
        let shown = watch.items.clone().into_iter().map(|(key, item)| (key, without_lease(item))).collect();
        similar(&listed(&lead).await, &shown);
        assert_eq!(watch.resets, 1);

        // A message, and its acknowledgement.
        lead.say("ann", "hello").await;
        watch.until_member("ann", |ann| ann.inbox_depth > 0).await;
        world.take_inbox("ann");
        watch.until_member("ann", |ann| ann.inbox_depth == 0).await;
        // A state.
        ann.idle().await;
        watch.until_member("ann", |ann| ann.state() == v1::MemberState::Idle).await;
        // A newcomer.
        world.join("bob");
        watch.until_member("bob", |_| true).await;
        // A request that is decided: seen in its final state, and gone.
        approve(&lead, &request).await;
        let key = format!("{:?}", Key::RequestId(request.clone()));
        let decided =
            |items: &BTreeMap<String, Item>| matches!(&items[&key], Item::Request(r) if r.state() == RequestState::Approved);
        watch.until("the decision", decided).await;
        assert!(!lead.watch("").await.has(&Key::RequestId(request)));
        // Tasks, on both sides of a dependency.
        let third = lead.create_task("Leave", &[second]).await;
        let blocks = |items: &BTreeMap<String, Item>| {
            items.values().any(|item| matches!(item, Item::Task(task) if task.id == second && task.blocks == [third]))
        };
        watch.until("the dependency", blocks).await;
        lead.tasks().delete_task(lead.request(v1::DeleteTaskRequest { task_id: first, ..Default::default() })).await.unwrap();
        let gone = format!("{:?}", Key::TaskId(first));
        watch.until("the removal", |items| !items.contains_key(&gone)).await;
        let free = |items: &BTreeMap<String, Item>| {
            items.values().any(|item| matches!(item, Item::Task(task) if task.id == second && task.blocked_by.is_empty()))
        };
        watch.until("the task that waited", free).await;
        // Activity, a host, the lead.
        ann.report("digs").await;
        let digs = |items: &BTreeMap<String, Item>| {
            let line = |item: &Item| matches!(item, Item::Activity(it) if it.line.as_ref().unwrap().text == "digs");
            items.values().any(line)
        };
        watch.until("the activity", digs).await;
        offer(&host, 5).await;
        let slots = |item: &Item| matches!(item, Item::Host(host) if host.offer.as_ref().unwrap().slots == 5);
        watch.until("the offer", |items| items.values().any(slots)).await;
        let to = v1::SetLeadRequest { member: "bob".to_owned(), ..Default::default() };
        lead.teams().set_lead(lead.request(to)).await.unwrap();
        watch.until("the lead", |items| matches!(&items["team"], Item::Team(team) if team.lead == "bob")).await;
        assert_eq!(watch.resets, 2, "the former lead sees fewer requests");
        let mut again = raw(&world, "bob").watch("").await;
        again.until_member("lead", |lead| lead.role() == v1::Role::Teammate).await;
        let shown = again.items.clone().into_iter().map(|(key, item)| (key, without_lease(item))).collect();
        similar(&listed(&raw(&world, "bob")).await, &shown);
    });
}

/// A request that was asked and decided between two reads of the team used to be in no frame.
fn a_watch_shows_the_final_state_of_a_request_however_soon_it_is_decided(world: World) {
    world.create_team("acme");
    world.join("ann");
    let (lead, ann) = (raw(&world, LEAD), raw(&world, "ann"));
    RUNTIME.block_on(async {
        let mut watch = lead.watch("").await;
        let mut keys = Vec::new();
        for _ in 0..8 {
            let request = plan(&ann).await;
            approve(&lead, &request).await;
            keys.push(format!("{:?}", Key::RequestId(request)));
        }
        let is_approved =
            |item: Option<&Item>| matches!(item, Some(Item::Request(it)) if it.state() == RequestState::Approved);
        watch.until("every decision", |items| keys.iter().all(|key| is_approved(items.get(key)))).await;
    });
}

/// Asserts that two sets of items are equal.
#[track_caller]
fn similar(listed: &BTreeMap<String, Item>, shown: &BTreeMap<String, Item>) {
    let keys = |items: &BTreeMap<String, Item>| items.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(listed), keys(shown));
    for (key, item) in listed {
        assert_eq!(Some(item), shown.get(key), "{key}");
    }
}

fn a_client_that_reconnects_gets_what_has_changed_since_or_a_new_snapshot(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    let runtime = &*RUNTIME;
    let lead = raw(&world, LEAD);
    let token = runtime.block_on(async {
        let tasks = [lead.create_task("one", &[]).await, lead.create_task("two", &[]).await];
        let mut watch = lead.watch("").await;
        // A new lead is away until its first call, which counts a little later.
        watch.until_member(LEAD, |lead| lead.state() != v1::MemberState::Away).await;
        let token = watch.token;
        let delete = v1::DeleteTaskRequest { task_id: tasks[0], ..Default::default() };
        lead.tasks().delete_task(lead.request(delete)).await.unwrap();
        let third = lead.create_task("three", &[]).await;
        let mut watch = lead.watch(&token).await;
        let key = format!("{:?}", Key::TaskId(third));
        watch.until("the third task", |items| items.contains_key(&key)).await;
        assert_eq!((watch.resets, watch.received), (0, 1), "{:?}", watch.items);
        // Up to date: a frame says so at once.
        let watch = lead.watch(&watch.token).await;
        assert_eq!((watch.resets, watch.received), (0, 0));
        // The token of one caller is useless to another.
        assert_eq!(raw(&world, "ann").watch(&watch.token).await.resets, 1);
        watch.token
    });
    world.coordinator.kill();
    world.coordinator.restart();
    let lead = raw(&world, LEAD);
    let watch = runtime.block_on(lead.watch(&token));
    assert_eq!(watch.resets, 1);
    assert!(!watch.has(&Key::TaskId(1)) && watch.has(&Key::TaskId(2)) && watch.has(&Key::TaskId(3)));
}

fn a_slow_client_gets_only_the_latest_states(world: World) {
    const TASKS: u64 = 24;
    const CHANGES: u64 = 30;
    /// Counts the tasks that have a change.
    fn have(items: &BTreeMap<String, Item>, change: u64) -> u64 {
        let value = format!("{change:01000}");
        let has = |item: &&Item| matches!(item, Item::Task(task) if task.metadata.get("0") == Some(&value));
        items.values().filter(has).count() as u64
    }
    world.create_team("acme");
    let lead = raw(&world, LEAD);
    RUNTIME.block_on(async {
        for task in 1..=TASKS {
            lead.create_task(&task.to_string(), &[]).await;
        }
        let mut slow = raw(&world, LEAD).watch("").await;
        let mut quick = raw(&world, LEAD).watch("").await;
        let before = slow.received;
        for change in 1..=CHANGES {
            for task_id in 1..=TASKS {
                // As much as a task may have, so that what a connection buffers holds few of them.
                let pairs = (0..30).map(|key| (key.to_string(), format!("{change:01000}")));
                let request = v1::UpdateTaskRequest { task_id, set_metadata: pairs.collect(), ..Default::default() };
                lead.tasks().update_task(lead.request(request)).await.unwrap();
            }
            quick.until("each change", |items| have(items, change) == TASKS).await;
        }
        slow.until("the latest states", |items| have(items, CHANGES) == TASKS).await;
        let received = (slow.received - before) as u64;
        assert!(received < TASKS * CHANGES / 2, "{received} states");
    });
}

fn a_watch_is_for_members_observers_and_the_operator_and_ends_with_the_team(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    let (lead, ann) = (raw(&world, LEAD), raw(&world, "ann"));
    let at = |credential: &str| Raw { channel: lead.channel.clone(), credential: Some(credential.to_owned()) };
    RUNTIME.block_on(async {
        let host = add_host(&lead, "box").await;
        let with = |raw: Raw, request| async move { raw.try_watch(request).await.map(drop) };
        let default = v1::WatchTeamRequest::default;
        refused(with(host, default()).await, Code::PermissionDenied, "NOT_PERMITTED", "");
        let wrong = v1::WatchTeamRequest { resume_token: "zz".to_owned(), ..default() };
        refused(with(at(&world.credential(LEAD)), wrong).await, Code::InvalidArgument, "INVALID_FIELD", "resume_token");
        refused(with(at(&world.operator()), default()).await, Code::NotFound, "TEAM_NOT_FOUND", "team");
        let other = v1::WatchTeamRequest { team: "other".to_owned(), ..default() };
        refused(with(at(&world.credential("ann")), other).await, Code::NotFound, "TEAM_NOT_FOUND", "team");

        let request = plan(&ann).await;
        let key = Key::RequestId(request);
        assert!(ann.watch("").await.has(&key), "the author");
        assert!(!raw(&world, "bob").watch("").await.has(&key), "another teammate");
        let observer = lead.teams().create_observer(lead.request(v1::CreateObserverRequest::default())).await.unwrap();
        assert!(at(&observer.into_inner().credential).watch("").await.has(&key), "an observer");
        let named = v1::WatchTeamRequest { team: "acme".to_owned(), ..default() };
        let mut operator = at(&world.operator()).try_watch(named).await.unwrap();
        operator.until("the request", |items| items.contains_key(&format!("{key:?}"))).await;

        // A member that is stopped sees no more.
        let mut stopped = raw(&world, "bob").watch("").await;
        let force = v1::ForceStopRequest { member: "bob".to_owned(), ..Default::default() };
        lead.teams().force_stop(lead.request(force)).await.unwrap();
        refused(Err(stopped.end().await), Code::FailedPrecondition, "MEMBER_STOPPED", "");

        // A team that is deleted.
        let operator = at(&world.operator());
        let create = v1::CreateTeamRequest { name: "solo".to_owned(), ..Default::default() };
        let created = operator.teams().create_team(operator.request(create)).await.unwrap().into_inner();
        let solo = at(&created.credential);
        let mut watch = solo.watch("").await;
        solo.teams().delete_team(solo.request(v1::DeleteTeamRequest::default())).await.unwrap();
        refused(Err(watch.end().await), Code::NotFound, "TEAM_NOT_FOUND", "team");
    });
}

fn a_watch_shows_what_another_coordinator_has_changed(world: World) {
    world.create_team("acme");
    world.join("ann");
    let other = world.another_coordinator();
    let (lead, ann) = (raw(&world, LEAD), raw(&world, "ann"));
    let entered = RUNTIME.enter();
    let there = Raw::at(&other.address(), &world.credential(LEAD));
    drop(entered);
    RUNTIME.block_on(async {
        let mut watch = there.watch("").await;
        lead.say("ann", "hello").await;
        watch.until_member("ann", |ann| ann.inbox_depth > 0).await;
        world.take_inbox("ann");
        watch.until_member("ann", |ann| ann.inbox_depth == 0).await;
        ann.idle().await;
        watch.until_member("ann", |ann| ann.state() == v1::MemberState::Idle).await;
        let host = add_host(&lead, "box").await;
        offer(&host, 7).await;
        let slots = |item: &Item| matches!(item, Item::Host(host) if host.offer.as_ref().unwrap().slots == 7);
        watch.until("the offer", |items| items.values().any(slots)).await;
        let task = lead.create_task("Dig", &[]).await;
        watch.until("the task", |items| items.contains_key(&format!("{:?}", Key::TaskId(task)))).await;
        let request = plan(&ann).await;
        let key = format!("{:?}", Key::RequestId(request.clone()));
        watch.until("the request", |items| items.contains_key(&key)).await;
        approve(&lead, &request).await;
        let decided =
            |items: &BTreeMap<String, Item>| matches!(&items[&key], Item::Request(r) if r.state() == RequestState::Approved);
        watch.until("the decision", decided).await;
        ann.report("digs").await;
        watch.until("the activity", |items| items.contains_key(&format!("{:?}", Key::ActivityOf("ann".to_owned())))).await;
        // What one coordinator remembers is useless to the other.
        assert_eq!(lead.watch(&watch.token).await.resets, 1);
    });
}

fn a_followed_status_prints_changes_through_a_coordinator_restart(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    let text = world.spawn(LEAD, &["status", "--follow"], "");
    let json = world.spawn(LEAD, &["status", "--follow", "--json"], "");
    text.await_said("ann");
    json.await_said("\"ann\"");
    world.cli(LEAD, &["task", "create", "Dig a well"]).succeeds();
    text.await_said("Dig a well");
    json.await_said("Dig a well");
    world.coordinator.kill();
    world.coordinator.restart();
    world.join("carol");
    text.await_said("carol");
    json.await_said("carol");
    world.cli(LEAD, &["task", "delete", "1"]).succeeds();
    text.await_said("1 deleted");
    json.await_said("removed");
    let [text, json] = [text, json].map(|following| following.interrupt().exits(0));
    assert_eq!(text.stdout.matches("Team acme").count(), 1, "{}", text.stdout);
    let lines = json.lines();
    assert_eq!(lines.iter().filter(|line| line["team"]["name"] == "acme").count(), 2, "one more member: {lines:?}");
    assert_eq!(lines.iter().filter(|line| line["task"]["subject"] == "Dig a well").count(), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line["removed"]["task_id"] == 1).count(), 1, "{lines:?}");
}

fn the_history_is_searched_for_what_was_said(world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    world.cli(LEAD, &["send", "ann", "The Öresund bridge is open", "-s", "bridges"]).succeeds();
    world.cli(LEAD, &["send", "bob", "nothing of the kind"]).succeeds();
    world.cli(LEAD, &["task", "create", "Paint the bridge"]).succeeds();
    let found = |identity: &str, options: &[&str]| {
        let lines = world.cli(identity, &[&["history", "--json"], options].concat()).succeeds().lines();
        lines.len()
    };
    assert_eq!(found(LEAD, &["--search", "BRIDGE"]), 2);
    assert_eq!(found(LEAD, &["--search", "öRESUND"]), 1);
    assert_eq!(found(LEAD, &["--search", "bridge", "--messages"]), 1);
    assert_eq!(found("bob", &["--search", "bridge"]), 1, "only what it may see");
    assert_eq!(found(LEAD, &["--search", "no such words"]), 0);
    assert_eq!(found(LEAD, &["--search", "bridge", "--all"]), 2);
    world.cli(LEAD, &["history", "--search", &"x".repeat(201)]).exits(64).complains_of("200 characters");
    let lead = raw(&world, LEAD);
    RUNTIME.block_on(async {
        let mut history = HistoryServiceClient::new(lead.channel.clone());
        let filter = Some(v1::HistoryFilter { text: "kind".to_owned(), ..Default::default() });
        let request = v1::FollowHistoryRequest { filter, ..Default::default() };
        let mut frames = history.follow_history(lead.request(request)).await.unwrap().into_inner();
        let mut next = async || timeout(PATIENCE, frames.message()).await.unwrap().unwrap().unwrap();
        let first = next().await.entry.unwrap().sequence;
        let everything = next().await;
        assert!(everything.entry.is_none() && everything.last_sequence > first, "{everything:?}");
        lead.say("ann", "another bridge").await;
        lead.say("ann", "of another KIND").await;
        let found = next().await;
        let sequence = found.entry.map(|entry| entry.sequence);
        assert_eq!(sequence, Some(found.last_sequence));
        assert!(sequence > Some(everything.last_sequence + 1), "the other one was left out");
        let alive = next().await;
        assert!(alive.entry.is_none() && Some(alive.last_sequence) >= sequence, "{alive:?}");
    });
}
