//! The console, as browsers reach it: the page's files, signing in over gRPC-web, and what ends a sign-in.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use teamwire_proto::v1::{
    self, access_service_client::AccessServiceClient, send_request::Body, watch_service_client::WatchServiceClient,
};
use tokio::{runtime::Runtime, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};
use tonic::{Code, Status, Streaming};

use crate::{
    raw::{Raw, end_of, refused},
    world::{LEAD, PATIENCE, ScriptedHost, World, eventually, offer},
};

scenarios! {
    a_person_signs_in_with_a_code_and_acts_as_the_member,
    a_revoked_sign_in_ends_its_streams,
    a_members_exit_ends_its_sign_in,
}

redis_scenarios! {
    a_sign_in_is_ended_through_another_coordinator,
}

/// Where connections are kept, since some outlive the call that opens them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The answer to an HTTP request.
pub(crate) struct Answer {
    pub status: u16,
    /// The status line and the headers, in lower case.
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim())
    }
}

/// Sends a request over HTTP/1.1, and reads the answer to the end of the connection.
fn ask(at: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let mut request = format!("{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    parse(&reply)
}

/// Reads an answer that is complete.
pub(crate) fn parse(reply: &[u8]) -> Answer {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&reply[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = &reply[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_vec() };
    Answer { status, head, body }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[(end + 2 + length + 2).min(body.len())..];
    }
    whole
}

fn get(world: &World, path: &str, headers: &str) -> Answer {
    ask(world.coordinator.socket(), &format!("GET {path} HTTP/1.1\r\nhost: localhost{headers}"), b"")
}

/// Calls by gRPC-web, as the page does. Returns the reply's message, or the gRPC status and its text.
fn call<A: Message + Default>(
    world: &World,
    method: &str,
    credential: &str,
    request: &impl Message,
) -> Result<A, (u32, String)> {
    let host = world.coordinator.socket();
    let head = format!(
        "POST /teamwire.v1.{method} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: \
         application/grpc-web+proto\r\nx-grpc-web: 1\r\nauthorization: Bearer {credential}"
    );
    let message = request.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&message);
    let answer = ask(host, &head, &frame);
    assert_eq!(answer.status, 200, "{}", answer.head);
    let mut message = None;
    let mut trailers = answer.head.clone();
    let mut rest = answer.body.as_slice();
    while let Some((flag, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk::<4>().unwrap();
        let (part, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        match flag {
            0 => message = Some(A::decode(part).unwrap()),
            _ => trailers = String::from_utf8_lossy(part).to_lowercase(),
        }
        rest = after;
    }
    let field = |name: &str| {
        let lines = trailers.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    match field("grpc-status").expect("a status").parse().unwrap() {
        0 => Ok(message.expect("a message")),
        code => Err((code, field("grpc-message").unwrap_or_default())),
    }
}

/// Creates a code as a user, at the command line.
fn code(world: &World, identity: &str, more: &[&str]) -> String {
    let arguments: Vec<&str> = ["console", "--no-open", "--json"].iter().chain(more).copied().collect();
    let printed = world.cli(identity, &arguments).succeeds().json();
    assert_eq!(printed["opened"], Value::Bool(false));
    assert_eq!(printed["address"], format!("{}/", world.coordinator.address()));
    printed["code"].as_str().unwrap().to_owned()
}

/// Signs in as a page does. Returns the console credential.
fn sign_in(world: &World, identity: &str, more: &[&str]) -> String {
    let code = code(world, identity, more);
    let signed_in: v1::SignInResponse =
        call(world, "AccessService/SignIn", &code, &v1::SignInRequest::default()).unwrap();
    signed_in.credential
}

fn caller(world: &World, credential: &str) -> Result<v1::Caller, (u32, String)> {
    let reply: v1::GetCallerResponse = call(world, "AccessService/GetCaller", credential, &v1::GetCallerRequest {})?;
    Ok(reply.caller.unwrap())
}

fn raw(address: &str, credential: &str) -> Raw {
    let _entered = RUNTIME.enter();
    Raw::at(address, credential)
}

impl Raw {
    fn access(&self) -> AccessServiceClient<tonic::transport::Channel> {
        AccessServiceClient::new(self.channel.clone())
    }

    async fn revoke(&self, team: &str, id: &str) -> Result<(), Status> {
        let request = v1::RevokeCredentialRequest { team: team.to_owned(), id: id.to_owned() };
        self.access().revoke_credential(self.request(request)).await.map(drop)
    }

    /// Opens a watch of a team, and reads its snapshot.
    async fn watching(&self, team: &str) -> Streaming<v1::WatchTeamResponse> {
        let request = v1::WatchTeamRequest { team: team.to_owned(), ..Default::default() };
        let mut watches = WatchServiceClient::new(self.channel.clone());
        let mut frames = watches.watch_team(self.request(request)).await.unwrap().into_inner();
        while !frames.message().await.unwrap().unwrap().caught_up {}
        frames
    }
}

/// The id of a console credential.
fn id_of(credential: &str) -> &str {
    credential.rsplit(':').nth(1).unwrap()
}

fn a_person_signs_in_with_a_code_and_acts_as_the_member(world: World) {
    world.create_team("acme");
    let bob = world.run("bob", &[], "cat >/dev/null").ready();
    let code = code(&world, LEAD, &[]);
    let signed_in: v1::SignInResponse =
        call(&world, "AccessService/SignIn", &code, &v1::SignInRequest::default()).unwrap();
    let credential = signed_in.credential;
    assert!(credential.starts_with("twc:acme:"), "{credential}");
    let who = caller(&world, &credential).unwrap();
    assert_eq!((who.member.as_str(), who.is_lead, who.read_only), ("lead", true, false));
    assert_eq!(who.server_version, env!("CARGO_PKG_VERSION"));
    let body = v1::DirectMessage {
        recipient: "bob".to_owned(),
        summary: "word".to_owned(),
        content: "from the page".to_owned(),
    };
    let request = v1::SendRequest { body: Some(Body::Message(body)), ..Default::default() };
    let _: v1::SendResponse = call(&world, "MessageService/Send", &credential, &request).unwrap();
    eventually("the receipt", || {
        world.history(LEAD).iter().any(|entry| entry.to_string().contains("from the page")).then_some(())
    });

    // The code is good once.
    let again = call::<v1::SignInResponse>(&world, "AccessService/SignIn", &code, &v1::SignInRequest::default());
    let (status, text) = again.unwrap_err();
    assert!(status == 16 && text.contains("used"), "{status} {text}");
    let forged = code.replace("twk:", "twc:");
    assert_eq!(caller(&world, &forged).unwrap_err().0, 16);

    // The operator sees every team.
    let operator = sign_in(&world, LEAD, &["--as", "operator"]);
    assert_eq!(caller(&world, &operator).unwrap().kind(), v1::CallerKind::Operator);
    let teams: v1::ListTeamsResponse =
        call(&world, "TeamService/ListTeams", &operator, &v1::ListTeamsRequest::default()).unwrap();
    assert_eq!(teams.teams.len(), 1);
    let history = world.cli(LEAD, &["history"]).succeeds().stdout;
    assert!(history.contains("lead signed in to the console"), "{history}");
    drop(bob);
}

fn a_revoked_sign_in_ends_its_streams(world: World) {
    world.create_team("acme");
    let member = sign_in(&world, LEAD, &["--read-only"]);
    let operator = sign_in(&world, LEAD, &["--as", "operator"]);
    let address = world.coordinator.address();
    RUNTIME.block_on(async {
        let (of_member, of_operator) = (raw(&address, &member), raw(&address, &operator));
        let watches = [of_member.watching("").await, of_operator.watching("acme").await];
        let waits = v1::ListActivityRequest {
            member: LEAD.to_owned(),
            wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            ..Default::default()
        };
        let waiting = raw(&address, &member);
        let waiting =
            tokio::spawn(async move { waiting.teams().list_activity(waiting.request(waits)).await.map(drop) });
        // The one signs out, and the lead's own credential ends the other.
        raw(&address, &world.operator()).revoke("", id_of(&operator)).await.unwrap();
        of_member.revoke("", id_of(&member)).await.unwrap();
        for frames in watches {
            refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        }
        let waited = timeout(PATIENCE, waiting).await.expect("it does not wait any longer").unwrap();
        refused(waited, Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
        let later = of_member.teams().get_team(of_member.request(v1::GetTeamRequest::default())).await.map(drop);
        refused(later, Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
}

fn a_members_exit_ends_its_sign_in(world: World) {
    world.create_team("acme");
    world.join("bob");
    let credential = sign_in(&world, "bob", &[]);
    let address = world.coordinator.address();
    RUNTIME.block_on(async {
        let frames = raw(&address, &credential).watching("").await;
        world.cli("bob", &["leave"]).succeeds();
        refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
}

fn a_sign_in_is_ended_through_another_coordinator(world: World) {
    world.create_team("acme");
    let other = world.another_coordinator();
    let credential = sign_in(&world, LEAD, &[]);
    RUNTIME.block_on(async {
        let frames = raw(&world.coordinator.address(), &credential).watching("").await;
        raw(&other.address(), &credential).revoke("", id_of(&credential)).await.unwrap();
        refused(Err(end_of(frames).await), Code::Unauthenticated, "CREDENTIAL_REVOKED", "");
    });
}

/// The calls that change nothing, according to the protocol.
fn is_read(method: &prost_reflect::MethodDescriptor) -> bool {
    let options = method.options();
    let level = options.get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
    level == Some(1)
}

/// A request for each call that changes something. Every other one is a mistake of the protocol, or of this list.
fn requests(lead: &Ids, bob: &Ids) -> Vec<(&'static str, Who, Vec<u8>)> {
    let text = str::to_owned;
    let direct = v1::DirectMessage { recipient: text("bob"), summary: text("s"), content: text("c") };
    let send = v1::SendRequest { body: Some(Body::Message(direct)), ..Default::default() };
    let rule = v1::PermissionRule { tool: text("Bash"), command: text("ls"), ..Default::default() };
    let terms = v1::SpawnRequest { name: text("zed"), profile: text("any"), ..Default::default() };
    let event = Some(v1::event_subscription::Event::MemberIdle(text("bob")));
    let subscription = Some(v1::EventSubscription { event, ..Default::default() });
    let subscribe = v1::SubscribeToEventRequest { subscription, ..Default::default() };
    let cancel = v1::CancelEventSubscriptionRequest { subscription_id: text("idle/bob"), ..Default::default() };
    vec![
        ("MessageService/Send", Who::Lead, send.encode_to_vec()),
        ("MessageService/Stream", Who::Lead, Vec::new()),
        (
            "MessageService/Ack",
            Who::Lead,
            v1::AckRequest { message_ids: vec![lead.message.clone()], ..Default::default() }.encode_to_vec(),
        ),
        (
            "RequestService/Withdraw",
            Who::Bob,
            v1::WithdrawRequest { request_id: bob.request.clone(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "RequestService/AddPermissionRule",
            Who::Lead,
            v1::AddPermissionRuleRequest { rule: Some(rule), ..Default::default() }.encode_to_vec(),
        ),
        (
            "RequestService/RevokePermissionRule",
            Who::Lead,
            v1::RevokePermissionRuleRequest { rule_id: 1, ..Default::default() }.encode_to_vec(),
        ),
        ("RequestService/UsePermissionRule", Who::Bob, Vec::new()),
        (
            "TaskService/CreateTask",
            Who::Lead,
            v1::CreateTaskRequest { subject: text("x"), ..Default::default() }.encode_to_vec(),
        ),
        (
            "TaskService/UpdateTask",
            Who::Lead,
            v1::UpdateTaskRequest { task_id: 1, subject: Some(text("y")), ..Default::default() }.encode_to_vec(),
        ),
        ("TaskService/ClaimTask", Who::Bob, v1::ClaimTaskRequest { task_id: 1, ..Default::default() }.encode_to_vec()),
        ("TaskService/ClaimNextTask", Who::Bob, Vec::new()),
        (
            "TaskService/CompleteTask",
            Who::Lead,
            v1::CompleteTaskRequest { task_id: 2, ..Default::default() }.encode_to_vec(),
        ),
        (
            "TaskService/ReleaseTask",
            Who::Lead,
            v1::ReleaseTaskRequest { task_id: 2, ..Default::default() }.encode_to_vec(),
        ),
        (
            "TaskService/DeleteTask",
            Who::Lead,
            v1::DeleteTaskRequest { task_id: 1, ..Default::default() }.encode_to_vec(),
        ),
        (
            "TeamService/CreateTeam",
            Who::Operator,
            v1::CreateTeamRequest { name: text("beta"), ..Default::default() }.encode_to_vec(),
        ),
        ("TeamService/DeleteTeam", Who::Solo, Vec::new()),
        ("TeamService/Invite", Who::Lead, Vec::new()),
        ("TeamService/CreateObserver", Who::Lead, Vec::new()),
        ("TeamService/Join", Who::Bob, Vec::new()),
        ("TeamService/Leave", Who::Bob, Vec::new()),
        ("TeamService/Heartbeat", Who::Bob, Vec::new()),
        ("TeamService/ReportActivity", Who::Bob, Vec::new()),
        ("TeamService/AnswerQuery", Who::Bob, Vec::new()),
        ("TeamService/SendBase", Who::Lead, Vec::new()),
        (
            "TeamService/SetBudget",
            Who::Lead,
            v1::SetBudgetRequest {
                member: text("bob"),
                budget: Some(v1::Budget { tokens: 1, ..Default::default() }),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "TeamService/ForceStop",
            Who::Lead,
            v1::ForceStopRequest { member: text("bob"), ..Default::default() }.encode_to_vec(),
        ),
        (
            "TeamService/SetLead",
            Who::Lead,
            v1::SetLeadRequest { member: text("bob"), ..Default::default() }.encode_to_vec(),
        ),
        (
            "TeamService/SetNoticeLevel",
            Who::Lead,
            v1::SetNoticeLevelRequest { level: v1::NoticeLevel::Digest.into(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "TeamService/SetTags",
            Who::Lead,
            v1::SetTagsRequest { member: text("bob"), add: vec![text("api")], ..Default::default() }.encode_to_vec(),
        ),
        ("TeamService/SubscribeToEvent", Who::Lead, subscribe.encode_to_vec()),
        ("TeamService/CancelEventSubscription", Who::Lead, cancel.encode_to_vec()),
        ("HostService/Spawn", Who::Lead, terms.encode_to_vec()),
        ("HostService/UpdateHost", Who::Lead, Vec::new()),
        ("HostService/TakeOrder", Who::Lead, Vec::new()),
        ("HostService/RefuseOrder", Who::Lead, Vec::new()),
        ("HostService/ReportExit", Who::Lead, Vec::new()),
        ("AccessService/CreateSignInCode", Who::Lead, Vec::new()),
        ("AccessService/SignIn", Who::Lead, Vec::new()),
        (
            "AccessService/RevokeCredential",
            Who::Lead,
            v1::RevokeCredentialRequest { id: lead.credential.clone(), ..Default::default() }.encode_to_vec(),
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    Lead,
    Bob,
    Operator,
    /// The lead of a team without other members.
    Solo,
}

/// What the requests name.
#[derive(Default)]
struct Ids {
    /// A message in the inbox.
    message: String,
    /// A pending request.
    request: String,
    /// Someone else's console credential.
    credential: String,
}

/// A message that is encoded already.
#[derive(Clone, Debug, Default)]
struct Encoded(Vec<u8>);

impl Message for Encoded {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl bytes::Buf,
        ctx: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, ctx)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[test]
fn every_call_that_changes_something_is_refused_to_a_read_only_sign_in() {
    let world = World::embedded();
    world.create_team("acme");
    world.join("bob");
    let create = v1::CreateTeamRequest { name: "solo".to_owned(), ..Default::default() };
    let solo: v1::CreateTeamResponse = call(&world, "TeamService/CreateTeam", &world.operator(), &create).unwrap();
    let read_only = v1::CreateSignInCodeRequest { read_only: true, ..Default::default() };
    let solo: v1::CreateSignInCodeResponse =
        call(&world, "AccessService/CreateSignInCode", &solo.credential, &read_only).unwrap();
    let solo: v1::SignInResponse =
        call(&world, "AccessService/SignIn", &solo.code, &v1::SignInRequest::default()).unwrap();
    let _host = ScriptedHost::join(&world, "rack", offer(&["any"], &[], 1));
    world.cli(LEAD, &["task", "create", "open"]).succeeds();
    world.cli(LEAD, &["task", "create", "claimed"]).succeeds();
    world.cli("bob", &["task", "claim", "2"]).succeeds();
    world.cli("bob", &["send", LEAD, "hello"]).succeeds();
    world.cli("bob", &["permission", "request", "--tool", "Bash", "--summary", "list", "--detail", "ls"]).succeeds();
    world.cli(LEAD, &["permission", "allow", "--tool", "Bash", "--any"]).succeeds();
    let other = sign_in(&world, "bob", &[]);
    let inbox: v1::ListInboxResponse =
        call(&world, "MessageService/ListInbox", &world.credential(LEAD), &v1::ListInboxRequest::default()).unwrap();
    let pending: v1::ListRequestsResponse =
        call(&world, "RequestService/ListRequests", &other, &v1::ListRequestsRequest::default()).unwrap();
    let message = inbox.deliveries[0].message.clone().unwrap().id;
    let lead = Ids { message, credential: id_of(&other).to_owned(), ..Ids::default() };
    let bob = Ids { request: pending.requests[0].id.clone(), ..Ids::default() };
    let consoles = [
        (Who::Lead, sign_in(&world, LEAD, &["--read-only"])),
        (Who::Bob, sign_in(&world, "bob", &["--read-only"])),
        (Who::Operator, sign_in(&world, LEAD, &["--as", "operator", "--read-only"])),
        (Who::Solo, solo.credential),
    ];
    let before = world.history(LEAD).len();
    let teams = world.cli(LEAD, &["team", "list", "--as", "operator", "--json"]).succeeds().stdout;
    let requests = requests(&lead, &bob);
    let pool = prost_reflect::DescriptorPool::decode(teamwire_proto::DESCRIPTORS).unwrap();
    let ours = pool.services().filter(|service| service.full_name().starts_with("teamwire.v1."));
    for method in ours.flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let name = method.full_name().strip_prefix("teamwire.v1.").unwrap().replace('.', "/");
        let row = requests.iter().find(|(listed, ..)| *listed == name);
        if method.is_client_streaming() {
            // It changes nothing itself: each call that it carries is refused alone.
            continue;
        }
        if is_read(&method) {
            assert!(row.is_none(), "{name} is in the list, and changes nothing");
            continue;
        }
        let (_, who, encoded) = row.unwrap_or_else(|| panic!("{name} changes something: add a request to the list"));
        let credential = &consoles.iter().find(|(of, _)| of == who).unwrap().1;
        let refusal = call::<Encoded>(&world, &name, credential, &Encoded(encoded.clone())).expect_err(&name);
        assert_eq!(refusal.0, 7, "{name}: {refusal:?}");
    }
    assert_eq!(world.history(LEAD).len(), before, "nothing has changed");
    assert_eq!(world.cli(LEAD, &["team", "list", "--as", "operator", "--json"]).succeeds().stdout, teams);
    // The same requests are not refused to someone who may write.
    let writing = sign_in(&world, LEAD, &[]);
    for name in
        ["MessageService/Send", "TaskService/CreateTask", "TeamService/Invite", "AccessService/RevokeCredential"]
    {
        let (_, _, encoded) = requests.iter().find(|(listed, ..)| *listed == name).unwrap();
        call::<Encoded>(&world, name, &writing, &Encoded(encoded.clone())).expect(name);
    }
}

#[test]
fn the_page_is_served_with_security_and_caching_headers() {
    let world = World::embedded();
    let page = get(&world, "/", "");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), "no-store");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    for name in ["x-content-type-options", "referrer-policy", "cross-origin-opener-policy", "permissions-policy"] {
        assert_ne!(page.header(name), "", "{name}");
    }
    let text = String::from_utf8(page.body).unwrap();
    assert!(text.contains("<!doctype html>"), "the page is embedded: {text}");
    let script = text.split('"').find(|part| part.starts_with("/assets/") && part.ends_with(".js")).expect("a script");
    let plain = get(&world, script, "");
    assert!(plain.status == 200 && plain.header("cache-control").contains("immutable"), "{}", plain.head);
    let compressed = get(&world, script, "\r\naccept-encoding: gzip, br");
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert!(compressed.body.starts_with(&[0x1f, 0x8b]) && compressed.body.len() < plain.body.len());
    let known = get(&world, script, &format!("\r\nif-none-match: {}", plain.header("etag")));
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(get(&world, "/teams", "").status, 404);
}

#[test]
fn browser_requests_from_a_foreign_host_or_origin_are_refused() {
    let world =
        World::configured("advertise = [\"http://coordinator.example:7420\"]\n[console]\nhosts = [\"page.example\"]\n");
    world.create_team("acme");
    let at = world.coordinator.socket();
    let credential = sign_in(&world, LEAD, &[]);
    for (host, status) in [("coordinator.example", 200), ("page.example:80", 200), ("evil.example", 403)] {
        let answer = ask(at, &format!("GET / HTTP/1.1\r\nhost: {host}"), b"");
        assert_eq!(answer.status, status, "{host}");
        assert!(status == 200 || answer.body.ends_with(b".\n"), "{}", String::from_utf8_lossy(&answer.body));
    }
    let call = |host: &str, origin: &str| {
        let content = "content-type: application/grpc-web+proto\r\nx-grpc-web: 1";
        let head = format!(
            "POST /teamwire.v1.TeamService/GetTeam HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n{content}\r\nauthorization: \
             Bearer {credential}"
        );
        ask(at, &head, &[0; 5]).status
    };
    let own = at.to_string();
    assert_eq!(call(&own, &format!("http://{own}")), 200);
    assert_eq!(call(&own, "http://evil.example"), 403);
    assert_eq!(call(&own, "null"), 403);
    assert_eq!(call("evil.example", "http://evil.example"), 403, "a name that was rebound to this address");
    // Programs that speak gRPC notice nothing.
    world.cli(LEAD, &["status"]).succeeds();
}

#[test]
fn a_disabled_page_is_not_served() {
    let world = World::configured("[console]\nenabled = \"off\"\n");
    world.create_team("acme");
    let mut stream = TcpStream::connect(world.coordinator.socket()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    assert!(!reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
    let refused = world.cli(LEAD, &["console", "--no-open"]).exits(64);
    assert!(refused.stderr.contains("console.enabled"), "{}", refused.stderr);
}

#[test]
fn the_page_is_served_over_http_2_too() {
    let world = World::embedded();
    RUNTIME.block_on(async {
        let stream = tokio::net::TcpStream::connect(world.coordinator.socket()).await.unwrap();
        let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        for (host, status) in [("localhost", 200), ("evil.example", 403)] {
            let request = http::Request::get(format!("http://{host}/")).body(()).unwrap();
            let (answer, _) = requests.send_request(request, true).unwrap();
            let mut answer = answer.await.unwrap();
            assert_eq!(answer.status(), status, "{host}");
            let body: Bytes = answer.body_mut().data().await.unwrap().unwrap();
            assert_eq!(body.starts_with(b"<!doctype html>"), status == 200);
        }
    });
}

#[test]
fn the_page_is_served_over_tls() {
    let world = World::with_tls();
    world.create_team("acme");
    let printed = world.cli(LEAD, &["console", "--no-open", "--json"]).succeeds().json();
    assert!(printed["address"].as_str().unwrap().starts_with("https://"), "{printed}");
    let mut roots = RootCertStore::empty();
    for pem in CertificateDer::pem_file_iter(world.home(LEAD).join("certs").join("ca.crt")).unwrap() {
        roots.add(pem.unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    RUNTIME.block_on(async {
        let at = world.coordinator.socket();
        let stream = tokio::net::TcpStream::connect(at).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        for (origin, status) in [(format!("https://{at}"), 200), (format!("http://{at}"), 403)] {
            let request = http::Request::get(format!("https://{at}/")).header("origin", origin).body(()).unwrap();
            let (answer, _) = requests.send_request(request, true).unwrap();
            assert_eq!(answer.await.unwrap().status(), status);
        }
    });
}

/// A page that takes long to load is not cut off where a silent connection is.
#[test]
fn a_connection_that_loads_the_page_gets_more_time_than_a_silent_one() {
    let world = World::configured("[network]\nauthentication_timeout = \"500ms\"\n");
    let connect = || {
        let stream = TcpStream::connect(world.coordinator.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let request = b"HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut loading = connect();
    let head = |stream: &mut TcpStream| {
        stream.write_all(request).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the connection is open");
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    };
    head(&mut loading);
    // One that was opened later is closed, for it asks for nothing.
    let _ = connect().read(&mut [0; 64]);
    head(&mut loading);
}

/// Writes a browser that records what it gets, and what processes there are.
fn browser(directory: &Path) -> String {
    let script = directory.join("browser");
    let out = directory.display();
    let text = format!(
        "#!/bin/sh\ncat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' > {out}/processes\ncp \"${{1#file://}}\" {out}/page\nls -l \
         \"${{1#file://}}\" > {out}/mode\necho \"$1\" > {out}/url.new\nmv {out}/url.new {out}/url\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

#[test]
fn a_browser_is_opened_with_a_private_file_that_is_gone_once_the_person_has_signed_in() {
    let world = World::embedded();
    world.create_team("acme");
    let directory = tempfile::tempdir().unwrap();
    let opening = world.spawn_in(LEAD, &["console"], &[("BROWSER", &browser(directory.path()))]);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).ok();
    let url = eventually("the browser", || read("url"));
    let page = read("page").unwrap();
    let address = world.coordinator.address();
    let code = page.split("#code=").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(page.contains(&format!("url={address}/#code=twk:acme:")), "{page}");
    assert!(!read("processes").unwrap().contains(&code), "no other user may see the code");
    assert!(read("mode").unwrap().starts_with("-rw-------"), "{:?}", read("mode"));
    let path = url.trim().strip_prefix("file://").unwrap().to_owned();
    let _: v1::SignInResponse = call(&world, "AccessService/SignIn", &code, &v1::SignInRequest::default()).unwrap();
    let output = opening.output().succeeds();
    assert!(output.stderr.contains("Signed in"), "{}", output.stderr);
    assert!(output.stdout.contains(&address) && output.stdout.contains(&code), "{}", output.stdout);
    assert!(!Path::new(&path).exists(), "{path} is left");
}

#[test]
fn without_a_browser_the_address_and_the_code_are_printed() {
    let world = World::embedded();
    world.create_team("acme");
    let printed = world.cli(LEAD, &["console", "--read-only"]).succeeds().stdout;
    assert!(printed.starts_with("You sign in as lead@acme (read-only).\n"), "{printed}");
    let code = printed.split_whitespace().find(|word| word.starts_with("twk:acme:")).expect("a code");
    let signed_in: v1::SignInResponse =
        call(&world, "AccessService/SignIn", code, &v1::SignInRequest::default()).unwrap();
    assert!(signed_in.caller.unwrap().read_only);
}

#[test]
fn the_console_command_says_who_signs_in_and_why_it_falls_back_to_the_operator() {
    let world = World::embedded();
    world.create_team("acme");
    let _bob = world.run("bob", &[], "cat >/dev/null").ready();
    let observer = world.cli(LEAD, &["invite", "--observer", "--json"]).succeeds().json();
    let observer = observer["token"].as_str().unwrap();
    let first = |identity: &str, more: &[&str]| {
        let arguments: Vec<&str> = ["console", "--no-open"].iter().chain(more).copied().collect();
        world.cli(identity, &arguments).succeeds().stdout.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(LEAD, &[]), "You sign in as lead@acme.");
    assert_eq!(first(LEAD, &["--as", "operator"]), "You sign in as the operator, who sees every team.");
    assert_eq!(first(LEAD, &["--credential", observer]), "You sign in as an observer of acme.");

    // The context of a runner's user holds only the runner's identity, and no command acts as a teammate by accident.
    let operator = world.coordinator.state_directory();
    let operator = operator.to_str().unwrap();
    let fallen_back = first("bob", &["--state-dir", operator]);
    assert!(
        fallen_back.starts_with("You sign in as the operator, who sees every team. The identities"),
        "{fallen_back}"
    );
    assert!(fallen_back.contains("belong to runners"), "{fallen_back}");
    assert_eq!(first("bob", &["--as", "bob", "--state-dir", operator]), "You sign in as bob@acme.");
    let stranger = first("eve", &["--state-dir", operator]);
    assert!(stranger.ends_with("No identity is saved here: `teamwire join` saves one."), "{stranger}");

    let printed = world.cli("bob", &["console", "--no-open", "--json", "--as", "bob"]).succeeds().json();
    assert_eq!(printed["as"], "bob@acme");
}
