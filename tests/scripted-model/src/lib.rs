//! A model that follows a script. Real agent programs talk to it instead of to a maker's API, so that a test decides
//! what the model says, and sees what the model was shown.
//!
//! It serves Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini on a loopback address, streaming
//! or not, as the program asks. Each request that offers tools is answered by the first [`Rule`] that matches what is
//! new in the conversation. A request without tools, such as one for a title, gets the reply `done`, as does one that
//! no rule matches.
//!
//! ```no_run
//! use serde_json::json;
//! use teamwire_scripted_model::{Model, Rule};
//!
//! let model = Model::start();
//! model.add(Rule::when("greet (\\w+)").calls("SendMessage", json!({"to": "$1", "message": "hello"})));
//! // Start a program with its API's address set to `model.address()`, and tell it to greet someone.
//! assert!(model.await_request("greet").tools.iter().any(|tool| tool.ends_with("SendMessage")));
//! ```

#![allow(clippy::unwrap_used)]

mod api;
mod request;
mod rule;
mod server;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use regex::Regex;
use tokio::{net::TcpListener, runtime::Runtime, sync::watch};

pub use request::Request;
pub use rule::{Call, Rule};

/// How long [`Model::await_request`] waits. Never reached unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tokens that a reply reports as its cost, unless its rule says otherwise: of the input, and of the output.
pub const TOKENS: (u64, u64) = (10, 5);

/// A running scripted model. Dropping it ends it; if the thread panics, it first prints every request.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    script: Arc<Script>,
    _runtime: Runtime,
}

/// What the model does, and what it was asked.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) state: Mutex<State>,
    /// Notified with every request.
    pub(crate) asked: Condvar,
    /// The open gates.
    pub(crate) gates: watch::Sender<HashSet<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) rules: Vec<Rule>,
    pub(crate) requests: Vec<Request>,
    /// The status that every request fails with.
    pub(crate) outage: Option<u16>,
    /// Called with every request.
    pub(crate) observer: Option<fn(&Request)>,
}

impl Model {
    /// Starts a model on a free port of the loopback interface.
    pub fn start() -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
    }

    /// Starts a model on an address.
    pub fn listen(address: SocketAddr) -> std::io::Result<Self> {
        let runtime = Runtime::new()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let (gates, _) = watch::channel(HashSet::new());
        let script = Arc::new(Script { state: Mutex::default(), asked: Condvar::new(), gates });
        let address = listener.local_addr()?;
        runtime.spawn(server::serve(listener, Arc::clone(&script)));
        Ok(Self { address, script, _runtime: runtime })
    }

    /// Returns where it listens, as a URL without a path.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule after all others.
    pub fn add(&self, rule: Rule) {
        self.script.state.lock().rules.push(rule);
    }

    /// Opens a gate: answers the requests that wait at it, and lets later ones pass.
    pub fn open(&self, gate: &str) {
        self.script.gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Fails every request with an HTTP status, from now until [`Model::recover`].
    pub fn fail(&self, status: u16) {
        self.script.state.lock().outage = Some(status);
    }

    /// Ends an outage.
    pub fn recover(&self) {
        self.script.state.lock().outage = None;
    }

    /// Calls a function with every request from now on, before the reply.
    pub fn observe(&self, observer: fn(&Request)) {
        self.script.state.lock().observer = Some(observer);
    }

    /// Returns every request so far, the oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.script.state.lock().requests.clone()
    }

    /// Waits for a request whose new part matches a regular expression, and returns the oldest one. A held request
    /// counts, and so does one that failed.
    #[track_caller]
    pub fn await_request(&self, pattern: &str) -> Request {
        let regex = Regex::new(pattern).unwrap();
        self.await_requests(pattern, |requests| requests.iter().find(|request| regex.is_match(&request.new)).cloned())
    }

    /// Waits until a function finds something in the requests so far. It must not call the model.
    #[track_caller]
    pub fn await_requests<T>(&self, what: &str, find: impl Fn(&[Request]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.script.state.lock();
        loop {
            if let Some(found) = find(&state.requests) {
                return found;
            }
            let timed_out = self.script.asked.wait_until(&mut state, deadline).timed_out();
            if timed_out {
                // Dropping the model prints the requests.
                drop(state);
                panic!("the model was not asked: {what}");
            }
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- requests to the model ---");
            for request in self.requests() {
                eprintln!("{request}");
            }
        }
    }
}
