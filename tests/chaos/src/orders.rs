//! The lead that orders members from hosts, watches the names that it has reserved, and ends what it has ordered.

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use teamwire_client::{Client, Error, v1};
use tokio::time::sleep;

use crate::{
    history::{Recorder, What, now_us},
    member,
};

/// How many names there are for ordered members. The names of those that have ended are ordered again.
const NAMES: usize = 5;

/// How often the lead looks at the names that are reserved.
const OFTEN: Duration = Duration::from_millis(200);

/// The longest wait for all members to end.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns one of the names that are ordered.
pub fn any_name(random: &mut StdRng) -> String {
    format!("o{}", random.random_range(1..=NAMES))
}

/// Returns all names that are ordered.
pub fn all_names() -> impl Iterator<Item = String> {
    (1..=NAMES).map(|number| format!("o{number}"))
}

/// Orders members, asks them to shut down, and stops some by force, until the run goes quiet.
pub async fn give(lead: Client, recorder: Recorder, history: PathBuf, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut op = 0;
    while !member::is_quiet(&history) {
        sleep(Duration::from_millis(random.random_range(50..400))).await;
        op += 1;
        let name = any_name(&mut random);
        give_one(&lead, &recorder, op, &name, random.random_range(2..20)).await;
        // Some are ended, so that their names are ordered again. What is ended may still be about to start.
        let name = any_name(&mut random);
        match random.random_range(0..10) {
            0..5 => _ = lead.request_shutdown(&name, "Thank you.").await,
            5 => _ = lead.force_stop(&name, "This took too long.").await,
            _ => {}
        }
    }
}

/// Orders one member, and records the outcome.
pub async fn give_one(lead: &Client, recorder: &Recorder, op: u64, name: &str, ttl_s: i64) {
    let request = v1::SpawnRequest {
        name: name.to_owned(),
        profile: "agent".to_owned(),
        prompt: "Work.".to_owned(),
        ttl: Some(prost_types::Duration { seconds: ttl_s, nanos: 0 }),
        ..Default::default()
    };
    recorder.note(What::Ordering { op, who: name.to_owned() });
    match lead.spawn(request).await {
        Ok(reply) => {
            let order = reply.request.unwrap_or_default();
            recorder.note(What::Ordered { op, expires_us: micros(order.expires_at), request_id: order.id });
        }
        Err(Error::Refused(refusal)) => {
            recorder.note(What::OrderRefused { op, reason: refusal.reason.to_string() });
        }
        Err(error) => recorder.note(What::Unknown { op, detail: error.to_string() }),
    }
}

/// Records which names are reserved, as long as it runs.
pub async fn watch(lead: Client, recorder: Recorder) {
    loop {
        sleep(OFTEN).await;
        let asked_us = now_us();
        for member in lead.members().await.unwrap_or_default() {
            if member.state() == v1::MemberState::Spawning {
                recorder.note(What::Reserved { who: member.name, request_id: member.pending_order, asked_us });
            }
        }
    }
}

/// Waits until every order is decided, and ends all members that were ordered. Records those that do not end.
pub async fn settle(lead: &Client, note: &Recorder) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        let mut left = Vec::new();
        for member in lead.members().await? {
            match member.state() {
                _ if member.spawned_on.is_empty() => {}
                v1::MemberState::Exited | v1::MemberState::Lost => {}
                v1::MemberState::Spawning | v1::MemberState::Stopping => left.push(format!("{member:?}")),
                _ => {
                    let asked = lead.request_shutdown(&member.name, "That is all.").await;
                    left.push(format!("{asked:?}: {member:?}"));
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            left.into_iter().for_each(|detail| note.note(What::Stuck { detail }));
            return Ok(());
        }
        sleep(OFTEN).await;
    }
}

/// Returns a time as histories record it. 0 if it is not set.
pub fn micros(at: Option<prost_types::Timestamp>) -> u64 {
    let at = at.and_then(|at| SystemTime::try_from(at).ok()).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    at.and_then(|since| u64::try_from(since.as_micros()).ok()).unwrap_or_default()
}
