//! Claiming tasks, completing and releasing them.

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    name::Name,
    v1::{self, TaskEventKind},
};

use super::{
    authority::{claimed, is_lead_or_operator, refuse_closed},
    board::{BoardRecord, Place, Release, Status, TaskRecord, listed, record_id, show},
    change::{Change, find, read_board, record},
    give_back::back_to_the_board,
    notices::{tell_revoked, tell_subscribers},
    paths::{self, Overlap},
    remembered::{fill_in, shortened},
    review,
};
use crate::domain::{
    actor::Actor,
    idempotency::{KeyedCall, fingerprint},
    identity::{self, Admit, CallerCredentials, Principal, Spender},
    life,
    records::{Event, Life, SubscribersRecord, TeamRecord},
    request,
    secret::ClaimToken,
    text::{check_line, check_size},
    time::{ms, timestamp},
    tx::{RuleError, Tx},
};

/// Of how many overlaps with other tasks a claim warns.
const WARNINGS_MAX: usize = 5;

/// How long a result may be that needs no room in a full team.
const RESULT_BYTES_IN_FULL_TEAM: usize = 1_024;

/// Claims one task.
pub fn claim(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::ClaimTaskRequest) -> Result<v1::Claim, RuleError> {
    let (team, name) = identity::member(tx, who, Admit::Live)?;
    let bare = v1::ClaimTaskRequest { idempotency_key: String::new(), ..request.clone() };
    let scope = format!("task/claim/{}", name.folded());
    let call = KeyedCall::new(&scope, &request.idempotency_key, fingerprint(&bare, None))?;
    if let Some(claim) = replayed(tx, &call)? {
        return Ok(claim);
    }
    check_plan(&team, &name)?;
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
    if task.is_held() || task.owner.as_ref().is_some_and(|owner| *owner != name) {
        return Err(claimed(&task).into());
    }
    refuse_blocked(&change, &task)?;
    refuse_excluded(tx, &change, &task, &name)?;
    take(tx, &team, &name, change, task, &call)
}

/// Claims the task that the caller should do next. `None` if no task is ready for it.
pub fn claim_next(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ClaimNextTaskRequest,
) -> Result<Option<v1::Claim>, RuleError> {
    let (team, name) = identity::member(tx, who, Admit::Live)?;
    let bare = v1::ClaimNextTaskRequest { idempotency_key: String::new(), wait: None };
    let scope = format!("task/next/{}", name.folded());
    let call = KeyedCall::new(&scope, &request.idempotency_key, fingerprint(&bare, None))?;
    if let Some(claim) = replayed(tx, &call)? {
        return Ok(Some(claim));
    }
    check_plan(&team, &name)?;
    // A commit for the next task would void the review of the one before.
    if team.member(&name).is_some_and(|member| !member.pending_reviews.is_empty()) {
        return Ok(None);
    }
    let change = Change::begin(tx)?;
    let paths = paths::read(tx, &change.board)?;
    let Some(id) = paths::next_for(&paths, &change.board, &name) else { return Ok(None) };
    let task = find(tx, &change.board, id)?;
    take(tx, &team, &name, change, task, &call).map(Some)
}

/// Claims the next task for each of several members, in this order. A member that is refused changes nothing for the
/// others.
pub fn claim_next_each(
    tx: &mut Tx<'_>,
    calls: &[(&CallerCredentials, &v1::ClaimNextTaskRequest)],
) -> Result<Vec<Result<Option<v1::Claim>, Refusal>>, RuleError> {
    want_next(tx, calls)?;
    let mut outcomes = Vec::with_capacity(calls.len());
    let mut spender = Spender::Lead;
    for (who, request) in calls {
        let before = tx.change_count();
        outcomes.push(match claim_next(tx, who, request) {
            Err(RuleError::Refused(refusal)) if tx.change_count() == before => Err(refusal),
            claim => Ok(claim?),
        });
        if tx.spender() == Spender::Teammate {
            spender = Spender::Teammate;
        }
    }
    // They share what the least of them may use. If that is too little, each is carried out alone.
    tx.spends_as(spender);
    Ok(outcomes)
}

/// Requires the tasks that these callers are about to get, so that they are loaded all at once.
fn want_next(tx: &mut Tx<'_>, calls: &[(&CallerCredentials, &v1::ClaimNextTaskRequest)]) -> Result<(), RuleError> {
    let mut board = BoardRecord::clone(&*read_board(tx)?);
    let mut ids = Vec::with_capacity(calls.len());
    for (who, _) in calls {
        if let Credential::Member { member, .. } = &who.credential
            && let Some(id) = board.next_for(member)
        {
            board.place(id, Place::Claimed(member.clone()));
            ids.push(record_id(id));
        }
    }
    tx.want::<TaskRecord>(ids)
}

/// Returns the claim of an earlier call with the same key.
fn replayed(tx: &mut Tx<'_>, call: &KeyedCall) -> Result<Option<v1::Claim>, RuleError> {
    let Some(mut claim) = call.recorded_reply::<v1::Claim>(tx)? else { return Ok(None) };
    if let Some(task) = &mut claim.task {
        fill_in(tx, task)?;
    }
    Ok(Some(claim))
}

/// Gives a task to a member. `call`: the call that claims it.
fn take(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    mut change: Change,
    mut task: TaskRecord,
    call: &KeyedCall,
) -> Result<v1::Claim, RuleError> {
    let max = tx.ctx.limits.claims_max;
    if change.board.claimed_by(name).len() >= max {
        return Err(Refusal::new(
            Reason::QuotaExceeded,
            format!("You hold {max} tasks, which is the limit. Complete or release one first."),
        )
        .into());
    }
    // A lost member that calls comes back with this very claim: if it stayed lost, nothing would end the claim.
    if team.member(name).is_some_and(|member| member.life == Life::Lost) {
        life::renew(tx, std::slice::from_ref(name))?;
    }
    task.status = Status::InProgress;
    task.owner = Some(name.clone());
    task.attempts += 1;
    task.claimed_ms = Some(tx.ctx.now_ms);
    let token = tx.new_secret();
    task.claim = ClaimToken::presented(token.as_str());
    change.board.place(task.id, Place::Claimed(name.clone()));
    if team.member(name).is_some_and(|member| member.detached) {
        change.board.expiring.insert(task.id, tx.ctx.now_ms + ms(tx.ctx.limits.claim_ttl));
    }
    change.write(tx, &mut task)?;
    record(tx, TaskEventKind::Claimed, &task, &Actor::Member(name.clone()), "");
    let warnings = warnings(tx, team, name, &change, task.id)?;
    let board = change.finish(tx);
    let claim = v1::Claim { task: Some(show(&task, &board)), token, warnings };
    let kept = v1::Claim { task: claim.task.as_ref().map(shortened), warnings: Vec::new(), ..claim.clone() };
    call.record_reply(tx, &kept);
    Ok(claim)
}

/// Refuses a task whose paths a claim of another member excludes.
fn refuse_excluded(tx: &mut Tx<'_>, change: &Change, task: &TaskRecord, name: &Name) -> Result<(), RuleError> {
    let paths = paths::read(tx, &change.board)?;
    let Some(overlap) = paths::excluded_by(&paths, &change.board, task.id, name, &mut paths::patience()) else {
        return Ok(());
    };
    let (Overlap { task: other, owner, .. }, (mine, theirs)) = (&overlap, &overlap.patterns);
    let text = format!(
        "Task {} would change {mine}, and task {other} of {owner}, in progress, changes {theirs}: one of them is exclusive. Take \
         another, or wait until task {other} is done.",
        task.id
    );
    let refusal = Refusal::new(Reason::PathsClaimed, text).field("task_id");
    Err(refusal.with("task_id", other.to_string()).with("owner", owner.as_str()).into())
}

/// Warns the new owner of a task about what else is in progress.
fn warnings(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    change: &Change,
    id: u64,
) -> Result<Vec<String>, RuleError> {
    let mut warnings = Vec::new();
    let paths = paths::read(tx, &change.board)?;
    let mut patience = paths::patience();
    let overlaps = paths::overlaps_of(&paths, &change.board, id, &mut patience);
    for Overlap { task, owner, patterns: (mine, theirs) } in overlaps.take(WARNINGS_MAX) {
        warnings.push(match owner == *name {
            true => format!("Your task {task} changes {theirs}, and this one {mine}."),
            false => format!(
                "{owner} works on task {task}, which changes {theirs}, and this one changes {mine}. Agree with {owner} who changes \
                 what."
            ),
        });
    }
    for task in review::waiting_for(tx, team, name)? {
        warnings.push(format!("Your task {task} is in review. A commit to the same branch voids that review."));
    }
    Ok(warnings)
}

/// Completes a task, or puts it into review. Returns it, and the tasks that no longer wait.
pub fn complete(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CompleteTaskRequest,
) -> Result<v1::CompleteTaskResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let actor = caller.actor()?;
    check_size(&request.result, "result", &tx.ctx.limits)?;
    if let Principal::Member { name, .. } = &caller {
        check_plan(&team, name)?;
    }
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let (id, subscribers) = (record_id(request.task_id), Event::Task(request.task_id).subscribers_id());
    tx.want_both::<TaskRecord, SubscribersRecord>([id], [subscribers])?;
    let mut task = find(tx, &change.board, request.task_id)?;
    // A review writes more than a result.
    if request.result.len() <= RESULT_BYTES_IN_FULL_TEAM && task.reviewer.is_none() {
        tx.needs_no_room();
    }
    let token = ClaimToken::presented(request.claim_token.as_str());
    if is_repeated(&task, Status::Completed, token.as_ref())
        || is_repeated_by_ruler(&caller, &task, request)
        || is_submitted_again(&task, request, token.as_ref())
    {
        return Ok(v1::CompleteTaskResponse { task: Some(show(&task, &change.board)), unblocked: Vec::new() });
    }
    refuse_closed(&task)?;
    check_claim(&caller, &task, token.as_ref())?;
    refuse_blocked(&change, &task)?;
    if let (Principal::Member { name, .. }, Some(_)) = (&caller, &token)
        && let Some(reviewer) = review::asks(&team, &task, name)
    {
        review::submit(tx, &team, name, reviewer.as_ref(), &mut change, &mut task, request)?;
        change.write(tx, &mut task)?;
        change.check_bytes(tx)?;
        record(tx, TaskEventKind::InReview, &task, &actor, "");
        let board = change.finish(tx);
        return Ok(v1::CompleteTaskResponse { task: Some(show(&task, &board)), unblocked: Vec::new() });
    }
    if task.is_held() {
        tell_revoked(tx, &team, &actor, &task)?;
    }
    review::void(tx, &mut task)?;
    if let (None, Principal::Member { name, .. }) = (&task.owner, &caller) {
        task.owner = Some(name.clone());
    }
    // A repeated call with the token succeeds only if the first one presented it, too.
    task.claim = task.claim.take().filter(|claim| Some(claim) == token.as_ref());
    task.complete(tx.ctx.now_ms);
    task.result.clone_from(&request.result);
    let unblocked = change.close(task.id, Place::Completed);
    change.write(tx, &mut task)?;
    change.check_bytes(tx)?;
    record(tx, TaskEventKind::Completed, &task, &actor, "");
    tell_subscribers(tx, &team, &actor, &task)?;
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
    tx.needs_no_room();
    let actor = caller.actor()?;
    check_line(&request.reason, "reason", Reason::InvalidField, &tx.ctx.limits)?;
    let mut change = Change::begin(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    let token = ClaimToken::presented(request.claim_token.as_str());
    if is_repeated(&task, Status::Pending, token.as_ref()) {
        return Ok(show(&task, &change.board));
    }
    refuse_closed(&task)?;
    check_claim(&caller, &task, token.as_ref())?;
    if task.is_held() {
        tell_revoked(tx, &team, &actor, &task)?;
        review::void(tx, &mut task)?;
        let kept = task.claim.take().filter(|claim| Some(claim) == token.as_ref());
        let is_own = matches!(&caller, Principal::Member { name, .. } if task.is_owned_by(name));
        let because = match request.reason.as_str() {
            "" if !is_own => format!("{} released it", v1::Sender::from(&actor).name),
            reason => reason.to_owned(),
        };
        back_to_the_board(tx, &mut change, &mut task, kept, &because)?;
        record(tx, TaskEventKind::Released, &task, &actor, &request.reason);
        let board = change.finish(tx);
        return Ok(show(&task, &board));
    }
    // The task is not claimed, so there is nothing to release.
    Ok(show(&task, &change.board))
}

/// Returns whether the owner repeats a call that it made with this token.
fn is_repeated(task: &TaskRecord, status: Status, token: Option<&ClaimToken>) -> bool {
    task.status == status && token.is_some() && task.claim.as_ref() == token
}

/// Returns whether the owner repeats the call that put the task into review.
fn is_submitted_again(task: &TaskRecord, request: &v1::CompleteTaskRequest, token: Option<&ClaimToken>) -> bool {
    let is_same = task.result == request.result && task.commit == request::review::commit_of(request.work.as_ref());
    is_repeated(task, Status::InReview, token) && is_same
}

/// Returns whether the lead or the operator, who need no token, repeats a call.
fn is_repeated_by_ruler(caller: &Principal, task: &TaskRecord, request: &v1::CompleteTaskRequest) -> bool {
    let was_ruled = task.status == Status::Completed && task.claim.is_none() && task.result == request.result;
    was_ruled && request.claim_token.is_empty() && is_lead_or_operator(caller)
}

/// Checks the token of the owner's claim. The lead and the operator need none for another's task.
fn check_claim(caller: &Principal, task: &TaskRecord, token: Option<&ClaimToken>) -> Result<(), Refusal> {
    let holds = matches!(caller, Principal::Member { name, .. } if task.is_owned_by(name));
    if task.is_held() && holds && token.is_some() && task.claim.as_ref() == token {
        return Ok(());
    }
    if is_lead_or_operator(caller) && token.is_none() {
        return Ok(());
    }
    if token.is_none() && !holds && task.is_held() {
        let mut refusal = claimed(task);
        if let Some(released) = task.released_text() {
            refusal.message = format!("{released}. {}", refusal.message);
        }
        return Err(with_release(refusal, task));
    }
    Err(stale_claim(task, token, holds))
}

/// Returns the refusal of a token whose claim has ended. `holds`: whether the caller has claimed the task again.
fn stale_claim(task: &TaskRecord, token: Option<&ClaimToken>, holds: bool) -> Refusal {
    let id = task.id;
    let text = match (&task.status, &task.owner, task.released_text()) {
        (Status::Pending, _, None) if token.is_none() => format!("Task {id} is not claimed. Claim it first."),
        (Status::InProgress, ..) if holds => format!(
            "This is not the token of your present claim of task {id}. Use the token that `teamwire task show {id}` prints."
        ),
        (Status::InProgress, Some(owner), Some(released)) => {
            format!("{released}. {owner} has claimed it since. Stop working on it.")
        }
        (Status::InProgress, Some(owner), None) => {
            format!(
                "Task {id} is in progress with {owner}, and this is not the token of that claim. Stop working on it."
            )
        }
        (.., Some(released)) => format!("{released}. Stop working on it, or claim it again."),
        (.., None) => format!("Task {id} is on the board, and this token belongs to no claim of it. Claim it first."),
    };
    with_release(Refusal::new(Reason::StaleClaim, text).field("claim_token"), task)
}

/// Adds when and why the task last went back to the board.
fn with_release(refusal: Refusal, task: &TaskRecord) -> Refusal {
    match &task.released {
        None => refusal,
        Some(Release { because, at_ms }) => {
            refusal.with("released_at", timestamp(*at_ms).to_string()).with("released_because", because.clone())
        }
    }
}

fn refuse_blocked(change: &Change, task: &TaskRecord) -> Result<(), Refusal> {
    let open: Vec<u64> = change.board.open_of(&task.blocked_by).collect();
    if open.is_empty() {
        return Ok(());
    }
    let list = listed(&open);
    Err(Refusal::new(
        Reason::TaskBlocked,
        format!(
            "Task {} is blocked by {list}. Do those first, or take what is ready with `teamwire task next`.",
            task.id
        ),
    )
    .field("task_id")
    .with("waiting_for", list))
}

/// Refuses work on tasks to a member whose plan must be approved first.
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
        Some(pending) => refusal.with("request_id", pending.id.to_string()),
        None => refusal,
    })
}
