//! Strangers, and a careless team, that do what they can against a coordinator.

use std::{io, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use rand::RngExt as _;
use teamwire_client::{Client, Error, message, v1};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

use crate::cluster::OPERATOR;

/// What they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Many connections on which nothing is said.
    Connections,
    /// Many connections with a call that never becomes whole, or with half of a frame.
    HalfOpen,
    /// Calls that are begun and cancelled at once.
    Resets,
    /// Calls with 256 KiB of headers.
    Headers,
    /// Members of another team who open their streams and read nothing, while they are sent what they can be.
    SlowReaders,
}

/// How many connections are held, of those that say little.
const CONNECTIONS: usize = 1_000;

/// How many connections do something all the while.
const BUSY: usize = 8;

/// How many members read nothing.
const READERS: usize = 8;

/// What HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An empty message, as gRPC frames it: not compressed, no bytes.
const EMPTY: [u8; 5] = [0; 5];

impl Flood {
    /// Does it for a while to the coordinator at a port.
    pub async fn run(self, port: u16, lasts: Duration) -> io::Result<()> {
        let mut strangers = JoinSet::new();
        match self {
            Self::Connections => (0..CONNECTIONS).for_each(|_| drop(strangers.spawn(again(port, say_nothing)))),
            Self::HalfOpen => (0..CONNECTIONS / 4).for_each(|number| {
                match number % 2 {
                    0 => strangers.spawn(again(port, leave_a_frame_half)),
                    _ => strangers.spawn(again(port, leave_a_call_half)),
                };
            }),
            Self::Resets => (0..BUSY).for_each(|_| drop(strangers.spawn(again(port, cancel_calls)))),
            Self::Headers => (0..BUSY).for_each(|_| drop(strangers.spawn(again(port, send_headers)))),
            Self::SlowReaders => read_nothing(port, &mut strangers)
                .await
                .map_err(|error| io::Error::other(format!("nobody can read slowly: {error}")))?,
        }
        sleep(lasts).await;
        strangers.shutdown().await;
        Ok(())
    }
}

/// Does something over one connection after the other.
async fn again<F: Future<Output = Result<(), h2::Error>>>(port: u16, act: fn(TcpStream) -> F) {
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await {
            // However it ends.
            let _ = act(stream).await;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn say_nothing(mut stream: TcpStream) -> Result<(), h2::Error> {
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(())
}

async fn leave_a_frame_half(mut stream: TcpStream) -> Result<(), h2::Error> {
    // Empty settings, then headers of which five bytes of sixteen come.
    let frames = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[0, 0, 16, 1, 4, 0, 0, 0, 1], b"\x83\x86\x44\x01/"].concat();
    let _ = stream.write_all(PREFACE).await;
    let _ = stream.write_all(&frames).await;
    say_nothing(stream).await
}

async fn leave_a_call_half(stream: TcpStream) -> Result<(), h2::Error> {
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

async fn begin(stream: TcpStream) -> Result<SendRequest<Bytes>, h2::Error> {
    let (calls, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    calls.ready().await
}

/// A call in the name of nobody. `more`: how many bytes of headers that mean nothing.
fn call(method: &str, more: usize) -> http::Request<()> {
    as_caller(method, &format!("twm:nobody:{}:0123456789abcdef", rand::rng().random::<u32>()), more)
}

fn as_caller(method: &str, credential: &str, more: usize) -> http::Request<()> {
    let request = http::Request::post(format!("http://coordinator/teamwire.v1.{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {credential}"));
    let request = if more > 0 { request.header("x-more", "x".repeat(more)) } else { request };
    request.body(()).expect("it is well formed")
}

/// Makes a team whose members open streams and take nothing from them, and whose lead sends them all that it can.
async fn read_nothing(port: u16, strangers: &mut JoinSet<()>) -> Result<(), Error> {
    let anybody = Client::connect(&format!("http://127.0.0.1:{port}"))?;
    let name = format!("careless-{}", rand::rng().random::<u32>());
    let create = v1::CreateTeamRequest { name, ..Default::default() };
    let team = anybody.with_credential(OPERATOR)?.create_team(create).await?;
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
            // Until its inbox is full, and then for whatever is taken out of it.
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
    // What arrives is never taken, so the window never opens again.
    let _kept = answer.await?;
    std::future::pending().await
}

fn h2_error(_: io::Error) -> h2::Error {
    h2::Reason::CONNECT_ERROR.into()
}
