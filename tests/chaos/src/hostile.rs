//! Another team with hostile members, and what the others in that team notice of them.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future, io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use rand::RngExt as _;
use teamwire_client::{Client, Error, Reason, Retry, message, v1};
use tokio::{
    runtime::{self, Handle, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};

pub use crate::harm::{Harm, Target};
use crate::{
    growth::Growth,
    harm::Attacker,
    history::{Recorder, What},
    lead,
};

/// How many members of the team are hostile.
const HOSTILE: usize = 20;

/// The interval at which the others in the team check that they are still served.
const PROBE: Duration = Duration::from_millis(250);

/// The priority of the hostile members' threads: the lowest. The others would run on other machines, so what a hostile
/// member's own work takes from them proves nothing.
const NICE: i32 = 19;

/// The time from the attack of one hostile member to that of the next one. What they do at the very same moment keeps
/// two cores busy for seconds, without the optimizations of a release.
const STAGGER: Duration = Duration::from_millis(250);

/// How much longer an attack may take to fill what it is to fill.
const PATIENCE: Duration = Duration::from_secs(60);

/// A team with hostile members. Its lead and one other member mean well.
#[derive(Debug)]
pub struct HostileTeam {
    address: String,
    target: Target,
    harms: Vec<Harm>,
    lead: Client,
    operator: Client,
    witness: Client,
    /// The credentials of the hostile members, by name.
    hostile: Vec<(String, String)>,
}

impl HostileTeam {
    /// Creates the team at a coordinator, with the operator's credential.
    pub async fn create(target: Target, operator: &str, harms: &[Harm]) -> Result<Self, Error> {
        let address = format!("http://127.0.0.1:{}", target.port);
        let anybody = Client::connect(&address)?.with_retry(Retry::within(Duration::from_secs(30)));
        let operator = anybody.with_credential(operator)?;
        let name = format!("hostile-{}", rand::rng().random::<u32>());
        let create = v1::CreateTeamRequest { name, ..Default::default() };
        let team = operator.create_team_with(create).await?;
        let lead = anybody.with_credential(&team.credential)?;
        let join = async |member: &str| {
            let token = lead.invite(member).await?.join_token;
            anybody.with_credential(&token)?.join(v1::JoinRequest::default()).await
        };
        let witness = anybody.with_credential(&join("witness").await?.credential)?;
        let mut hostile = Vec::new();
        for number in 1..=HOSTILE {
            let name = format!("hostile-{number}");
            let credential = join(&name).await?.credential;
            hostile.push((name, credential));
        }
        if harms.iter().any(|harm| harm.reads()) {
            for (_, credential) in &hostile {
                let member = anybody.with_credential(credential)?;
                // Together more than a page.
                member.send(message::broadcast("much", "x".repeat(60 * 1024))).await?;
            }
        }
        Ok(Self { address, target, harms: harms.to_vec(), lead, operator, witness, hostile })
    }

    /// Lets the hostile members do harm for some time, while the lead, the witness and the operator record how they are
    /// served. `store_bytes`: measures the store.
    pub async fn run(
        self,
        duration: Duration,
        recorder: Recorder,
        store_bytes: impl AsyncFn() -> Option<u64>,
    ) -> Result<(), Error> {
        let growth = Growth::begin(&self.lead, &self.operator, &store_bytes).await?;
        let mut inbox = JoinSet::new();
        inbox.spawn(lead::read_all(self.lead.with_credential(self.lead.credential())?));
        let (done, op) = (AtomicBool::new(false), AtomicU64::new(0));
        let (said, stopped) = (parking_lot::Mutex::new(Vec::new()), [&self.hostile[0].0, &self.hostile[1].0]);
        let stop = async |name: &str| {
            let stop = async || self.lead.force_stop(name, "It does harm.").await.map(drop);
            probe_once(&op, &recorder, &format!("a forced stop of {name}"), stop).await;
        };
        let probes = async {
            tokio::join!(
                Self::probe(&done, &op, &recorder, "a send of another member to the lead", async || {
                    let sent = Self::say(&self.witness, "lead", &said).await;
                    if self.harms.contains(&Harm::Messages) { answered_if_full(sent) } else { sent }
                }),
                Self::probe(&done, &op, &recorder, "a send of the lead to another member", async || {
                    Self::say(&self.lead, "witness", &said).await
                }),
                Self::probe(&done, &op, &recorder, "a new connection of another member", async || {
                    self.newcomer(&self.witness)?.get_team(v1::GetTeamRequest::default()).await.map(drop)
                }),
                Self::probe(&done, &op, &recorder, "a new connection of the lead", async || {
                    self.newcomer(&self.lead)?.get_team(v1::GetTeamRequest::default()).await.map(drop)
                }),
                Self::probe(&done, &op, &recorder, "a new connection of the operator", async || {
                    self.newcomer(&self.operator)?.list_teams(v1::ListTeamsRequest::default()).await.map(drop)
                }),
            )
        };
        let watch = async {
            while !done.load(Ordering::Relaxed) {
                growth.look(&store_bytes).await;
                sleep(PROBE).await;
            }
        };
        let end = async {
            // The lead can end a hostile member at any time.
            stop(stopped[1]).await;
            sleep(duration).await;
            let filled = self.until_filled(&growth).await;
            stop(stopped[0]).await;
            done.store(true, Ordering::Relaxed);
            filled
        };
        let attack = attack(self.address.clone(), self.target.clone(), self.harms.clone(), self.hostile.clone());
        let threads = HostileThreads::start().map_err(|error| Error::Context(error.to_string()))?;
        tokio::select! {
            (_, (), filled) = async { tokio::join!(probes, watch, end) } => filled?,
            stopped = threads.handle.spawn(attack) => match stopped {
                Ok(Err(error)) => return Err(error),
                Err(error) => return Err(Error::Context(error.to_string())),
            },
        }
        drop(threads);
        growth.record(&recorder).await?;
        self.look_for(&said.into_inner(), &recorder).await?;
        self.look_for_stops(&stopped, &recorder).await
    }

    /// Waits until the attack, if it is only one, has filled what it is to fill: an attack without an effect proves
    /// nothing.
    async fn until_filled(&self, growth: &Growth) -> Result<(), Error> {
        let &[harm] = &self.harms[..] else { return Ok(()) };
        let Some(part) = harm.fills() else { return Ok(()) };
        let filled = timeout(PATIENCE, async {
            while !growth.has_filled(part) {
                sleep(PROBE).await;
            }
        });
        filled.await.map_err(|_| Error::Context(format!("{harm:?} did not fill the quota of the {part:?}")))
    }

    /// Returns a client that has no connection yet.
    fn newcomer(&self, like: &Client) -> Result<Client, Error> {
        let new = Client::connect(&self.address)?.with_retry(Retry::within(Duration::from_secs(5)));
        new.with_credential(like.credential())
    }

    /// Sends a message, and notes that it was said.
    async fn say(from: &Client, to: &str, said: &parking_lot::Mutex<Vec<String>>) -> Result<(), Error> {
        let text = uuid::Uuid::now_v7().to_string();
        let sent = from.send(message::direct(to, "I saw it", text)).await?;
        said.lock().push(sent.message_id);
        Ok(())
    }

    /// Makes a call at every interval until the run is done.
    async fn probe(
        done: &AtomicBool,
        ops: &AtomicU64,
        recorder: &Recorder,
        call: &str,
        attempt: impl AsyncFn() -> Result<(), Error>,
    ) {
        while !done.load(Ordering::Relaxed) {
            probe_once(ops, recorder, call, &attempt).await;
            sleep(PROBE).await;
        }
    }

    /// Records which of these messages the history lacks.
    async fn look_for(&self, said: &[String], recorder: &Recorder) -> Result<(), Error> {
        let filter = v1::HistoryFilter { member: "witness".to_owned(), messages_only: true, ..Default::default() };
        let request = v1::ListHistoryRequest { filter: Some(filter), ..Default::default() };
        let mut missing: BTreeSet<&String> = said.iter().collect();
        for entry in self.lead.list_all_history(request, usize::MAX).await?.entries {
            if let Some(v1::history_entry::Event::Message(message)) = entry.event {
                missing.remove(&message.id);
            }
        }
        let missing = missing.into_iter().cloned().collect();
        recorder.note(What::Kept { said: said.len(), missing });
        Ok(())
    }

    /// Records which of these members' forced stops the audit log lacks.
    async fn look_for_stops(&self, stopped: &[&String], recorder: &Recorder) -> Result<(), Error> {
        let mut missing: BTreeSet<&str> = stopped.iter().map(|name| name.as_str()).collect();
        let entries = self.lead.list_all_audit_entries(v1::ListAuditEntriesRequest::default(), usize::MAX).await?;
        for entry in entries.records.into_iter().filter_map(|record| record.entry) {
            if entry.method == "TeamService/ForceStop" && entry.outcome == "OK" {
                missing.remove(&*entry.object);
            }
        }
        let missing = missing.into_iter().map(str::to_owned).collect();
        recorder.note(What::Audited { calls: stopped.len(), missing });
        Ok(())
    }
}

/// The threads of the hostile members and strangers, which end on drop.
struct HostileThreads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl HostileThreads {
    fn start() -> io::Result<Self> {
        let mut builder = runtime::Builder::new_multi_thread();
        builder.enable_all().thread_name("hostile").on_thread_start(|| {
            // Of this thread only.
            let _ = rustix::process::nice(NICE);
        });
        let runtime = builder.build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for HostileThreads {
    fn drop(&mut self) {
        // An async task must not wait for them, as the runtime's own drop would.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lets the hostile members and strangers begin, one after the other, and do harm until it is dropped.
async fn attack(
    address: String,
    target: Target,
    harms: Vec<Harm>,
    hostile: Vec<(String, String)>,
) -> Result<Infallible, Error> {
    let mut attacks = JoinSet::new();
    for (number, (name, credential)) in hostile.iter().enumerate() {
        let harm = harms[number % harms.len()];
        let client = &Client::connect(&address)?.with_credential(credential)?.with_retry(Retry::none());
        let accomplice = &hostile[(number + 1) % hostile.len()].0;
        harm.begin(&target, &Attacker { name, accomplice, client }, &mut attacks);
        sleep(STAGGER).await;
    }
    future::pending().await
}

/// Takes a refusal because the team is full for an answer.
fn answered_if_full(sent: Result<(), Error>) -> Result<(), Error> {
    match sent {
        Err(Error::Refused(refusal)) if refusal.reason == Reason::QuotaExceeded => Ok(()),
        other => other,
    }
}

/// Makes a call, and records whether and when it was answered.
async fn probe_once(ops: &AtomicU64, recorder: &Recorder, call: &str, attempt: impl AsyncFn() -> Result<(), Error>) {
    let op = ops.fetch_add(1, Ordering::Relaxed);
    recorder.note(What::Probing { op, call: call.to_owned() });
    let error = attempt().await.err().map(|error| error.to_string());
    recorder.note(What::Probed { op, error });
}
