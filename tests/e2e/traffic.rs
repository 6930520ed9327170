//! Many members with open streams, who keep sending numbers to each other, and what became of all of them.
//!
//! Each member sends to the next one of its team, one number after the other, each once the one before was stored;
//! every fifth goes to the team's lead, who has no stream and whose inbox fills. Nobody ever sees an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_client::{Client, Event, SubscribeOptions, message, v1, v1::message::Body};
use tokio::{
    runtime::Runtime,
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::world::{LEAD, World, eventually};

/// Where a traffic works: nothing that keeps it from sending and from piling up.
pub(crate) const ROOMY: &str =
    "[rates]\nsends_per_second = 1000\nsends_burst = 1000\n[limits]\ninbox_entries_max = 100000\n";

/// How many members a team has besides its lead.
const TEAM_SIZE: usize = 10;

/// How many messages all of them together send a second.
const SENDS_PER_SECOND: f64 = 100.0;

/// Every so many numbers one goes to the lead.
const TO_LEAD: usize = 5;

/// Teams of members that are at work.
pub(crate) struct Traffic {
    runtime: Runtime,
    members: Vec<Arc<Member>>,
    /// Each team's name and lead.
    leads: Vec<(String, Client)>,
    stop: watch::Sender<bool>,
    sending: Vec<JoinHandle<()>>,
    taking: Vec<JoinHandle<()>>,
}

/// One who sends to the next and takes from the one before.
struct Member {
    team: usize,
    client: Client,
    next: String,
    /// How many numbers were stored, from 0 on.
    stored: AtomicUsize,
    /// What came from the one before.
    took: Mutex<Vec<usize>>,
    /// How many notices of lost writes it received.
    told: AtomicUsize,
}

/// What became of what was sent.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// How many sends were answered with OK.
    pub stored: usize,
    /// The numbers that were answered with OK and never came, by sender.
    pub lost: BTreeMap<usize, Vec<usize>>,
    /// How many came more than once.
    pub doubles: usize,
    /// How many came after a later one of the same sender.
    pub disordered: usize,
    /// The teams in which a member received a notice of lost writes.
    pub told: BTreeSet<usize>,
    /// The teams in whose history a loss stands.
    pub recorded: BTreeSet<usize>,
}

impl Account {
    /// Asserts that every message arrived once and in order, and that no loss was reported.
    #[track_caller]
    pub(crate) fn is_flawless(&self) {
        self.is_orderly();
        assert!(self.lost.is_empty() && self.told.is_empty() && self.recorded.is_empty(), "{self:?}");
    }

    /// Asserts that whatever came, came once and in order.
    #[track_caller]
    pub(crate) fn is_orderly(&self) {
        assert!(self.doubles == 0 && self.disordered == 0, "{self:?}");
    }

    fn count(&mut self, sender: usize, expected: impl Iterator<Item = usize>, took: &[usize]) {
        let distinct: BTreeSet<_> = took.iter().copied().collect();
        self.doubles += took.len() - distinct.len();
        self.disordered += took.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let lost = expected.filter(|number| !distinct.contains(number));
        self.lost.entry(sender).or_default().extend(lost);
    }
}

impl Traffic {
    /// Returns how many streams to open: `TEAMWIRE_STREAMS`, or 50.
    pub(crate) fn size() -> usize {
        env::var("TEAMWIRE_STREAMS").map_or(50, |streams| streams.parse().expect("a number of streams"))
    }

    /// Makes teams at coordinators and has all members begin.
    pub(crate) fn gather(world: &World, addresses: &str) -> Self {
        let (runtime, streams) = (Runtime::new().unwrap(), Self::size());
        let (members, leads) = runtime.block_on(enroll(world, addresses, streams));
        let (stop, stopped) = watch::channel(false);
        let mut traffic = Self { runtime, members, leads, stop, sending: Vec::new(), taking: Vec::new() };
        let pace = Duration::from_secs_f64(streams as f64 / SENDS_PER_SECOND);
        for (at, member) in (0..).zip(&traffic.members) {
            let begin = Duration::from_secs_f64(f64::from(at) / SENDS_PER_SECOND);
            traffic.taking.push(traffic.runtime.spawn(member.clone().take()));
            traffic.sending.push(traffic.runtime.spawn(member.clone().send(begin, pace, stopped.clone())));
        }
        traffic
    }

    /// Returns the team of a sender.
    pub(crate) fn team_of(sender: usize) -> usize {
        sender / TEAM_SIZE
    }

    /// Returns how many numbers each has had stored by now.
    pub(crate) fn stored(&self) -> Vec<usize> {
        self.members.iter().map(|member| member.stored.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every member has had so many more stored; but for those of one team, if it is named.
    #[track_caller]
    pub(crate) fn await_stored(&self, what: &str, more: usize, except: &str) {
        let before = self.stored();
        eventually(what, || {
            self.assert_well();
            let has_more = |member: usize, now: usize| {
                now >= before[member] + more || self.leads[Self::team_of(member)].0 == except
            };
            self.stored().into_iter().enumerate().all(|(member, now)| has_more(member, now)).then_some(())
        });
    }

    /// Waits until every stream has brought something that was sent only after this was called.
    #[track_caller]
    pub(crate) fn goes_on(&self, what: &str) {
        // One may be under way already.
        let before: Vec<_> = self.stored().into_iter().map(|stored| stored + 1).collect();
        eventually(what, || {
            self.assert_well();
            let has_new = |(at, member): (usize, &Arc<Member>)| {
                let took = member.took.lock();
                took.last().is_some_and(|last| *last >= before[sender_to(at)])
            };
            self.members.iter().enumerate().all(has_new).then_some(())
        });
    }

    /// Has everybody stop, waits for what is under way, and counts.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Account {
        self.stop.send(true).unwrap();
        for sending in std::mem::take(&mut self.sending) {
            self.runtime.block_on(sending).expect("no error ever");
        }
        let stored = self.stored();
        eventually("the last words come", || {
            let last = |(at, member): (usize, &Arc<Member>)| {
                // Nobody's last word goes to the lead.
                member.took.lock().contains(&(stored[sender_to(at)] - 1))
            };
            self.members.iter().enumerate().all(last).then_some(())
        });
        let account = self.runtime.block_on(self.account());
        self.runtime.shutdown_background();
        account
    }

    async fn account(&self) -> Account {
        let stored = self.stored();
        let mut account = Account { stored: stored.iter().sum(), ..Account::default() };
        for (at, member) in self.members.iter().enumerate() {
            let from = sender_to(at);
            let expected = (0..stored[from]).filter(|number| !is_for_lead(*number));
            account.count(from, expected, &member.took.lock());
            if member.told.load(Ordering::SeqCst) > 0 {
                account.told.insert(member.team);
            }
        }
        for (team, (_, lead)) in self.leads.iter().enumerate() {
            let mut took: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            let mut request = v1::ListInboxRequest { page_size: 1_000, ..v1::ListInboxRequest::default() };
            loop {
                let page = lead.list_inbox(request.clone()).await.unwrap();
                for message in page.deliveries.into_iter().filter_map(|delivery| delivery.message) {
                    let sender = message.sender.unwrap_or_default().name;
                    match message.body {
                        Some(Body::Message(text)) => {
                            took.entry(place(team, &sender)).or_default().push(text.content.parse().unwrap());
                        }
                        Some(Body::Notice(notice)) if notice.kind() == v1::NoticeKind::WritesLost => {
                            account.told.insert(team);
                        }
                        _ => (),
                    }
                }
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break;
                }
            }
            for (from, stored) in stored.iter().enumerate().skip(team * TEAM_SIZE).take(TEAM_SIZE) {
                let expected = (0..*stored).filter(|number| is_for_lead(*number));
                account.count(from, expected, took.get(&from).map_or(&[], Vec::as_slice));
            }
            if has_recorded_a_loss(lead).await {
                account.recorded.insert(team);
            }
        }
        account.lost.retain(|_, lost| !lost.is_empty());
        account
    }

    /// Fails if any member's work has ended.
    #[track_caller]
    fn assert_well(&self) {
        let over = self.sending.iter().chain(&self.taking).any(JoinHandle::is_finished);
        assert!(!over, "an application has ended");
    }
}

impl Member {
    async fn send(self: Arc<Self>, begin: Duration, pace: Duration, stop: watch::Receiver<bool>) {
        let mut ticks = interval_at(Instant::now() + begin, pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0;
        while number == 0 || !*stop.borrow() || is_for_lead(number - 1) {
            ticks.tick().await;
            let to = if is_for_lead(number) { LEAD } else { &self.next };
            self.client.send(message::direct(to, "a number", number.to_string())).await.expect("no error ever");
            number += 1;
            self.stored.store(number, Ordering::SeqCst);
        }
    }

    async fn take(self: Arc<Self>) {
        let mut inbox = self.client.subscribe(SubscribeOptions::default());
        while let Some(event) = inbox.next().await {
            match event.expect("no error ever") {
                Event::Delivery(delivery) => {
                    match &delivery.message.body {
                        Some(Body::Message(text)) => self.took.lock().push(text.content.parse().unwrap()),
                        Some(Body::Notice(notice)) if notice.kind() == v1::NoticeKind::WritesLost => {
                            self.told.fetch_add(1, Ordering::SeqCst);
                        }
                        _ => (),
                    }
                    delivery.ack();
                }
                Event::Opened(_) | Event::Lost { .. } => (),
                other => panic!("an end: {other:?}"),
            }
        }
    }
}

async fn enroll(world: &World, addresses: &str, streams: usize) -> (Vec<Arc<Member>>, Vec<(String, Client)>) {
    let new = || Client::connect(addresses).unwrap();
    // Each coordinator has its own operator.
    let operator = Client::connect(&world.coordinator.address()).unwrap().with_credential(&world.operator()).unwrap();
    let (mut members, mut leads) = (Vec::new(), Vec::new());
    for team in 0..streams / TEAM_SIZE {
        let name = format!("team-{team}");
        let request = v1::CreateTeamRequest { name: name.clone(), ..v1::CreateTeamRequest::default() };
        let lead = new().with_credential(&operator.create_team_with(request).await.unwrap().credential).unwrap();
        let uses_max = u32::try_from(TEAM_SIZE).unwrap();
        let invited = lead.invite(v1::InviteRequest { uses_max, ..v1::InviteRequest::default() }).await.unwrap();
        for at in 0..TEAM_SIZE {
            let request = v1::JoinRequest { name: named(at), ..v1::JoinRequest::default() };
            let client = new();
            let joined = client.with_credential(&invited.join_token).unwrap().join(request).await.unwrap();
            members.push(Arc::new(Member {
                team,
                client: client.with_credential(&joined.credential).unwrap(),
                next: named((at + 1) % TEAM_SIZE),
                stored: AtomicUsize::new(0),
                took: Mutex::default(),
                told: AtomicUsize::new(0),
            }));
        }
        leads.push((name, lead));
    }
    (members, leads)
}

async fn has_recorded_a_loss(lead: &Client) -> bool {
    let mut request = v1::ListHistoryRequest { page_size: 1_000, ..v1::ListHistoryRequest::default() };
    loop {
        let page = lead.list_history(request.clone()).await.unwrap();
        let is_loss = |entry: &v1::HistoryEntry| match &entry.event {
            Some(v1::history_entry::Event::Team(event)) => event.kind() == v1::TeamEventKind::WritesLost,
            _ => false,
        };
        if page.entries.iter().any(is_loss) {
            return true;
        }
        if page.next_page_token.is_empty() {
            return false;
        }
        request.page_token = page.next_page_token;
    }
}

fn is_for_lead(number: usize) -> bool {
    number.is_multiple_of(TO_LEAD)
}

fn named(at: usize) -> String {
    format!("member-{at}")
}

/// Returns the place among all of a member of a team.
fn place(team: usize, name: &str) -> usize {
    team * TEAM_SIZE + name.strip_prefix("member-").and_then(|at| at.parse::<usize>().ok()).unwrap()
}

/// Returns who sends to a member.
fn sender_to(at: usize) -> usize {
    at / TEAM_SIZE * TEAM_SIZE + (at % TEAM_SIZE + TEAM_SIZE - 1) % TEAM_SIZE
}
