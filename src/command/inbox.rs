//! `teamwire inbox`: shows, follows or acknowledges an inbox.

use std::time::Instant;

use clap::{Args, Subcommand};
use teamwire_agents::agent_text::{self, AnswerWith};
use teamwire_client::{Closed, Event, MEMBER_VARIABLE, SubscribeOptions, v1};

use super::{Output, id};
use crate::{
    context::{Caller, ContextArgs, Who},
    failure::{Failure, NOT_PERMITTED},
    show,
};

/// What names this command to the coordinator. Always the same, so that a person who looks again does not count as
/// another process that failed to acknowledge.
const INSTANCE: &str = "teamwire-inbox";

/// How many messages a call may acknowledge.
const ACK_IDS_MAX: usize = 1_000;

/// Show, follow or acknowledge your inbox
///
/// Without --follow, the command marks no message as delivered. With --follow, it opens a session,
/// which disconnects any other process that follows your inbox. A message stays in the inbox until it is acknowledged.
///
/// In a program that `teamwire run` started, the command prints each message as its id and a `<teammate-message>`
/// element.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire inbox --ack\n    teamwire inbox --follow\n    teamwire inbox --of backend"
)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Inbox {
    #[command(subcommand)]
    command: Option<Command>,
    /// Keep printing new messages until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Acknowledge the messages shown
    #[arg(long)]
    ack: bool,
    /// Show this member's inbox instead of yours (lead, operator and observers only)
    #[arg(long, value_name = "MEMBER", conflicts_with_all = ["follow", "ack"])]
    of: Option<String>,
    /// The maximum number of messages to show
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Acknowledge messages: mark them processed and remove them from the inbox
    #[command(after_help = "Example:\n\n    teamwire inbox ack MESSAGE_ID")]
    Ack {
        /// The messages' ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

impl Inbox {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.of.is_none() {
            caller.member()?;
        }
        match &self.command {
            Some(Command::Ack { ids }) => self.ack(&caller, ids).await,
            None if self.follow => self.follow(&caller).await,
            None => self.list(&caller).await,
        }
    }

    async fn ack(&self, caller: &Caller, typed: &[String]) -> Result<(), Failure> {
        let mut message_ids = Vec::new();
        for typed in typed {
            message_ids.push(id::message(caller, typed, id::Last::Received).await?);
        }
        let reply = caller.client.ack(v1::AckRequest { session_id: String::new(), message_ids }).await?;
        if self.output.json {
            show::line(&show::json("AckResponse", &reply));
        } else {
            anstream::println!("Acknowledged {}.", show::count(reply.acked.into(), "message"));
        }
        Ok(())
    }

    async fn list(&self, caller: &Caller) -> Result<(), Failure> {
        let member = self.of.clone().unwrap_or_default();
        let request = v1::ListInboxRequest { member, ..v1::ListInboxRequest::default() };
        let reply = caller.client.list_all_inbox(request, self.limit as usize).await?;
        reply.deliveries.iter().for_each(|delivery| self.print(delivery));
        if !self.output.json {
            let shown = reply.deliveries.len();
            if shown == 0 {
                let whose = self.of.as_ref().map_or_else(|| "Your inbox".to_owned(), |of| format!("{of}'s inbox"));
                anstream::println!("{whose} is empty.");
            } else if reply.total > shown as u64 {
                anstream::println!("… and {} more.", reply.total - shown as u64);
            }
        }
        if self.ack && !reply.deliveries.is_empty() {
            let ids = reply.deliveries.iter().filter_map(|delivery| delivery.message.as_ref());
            let ids: Vec<_> = ids.map(|message| message.id.clone()).collect();
            for ids in ids.chunks(ACK_IDS_MAX) {
                let message_ids = ids.to_vec();
                caller.client.ack(v1::AckRequest { session_id: String::new(), message_ids }).await?;
            }
        }
        Ok(())
    }

    fn print(&self, delivery: &v1::Delivery) {
        match &delivery.message {
            _ if self.output.json => show::line(&show::delivery_json(delivery)),
            // An agent reads it: in the form that no content can forge, with the id to acknowledge.
            Some(message) if is_program() => {
                anstream::println!("{}\n{}", message.id, agent_text::teammate_message(message, AnswerWith::Command))
            }
            _ => show::delivery(delivery),
        }
    }

    async fn follow(&self, caller: &Caller) -> Result<(), Failure> {
        // A subscription would keep trying to reach a coordinator that is not there.
        caller.client.get_team(v1::GetTeamRequest::default()).await?;
        let options = SubscribeOptions { instance_id: INSTANCE.to_owned(), ..SubscribeOptions::default() };
        let mut inbox = caller.client.subscribe(options);
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        let mut lost_at = None;
        loop {
            let event = tokio::select! {
                event = inbox.next() => event,
                _ = &mut interrupted => None,
            };
            match event {
                None => break,
                Some(Ok(Event::Delivery(delivery))) => {
                    self.print(&v1::Delivery {
                        sequence: delivery.sequence,
                        delivery_count: delivery.delivery_count,
                        message: Some(delivery.message.clone()),
                    });
                    if self.ack {
                        delivery.ack();
                    }
                }
                Some(Ok(Event::Lost { detail })) => {
                    lost_at.get_or_insert_with(Instant::now);
                    note(&format!("Lost the coordinator ({}); reconnecting.", detail.trim_end_matches('.')));
                }
                Some(Ok(Event::Opened(_))) => {
                    if let Some(lost_at) = lost_at.take() {
                        note(&format!("Reconnected after {}.", show::count(lost_at.elapsed().as_secs(), "second")));
                    }
                }
                Some(Ok(Event::ShutdownApproved { .. })) => {
                    anstream::eprintln!("Your shutdown was approved.");
                    return Ok(());
                }
                Some(Ok(Event::Closed(Closed::TeamDeleted))) => {
                    anstream::eprintln!("The team was deleted.");
                    return Ok(());
                }
                Some(Ok(Event::Closed(closed))) => {
                    return Err(Failure::with_code(NOT_PERMITTED, format!("The session ended: {closed}.")));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
        if self.ack {
            inbox.flush().await?;
        }
        Ok(())
    }
}

/// Says something about the connection, not about a message.
fn note(text: &str) {
    anstream::eprintln!("{}", show::paint(show::dim(), text));
}

/// Returns whether a program that `teamwire run` started calls.
fn is_program() -> bool {
    std::env::var_os(MEMBER_VARIABLE).is_some_and(|member| !member.is_empty())
}
