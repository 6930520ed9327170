//! What one credential, or one address, can use of a coordinator; and that others are served meanwhile.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use http::Response;
use prost::Message;
use teamwire_client::message;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, access_service_client::AccessServiceClient, history_service_client::HistoryServiceClient},
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
    sync::Notify,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tonic::Status;

use crate::{
    raw::Raw,
    world::{LEAD, PATIENCE, World},
};

const GET_TEAM: &str = "/teamwire.v1.TeamService/GetTeam";
const SEND: &str = "/teamwire.v1.MessageService/Send";
const LIST_HISTORY: &str = "/teamwire.v1.HistoryService/ListHistory";

/// What a test of large replies needs to get them sent.
const ROOMY: &str =
    "[rates]\nsends_per_second = 1000000\nsends_burst = 1000000\n[limits]\ninbox_bytes_max = \"1GiB\"\n";

/// The most bytes of a message.
const LARGE: usize = 64 * 1024;

/// An HTTP/2 connection that never reconnects.
struct Wire {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    /// Has the client take the bytes of replies from now on.
    widen: Arc<Notify>,
}

impl Wire {
    async fn on(stream: TcpStream, window: u32) -> Result<Self, h2::Error> {
        let (requests, mut connection) =
            h2::client::Builder::new().initial_window_size(window).handshake(stream).await?;
        let widen = Arc::new(Notify::new());
        let widened = Arc::clone(&widen);
        let connection = tokio::spawn(async move {
            tokio::select! {
                ended = &mut connection => return ended,
                () = widened.notified() => {}
            }
            connection.set_initial_window_size(4 << 20)?;
            connection.await
        });
        Ok(Self { requests, connection, widen })
    }

    async fn connect(world: &World) -> Self {
        let stream = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        Self::on(stream, 65_535).await.unwrap()
    }

    /// Connects as a client that takes no bytes of any reply.
    async fn deaf(world: &World) -> Self {
        let stream = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        Self::on(stream, 0).await.unwrap()
    }

    /// Starts a call. Returns its reply, of which the body may not have arrived.
    async fn begin(
        &self,
        path: &str,
        credential: &str,
        message: &impl Message,
    ) -> Result<h2::client::ResponseFuture, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut body) = requests.send_request(call_to(path, credential), false)?;
        let message = message.encode_to_vec();
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        body.send_data(framed.into(), true)?;
        Ok(answer)
    }

    /// Starts a call whose request has this many bytes, of which the last one does not come until the returned stream
    /// is dropped.
    async fn begin_large(
        &self,
        path: &str,
        credential: &str,
        bytes: &Bytes,
    ) -> Result<(h2::client::ResponseFuture, h2::SendStream<Bytes>), h2::Error> {
        let request = call_to(path, credential);
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut body) = requests.send_request(request, false)?;
        let announced = u32::try_from(bytes.len() + 1).unwrap();
        body.send_data([&[0][..], &announced.to_be_bytes()].concat().into(), false)?;
        body.send_data(bytes.clone(), false)?;
        Ok((answer, body))
    }

    /// Calls, and returns the refusal, if it is one.
    async fn call(&self, path: &str, credential: &str) -> Result<Option<Refusal>, h2::Error> {
        let answer = self.begin(path, credential, &v1::GetTeamRequest::default()).await?;
        Ok(refusal_of(&timeout(PATIENCE, answer).await.expect("an answer")?))
    }
}

fn call_to(path: &str, credential: &str) -> http::Request<()> {
    let request = http::Request::post(format!("http://coordinator{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {credential}"));
    request.body(()).unwrap()
}

fn refusal_of(answer: &Response<RecvStream>) -> Option<Refusal> {
    Status::from_header_map(answer.headers()).map(|status| Refusal::from_status(&status).expect("a reason"))
}

/// Asserts that a refusal names its budget, how large that is, and when to try again.
#[track_caller]
fn names(refusal: &Refusal, key: &str, size: &str) {
    assert_eq!(refusal.reason, Reason::RateLimited, "{refusal}");
    assert!(refusal.message.contains(key) && refusal.message.contains(size), "{refusal}");
    assert_eq!((refusal.metadata["key"].as_str(), refusal.metadata["size"].as_str()), (key, size));
    assert!(refusal.retry_after.is_some_and(|wait| !wait.is_zero()), "{refusal:?}");
}

fn refused<T>(outcome: Result<T, Status>) -> Refusal {
    let Err(status) = outcome else { panic!("it is not refused") };
    Refusal::from_status(&status).expect("a reason")
}

/// Asserts that another member's send is answered, and that the lead gets in, over new connections.
async fn others_are_served(world: &World, member: &str) {
    let raw = |credential: &str| Raw::at(&world.coordinator.address(), credential);
    let member = raw(member);
    let sent = member.send(message::direct("lead", "hello", "hello").body);
    timeout(PATIENCE, sent).await.expect("a member's send is answered").unwrap();
    let lead = raw(&world.credential(LEAD));
    let listed = async { lead.teams().list_members(lead.request(v1::ListMembersRequest::default())).await };
    timeout(PATIENCE, listed).await.expect("the lead gets in").unwrap();
    let sent = lead.send(message::direct("ann", "hello", "hello").body);
    timeout(PATIENCE, sent).await.expect("the lead's send is answered").unwrap();
}

/// Sends messages of the largest size to a member, and returns once all are in the history.
async fn fill(world: &World, to: &str, count: usize) {
    let (address, lead) = (world.coordinator.address(), world.credential(LEAD));
    let mut sends = JoinSet::new();
    for _ in 0..8 {
        let (raw, to) = (Raw::at(&address, &lead), to.to_owned());
        sends.spawn(async move {
            for _ in 0..count / 8 {
                raw.send(message::direct(&to, "large", "x".repeat(LARGE)).body).await.unwrap();
            }
        });
    }
    sends.join_all().await;
}

/// Returns how much memory the coordinator has used at most, in bytes.
#[cfg(target_os = "linux")]
fn memory_peak(world: &World) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.coordinator.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1_024
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_reads_nothing_holds_bounded_memory_and_blocks_only_itself() {
    let world = World::configured(ROOMY);
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        fill(&world, "bob", 960).await;
        let before = memory_peak(&world);
        let deaf = Wire::deaf(&world).await;
        let whole = v1::ListHistoryRequest { page_size: 1_000, ..Default::default() };
        let mut answers = Vec::new();
        for _ in 0..64 {
            answers.push(deaf.begin(LIST_HISTORY, &bob, &whole).await.unwrap());
        }
        others_are_served(&world, &ann).await;
        let (mut held, mut refusals) = (Vec::new(), Vec::new());
        for answer in answers {
            let answer = timeout(PATIENCE, answer).await.expect("an answer").unwrap();
            match refusal_of(&answer) {
                Some(refusal) => refusals.push(refusal),
                None => held.push(answer),
            }
        }
        // Pages of 15 messages each, of which 8 MiB may wait.
        assert_eq!(held.len(), 8, "{refusals:?}");
        for refusal in &refusals {
            match refusal.metadata["budget"].as_str() {
                "reads" => names(refusal, "shares.reads_per_credential_max", "4"),
                _ => names(refusal, "shares.reply_bytes_per_credential_max", &(8 << 20).to_string()),
            }
        }
        others_are_served(&world, &ann).await;
        // What limits.md says of one credential: 8 MiB of replies, and 4 reads of 17 MiB. It was 4.6 GB.
        let grown = memory_peak(&world).saturating_sub(before);
        assert!(grown < 128 << 20, "{} MiB", grown >> 20);
        drop(held);
    });
    let counted = ["reads", "reply_bytes"]
        .map(|budget| world.coordinator.metric(&format!("teamwire_budget_refusals_total{{budget=\"{budget}\"}}")));
    assert_eq!(counted.iter().sum::<f64>(), 56.0);
}

#[test]
fn an_unread_reply_makes_room_for_the_next_one() {
    let world = World::configured(&format!(
        "[shares]\nreply_bytes_per_credential_max = \"1MiB\"\n[delivery]\nwrite_timeout = \"1s\"\n{ROOMY}"
    ));
    world.create_team("acme");
    let bob = world.join("bob");
    Runtime::new().unwrap().block_on(async {
        fill(&world, "bob", 40).await;
        let deaf = Wire::deaf(&world).await;
        let whole = v1::ListHistoryRequest { page_size: 1_000, ..Default::default() };
        let answer = deaf.begin(LIST_HISTORY, &bob, &whole).await.unwrap();
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        assert_eq!(refusal_of(&answer), None);
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let mut history = HistoryServiceClient::new(raw.channel.clone());
        let page = history.list_history(raw.request(whole)).await.expect("it waits until there is room");
        assert!(!page.into_inner().next_page_token.is_empty());
        // The first call has failed: its client learns so once it reads.
        let mut body = answer.into_body();
        deaf.widen.notify_one();
        let failed = async {
            loop {
                match body.data().await {
                    Some(Ok(bytes)) => body.flow_control().release_capacity(bytes.len()).unwrap(),
                    Some(Err(error)) => return error,
                    None => panic!("the reply is complete"),
                }
            }
        };
        timeout(PATIENCE, failed).await.expect("it fails");
    });
}

#[test]
fn unread_streams_are_ended_and_free_their_memory() {
    let world = World::configured(&format!(
        "[shares]\nreply_bytes_per_credential_max = \"1MiB\"\n[delivery]\nwrite_timeout = \"1s\"\n{ROOMY}"
    ));
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        fill(&world, "bob", 80).await;
        let deaf = Wire::deaf(&world).await;
        let mut streams = Vec::new();
        for _ in 0..32 {
            let follow = v1::FollowHistoryRequest::default();
            let answer = deaf.begin("/teamwire.v1.HistoryService/FollowHistory", &bob, &follow).await.unwrap();
            streams.push(timeout(PATIENCE, answer).await.unwrap().unwrap());
        }
        others_are_served(&world, &ann).await;
        // The same credential reads again once the streams have ended.
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let mut history = HistoryServiceClient::new(raw.channel.clone());
        let began = Instant::now();
        let page = v1::ListHistoryRequest { page_size: 1_000, ..Default::default() };
        while let Err(status) = history.list_history(raw.request(page.clone())).await {
            names(&refused::<()>(Err(status)), "shares.reply_bytes_per_credential_max", &(1 << 20).to_string());
            assert!(began.elapsed() < PATIENCE, "the streams keep what they hold");
        }
    });
}

#[test]
fn open_streams_are_bounded_per_credential_and_its_consoles_share_another_bound() {
    let world = World::configured("[shares]\nstreams_per_credential_max = 2\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    let address = world.coordinator.address();
    Runtime::new().unwrap().block_on(async {
        let follow = async |raw: &Raw| {
            let request = raw.request(v1::FollowTasksRequest::default());
            raw.tasks().follow_tasks(request).await.map(tonic::Response::into_inner)
        };
        let full = |outcome| names(&refused(outcome), "shares.streams_per_credential_max", "2");
        let raw = Raw::at(&address, &ann);
        let (one, _two) = (follow(&raw).await.unwrap(), follow(&raw).await.unwrap());
        full(follow(&raw).await);
        // Other connections are no way around it, nor are waiting calls.
        full(follow(&Raw::at(&address, &ann)).await);
        let wait = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        let claim = raw.request(v1::ClaimNextTaskRequest { wait, ..Default::default() });
        let claimed = raw.tasks().claim_next_task(claim).await;
        names(&refused(claimed), "shares.streams_per_credential_max", "2");
        others_are_served(&world, &bob).await;
        let _bobs = follow(&Raw::at(&address, &bob)).await.unwrap();

        let mut consoles = Vec::new();
        for _ in 0..3 {
            let mut access = AccessServiceClient::new(raw.channel.clone());
            let code = access.create_sign_in_code(raw.request(v1::CreateSignInCodeRequest::default())).await.unwrap();
            let code = Raw { channel: raw.channel.clone(), credential: Some(code.into_inner().code) };
            let signed_in = access.sign_in(code.request(v1::SignInRequest::default())).await.unwrap().into_inner();
            consoles.push(Raw::at(&address, &signed_in.credential));
        }
        let _consoles = (follow(&consoles[0]).await.unwrap(), follow(&consoles[1]).await.unwrap());
        full(follow(&consoles[2]).await);

        drop(one);
        let began = Instant::now();
        while let Err(status) = follow(&raw).await {
            names(&refused::<()>(Err(status)), "shares.streams_per_credential_max", "2");
            assert!(began.elapsed() < PATIENCE, "a closed stream makes no room");
        }
    });
}

#[test]
fn a_reader_that_hammers_slows_only_itself() {
    let world = World::configured("[rates]\nread_bytes_per_second = \"64KiB\"\nread_bytes_burst = \"256KiB\"\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let get = async || raw.teams().get_team(raw.request(v1::GetTeamRequest::default())).await;
        let mut passed = 0;
        let refusal = loop {
            match get().await {
                Ok(_) => passed += 1,
                Err(status) => break refused::<()>(Err(status)),
            }
            assert!(passed < 10_000, "nothing is too fast");
        };
        names(&refusal, "rates.read_bytes_per_second", "65536");
        // 256 KiB of at least 4 KiB each.
        assert!(passed >= 50, "{passed}");
        others_are_served(&world, &ann).await;
        raw.send(message::direct("ann", "hello", "hello").body).await.expect("it may still write");
        // As long as it says: that is what is tested.
        let mut refusal = Some(refusal);
        while let Some(again) = refusal {
            tokio::time::sleep(again.retry_after.unwrap()).await;
            refusal = get().await.err().map(|status| refused::<()>(Err(status)));
        }
    });
    let refusals = world.coordinator.metric("teamwire_budget_refusals_total{budget=\"read_bytes\"}");
    assert!(refusals >= 1.0, "{refusals}");
}

async fn create_task(raw: &Raw) -> Result<(), Status> {
    let task = v1::CreateTaskRequest { subject: "a task".to_owned(), ..Default::default() };
    raw.tasks().create_task(raw.request(task)).await.map(drop)
}

#[test]
fn a_writer_that_hammers_is_slowed_even_if_it_invents_credentials() {
    let world = World::configured("[rates]\nwrites_per_second = 5\nwrites_burst = 40\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let write_until_refused = async |credential: &dyn Fn(usize) -> String, expected: Option<Reason>| {
            for number in 0..1_000 {
                let raw = Raw { channel: raw.channel.clone(), credential: Some(credential(number)) };
                let outcome = create_task(&raw).await.err().map(|status| refused::<()>(Err(status)));
                if outcome.as_ref().map(|refusal| refusal.reason) != expected {
                    return outcome.unwrap();
                }
            }
            panic!("nothing is too fast");
        };
        names(&write_until_refused(&|_| bob.clone(), None).await, "rates.writes_per_second", "5");
        others_are_served(&world, &ann).await;
        // Over a connection of a member, each is looked up at its expense.
        let invented = |number: usize| format!("twm:acme:bob:{number:032}");
        let refusal = write_until_refused(&invented, Some(Reason::CredentialInvalid)).await;
        names(&refusal, "rates.writes_per_second", "5");
    });
}

#[test]
fn a_member_that_joins_again_gets_no_new_budget() {
    let world = World::configured(
        "[rates]\nwrites_per_second = 1\nwrites_burst = 30\nsessions_per_second = 1\nsessions_burst = 5\n",
    );
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let mut raw = Raw::at(&world.coordinator.address(), &bob);
        let stream = async |raw: &Raw| {
            let stream = v1::StreamRequest { instance_id: "bob".to_owned(), ..Default::default() };
            raw.messages().stream(raw.request(stream)).await
        };
        let began = Instant::now();
        let refilled = || began.elapsed().as_secs() + 1;
        stream(&raw).await.expect("a session");
        let mut lives = 0;
        let refusal = loop {
            match raw.teams().join(raw.request(v1::JoinRequest::default())).await {
                Ok(joined) => raw.credential = Some(joined.into_inner().credential),
                Err(status) => break refused::<()>(Err(status)),
            }
            lives += 1;
        };
        names(&refusal, "rates.sessions_per_second", "1");
        assert!((4..=5 + refilled()).contains(&lives), "{lives}");
        names(&refused(stream(&raw).await), "rates.sessions_per_second", "1");
        // Without what the former lives have used.
        let mut writes = 0;
        while create_task(&raw).await.is_ok() {
            writes += 1;
        }
        assert!(writes + lives <= 30 + refilled(), "{writes} writes, {lives} lives");
        others_are_served(&world, &ann).await;
    });
}

/// Has a member join again. Returns its new credential.
async fn join_again(raw: &Raw) -> String {
    let joined = raw.teams().join(raw.request(v1::JoinRequest::default())).await;
    joined.expect("a life").into_inner().credential
}

#[test]
fn a_former_life_does_not_use_up_the_rates_of_its_successor() {
    let world = World::configured("[rates]\nwrites_per_second = 1\nwrites_burst = 10\n");
    world.create_team("acme");
    let bob = world.join("bob");
    Runtime::new().unwrap().block_on(async {
        let address = world.coordinator.address();
        let (former, mut successor) = (Raw::at(&address, &bob), Raw::at(&address, &bob));
        create_task(&former).await.expect("its credential is valid");
        successor.credential = Some(join_again(&successor).await);
        create_task(&successor).await.expect("its first call");
        for _ in 0..20 {
            let refusal = refused(create_task(&former).await);
            assert!(matches!(refusal.reason, Reason::SessionSuperseded | Reason::RateLimited), "{refusal}");
        }
        for _ in 0..6 {
            create_task(&successor).await.expect("what the former life did is not its own");
        }
    });
}

#[test]
fn a_member_that_keeps_rejoining_holds_the_connections_of_only_two_lives() {
    let world = World::configured("[shares]\nconnections_per_credential_max = 3\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let mut raw = Raw::at(&world.coordinator.address(), &bob);
        let mut lives = Vec::new();
        for _ in 0..3 {
            let credential = raw.credential.clone().unwrap();
            let wires = [Wire::connect(&world).await, Wire::connect(&world).await];
            for wire in &wires {
                assert_eq!(wire.call(GET_TEAM, &credential).await.unwrap(), None);
            }
            lives.push((credential, wires));
            raw.credential = Some(join_again(&raw).await);
        }
        let first = lives.remove(0);
        for wire in first.1 {
            let _ = timeout(PATIENCE, wire.connection).await.expect("it is closed");
        }
        for (credential, wires) in &lives {
            for wire in wires {
                let refusal = wire.call(GET_TEAM, credential).await.unwrap().expect("its life is over");
                assert_eq!(refusal.reason, Reason::SessionSuperseded);
            }
        }
        // The connection that has shown the credentials of all lives counts for the newest one.
        create_task(&raw).await.expect("it stays open");
        others_are_served(&world, &ann).await;
    });
}

#[test]
fn a_caller_that_repeats_refused_calls_without_a_pause_waits_for_each_answer() {
    let world = World::configured("[rates]\nrefusals_per_second = 2\nrefusals_burst = 3\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let raw = Raw::at(&world.coordinator.address(), &bob);
        let be_refused = async || {
            let began = Instant::now();
            let observer = raw.teams().create_observer(raw.request(v1::CreateObserverRequest::default())).await;
            assert_eq!(refused(observer).reason, Reason::LeadOnly);
            began.elapsed()
        };
        for _ in 0..3 {
            be_refused().await;
        }
        // One came back while those three were answered, at most, so one of these waits for half a second.
        let waits = [be_refused().await, be_refused().await];
        assert!(waits.iter().any(|wait| *wait >= Duration::from_millis(300)), "{waits:?}");
        others_are_served(&world, &ann).await;
        raw.send(message::direct("ann", "hello", "hello").body).await.expect("it may still do what it is allowed to");
    });
}

#[test]
fn an_address_guesses_credentials_slowly_and_its_members_get_in_all_the_same() {
    let world = World::configured("[shares]\nreads_per_credential_max = 1\n");
    world.create_team("acme");
    let ann = world.join("ann");
    Runtime::new().unwrap().block_on(async {
        let wires = [Wire::connect(&world).await, Wire::connect(&world).await, Wire::connect(&world).await];
        let began = Instant::now();
        let (_, secret) = ann.rsplit_once(':').unwrap();
        let guesses = ["acme", "none"].map(|team| format!("twm:{team}:ann:{}", secret.replace(char::is_numeric, "x")));
        let calls = wires.iter().flat_map(|wire| (0..10).map(move |at| (wire, at)));
        let all = futures::future::join_all(calls.map(|(wire, at)| {
            let guess = &guesses[at % 2];
            async move { wire.call(GET_TEAM, guess).await.unwrap().expect("a refusal").reason }
        }));
        let (refused, ()) = tokio::join!(all, async { others_are_served(&world, &ann).await });
        assert!(refused.iter().all(|reason| *reason == refused[0]), "{refused:?}");
        assert!(began.elapsed() >= Duration::from_millis(30 * 20), "30 guesses took {:?}", began.elapsed());
    });
}

#[test]
fn connections_are_bounded_per_credential_and_closing_one_makes_room() {
    let world = World::configured(
        "log = \"debug\"\n[network]\nauthentication_timeout = \"1s\"\n[shares]\nconnections_per_credential_max = 3\n",
    );
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let mut wires = Vec::new();
        for _ in 0..3 {
            let wire = Wire::connect(&world).await;
            assert_eq!(wire.call(GET_TEAM, &ann).await.unwrap(), None);
            wires.push(wire);
        }
        let further = Wire::connect(&world).await;
        let refusal = further.call(GET_TEAM, &ann).await.unwrap().expect("a refusal");
        names(&refusal, "shares.connections_per_credential_max", "3");
        others_are_served(&world, &bob).await;
        // A connection that never gets a place is closed as a stranger's.
        let _ = timeout(PATIENCE, further.connection).await.expect("it is closed");
        for wire in &wires {
            assert_eq!(wire.call(GET_TEAM, &ann).await.unwrap(), None);
        }
        drop(wires.pop());
        let began = Instant::now();
        loop {
            let wire = Wire::connect(&world).await;
            if wire.call(GET_TEAM, &ann).await.unwrap().is_none() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "a closed connection makes no room");
        }
    });
}

#[test]
fn members_that_hold_all_their_connections_do_not_lock_out_the_lead_and_the_operator() {
    let world = World::configured("[network]\nconnections_max = 20\nreserved_percent = 20\n");
    world.create_team("acme");
    let (ann, bob, eve) = (world.join("ann"), world.join("bob"), world.join("eve"));
    Runtime::new().unwrap().block_on(async {
        let mut wires = Vec::new();
        let refusal = loop {
            let wire = Wire::connect(&world).await;
            let refusal = wire.call(GET_TEAM, [&ann, &bob][wires.len() % 2]).await.unwrap();
            wires.push(wire);
            assert!(wires.len() < 20, "members take every place");
            if let Some(refusal) = refusal {
                break refusal;
            }
        };
        assert_eq!(wires.len(), 17, "4 of 20 places are not for members");
        names(&refusal, "network.connections_max", "20");
        let late = Wire::connect(&world).await;
        names(&late.call(GET_TEAM, &eve).await.unwrap().unwrap(), "network.connections_max", "20");
        for privileged in [world.credential(LEAD), world.operator()] {
            let wire = Wire::connect(&world).await;
            let refusal = wire.call("/teamwire.v1.TeamService/ListTeams", &privileged).await.unwrap();
            assert_eq!(refusal, None);
            wires.push(wire);
        }
    });
}

/// Connects from another address of this machine.
async fn from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

#[test]
fn strangers_at_one_address_give_up_their_places_and_block_no_one_else() {
    let world = World::configured("log = \"debug\"\n[network]\nconnections_max = 60\nstrangers_per_address_max = 20\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    let at = world.coordinator.socket();
    Runtime::new().unwrap().block_on(async {
        let established = Wire::connect(&world).await;
        assert_eq!(established.call(GET_TEAM, &bob).await.unwrap(), None);
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(from("127.0.0.2", at).await);
        }
        others_are_served(&world, &ann).await;
        // A newcomer of the same address takes the place of the oldest one there.
        let newcomer = Wire::on(from("127.0.0.2", at).await, 65_535).await.unwrap();
        assert_eq!(newcomer.call(GET_TEAM, &bob).await.unwrap(), None);
        for mut stream in silent.drain(..200) {
            let closed = timeout(Duration::from_secs(4), stream.read_to_end(&mut Vec::new())).await;
            let _ = closed.expect("it is closed before its time is over");
        }
        // Others fill all places; then the largest crowd makes way.
        let mut crowds = Vec::new();
        for address in ["127.0.0.3", "127.0.0.4", "127.0.0.5"] {
            for _ in 0..30 {
                crowds.push(from(address, at).await);
            }
        }
        others_are_served(&world, &ann).await;
        assert_eq!(established.call(GET_TEAM, &bob).await.unwrap(), None, "on its old connection");
    });
    assert!(world.coordinator.metric("teamwire_budget_refusals_total{budget=\"strangers\"}") >= 280.0);
}

#[cfg(target_os = "linux")]
#[test]
fn strangers_with_incomplete_large_requests_hold_bounded_memory_and_block_no_member() {
    let world = World::configured("[network]\nauthentication_timeout = \"1m\"\nrequest_timeout = \"1m\"\n");
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    let at = world.coordinator.socket();
    Runtime::new().unwrap().block_on(async {
        let before = memory_peak(&world);
        let large = Bytes::from(vec![b'x'; 200 << 10]);
        let (mut wires, mut answers, mut bodies) = (Vec::new(), JoinSet::new(), Vec::new());
        for _ in 0..40 {
            let wire = Wire::on(from("127.0.0.2", at).await, 65_535).await.unwrap();
            for _ in 0..64 {
                let (answer, body) = wire.begin_large(SEND, "twm:acme:bob:0123456789abcdef", &large).await.unwrap();
                answers.spawn(answer);
                bodies.push(body);
            }
            wires.push(wire);
        }
        // Requests of 500 MiB; most of them wait for room, and are refused.
        for _ in 0..100 {
            let answer = timeout(PATIENCE, answers.join_next()).await.expect("an answer").unwrap();
            let refusal = refusal_of(&answer.unwrap().unwrap()).expect("a refusal");
            names(&refusal, "shares.request_bytes_per_credential_max", &(8 << 20).to_string());
        }
        let grown = memory_peak(&world).saturating_sub(before);
        assert!(grown < 64 << 20, "{} MiB", grown >> 20);
        others_are_served(&world, &ann).await;
        let raw = Raw::at(&world.coordinator.address(), &bob);
        raw.send(message::direct("ann", "large", "x".repeat(60 << 10)).body)
            .await
            .expect("members have their own room");
        answers.abort_all();
    });
}

#[test]
fn a_member_with_incomplete_large_requests_blocks_only_itself() {
    let world = World::configured(
        "[network]\nrequest_timeout = \"1m\"\n[shares]\nrequest_bytes_per_credential_max = \"1MiB\"\nrequest_bytes_max = \"2MiB\"\n",
    );
    world.create_team("acme");
    let (ann, bob) = (world.join("ann"), world.join("bob"));
    Runtime::new().unwrap().block_on(async {
        let large = Bytes::from(vec![b'x'; 200 << 10]);
        let wire = Wire::connect(&world).await;
        assert_eq!(wire.call(GET_TEAM, &bob).await.unwrap(), None);
        let mut begun = Vec::new();
        for _ in 0..10 {
            begun.push(wire.begin_large(SEND, &bob, &large).await.unwrap());
        }
        let (refused, _) = begun.pop().unwrap();
        let refusal = refusal_of(&timeout(PATIENCE, refused).await.expect("an answer").unwrap()).expect("a refusal");
        names(&refusal, "shares.request_bytes_per_credential_max", &(1 << 20).to_string());
        let text = "x".repeat(60 << 10);
        let other = Raw::at(&world.coordinator.address(), &ann);
        other.send(message::direct("bob", "large", &text).body).await.expect("the other half is for others");
        others_are_served(&world, &ann).await;
        drop((begun, wire));
        let raw = Raw::at(&world.coordinator.address(), &bob);
        raw.send(message::direct("ann", "large", &text).body).await.expect("there is room again");
    });
}
