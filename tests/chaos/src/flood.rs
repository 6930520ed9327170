//! Strangers, and a careless team, that attack a coordinator.

use std::{io, net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use rand::RngExt as _;
use teamwire_client::{Client, Error, message, v1};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::sleep,
};

use crate::cluster::OPERATOR;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Many silent connections.
    Connections,
    /// Many connections with half a frame or half a call.
    HalfOpen,
    /// Calls that are cancelled at once.
    Resets,
    /// Calls with 256 KiB of headers.
    Headers,
    /// Members of another team that open streams and read nothing, while their lead sends as fast as it may.
    SlowReaders,
}

/// The number of idle connections.
const CONNECTIONS: usize = 1_000;

/// The number of busy connections.
const BUSY: usize = 8;

/// The number of members that read nothing.
const READERS: usize = 8;

/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An empty gRPC message: uncompressed, zero bytes.
const EMPTY: [u8; 5] = [0; 5];

impl Flood {
    /// Attacks the coordinator at a port for some time.
    pub async fn run(self, port: u16, duration: Duration) -> io::Result<()> {
        let mut strangers = JoinSet::new();
        match self {
            Self::Connections => (0..CONNECTIONS).for_each(|_| drop(strangers.spawn(again(port, stay_silent)))),
            Self::HalfOpen => (0..CONNECTIONS / 4).for_each(|number| {
                match number % 2 {
                    0 => strangers.spawn(again(port, send_half_a_frame)),
                    _ => strangers.spawn(again(port, send_half_a_call)),
                };
            }),
            Self::Resets => (0..BUSY).for_each(|_| drop(strangers.spawn(again(port, cancel_calls)))),
            Self::Headers => (0..BUSY).for_each(|_| drop(strangers.spawn(again(port, send_headers)))),
            Self::SlowReaders => read_nothing(port, &mut strangers)
                .await
                .map_err(|error| io::Error::other(format!("the slow readers cannot start: {error}")))?,
        }
        sleep(duration).await;
        strangers.shutdown().await;
        Ok(())
    }
}

/// Attacks over one connection after the other.
pub(crate) async fn again<F: Future<Output = Result<(), h2::Error>>>(port: u16, act: impl Fn(TcpStream) -> F) {
    again_from(Ipv4Addr::LOCALHOST, port, act).await;
}

/// The same from one of this machine's addresses.
pub(crate) async fn again_from<F: Future<Output = Result<(), h2::Error>>>(
    address: Ipv4Addr,
    port: u16,
    act: impl Fn(TcpStream) -> F,
) {
    loop {
        if let Ok(stream) = connect_from(address, port).await {
            // The outcome does not matter.
            let _ = act(stream).await;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn connect_from(address: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((address, 0).into())?;
    socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
}

pub(crate) async fn stay_silent(mut stream: TcpStream) -> Result<(), h2::Error> {
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(())
}

async fn send_half_a_frame(mut stream: TcpStream) -> Result<(), h2::Error> {
    // Empty settings, then 5 of 16 bytes of headers.
    let frames = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 0, 16, 1, 4, 0, 0, 0, 1], b"\x83\x86\x44\x01/"].concat();
    let _ = stream.write_all(PREFACE).await;
    let _ = stream.write_all(&frames).await;
    stay_silent(stream).await
}

async fn send_half_a_call(stream: TcpStream) -> Result<(), h2::Error> {
    let mut calls = begin(stream).await?;
    let (answer, mut body) = calls.send_request(call("MessageService/Send", 0), false)?;
    body.send_data(Bytes::from_static(&[0, 0, 0, 1, 0, 1]), false)?;
    answer.await?;
    std::future::pending().await
}

async fn cancel_calls(stream: TcpStream) -> Result<(), h2::Error> {
    let mut calls = begin(stream).await?;
    loop {
        calls = calls.ready().await?;
        let (_, mut body) = calls.send_request(call("MessageService/Send", 0), false)?;
        body.send_reset(h2::Reason::CANCEL);
        tokio::task::yield_now().await;
    }
}

async fn send_headers(stream: TcpStream) -> Result<(), h2::Error> {
    let mut calls = begin(stream).await?;
    loop {
        calls = calls.ready().await?;
        let (answer, _) = calls.send_request(call("MessageService/Send", 256 * 1024), true)?;
        answer.await?;
    }
}

pub(crate) async fn begin(stream: TcpStream) -> Result<SendRequest<Bytes>, h2::Error> {
    let (calls, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    calls.ready().await
}

/// Builds a call with a random credential. `more`: the size of an additional, meaningless header.
fn call(method: &str, more: usize) -> http::Request<()> {
    as_caller(method, &no_credential(), more)
}

/// Returns a random credential, which no team has.
pub(crate) fn no_credential() -> String {
    format!("twm:nobody:{}:0123456789abcdef", rand::rng().random::<u32>())
}

pub(crate) fn as_caller(method: &str, credential: &str, more: usize) -> http::Request<()> {
    let request = http::Request::post(format!("http://coordinator/teamwire.v1.{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {credential}"));
    let request = if more > 0 { request.header("x-more", "x".repeat(more)) } else { request };
    request.body(()).expect("a well-formed request")
}

/// Creates a team whose members open streams and read nothing, and whose lead sends as fast as it may.
async fn read_nothing(port: u16, strangers: &mut JoinSet<()>) -> Result<(), Error> {
    let anybody = Client::connect(&format!("http://127.0.0.1:{port}"))?;
    let name = format!("careless-{}", rand::rng().random::<u32>());
    let create = v1::CreateTeamRequest { name, ..Default::default() };
    let team = anybody.with_credential(OPERATOR)?.create_team_with(create).await?;
    let lead = anybody.with_credential(&team.credential)?;
    for number in 0..READERS {
        let member = format!("reader-{number}");
        let invite = v1::InviteRequest { member: member.clone(), ..Default::default() };
        let token = lead.invite(invite).await?.join_token;
        let joined = anybody.with_credential(&token)?.join(v1::JoinRequest::default()).await?;
        strangers.spawn(async move {
            loop {
                let _ = open_and_hold(port, &joined.credential).await;
                sleep(Duration::from_millis(50)).await;
            }
        });
        let lead = lead.clone();
        strangers.spawn(async move {
            // Fill the inbox, and keep it full.
            loop {
                let _ = lead.send(message::direct(&member, "much", "x".repeat(64 * 1024))).await;
                sleep(Duration::from_millis(20)).await;
            }
        });
    }
    Ok(())
}

async fn open_and_hold(port: u16, credential: &str) -> Result<(), h2::Error> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(h2_error)?;
    let mut calls = begin(stream).await?;
    let (answer, mut body) = calls.send_request(as_caller("MessageService/Stream", credential, 0), false)?;
    body.send_data(Bytes::from_static(&EMPTY), true)?;
    // Never read, so that the flow-control window never opens again.
    let _kept = answer.await?;
    std::future::pending().await
}

fn h2_error(_: io::Error) -> h2::Error {
    h2::Reason::CONNECT_ERROR.into()
}
