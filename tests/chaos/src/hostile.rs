//! Members of another team that do all the harm that their credentials permit, and what the others in that team notice of it.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use prost::Message;
use rand::RngExt as _;
use teamwire_client::{Client, Error, Retry, SubscribeOptions, message, v1};
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use crate::{
    flood::{again, as_caller},
    history::{Recorder, What},
    lead,
};

/// What hostile members do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Ask for much, and never read the replies.
    UnreadReplies,
    /// Open connections and keep them.
    Connections,
    /// Begin one life and one session after the other, so that the lead gets a notice of each.
    Restarts,
    /// Change a task over and over, so that its changes fill the history.
    TaskChanges,
    /// Create large tasks and delete them again.
    TaskChurn,
    /// Search the history for what is not in it, and list everything, without a pause.
    Reads,
}

impl Harm {
    /// Everything that hostile members do.
    pub const ALL: [Self; 6] =
        [Self::UnreadReplies, Self::Connections, Self::Restarts, Self::TaskChanges, Self::TaskChurn, Self::Reads];
}

/// How many members of the team are hostile.
const HOSTILE: usize = 20;

/// How many calls a hostile member makes at once.
const AT_ONCE: usize = 8;

/// How many connections a hostile member tries to keep: together twice as many as a coordinator takes by default.
const CONNECTIONS: usize = 200;

/// How many replies a hostile member leaves unread on one connection.
const UNREAD: usize = 64;

/// How many large messages the history of the team begins with.
const LARGE: usize = 60;

/// The interval at which the others in the team check that they are still served.
const PROBE: Duration = Duration::from_millis(250);

/// A team with hostile members. Its lead and one other member mean well.
#[derive(Debug)]
pub struct HostileTeam {
    address: String,
    port: u16,
    lead: Client,
    operator: String,
    witness: Client,
    /// The credentials of the hostile members, by name.
    hostile: Vec<(String, String)>,
}

impl HostileTeam {
    /// Creates the team at the coordinator on a port, with the operator's credential.
    pub async fn create(port: u16, operator: &str) -> Result<Self, Error> {
        let address = format!("http://127.0.0.1:{port}");
        let anybody = Client::connect(&address)?.with_retry(Retry::within(Duration::from_secs(30)));
        let name = format!("hostile-{}", rand::rng().random::<u32>());
        let create = v1::CreateTeamRequest { name, ..Default::default() };
        let team = anybody.with_credential(operator)?.create_team_with(create).await?;
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
        for _ in 0..LARGE {
            witness.send(message::direct("lead", "much", "x".repeat(60 * 1024))).await?;
        }
        Ok(Self { address, port, lead, operator: operator.to_owned(), witness, hostile })
    }

    /// Lets the hostile members do harm for some time, while the lead, the witness and the operator record how they are served.
    pub async fn run(self, harms: &[Harm], duration: Duration, recorder: Recorder) -> Result<(), Error> {
        let mut attacks = JoinSet::new();
        for (number, (name, credential)) in self.hostile.iter().enumerate() {
            let harm = harms[number % harms.len()];
            let member = Client::connect(&self.address)?.with_credential(credential)?.with_retry(Retry::none());
            harm.begin(self.port, name, &member, &mut attacks);
        }
        let mut inbox = JoinSet::new();
        inbox.spawn(lead::read_all(self.lead.with_credential(self.lead.credential())?));
        let (done, op, said) = (AtomicBool::new(false), AtomicU64::new(0), parking_lot::Mutex::new(Vec::new()));
        let probes = async {
            tokio::join!(
                Self::probe(&done, &op, &recorder, "a send of another member to the lead", async || {
                    let text = uuid::Uuid::now_v7().to_string();
                    let sent = self.witness.send(message::direct("lead", "I saw it", text)).await?;
                    said.lock().push(sent.message_id);
                    Ok(())
                }),
                Self::probe(&done, &op, &recorder, "a new connection of the lead", async || {
                    let new = Client::connect(&self.address)?.with_retry(Retry::within(Duration::from_secs(5)));
                    new.with_credential(self.lead.credential())?.get_team(v1::GetTeamRequest::default()).await.map(drop)
                }),
                Self::probe(&done, &op, &recorder, "a new connection of the operator", async || {
                    let new = Client::connect(&self.address)?.with_retry(Retry::within(Duration::from_secs(5)));
                    new.with_credential(&self.operator)?.list_teams(v1::ListTeamsRequest::default()).await.map(drop)
                }),
            )
        };
        let end = async {
            sleep(duration).await;
            // The lead can end a hostile member at any time.
            let (name, _) = &self.hostile[0];
            let stop = async || self.lead.force_stop(name, "It does harm.").await.map(drop);
            probe_once(&op, &recorder, &format!("a forced stop of {name}"), stop).await;
            done.store(true, Ordering::Relaxed);
        };
        tokio::join!(probes, end);
        attacks.shutdown().await;
        let said = said.into_inner();
        self.look_for(&said, &recorder).await
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
}

/// Makes a call, and records whether and when it was answered.
async fn probe_once(ops: &AtomicU64, recorder: &Recorder, call: &str, attempt: impl AsyncFn() -> Result<(), Error>) {
    let op = ops.fetch_add(1, Ordering::Relaxed);
    recorder.note(What::Probing { op, call: call.to_owned() });
    let error = attempt().await.err().map(|error| error.to_string());
    recorder.note(What::Probed { op, error });
}

impl Harm {
    /// Spawns what one hostile member does.
    fn begin(self, port: u16, name: &str, member: &Client, attacks: &mut JoinSet<()>) {
        let times = match self {
            Self::Connections => CONNECTIONS,
            Self::Restarts => 1,
            _ => AT_ONCE,
        };
        for _ in 0..times {
            let (member, credential) = (member.clone(), member.credential().to_owned());
            match self {
                Self::UnreadReplies => {
                    attacks.spawn(again(port, move |stream| ask_and_hold(stream, credential.clone())))
                }
                Self::Connections => attacks.spawn(again(port, move |stream| hold(stream, credential.clone()))),
                Self::Restarts => attacks.spawn(restart(member)),
                Self::TaskChanges => attacks.spawn(change_tasks(member)),
                Self::TaskChurn => attacks.spawn(churn_tasks(member)),
                Self::Reads => attacks.spawn(read_much(member, name.to_owned())),
            };
        }
    }
}

/// Asks for as much as possible on a connection that takes nothing.
async fn ask_and_hold(stream: TcpStream, credential: String) -> Result<(), h2::Error> {
    let (calls, connection) = h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream).await?;
    let mut connection = tokio::spawn(connection);
    let mut calls = calls.ready().await?;
    let mut replies = Vec::new();
    for number in 0..UNREAD {
        let list = v1::ListHistoryRequest { page_size: 1_000, ..Default::default() };
        let follow = v1::FollowHistoryRequest::default();
        let reply = match number % 4 {
            0 => ask(&mut calls, "HistoryService/FollowHistory", &credential, &follow).await?,
            1 => ask(&mut calls, "WatchService/WatchTeam", &credential, &v1::WatchTeamRequest::default()).await?,
            _ => ask(&mut calls, "HistoryService/ListHistory", &credential, &list).await?,
        };
        replies.push(reply);
    }
    // Until the coordinator closes the connection.
    let _ = (&mut connection).await;
    Ok(())
}

async fn ask(
    calls: &mut SendRequest<Bytes>,
    method: &str,
    credential: &str,
    request: &impl Message,
) -> Result<h2::client::ResponseFuture, h2::Error> {
    *calls = calls.clone().ready().await?;
    let (reply, mut body) = calls.send_request(as_caller(method, credential, 0), false)?;
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(request.encoded_len()).unwrap_or(u32::MAX));
    framed.put_slice(&request.encode_to_vec());
    body.send_data(framed.freeze(), true)?;
    Ok(reply)
}

/// Makes one call on a connection, and keeps it open.
async fn hold(stream: TcpStream, credential: String) -> Result<(), h2::Error> {
    let (calls, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let mut calls = calls.ready().await?;
    let reply = ask(&mut calls, "TeamService/GetTeam", &credential, &v1::GetTeamRequest::default()).await?;
    let _ = reply.await?;
    let _ = connection.await;
    Ok(())
}

/// Begins lives and sessions.
async fn restart(mut member: Client) {
    loop {
        let joined = member.join(v1::JoinRequest::default()).await;
        if let Ok(again) = joined.and_then(|joined| member.with_credential(&joined.credential)) {
            member = again;
        }
        let mut session = member.subscribe(SubscribeOptions::default());
        let _ = session.next().await;
        let _ = member.heartbeat(v1::HeartbeatRequest::default()).await;
        tokio::task::yield_now().await;
    }
}

async fn change_tasks(member: Client) {
    loop {
        let task = v1::CreateTaskRequest { subject: "Again".to_owned(), ..Default::default() };
        let Ok(task) = member.create_task(task).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let task_id = task.task.map_or(0, |task| task.id);
        for turn in 0..1_000_u32 {
            let subject = Some(format!("Again, for the {turn}th time"));
            let change = v1::UpdateTaskRequest { task_id, subject, ..Default::default() };
            let _ = member.update_task(change).await;
            tokio::task::yield_now().await;
        }
    }
}

async fn churn_tasks(member: Client) {
    let description = "x".repeat(8 * 1024);
    loop {
        let task =
            v1::CreateTaskRequest { subject: "Big".to_owned(), description: description.clone(), ..Default::default() };
        if let Ok(v1::CreateTaskResponse { task: Some(task), .. }) = member.create_task(task).await {
            let _ = member.delete_task(v1::DeleteTaskRequest { task_id: task.id, ..Default::default() }).await;
        }
        tokio::task::yield_now().await;
    }
}

async fn read_much(member: Client, name: String) {
    let filter = v1::HistoryFilter { text: format!("{name} never said this"), ..Default::default() };
    let search = v1::ListHistoryRequest { filter: Some(filter), page_size: 1_000, ..Default::default() };
    loop {
        let _ = member.list_history(search.clone()).await;
        let _ = member.list_members(v1::ListMembersRequest { page_size: 1_000, ..Default::default() }).await;
        let _ = member.list_tasks(v1::ListTasksRequest { page_size: 1_000, ..Default::default() }).await;
        tokio::task::yield_now().await;
    }
}
