//! The coordinator's edge: clients that say nothing, too much, or the same thing all the time, on raw connections.

use std::{fs, net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use http::{Response, StatusCode};
use teamwire_client::message;
use teamwire_proto::v1::{self, RequestState, request_service_client::RequestServiceClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
    task::JoinHandle,
    time::timeout,
};
use tonic::Code;

use crate::{
    raw::{Raw, refused},
    world::{LEAD, PATIENCE, World, eventually},
};

/// A call that needs the operator's credential.
const LIST_TEAMS: &str = "/teamwire.v1.TeamService/ListTeams";

/// A call that anybody may make.
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// What proves nothing.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// What is logged of a connection that nobody known has used.
const UNKNOWN: &str = "closed: no call presented a valid credential in time";

/// An HTTP/2 connection that never reconnects.
struct Wire {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl Wire {
    async fn connect(world: &World) -> Self {
        Self::connect_to(world.coordinator.socket()).await
    }

    async fn connect_to(coordinator: SocketAddr) -> Self {
        let stream = TcpStream::connect(coordinator).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        Self { requests, connection: tokio::spawn(connection) }
    }

    /// Connects, and shows the operator's credential.
    async fn known(world: &World) -> Self {
        let mut wire = Self::connect(world).await;
        assert_eq!(wire.call(LIST_TEAMS, &world.operator()).await.unwrap(), None);
        wire
    }

    /// Starts a call, and leaves it open for more to come.
    async fn open(
        &mut self,
        path: &str,
        credential: &str,
        more: usize,
    ) -> Result<h2::client::ResponseFuture, h2::Error> {
        let (answer, mut body) =
            self.requests.clone().ready().await?.send_request(request(path, credential, more), false)?;
        // As an application would keep it.
        tokio::spawn(async move { std::future::poll_fn(|context| body.poll_reset(context)).await });
        Ok(answer)
    }

    /// Calls with an empty message. Returns the gRPC status of a refusal.
    async fn call(&mut self, path: &str, credential: &str) -> Result<Option<String>, h2::Error> {
        self.call_with(path, credential, 0).await
    }

    /// Calls with so many bytes of headers that mean nothing.
    async fn call_with(&mut self, path: &str, credential: &str, more: usize) -> Result<Option<String>, h2::Error> {
        let (answer, mut body) =
            self.requests.clone().ready().await?.send_request(request(path, credential, more), false)?;
        // An empty message: not compressed, no bytes.
        body.send_data(Bytes::from_static(&[0; 5]), true)?;
        let answer: Response<RecvStream> = answer.await?;
        assert_eq!(answer.status(), StatusCode::OK);
        Ok(answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned()))
    }

    /// Waits until the coordinator has closed the connection.
    async fn closed(self) -> Result<(), h2::Error> {
        timeout(PATIENCE, self.connection).await.expect("it is closed").unwrap()
    }
}

/// `more`: how many bytes of headers that mean nothing.
fn request(path: &str, credential: &str, more: usize) -> http::Request<()> {
    let request = http::Request::post(format!("http://coordinator{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {credential}"));
    let request = if more > 0 { request.header("x-more", "x".repeat(more)) } else { request };
    request.body(()).unwrap()
}

/// Waits until the coordinator has closed a connection on which nothing was said.
async fn hung_up(mut stream: TcpStream) {
    // The coordinator may have greeted first, and cut off in the middle of it.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("it is closed");
}

#[test]
fn only_connections_without_a_credential_are_closed() {
    let world = World::configured("log = \"debug\"\n[network]\nauthentication_timeout = \"2s\"\n");
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let mut known = Wire::known(&world).await;

        let silent = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        let polite = Wire::connect(&world).await;
        let mut slow = Wire::connect(&world).await;
        let unanswered = slow.open(LIST_TEAMS, &operator, 0).await.unwrap();
        let mut forger = Wire::connect(&world).await;
        assert_eq!(
            forger.call(LIST_TEAMS, "two:0123456789abcdef0123456789abcdef").await.unwrap().as_deref(),
            Some("16")
        );
        let mut passer_by = Wire::connect(&world).await;
        assert_eq!(passer_by.call(CHECK, "").await.unwrap(), None);

        timeout(PATIENCE, unanswered).await.unwrap().expect_err("the call was never whole");
        hung_up(silent).await;
        for wire in [polite, slow, forger, passer_by] {
            let _ = wire.closed().await;
        }
        assert_eq!(known.call(LIST_TEAMS, &operator).await.unwrap(), None, "on its old connection");
    });
    world.coordinator.await_log(UNKNOWN, 5);
}

#[test]
fn a_stranger_remains_a_stranger_whatever_it_calls() {
    let world = World::configured("log = \"debug\"\n[network]\nauthentication_timeout = \"2s\"\n");
    world.create_team("acme");
    // Each was refused for something else once, before anybody had looked at the secret.
    let calls = [
        ("/teamwire.v1.TeamService/GetTeam", "twj:acme:0123"),
        ("/teamwire.v1.TeamService/GetTeam", "twj:nosuch:0123"),
        ("/teamwire.v1.TeamService/GetTeam", "two"),
        ("/teamwire.v1.TeamService/CreateTeam", "twm:acme:lead"),
        ("/teamwire.v1.TeamService/CreateTeam", "twv:acme:0123"),
        ("/teamwire.v1.MessageService/Stream", "two"),
        ("/teamwire.v1.MessageService/Stream", "twv:acme:0123"),
        ("/teamwire.v1.MessageService/GetMessage", "twm:acme:lead"),
        ("/teamwire.v1.TaskService/ClaimNextTask", "two"),
    ];
    Runtime::new().unwrap().block_on(async {
        let mut strangers = Vec::new();
        for (path, front) in calls {
            let mut stranger = Wire::connect(&world).await;
            let status = stranger.call(path, &format!("{front}:{SECRET}")).await.unwrap();
            assert_eq!(status.as_deref(), Some("16"), "{path} by {front}");
            strangers.push(stranger);
        }
        for stranger in strangers {
            let _ = stranger.closed().await;
        }
    });
    world.coordinator.await_log(UNKNOWN, calls.len());
}

#[test]
fn a_call_with_two_credentials_is_unauthenticated() {
    let world = World::embedded();
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let wire = Wire::known(&world).await;
        let mut twice = request(LIST_TEAMS, &operator, 0);
        twice.headers_mut().append("authorization", format!("Bearer {operator}").parse().unwrap());
        let (answer, mut body) = wire.requests.clone().ready().await.unwrap().send_request(twice, false).unwrap();
        body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
        assert_eq!(answer.await.unwrap().headers().get("grpc-status").unwrap(), "16");
    });
}

#[test]
fn an_undecodable_request_is_refused_with_a_reason_and_the_connection_stays_open() {
    let world = World::embedded();
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let wire = Wire::known(&world).await;
        let (answer, mut body) = wire
            .requests
            .clone()
            .ready()
            .await
            .unwrap()
            .send_request(request(LIST_TEAMS, &operator, 0), false)
            .unwrap();
        // A page token that is not UTF-8.
        body.send_data(Bytes::from_static(&[0, 0, 0, 0, 3, 0x12, 1, 0xff]), true).unwrap();
        let answer = answer.await.unwrap();
        let status = tonic::Status::from_header_map(answer.headers()).unwrap();
        refused(Err(status), Code::InvalidArgument, "INVALID_FIELD", "");
        let mut wire = wire;
        assert_eq!(wire.call(LIST_TEAMS, &operator).await.unwrap(), None, "the connection stays open");
    });
}

#[test]
fn a_first_call_may_take_longer_than_the_authentication_timeout() {
    let world = World::configured("log = \"debug\"\n[network]\nauthentication_timeout = \"1s\"\n");
    world.create_team("acme");
    world.join("bob");
    let plan = world.cli("bob", &["plan", "submit", "a plan", "--json"]).succeeds().json();
    let lead = world.credential(LEAD);
    Runtime::new().unwrap().block_on(async {
        let caller = Raw::at(&world.coordinator.address(), &lead);
        let request = v1::WaitForDecisionRequest {
            request_id: plan["request_id"].as_str().unwrap().to_owned(),
            timeout: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
            ..v1::WaitForDecisionRequest::default()
        };
        let mut requests = RequestServiceClient::new(caller.channel.clone());
        let waited = requests.wait_for_decision(caller.request(request)).await.expect("the first call of a connection");
        assert_eq!(waited.into_inner().request.unwrap().state(), RequestState::Pending);
    });
    assert!(!world.coordinator.log().contains(UNKNOWN), "{}", world.coordinator.log());
}

#[test]
fn an_excess_connection_is_closed_at_once_and_a_freed_place_is_reused() {
    let world = World::configured("log = \"debug\"\n[network]\nconnections_max = 3\n");
    Runtime::new().unwrap().block_on(async {
        let mut known = Vec::new();
        for _ in 0..3 {
            known.push(Wire::known(&world).await);
        }
        hung_up(TcpStream::connect(world.coordinator.socket()).await.unwrap()).await;
        world.coordinator.await_log("too many connections are open", 1);
        for wire in &mut known {
            assert_eq!(wire.call(LIST_TEAMS, &world.operator()).await.unwrap(), None);
        }

        known.pop().unwrap().connection.abort();
        await_place(&world).await;
    });
}

#[test]
fn a_coordinator_raises_its_open_file_limit_as_its_connections_require_or_allows_fewer() {
    let world = World::embedded();
    for (limit, is_enough, others) in
        [("ulimit -S -n 48", true, 100), ("ulimit -n 48", false, 10), ("ulimit -n 256", false, 400)]
    {
        let home = world.home(limit);
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let serve = format!("{limit}; exec \"$0\" serve --listen {address} --store memory:");
        let coordinator = world.spawn_shell(limit, &serve);
        eventually("it serves", || fs::metadata(home.join("state/address")).ok());
        Runtime::new().unwrap().block_on(async {
            let mut traffic = Vec::new();
            for _ in 0..others {
                traffic.push(TcpStream::connect(address).await.unwrap());
            }
            // Taken after all of them.
            assert_eq!(Wire::connect_to(address).await.call(CHECK, SECRET).await.unwrap(), None);
        });
        let ended = coordinator.terminate().succeeds();
        assert!(!ended.stderr.contains("no connection can be accepted"), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("raise its hard limit"), !is_enough, "{}", ended.stderr);
    }
}

/// Waits until the coordinator takes a connection.
async fn await_place(world: &World) {
    let began = tokio::time::Instant::now();
    loop {
        let stream = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        // Refused until the coordinator has seen that one has gone.
        if let Ok((requests, connection)) = h2::client::handshake(stream).await {
            let mut wire = Wire { requests, connection: tokio::spawn(connection) };
            if wire.call(LIST_TEAMS, &world.operator()).await.is_ok() {
                return;
            }
        }
        assert!(began.elapsed() < PATIENCE, "no place was given again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_client_that_answers_no_pings_loses_its_place() {
    let world =
        World::configured("[network]\nconnections_max = 1\nkeepalive_interval = \"1s\"\nkeepalive_timeout = \"1s\"\n");
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let stream = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        let (mut requests, mut connection) = h2::client::handshake(stream).await.unwrap();
        let answer = async {
            let (answer, mut body) = requests.send_request(request(LIST_TEAMS, &operator, 0), false).unwrap();
            body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
            answer.await.unwrap()
        };
        tokio::select! {
            ended = &mut connection => panic!("{ended:?}"),
            answer = answer => assert_eq!(answer.status(), StatusCode::OK),
        }
        // The connection is open, and nobody reads from it any more.
        await_place(&world).await;
        drop(connection);
    });
}

#[test]
fn a_stopping_coordinator_waits_a_bounded_time_for_open_calls_and_closes_cleanly() {
    let mut world = World::configured("[drain]\ngrace = \"1s\"\nhard_stop = \"2s\"\n");
    world.coordinator.may_complain_of("calls were still open at the end of the grace");
    let operator = world.operator();
    let runtime = Runtime::new().unwrap();
    let wire = runtime.block_on(async {
        let mut wire = Wire::known(&world).await;
        let answer = wire.open(LIST_TEAMS, &operator, 0).await.unwrap();
        // Seen by the coordinator, since frames stay in order.
        assert_eq!(wire.call(LIST_TEAMS, &operator).await.unwrap(), None);
        (wire, answer)
    });
    world.coordinator.end();
    world.coordinator.await_log("calls were still open", 1);
    drop(wire);
    world.coordinator.restart();
    assert!(!world.coordinator.log().contains("not closed cleanly"), "{}", world.coordinator.log());
}

#[test]
fn headers_over_the_bound_are_refused_and_the_connection_goes_on() {
    for (configuration, kib) in [("", 16), ("[network]\nheader_bytes_max = \"4KiB\"\n", 4)] {
        let world = World::configured(configuration);
        let operator = world.operator();
        Runtime::new().unwrap().block_on(async {
            let mut wire = Wire::known(&world).await;
            let answer = wire.open(LIST_TEAMS, &operator, kib * 1_024).await.unwrap();
            assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap().status(), 431);
            let below = wire.call_with(LIST_TEAMS, &operator, (kib - 1) * 1_024).await;
            assert_eq!(below.unwrap(), None);
        });
    }
}

/// Returns whether the coordinator has closed the connection for too many resets. Who is still writing then may not
/// come to read that.
fn is_enhance_your_calm(error: &h2::Error) -> bool {
    error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM) || error.is_io()
}

#[test]
fn calls_that_break_the_protocol_again_and_again_close_their_connection_only() {
    let world = World::configured("[network]\nerror_resets_max = 10\n");
    world.coordinator.may_complain_of("locally-reset streams reached limit");
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let mut other = Wire::known(&world).await;
        let wire = Wire::known(&world).await;
        let mut broken = 0;
        let error = loop {
            let (answer, mut body) = match wire.requests.clone().ready().await {
                Ok(mut requests) => {
                    let mut request = request(LIST_TEAMS, &operator, 0);
                    request.headers_mut().insert("content-length", "1".parse().unwrap());
                    requests.send_request(request, false).unwrap()
                }
                Err(error) => break error,
            };
            // More than was said.
            let _ = body.send_data(Bytes::from_static(&[0; 5]), true);
            timeout(PATIENCE, answer).await.unwrap().expect_err("the call is reset");
            broken += 1;
            assert!(broken < 100, "nothing stops it");
        };
        assert!(is_enhance_your_calm(&error), "{error}");
        assert!(broken >= 10, "{broken}");
        world.coordinator.await_log("locally-reset streams reached limit", 1);
        assert_eq!(other.call(LIST_TEAMS, &operator).await.unwrap(), None);
    });
}

#[test]
fn a_request_over_the_bound_is_refused_with_a_reason() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("bob");
    let lead = world.credential(LEAD);
    Runtime::new().unwrap().block_on(async {
        let caller = Raw::at(&world.coordinator.address(), &lead);
        let send = |bytes: usize| caller.send(message::direct("bob", "large", "x".repeat(bytes)).body);
        send(64 * 1_024).await.unwrap();
        refused(send(64 * 1_024 + 1).await, Code::InvalidArgument, "CONTENT_TOO_LARGE", "content");
        let status = refused(send(256 * 1_024).await, Code::InvalidArgument, "CONTENT_TOO_LARGE", "");
        assert!(status.message().contains("262144"), "{status}");
    });
    assert_eq!(world.take_inbox("bob").len(), 1);
}

#[test]
fn an_incomplete_request_is_ended_and_its_connection_stays_open() {
    let world = World::configured("[network]\nrequest_timeout = \"500ms\"\n");
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let mut wire = Wire::known(&world).await;
        let answer = wire.open(LIST_TEAMS, &operator, 0).await.unwrap();
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        assert_eq!(answer.headers().get("grpc-status").unwrap(), "4", "{answer:?}");
        assert_eq!(wire.call(LIST_TEAMS, &operator).await.unwrap(), None);
    });
}

#[test]
fn a_flood_of_calls_that_are_cancelled_at_once_closes_the_floods_connection_only() {
    let world = World::embedded();
    world.coordinator.may_complain_of("remotely-reset pending-accept streams reached limit");
    let operator = world.operator();
    Runtime::new().unwrap().block_on(async {
        let mut other = Wire::known(&world).await;
        let flood = Wire::known(&world).await;
        let (mut requests, path) = (flood.requests.clone(), operator.clone());
        let flooding = tokio::spawn(async move {
            loop {
                // As many as there may be at once, so that they come together.
                for _ in 0..60 {
                    requests = requests.ready().await?;
                    let (_, mut body) = requests.send_request(request(LIST_TEAMS, &path, 0), false)?;
                    body.send_reset(h2::Reason::CANCEL);
                }
                tokio::task::yield_now().await;
            }
            #[allow(unreachable_code)]
            Ok::<(), h2::Error>(())
        });
        while !flooding.is_finished() {
            assert_eq!(timeout(PATIENCE, other.call(LIST_TEAMS, &operator)).await.unwrap().unwrap(), None);
        }
        let error = flooding.await.unwrap().expect_err("it is stopped");
        assert!(is_enhance_your_calm(&error), "{error}");
        world.coordinator.await_log("remotely-reset pending-accept streams reached limit", 1);
        assert_eq!(other.call(LIST_TEAMS, &operator).await.unwrap(), None);
    });
}

#[test]
fn a_stranger_cannot_keep_a_member_alive_by_calling_in_its_name() {
    let world = World::configured(
        "[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"\n[delivery]\nheartbeat_interval = \"5s\"\n",
    );
    world.create_team("acme");
    world.join("ann");
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    // Over a connection that is known: there only the rules look who calls.
    let known = Raw::at(&world.coordinator.address(), &world.operator());
    let forged = Raw { channel: known.channel.clone(), credential: Some(format!("twm:acme:ann:{SECRET}")) };
    let forger = runtime.spawn(async move {
        known.teams().list_teams(known.request(v1::ListTeamsRequest::default())).await.unwrap();
        let mut requests = RequestServiceClient::new(forged.channel.clone());
        let mut tasks = forged.tasks();
        loop {
            for wait in [None, Some(prost_types::Duration { seconds: 1, nanos: 0 })] {
                let request = v1::ClaimNextTaskRequest { wait, ..v1::ClaimNextTaskRequest::default() };
                let claimed = tasks.claim_next_task(forged.request(request)).await;
                assert!(claimed.is_err_and(|status| status.code() == Code::Unauthenticated));
            }
            let request_id = "req_00000000000000000000000000".to_owned();
            let request = v1::WaitForDecisionRequest { request_id, ..v1::WaitForDecisionRequest::default() };
            let waited = requests.wait_for_decision(forged.request(request)).await;
            assert!(waited.is_err_and(|status| status.code() == Code::Unauthenticated));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    eventually("ann's lease runs out", || (world.member("ann")["state"] == "away").then_some(()));
    assert!(!forger.is_finished(), "the stranger has called all the while");
    forger.abort();
}

#[test]
fn idle_connections_to_health_checks_and_metrics_are_cut_off_and_block_no_one() {
    let world = World::configured("health = \"127.0.0.1:0\"\nlog = \"debug\"\n");
    let health = world.coordinator.health_address();
    let runtime = Runtime::new().unwrap();
    let mut silent = Vec::new();
    for address in [&health, &world.coordinator.metrics_address()] {
        for _ in 0..100 {
            let mut stream = runtime.block_on(TcpStream::connect(address)).unwrap();
            // A request that never ends.
            runtime.block_on(stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:")).unwrap();
            silent.push(stream);
        }
    }
    // Newcomers get in at once: the oldest of the idle ones make way.
    assert_eq!(world.coordinator.metric("teamwire_store_up"), 1.0);
    for address in [format!("http://{health}"), world.coordinator.address()] {
        world.cli("prober", &["health", "--address", &address]).succeeds();
    }
    assert!(world.coordinator.log().contains("closed: too many connections are open"));
    // The others are closed in time.
    for stream in silent {
        runtime.block_on(hung_up(stream));
    }
}
