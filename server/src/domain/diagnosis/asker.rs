//! The caller that asks for a diagnosis, on whose rights the advice depends.

use teamwire_proto::v1::{self, Role};

use crate::domain::caller::Principal;

/// The caller, and what it can do about a finding.
#[derive(Debug)]
pub struct Asker<'c> {
    caller: &'c Principal,
    /// The coordinator would refuse a teammate's message.
    is_team_full: bool,
}

impl<'c> Asker<'c> {
    /// Describes a caller. `is_team_full`: whether its team has used its quota.
    pub fn new(caller: &'c Principal, is_team_full: bool) -> Self {
        Self { caller, is_team_full }
    }

    /// Returns whether a name is the caller's own.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.caller, Principal::Member { name: own, .. } if own.folded().eq_ignore_ascii_case(name))
    }

    /// Returns whether the caller may read a member's inbox.
    pub(super) fn may_read_inbox_of(&self, name: &str) -> bool {
        self.caller.sees_all() || self.is(name)
    }

    /// Returns whether the caller may invite members, shut them down, and decide plans and permissions.
    pub(super) fn can_lead(&self) -> bool {
        matches!(self.caller, Principal::Operator | Principal::Member { lead: true, .. })
    }

    /// Returns whether the coordinator would accept a message from the caller.
    pub(super) fn can_send(&self) -> bool {
        match self.caller {
            Principal::Operator | Principal::Member { lead: true, .. } => true,
            Principal::Member { .. } => !self.is_team_full,
            Principal::Observer => false,
        }
    }

    /// Returns the advice for a lead if the caller can act as one, and otherwise the way to the person who can.
    pub(super) fn advise(&self, member: &v1::Member, as_lead: String) -> String {
        match (self.caller, member.role() == Role::Lead) {
            (Principal::Operator, true) => {
                format!("{as_lead} Or make another member the lead: `teamwire team lead NAME`.")
            }
            (Principal::Operator | Principal::Member { lead: true, .. }, _) => as_lead,
            (_, true) => "Tell the coordinator's operator, who can make another member the lead.".to_owned(),
            (_, false) => self.tell_lead(),
        }
    }

    /// Returns the advice for a lead, or the way to it.
    pub(super) fn advise_lead(&self, as_lead: String) -> String {
        if self.can_lead() { as_lead } else { self.tell_lead() }
    }

    /// Says how to reach the lead.
    pub(super) fn tell_lead(&self) -> String {
        match self.caller {
            Principal::Member { lead: false, .. } if !self.can_send() => {
                "Tell the lead in another way: the team has used its quota, so messages are refused.".to_owned()
            }
            Principal::Member { lead: false, .. } => "Tell the lead: `teamwire send team-lead \"…\"`.".to_owned(),
            _ => "Tell the lead.".to_owned(),
        }
    }
}
