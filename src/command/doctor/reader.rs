//! The reader of the findings, on whose rights the advice depends.

use teamwire_client::v1;
use teamwire_proto::{credential::Credential, v1::Role};

use crate::{context::Caller, show};

/// The caller, as far as it decides what it can do about a finding.
pub(super) struct Reader {
    rights: Rights,
    /// The caller's name. `None` if it is not a member.
    own: Option<String>,
    /// The coordinator would refuse a teammate's message.
    is_team_full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Operator,
    Lead,
    Teammate,
    Observer,
}

impl Reader {
    pub(super) fn new(caller: &Caller, team: &v1::Team) -> Self {
        let rights = match Credential::parse(&caller.credential) {
            Ok(Credential::Operator { .. }) => Rights::Operator,
            Ok(Credential::Member { .. }) if caller.is(&team.lead) => Rights::Lead,
            Ok(Credential::Member { .. }) => Rights::Teammate,
            _ => Rights::Observer,
        };
        Self { rights, own: caller.member.clone(), is_team_full: show::is_full(team) }
    }

    /// Returns whether a name is the reader's own.
    pub(super) fn is(&self, name: &str) -> bool {
        self.own.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns whether the reader may invite members, shut them down, and decide plans and permissions.
    pub(super) fn can_lead(&self) -> bool {
        matches!(self.rights, Rights::Operator | Rights::Lead)
    }

    /// Returns whether the coordinator would accept a message from the reader.
    pub(super) fn can_send(&self) -> bool {
        match self.rights {
            Rights::Operator | Rights::Lead => true,
            Rights::Teammate => !self.is_team_full,
            Rights::Observer => false,
        }
    }

    /// Returns the advice for a lead if the reader can act as one, and otherwise the way to the person who can.
    pub(super) fn advise(&self, member: &v1::Member, as_lead: String) -> String {
        let is_lead = member.role() == Role::Lead;
        match self.rights {
            Rights::Operator if is_lead => {
                format!("{as_lead} Or make another member the lead: `teamwire team lead NAME`.")
            }
            Rights::Operator | Rights::Lead => as_lead,
            Rights::Teammate | Rights::Observer if is_lead => {
                "Tell the coordinator's operator, who can make another member the lead.".to_owned()
            }
            Rights::Teammate | Rights::Observer => self.tell_lead(),
        }
    }

    /// Says how to reach the lead.
    pub(super) fn tell_lead(&self) -> String {
        match self.rights {
            Rights::Teammate if !self.can_send() => {
                "Tell the lead in another way: the team has used its quota, so messages are refused.".to_owned()
            }
            Rights::Teammate => "Tell the lead: `teamwire send team-lead \"…\"`.".to_owned(),
            _ => "Tell the lead.".to_owned(),
        }
    }
}
