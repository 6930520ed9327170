//! The lead: creates the team, adds tasks, answers plans, carries out the supervisor's commands, and shuts everyone
//! down.

use std::time::Duration;

use teamwire_chaos::{
    final_state,
    history::{self, Recorder, What},
    lead::{self, LEAD},
    member,
};
use teamwire_client::{Client, Error, Retry, v1};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    net,
    world::{Command, Phase, Play, SECRET},
};

/// The interval at which the lead adds tasks and answers plans.
const OFTEN: Duration = Duration::from_millis(300);

/// The retry budget of a call, longer than any fault lasts.
const RETRY_BUDGET: Duration = Duration::from_secs(60);

/// The longest all work may take to finish once everything is repaired.
const PATIENCE: Duration = Duration::from_secs(90);

/// The lead's state.
struct Lead {
    play: Play,
    /// A client without a credential.
    anonymous: Client,
    /// The lead's client, without a session.
    client: Client,
}

/// Plays the lead's part to its end.
pub(crate) async fn run(play: Play) -> turmoil::Result {
    let anonymous = net::client(&play.address)?.with_retry(Retry::within(RETRY_BUDGET));
    let operator = anonymous.with_credential(&format!("two:{SECRET}"))?;
    let create = v1::CreateTeamRequest { name: "simulated".to_owned(), ..Default::default() };
    let credential = operator.create_team_with(create).await?.credential;
    let client = anonymous.with_credential(&credential)?;
    let lead = Lead { play, anonymous, client };
    let count = lead.play.shared().members.len();
    for member in 0..count {
        lead.invite(member).await?;
    }
    lead.play.shared().phase = Phase::Broken;

    let mut work = JoinSet::new();
    let directory = lead.play.directory.to_path_buf();
    work.spawn(lead::read_all(lead.client.with_credential(&credential)?));
    work.spawn(lead::give_work(lead.client.clone(), directory.clone(), OFTEN));
    for (process, approve) in [(1, true), (2, false)] {
        let recorder = Recorder::open(&directory, LEAD, process)?;
        work.spawn(lead::decide(lead.client.clone(), recorder, directory.clone(), OFTEN, approve));
    }
    while lead.phase() == Phase::Broken {
        lead.run_commands().await;
        sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(lead.play.directory.join(member::QUIET), "")?;
    lead.settle().await?;
    lead.play.shared().phase = Phase::Ending;
    lead.shut_down().await?;
    work.shutdown().await;
    final_state::record(&lead.client, &Recorder::open(&lead.play.directory, LEAD, 3)?).await?;
    lead.play.shared().phase = Phase::Over;
    Ok(())
}

impl Lead {
    fn phase(&self) -> Phase {
        self.play.shared().phase
    }

    fn name(&self, member: usize) -> String {
        self.play.shared().members[member].name.clone()
    }

    /// Begins a new life with a new join token.
    async fn invite(&self, member: usize) -> Result<(), Error> {
        let invite = v1::InviteRequest { member: self.name(member), ..Default::default() };
        let token = self.client.invite(invite).await?.join_token;
        self.join(member, &token).await
    }

    async fn join(&self, member: usize, credential: &str) -> Result<(), Error> {
        // Every second member is detached, and must never be lost, whatever happens to it.
        let liveness = if member.is_multiple_of(2) { v1::Liveness::Attached } else { v1::Liveness::Detached };
        let request = v1::JoinRequest { liveness: liveness.into(), ..Default::default() };
        let joined = self.anonymous.with_credential(credential)?.join(request).await?;
        let mut shared = self.play.shared();
        let member = &mut shared.members[member];
        member.credential = joined.credential;
        member.needs_new_life = false;
        Ok(())
    }

    /// Carries out the supervisor's commands in order. A command that ended a life is retried until the member has a
    /// new one.
    async fn run_commands(&self) {
        let commands = self.play.shared().commands.clone();
        for command in commands {
            let is_done = match command {
                Command::Dismiss(member) => {
                    let _ = self.client.request_shutdown(&self.name(member), "Come back later.").await;
                    true
                }
                Command::Renew(member) => self.renew(member).await.is_ok(),
                Command::Force(member) => self.force(member).await.is_ok(),
            };
            if is_done {
                self.play.shared().commands.retain(|other| *other != command);
            }
        }
    }

    /// Begins a new life with the last credential, or by force if that is refused.
    async fn renew(&self, member: usize) -> Result<(), Error> {
        let credential = self.play.shared().members[member].credential.clone();
        match self.join(member, &credential).await {
            Err(Error::Refused(_)) => self.force(member).await,
            joined => joined,
        }
    }

    /// Force-stops the current life, if any, and begins a new one.
    async fn force(&self, member: usize) -> Result<(), Error> {
        match self.client.force_stop(&self.name(member), "").await {
            Ok(_) | Err(Error::Refused(_)) => self.invite(member).await,
            Err(error) => Err(error),
        }
    }

    /// Waits until every member is connected and idle.
    async fn settle(&self) -> turmoil::Result {
        let began = Instant::now();
        loop {
            self.run_commands().await;
            let members = self.client.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await?.members;
            let is_busy = |m: &&v1::Member| m.inbox_depth > 0 || !m.connected || !m.pending_shutdown.is_empty();
            let left: Vec<_> = members.iter().filter(|m| m.name != LEAD).filter(is_busy).collect();
            let in_flight = match left.is_empty() {
                true => history::in_flight(&history::read(&self.play.directory)?),
                false => 0,
            };
            if left.is_empty() && in_flight == 0 && !self.play.is_renewing() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                for member in left {
                    let (depth, connected) = (member.inbox_depth, member.connected);
                    let detail = format!("{} has {depth} messages left, connected: {connected}", member.name);
                    self.play.note(LEAD, 3, What::Stuck { detail });
                }
                if in_flight > 0 {
                    let detail = format!("{in_flight} calls have no outcome");
                    self.play.note(LEAD, 3, What::Stuck { detail });
                }
                return Ok(());
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Shuts every member down.
    async fn shut_down(&self) -> Result<(), Error> {
        let count = self.play.shared().members.len();
        for member in 0..count {
            self.client.request_shutdown(&self.name(member), "That is all.").await?;
        }
        let gone = async {
            while self.play.shared().machines.iter().any(|machine| machine.process.is_some()) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(PATIENCE, gone).await.is_err() {
            let shared = self.play.shared();
            let left = shared.machines.iter().filter_map(|machine| Some((machine.member, machine.process?)));
            let left: Vec<_> = left.map(|(member, process)| (shared.members[member].name.clone(), process)).collect();
            drop(shared);
            for (name, process) in left {
                let detail = format!("process {process} does not exit");
                self.play.note(&name, process, What::Stuck { detail });
            }
        }
        Ok(())
    }
}
