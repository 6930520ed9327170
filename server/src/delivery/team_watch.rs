//! Teams that are watched: one task reads each of them, for all who watch it here.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_proto::{Reason, Refusal};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    coordinator::{Coordinator, team_reader::TeamReader},
    domain::{
        identity::Principal,
        team_view::{Changes, Position, TeamView},
    },
    store::Namespace,
};

/// The time between two reads of a team at least. What changes meanwhile is read together.
const PAUSE: Duration = Duration::from_millis(150);

/// The time between two reads when the store does not answer.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// How often all of a team is read: a notification may be lost, and leases end without one.
const READ_ALL: Duration = Duration::from_secs(2);

/// Which part of the time may go into reading all of a large team: one of this many.
const READ_ALL_SHARE: u32 = 10;

/// How long a team is read after the last client has stopped watching it, so that a client that reconnects can resume.
const LINGER: Duration = Duration::from_secs(60);

/// The teams that clients of this coordinator watch.
#[derive(Debug)]
pub struct TeamWatches {
    coordinator: Arc<Coordinator>,
    teams: Mutex<HashMap<Namespace, Arc<TeamWatch>>>,
    stop: CancellationToken,
}

/// A team that is watched.
#[derive(Debug)]
pub struct TeamWatch {
    view: Mutex<TeamView>,
    /// The version of the roster that the view shows.
    roster: AtomicU64,
    /// Counts the reads that have changed something; 0 before the first read.
    news: watch::Sender<u64>,
    /// Why the team is no longer read.
    ended: Mutex<Option<Refusal>>,
}

impl TeamWatches {
    /// Makes the watches of a coordinator. They end when `stop` is cancelled.
    pub fn new(coordinator: Arc<Coordinator>, stop: CancellationToken) -> Self {
        Self { coordinator, teams: Mutex::default(), stop }
    }

    /// Returns the watch of a team, which lasts for at least as long as it is held.
    pub fn open(self: &Arc<Self>, namespace: &Namespace) -> Arc<TeamWatch> {
        let mut teams = self.teams.lock();
        if let Some(watch) = teams.get(namespace) {
            return Arc::clone(watch);
        }
        let watch = Arc::new(TeamWatch {
            view: Mutex::new(TeamView::new(rand::random())),
            roster: AtomicU64::new(0),
            news: watch::Sender::new(0),
            ended: Mutex::default(),
        });
        teams.insert(namespace.clone(), Arc::clone(&watch));
        let (this, namespace, read) = (Arc::clone(self), namespace.clone(), Arc::clone(&watch));
        tokio::spawn(async move {
            this.stop.run_until_cancelled(this.read(&namespace, &read)).await;
            this.teams.lock().retain(|_, watch| !Arc::ptr_eq(watch, &read));
        });
        watch
    }

    /// Reads a team until it is gone, or has not been watched for a while.
    async fn read(&self, namespace: &Namespace, watch: &Arc<TeamWatch>) {
        let changes = self.coordinator.notifier().team_changes(namespace);
        let mut reader = TeamReader::new(namespace.clone());
        let (mut read_all_at, mut watched_at) = (Instant::now(), Instant::now());
        loop {
            let began = Instant::now();
            let mut unread = changes.take();
            unread.everything |= began >= read_all_at;
            let pause = match self.coordinator.read_team(&mut reader, &unread, &watch.view).await {
                Ok(()) => {
                    if unread.everything {
                        read_all_at = Instant::now() + READ_ALL.max(began.elapsed() * READ_ALL_SHARE);
                    }
                    watch.publish(reader.version());
                    PAUSE
                }
                Err(refusal) if refusal.reason == Reason::StoreUnavailable => {
                    tracing::debug!(?namespace, %refusal, "a watched team could not be read");
                    read_all_at = Instant::now();
                    PAUSE_AFTER_ERROR
                }
                Err(refusal) => return self.end(watch, refusal),
            };
            if self.is_watched(watch) {
                watched_at = Instant::now();
            } else if watched_at.elapsed() >= LINGER && self.forget(watch) {
                return;
            }
            sleep(pause).await;
            tokio::select! {
                () = changes.changed() => {}
                () = sleep_until(read_all_at) => {}
            }
        }
    }

    /// Returns whether a client holds the watch, besides this object and the task that reads the team.
    fn is_watched(&self, watch: &Arc<TeamWatch>) -> bool {
        Arc::strong_count(watch) > 2
    }

    /// Forgets a watch unless a client has just opened it.
    fn forget(&self, watch: &Arc<TeamWatch>) -> bool {
        let mut teams = self.teams.lock();
        let is_watched = self.is_watched(watch);
        if !is_watched {
            teams.retain(|_, other| !Arc::ptr_eq(other, watch));
        }
        !is_watched
    }

    /// Ends a watch: clients that come later open a new one.
    fn end(&self, watch: &Arc<TeamWatch>, refusal: Refusal) {
        self.teams.lock().retain(|_, other| !Arc::ptr_eq(other, watch));
        *watch.ended.lock() = Some(refusal);
        watch.news.send_modify(|count| *count += 1);
    }
}

impl TeamWatch {
    /// Wakes those who watch the team if the view or the roster has changed.
    fn publish(&self, roster: u64) {
        let has_new_roster = self.roster.swap(roster, Ordering::AcqRel) != roster;
        let has_changes = self.view.lock().take_changed();
        self.news.send_if_modified(|count| {
            let is_news = *count == 0 || has_new_roster || has_changes;
            *count += u64::from(is_news);
            is_news
        });
    }

    /// Returns a counter that changes whenever there is something to read.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Returns the version of the roster: a caller's rights may have changed with it. `None` if the team was not read
    /// yet.
    pub fn roster(&self) -> Result<Option<u64>, Refusal> {
        if let Some(refusal) = &*self.ended.lock() {
            return Err(refusal.clone());
        }
        Ok((*self.news.borrow() > 0).then(|| self.roster.load(Ordering::Acquire)))
    }

    /// Returns what a reader gets next, and how far it has gotten by then. `from`: `None` begins with a snapshot.
    pub fn read(&self, from: Option<&Position>, caller: &Principal) -> (Changes, Position) {
        self.view.lock().read(from, caller)
    }
}
