//! Calls that travel as frames of one stream, as the Rust client makes them and as any other client may.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::Signal;
use prost::{Message, bytes::BytesMut};
use teamwire_client::{Client, ConnectOptions, message};
use teamwire_proto::{
    Method, Reason, Refusal,
    v1::{self, call_service_client::CallServiceClient, message::Body},
};
use tokio::{runtime::Runtime, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::{
    raw::Raw,
    world::{LEAD, PATIENCE, World, eventually},
};

/// Has the coordinator take sends as fast as they come.
const FAST: &str = "[rates]\nsends_per_second = 1000000\nsends_burst = 1000000\n";

/// A stream of frames.
struct Frames {
    to: mpsc::Sender<v1::CarryRequest>,
    replies: Streaming<v1::CarryResponse>,
}

/// A reply, as far as it has arrived.
type Reply = Result<BytesMut, Status>;

fn frame(sequence: u64, method: Method, request: &impl Message) -> v1::CallFrame {
    v1::CallFrame {
        sequence,
        method: method.path().to_owned(),
        request: request.encode_to_vec().into(),
        ..Default::default()
    }
}

fn direct(recipient: &str, content: &str) -> v1::SendRequest {
    message::direct(recipient, "a message", content)
}

impl Frames {
    async fn open(raw: &Raw) -> Result<Self, Status> {
        let (to, frames) = mpsc::channel(1_000);
        let mut calls = CallServiceClient::new(raw.channel.clone());
        let replies =
            timeout(PATIENCE, calls.carry(raw.request(ReceiverStream::new(frames)))).await.expect("an answer")?;
        Ok(Self { to, replies: replies.into_inner() })
    }

    async fn send(&self, frame: v1::CallFrame) {
        self.send_all(vec![frame]).await;
    }

    async fn send_all(&self, calls: Vec<v1::CallFrame>) {
        timeout(PATIENCE, self.to.send(v1::CarryRequest { calls })).await.expect("room").expect("the stream is open");
    }

    /// Reads this many replies, or all until the stream ends. Returns them, and how the stream ended if it did.
    async fn read(&mut self, count: usize) -> (BTreeMap<u64, Reply>, Option<Result<(), Status>>) {
        let (mut replies, mut parts) = (BTreeMap::new(), BTreeMap::<u64, BytesMut>::new());
        while replies.len() < count {
            let message = match timeout(PATIENCE, self.replies.message()).await.expect("a reply") {
                Ok(Some(message)) => message,
                Ok(None) => return (replies, Some(Ok(()))),
                Err(status) => return (replies, Some(Err(status))),
            };
            for part in message.replies {
                parts.entry(part.sequence).or_default().extend_from_slice(&part.reply);
                if let Some(status) = part.status {
                    let reply = parts.remove(&part.sequence).unwrap_or_default();
                    let reply = match Code::from(status.code) {
                        Code::Ok => Ok(reply),
                        code => Err(Status::with_details(code, status.message, status.details)),
                    };
                    assert!(replies.insert(part.sequence, reply).is_none(), "a second reply");
                }
            }
        }
        (replies, None)
    }

    /// Makes one call.
    async fn call(&mut self, frame: v1::CallFrame) -> Reply {
        self.send(frame).await;
        self.read(1).await.0.pop_first().expect("a reply").1
    }
}

fn reason_of(status: &Status) -> Option<Reason> {
    Refusal::from_status(status).map(|refusal| refusal.reason)
}

#[test]
fn frames_have_the_effects_and_the_refusals_of_calls() {
    let world = World::embedded();
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &ann);
        let mut frames = Frames::open(&raw).await.expect("open");
        let request = v1::SendRequest { idempotency_key: "one-key".to_owned(), ..direct("bob", "hello") };
        let sent = frames.call(frame(1, Method::Send, &request)).await.expect("sent");
        let again = raw.messages().send(raw.request(request)).await.unwrap().into_inner();
        assert_eq!(v1::SendResponse::decode(sent).unwrap().message_id, again.message_id, "the call repeats the frame");

        let refused = frames.call(frame(2, Method::Send, &direct("no-one", "hello"))).await.unwrap_err();
        let plain = raw.send_all(direct("no-one", "hello")).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message(), refused.details()),
            (plain.code(), plain.message(), plain.details()),
        );
        let force = v1::ForceStopRequest { member: "bob".to_owned(), ..Default::default() };
        let refused = frames.call(frame(3, Method::ForceStop, &force)).await.unwrap_err();
        assert_eq!(reason_of(&refused), Some(Reason::LeadOnly));

        let garbage = v1::CallFrame { request: vec![0xff; 9].into(), ..frame(4, Method::Send, &()) };
        assert_eq!(reason_of(&frames.call(garbage).await.unwrap_err()), Some(Reason::InvalidField));
        let stranger = v1::CallFrame { session: "never-issued".to_owned(), ..frame(5, Method::GetTeam, &()) };
        assert_eq!(reason_of(&frames.call(stranger).await.unwrap_err()), Some(Reason::InvalidField));
        let unprintable = v1::CallFrame { session: "a\nb".to_owned(), ..frame(6, Method::GetTeam, &()) };
        assert_eq!(reason_of(&frames.call(unprintable).await.unwrap_err()), Some(Reason::InvalidField));
        for method in [Method::Stream, Method::Carry, Method::WaitForDecision] {
            let refused = frames.call(frame(7, method, &())).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unimplemented, "{method:?}");
        }
        let unknown = v1::CallFrame { method: "/other/Call".to_owned(), ..Default::default() };
        assert_eq!(frames.call(unknown).await.unwrap_err().code(), Code::Unimplemented);
        let large = frame(9, Method::Send, &direct("bob", &"x".repeat(16 * 1024)));
        assert_eq!(reason_of(&frames.call(large).await.unwrap_err()), Some(Reason::ContentTooLarge));

        let beats = (1..=64).map(|sequence| frame(sequence, Method::Heartbeat, &v1::HeartbeatRequest::default()));
        frames.send_all(beats.collect()).await;
        assert!(frames.read(64).await.0.values().all(Result::is_ok));

        let Frames { to, replies } = frames;
        drop(to);
        let (replies, end) = Frames { to: mpsc::channel(1).0, replies }.read(1).await;
        assert!(replies.is_empty() && matches!(end, Some(Ok(()))), "{end:?}");

        let mut frames = Frames::open(&raw).await.expect("open");
        frames.send(frame(1, Method::Send, &direct("bob", "before"))).await;
        frames.send(frame(2, Method::Send, &direct("bob", &"x".repeat(64 * 1024)))).await;
        let (replies, end) = frames.read(2).await;
        assert!(replies.len() == 1 && replies[&1].is_ok(), "{replies:?}");
        assert_eq!(reason_of(&end.unwrap().unwrap_err()), Some(Reason::ContentTooLarge));

        let mut frames = Frames::open(&raw).await.expect("open");
        frames.send_all(vec![v1::CallFrame::default(); 65]).await;
        let (_, end) = frames.read(1).await;
        assert_eq!(reason_of(&end.unwrap().unwrap_err()), Some(Reason::InvalidField));

        raw.teams().join(raw.request(v1::JoinRequest::default())).await.expect("another life");
        let refused = Frames::open(&raw).await.err().expect("the credential is the earlier life's");
        assert!(reason_of(&refused).is_some(), "{refused:?}");
    });
    let entry = eventually("an entry in the audit log", || {
        let entries = world.cli(LEAD, &["audit", "--all", "--json"]).succeeds().lines();
        entries.into_iter().map(|line| line["entry"].clone()).find(|entry| entry["method"] == "TeamService/ForceStop")
    });
    assert_eq!((&entry["outcome"], &entry["caller"]["member"]), (&"LEAD_ONLY".into(), &"ann".into()));
    assert!(entry["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1")), "{entry}");
    let counted = |method: &str, code: &str| {
        let labels = format!("{{method=\"teamwire.v1.{method}\",code=\"{code}\"}}");
        world.coordinator.metric(&format!("teamwire_rpc_seconds_count{labels}"))
    };
    assert_eq!(counted("TeamService/ForceStop", "PERMISSION_DENIED"), 1.0);
    assert_eq!(counted("CallService/Carry", "OK"), 1.0);
    assert_eq!(world.take_inbox("bob").len(), 2, "{bob}");
}

#[test]
fn a_long_reply_comes_in_parts() {
    let world = World::embedded();
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &ann);
        for _ in 0..4 {
            raw.send_all(direct("bob", &"x".repeat(20_000))).await.unwrap();
        }
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let mut frames = Frames::open(&raw).await.unwrap();
        for sequence in 1..=20 {
            let list = frame(sequence, Method::ListInbox, &v1::ListInboxRequest::default());
            let beat = frame(100 + sequence, Method::Heartbeat, &v1::HeartbeatRequest::default());
            frames.send_all(vec![list, beat]).await;
        }
        let (replies, end) = frames.read(40).await;
        assert!(end.is_none(), "{end:?}");
        let plain = raw.messages().list_inbox(raw.request(v1::ListInboxRequest::default())).await.unwrap().into_inner();
        for (sequence, reply) in replies {
            let reply = reply.expect("no refusal");
            if sequence < 100 {
                assert_eq!(v1::ListInboxResponse::decode(reply).unwrap(), plain);
            }
        }
    });
}

#[test]
fn a_coordinator_that_shuts_down_answers_every_frame_that_it_took() {
    let mut world = World::configured(FAST);
    world.create_team("acme");
    let (ann, _) = (world.join("ann"), world.join("bob"));
    let runtime = Runtime::new().unwrap();
    let stored = runtime.block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &ann);
        let mut frames = Frames::open(&raw).await.unwrap();
        let to = frames.to.clone();
        let sending = tokio::spawn(async move {
            for sequence in 0.. {
                let request = direct("bob", &sequence.to_string());
                let calls = vec![frame(sequence, Method::Send, &request)];
                if to.send(v1::CarryRequest { calls }).await.is_err() {
                    return;
                }
            }
        });
        let (mut replies, end) = frames.read(200).await;
        assert!(end.is_none(), "{end:?}");
        world.coordinator.signal(Signal::SIGTERM);
        let (rest, end) = frames.read(usize::MAX).await;
        assert!(matches!(end, Some(Ok(()))), "{end:?}");
        drop(frames);
        sending.await.unwrap();
        replies.extend(rest);
        let stored = replies.into_iter().filter(|(_, reply)| match reply {
            Ok(_) => true,
            Err(status) => {
                assert_eq!(reason_of(status), Some(Reason::Draining), "{status}");
                false
            }
        });
        stored.map(|(sequence, _)| sequence.to_string()).collect::<BTreeSet<_>>()
    });
    world.coordinator.kill();
    world.coordinator.restart();
    let taken = runtime.block_on(async {
        let client = Client::connect(&world.coordinator.address()).unwrap();
        let client = client.with_credential(&world.credential("bob")).unwrap();
        let (mut taken, mut page_token) = (BTreeSet::new(), String::new());
        loop {
            let request = v1::ListInboxRequest { page_token, page_size: 1_000, ..Default::default() };
            let page = client.list_inbox(request).await.unwrap();
            for delivery in page.deliveries {
                if let Some(Body::Message(text)) = delivery.message.and_then(|message| message.body) {
                    assert!(taken.insert(text.content));
                }
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return taken;
            }
        }
    });
    assert!(stored.len() >= 200 && stored == taken, "{} of {}", stored.len(), taken.len());
}

#[test]
fn a_client_that_reads_no_replies_is_held_back_and_cut_off() {
    let world = World::configured("[delivery]\nwrite_timeout = \"1s\"\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &ann);
        raw.send_all(direct("bob", &"x".repeat(30_000))).await.unwrap();
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let frames = Frames::open(&raw).await.unwrap();
        let Frames { to, replies } = frames;
        let sending = tokio::spawn(async move {
            let mut sent = 0_u64;
            let message = |sent| {
                let calls = vec![frame(sent, Method::ListInbox, &v1::ListInboxRequest::default())];
                v1::CarryRequest { calls }
            };
            while to.send(message(sent)).await.is_ok() {
                sent += 1;
            }
            sent
        });
        let lists = "teamwire_rpc_seconds_count{method=\"teamwire.v1.MessageService/ListInbox\",code=\"CANCELLED\"}";
        eventually("the replies to be dropped", || (world.coordinator.metric(lists) > 0.0).then_some(()));
        let (read, end) = Frames { to: mpsc::channel(1).0, replies }.read(usize::MAX).await;
        end.expect("an end").expect_err("the stream was given up");
        let sent = sending.await.unwrap();
        // What the connection holds, and what waits for it: 31 frames that read take 256 KiB.
        assert!(read.len() < 128 && sent > 256, "{} of {sent}", read.len());
    });
}

#[test]
fn a_stream_of_frames_ends_with_its_credential() {
    let world = World::embedded();
    world.create_team("acme");
    let invited = world.cli(LEAD, &["invite", "--json", "--observer"]).succeeds().json();
    let token = invited["token"].as_str().unwrap();
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), token);
        let mut frames = Frames::open(&raw).await.unwrap();
        frames.call(frame(1, Method::GetTeam, &v1::GetTeamRequest::default())).await.expect("a team");
        let id = token.split(':').nth(2).unwrap();
        world.cli(LEAD, &["access", "revoke", id]).succeeds();
        let (_, end) = frames.read(1).await;
        assert_eq!(reason_of(&end.unwrap().unwrap_err()), Some(Reason::CredentialRevoked));
    });
}

#[test]
fn a_connection_carries_the_frames_of_one_stream_at_a_time() {
    let world = World::embedded();
    world.create_team("acme");
    let ann = world.join("ann");
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &ann);
        let mut first = Frames::open(&raw).await.unwrap();
        let mut second = Box::pin(Frames::open(&raw));
        tokio::select! {
            biased;
            _ = &mut second => panic!("a second stream"),
            // Proves that the coordinator has had the time to open it.
            reply = async {
                for _ in 0..20 {
                    first.call(frame(1, Method::Heartbeat, &v1::HeartbeatRequest::default())).await?;
                }
                Ok::<_, Status>(())
            } => reply.expect("a heartbeat"),
        }
        drop(first);
        let mut second = second.await.expect("the next stream");
        second.call(frame(1, Method::Heartbeat, &v1::HeartbeatRequest::default())).await.expect("a heartbeat");
    });
}

#[test]
fn the_rust_client_sends_its_calls_in_frames() {
    let world = World::configured(FAST);
    world.create_team("acme");
    let (ann, _) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let options = ConnectOptions { calls_before_frames: 0, ..ConnectOptions::default() };
        let client = Client::connect_with(&world.coordinator.address(), options).unwrap();
        let client = client.with_credential(&ann).unwrap();
        let sends = (0..200).map(|number| client.send(direct("bob", &number.to_string())));
        futures::future::try_join_all(sends).await.expect("sent");
        client.send(direct("bob", &"x".repeat(60_000))).await.expect("a large message travels alone");
    });
    let carried = "teamwire_rpc_seconds_count{method=\"teamwire.v1.CallService/Carry\"";
    eventually("the stream's end", || world.coordinator.metrics().contains(carried).then_some(()));
    let sent = "teamwire_rpc_seconds_count{method=\"teamwire.v1.MessageService/Send\",code=\"OK\"}";
    assert_eq!(world.coordinator.metric(sent), 201.0);
}
