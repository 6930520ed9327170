//! The task board: adding, changing and deleting tasks. [`claim`]: who works on them. [`board`]: what is stored.
//!
//! A claim has no lease of its own: it ends with the life of its owner, whose lease is kept up by its presence. Whatever
//! ends a life calls [`claim::give_back`].

pub mod board;
pub mod claim;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use teamwire_proto::{
    Reason, Refusal, id,
    name::Name,
    v1::{self, NoticeKind, TaskEventKind, history_entry::Event},
};

use self::board::{BoardRecord, Place, Status, TaskRecord, Waiting, WaitingRecord, show};
use super::{
    identity::{self, Admit, CallerCredentials, Principal},
    limits::Limits,
    post,
    record::{TOPIC_TASKS, TeamRecord},
    roster::Actor,
    send::{check_line, check_size, digest, keep, recall},
    tx::{RuleError, Tx},
};

/// How many pairs of metadata a task may have, and how many characters their keys and values.
const METADATA_PAIRS_MAX: usize = 32;
const METADATA_KEY_CHARS_MAX: usize = 63;
const METADATA_VALUE_CHARS_MAX: usize = 1_024;

/// How many bytes a description may have to go with a notice.
const NOTICE_DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

/// Returns the id of a task's record.
pub fn record_id(id: u64) -> String {
    id.to_string()
}

fn read_board(tx: &mut Tx<'_>) -> Result<Arc<BoardRecord>, RuleError> {
    Ok(tx.read::<BoardRecord>("")?.unwrap_or_default())
}

/// A board that is about to be changed.
struct Change {
    board: BoardRecord,
    waiting: WaitingRecord,
    waiting_has_changed: bool,
}

impl Change {
    fn begin(tx: &mut Tx<'_>) -> Result<Self, RuleError> {
        let board = BoardRecord::clone(&*read_board(tx)?);
        Ok(Self { board, waiting: WaitingRecord::default(), waiting_has_changed: false })
    }

    /// Reads what waits for what, too.
    fn with_waiting(mut self, tx: &mut Tx<'_>) -> Result<Self, RuleError> {
        if let Some(waiting) = tx.read::<WaitingRecord>("")? {
            self.waiting = WaitingRecord::clone(&waiting);
        }
        Ok(self)
    }

    /// Puts a task where it belongs while it is pending.
    fn place_pending(&mut self, task: &TaskRecord) {
        let on: BTreeSet<u64> = task.blocked_by.iter().copied().filter(|id| self.board.is_open(*id)).collect();
        let place = match (&task.owner, on.is_empty()) {
            (_, false) => Place::Blocked,
            (Some(owner), true) => Place::Assigned(owner.clone()),
            (None, true) => Place::Ready,
        };
        self.board.place(task.id, place);
        let before = self.waiting.waiting.remove(&task.id);
        self.waiting_has_changed |= before.is_some() || !on.is_empty();
        if !on.is_empty() {
            self.waiting.waiting.insert(task.id, Waiting { on, owner: task.owner.clone() });
        }
    }

    /// Takes a task that is completed or deleted off what is to be done. Returns those that wait no more.
    fn close(&mut self, id: u64, place: Place) -> Vec<u64> {
        self.board.place(id, place);
        let before = self.waiting.dependencies();
        let free = self.waiting.finish(id);
        self.waiting_has_changed |= self.waiting.dependencies() != before;
        let mut ids = Vec::with_capacity(free.len());
        for (id, owner) in free {
            self.board.place(id, owner.map_or(Place::Ready, Place::Assigned));
            ids.push(id);
        }
        ids
    }

    /// Writes the board, and wakes whoever waits for a task.
    fn finish(self, tx: &mut Tx<'_>) -> BoardRecord {
        tx.put("", &self.board);
        if self.waiting_has_changed {
            tx.put("", &self.waiting);
        }
        tx.notification(TOPIC_TASKS);
        self.board
    }
}

/// Adds a task.
pub fn create(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateTaskRequest,
) -> Result<v1::CreateTaskResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.party()?;
    let key = idempotency_key(&actor, "create", &request.idempotency_key)?;
    let bare = v1::CreateTaskRequest { idempotency_key: String::new(), team: String::new(), ..request.clone() };
    let fingerprint = digest(&bare, None);
    if let Some(key) = &key
        && let Some(reply) = recall::<v1::CreateTaskResponse>(tx, key, &fingerprint)?
    {
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
            format!("The board has {} open tasks, which is the most. Complete or delete some.", limits.open_tasks_max),
        )
        .into());
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
        claimed_ms: 0,
        closed_ms: 0,
        claim: None,
        released_because: String::new(),
    };
    block(tx, &mut change, &mut task, &request.blocked_by, "blocked_by")?;
    change.place_pending(&task);
    write(tx, &mut task);
    record(tx, TaskEventKind::Created, &task, &actor, "");
    if task.owner.is_some() {
        tell_assigned(tx, &team, &actor, &task);
    }
    let board = change.finish(tx);
    let reply = v1::CreateTaskResponse { task: Some(show(&task, &board)), replayed: false };
    if let Some(key) = &key {
        keep(tx, key, &fingerprint, &reply);
    }
    Ok(reply)
}

/// Returns a task, and the token of its claim for its owner.
pub fn get(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, id: u64) -> Result<v1::GetTaskResponse, RuleError> {
    let (_, caller) = identity::call(tx, who, named, Admit::Stopping)?;
    let board = read_board(tx)?;
    let task = find(tx, &board, id)?;
    let is_own = matches!(&caller, Principal::Member { name, .. } if task.is_owned_by(name));
    let token = task.claim.clone().filter(|_| is_own && task.status == Status::InProgress);
    Ok(v1::GetTaskResponse { task: Some(show(&task, &board)), claim_token: token.unwrap_or_default() })
}

/// Changes a task.
pub fn update(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::UpdateTaskRequest,
) -> Result<v1::Task, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let actor = caller.party()?;
    let limits = tx.ctx.limits.clone();
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    refuse_closed(&task)?;
    if request.expected_version != 0 && request.expected_version != task.version {
        return Err(Refusal::new(
            Reason::TaskChanged,
            format!(
                "Task {} has version {}, not {}: somebody has changed it. Look at it again, then decide anew.",
                task.id, task.version, request.expected_version
            ),
        )
        .field("expected_version")
        .with("version", task.version.to_string())
        .into());
    }
    if task.status == Status::InProgress {
        owner_or_lead(&caller, &task)?;
    }
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
    if dependencies_change && task.status == Status::InProgress {
        return Err(Refusal::new(
            Reason::TaskClaimed,
            format!("Task {} is in progress: what blocks it cannot change now. Release it first.", task.id),
        )
        .field("task_id")
        .into());
    }
    unblock(tx, &mut task, &request.remove_blocked_by)?;
    block(tx, &mut change, &mut task, &request.add_blocked_by, "add_blocked_by")?;
    let assigned = match &request.owner {
        Some(text) => assign(tx, &team, &caller, &actor, &mut task, text)?,
        None => false,
    };
    if task.status == Status::Pending {
        change.place_pending(&task);
    }
    write(tx, &mut task);
    let kind = if assigned { TaskEventKind::Assigned } else { TaskEventKind::Updated };
    record(tx, kind, &task, &actor, "");
    if assigned {
        tell_assigned(tx, &team, &actor, &task);
    }
    let board = change.finish(tx);
    Ok(show(&task, &board))
}

/// Gives a task to another owner, or to nobody. Returns whether it has a new one.
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
    if task.status == Status::InProgress {
        lead_or_operator(caller, task)?;
        revoke(tx, team, actor, task);
        task.status = Status::Pending;
        task.claim = None;
    } else if task.owner.is_some() {
        owner_or_lead(caller, task)?;
    }
    task.owner = owner;
    Ok(task.owner.is_some())
}

/// Deletes a task. Returns those that wait no more.
pub fn delete(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, id: u64) -> Result<Vec<u64>, RuleError> {
    let (team, caller) = identity::call(tx, who, named, Admit::Live)?;
    let actor = caller.party()?;
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, id)?;
    if task.status == Status::Deleted {
        return Ok(Vec::new());
    }
    if task.status == Status::InProgress {
        owner_or_lead(&caller, &task)?;
        revoke(tx, &team, &actor, &task);
    }
    task.status = Status::Deleted;
    task.closed_ms = tx.ctx.now_ms;
    task.claim = None;
    let unblocked = change.close(id, Place::Deleted(tx.ctx.now_ms));
    write(tx, &mut task);
    record(tx, TaskEventKind::Deleted, &task, &actor, "");
    change.finish(tx);
    Ok(unblocked)
}

/// Makes a task wait for others, which learn of it.
fn block(
    tx: &mut Tx<'_>,
    change: &mut Change,
    task: &mut TaskRecord,
    blockers: &[u64],
    field: &str,
) -> Result<(), RuleError> {
    let new: BTreeSet<u64> = blockers.iter().copied().filter(|id| !task.blocked_by.contains(id)).collect();
    let quota = |what: String| RuleError::from(Refusal::new(Reason::QuotaExceeded, what).field(field));
    let max = tx.ctx.limits.task_dependencies_max;
    if task.blocked_by.len() + new.len() > max {
        return Err(quota(format!("A task waits for up to {max} others. Put a task between them.")));
    }
    if change.waiting.dependencies() + new.len() > tx.ctx.limits.board_dependencies_max {
        return Err(quota("The board has too many dependencies. Complete or delete some tasks.".to_owned()));
    }
    tx.want::<TaskRecord>(new.iter().map(|id| record_id(*id)))?;
    for id in new {
        if id == task.id {
            return Err(cycle(&[id], field).into());
        }
        let mut blocker = find(tx, &change.board, id).map_err(|stop| with_field(stop, field))?;
        if blocker.status == Status::Deleted {
            return Err(not_found(id).field(field).into());
        }
        if let Some(mut path) = change.waiting.path(id, task.id) {
            path.insert(0, task.id);
            return Err(cycle(&path, field).into());
        }
        if blocker.blocks.insert(task.id) {
            write(tx, &mut blocker);
        }
        task.blocked_by.insert(id);
        // What is added next may close a circle over this one.
        if change.board.is_open(id) {
            change.waiting.waiting.entry(task.id).or_default().on.insert(id);
            change.waiting_has_changed = true;
        }
    }
    Ok(())
}

/// Makes a task no longer wait for others, which learn of it.
fn unblock(tx: &mut Tx<'_>, task: &mut TaskRecord, blockers: &[u64]) -> Result<(), RuleError> {
    // Whatever else was named need not be read, however much it is.
    let blockers: BTreeSet<u64> = blockers.iter().copied().filter(|id| task.blocked_by.contains(id)).collect();
    tx.want::<TaskRecord>(blockers.iter().map(|id| record_id(*id)))?;
    for id in &blockers {
        task.blocked_by.remove(id);
        if let Some(blocker) = tx.read::<TaskRecord>(&record_id(*id))? {
            let mut blocker = TaskRecord::clone(&blocker);
            blocker.blocks.remove(&task.id);
            write(tx, &mut blocker);
        }
    }
    Ok(())
}

/// Returns a task of this team, to be changed.
fn find(tx: &mut Tx<'_>, board: &BoardRecord, id: u64) -> Result<TaskRecord, RuleError> {
    if id == 0 || id > board.last_id {
        return Err(not_found(id).into());
    }
    let task = tx.read::<TaskRecord>(&record_id(id))?.ok_or_else(|| not_found(id))?;
    Ok(TaskRecord::clone(&task))
}

fn write(tx: &mut Tx<'_>, task: &mut TaskRecord) {
    task.version += 1;
    task.updated_ms = tx.ctx.now_ms;
    tx.put(&record_id(task.id), task);
}

fn record(tx: &mut Tx<'_>, kind: TaskEventKind, task: &TaskRecord, actor: &Actor, detail: &str) {
    let event = v1::TaskEvent {
        kind: kind.into(),
        task_id: task.id,
        subject: task.subject.clone(),
        actor: Some(actor.into()),
        owner: task.owner.as_ref().map_or_else(String::new, Name::to_string),
        attempts: task.attempts,
        detail: detail.to_owned(),
    };
    post::record(tx, Event::Task(event));
}

fn summary(task: &TaskRecord, actor: &Actor) -> v1::TaskSummary {
    let fits = task.description.len() <= NOTICE_DESCRIPTION_BYTES_MAX;
    v1::TaskSummary {
        id: task.id,
        subject: task.subject.clone(),
        description: if fits { task.description.clone() } else { String::new() },
        assigned_by: Some(actor.into()),
    }
}

/// Tells a task's owner that it is assigned to it, unless it did that itself.
fn tell_assigned(tx: &mut Tx<'_>, team: &TeamRecord, actor: &Actor, task: &TaskRecord) {
    let Some(owner) = task.owner.clone().map(Actor::Member).filter(|owner| owner != actor) else { return };
    let notice = v1::Notice {
        kind: NoticeKind::TaskAssignment.into(),
        task: Some(summary(task, actor)),
        text: format!(
            "Task {id} is assigned to you: {}. Take it with `teamwire task claim {id}`; all of it: `teamwire task show {id}`.",
            task.subject,
            id = task.id
        ),
        ..v1::Notice::default()
    };
    post::notify(tx, team, &[&owner], notice);
}

/// Tells a task's owner that its claim was ended by somebody else.
fn revoke(tx: &mut Tx<'_>, team: &TeamRecord, actor: &Actor, task: &TaskRecord) {
    let Some(owner) = task.owner.clone().map(Actor::Member).filter(|owner| owner != actor) else { return };
    let notice = v1::Notice {
        kind: NoticeKind::TaskRevoked.into(),
        task: Some(summary(task, actor)),
        text: format!("Task {} is not yours any more: {}. RuleError working on it.", task.id, task.subject),
        ..v1::Notice::default()
    };
    post::notify(tx, team, &[&owner], notice);
}

fn subject(text: &str, limits: &Limits) -> Result<String, Refusal> {
    let trimmed = text.trim_matches(' ');
    if trimmed.is_empty() {
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

/// Returns the member that a task is to be assigned to. Empty: nobody.
fn resolve_owner(team: &TeamRecord, text: &str) -> Result<Option<Name>, Refusal> {
    match text {
        "" => Ok(None),
        text => Ok(Some(team.resolve_receiver(text, "owner")?.name.clone())),
    }
}

/// Returns where the ledger keeps a caller's key.
fn idempotency_key(actor: &Actor, what: &str, key: &str) -> Result<Option<String>, Refusal> {
    let owner = match actor {
        Actor::Member(name) => name.folded(),
        Actor::Operator | Actor::Coordinator => "operator",
    };
    Ok(id::idempotency_key(key)?.map(|key| format!("task/{what}/{owner}/{key}")))
}

fn refuse_closed(task: &TaskRecord) -> Result<(), Refusal> {
    let how = match task.status {
        Status::Pending | Status::InProgress => return Ok(()),
        Status::Completed => "completed",
        Status::Deleted => "deleted",
    };
    Err(Refusal::new(
        Reason::TaskClosed,
        format!("Task {} is {how}, and that is final. Add a new task if there is more to do.", task.id),
    )
    .field("task_id")
    .with("status", how))
}

fn owner_or_lead(caller: &Principal, task: &TaskRecord) -> Result<(), Refusal> {
    match caller {
        Principal::Member { name, .. } if task.is_owned_by(name) => Ok(()),
        _ => lead_or_operator(caller, task),
    }
}

fn lead_or_operator(caller: &Principal, task: &TaskRecord) -> Result<(), Refusal> {
    if rules(caller) { Ok(()) } else { Err(claimed(task)) }
}

/// Returns whether the caller may do as it likes with everybody's tasks.
fn rules(caller: &Principal) -> bool {
    matches!(caller, Principal::Operator | Principal::Member { lead: true, .. })
}

/// The refusal for whoever wants a task that is another's.
fn claimed(task: &TaskRecord) -> Refusal {
    let owner = task.owner.as_ref().map_or("nobody", Name::as_str);
    let how = if task.status == Status::InProgress { "in progress with" } else { "assigned to" };
    Refusal::new(
        Reason::TaskClaimed,
        format!("Task {} is {how} {owner}. Take another (`teamwire task next`), or ask {owner} or the lead.", task.id),
    )
    .field("task_id")
    .with("owner", owner)
}

fn not_found(id: u64) -> Refusal {
    Refusal::new(Reason::TaskNotFound, format!("There is no task {id} in your team. See `teamwire task list`."))
        .field("task_id")
}

fn with_field(stop: RuleError, field: &str) -> RuleError {
    match stop {
        RuleError::Refused(refusal) => RuleError::Refused(refusal.field(field)),
        other => other,
    }
}

/// How many tasks of a way round are named: its beginning and its end.
const ROUND_NAMED_MAX: usize = 32;

/// The refusal for tasks that would wait for each other, with the way round.
fn cycle(path: &[u64], field: &str) -> Refusal {
    let mut round: Vec<String> = path.iter().map(u64::to_string).collect();
    if path.first() != path.last() || path.len() == 1 {
        round.extend(path.first().map(u64::to_string));
    }
    if round.len() > ROUND_NAMED_MAX {
        let left_out = format!("{} more", round.len() - ROUND_NAMED_MAX);
        round.splice(ROUND_NAMED_MAX / 2..round.len() - ROUND_NAMED_MAX / 2, [left_out]);
    }
    let round = round.join(" -> ");
    Refusal::new(
        Reason::TaskCycle,
        format!("These tasks would wait for each other: {round}. Leave out one of the dependencies."),
    )
    .field(field)
    .with("cycle", round)
}
