//! A member at work: it sends, receives, acknowledges, claims and plans at random, until it approves its shutdown.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_client::{Client, Closed, Delivery, Error, Event, Retry, SubscribeOptions, message, v1};
use teamwire_proto::v1::message::Body;
use tokio::{task::JoinSet, time::sleep};
use uuid::Uuid;

use crate::history::{Recorder, What};

/// The file of the directory that tells workers to send and claim no more.
pub const QUIET: &str = "quiet";

/// How a worker ends that another process has taken the place of.
pub const SUPERSEDED: u8 = 3;

/// How a worker ends for any other reason than its approval.
pub const OTHERWISE: u8 = 4;

/// How long a call is tried. Longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the history goes.
    pub directory: PathBuf,
    pub member: String,
    pub process: u32,
    /// Decides all that is random.
    pub seed: u64,
    pub address: String,
    pub credential: String,
    /// The members that it writes to.
    pub others: Vec<String>,
}

/// What the parts of a worker share.
struct Worker {
    config: Config,
    client: Client,
    recorder: Recorder,
    ops: AtomicU64,
}

/// Works until the subscription ends. Returns the exit code.
pub async fn run(config: Config) -> Result<u8, Error> {
    let client = Client::connect(&config.address)?;
    run_over(client, config).await
}

/// Works like [`run`], over a client's connection.
pub async fn run_over(client: Client, config: Config) -> Result<u8, Error> {
    let client = client.with_credential(&config.credential)?;
    let client = client.with_retry(Retry::within(PATIENCE).while_full());
    let recorder = Recorder::open(&config.directory, &config.member, config.process)
        .map_err(|error| Error::Context(format!("the history cannot be opened: {error}")))?;
    let worker = Arc::new(Worker { config, client, recorder, ops: AtomicU64::new(0) });
    let mut parts = JoinSet::new();
    // What it does to others begins with its first session, so that all of it belongs to one.
    let mut inbox = worker.client.subscribe(SubscribeOptions::default());
    let mut has_begun = false;
    let mut random = worker.random(0);
    let mut unconfirmed = 0_u32;
    loop {
        let Some(event) = inbox.next().await else { return Ok(OTHERWISE) };
        match event? {
            Event::Opened(opened) => {
                worker.note(What::Opened { epoch: opened.epoch });
                if !std::mem::replace(&mut has_begun, true) {
                    parts.spawn(Arc::clone(&worker).send());
                    parts.spawn(Arc::clone(&worker).claim());
                    parts.spawn(Arc::clone(&worker).plan());
                }
            }
            Event::Delivery(delivery) => {
                worker.note(delivered(&delivery));
                sleep(Duration::from_millis(random.random_range(0..4))).await;
                worker.note(What::Acking { message_id: delivery.message.id.clone() });
                delivery.ack();
                unconfirmed += 1;
                let request = match &delivery.message.body {
                    Some(Body::ShutdownRequest(_)) => Some(delivery.message.request_id.clone()),
                    _ => None,
                };
                if unconfirmed >= 16 || request.is_some() {
                    unconfirmed = 0;
                    let op = worker.begin(|op| What::Flushing { op });
                    match inbox.flush_acks().await {
                        Ok(()) => worker.note(What::Flushed { op }),
                        Err(error) => worker.note(What::Unknown { op, detail: error.to_string() }),
                    }
                }
                if let Some(request_id) = request {
                    // What is under way ends first: who is stopping may claim and send no more.
                    parts.shutdown().await;
                    worker.client.approve_shutdown(&request_id).await?;
                }
            }
            Event::ShutdownApproved { .. } => {
                worker.note(What::Ended { how: "shutdown_approved".to_owned() });
                inbox.flush_acks().await?;
                let exit = v1::ExitReport { code: Some(0), ..Default::default() };
                worker.client.leave(v1::LeaveRequest { exit: Some(exit) }).await?;
                return Ok(0);
            }
            Event::Closed(closed) => {
                worker.note(What::Ended { how: closed.to_string() });
                return Ok(if closed == Closed::Superseded { SUPERSEDED } else { OTHERWISE });
            }
            _ => {}
        }
    }
}

impl Worker {
    fn note(&self, what: What) {
        self.recorder.note(what);
    }

    /// Notes the beginning of something, and returns its number.
    fn begin(&self, what: impl FnOnce(u64) -> What) -> u64 {
        let op = self.ops.fetch_add(1, Ordering::Relaxed) + 1;
        self.note(what(op));
        op
    }

    /// Returns random numbers for a part of this process.
    fn random(&self, part: u64) -> StdRng {
        StdRng::seed_from_u64(self.config.seed ^ (u64::from(self.config.process) << 32) ^ part)
    }

    /// Waits for some milliseconds. Returns whether something may be begun then.
    async fn goes_on(&self, pause_ms: u64) -> bool {
        sleep(Duration::from_millis(pause_ms)).await;
        !is_quiet(&self.config.directory)
    }

    async fn send(self: Arc<Self>) {
        let mut random = self.random(1);
        while self.goes_on(random.random_range(10..80)).await {
            let to = match random.random_bool(0.02) {
                true => String::new(),
                false => self.config.others.choose(&mut random).cloned().unwrap_or_default(),
            };
            let content = format!("{} {}", Uuid::new_v4(), "x".repeat(random.random_range(0..1_000)));
            let op = self.begin(|op| What::Sending { op, to: to.clone(), content: content.clone() });
            let mut request = match to.as_str() {
                "" => message::broadcast("proof", content),
                to => message::direct(to, "proof", content),
            };
            request.idempotency_key = Uuid::now_v7().to_string();
            let is_repeated = random.random_bool(0.1);
            for again in [false, true].into_iter().take(1 + usize::from(is_repeated)) {
                match self.client.send(request.clone()).await {
                    Ok(reply) => {
                        let durability = reply.durability().as_str_name().to_owned();
                        let v1::SendResponse { message_id, recipients, replayed, .. } = reply;
                        self.note(What::Sent { op, message_id, recipients, again, replayed, durability });
                    }
                    Err(Error::Refused(refusal)) => {
                        self.note(What::SendRefused { op, reason: refusal.reason.to_string() });
                        break;
                    }
                    Err(error) => {
                        self.note(What::Unknown { op, detail: error.to_string() });
                        break;
                    }
                }
            }
        }
    }

    async fn claim(self: Arc<Self>) {
        let mut random = self.random(2);
        while self.goes_on(random.random_range(50..200)).await {
            let op = self.begin(|op| What::Claiming { op });
            let (task_id, token) = match self.client.claim_next_task(Duration::ZERO).await {
                Ok(Some(claim)) => (claim.task.map(|task| task.id).unwrap_or_default(), claim.token),
                Ok(None) => continue,
                Err(error) => {
                    self.note(What::Unknown { op, detail: error.to_string() });
                    continue;
                }
            };
            self.note(What::Claimed { op, task_id, token: token.clone() });
            sleep(Duration::from_millis(random.random_range(0..100))).await;
            let op = self.begin(|op| What::Completing { op, task_id, token: token.clone() });
            let request = v1::CompleteTaskRequest { task_id, claim_token: token, ..Default::default() };
            match self.client.complete_task(request).await {
                Ok(_) => self.note(What::Completed { op }),
                Err(Error::Refused(refusal)) => {
                    self.note(What::CompleteRefused { op, reason: refusal.reason.to_string() });
                }
                Err(error) => self.note(What::Unknown { op, detail: error.to_string() }),
            }
        }
    }

    /// Submits plans, which two minds of the lead answer.
    async fn plan(self: Arc<Self>) {
        let mut random = self.random(3);
        while self.goes_on(random.random_range(500..2_000)).await {
            // A plan that cannot be submitted is one less to be decided.
            let _ = self.client.submit_plan("1. Break it. 2. Look.", "proof").await;
        }
    }
}

/// Returns whether nobody is to begin anything any more.
pub fn is_quiet(directory: &Path) -> bool {
    directory.join(QUIET).exists()
}

fn delivered(delivery: &Delivery) -> What {
    let v1::Message { id, sender, body, .. } = &delivery.message;
    let from = sender.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
    let (from, content) = match body {
        Some(Body::Message(text)) => (from, text.content.clone()),
        Some(Body::Broadcast(text)) => (from, text.content.clone()),
        // What the protocol itself sends is nobody's to have invented.
        _ => ("coordinator".to_owned(), String::new()),
    };
    let (sequence, delivery_count) = (delivery.sequence, delivery.delivery_count);
    What::Delivered { message_id: id.clone(), sequence, delivery_count, from, content }
}
