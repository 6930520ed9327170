//! Finding and addressing the members of a team.

use teamwire_proto::{
    Reason, Refusal,
    name::{Address, Name},
};

use super::{
    limits::Limits,
    records::{Life, MemberRecord, Pending, TeamRecord},
};
use crate::store::Leases;

impl TeamRecord {
    /// Returns the member with this name.
    pub fn member(&self, name: &Name) -> Option<&MemberRecord> {
        self.members.iter().find(|member| member.name == *name)
    }

    /// Returns the member with this name, for changing it.
    pub fn member_mut(&mut self, name: &Name) -> Option<&mut MemberRecord> {
        self.members.iter_mut().find(|member| member.name == *name)
    }

    /// Returns where a list of the members continues after a member. If that member was removed from the roster, the
    /// list starts over: it repeats members rather than leaving any out.
    pub fn place_after(&self, name: Option<&Name>) -> usize {
        name.and_then(|name| self.members.iter().position(|member| member.name == *name)).map_or(0, |place| place + 1)
    }

    /// Returns whether the member leads.
    pub fn is_lead(&self, name: &Name) -> bool {
        self.lead == *name
    }

    /// Returns the hosts, in the order in which they first joined.
    pub fn hosts(&self) -> impl Iterator<Item = &MemberRecord> {
        self.members.iter().filter(|member| member.is_host)
    }

    /// Returns how many of a host's slots are taken: by pending orders, and by members that it started and whose lives
    /// have not ended.
    pub fn slots_used(&self, host: &Name) -> u32 {
        let is_on_host = |member: &&MemberRecord| member.ordered.as_ref().is_some_and(|ordered| ordered.host == *host);
        let count = self.members.iter().filter(is_on_host).filter(|member| member.life.holds_name()).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Refuses another member if the team has as many as it may have.
    pub fn check_room(&self, limits: &Limits) -> Result<(), Refusal> {
        let count = self.members.len();
        if count < limits.members_max {
            return Ok(());
        }
        let text =
            format!("The team has {count} members, which is the limit. Use the name of a member that has exited.");
        Err(Refusal::new(Reason::QuotaExceeded, text))
    }

    /// Resolves an address to a member that is not a host: `name`, `name@team` with this team, or the lead's alias.
    pub fn resolve(&self, text: &str, field: &str) -> Result<&MemberRecord, Refusal> {
        let member = self.resolve_any(text, field)?;
        if !member.is_host {
            return Ok(member);
        }
        let text = format!("{} is a host, not a member: it takes orders only. See `teamwire hosts`.", member.name);
        Err(Refusal::new(Reason::AgentNotFound, text).field(field))
    }

    /// Resolves an address to a member or a host.
    pub fn resolve_any(&self, text: &str, field: &str) -> Result<&MemberRecord, Refusal> {
        let address = Address::parse(text, field)?;
        if let Some(team) = &address.team
            && *team != self.name
        {
            return Err(Refusal::new(
                Reason::TeamMismatch,
                format!(
                    "You are in team {}, not in {team}. Leave out \"@{team}\", or name a member of your own team.",
                    self.name
                ),
            )
            .field(field));
        }
        let name = if address.is_lead_alias() { &self.lead } else { &address.member };
        self.member(name).ok_or_else(|| self.not_found(name, field))
    }

    /// Resolves an address to a member that acts: its life has not ended, and it has started. `instead`: what the
    /// caller can do if its life has ended, as a sentence.
    pub fn resolve_started(&self, text: &str, field: &str, instead: &str) -> Result<&MemberRecord, Refusal> {
        self.resolve(text, field)?.started(field, instead)
    }

    /// Resolves an address to a member that messages reach: its life has not ended, or it is about to start. `instead`:
    /// what the caller can do if its life has ended, as a sentence.
    pub fn resolve_receiver(&self, text: &str, field: &str, instead: &str) -> Result<&MemberRecord, Refusal> {
        self.resolve(text, field)?.receiver(field, instead)
    }

    fn not_found(&self, name: &Name, field: &str) -> Refusal {
        let members = self.members.iter().filter(|member| !member.is_host);
        let of_type = members.filter(|member| member.attributes.agent_type.eq_ignore_ascii_case(name.as_str()));
        let of_type: Vec<_> = of_type.take(20).map(|member| member.name.as_str()).collect();
        if let Some(first) = of_type.first() {
            let text = format!(
                "\"{name}\" is a type of agent, and no member of team {} has this name. Address a member of the type by its name: {}.",
                self.name,
                of_type.join(", ")
            );
            return Refusal::new(Reason::AgentNotFound, text).with("closest", *first).field(field);
        }
        let closest = self
            .members
            .iter()
            .filter(|member| !member.is_host)
            .map(|member| (strsim::jaro_winkler(member.name.folded(), name.folded()), &member.name))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let mut refusal = match closest {
            Some((likeness, closest)) if likeness > 0.7 => Refusal::new(
                Reason::AgentNotFound,
                format!("There is no member \"{name}\" in team {}. Did you mean \"{closest}\"?", self.name),
            )
            .with("closest", closest.as_str()),
            _ => {
                let members = self.members.iter().filter(|member| !member.is_host);
                let known: Vec<_> = members.take(20).map(|member| member.name.as_str()).collect();
                Refusal::new(
                    Reason::AgentNotFound,
                    format!(
                        "There is no member \"{name}\" in team {}. Its members are: {}.",
                        self.name,
                        known.join(", ")
                    ),
                )
            }
        };
        refusal = refusal.field(field);
        refusal
    }
}

impl MemberRecord {
    /// Refuses a member whose life has ended. `instead`: see [`TeamRecord::resolve_receiver`].
    pub fn receiver(&self, field: &str, instead: &str) -> Result<&Self, Refusal> {
        let Some(why) = self.life.how_it_ends() else { return Ok(self) };
        Err(Refusal::new(Reason::AgentExited, format!("{} {why}. {instead}", self.name)).field(field))
    }

    /// Refuses a member that does not act: its life has ended, or it has not started. `instead`: see
    /// [`TeamRecord::resolve_started`].
    pub fn started(&self, field: &str, instead: &str) -> Result<&Self, Refusal> {
        let member = self.receiver(field, instead)?;
        if member.life != Life::Spawning {
            return Ok(member);
        }
        let text = format!(
            "{} has not started yet. Wait until it has, or cancel its start with `teamwire shutdown {0} --force`.",
            member.name
        );
        Err(Refusal::new(Reason::AgentExited, text).field(field))
    }

    /// Returns whether a detached life is away: its lease has run out, so it has no session open and has not called for
    /// the time of a lease. `leases`: as just read.
    pub fn is_away(&self, leases: &Leases) -> bool {
        let until_ms = leases.until_ms.get(self.name.folded()).copied().unwrap_or(0);
        self.detached && self.life == Life::Live && until_ms <= leases.now_ms
    }

    /// Returns whether work on tasks is refused until a plan is approved.
    pub fn plan_required(&self) -> bool {
        self.plan_mode_required && !self.plan_approved
    }

    /// Returns its requests that await an answer and end with its life: all but reviews.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        let single = self.pending_shutdown.iter().chain(&self.pending_plan).chain(&self.pending_order);
        single.chain(&self.pending_permissions)
    }

    /// Removes a request from those that await an answer.
    pub fn remove_pending(&mut self, request_id: &str) {
        for pending in [&mut self.pending_shutdown, &mut self.pending_plan, &mut self.pending_order] {
            pending.take_if(|pending| pending.id.as_str() == request_id);
        }
        for pending in [&mut self.pending_permissions, &mut self.pending_reviews] {
            pending.retain(|pending| pending.id.as_str() != request_id);
        }
    }

    /// Changes the state of the member's life.
    pub fn enter(&mut self, life: Life, now_ms: u64) {
        self.life = life;
        self.since_ms = now_ms;
    }
}
