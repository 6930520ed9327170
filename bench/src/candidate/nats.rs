//! NATS `JetStream`: one stream in files, a subject and a durable consumer per inbox, an id on each message.

use std::{fmt::Display, fs, path::Path, process::Command, sync::Arc, time::Duration};

use async_nats::jetstream::{
    self, Context,
    consumer::{AckPolicy, Consumer, pull},
    message::PublishMessage,
    stream::{self, StorageType},
};
use futures::{StreamExt as _, future::BoxFuture};
use uuid::Uuid;

use super::{Mail, Shape, inbox_name};
use crate::{
    Result,
    fetch::Program,
    measure::Arrivals,
    process::{Process, Scratch, free_port},
};

/// A server with its stream.
#[derive(Debug)]
pub(crate) struct Nats {
    /// Connections, which the callers share as with teamwire.
    senders: Vec<Context>,
    consumers: Vec<Consumer<pull::Config>>,
    server: Process,
    /// Dropped last.
    _scratch: Scratch,
}

impl Nats {
    /// Starts one. `sync_always`: it flushes every write before it replies; otherwise every 2 minutes.
    pub(crate) async fn open(below: &Path, sync_always: bool, shape: Shape) -> Result<Self> {
        let scratch = Scratch::prepare(below, None).await?;
        let (port, directory) = (free_port()?, scratch.directory());
        let sync = if sync_always { "sync_interval: always" } else { "" };
        let store = directory.join("jetstream").display().to_string();
        let configuration = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {store:?}\n{sync} }}\n");
        fs::write(directory.join("nats.conf"), configuration)?;
        let mut command = Command::new(Program::Nats.find()?);
        command.args(["-c", "nats.conf"]);
        let mut server = Process::start(command, directory, "nats")?;
        server.await_line("Server is ready").await?;
        let url = format!("127.0.0.1:{port}");
        let mut senders = Vec::new();
        for _ in 0..shape.connections() {
            senders.push(jetstream::new(async_nats::connect(&url).await?));
        }
        // Receivers have their own connection, as with the other candidates.
        let receiving = jetstream::new(async_nats::connect(&url).await?);
        let config = stream::Config {
            name: "inboxes".to_owned(),
            subjects: vec![subject("*")],
            storage: StorageType::File,
            ..stream::Config::default()
        };
        let stream = receiving.create_stream(config).await?;
        let mut consumers = Vec::new();
        for inbox in 0..shape.inboxes {
            let config = pull::Config {
                durable_name: Some(inbox_name(inbox)),
                filter_subject: subject(inbox),
                ack_policy: AckPolicy::Explicit,
                ..pull::Config::default()
            };
            consumers.push(stream.create_consumer(config).await?);
        }
        Ok(Self { senders, consumers, server, _scratch: scratch })
    }
}

#[tonic::async_trait]
impl Mail for Nats {
    async fn send(&self, caller: usize, inbox: usize, content: String) -> Result<()> {
        let sender = &self.senders[caller % self.senders.len()];
        let message = PublishMessage::build().payload(content.into()).message_id(Uuid::now_v7().to_string());
        sender.send_publish(subject(inbox), message).await?.await?;
        Ok(())
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        let consumer = self.consumers[inbox].clone();
        Box::pin(async move {
            let mut messages = consumer.messages().await?;
            for _ in 0..until {
                let message = messages.next().await.ok_or("a consumer ended")??;
                arrivals.record(std::str::from_utf8(&message.payload)?)?;
                message.ack().await?;
            }
            Ok(())
        })
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        Ok(Some(self.server.usage()?.cpu))
    }
}

fn subject(inbox: impl Display) -> String {
    format!("inbox.{inbox}")
}
