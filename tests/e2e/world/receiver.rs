//! A server on this machine that keeps what it is sent over HTTP.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::eventually;

/// A request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub path: String,
    pub headers: HeaderMap,
    /// As text, as far as it is one.
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Received {
    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns a header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// Takes requests for as long as the test runs.
pub(crate) struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// How many connections were opened.
    connections: usize,
    received: Vec<Received>,
    /// The heads of the answers to the next requests. All later ones get `204 No Content`.
    answers: VecDeque<String>,
}

impl Receiver {
    /// Starts it on a free port.
    pub(crate) fn start() -> Self {
        Self::serve(None)
    }

    /// Starts it with TLS on a free port.
    pub(crate) fn with_tls(config: ServerConfig) -> Self {
        Self::serve(Some(Arc::new(config)))
    }

    fn serve(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(State::default())));
        let kept = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state, tls) = (stream.unwrap(), Arc::clone(&kept), tls.clone());
                state.lock().connections += 1;
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                // The client may go away at any time.
                thread::spawn(move || match tls {
                    None => answer(stream, &state),
                    Some(tls) => answer(StreamOwned::new(ServerConnection::new(tls).unwrap(), stream), &state),
                });
            }
        });
        Self { address, state }
    }

    /// Returns its port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers the next request, after those for which an answer waits, with this head, without its version and end.
    pub(crate) fn answer_next(&self, head: &str) {
        self.state.lock().answers.push_back(head.to_owned());
    }

    /// Returns what it has got so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.lock().received.clone()
    }

    /// Returns how many connections were opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.lock().connections
    }

    /// Waits until it has got so many requests, and returns the last of these.
    #[track_caller]
    pub(crate) fn await_received(&self, count: usize) -> Received {
        let what = format!("{} gets request {count}", self.url("/"));
        eventually(&what, || self.received().get(count - 1).cloned())
    }
}

fn answer(stream: impl Read + Write, state: &Mutex<State>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    };
    let path = line()?.split(' ').nth(1)?.to_owned();
    let mut headers = HeaderMap::new();
    while let Some((name, value)) = line()?.split_once(": ") {
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
    }
    let length = headers.get("content-length").map_or(Some(0), |length| length.to_str().ok()?.parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let head = {
        let mut state = state.lock();
        let text = String::from_utf8_lossy(&body).into_owned();
        state.received.push(Received { path, headers, body: text, bytes: body });
        state.answers.pop_front().unwrap_or_else(|| "204 No Content".to_owned())
    };
    write!(stream.get_mut(), "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").ok()?;
    stream.get_mut().flush().ok()
}
