//! A minimal teammate: echoes every message, and exits when its shutdown is approved.
//!
//! ```sh
//! TEAMWIRE_JOIN=JOIN_STRING cargo run --package teamwire-client --example echo -- NAME
//! ```

use std::{env, process::ExitCode};

use teamwire_client::{
    Client, EndReason, Error, Event, Identity, JOIN_VARIABLE, SubscribeOptions, join,
    v1::{self, message::Body},
};

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let client = connect().await?;
    let mut inbox = client.subscribe(SubscribeOptions::default());
    while let Some(event) = inbox.next().await {
        match event? {
            Event::Delivery(delivery) => {
                if let Err(error) = answer(&client, &delivery.message).await {
                    eprintln!("{error}");
                }
                delivery.ack();
            }
            Event::Closed(closed) => eprintln!("no longer a member: {closed}"),
            _ => {}
        }
    }
    if inbox.end().is_some_and(|end| end.reason == EndReason::ShutdownApproved) {
        inbox.flush().await?;
        client.leave(0).await?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// Joins with the join string in TEAMWIRE_JOIN, if set; otherwise uses the identity of the environment or the context
/// file.
async fn connect() -> Result<Client, Error> {
    match env::var(JOIN_VARIABLE).as_deref() {
        Ok("") | Err(_) => Client::from_identity(&Identity::find()?),
        Ok(join_string) => join(join_string, &env::args().nth(1).unwrap_or_default()).await,
    }
}

async fn answer(client: &Client, received: &v1::Message) -> Result<(), Error> {
    match &received.body {
        Some(Body::Message(text)) => {
            client.reply(received, "An echo", &format!("You said: {}", text.content)).await?;
        }
        Some(Body::ShutdownRequest(_)) => {
            client.approve_shutdown(&received.request_id).await?;
        }
        _ => {}
    }
    Ok(())
}
