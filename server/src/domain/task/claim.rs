//! Claiming tasks, completing them, giving them back.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, TaskEventKind},
};

use super::{
    Change,
    board::{Place, Status, TaskRecord, WaitingRecord, each, show},
    claimed, find, idempotency_key, read_board, record, record_id, refuse_closed, revoke, rules, write,
};
use crate::domain::{
    identity::{self, Admit, CallerCredentials, Principal},
    membership,
    record::{Life, TeamRecord},
    roster::Actor,
    send::{check_line, check_size, digest, keep, recall},
    tx::{RuleError, Tx},
};

/// How many tasks a notice names.
const IDS_NAMED_MAX: usize = 32;

/// Claims one task.
pub fn claim(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::ClaimTaskRequest) -> Result<v1::Claim, RuleError> {
    let (team, name) = identity::member(tx, who, Admit::Live)?;
    let bare = v1::ClaimTaskRequest { idempotency_key: String::new(), ..request.clone() };
    let claimer = Claimer { team: &team, name: &name, fingerprint: digest(&bare, None) };
    let key = idempotency_key(&Actor::Member(name.clone()), "claim", &request.idempotency_key)?;
    if let Some(claim) = claimer.recall(tx, key.as_deref())? {
        return Ok(claim);
    }
    claimer.check_plan()?;
    let change = Change::begin(tx)?;
    let task = find(tx, &change.board, request.task_id)?;
    refuse_closed(&task)?;
    if task.status == Status::InProgress && task.is_owned_by(&name) {
        return Err(Refusal::new(
            Reason::TaskClaimed,
            format!("You have claimed task {0} already; its token is in `teamwire task show {0}`.", task.id),
        )
        .field("task_id")
        .with("owner", name.as_str())
        .into());
    }
    if task.status == Status::InProgress || task.owner.as_ref().is_some_and(|owner| *owner != name) {
        return Err(claimed(&task).into());
    }
    refuse_blocked(&change, &task)?;
    claimer.take(tx, change, task, key.as_deref())
}

/// Claims the task that the caller should do next. `None`: there is none.
pub fn claim_next(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ClaimNextTaskRequest,
) -> Result<Option<v1::Claim>, RuleError> {
    let (team, name) = identity::member(tx, who, Admit::Live)?;
    let bare = v1::ClaimNextTaskRequest { idempotency_key: String::new(), wait: None };
    let claimer = Claimer { team: &team, name: &name, fingerprint: digest(&bare, None) };
    let key = idempotency_key(&Actor::Member(name.clone()), "next", &request.idempotency_key)?;
    if let Some(claim) = claimer.recall(tx, key.as_deref())? {
        return Ok(Some(claim));
    }
    claimer.check_plan()?;
    let change = Change::begin(tx)?;
    let Some(id) = change.board.next_for(&name) else { return Ok(None) };
    let task = find(tx, &change.board, id)?;
    claimer.take(tx, change, task, key.as_deref()).map(Some)
}

/// A member that wants a task.
struct Claimer<'a> {
    team: &'a TeamRecord,
    name: &'a Name,
    fingerprint: [u8; 16],
}

impl Claimer<'_> {
    fn recall(&self, tx: &mut Tx<'_>, key: Option<&str>) -> Result<Option<v1::Claim>, RuleError> {
        key.map_or(Ok(None), |key| recall(tx, key, &self.fingerprint))
    }

    fn check_plan(&self) -> Result<(), Refusal> {
        check_plan(self.team, self.name)
    }

    fn take(
        &self,
        tx: &mut Tx<'_>,
        mut change: Change,
        mut task: TaskRecord,
        key: Option<&str>,
    ) -> Result<v1::Claim, RuleError> {
        let max = tx.ctx.limits.claims_max;
        if change.board.claimed_by(self.name).len() >= max {
            return Err(Refusal::new(
                Reason::QuotaExceeded,
                format!("You hold {max} tasks, which is the most. Complete or release one first."),
            )
            .into());
        }
        // Whoever is lost and calls is found with this very claim: nothing would end the claim of one that stays lost.
        if self.team.member(self.name).is_some_and(|member| member.life == Life::Lost) {
            membership::renew(tx, std::slice::from_ref(self.name))?;
        }
        task.status = Status::InProgress;
        task.owner = Some(self.name.clone());
        task.attempts += 1;
        task.claimed_ms = tx.ctx.now_ms;
        let token = tx.new_secret();
        task.claim = Some(token.clone());
        change.board.place(task.id, Place::Claimed(self.name.clone()));
        write(tx, &mut task);
        record(tx, TaskEventKind::Claimed, &task, &Actor::Member(self.name.clone()), "");
        let board = change.finish(tx);
        let claim = v1::Claim { task: Some(show(&task, &board)), token };
        if let Some(key) = key {
            keep(tx, key, &self.fingerprint, &claim);
        }
        Ok(claim)
    }
}

/// Completes a task. Returns it, and those that wait no more.
pub fn complete(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CompleteTaskRequest,
) -> Result<v1::CompleteTaskResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let actor = caller.party()?;
    check_size(&request.result, "result", &tx.ctx.limits)?;
    if let Principal::Member { name, .. } = &caller {
        check_plan(&team, name)?;
    }
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    if is_repeated(&task, Status::Completed, &request.claim_token) || is_repeated_by_ruler(&caller, &task, request) {
        return Ok(v1::CompleteTaskResponse { task: Some(show(&task, &change.board)), unblocked: Vec::new() });
    }
    refuse_closed(&task)?;
    check_claim(&caller, &task, &request.claim_token)?;
    refuse_blocked(&change, &task)?;
    if task.status == Status::InProgress {
        revoke(tx, &team, &actor, &task);
    }
    if let (None, Principal::Member { name, .. }) = (&task.owner, &caller) {
        task.owner = Some(name.clone());
    }
    // Only who has completed it with the token may say so again with the token.
    task.claim = task.claim.take().filter(|token| *token == request.claim_token);
    task.status = Status::Completed;
    task.closed_ms = tx.ctx.now_ms;
    task.result.clone_from(&request.result);
    let unblocked = change.close(task.id, Place::Completed);
    write(tx, &mut task);
    record(tx, TaskEventKind::Completed, &task, &actor, "");
    let board = change.finish(tx);
    Ok(v1::CompleteTaskResponse { task: Some(show(&task, &board)), unblocked })
}

/// Gives a claimed task back to the board.
pub fn release(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ReleaseTaskRequest,
) -> Result<v1::Task, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let actor = caller.party()?;
    check_line(&request.reason, "reason", Reason::InvalidField, &tx.ctx.limits)?;
    let mut change = Change::begin(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    if is_repeated(&task, Status::Pending, &request.claim_token) {
        return Ok(show(&task, &change.board));
    }
    refuse_closed(&task)?;
    check_claim(&caller, &task, &request.claim_token)?;
    if task.status == Status::InProgress {
        revoke(tx, &team, &actor, &task);
        let kept = task.claim.take().filter(|token| *token == request.claim_token);
        back_to_the_board(tx, &mut change, &mut task, kept, &request.reason);
        record(tx, TaskEventKind::Released, &task, &actor, &request.reason);
        let board = change.finish(tx);
        return Ok(show(&task, &board));
    }
    // Nothing to give back, and nobody to take it from.
    Ok(show(&task, &change.board))
}

/// Gives back all that a member has claimed, because its life has ended. Returns the tasks.
pub fn give_back(tx: &mut Tx<'_>, name: &Name, because: &str) -> Result<Vec<u64>, RuleError> {
    let mut change = Change::begin(tx)?;
    let ids = change.board.claimed_by(name);
    if ids.is_empty() {
        return Ok(ids);
    }
    tx.want::<TaskRecord>(ids.iter().map(|id| record_id(*id)))?;
    for id in &ids {
        let mut task = find(tx, &change.board, *id)?;
        let owner = task.owner.clone();
        back_to_the_board(tx, &mut change, &mut task, None, because);
        let lapsed = TaskRecord { owner, ..task };
        record(tx, TaskEventKind::Lapsed, &lapsed, &Actor::Coordinator, because);
    }
    change.finish(tx);
    Ok(ids)
}

/// Returns the tasks that are assigned to a member and not claimed, blocked ones included.
pub fn still_assigned(tx: &mut Tx<'_>, name: &Name) -> Result<Vec<u64>, RuleError> {
    let mut ids = read_board(tx)?.assigned.get(name).map_or_else(Vec::new, each);
    let record = tx.read::<WaitingRecord>("")?.unwrap_or_default();
    let waiting = record.waiting.iter().filter(|(_, waiting)| waiting.owner.as_ref() == Some(name));
    ids.extend(waiting.map(|(id, _)| *id));
    ids.sort_unstable();
    Ok(ids)
}

/// Says of tasks of a member that is gone that nobody else will take them. Empty: there are none.
pub fn still_assigned_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Task {id} is still assigned to it: assign it anew."),
        _ => format!(" Tasks {} are still assigned to it: assign them anew.", enumerate(ids)),
    }
}

/// Says of tasks that were given back what has become of them. Empty: there were none.
pub fn given_back_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Its task {id} is back on the board."),
        _ => format!(" Its tasks {} are back on the board.", enumerate(ids)),
    }
}

/// Lists ids for a reader; of many only the first.
fn enumerate(ids: &[u64]) -> String {
    let list: Vec<String> = ids.iter().take(IDS_NAMED_MAX).map(u64::to_string).collect();
    match ids.len().saturating_sub(IDS_NAMED_MAX) {
        0 => list.join(", "),
        more => format!("{} and {more} more", list.join(", ")),
    }
}

fn back_to_the_board(tx: &mut Tx<'_>, change: &mut Change, task: &mut TaskRecord, kept: Option<String>, because: &str) {
    task.status = Status::Pending;
    task.owner = None;
    task.claim = kept;
    because.clone_into(&mut task.released_because);
    // What is in progress waits for nothing.
    change.board.place(task.id, Place::Ready);
    write(tx, task);
}

/// Returns whether the owner says again what it has said with this token.
fn is_repeated(task: &TaskRecord, status: Status, token: &str) -> bool {
    task.status == status && !token.is_empty() && task.claim.as_deref() == Some(token)
}

/// Returns whether the lead or the operator, which need no token, say again what they have said.
fn is_repeated_by_ruler(caller: &Principal, task: &TaskRecord, request: &v1::CompleteTaskRequest) -> bool {
    let was_ruled = task.status == Status::Completed && task.claim.is_none() && task.result == request.result;
    was_ruled && request.claim_token.is_empty() && rules(caller)
}

/// Checks the token of the owner's claim. The lead and the operator need none for another's task.
fn check_claim(caller: &Principal, task: &TaskRecord, token: &str) -> Result<(), Refusal> {
    let holds = matches!(caller, Principal::Member { name, .. } if task.is_owned_by(name));
    if task.status == Status::InProgress && holds && task.claim.as_deref() == Some(token) {
        return Ok(());
    }
    if rules(caller) && token.is_empty() {
        return Ok(());
    }
    if token.is_empty() && !holds && task.status == Status::InProgress {
        return Err(claimed(task));
    }
    let text = match (&task.status, &task.owner) {
        (Status::Pending, _) if token.is_empty() => "is not claimed. Claim it first".to_owned(),
        (Status::InProgress, Some(owner)) => {
            format!("is in progress with {owner}, and this is not the token of that claim. RuleError working on it")
        }
        _ => "is back on the board: the claim of this token has ended. RuleError working on it, or claim it again"
            .to_owned(),
    };
    Err(Refusal::new(Reason::StaleClaim, format!("Task {} {text}.", task.id)).field("claim_token"))
}

fn refuse_blocked(change: &Change, task: &TaskRecord) -> Result<(), Refusal> {
    let open: Vec<String> =
        task.blocked_by.iter().filter(|id| change.board.is_open(**id)).map(u64::to_string).collect();
    if open.is_empty() {
        return Ok(());
    }
    let list = open.join(", ");
    Err(Refusal::new(
        Reason::TaskBlocked,
        format!("Task {} waits for {list}. Do those first, or take what is ready with `teamwire task next`.", task.id),
    )
    .field("task_id")
    .with("waiting_for", list))
}

/// Refuses work to a member whose plan must be approved first.
fn check_plan(team: &TeamRecord, name: &Name) -> Result<(), Refusal> {
    let Some(member) = team.member(name).filter(|member| member.plan_required()) else { return Ok(()) };
    let text = match &member.pending_plan {
        Some(pending) => format!(
            "{name} must have a plan approved before it works on tasks; the lead has not answered {} yet. Wait for its \
             answer with `teamwire requests {0} --wait`.",
            pending.id
        ),
        None => format!(
            "{name} must have a plan approved before it works on tasks. Submit one with `teamwire plan submit PLAN`, and wait \
             until the lead approves it."
        ),
    };
    let refusal = Refusal::new(Reason::PlanRequired, text);
    Err(match &member.pending_plan {
        Some(pending) => refusal.with("request_id", pending.id.clone()),
        None => refusal,
    })
}
