//! A gRPC server in its own process that speaks teamwire's protocol without its rules.
//!
//! It accepts every message unchecked, stores it in a [`PlainStore`] or not at all, and hands it to the open streams.
//! It stores acknowledgements only if asked to.
//! It has teamwire's allocator and settings of memory, and sends as many heartbeats and pings. So it costs what any
//! server with these messages on these libraries must cost.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nix::sys::prctl;
use parking_lot::Mutex;
use prost::Message as _;
use teamwire_proto::v1::{
    self,
    message_service_server::{MessageService, MessageServiceServer},
    send_request::Body,
    stream_response::Frame,
};
use tokio::{
    net::TcpSocket,
    sync::mpsc,
    time::{Instant, interval_at},
};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{TcpListenerStream, UnboundedReceiverStream},
};
use tonic::{Request, Response, Status, transport::Server};
use uuid::Uuid;

use super::{
    payload::message,
    plain_store::{Entry, PlainStore, Write},
};
use crate::Result;

/// Its second argument if it stores acknowledgements.
pub(crate) const STORES_ACKS: &str = "acks";

/// What it prints before its port.
pub(crate) const LISTENS: &str = "listens on port ";

/// The intervals of heartbeats on an idle stream, and of pings on a silent connection; and the time to answer a ping.
/// Teamwire's defaults.
const HEARTBEATS: Duration = Duration::from_secs(10);
const PINGS: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until it is killed, on the store of a URL. An empty URL stores nothing.
pub(crate) async fn serve(store: &str, stores_acks: bool) -> Result<()> {
    // As `teamwire serve` does. A kernel without huge pages has none to turn off.
    let _ = prctl::set_thp_disable(true);
    let server = NullServer { store: PlainStore::open(store).await?, stores_acks, inboxes: Arc::default() };
    let socket = TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    // A long backlog: all subscribers connect at once.
    let listener = socket.listen(4096)?;
    println!("{LISTENS}{}", listener.local_addr()?.port());
    let connections = TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|stream| {
            let _ = stream.set_nodelay(true);
        })
    });
    let mut with_pings =
        Server::builder().http2_keepalive_interval(Some(PINGS)).http2_keepalive_timeout(Some(PING_TIMEOUT));
    let service = MessageServiceServer::new(server);
    Ok(with_pings.add_service(service).serve_with_incoming(connections).await?)
}

/// An inbox: its open stream, and the messages that wait for one.
#[derive(Debug, Default)]
struct Inbox {
    reader: Option<mpsc::UnboundedSender<std::result::Result<v1::StreamResponse, Status>>>,
    waiting: Vec<v1::Message>,
    sequence: u64,
}

impl Inbox {
    fn deliver(&mut self, message: v1::Message) {
        match &self.reader {
            Some(reader) => {
                self.sequence += 1;
                let (sequence, message) = (self.sequence, Some(message));
                let delivery = v1::Delivery { sequence, delivery_count: 1, message };
                // The client may have disconnected.
                let _ = reader.send(Ok(v1::StreamResponse { frame: Some(Frame::Delivery(delivery)) }));
            }
            None => self.waiting.push(message),
        }
    }
}

struct NullServer {
    store: PlainStore,
    stores_acks: bool,
    inboxes: Arc<Mutex<HashMap<String, Inbox>>>,
}

#[tonic::async_trait]
impl MessageService for NullServer {
    type StreamStream = Pin<Box<dyn Stream<Item = std::result::Result<v1::StreamResponse, Status>> + Send>>;

    async fn send(&self, request: Request<v1::SendRequest>) -> std::result::Result<Response<v1::SendResponse>, Status> {
        let sender = caller(&request);
        let request = request.into_inner();
        let (inboxes, body) = match request.body {
            Some(Body::Message(text)) => (vec![text.recipient.clone()], v1::message::Body::Message(text)),
            Some(Body::Broadcast(text)) => (self.readers(), v1::message::Body::Broadcast(text)),
            _ => return Err(Status::unimplemented("the null server takes messages and broadcasts only")),
        };
        let (id, message) = message(inboxes.clone(), sender, body);
        if !matches!(self.store, PlainStore::Nothing) {
            let body = message.encode_to_vec();
            let entry = Entry { id, key: request.idempotency_key, inboxes: inboxes.clone(), body };
            self.store.append(Write::Message(entry)).await.map_err(|error| Status::internal(error.to_string()))?;
        }
        let sent_at = message.sent_at;
        {
            let mut open = self.inboxes.lock();
            for inbox in &inboxes {
                open.entry(inbox.clone()).or_default().deliver(message.clone());
            }
        }
        Ok(Response::new(v1::SendResponse {
            message_id: id.to_string(),
            recipients: inboxes,
            sent_at,
            ..v1::SendResponse::default()
        }))
    }

    async fn stream(
        &self,
        request: Request<v1::StreamRequest>,
    ) -> std::result::Result<Response<Self::StreamStream>, Status> {
        let member = caller(&request);
        #[expect(clippy::disallowed_methods, reason = "a bound would be a rule, and this server has none")]
        let (reader, frames) = mpsc::unbounded_channel();
        let opened = v1::SessionOpened {
            session_id: Uuid::new_v4().to_string(),
            epoch: 1,
            heartbeat_interval: HEARTBEATS.try_into().ok(),
            member: member.clone(),
            ..v1::SessionOpened::default()
        };
        let _ = reader.send(Ok(v1::StreamResponse { frame: Some(Frame::Opened(opened)) }));
        let mut open = self.inboxes.lock();
        let inbox = open.entry(member).or_default();
        inbox.reader = Some(reader);
        for message in std::mem::take(&mut inbox.waiting) {
            inbox.deliver(message);
        }
        let heartbeats = interval_at(Instant::now() + HEARTBEATS, HEARTBEATS);
        let frames = UnboundedReceiverStream::new(frames).timeout_repeating(heartbeats);
        Ok(Response::new(Box::pin(frames.map(|frame| frame.unwrap_or_else(|_silent| Ok(heartbeat()))))))
    }

    async fn ack(&self, request: Request<v1::AckRequest>) -> std::result::Result<Response<v1::AckResponse>, Status> {
        let inbox = caller(&request);
        let ids = request.into_inner().message_ids;
        let acked = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if self.stores_acks {
            let acks = Write::Acks { inbox, ids };
            self.store.append(acks).await.map_err(|error| Status::internal(error.to_string()))?;
        }
        Ok(Response::new(v1::AckResponse { acked }))
    }

    async fn get_message(
        &self,
        _: Request<v1::GetMessageRequest>,
    ) -> std::result::Result<Response<v1::GetMessageResponse>, Status> {
        Err(Status::unimplemented("the null server does not implement this call"))
    }

    async fn list_inbox(
        &self,
        _: Request<v1::ListInboxRequest>,
    ) -> std::result::Result<Response<v1::ListInboxResponse>, Status> {
        Err(Status::unimplemented("the null server does not implement this call"))
    }
}

impl NullServer {
    fn readers(&self) -> Vec<String> {
        let open = self.inboxes.lock();
        open.iter().filter(|(_, inbox)| inbox.reader.is_some()).map(|(name, _)| name.clone()).collect()
    }
}

fn heartbeat() -> v1::StreamResponse {
    let heartbeat = v1::Heartbeat { server_time: Some(SystemTime::now().into()) };
    v1::StreamResponse { frame: Some(Frame::Heartbeat(heartbeat)) }
}

/// Returns the caller's name, which serves as its credential here.
fn caller<T>(request: &Request<T>) -> String {
    let authorization = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    authorization.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned()
}
