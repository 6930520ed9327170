//! What a display of a large team costs: watching the team, and reading and searching its history.

use std::{sync::Arc, time::Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use teamwire_client::{
    Client, TeamChange, TeamWatcher, message,
    v1::{self, team_item::Item},
};

use super::{row, start::ms, turns};
use crate::{
    Bench, Result, Store,
    candidate::{Candidate, SUMMARY, grpc::Members, inbox_name},
    measure::{CONTENT, Measurement},
    process::{Coordinator, Scratch},
    report::Report,
    section::SectionLayout,
};

/// Its name on the command line.
pub(crate) const NAME: &str = "watch";

/// How many clients watch the team.
const WATCHERS: usize = 10;

/// How many calls to make concurrently while the team is created, and over how many connections.
const AT_ONCE: usize = 256;
const CONNECTIONS: usize = 16;

/// How often to measure what takes milliseconds.
const REPETITIONS: usize = 30;

/// The number of entries on a page of the history.
const PAGE: u32 = 100;

/// A text in one old message, which differs from it in case, and one in none.
const OLD: &str = "The Well At The Old Mill";
const NEVER: &str = "the well at the new mill";

/// What the page shows of it.
pub(super) const VIEW: SectionLayout = SectionLayout {
    columns: &[
        ("first snapshot: ms", "watching", "ms to the first snapshot"),
        ("KiB", "watching", "KiB of it"),
        ("to a change: p50 ms", "watching", "p50 ms to a change"),
        ("10 watchers: server MiB", "watching", "MiB with 10 watchers"),
        ("first page of the history: p50 ms", "history", "p50 ms to the first page"),
        ("to find an old message: ms", "history", "ms to find an old message"),
        ("its longest call: ms", "history", "ms of the longest"),
    ],
    compared: "watching",
    only_compared: false,
};

/// Runs it.
pub(crate) async fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = format!("{} members, {} messages", bench.members, bench.messages);
    for store in turns(bench, &bench.stores) {
        bench.quiet.wait().await?;
        let of = || row(Candidate::Teamwire(store));
        let team = LargeTeam::found(bench, store).await?;
        let watching = team.watching().await?;
        report.add(
            &format!("{size}; watching"),
            of(),
            &[
                ("ms to the first snapshot", watching.first_ms),
                ("ms to another", watching.other_ms),
                ("KiB of it", watching.bytes / 1024.0),
                ("p50 ms to a change", watching.changes.percentile_ms(50.0)),
                ("p99 ms", watching.changes.percentile_ms(99.0)),
                ("MiB before", watching.before / 1024.0 / 1024.0),
                ("MiB with 10 watchers", watching.after / 1024.0 / 1024.0),
            ],
        );
        let pages = team.first_pages().await?;
        let (found, nothing) = (team.search(OLD, 1).await?, team.search(NEVER, 0).await?);
        report.add(
            &format!("{size}; history"),
            of(),
            &[
                ("p50 ms to the first page", pages.percentile_ms(50.0)),
                ("ms to find an old message", found.ms),
                ("ms to find nothing", nothing.ms),
                ("calls", nothing.calls),
                ("ms of the longest", nothing.longest_ms),
            ],
        );
    }
    Ok(())
}

/// A team with many members and a long history.
struct LargeTeam {
    lead: Client,
    /// Makes the calls that are measured, on its own connection.
    display: Client,
    members: usize,
    coordinator: Coordinator,
    /// Dropped last.
    _scratch: Scratch,
}

struct Watching {
    first_ms: f64,
    other_ms: f64,
    bytes: f64,
    changes: Measurement,
    before: f64,
    after: f64,
}

struct Search {
    ms: f64,
    calls: f64,
    longest_ms: f64,
}

impl LargeTeam {
    async fn found(bench: &Bench, store: Store) -> Result<Self> {
        let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
        let coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
        let team = Members::found(&coordinator, NAME).await?;
        // The lead is a member, too.
        let join = |at| {
            let team = &team;
            async move { team.credential(&inbox_name(at)).await }
        };
        let joining = stream::iter((1..bench.members).map(join)).buffered(AT_ONCE);
        let credentials: Vec<String> = joining.try_collect().await?;
        let connections: Vec<Client> =
            (0..CONNECTIONS).map(|_| Client::connect(coordinator.address())).collect::<std::result::Result<_, _>>()?;
        let senders: Vec<Client> = credentials
            .iter()
            .zip(connections.iter().cycle())
            .map(|(credential, connection)| connection.with_credential(credential))
            .collect::<std::result::Result<_, _>>()?;
        let senders = Arc::new(senders);
        // One of a hundred messages is older than the one to find.
        let old = bench.messages / 100;
        let send = |number: usize| {
            let senders = Arc::clone(&senders);
            async move {
                let to = inbox_name(1 + (number + 1) % senders.len());
                senders[number % senders.len()].send(message::direct(to, SUMMARY, content(number, number == old))).await
            }
        };
        stream::iter((0..bench.messages).map(send))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        let display = Client::connect(coordinator.address())?.with_credential(team.lead.credential())?;
        Ok(Self { lead: team.lead, display, members: bench.members, coordinator, _scratch: scratch })
    }

    async fn watching(&self) -> Result<Watching> {
        let before = self.coordinator.usage()?.resident as f64;
        let began = Instant::now();
        let mut watcher = self.watch().await?;
        let first_ms = ms(began);
        let began = Instant::now();
        let mut others = vec![self.watch().await?];
        let other_ms = ms(began);
        while others.len() < WATCHERS - 1 {
            others.push(self.watch().await?);
        }
        let bytes: usize = watcher.items().map(|item| v1::TeamItem { item: Some(item.clone()) }.encoded_len()).sum();
        // The others read, too, as displays do.
        let reading: tokio::task::JoinSet<()> = others.into_iter().map(read).collect();
        let changes = self.changes(&mut watcher).await?;
        let after = self.coordinator.usage()?.resident as f64;
        drop(reading);
        Ok(Watching { first_ms, other_ms, bytes: bytes as f64, changes, before, after })
    }

    /// Watches the team, and waits for the whole snapshot.
    async fn watch(&self) -> Result<TeamWatcher> {
        // Each display has its own connection.
        let client = Client::connect(self.coordinator.address())?.with_credential(self.lead.credential())?;
        let mut watcher = client.watch_team(v1::WatchTeamRequest::default());
        while !watcher.is_current() {
            watcher.next().await.ok_or("a watch ended")??;
        }
        let members = watcher.items().filter(|item| matches!(item, Item::Member(_))).count();
        if members != self.members {
            return Err(format!("a snapshot has {members} members").into());
        }
        Ok(watcher)
    }

    /// Measures the time from the call that changes something to the frame that shows it.
    async fn changes(&self, watcher: &mut TeamWatcher) -> Result<Measurement> {
        let (start, mut latencies) = (Instant::now(), Vec::new());
        for number in 0..REPETITIONS {
            let subject = format!("task {number}");
            let began = Instant::now();
            let request = v1::CreateTaskRequest { subject: subject.clone(), ..v1::CreateTaskRequest::default() };
            let creating = async { Result::Ok(self.lead.create_task(request).await?) };
            let seeing = async {
                loop {
                    let changes = watcher.next().await.ok_or("a watch ended")??;
                    let is_it = |change: &TeamChange| matches!(change, TeamChange::Changed(Item::Task(task)) if task.subject == subject);
                    if changes.iter().any(is_it) {
                        return Result::Ok(began.elapsed());
                    }
                }
            };
            latencies.push(tokio::try_join!(creating, seeing)?.1);
        }
        Measurement::new((start, Instant::now()), latencies)
    }

    async fn first_pages(&self) -> Result<Measurement> {
        let (start, mut latencies) = (Instant::now(), Vec::new());
        for _ in 0..REPETITIONS {
            let began = Instant::now();
            let request = v1::ListHistoryRequest { newest: true, page_size: PAGE, ..v1::ListHistoryRequest::default() };
            let page = self.display.list_history(request).await?;
            latencies.push(began.elapsed());
            if page.entries.len() != PAGE as usize {
                return Err("the first page of the history is not full".into());
            }
        }
        Measurement::new((start, Instant::now()), latencies)
    }

    /// Searches the history, the newest entries first, as a page does, until it has found what there is or read
    /// everything.
    async fn search(&self, text: &str, expected: usize) -> Result<Search> {
        let filter = Some(v1::HistoryFilter { text: text.to_owned(), ..v1::HistoryFilter::default() });
        let mut request =
            v1::ListHistoryRequest { filter, newest: true, page_size: PAGE, ..v1::ListHistoryRequest::default() };
        let (began, mut found, mut calls, mut longest_ms) = (Instant::now(), 0, 0.0, 0.0_f64);
        loop {
            let called = Instant::now();
            let page = self.display.list_history(request.clone()).await?;
            longest_ms = longest_ms.max(ms(called));
            calls += 1.0;
            found += page.entries.len();
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() || (expected > 0 && found == expected) {
                break;
            }
        }
        if found != expected {
            return Err(format!("a search found {found} entries").into());
        }
        Ok(Search { ms: ms(began), calls, longest_ms })
    }
}

/// Reads what a watcher gets until it is dropped.
async fn read(mut watcher: TeamWatcher) {
    while let Some(Ok(_)) = watcher.next().await {}
}

/// Returns the content of a message: words, as agents write them.
fn content(number: usize, is_old: bool) -> String {
    let found = if is_old { OLD.to_lowercase() } else { String::new() };
    let mut content = format!("Step {number} of the plan is done. {found} ");
    while content.len() < CONTENT {
        content.push_str("The tests pass, the change is in the branch; next comes the review of its neighbor. ");
    }
    content
}
