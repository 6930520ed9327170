//! What the lead does: it sets the team up, gives work, answers plans, runs errands, and in the end has everybody go home.

use std::time::Duration;

use teamwire_chaos::{
    history::{self, Recorder, What},
    lead::{self, LEAD},
    stock, worker,
};
use teamwire_client::{Client, Error, Retry, v1};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    net,
    world::{Act, Errand, SECRET, Stage},
};

/// How often the lead gives work, and looks for plans.
const OFTEN: Duration = Duration::from_millis(300);

/// How long a call is tried. Longer than any fault lasts.
const CALL_PATIENCE: Duration = Duration::from_secs(60);

/// How long everything may take to be done once nothing is broken any more.
const PATIENCE: Duration = Duration::from_secs(90);

/// The lead at work.
struct Office {
    stage: Stage,
    /// Has no credential.
    stranger: Client,
    /// The lead, outside of any session.
    lead: Client,
}

/// Does all of it.
pub(crate) async fn run(stage: Stage) -> turmoil::Result {
    let stranger = net::client(&stage.address)?.with_retry(Retry::within(CALL_PATIENCE));
    let operator = stranger.with_credential(&format!("two:{SECRET}"))?;
    let create = v1::CreateTeamRequest { name: "simulated".to_owned(), ..Default::default() };
    let credential = operator.create_team(create).await?.credential;
    let lead = stranger.with_credential(&credential)?;
    let office = Office { stage, stranger, lead };
    let count = office.stage.shared().members.len();
    for member in 0..count {
        office.invite(member).await?;
    }
    office.stage.shared().act = Act::Broken;

    let mut work = JoinSet::new();
    let directory = office.stage.directory.to_path_buf();
    work.spawn(lead::read_all(office.lead.with_credential(&credential)?));
    work.spawn(lead::give_work(office.lead.clone(), directory.clone(), OFTEN));
    for (process, approve) in [(1, true), (2, false)] {
        let recorder = Recorder::open(&directory, LEAD, process)?;
        work.spawn(lead::decide(office.lead.clone(), recorder, directory.clone(), OFTEN, approve));
    }
    while office.act() == Act::Broken {
        office.run_errands().await;
        sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(office.stage.directory.join(worker::QUIET), "")?;
    office.settle().await?;
    office.stage.shared().act = Act::Ending;
    office.send_home().await?;
    work.shutdown().await;
    stock::take(&office.lead, &Recorder::open(&office.stage.directory, LEAD, 3)?).await?;
    office.stage.shared().act = Act::Over;
    Ok(())
}

impl Office {
    fn act(&self) -> Act {
        self.stage.shared().act
    }

    fn name(&self, member: usize) -> String {
        self.stage.shared().members[member].name.clone()
    }

    /// Begins a life with a new token.
    async fn invite(&self, member: usize) -> Result<(), Error> {
        let invite = v1::InviteRequest { member: self.name(member), ..Default::default() };
        let token = self.lead.invite(invite).await?.join_token;
        self.join(member, &token).await
    }

    async fn join(&self, member: usize, credential: &str) -> Result<(), Error> {
        let joined = self.stranger.with_credential(credential)?.join(v1::JoinRequest::default()).await?;
        let mut shared = self.stage.shared();
        let member = &mut shared.members[member];
        member.credential = joined.credential;
        member.needs_life = false;
        Ok(())
    }

    /// Does what the supervisor has asked for, one after the other. Whose life was ended is asked for again until it has
    /// another one.
    async fn run_errands(&self) {
        let errands = self.stage.shared().errands.clone();
        for errand in errands {
            let is_done = match errand {
                Errand::Dismiss(member) => {
                    let _ = self.lead.request_shutdown(&self.name(member), "Come back later.").await;
                    true
                }
                Errand::Renew(member) => self.renew(member).await.is_ok(),
                Errand::Force(member) => self.force(member).await.is_ok(),
            };
            if is_done {
                self.stage.shared().errands.retain(|other| *other != errand);
            }
        }
    }

    /// Begins a new life with the credential of the last one, or else by force.
    async fn renew(&self, member: usize) -> Result<(), Error> {
        let credential = self.stage.shared().members[member].credential.clone();
        match self.join(member, &credential).await {
            Err(Error::Refused(_)) => self.force(member).await,
            joined => joined,
        }
    }

    /// Ends a life, if there is one, and begins a new one.
    async fn force(&self, member: usize) -> Result<(), Error> {
        let stop = v1::ForceStopRequest { member: self.name(member), ..Default::default() };
        match self.lead.force_stop(stop).await {
            Ok(_) | Err(Error::Refused(_)) => self.invite(member).await,
            Err(error) => Err(error),
        }
    }

    /// Waits until every member is there and has nothing left to do.
    async fn settle(&self) -> turmoil::Result {
        let began = Instant::now();
        loop {
            self.run_errands().await;
            let members = self.lead.list_members(v1::ListMembersRequest::default()).await?.members;
            let is_busy = |m: &&v1::Member| m.inbox_depth > 0 || !m.connected || !m.pending_shutdown.is_empty();
            let left: Vec<_> = members.iter().filter(|m| m.name != LEAD).filter(is_busy).collect();
            let under_way = match left.is_empty() {
                true => history::under_way(&history::read(&self.stage.directory)?),
                false => 0,
            };
            if left.is_empty() && under_way == 0 && !self.stage.is_renewing() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                for member in left {
                    let (depth, connected) = (member.inbox_depth, member.connected);
                    let detail = format!("{} has {depth} messages left, connected: {connected}", member.name);
                    self.stage.note(LEAD, 3, What::Stuck { detail });
                }
                if under_way > 0 {
                    let detail = format!("{under_way} calls have not ended");
                    self.stage.note(LEAD, 3, What::Stuck { detail });
                }
                return Ok(());
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Has every member end.
    async fn send_home(&self) -> Result<(), Error> {
        let count = self.stage.shared().members.len();
        for member in 0..count {
            self.lead.request_shutdown(&self.name(member), "That is all.").await?;
        }
        let gone = async {
            while self.stage.shared().desks.iter().any(|desk| desk.process.is_some()) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(PATIENCE, gone).await.is_err() {
            let shared = self.stage.shared();
            let left = shared.desks.iter().filter_map(|desk| Some((desk.member, desk.process?)));
            let left: Vec<_> = left.map(|(member, process)| (shared.members[member].name.clone(), process)).collect();
            drop(shared);
            for (name, process) in left {
                let detail = format!("process {process} does not end");
                self.stage.note(&name, process, What::Stuck { detail });
            }
        }
        Ok(())
    }
}
