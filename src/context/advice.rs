//! What a person can do next after a call failed because of the caller's identity.

use teamwire_client::{Error, KeptIdentity, Reason, Retry, v1};

use super::{Caller, ContextArgs, Who};
use crate::failure::{Failure, REFUSED};

/// The metadata key of a refusal that says that the credential of an ended life may still join.
const MAY_JOIN: &str = "may_join";

/// The metadata key of a refusal that says which team was named.
const NAMED_TEAM: &str = "team";

/// Returns whether a refused call shows that its credential will never be accepted again, not even for joining.
///
/// False for `CREDENTIAL_INVALID`, which another coordinator at the same address also answers.
pub(crate) fn has_ended(error: &Error) -> bool {
    let reasons = [Reason::MemberStopped, Reason::SessionSuperseded, Reason::CredentialRevoked];
    error.reason().is_some_and(|reason| reasons.contains(&reason)) && !may_rejoin(error)
}

/// Returns whether a refused call shows that the member's life has ended, and that its credential may begin a new one.
pub(crate) fn may_rejoin(error: &Error) -> bool {
    let Error::Refused(refusal) = error else { return false };
    refusal.reason == Reason::MemberStopped && refusal.metadata.get(MAY_JOIN).is_some_and(|may| may == "true")
}

impl ContextArgs {
    /// Adds what to do next to a failure, and takes identities out of use that turn out to have ended.
    pub(crate) async fn explain(&self, failure: Failure) -> Failure {
        let refused = match &failure {
            Failure::Call(error @ Error::Refused(refusal)) => Some((error, refusal)),
            Failure::NotAMember => None,
            _ => return failure,
        };
        let Ok(caller) = self.caller(Who::Current) else { return failure };
        let Some((error, refusal)) = refused else {
            return self.without_member(&caller).await.unwrap_or(failure);
        };
        let advice = match refusal.reason {
            _ if may_rejoin(error) => self.way_back(&caller),
            Reason::TeamNotFound if caller.team.is_none() && !refusal.metadata.contains_key(NAMED_TEAM) => {
                return self.without_team(&caller).await.unwrap_or(failure);
            }
            Reason::NotPermitted if caller.member.is_none() => {
                return self.without_member(&caller).await.unwrap_or(failure);
            }
            Reason::CredentialInvalid
            | Reason::CredentialRevoked
            | Reason::MemberStopped
            | Reason::SessionSuperseded => self.drop_ended(&caller).await,
            Reason::LeadOnly => self.own_lead(&caller).await,
            _ => None,
        };
        failure.with_advice(advice)
    }

    /// Says which teams there are and how to act in them, for an operator who named none.
    async fn without_team(&self, operator: &Caller) -> Option<Failure> {
        let teams = team_names(operator).await?;
        let Some(first) = teams.first() else { return Some(no_team_yet()) };
        let own = self.own_choices()?.map_or_else(String::new, |choice| format!(" Or {choice}"));
        Some(Failure::with_code(
            REFUSED,
            format!(
                "You act as the operator, who belongs to no team. The teams are: {}. Name one, as in `teamwire --team {first} status`.\
                 {own}",
                teams.join(", ")
            ),
        ))
    }

    /// Says how to become a member, for an operator who named no team and called for something that only members do.
    async fn without_member(&self, operator: &Caller) -> Option<Failure> {
        if operator.team.is_some() {
            return None;
        }
        let teams = team_names(operator).await?;
        if teams.is_empty() {
            return Some(no_team_yet());
        }
        let next = match self.own_choices()? {
            Some(choice) => format!("To act as a member, {choice}"),
            None => "To become a member, join one of them: `teamwire invite NAME` as its lead or the operator prints the join \
                     string for `teamwire join`."
                .to_owned(),
        };
        Some(Failure::usage(format!(
            "Only a member can do this, and you act as the operator. The teams are: {}. {next}",
            teams.join(", ")
        )))
    }

    /// Says how to choose one of the identities that are saved here. `Some(None)`: there is none.
    fn own_choices(&self) -> Option<Option<String>> {
        let own = self.load().ok()?;
        let choice = own.identities.first().map(|first| {
            format!("choose one of your identities ({}), as in `teamwire use {}`.", own.names(), first.name())
        });
        Some(choice)
    }

    /// Removes the caller's saved identity if it has ended. If the coordinator does not know it, only makes it no
    /// longer current, since the coordinator's store may yet be restored.
    async fn drop_ended(&self, caller: &Caller) -> Option<String> {
        let (member, team) = (caller.member.as_deref()?, caller.team.as_deref()?);
        let known = [self.load().ok()?, self.load_runs().ok()?];
        let mut known = known.iter().flat_map(|file| &file.identities);
        let identity = known.find(|known| known.credential == caller.credential && known.address == caller.address)?;
        let client = caller.client.clone().with_retry(Retry::none());
        let error = client.get_team(v1::GetTeamRequest::default()).await.err()?;
        if has_ended(&error) {
            self.forget(std::slice::from_ref(identity)).ok()?;
            return Some(format!("{member}@{team} was removed from your identities."));
        }
        if error.reason() != Some(Reason::CredentialInvalid) || self.load().ok()?.current != Some(identity.name()) {
            return None;
        }
        self.update(|file| file.current = None).ok()?;
        Some(format!(
            "{member}@{team} is no longer your current identity. `teamwire identities` shows which of yours still work."
        ))
    }

    /// Says how a person whose life has ended begins a new one.
    fn way_back(&self, caller: &Caller) -> Option<String> {
        let own = self.own_identity(caller).ok()?.filter(|_| !super::is_within_runner())?;
        Some(format!("To continue as {} at the command line: {}", own.name(), self.rejoin_command(&own)))
    }

    /// Returns the command that begins a new life at the command line with a person's own identity.
    pub(crate) fn rejoin_command(&self, own: &KeptIdentity) -> String {
        let is_current = self.load().is_ok_and(|file| file.current == Some(own.name()));
        if is_current { "teamwire join".to_owned() } else { format!("teamwire --as {} join", own.name()) }
    }

    /// Names the lead's identity, if it is saved here, too.
    async fn own_lead(&self, caller: &Caller) -> Option<String> {
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await.ok()?.team?;
        let file = self.load().ok()?;
        let lead = file.find(&team.lead, Some(&team.name)).filter(|_| !super::is_within_runner())?;
        Some(format!("You are also {0}: add --as {0}.", lead.name()))
    }
}

/// Returns the names of all teams, for an operator.
async fn team_names(operator: &Caller) -> Option<Vec<String>> {
    let listed = operator.client.list_all_teams(v1::ListTeamsRequest::default(), usize::MAX).await.ok()?;
    Some(listed.teams.into_iter().map(|team| team.name).collect())
}

fn no_team_yet() -> Failure {
    Failure::with_code(REFUSED, "There is no team yet. Create one: teamwire team create NAME")
}

impl Failure {
    /// Adds a sentence to the message.
    fn with_advice(self, advice: Option<String>) -> Self {
        match (self, advice) {
            (Self::Call(Error::Refused(mut refusal)), Some(advice)) => {
                refusal.message = format!("{} {advice}", refusal.message);
                Self::Call(Error::Refused(refusal))
            }
            (failure, _) => failure,
        }
    }
}
