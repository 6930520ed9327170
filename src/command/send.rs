//! `teamwire send`: sends a message of any kind.

use std::{io::Read as _, time::Duration};

use clap::Args;
use teamwire_client::{dialect, message, v1};
use teamwire_proto::v1::history_entry::Event;

use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, NOT_IN_TIME},
    show,
};

/// Send a message
///
/// `teamwire send backend "The schema is ready" -s "schema ready"` sends to one member; `team-lead` is always the lead.
/// `teamwire send --broadcast "…"` reaches every other member. `teamwire send --json -` reads one SendMessage object, in
/// either of its JSON forms, from standard input and prints the reply as JSON.
#[derive(Args, Debug)]
pub struct Send {
    /// The recipient, and the text (- reads it from standard input); with --broadcast the text alone
    #[arg(value_name = "[RECIPIENT] TEXT", num_args = 0..=2)]
    words: Vec<String>,
    /// One line that is shown as a preview [default: the beginning of the text]
    #[arg(long, short)]
    summary: Option<String>,
    /// Send to all other members
    #[arg(long, short)]
    broadcast: bool,
    /// The message that this one answers
    #[arg(long, value_name = "MESSAGE_ID")]
    in_reply_to: Option<String>,
    /// Something that is too large to send, by its address; may be repeated
    #[arg(long = "attach", value_name = "URI")]
    attachments: Vec<String>,
    /// Makes a repeated send harmless: the same key with the same message is carried out once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for a message that answers this one, for up to SECONDS
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "600")]
    wait_reply: Option<u64>,
    /// Print JSON; with - or a file, read one SendMessage object from there first
    #[arg(long, value_name = "-|FILE", num_args = 0..=1, default_missing_value = "")]
    json: Option<String>,
}

impl Send {
    pub fn is_json(&self) -> bool {
        self.json.is_some()
    }

    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let mut request = match self.json.as_deref() {
            Some("") | None => self.words_as_request()?,
            Some(file) => {
                if !self.words.is_empty() {
                    return Err(Failure::usage(
                        "--json reads the whole message; leave out the recipient and the text, or put --json last.",
                    ));
                }
                dialect::read(&read(file)?)?
            }
        };
        if let Some(key) = &self.idempotency_key {
            request.idempotency_key.clone_from(key);
        }
        let caller = context.caller()?;
        let before = match self.wait_reply {
            Some(_) => last_sequence(&caller).await?,
            None => 0,
        };
        let reply = caller.client.send(request).await?;
        if self.is_json() {
            show::line(&show::json("SendResponse", &reply));
        } else {
            let to = match reply.recipients.as_slice() {
                [] => "nobody's inbox".to_owned(),
                names => names.join(", "),
            };
            let id = if reply.request_id.is_empty() { &reply.message_id } else { &reply.request_id };
            let again = if reply.replayed { " (it was before)" } else { "" };
            anstream::println!("Sent to {}{again} {}", show::paint(show::bold(), to), show::paint(show::dim(), id));
            for warning in &reply.warnings {
                anstream::eprintln!("{} {warning}", show::paint(anstyle::AnsiColor::Yellow.on_default(), "note:"));
            }
        }
        match self.wait_reply {
            Some(seconds) => self.wait(&caller, &reply.message_id, before, Duration::from_secs(seconds)).await,
            None => Ok(()),
        }
    }

    fn words_as_request(&self) -> Result<v1::SendRequest, Failure> {
        let (recipient, content) = match (self.broadcast, self.words.as_slice()) {
            (true, [content]) => ("", content),
            (false, [recipient, content]) => (recipient.as_str(), content),
            (true, _) => return Err(Failure::usage("With --broadcast, give the text alone.")),
            (false, _) => {
                return Err(Failure::usage(
                    "Give a recipient and a text: teamwire send backend \"The schema is ready\".",
                ));
            }
        };
        let content = super::text(content)?;
        let summary = self.summary.clone().unwrap_or_else(|| super::summary_of(&content));
        let request = if self.broadcast {
            message::broadcast(summary, content)
        } else {
            message::direct(recipient, summary, content)
        };
        let attachments =
            self.attachments.iter().map(|uri| v1::Attachment { uri: uri.clone(), ..v1::Attachment::default() });
        Ok(v1::SendRequest {
            in_reply_to: self.in_reply_to.clone().unwrap_or_default(),
            attachments: attachments.collect(),
            ..request
        })
    }

    async fn wait(&self, caller: &Caller, id: &str, after_sequence: u64, patience: Duration) -> Result<(), Failure> {
        let request = v1::FollowHistoryRequest { after_sequence, ..v1::FollowHistoryRequest::default() };
        let mut entries = caller.client.follow_history(request);
        let answer = async {
            while let Some(entry) = entries.next().await {
                let entry = entry?;
                if matches!(&entry.event, Some(Event::Message(message)) if message.in_reply_to == id) {
                    return Ok(Some(entry));
                }
            }
            Ok::<_, Failure>(None)
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(Some(entry))) => {
                let Some(Event::Message(answer)) = entry.event else { return Err(show::incomplete()) };
                if self.is_json() {
                    show::line(&dialect::write(&answer));
                } else {
                    show::delivery(&v1::Delivery { message: Some(answer), ..v1::Delivery::default() });
                }
                Ok(())
            }
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(None)) | Err(_) => Err(Failure::with_code(
                NOT_IN_TIME,
                format!(
                    "Nobody has answered within {} s. The message stays where it is; see `teamwire history`.",
                    patience.as_secs()
                ),
            )),
        }
    }
}

async fn last_sequence(caller: &Caller) -> Result<u64, Failure> {
    let request = v1::ListHistoryRequest { limit: 1, newest: true, ..v1::ListHistoryRequest::default() };
    Ok(caller.client.list_history(request).await?.next_after_sequence)
}

fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("{file} cannot be read: {error}.")))?;
    Ok(text)
}
