//! How much a team with hostile members holds, and how much the store grows meanwhile.

use parking_lot::Mutex;
use teamwire_client::{Client, Error, v1};

use crate::history::{Recorder, What};

/// A part of a team's quota that has its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Team,
    Tasks,
    TaskHistory,
}

impl Part {
    const ALL: [Self; 3] = [Self::Team, Self::Tasks, Self::TaskHistory];

    fn name(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::Tasks => "tasks",
            Self::TaskHistory => "task history",
        }
    }

    /// Returns how many bytes it has, and how many it may have.
    fn of(self, storage: &v1::TeamStorage) -> (u64, u64) {
        match self {
            Self::Team => (storage.bytes, storage.bytes_max),
            Self::Tasks => (storage.task_bytes, storage.task_bytes_max),
            Self::TaskHistory => (storage.task_history_bytes, storage.task_history_bytes_max),
        }
    }
}

/// The most that was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    storage: v1::TeamStorage,
    store_bytes: u64,
}

/// How much a team holds and how large its store is, as they were and as they get.
#[derive(Debug)]
pub(crate) struct Growth {
    lead: Client,
    operator: Client,
    team: String,
    /// What the team held.
    team_bytes: u64,
    /// What the other teams held.
    other_bytes: u64,
    /// The size of the store. `None` if it cannot be measured.
    store_bytes: Option<u64>,
    peak: Mutex<Peak>,
}

impl Growth {
    /// Notes how much the lead's team, all others and the store have. `store_bytes`: measures the store.
    pub(crate) async fn begin(
        lead: &Client,
        operator: &Client,
        store_bytes: impl AsyncFn() -> Option<u64>,
    ) -> Result<Self, Error> {
        let team = lead.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
        let mut growth = Self {
            lead: lead.clone(),
            operator: operator.clone(),
            team: team.name,
            team_bytes: team.storage.unwrap_or_default().bytes,
            other_bytes: 0,
            store_bytes: store_bytes().await,
            peak: Mutex::default(),
        };
        growth.other_bytes = growth.held_by_others().await?;
        Ok(growth)
    }

    async fn held_by_others(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        for team in self.operator.list_all_teams(v1::ListTeamsRequest::default(), usize::MAX).await?.teams {
            if team.name != self.team {
                let found = self.operator.get_team(v1::GetTeamRequest { team: team.name }).await?;
                bytes += found.team.and_then(|team| team.storage).unwrap_or_default().bytes;
            }
        }
        Ok(bytes)
    }

    /// Looks again.
    pub(crate) async fn look(&self, store_bytes: impl AsyncFn() -> Option<u64>) {
        // Other calls check that the lead gets its answers.
        let found = self.lead.get_team(v1::GetTeamRequest::default()).await;
        let now = found.ok().and_then(|found| found.team?.storage);
        let size = store_bytes().await;
        let Peak { storage, store_bytes } = &mut *self.peak.lock();
        if let Some(now) = now {
            storage.bytes = storage.bytes.max(now.bytes);
            storage.task_bytes = storage.task_bytes.max(now.task_bytes);
            storage.task_history_bytes = storage.task_history_bytes.max(now.task_history_bytes);
            (storage.bytes_max, storage.task_bytes_max) = (now.bytes_max, now.task_bytes_max);
            storage.task_history_bytes_max = now.task_history_bytes_max;
        }
        *store_bytes = (*store_bytes).max(size.unwrap_or(0));
    }

    /// Returns whether a part of the quota was nearly full: at 90%.
    pub(crate) fn has_filled(&self, part: Part) -> bool {
        let (bytes, max) = part.of(&self.peak.lock().storage);
        bytes > max / 10 * 9
    }

    /// Records the most that was seen.
    pub(crate) async fn record(&self, recorder: &Recorder) -> Result<(), Error> {
        let others = self.held_by_others().await?;
        let peak = *self.peak.lock();
        for part in Part::ALL {
            let (bytes, bytes_max) = part.of(&peak.storage);
            recorder.note(What::Held { part: part.name().to_owned(), bytes, bytes_max });
        }
        if let Some(before) = self.store_bytes {
            let held = peak.storage.bytes.saturating_sub(self.team_bytes) + others.saturating_sub(self.other_bytes);
            recorder.note(What::Grew { bytes: peak.store_bytes.saturating_sub(before), held });
        }
        Ok(())
    }
}
