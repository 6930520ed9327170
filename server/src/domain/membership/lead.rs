//! Handing over and appointing the lead.

use teamwire_proto::{
    Reason, Refusal,
    v1::{self, NoticeKind, TeamEventKind},
};

use crate::{
    domain::{
        actor::Actor,
        history::{self, team_event},
        identity::{self, Admit, CallerCredentials, Principal},
        notices,
        query::show_team,
        records::TeamRecord,
        request,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// Makes another member the lead. `leases`: as just read.
pub fn set_lead(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SetLeadRequest,
    leases: &Leases,
) -> Result<v1::Team, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.lead_only("hand over the lead's role")?;
    let to =
        team.resolve_started(&request.member, "member", "Name another member, or start it again first.")?.name.clone();
    if team.is_lead(&to) {
        return Ok(show_team(&team));
    }
    if caller == Principal::Operator
        && let Some(lead) = team.member(&team.lead).filter(|lead| lead.life.is_live())
    {
        if !lead.is_away(leases) {
            return Err(Refusal::new(
                Reason::LeadActive,
                format!(
                    "{} leads and is live. Let it hand over its role, or appoint another lead once it is away or lost, or has \
                     exited.",
                    team.lead
                ),
            )
            .into());
        }
        tx.check_lease_gone(team.lead.folded());
    }
    let mut team = TeamRecord::clone(&team);
    let old = std::mem::replace(&mut team.lead, to.clone());
    history::append(tx, team_event(TeamEventKind::LeadChanged, &actor, to.as_str()));
    let open = match request::hand_on::hand_on(tx, &team, &to)? {
        0 => String::new(),
        1 => format!(" A request awaits an answer, and is in {to}'s inbox."),
        n => format!(" {n} requests await an answer, and are in {to}'s inbox."),
    };
    let notice = v1::Notice {
        kind: NoticeKind::LeadChanged.into(),
        member: to.to_string(),
        text: format!("{to} leads the team now, in place of {old}.{open}"),
        ..v1::Notice::default()
    };
    notices::notify(tx, &team, &[&Actor::Member(old), &Actor::Member(to)], notice)?;
    tx.put("", &team);
    Ok(show_team(&team))
}
