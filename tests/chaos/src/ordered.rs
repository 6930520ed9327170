//! The program of an ordered member: it gets something done all the time, under the identity of its runner, until it
//! ends.

use std::{env, path::Path, time::Duration};

use serde_json::{Value, json};
use teamwire_client::{CONTEXT_VARIABLE, Client, Error, Identity, MEMBER_VARIABLE, Retry, message};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    time::{MissedTickBehavior, interval},
};

use crate::{
    history::{Recorder, What},
    lead::LEAD,
};

/// How often it gets something done.
const OFTEN: Duration = Duration::from_millis(100);

/// How long it tries to. Short, so that it can end in time.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs until its input ends.
pub async fn run(directory: &Path) -> Result<(), Error> {
    let name = env::var(MEMBER_VARIABLE).unwrap_or_default();
    let recorder = Recorder::open(directory, &name, std::process::id())
        .map_err(|error| Error::Context(format!("the history cannot be opened: {error}")))?;
    recorder.note(What::Began { request_id: order()? });
    let client = Client::from_identity(&Identity::find()?)?.with_retry(Retry::within(PATIENCE));
    let mut lines = BufReader::new(stdin()).lines();
    let mut turns = interval(OFTEN);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut op = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                answer(&serde_json::from_str(&line).unwrap_or_default());
            }
            _ = turns.tick() => {
                op += 1;
                act(&client, &recorder, op).await;
            }
        }
    }
    Ok(())
}

/// Sends something to the lead, and records the outcome.
pub async fn act(client: &Client, recorder: &Recorder, op: u64) {
    recorder.note(What::Acting { op });
    match client.send(message::direct(LEAD, "proof", "I work.")).await {
        Ok(_) => recorder.note(What::Acted { op }),
        Err(error) => recorder.note(What::Unknown { op, detail: error.to_string() }),
    }
}

/// Returns the order that this process was started for: its host keeps the runner's context file in a directory of this
/// name.
fn order() -> Result<String, Error> {
    let context = env::var_os(CONTEXT_VARIABLE).unwrap_or_default();
    let order = Path::new(&context).parent().and_then(Path::file_name).and_then(|name| name.to_str());
    order.map(str::to_owned).ok_or_else(|| Error::Context(format!("{CONTEXT_VARIABLE} names no order: {context:?}")))
}

/// Acknowledges a message, and approves a shutdown.
fn answer(line: &Value) {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    if text("type") == "shutdown_request" {
        println!("{}", json!({"type": "shutdown_response", "request_id": text("request_id"), "approve": true}));
    }
    if !text("id").is_empty() {
        println!("{}", json!({"ack": text("id")}));
    }
}
