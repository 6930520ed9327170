//! A minimal lead: invites a teammate, sends it a message, waits for the reply, and shuts it down.
//!
//! ```sh
//! cargo run --package teamwire-client --example lead -- backend
//! ```
//!
//! The identity comes from the environment or the context file, as `teamwire team create` writes it. With TEAMWIRE_TEAM
//! and an operator's credential in TEAMWIRE_CREDENTIAL, it creates the team.

use std::{env, error::Error, time::Duration};

use teamwire_client::{Client, Event, Identity, SubscribeOptions, Subscription, message, v1::message::Body};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).unwrap_or_else(|| "backend".to_owned());
    let mut client = Client::from_identity(&Identity::find()?)?;
    if client.name().is_empty() {
        client = client.create_team(client.team(), "").await?;
    }
    println!("I am {} of {}. Join with:", client.name(), client.team());
    println!("{}", client.invite(&*name).await?.join_string);

    let mut inbox = client.subscribe(SubscribeOptions::default());
    while !client.members().await?.iter().any(|member| member.name == name) {
        sleep(Duration::from_secs(1)).await;
    }
    let sent = client.send(message::direct(&name, "A question", "What is the answer?")).await?;
    println!("{name} replied: {}", reply_to(&sent.message_id, &mut inbox).await?);

    let ended = client.shutdown(&name, "Thank you.", PATIENCE).await?;
    let code = ended.exit.and_then(|exit| exit.code);
    println!("{name} {:?}, exit code {code:?}", ended.request.state());
    inbox.flush().await?;
    Ok(())
}

/// Waits for the reply to a message, and acknowledges all messages until then.
async fn reply_to(message_id: &str, inbox: &mut Subscription) -> Result<String, Box<dyn Error>> {
    while let Some(event) = inbox.next().await {
        if let Event::Delivery(delivery) = event? {
            delivery.ack();
            if let (true, Some(Body::Message(text))) =
                (delivery.message.in_reply_to == message_id, &delivery.message.body)
            {
                return Ok(text.content.clone());
            }
        }
    }
    Err(format!("the subscription has ended: {:?}", inbox.end()).into())
}
