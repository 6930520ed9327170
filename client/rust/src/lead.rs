//! The lead's calls: creates a team, invites hosts, lists hosts and members, ends members, and hands over the lead.

use std::time::Duration;

use teamwire_proto::{
    Method, Reason, Refusal,
    v1::{self, MemberState, RequestState},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Client, Error,
    client::{Call, teams},
};

/// The first delay between two checks of a member that is exiting. It doubles up to [`EXIT_DELAY_MAX`].
const EXIT_DELAY_MIN: Duration = Duration::from_millis(100);
const EXIT_DELAY_MAX: Duration = Duration::from_secs(1);

/// How a shutdown ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Shutdown {
    /// The request, with its decision. Still pending if the time ran out first.
    pub request: v1::Request,
    /// How the member's process ended. `None` if it has not exited in time, or no exit was reported.
    pub exit: Option<v1::ExitReport>,
}

impl Client {
    /// Creates a team as an operator, and returns its lead's client. `lead`: the lead's name; empty for `lead`.
    pub async fn create_team(&self, name: &str, lead: &str) -> Result<Self, Error> {
        let request = v1::CreateTeamRequest { name: name.to_owned(), lead_name: lead.to_owned(), ..Default::default() };
        let created = self.create_team_with(request).await?;
        Ok(self.with_credential(&created.credential)?.with_team(String::new()))
    }

    /// Lists all members of the team, in the order in which they first joined, including those that have exited.
    pub async fn members(&self) -> Result<Vec<v1::Member>, Error> {
        Ok(self.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await?.members)
    }

    /// Lists all hosts of the team, in the order in which they first joined, including those that have exited.
    pub async fn all_hosts(&self) -> Result<Vec<v1::Host>, Error> {
        Ok(self.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await?.hosts)
    }

    /// Asks a member to shut down, and waits up to `patience` for its decision and, unless it rejects the request, for
    /// its exit. If the coordinator cannot be reached while the member exits, the exit is unknown when the time is over.
    ///
    /// If a request is already pending for the member, waits for that one.
    pub async fn shutdown(&self, member: &str, reason: &str, patience: Duration) -> Result<Shutdown, Error> {
        let began = Instant::now();
        let request_id = self.request_shutdown(member, reason).await?;
        let left = || patience.saturating_sub(began.elapsed());
        let request = self.wait_decision(&request_id, left()).await?;
        let exit = match request.state() {
            // A coordinator that does not answer must not make the wait longer.
            RequestState::Approved | RequestState::Cancelled => {
                timeout(left(), self.wait_exit(&request)).await.unwrap_or(Ok(None))?
            }
            _ => None,
        };
        Ok(Shutdown { request, exit })
    }

    /// Waits until the life of the member that was asked has ended, and returns how.
    async fn wait_exit(&self, request: &v1::Request) -> Result<Option<v1::ExitReport>, Error> {
        let mut delay = EXIT_DELAY_MIN;
        loop {
            let asked = |member: &v1::Member| {
                member.name.eq_ignore_ascii_case(&request.member) && member.incarnation == request.incarnation
            };
            match self.members().await?.into_iter().find(asked) {
                Some(member) if matches!(member.state(), MemberState::Exited | MemberState::Lost) => {
                    return Ok(member.exit);
                }
                Some(_) => sleep(delay).await,
                None => return Ok(None),
            }
            delay = (2 * delay).min(EXIT_DELAY_MAX);
        }
    }

    /// Stops a member at once, without asking it. Returns the member after the change.
    pub async fn force_stop(&self, member: &str, reason: &str) -> Result<v1::Member, Error> {
        let (member, reason, mut team) = (member.to_owned(), reason.to_owned(), String::new());
        self.fill(&mut team);
        let request = v1::ForceStopRequest { team, member, reason };
        let call = Call::of(Method::ForceStop);
        let stopped =
            self.call(call, request, |channel, request| async move { teams(channel).force_stop(request).await });
        stopped.await?.member.ok_or_else(|| incomplete("member"))
    }
}

pub(crate) fn incomplete(what: &str) -> Error {
    let text = format!("The coordinator answered without the {what}. Report this as a bug.");
    Error::Refused(Refusal::new(Reason::Internal, text))
}
