//! Adding, changing and deleting tasks.

use std::collections::{BTreeMap, BTreeSet};

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, TaskEventKind},
    visible::is_visible,
};

use super::{
    authority::{is_lead_or_operator, lead_or_operator, owner_or_lead, refuse_closed},
    board::{Place, Status, TaskRecord, show},
    change::{Change, find, not_found, read_board, record},
    dependencies::{block, unblock},
    notices::{tell_assigned, tell_revoked, tell_subscribers},
    remembered::{fill_in, shortened},
    review,
    terms::{Reviewer, TaskPaths},
};
use crate::domain::{
    actor::Actor,
    idempotency::{KeyedCall, fingerprint},
    identity::{self, Admit, CallerCredentials, Principal},
    limits::Limits,
    records::TeamRecord,
    text::{check_line, check_size},
    tx::{RuleError, Tx},
};

/// How many pairs of metadata a task may have, and how many characters their keys and values may have.
const METADATA_PAIRS_MAX: usize = 32;
const METADATA_KEY_CHARS_MAX: usize = 63;
const METADATA_VALUE_CHARS_MAX: usize = 1_024;

/// Adds a task.
pub fn create(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateTaskRequest,
) -> Result<v1::CreateTaskResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.actor()?;
    let bare = v1::CreateTaskRequest { idempotency_key: String::new(), team: String::new(), ..request.clone() };
    let scope = format!("task/create/{}", actor.key());
    let call = KeyedCall::new(&scope, &request.idempotency_key, fingerprint(&bare, None))?;
    if let Some(mut reply) = call.recorded_reply::<v1::CreateTaskResponse>(tx)? {
        if let Some(task) = &mut reply.task {
            fill_in(tx, task)?;
        }
        return Ok(v1::CreateTaskResponse { replayed: true, ..reply });
    }
    let limits = tx.ctx.limits.clone();
    let subject = subject(&request.subject, &limits)?;
    check_size(&request.description, "description", &limits)?;
    check_line(&request.active_form, "active_form", Reason::InvalidField, &limits)?;
    let metadata: BTreeMap<_, _> = request.metadata.clone().into_iter().collect();
    check_metadata(&metadata, "metadata")?;
    let owner = resolve_owner(&team, &request.owner)?;

    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    if change.board.open() >= limits.open_tasks_max {
        return Err(Refusal::new(
            Reason::QuotaExceeded,
            format!("The board has {} open tasks, which is the limit. Complete or delete some.", limits.open_tasks_max),
        )
        .into());
    }
    // The new task's own number does not exist yet, so it is an unknown task rather than a cycle.
    if let Some(id) = request.blocked_by.iter().find(|id| **id > change.board.last_id) {
        return Err(not_found(&change.board, *id).field("blocked_by").into());
    }
    change.board.last_id += 1;
    let now_ms = tx.ctx.now_ms;
    let mut task = TaskRecord {
        id: change.board.last_id,
        subject,
        description: request.description.clone(),
        active_form: request.active_form.clone(),
        status: Status::Pending,
        owner,
        blocked_by: BTreeSet::new(),
        blocks: BTreeSet::new(),
        metadata,
        version: 0,
        attempts: 0,
        result: String::new(),
        created_by: match &actor {
            Actor::Member(name) => Some(name.clone()),
            _ => None,
        },
        created_ms: now_ms,
        updated_ms: now_ms,
        claimed_ms: None,
        closed_ms: None,
        claim: None,
        released: None,
        paths: TaskPaths { exclusive: request.exclusive, ..TaskPaths::default() },
        reviewer: Reviewer::resolve(&team, &request.reviewer)?,
        merge_on_approval: request.merge_on_approval,
        review: None,
        commit: String::new(),
    };
    task.paths.add(&request.paths, "paths")?;
    review::check(&task)?;
    if request.merge_on_approval {
        may_merge(&caller)?;
    }
    block(tx, &mut change, &mut task, &request.blocked_by, "blocked_by")?;
    change.place_pending(&task);
    change.write(tx, &mut task)?;
    change.check_bytes(tx)?;
    record(tx, TaskEventKind::Created, &task, &actor, "");
    if task.owner.is_some() {
        tell_assigned(tx, &team, &actor, &change.board, &task)?;
    }
    let board = change.finish(tx);
    let task = show(&task, &board);
    call.record_reply(tx, &v1::CreateTaskResponse { task: Some(shortened(&task)), replayed: false });
    Ok(v1::CreateTaskResponse { task: Some(task), replayed: false })
}

/// Returns a task, and the token of its claim for its owner.
pub fn get(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, id: u64) -> Result<v1::GetTaskResponse, RuleError> {
    let (_, caller) = identity::call(tx, who, named, Admit::Stopping)?;
    let board = read_board(tx)?;
    let task = find(tx, &board, id)?;
    let is_own = matches!(&caller, Principal::Member { name, .. } if task.is_owned_by(name));
    let token = task.claim.clone().filter(|_| is_own && task.is_held());
    Ok(v1::GetTaskResponse {
        task: Some(show(&task, &board)),
        claim_token: token.map(String::from).unwrap_or_default(),
    })
}

/// Changes a task.
pub fn update(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::UpdateTaskRequest,
) -> Result<v1::Task, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.actor()?;
    let limits = tx.ctx.limits.clone();
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    refuse_closed(&task)?;
    if request.expected_version != 0 && request.expected_version != task.version {
        return Err(Refusal::new(
            Reason::TaskChanged,
            format!(
                "Task {} has version {}, not {}: it has changed. Read it again, then decide.",
                task.id, task.version, request.expected_version
            ),
        )
        .field("expected_version")
        .with("version", task.version.to_string())
        .into());
    }
    if task.is_held() {
        owner_or_lead(&caller, &task)?;
    }
    change_review(&team, &caller, &mut task, request)?;
    task.paths.patterns.retain(|pattern| !request.remove_paths.contains(pattern));
    task.paths.add(&request.add_paths, "add_paths")?;
    task.paths.exclusive = request.exclusive.unwrap_or(task.paths.exclusive);
    if let Some(text) = &request.subject {
        task.subject = subject(text, &limits)?;
    }
    if let Some(text) = &request.description {
        check_size(text, "description", &limits)?;
        task.description.clone_from(text);
    }
    if let Some(text) = &request.active_form {
        check_line(text, "active_form", Reason::InvalidField, &limits)?;
        task.active_form.clone_from(text);
    }
    for key in &request.remove_metadata {
        task.metadata.remove(key);
    }
    task.metadata.extend(request.set_metadata.clone());
    check_metadata(&task.metadata, "set_metadata")?;

    let dependencies_change = !request.add_blocked_by.is_empty() || !request.remove_blocked_by.is_empty();
    if dependencies_change && task.is_held() {
        return Err(Refusal::new(
            Reason::TaskClaimed,
            format!("Task {} is claimed: what blocks it cannot change now. Release it first.", task.id),
        )
        .field("task_id")
        .into());
    }
    unblock(tx, &mut change, &mut task, &request.remove_blocked_by)?;
    block(tx, &mut change, &mut task, &request.add_blocked_by, "add_blocked_by")?;
    let assigned = match &request.owner {
        Some(text) => assign(tx, &team, &caller, &actor, &mut task, text)?,
        None => false,
    };
    if task.status == Status::Pending {
        change.place_pending(&task);
    }
    change.write(tx, &mut task)?;
    change.check_bytes(tx)?;
    let kind = if assigned { TaskEventKind::Assigned } else { TaskEventKind::Updated };
    record(tx, kind, &task, &actor, "");
    if assigned {
        tell_assigned(tx, &team, &actor, &change.board, &task)?;
    }
    let board = change.finish(tx);
    Ok(show(&task, &board))
}

/// Changes who reviews a task. A member must not rid the task of another of its review, nor its own while that review waits.
/// Refuses a caller that may not have approved work merged.
fn may_merge(caller: &Principal) -> Result<(), Refusal> {
    let allowed = caller.lead_only("have work merged on approval");
    allowed.map(drop).map_err(|refusal| refusal.field("merge_on_approval"))
}

fn change_review(
    team: &TeamRecord,
    caller: &Principal,
    task: &mut TaskRecord,
    request: &v1::UpdateTaskRequest,
) -> Result<(), Refusal> {
    if request.reviewer.is_none() && request.merge_on_approval.is_none() {
        return Ok(());
    }
    let reviewer = match &request.reviewer {
        Some(text) => Reviewer::resolve(team, text)?,
        None => task.reviewer.clone(),
    };
    if request.merge_on_approval == Some(true) {
        may_merge(caller)?;
    }
    let is_creator = matches!(caller, Principal::Member { name, .. } if task.created_by.as_ref() == Some(name) && !task.is_owned_by(name));
    let weakens = task.reviewer.is_some() && (reviewer != task.reviewer || request.merge_on_approval.is_some());
    if !is_lead_or_operator(caller) && (task.is_held() || (weakens && !is_creator)) {
        let text = format!("Only the lead and the operator change the review of task {} now. Ask the lead.", task.id);
        return Err(Refusal::new(Reason::LeadOnly, text).field("reviewer"));
    }
    task.reviewer = reviewer;
    task.merge_on_approval = request.merge_on_approval.unwrap_or(task.merge_on_approval);
    review::check(task)
}

/// Assigns a task to another owner, or to none. Returns whether it has a new owner.
fn assign(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Principal,
    actor: &Actor,
    task: &mut TaskRecord,
    to: &str,
) -> Result<bool, RuleError> {
    let owner = resolve_owner(team, to)?;
    if owner == task.owner {
        return Ok(false);
    }
    if task.is_held() {
        lead_or_operator(caller, task)?;
        tell_revoked(tx, team, actor, task)?;
        review::void(tx, task)?;
        task.go_back(&format!("{} reassigned it", v1::Sender::from(actor).name), tx.ctx.now_ms);
    } else if task.owner.is_some() {
        owner_or_lead(caller, task)?;
    }
    task.owner = owner;
    Ok(task.owner.is_some())
}

/// Deletes a task, and what is long about it. Returns the tasks that no longer wait.
pub fn delete(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, id: u64) -> Result<Vec<u64>, RuleError> {
    let (team, caller) = identity::call(tx, who, named, Admit::Live)?;
    tx.needs_no_room();
    let actor = caller.actor()?;
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, id)?;
    if task.status == Status::Deleted {
        return Ok(Vec::new());
    }
    if task.is_held() {
        owner_or_lead(&caller, &task)?;
        tell_revoked(tx, &team, &actor, &task)?;
        review::void(tx, &mut task)?;
    }
    // The tasks that it waited for must not remember every deleted task.
    let blockers: Vec<u64> = task.blocked_by.iter().copied().collect();
    unblock(tx, &mut change, &mut task, &blockers)?;
    let unblocked = change.close(id, Place::Deleted);
    let mut task = TaskRecord {
        status: Status::Deleted,
        closed_ms: Some(tx.ctx.now_ms),
        claim: None,
        description: String::new(),
        active_form: String::new(),
        metadata: BTreeMap::new(),
        blocks: BTreeSet::new(),
        result: String::new(),
        paths: TaskPaths::default(),
        ..task
    };
    change.write(tx, &mut task)?;
    record(tx, TaskEventKind::Deleted, &task, &actor, "");
    tell_subscribers(tx, &team, &actor, &task)?;
    change.finish(tx);
    Ok(unblocked)
}

fn subject(text: &str, limits: &Limits) -> Result<String, Refusal> {
    let trimmed = text.trim_matches(' ');
    if !is_visible(trimmed) {
        return Err(Refusal::new(Reason::InvalidField, "subject is required: say on one line what is to be done.")
            .field("subject"));
    }
    check_line(trimmed, "subject", Reason::InvalidField, limits)?;
    Ok(trimmed.to_owned())
}

fn check_metadata(metadata: &BTreeMap<String, String>, field: &str) -> Result<(), Refusal> {
    let sound = |(key, value): (&String, &String)| {
        !key.is_empty()
            && key.chars().count() <= METADATA_KEY_CHARS_MAX
            && !key.chars().any(char::is_control)
            && value.chars().count() <= METADATA_VALUE_CHARS_MAX
    };
    if metadata.len() > METADATA_PAIRS_MAX || !metadata.iter().all(sound) {
        return Err(Refusal::new(
            Reason::InvalidField,
            "A task's metadata takes up to 32 pairs, with keys of 1 to 63 and values of up to 1,024 characters.",
        )
        .field(field));
    }
    Ok(())
}

/// Resolves the member that a task is to be assigned to, if the request names one.
fn resolve_owner(team: &TeamRecord, text: &str) -> Result<Option<Name>, Refusal> {
    match text {
        "" => Ok(None),
        text => Ok(Some(
            team.resolve_receiver(text, "owner", "Assign the task to another member, or to none.")?.name.clone(),
        )),
    }
}
