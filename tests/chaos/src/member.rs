//! A member's process: it sends, receives, acknowledges, claims, plans and asks for permission at random until it
//! approves its shutdown.

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

/// The file that tells members to start nothing new.
pub const QUIET: &str = "quiet";

/// The tool of permission requests that the lead leaves unanswered, so that they expire.
pub const IGNORED: &str = "ignored";

/// How long a permission request stays pending: one that the lead leaves unanswered, and any other one.
const IGNORED_TTL: Duration = Duration::from_secs(2);
const ANSWERED_TTL: Duration = Duration::from_secs(60);

/// The exit code of a process that another one superseded.
pub const SUPERSEDED: u8 = 3;

/// The exit code of a process that ends for any reason but its approval.
pub const OTHERWISE: u8 = 4;

/// The retry budget of a call, longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(90);

/// The configuration of a process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the histories.
    pub directory: PathBuf,
    pub member: String,
    pub process: u32,
    /// The seed of all random choices.
    pub seed: u64,
    pub address: String,
    pub credential: String,
    /// The members it sends to.
    pub others: Vec<String>,
}

/// The state that a process's tasks share.
struct Member {
    config: Config,
    client: Client,
    recorder: Recorder,
    ops: AtomicU64,
}

/// Runs until the subscription ends. Returns the exit code.
pub async fn run(config: Config) -> Result<u8, Error> {
    let client = Client::connect(&config.address)?;
    run_over(client, config).await
}

/// Does the same over a client's connection.
pub async fn run_over(client: Client, config: Config) -> Result<u8, Error> {
    let client = client.with_credential(&config.credential)?;
    let client = client.with_retry(Retry::within(PATIENCE).while_full());
    let recorder = Recorder::open(&config.directory, &config.member, config.process)
        .map_err(|error| Error::Context(format!("the history cannot be opened: {error}")))?;
    let this = Arc::new(Member { config, client, recorder, ops: AtomicU64::new(0) });
    let mut parts = JoinSet::new();
    // Sending and claiming start with the first session, so that every call belongs to a session.
    // Often with so little credit that a shutdown request has something to overtake.
    let unacked_messages_max = *[0, 4, 16].choose(&mut this.random(4)).unwrap_or(&0);
    let mut inbox = this.client.subscribe(SubscribeOptions { unacked_messages_max, ..SubscribeOptions::default() });
    let mut has_begun = false;
    let mut random = this.random(0);
    let mut unconfirmed = 0_u32;
    loop {
        let Some(event) = inbox.next().await else { return Ok(OTHERWISE) };
        match event? {
            Event::Opened(opened) => {
                this.note(What::Opened { epoch: opened.epoch });
                if !std::mem::replace(&mut has_begun, true) {
                    parts.spawn(Arc::clone(&this).send());
                    parts.spawn(Arc::clone(&this).claim());
                    parts.spawn(Arc::clone(&this).plan());
                    parts.spawn(Arc::clone(&this).ask());
                }
            }
            Event::Delivery(delivery) => {
                this.note(delivered(&delivery));
                if let Some(Body::PermissionResponse(answer)) = &delivery.message.body {
                    let (request_id, approve) = (answer.request_id.clone(), answer.approve());
                    this.note(What::AnswerDelivered { request_id, approve });
                }
                sleep(Duration::from_millis(random.random_range(0..4))).await;
                let request = match &delivery.message.body {
                    Some(Body::ShutdownRequest(_)) => Some(delivery.message.request_id.clone()),
                    _ => None,
                };
                let ack = || {
                    this.note(What::Acking { message_id: delivery.message.id.clone() });
                    delivery.ack();
                };
                if request.is_none() {
                    ack();
                    unconfirmed += 1;
                }
                if unconfirmed >= 16 || request.is_some() {
                    unconfirmed = 0;
                    let op = this.begin(|op| What::Flushing { op });
                    match inbox.flush().await {
                        Ok(()) => this.note(What::Flushed { op }),
                        Err(error) => this.note(What::Unknown { op, detail: error.to_string() }),
                    }
                }
                if let Some(request_id) = request {
                    // Stop other calls first: a stopping member may not claim or send.
                    parts.shutdown().await;
                    // If another process has superseded this one, that one must get the request.
                    this.client.approve_shutdown(&request_id).await?;
                    ack();
                }
            }
            Event::ShutdownApproved { .. } => {
                this.note(What::Ended { how: "shutdown_approved".to_owned() });
                inbox.flush().await?;
                let exit = v1::ExitReport { code: Some(0), ..Default::default() };
                this.client.leave(v1::LeaveRequest { exit: Some(exit), ..Default::default() }).await?;
                return Ok(0);
            }
            Event::Closed(closed) => {
                this.note(What::Ended { how: closed.to_string() });
                return Ok(if closed == Closed::Superseded { SUPERSEDED } else { OTHERWISE });
            }
            _ => {}
        }
    }
}

impl Member {
    fn note(&self, what: What) {
        self.recorder.note(what);
    }

    /// Records the beginning of an op and returns its number.
    fn begin(&self, what: impl FnOnce(u64) -> What) -> u64 {
        let op = self.ops.fetch_add(1, Ordering::Relaxed) + 1;
        self.note(what(op));
        op
    }

    /// Returns the random numbers of one task of this process.
    fn random(&self, part: u64) -> StdRng {
        StdRng::seed_from_u64(self.config.seed ^ (u64::from(self.config.process) << 32) ^ part)
    }

    /// Waits for some milliseconds. Returns whether to start something new then.
    async fn pause(&self, pause_ms: u64) -> bool {
        sleep(Duration::from_millis(pause_ms)).await;
        !is_quiet(&self.config.directory)
    }

    async fn send(self: Arc<Self>) {
        let mut random = self.random(1);
        while self.pause(random.random_range(10..80)).await {
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
        while self.pause(random.random_range(50..200)).await {
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

    /// Submits plans. Two processes of the lead answer each.
    async fn plan(self: Arc<Self>) {
        let mut random = self.random(3);
        while self.pause(random.random_range(500..2_000)).await {
            // A plan that cannot be submitted is one decision less.
            let _ = self.client.submit_plan("1. Break it. 2. Look.", "proof").await;
        }
    }
}

impl Member {
    /// Asks for permission, of the lead or of another member, and waits for the answer or withdraws the request. Two
    /// processes of the lead answer each, except those that are left to expire.
    async fn ask(self: Arc<Self>) {
        let mut random = self.random(5);
        while self.pause(random.random_range(300..1_000)).await {
            let (tool, ttl) = if random.random_bool(0.2) { (IGNORED, IGNORED_TTL) } else { ("shell", ANSWERED_TTL) };
            let approver = match random.random_bool(0.3) {
                true => self.config.others.choose(&mut random).cloned().unwrap_or_default(),
                false => String::new(),
            };
            let mut request = message::permission_request(approver, tool, "proof", "");
            if let Some(v1::send_request::Body::PermissionRequest(body)) = &mut request.body {
                body.ttl = ttl.try_into().ok();
            }
            request.idempotency_key = Uuid::now_v7().to_string();
            let op = self.begin(|op| What::Asking { op });
            let request_id = match self.client.send(request).await {
                Ok(reply) => reply.request_id,
                Err(error) => {
                    self.note(What::Unknown { op, detail: error.to_string() });
                    continue;
                }
            };
            self.note(What::Asked { op, request_id: request_id.clone() });
            let outcome = match random.random_bool(0.2) {
                true => {
                    sleep(Duration::from_millis(random.random_range(0..200))).await;
                    self.client.withdraw_request(&request_id).await
                }
                false => self.client.wait_decision(&request_id, ANSWERED_TTL).await,
            };
            if let Ok(request) = outcome
                && request.state() != v1::RequestState::Pending
            {
                self.note(What::Settled { request_id, state: state_of(&request) });
            }
        }
    }
}

/// Returns the state of a request as histories record it.
pub fn state_of(request: &v1::Request) -> String {
    request.state().as_str_name().trim_start_matches("REQUEST_STATE_").to_ascii_lowercase()
}

/// Returns whether members must start nothing new.
pub fn is_quiet(directory: &Path) -> bool {
    directory.join(QUIET).exists()
}

fn delivered(delivery: &Delivery) -> What {
    let v1::Message { id, sender, body, .. } = &delivery.message;
    let from = sender.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
    let (from, content) = match body {
        Some(Body::Message(text)) => (from, text.content.clone()),
        Some(Body::Broadcast(text)) => (from, text.content.clone()),
        // The checkers ignore messages of the protocol itself.
        _ => ("coordinator".to_owned(), String::new()),
    };
    let (sequence, delivery_count) = (delivery.sequence, delivery.delivery_count);
    let is_urgent = matches!(body, Some(Body::ShutdownRequest(_)));
    What::Delivered { message_id: id.clone(), sequence, delivery_count, from, content, is_urgent }
}
