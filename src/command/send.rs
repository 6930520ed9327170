//! `teamwire send`: sends a message.

use std::{io::Read as _, time::Duration};

use clap::Args;
use serde_json::json;
use teamwire_client::{Error, Reason, dialect, message, v1};
use teamwire_proto::v1::{MemberState, history_entry::Event};

use super::{
    shown,
    waiting::{self, Wait, last_sequence, progress_of, refuse_gone, wait_for},
};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, NOT_IN_TIME, OUTCOME_UNKNOWN},
    show,
};

/// Send a message to a member or to the whole team
///
/// The recipient `team-lead` is always the lead. When this command has succeeded, the message is in the inbox of every
/// recipient. With --json, the command also prints how durable the message is. `--json -` reads one SendMessage object,
/// in either of its two JSON forms, from standard input and prints the coordinator's response as JSON. With
/// --wait-reply, the command prints the recipient's reply and acknowledges it; with --json, it prints one object with
/// both at the end. If a wait was killed, repeat the command with the same --idempotency-key: it sends nothing twice.
#[derive(Args, Debug)]
#[command(
    override_usage = "teamwire send [OPTIONS] <RECIPIENT> <TEXT>\n       teamwire send [OPTIONS] --broadcast <TEXT>\n       teamwire send [OPTIONS] --json <-|FILE>",
    after_help = "Examples:\n\n    teamwire send backend \"The schema is ready\" -s \"schema ready\"\n    teamwire send --broadcast \"Deploying in five minutes\"\n    teamwire send @api \"The schema has changed\"\n    teamwire send team-lead \"Which database?\" --wait-reply 5m\n    echo '{\"to\":\"backend\",\"summary\":\"hi\",\"message\":\"Hello\"}' | teamwire send --json -"
)]
pub(super) struct Send {
    /// The recipient and the text; with --broadcast, only the text. Use '-' to read the text from standard input
    #[arg(value_name = "[RECIPIENT] TEXT", num_args = 0..=2)]
    words: Vec<String>,
    /// A one-line preview [default: the beginning of the text]
    #[arg(long, short)]
    summary: Option<String>,
    /// Send to every other member
    #[arg(long, short)]
    broadcast: bool,
    /// The message that this one replies to: its id, the beginning or end of its id, or `last`, which means the newest
    /// message in your inbox or, if there is none, the newest one in the history that you did not send; notices do not
    /// count
    #[arg(long, value_name = "MESSAGE_ID")]
    in_reply_to: Option<String>,
    /// The URI of an attachment too large to send as text; may be repeated
    #[arg(long = "attach", value_name = "URI")]
    attachments: Vec<String>,
    /// An idempotency key, which makes retries safe: the coordinator sends only one message per key
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for a reply, for up to DURATION, such as 90s (10m if DURATION is left out)
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "10m")]
    wait_reply: Option<Wait>,
    /// Print JSON; with '-' (standard input) or a file, also read one SendMessage object from it
    #[arg(long, value_name = "-|FILE", num_args = 0..=1, default_missing_value = "")]
    json: Option<String>,
}

impl Send {
    pub(super) fn is_json(&self) -> bool {
        self.json.is_some()
    }

    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let mut request = match self.json.as_deref() {
            Some("") | None => self.words_as_request()?,
            Some(file) => {
                if !self.words.is_empty() {
                    return Err(Failure::usage(
                        "--json - and --json FILE read the whole message. Leave out the recipient and the text, or put \
                         --json last to print JSON only.",
                    ));
                }
                dialect::read(&read(file)?)?
            }
        };
        if let Some(key) = &self.idempotency_key {
            request.idempotency_key.clone_from(key);
        }
        let caller = context.caller(Who::Current)?;
        if let Some(typed) = &self.in_reply_to {
            request.in_reply_to = super::id::message(&caller, typed, super::id::Last::ToReplyTo).await?;
        }
        request.wants_reply = self.wait_reply.is_some();
        let before = match self.wait_reply {
            Some(_) => last_sequence(&caller).await?,
            None => 0,
        };
        let reply = caller.client.send(request).await.map_err(explain)?;
        if !self.is_json() {
            let to = match reply.recipients.as_slice() {
                [] => "no members".to_owned(),
                names => names.join(", "),
            };
            let id = if reply.request_id.is_empty() { &reply.message_id } else { &reply.request_id };
            let again = if reply.replayed { " (already sent)" } else { "" };
            anstream::println!("Sent to {}{again} {}", show::paint(show::bold(), to), show::paint(show::dim(), id));
            for warning in &reply.warnings {
                anstream::eprintln!(
                    "{} {}",
                    show::paint(anstyle::AnsiColor::Yellow.on_default(), "note:"),
                    show::plain(warning)
                );
            }
        }
        let replied = match self.wait_reply {
            Some(Wait(patience)) => self.wait(&caller, &reply, before, patience).await,
            None if self.is_json() => {
                show::line(&show::json("SendResponse", &reply));
                return Ok(());
            }
            None => return Ok(()),
        };
        let answer = replied.as_ref().ok();
        if self.is_json() {
            // One object, with or without a reply.
            let answered = answer.map(dialect::write);
            show::line(&json!({ "sent": show::json("SendResponse", &reply), "reply": answered }));
        } else if let Some(answer) = answer {
            show::delivery(&v1::Delivery { message: Some(answer.clone()), ..v1::Delivery::default() });
        }
        if let Some(answer) = answer {
            shown::acknowledge(&caller, vec![answer.id.clone()]).await;
        }
        replied.map(drop)
    }

    fn words_as_request(&self) -> Result<v1::SendRequest, Failure> {
        let (recipient, content) = match (self.broadcast, self.words.as_slice()) {
            (true, [content]) => ("", content),
            (false, [recipient, content]) => (recipient.as_str(), content),
            (true, _) => return Err(Failure::usage("With --broadcast, give only the text.")),
            (false, _) => {
                return Err(Failure::usage(
                    "Give a recipient and a text, as in: teamwire send backend \"The schema is ready\".",
                ));
            }
        };
        let content = super::text(content)?;
        if !content.is_empty() && content.trim().is_empty() && self.summary.is_none() {
            return Err(Failure::usage(
                "The text is blank, so there is nothing to send. Write a text, or give a summary with -s.",
            ));
        }
        let summary = self.summary.clone().unwrap_or_else(|| super::summary_of(&content));
        let request = if self.broadcast {
            message::broadcast(summary, content)
        } else {
            message::direct(recipient, summary, content)
        };
        let attachments =
            self.attachments.iter().map(|uri| v1::Attachment { uri: uri.clone(), ..v1::Attachment::default() });
        Ok(v1::SendRequest { attachments: attachments.collect(), ..request })
    }

    /// Waits for a reply to the message `sent` from one of its recipients. Returns it.
    async fn wait(
        &self,
        caller: &Caller,
        sent: &v1::SendResponse,
        after_sequence: u64,
        patience: Duration,
    ) -> Result<v1::Message, Failure> {
        let id = &sent.message_id;
        let is_reply = |message: &v1::Message| {
            let sender = message.sender.as_ref().map_or("", |sender| &sender.name);
            message.in_reply_to == *id && sent.recipients.iter().any(|name| name.eq_ignore_ascii_case(sender))
        };
        let request = v1::FollowHistoryRequest { after_sequence, ..v1::FollowHistoryRequest::default() };
        let mut entries = caller.waiting_client().follow_history(request);
        let answer = async {
            refuse_gone(caller, &sent.recipients, "reply").await?;
            while let Some(entry) = entries.next().await {
                let entry = match entry {
                    Err(error) if error.store_end().is_some() => {
                        refuse_lost_message(caller, id).await?;
                        continue;
                    }
                    entry => entry?,
                };
                match &entry.event {
                    Some(Event::Message(message)) if is_reply(message) => return Ok(Some(entry)),
                    Some(Event::Member(event)) if matches!(event.state(), MemberState::Lost | MemberState::Exited) => {
                        refuse_gone(caller, &sent.recipients, "reply").await?;
                    }
                    _ => {}
                }
            }
            Ok::<_, Failure>(None)
        };
        let status = async || progress_of(caller, id, "message", "replied").await;
        match wait_for(patience, status, tokio::time::timeout(patience, answer)).await {
            Ok(Ok(Some(entry))) => match entry.event {
                Some(Event::Message(answer)) => Ok(answer),
                _ => Err(show::incomplete()),
            },
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(None)) | Err(_) => {
                // Fails if the coordinator cannot say so.
                let request = v1::GetMessageRequest { message_id: id.to_owned(), ..v1::GetMessageRequest::default() };
                let progress = waiting::progress(&caller.client.get_message(request).await?, "message", "replied");
                let progress = progress.map_or_else(String::new, |progress| format!(": {progress}"));
                Err(Failure::with_code(NOT_IN_TIME, format!("No reply within {} s{progress}.", patience.as_secs())))
            }
        }
    }
}

/// Fails if the store, which has lost entries, has lost this message, too.
async fn refuse_lost_message(caller: &Caller, id: &str) -> Result<(), Failure> {
    let request = v1::GetMessageRequest { message_id: id.to_owned(), ..v1::GetMessageRequest::default() };
    match caller.client.get_message(request).await {
        Err(error) if error.reason() == Some(Reason::MessageNotFound) => Err(Failure::with_code(
            OUTCOME_UNKNOWN,
            "The store is older than your message, and has lost it. If it still matters, send it again.",
        )),
        found => found.map(drop).map_err(Failure::from),
    }
}

/// Says how to repeat a send whose outcome is unknown.
fn explain(error: Error) -> Failure {
    match error {
        Error::OutcomeUnknown { idempotency_key, detail, .. } => Failure::with_code(
            OUTCOME_UNKNOWN,
            format!(
                "It is not known whether the message was sent: {}. Send it again with `--idempotency-key {idempotency_key}`: it \
                 then arrives only once.",
                detail.trim_end_matches('.')
            ),
        ),
        error => error.into(),
    }
}

fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("Cannot read {file}: {error}.")))?;
    Ok(text)
}
