//! A team at a coordinator or a null server, through the Rust client.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use teamwire_client::{
    Client, ConnectOptions, Event, SubscribeOptions, message,
    v1::{self, message::Body},
};

use super::{Mail, SUMMARY, Shape, TEAM, inbox_name, null_server};
use crate::{
    Bench, Result, Store,
    measure::Arrivals,
    process::{Coordinator, Process, Scratch},
};

/// A team of senders and receivers.
#[derive(Debug)]
pub(crate) struct Team {
    /// One per connection.
    pub(crate) senders: Vec<Client>,
    /// Each on its own connection.
    pub(crate) inboxes: Vec<Client>,
    /// The coordinator. `None` if the team is at a null server.
    pub(crate) coordinator: Option<Coordinator>,
    null_server: Option<Process>,
    /// Dropped last.
    scratch: Scratch,
}

impl Team {
    /// Creates a team at a new coordinator. Its calls travel in frames.
    pub(crate) async fn of_teamwire(bench: &Bench, store: Store, shape: Shape) -> Result<Self> {
        Self::after_calls(0, bench, store, shape).await
    }

    /// Creates a team at a new coordinator. After this many calls of a connection, the next ones travel in frames.
    pub(crate) async fn after_calls(
        calls_before_frames: u32,
        bench: &Bench,
        store: Store,
        shape: Shape,
    ) -> Result<Self> {
        let scratch = Scratch::prepare(&bench.directory, Some(store)).await?;
        let coordinator = Coordinator::start(&bench.teamwire, scratch.directory(), &scratch.url).await?;
        let mut members = Members::found(&coordinator, TEAM).await?;
        members.options = ConnectOptions { calls_before_frames, ..ConnectOptions::default() };
        let (mut senders, mut inboxes) = (Vec::new(), Vec::new());
        for sender in 0..shape.connections() {
            senders.push(members.join(&format!("sender-{sender}")).await?);
        }
        for inbox in 0..shape.inboxes {
            inboxes.push(members.join(&inbox_name(inbox)).await?);
        }
        Ok(Self { senders, inboxes, coordinator: Some(coordinator), null_server: None, scratch })
    }

    /// Creates a team at a new null server.
    pub(crate) async fn of_null_server(
        bench: &Bench,
        store: Option<Store>,
        stores_acks: bool,
        shape: Shape,
    ) -> Result<Self> {
        let scratch = Scratch::prepare(&bench.directory, store).await?;
        let url = if store.is_some() { &*scratch.url } else { "" };
        let (server, address) = start_null_server(scratch.directory(), url, stores_acks).await?;
        let member = |name: String| Ok(Client::connect(&address)?.with_credential(&name)?.with_team(TEAM));
        Ok(Self {
            senders: (0..shape.connections()).map(|at| member(format!("sender-{at}"))).collect::<Result<_>>()?,
            inboxes: (0..shape.inboxes).map(|at| member(inbox_name(at))).collect::<Result<_>>()?,
            coordinator: None,
            null_server: Some(server),
            scratch,
        })
    }
}

/// Starts a null server on the store of a URL, or on none if it is empty. Returns it with its address.
pub(crate) async fn start_null_server(directory: &Path, store: &str, stores_acks: bool) -> Result<(Process, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["null-server", store, if stores_acks { null_server::STORES_ACKS } else { "" }]);
    let mut server = Process::start(command, directory, "null-server")?;
    let said = server.await_line(null_server::LISTENS).await?;
    let port = said.rsplit(' ').next().unwrap_or_default();
    Ok((server, format!("http://127.0.0.1:{port}")))
}

/// A team to join.
#[derive(Debug)]
pub(crate) struct Members {
    address: String,
    /// The connection for all joins, so that a join leaves no connection open.
    entrance: Client,
    /// The lead.
    pub(crate) lead: Client,
    /// How members connect.
    options: ConnectOptions,
    token: String,
}

impl Members {
    /// Creates a team.
    pub(crate) async fn found(coordinator: &Coordinator, name: &str) -> Result<Self> {
        Self::found_through(Client::connect(coordinator.address())?, coordinator, name).await
    }

    /// Creates a team through an existing connection.
    pub(crate) async fn found_through(entrance: Client, coordinator: &Coordinator, name: &str) -> Result<Self> {
        let operator = entrance.with_credential(&coordinator.operator()?)?;
        let request = v1::CreateTeamRequest { name: name.to_owned(), ..v1::CreateTeamRequest::default() };
        let lead = entrance.with_credential(&operator.create_team_with(request).await?.credential)?;
        let invited = lead.invite(v1::InviteRequest { uses_max: 1_000, ..v1::InviteRequest::default() }).await?;
        let address = coordinator.address().to_owned();
        Ok(Self { address, entrance, lead, options: ConnectOptions::default(), token: invited.join_token })
    }

    /// Adds a member, and returns its client on a new connection.
    pub(crate) async fn join(&self, name: &str) -> Result<Client> {
        let credential = self.credential(name).await?;
        Ok(Client::connect_with(&self.address, self.options.clone())?.with_credential(&credential)?)
    }

    /// Adds a member, and returns its credential.
    pub(crate) async fn credential(&self, name: &str) -> Result<String> {
        let request = v1::JoinRequest { name: name.to_owned(), ..v1::JoinRequest::default() };
        Ok(self.entrance.with_credential(&self.token)?.join(request).await?.credential)
    }
}

#[tonic::async_trait]
impl Mail for Team {
    async fn send(&self, caller: usize, inbox: usize, content: String) -> Result<()> {
        let sender = &self.senders[caller % self.senders.len()];
        sender.send(message::direct(inbox_name(inbox), SUMMARY, content)).await?;
        Ok(())
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        Box::pin(receive(self.inboxes[inbox].clone(), until, arrivals))
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        let mut all = self.scratch.cpu()?.unwrap_or_default();
        if let Some(coordinator) = &self.coordinator {
            all += coordinator.usage()?.cpu;
        }
        if let Some(server) = &self.null_server {
            all += server.usage()?.cpu;
        }
        Ok(Some(all))
    }

    fn redis_cpu(&self) -> Result<Option<Duration>> {
        self.scratch.cpu()
    }
}

/// Receives and acknowledges a number of messages.
pub(crate) async fn receive(client: Client, until: u64, arrivals: Arc<Arrivals>) -> Result<()> {
    let mut inbox = client.subscribe(SubscribeOptions::default());
    let (mut taken, mut was_opened) = (0, false);
    while taken < until {
        match inbox.next().await.ok_or("a subscription ended")?? {
            Event::Delivery(delivery) => {
                match &delivery.message.body {
                    Some(Body::Message(text)) => arrivals.record(&text.content)?,
                    Some(Body::Broadcast(text)) => arrivals.record(&text.content)?,
                    other => return Err(format!("an unexpected message: {other:?}").into()),
                }
                delivery.ack();
                taken += 1;
            }
            Event::Opened(_) if was_opened => {}
            Event::Opened(_) => {
                was_opened = true;
                arrivals.record_receiver();
            }
            Event::Lost { detail } => arrivals.record_loss(&detail),
            other => return Err(format!("an unexpected event of a subscription: {other:?}").into()),
        }
    }
    Ok(inbox.flush().await?)
}
