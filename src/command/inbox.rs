//! `teamwire inbox`: sees, follows or acknowledges one's own inbox.

use clap::{Args, Subcommand};
use teamwire_client::{Closed, Event, SubscribeOptions, v1};

use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::{Failure, NOT_PERMITTED},
    show,
};

/// See, follow or acknowledge your inbox
///
/// Looking marks nothing as delivered. --follow opens a session: it takes the inbox over from any other process that
/// follows it under your name.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Inbox {
    #[command(subcommand)]
    command: Option<Command>,
    /// Wait for new messages, too, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Acknowledge what is shown
    #[arg(long)]
    ack: bool,
    /// Look into this member's inbox; for the lead and the operator
    #[arg(long, value_name = "MEMBER", conflicts_with_all = ["follow", "ack"])]
    of: Option<String>,
    /// How many messages to show at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Acknowledge messages: they leave the inbox as processed
    Ack {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

impl Inbox {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        if self.of.is_none() {
            caller.member()?;
        }
        match &self.command {
            Some(Command::Ack { ids }) => self.ack(&caller, ids.clone()).await,
            None if self.follow => self.follow(&caller).await,
            None => self.list(&caller).await,
        }
    }

    async fn ack(&self, caller: &Caller, message_ids: Vec<String>) -> Result<(), Failure> {
        let reply = caller.client.ack(v1::AckRequest { session_id: String::new(), message_ids }).await?;
        if self.output.json {
            show::line(&show::json("AckResponse", &reply));
        } else {
            anstream::println!("Acknowledged {}.", reply.acked);
        }
        Ok(())
    }

    async fn list(&self, caller: &Caller) -> Result<(), Failure> {
        let member = self.of.clone().unwrap_or_default();
        let request = v1::ListInboxRequest { limit: self.limit, member, ..v1::ListInboxRequest::default() };
        let reply = caller.client.list_inbox(request).await?;
        reply.deliveries.iter().for_each(|delivery| self.print(delivery));
        if !self.output.json {
            let shown = reply.deliveries.len();
            if shown == 0 {
                let whose = self.of.as_ref().map_or_else(|| "Your inbox".to_owned(), |of| format!("The inbox of {of}"));
                anstream::println!("{whose} is empty.");
            } else if reply.total > shown as u64 {
                anstream::println!("… and {} more.", reply.total - shown as u64);
            }
        }
        if self.ack && !reply.deliveries.is_empty() {
            let ids = reply.deliveries.iter().filter_map(|delivery| delivery.message.as_ref());
            let message_ids = ids.map(|message| message.id.clone()).collect();
            caller.client.ack(v1::AckRequest { session_id: String::new(), message_ids }).await?;
        }
        Ok(())
    }

    fn print(&self, delivery: &v1::Delivery) {
        if self.output.json {
            show::line(&show::delivery_json(delivery));
        } else {
            show::delivery(delivery);
        }
    }

    async fn follow(&self, caller: &Caller) -> Result<(), Failure> {
        let mut inbox = caller.client.subscribe(SubscribeOptions::default());
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
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
                    anstream::eprintln!("{}", show::paint(show::dim(), format!("reconnecting: {detail}")));
                }
                Some(Ok(Event::ShutdownApproved { .. })) => {
                    anstream::eprintln!("Your shutdown is approved. Goodbye.");
                    return Ok(());
                }
                Some(Ok(Event::Closed(Closed::TeamDeleted))) => {
                    anstream::eprintln!("The team was deleted.");
                    return Ok(());
                }
                Some(Ok(Event::Closed(closed))) => {
                    return Err(Failure::with_code(NOT_PERMITTED, format!("The inbox is closed: {closed}.")));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
            }
        }
        if self.ack {
            inbox.flush_acks().await?;
        }
        Ok(())
    }
}
