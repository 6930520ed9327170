//! Findings about requests that wait for an answer.

use teamwire_proto::{
    v1::{self, Finding, FindingClass, ReceiptState, RequestKind},
    word,
};

use super::{Ages, Asker, finding::problem};

/// A pending request.
#[derive(Clone, Copy, Debug)]
pub struct PendingRequest<'r> {
    /// The request.
    pub request: &'r v1::Request,
    /// Of an order: what is known about its message at the host. `None` if the caller may not see that.
    pub at_host: Option<ReceiptState>,
}

/// Returns whether a pending request has waited too long for an answer.
pub fn is_overdue(ages: Ages, request: &v1::Request) -> bool {
    ages.is_too_long(ages.since(request.created_at.as_ref()))
}

/// Reports a request that has waited too long for an answer.
pub fn of_request(asker: &Asker<'_>, ages: Ages, pending: PendingRequest<'_>) -> Option<Finding> {
    let PendingRequest { request, at_host } = pending;
    if !is_overdue(ages, request) {
        return None;
    }
    let waits = word::age(ages.since(request.created_at.as_ref()));
    let (id, name) = (&request.id, &request.member);
    let decide = || format!("Decide it: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`.");
    let found = match request.kind() {
        RequestKind::Spawn => not_started(asker, request, at_host, &waits),
        RequestKind::PlanApproval => problem(
            FindingClass::PlanUnanswered,
            name,
            format!("{name}'s plan has waited {waits} for an answer."),
            match asker.can_lead() {
                true => decide(),
                false => format!("Only the lead can decide it. {}", asker.tell_lead()),
            },
        ),
        RequestKind::Permission => problem(
            FindingClass::PermissionUnanswered,
            name,
            format!("{name} has waited {waits} for permission: {}.", word::asked_for(request)),
            match request.approver.as_str() {
                approver if !asker.is(name) && (asker.can_lead() || asker.is(approver)) => decide(),
                "" => format!("Only the lead can decide it. {}", asker.tell_lead()),
                approver => format!("Only {approver} and the lead can decide it. Remind {approver}."),
            },
        ),
        RequestKind::Review => problem(
            FindingClass::ReviewUnanswered,
            name,
            format!("The review of {name}'s task {} has waited {waits}.", request.task_id),
            match request.approver.as_str() {
                approver if !asker.is(name) && (asker.can_lead() || asker.is(approver)) => {
                    format!("Look at it: `teamwire work diff {name}`. {}", decide())
                }
                "" => format!("Only the lead can decide it. {}", asker.tell_lead()),
                approver => format!("Only {approver} and the lead can decide it. Remind {approver}."),
            },
        ),
        // Only the lead and the member that was asked can do something about it.
        _ if !asker.can_lead() && !asker.is(name) => return None,
        _ => problem(
            FindingClass::NotExited,
            name,
            format!("{name} has not answered its shutdown request in {waits}."),
            match asker.is(name) {
                true => format!("Answer it: `teamwire approve {id}` or `teamwire reject {id} --reason \"…\"`."),
                false => format!(
                    "Wait for it (`teamwire requests {id} --wait`), or stop it: `teamwire shutdown {name} --force`."
                ),
            },
        ),
    };
    Some(Finding { request_id: id.clone(), ..found })
}

/// Reports an order that has waited too long for the start.
fn not_started(asker: &Asker<'_>, order: &v1::Request, at_host: Option<ReceiptState>, waits: &str) -> Finding {
    let (name, host) = (&order.member, &order.approver);
    let state = match at_host {
        Some(ReceiptState::Queued) => format!("from {host}, which has not answered"),
        Some(ReceiptState::Delivered | ReceiptState::Processed) => {
            format!("from {host}, which has the order and has not started it")
        }
        _ => format!("from {host}, and has not started"),
    };
    let next = format!(
        "Wait for it: `teamwire status --follow`. Or cancel it with `teamwire shutdown {name} --force`, and choose another host \
         from `teamwire hosts`."
    );
    let text = format!("{name} was ordered {waits} ago {state}.");
    problem(FindingClass::NotStarted, name, text, asker.advise_lead(next))
}
