//! `RabbitMQ`: a durable queue per inbox, persistent messages, publisher confirms and consumer acknowledgements. A
//! classic queue confirms without a flush a message that was received and acknowledged, and flushes waiting ones later.
//! A quorum queue flushes its log first.

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use tokio::time::{Instant, sleep};

use super::{Mail, SUMMARY, Shape, inbox_name};
use crate::{
    Result,
    fetch::Program,
    measure::Arrivals,
    process::{Process, Scratch, free_port},
};

/// How many messages a consumer may have unacknowledged, as in a session of teamwire.
const WINDOW: u16 = 64;

/// How long it may take to accept connections.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker with its queues.
#[derive(Debug)]
pub(crate) struct Rabbit {
    /// Channels on connections that the callers share, as with teamwire.
    senders: Vec<Channel>,
    /// Channels on their own connection.
    consumers: Vec<Channel>,
    /// Close when dropped.
    _connections: Vec<Connection>,
    broker: Process,
    _names: Process,
    /// Dropped last.
    _scratch: Scratch,
}

impl Rabbit {
    /// Starts one, with the name server (epmd) that Erlang needs. `quorum`: use quorum queues instead of classic ones.
    pub(crate) async fn open(below: &Path, quorum: bool, shape: Shape) -> Result<Self> {
        let scratch = Scratch::prepare(below, None).await?;
        let directory = scratch.directory();
        let (port, names_port, dist_port) = (free_port()?, free_port()?.to_string(), free_port()?.to_string());
        let mut names = Command::new("epmd");
        names.args(["-port", &names_port, "-address", "127.0.0.1"]);
        let names = Process::start(names, directory, "epmd")?;
        let configuration = directory.join("rabbitmq.conf");
        fs::write(&configuration, format!("listeners.tcp.1 = 127.0.0.1:{port}\n"))?;
        let plugins = directory.join("plugins");
        fs::write(&plugins, "[].\n")?;
        let mut broker = Command::new(Program::Rabbit.find()?);
        broker.env("HOME", directory).env("RABBITMQ_NODENAME", "bench@localhost");
        broker.env("RABBITMQ_MNESIA_BASE", directory.join("mnesia")).env("RABBITMQ_LOG_BASE", directory.join("log"));
        broker.env("RABBITMQ_PID_FILE", directory.join("pid")).env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
        broker.env("RABBITMQ_CONFIG_FILE", configuration).env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins);
        broker.env("RABBITMQ_DIST_PORT", dist_port).env("ERL_EPMD_PORT", names_port);
        broker.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        let mut broker = Process::start(broker, directory, "rabbitmq")?;
        broker.await_port(port).await?;
        let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
        let mut connections = vec![connect(&url).await?];
        let mut consumers = Vec::new();
        for inbox in 0..shape.inboxes {
            let channel = connections[0].create_channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let mut kind = FieldTable::default();
            let name = if quorum { "quorum" } else { "classic" };
            kind.insert("x-queue-type".into(), AMQPValue::LongString(name.into()));
            channel.queue_declare(inbox_name(inbox).into(), durable, kind).await?;
            channel.basic_qos(WINDOW, BasicQosOptions::default()).await?;
            consumers.push(channel);
        }
        let mut senders = Vec::new();
        for _ in 0..shape.connections() {
            let connection = connect(&url).await?;
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            senders.push(channel);
            connections.push(connection);
        }
        Ok(Self { senders, consumers, _connections: connections, broker, _names: names, _scratch: scratch })
    }
}

/// Connects. Retries, because the broker listens slightly before it is ready.
async fn connect(url: &str) -> Result<Connection> {
    let began = Instant::now();
    loop {
        match Connection::connect(url, ConnectionProperties::default()).await {
            Err(_) if began.elapsed() < PATIENCE => sleep(Duration::from_millis(50)).await,
            connected => return Ok(connected?),
        }
    }
}

#[tonic::async_trait]
impl Mail for Rabbit {
    async fn send(&self, caller: usize, inbox: usize, content: String) -> Result<()> {
        let sender = &self.senders[caller % self.senders.len()];
        // A missing queue is then an error; by default the message would be dropped.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let persistent = BasicProperties::default().with_delivery_mode(2).with_type(SUMMARY.into());
        let published =
            sender.basic_publish("".into(), inbox_name(inbox).into(), options, content.as_bytes(), persistent);
        match published.await?.await? {
            Confirmation::Ack(None) => Ok(()),
            other => Err(format!("not confirmed: {other:?}").into()),
        }
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        let channel = self.consumers[inbox].clone();
        Box::pin(async move {
            let queue = inbox_name(inbox).into();
            let consuming =
                channel.basic_consume(queue, "".into(), BasicConsumeOptions::default(), FieldTable::default());
            let mut deliveries = consuming.await?;
            for _ in 0..until {
                let delivery = deliveries.next().await.ok_or("a consumer has ended")??;
                arrivals.record(std::str::from_utf8(&delivery.data)?)?;
                delivery.ack(BasicAckOptions::default()).await?;
            }
            Ok(())
        })
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        // What was started is a script.
        Ok(Some(self.broker.group_cpu()?))
    }
}
