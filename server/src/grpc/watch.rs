//! `WatchService`.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Refusal,
    v1::{self, watch_service_server::WatchService},
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::{
    admission::Admitted,
    follow::{Followed, Follower, Frames},
    services::Services,
};
use crate::{
    coordinator::Coordinator,
    delivery::TeamWatch,
    domain::{
        identity::{CallerCredentials, Principal},
        team_view::{Changes, Position},
    },
};

/// How often the caller's credential is checked while the roster does not change: an observer's may expire.
const CHECK: Duration = Duration::from_secs(10);

/// After how long without a change a frame without items proves that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

#[tonic::async_trait]
impl WatchService for Services {
    type WatchTeamStream = Frames<v1::WatchTeamResponse>;

    async fn watch_team(
        &self,
        request: Request<v1::WatchTeamRequest>,
    ) -> Result<Response<Self::WatchTeamStream>, Status> {
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        let v1::WatchTeamRequest { team, resume_token, .. } = request;
        let position = Position::parse(&resume_token)?;
        // Refuse at once rather than in the stream.
        let (namespace, _, caller) = self.coordinator.caller(&who, &team).await?;
        let watch = self.watches.open(&namespace);
        let news = watch.news();
        let watcher = Watcher {
            coordinator: Arc::clone(&self.coordinator),
            who: Arc::clone(&who),
            team,
            watch,
            caller,
            roster: None,
            checked_at: Instant::now(),
            position,
            sent_at: None,
        };
        Ok(Response::new(self.follow(Follower { who, account, namespace }, news, watcher)))
    }
}

/// A client that watches a team.
struct Watcher {
    coordinator: Arc<Coordinator>,
    who: Arc<CallerCredentials>,
    team: String,
    watch: Arc<TeamWatch>,
    caller: Principal,
    /// The version of the roster at which the caller's credential was checked.
    roster: Option<u64>,
    checked_at: Instant,
    position: Option<Position>,
    /// When the last frame was sent. `None` if none was.
    sent_at: Option<Instant>,
}

#[tonic::async_trait]
impl Followed for Watcher {
    type Frame = v1::WatchTeamResponse;

    /// A frame may be large, and what waits longer is not in its latest state.
    const FRAMES_MAX: usize = 1;

    /// What it shows is in memory.
    const READS_RECORDS: bool = false;

    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal> {
        let Some(roster) = self.watch.roster()? else { return Ok((Vec::new(), false)) };
        if self.roster != Some(roster) || self.checked_at.elapsed() >= CHECK {
            (_, _, self.caller) = self.coordinator.caller(&self.who, &self.team).await?;
            (self.roster, self.checked_at) = (Some(roster), Instant::now());
        }
        let (changes, position) = self.watch.read(self.position.as_ref(), &self.caller);
        let Changes { reset, items, removed, caught_up } = changes;
        let is_empty = !reset && caught_up && items.is_empty() && removed.is_empty();
        let resume_token = position.token();
        self.position = Some(position);
        if is_empty && self.sent_at.is_some_and(|at| at.elapsed() < KEEP_ALIVE) {
            return Ok((Vec::new(), false));
        }
        self.sent_at = Some(Instant::now());
        let items = items.iter().map(|item| v1::TeamItem { item: Some((**item).clone()) }).collect();
        let removed = removed.into_iter().map(|key| v1::TeamItemKey { key: Some(key) }).collect();
        Ok((vec![v1::WatchTeamResponse { reset, items, removed, caught_up, resume_token }], !caught_up))
    }
}
