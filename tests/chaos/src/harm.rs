//! What hostile members and strangers do.

use std::{convert::Infallible, net::Ipv4Addr, time::Duration};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use prost::Message;
use teamwire_client::{Client, SubscribeOptions, message, v1};
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use crate::{
    flood::{again_from, as_caller, begin, no_credential, stay_silent},
    growth::Part,
};

/// How many calls a hostile member makes at once.
const AT_ONCE: usize = 8;

/// How many connections a hostile member tries to keep: together twice as many as a coordinator takes by default.
const CONNECTIONS: usize = 200;

/// How many connections without a credential there are for each hostile member: together more than a coordinator takes
/// by default.
const STRANGE_CONNECTIONS: usize = 110;

/// The same, to the listeners for health and metrics: together more than a coordinator may have files open.
const LISTENER_CONNECTIONS: usize = 220;

/// The address of those that open many connections. The others are at 127.0.0.1: at one address, connections without a
/// valid credential make way for each other.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How many connections a hostile member has on which it reads nothing.
const UNREAD_CONNECTIONS: usize = 4;

/// How many replies a hostile member leaves unread on one connection.
const UNREAD: usize = 64;

/// How many connections a hostile member has on which its requests never become complete. It makes half of them as a
/// stranger.
const UNFINISHED_CONNECTIONS: usize = 4;

/// How many requests it keeps unfinished on one connection.
const UNFINISHED: usize = 64;

/// How much it sends of such a request: nearly as much as a coordinator takes by default.
const UNFINISHED_BYTES: usize = 250 * 1024;

/// What hostile members and strangers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Ask for much, and never read the replies.
    UnreadReplies,
    /// Send large requests, half of them without a valid credential, and never complete them.
    UnfinishedRequests,
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
    /// Make calls that they are not allowed to make, so that the refusals fill the audit log.
    RefusedCalls,
    /// Without a credential: open connections from another address, and again once the coordinator closes them.
    Strangers,
    /// Without a credential: hold connections to the listeners for health and metrics.
    Listeners,
    /// Send large messages, until the team is full.
    Messages,
}

impl Harm {
    /// Everything that may not even keep other members from sending. A full team refuses their messages.
    pub const ALL: [Self; 10] = [
        Self::UnreadReplies,
        Self::UnfinishedRequests,
        Self::Connections,
        Self::Restarts,
        Self::TaskChanges,
        Self::TaskChurn,
        Self::Reads,
        Self::RefusedCalls,
        Self::Strangers,
        Self::Listeners,
    ];

    /// Returns whether it makes use of much that was said.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::UnreadReplies | Self::Reads)
    }

    /// Returns the part of the team's quota that it fills.
    pub(crate) fn fills(self) -> Option<Part> {
        match self {
            Self::TaskChanges => Some(Part::TaskHistory),
            Self::TaskChurn => Some(Part::Tasks),
            Self::Messages => Some(Part::Team),
            _ => None,
        }
    }
}

/// The coordinator that is attacked.
#[derive(Clone, Debug)]
pub struct Target {
    /// The port on which it takes calls.
    pub port: u16,
    /// The ports of its listeners for health and metrics.
    pub listeners: Vec<u16>,
}

/// A hostile member.
pub(crate) struct Attacker<'a> {
    pub(crate) name: &'a str,
    /// The name of another hostile member.
    pub(crate) accomplice: &'a str,
    pub(crate) client: &'a Client,
}

impl Harm {
    /// Spawns what one hostile member does, or what strangers do.
    pub(crate) fn begin(self, target: &Target, attacker: &Attacker<'_>, attacks: &mut JoinSet<()>) {
        let port = target.port;
        let times = match self {
            Self::Connections => CONNECTIONS,
            Self::Strangers => STRANGE_CONNECTIONS,
            Self::Listeners => LISTENER_CONNECTIONS,
            Self::UnreadReplies => UNREAD_CONNECTIONS,
            Self::UnfinishedRequests => UNFINISHED_CONNECTIONS,
            Self::Restarts => 1,
            _ => AT_ONCE,
        };
        for number in 0..times {
            let (member, credential) = (attacker.client.clone(), attacker.client.credential().to_owned());
            match self {
                Self::UnreadReplies => {
                    attacks.spawn(again_from(ELSEWHERE, port, move |stream| ask_and_hold(stream, credential.clone())))
                }
                Self::UnfinishedRequests => {
                    let credential = if number % 2 == 0 { credential } else { no_credential() };
                    attacks.spawn(again_from(ELSEWHERE, port, move |stream| begin_requests(stream, credential.clone())))
                }
                Self::Connections => {
                    attacks.spawn(again_from(ELSEWHERE, port, move |stream| hold(stream, credential.clone())))
                }
                Self::Restarts => attacks.spawn(restart(member)),
                Self::TaskChanges => attacks.spawn(change_tasks(member)),
                Self::TaskChurn => attacks.spawn(churn_tasks(member)),
                Self::Reads => attacks.spawn(read_much(member, attacker.name.to_owned())),
                Self::RefusedCalls => attacks.spawn(be_refused(member)),
                Self::Messages => attacks.spawn(send_much(member, attacker.accomplice.to_owned())),
                Self::Strangers => attacks.spawn(again_from(ELSEWHERE, port, stay_silent)),
                Self::Listeners => match target.listeners.get(number % target.listeners.len().max(1)) {
                    Some(listener) => attacks.spawn(again_from(ELSEWHERE, *listener, stay_silent)),
                    None => continue,
                },
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
        let inbox = v1::ListInboxRequest { page_size: 1_000, ..Default::default() };
        let reply = match number % 4 {
            0 => ask(&mut calls, "HistoryService/FollowHistory", &credential, &follow).await?,
            1 => ask(&mut calls, "WatchService/WatchTeam", &credential, &v1::WatchTeamRequest::default()).await?,
            2 => ask(&mut calls, "MessageService/ListInbox", &credential, &inbox).await?,
            _ => ask(&mut calls, "HistoryService/ListHistory", &credential, &list).await?,
        };
        replies.push(reply);
    }
    // Until the coordinator closes the connection.
    let _ = (&mut connection).await;
    Ok(())
}

/// Begins as many large requests as possible on a connection, and others when these are refused.
async fn begin_requests(stream: TcpStream, credential: String) -> Result<(), h2::Error> {
    let calls = begin(stream).await?;
    let mut unfinished = JoinSet::new();
    for _ in 0..UNFINISHED {
        unfinished.spawn(begin_request_again(calls.clone(), credential.clone()));
    }
    // Until the coordinator closes the connection.
    while let Some(Ok(Ok(_))) = unfinished.join_next().await {}
    Ok(())
}

/// Begins one large request after the other, each when the one before was refused.
async fn begin_request_again(mut calls: SendRequest<Bytes>, credential: String) -> Result<Infallible, h2::Error> {
    let mut part = BytesMut::zeroed(UNFINISHED_BYTES);
    // One byte is missing. The prefix of gRPC is not counted.
    part[1..5].copy_from_slice(&u32::try_from(UNFINISHED_BYTES - 4).unwrap_or(u32::MAX).to_be_bytes());
    let part = part.freeze();
    loop {
        calls = calls.ready().await?;
        let (refusal, mut body) = calls.send_request(as_caller("MessageService/Send", &credential, 0), false)?;
        body.send_data(part.clone(), false)?;
        let _ = refusal.await?;
    }
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
    // As long as a subject may be, so that each change takes much room.
    let long = "\u{1f9e8}".repeat(180);
    loop {
        let task = v1::CreateTaskRequest { subject: long.clone(), ..Default::default() };
        let Ok(task) = member.create_task(task).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let task_id = task.task.map_or(0, |task| task.id);
        for turn in 0..1_000_u32 {
            let change =
                v1::UpdateTaskRequest { task_id, subject: Some(format!("{turn} {long}")), ..Default::default() };
            let _ = member.update_task(change).await;
            tokio::task::yield_now().await;
        }
    }
}

async fn churn_tasks(member: Client) {
    let description = "x".repeat(48 * 1024);
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
        let _ = member.list_inbox(v1::ListInboxRequest { page_size: 1_000, ..Default::default() }).await;
        let _ = member.list_members(v1::ListMembersRequest { page_size: 1_000, ..Default::default() }).await;
        let _ = member.list_tasks(v1::ListTasksRequest { page_size: 1_000, ..Default::default() }).await;
        tokio::task::yield_now().await;
    }
}

async fn be_refused(member: Client) {
    loop {
        let _ = member.force_stop("lead", "I want to lead.").await;
        let _ = member.hand_over("lead").await;
        let _ = member.create_observer(v1::CreateObserverRequest::default()).await;
        let _ = member.list_audit_entries(v1::ListAuditEntriesRequest::default()).await;
        tokio::task::yield_now().await;
    }
}

async fn send_much(member: Client, to: String) {
    let content = "x".repeat(60 * 1024);
    loop {
        let _ = member.send(message::direct(&to, "much", &content)).await;
        tokio::task::yield_now().await;
    }
}
