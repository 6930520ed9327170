//! The review of a task: between its owner's saying that it is done and the board's.
//!
//! A review is of one commit. It is void as soon as the owner has a newer one, and the task is the owner's again.

use teamwire_proto::{
    Reason, Refusal,
    name::{Address, Name},
    v1::{self, CancelCause, NoticeKind, TaskEventKind},
    word,
};

use super::{
    board::{Place, Status, TaskRecord, record_id},
    change::{Change, find, record},
    give_back::back_to_the_board,
    notices::{summary_of_record, tell_subscribers},
    terms::{Review, Reviewer},
};
use crate::domain::{
    actor::Actor,
    notices,
    records::{Life, TeamRecord},
    request::{self, Answer, Decided},
    text::cut,
    time::ms,
    tx::{RuleError, Tx},
    work,
};

/// How many characters of a branch's name and of an explanation are kept, and how many of a commit's id are shown.
const BRANCH_CHARS_MAX: usize = 500;
const DETAIL_CHARS_MAX: usize = 4_000;
const SHORT_CHARS: usize = 10;

/// How many paths that conflict a review has, and how many characters of each.
const CONFLICTS_MAX: usize = 20;
const CONFLICT_CHARS_MAX: usize = 200;

impl Reviewer {
    /// Returns the reviewer that a request names. `None` if it names none.
    pub(super) fn resolve(team: &TeamRecord, text: &str) -> Result<Option<Self>, Refusal> {
        match text {
            "" => Ok(None),
            text if Address::parse(text, "reviewer")?.is_lead_alias() => Ok(Some(Self::Lead)),
            text => {
                let instead = "Name another member as the reviewer, or team-lead.";
                Ok(Some(Self::Member(team.resolve_receiver(text, "reviewer", instead)?.name.clone())))
            }
        }
    }
}

/// Returns whom a task's owner must ask when it says that the task is done. `Some(None)` means the lead. `None` means no one.
pub(super) fn asks(team: &TeamRecord, task: &TaskRecord, owner: &Name) -> Option<Option<Name>> {
    let named = match task.reviewer.as_ref()? {
        Reviewer::Lead => None,
        Reviewer::Member(name) => Some(name).filter(|name| {
            let is_there = team.member(name).is_some_and(|member| member.life.how_it_ends().is_none());
            *name != owner && is_there
        }),
    };
    match named {
        Some(name) if team.is_lead(name) => (!team.is_lead(owner)).then_some(None),
        None => (!team.is_lead(owner)).then_some(None),
        Some(name) => Some(Some(name.clone())),
    }
}

/// Puts a task of the caller's into review. A review of an earlier commit is void.
pub(super) fn submit(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    owner: &Name,
    reviewer: Option<&Name>,
    change: &mut Change,
    task: &mut TaskRecord,
    request: &v1::CompleteTaskRequest,
) -> Result<(), RuleError> {
    let mut team = team.clone();
    if let Some(earlier) = task.review.take() {
        request::review::void(tx, &mut team, &earlier.request_id, CancelCause::NewerCommit)?;
    }
    let pending = team.member(owner).map_or(0, |member| member.pending_reviews.len());
    let max = tx.ctx.limits.pending_permissions_max;
    if pending >= max {
        let text = format!("You have {pending} tasks in review, and the limit is {max}. Wait until one is answered.");
        return Err(Refusal::new(Reason::QuotaExceeded, text).into());
    }
    let work = request.work.as_ref().map(reviewed).transpose()?;
    task.commit = request::review::commit_of(work.as_ref()).to_owned();
    let asked = v1::ReviewRequest {
        task_id: task.id,
        summary: task.subject.clone(),
        result: request.result.clone(),
        work,
        merge_on_approval: task.merge_on_approval,
        ..v1::ReviewRequest::default()
    };
    let request_id = request::review::open(tx, &mut team, owner, reviewer, asked)?;
    tx.put("", &team);
    let incarnation = team.member(owner).map_or(0, |member| member.incarnation);
    task.review = Some(Review { request_id, incarnation });
    task.status = Status::InReview;
    task.result.clone_from(&request.result);
    change.board.place(task.id, Place::InReview);
    Ok(())
}

/// Returns work as a review keeps it: of one commit, without the paths, which can be read, and with a few that conflict.
fn reviewed(work: &v1::Work) -> Result<v1::Work, Refusal> {
    let head = work.head.as_str();
    if !work::is_commit_id(head) && !head.is_empty() {
        let text =
            "work.head takes the id of a commit: 40 or 64 hexadecimal digits. A name could mean another commit later.";
        return Err(Refusal::new(Reason::InvalidField, text).field("work"));
    }
    let kept = work::kept(work);
    let conflicts = kept.conflicts.iter().take(CONFLICTS_MAX).map(|path| cut(path, CONFLICT_CHARS_MAX)).collect();
    Ok(v1::Work { paths: Vec::new(), conflicts, ..kept })
}

/// Answers a review. An approval completes the task, a rejection returns it.
pub fn answer(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Actor,
    answer: &Answer,
    commit: &str,
    compose: impl FnOnce(&mut Tx<'_>, &v1::Request) -> v1::Message,
) -> Result<Decided, RuleError> {
    let mut team = team.clone();
    let (request, decided) = request::review::answer(tx, &mut team, caller, answer, commit, compose)?;
    if let Decided::Before { .. } = decided {
        return Ok(decided);
    }
    tx.put("", &team);
    let mut change = Change::begin(tx)?.with_waiting(tx)?;
    let mut task = find(tx, &change.board, request.task_id)?;
    task.review = None;
    if answer.approve {
        task.complete(tx.ctx.now_ms);
        change.close(task.id, Place::Completed);
        change.write(tx, &mut task)?;
        record(tx, TaskEventKind::Completed, &task, caller, "");
        tell_subscribers(tx, &team, caller, &task)?;
    } else {
        let because = format!("{} rejected its review", v1::Sender::from(caller).name);
        return_task(tx, &team, &mut change, &mut task, request.incarnation, &because)?;
        record(tx, TaskEventKind::ReviewEnded, &task, caller, &because);
    }
    change.finish(tx);
    Ok(decided)
}

/// Gives a task that is no longer in review back to its owner or, if the life that asked has ended, to the board.
fn return_task(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    change: &mut Change,
    task: &mut TaskRecord,
    incarnation: u64,
    because: &str,
) -> Result<(), RuleError> {
    task.review = None;
    task.commit = String::new();
    let owner = task.owner.as_ref().and_then(|owner| team.member(owner));
    let owner = owner.filter(|owner| owner.incarnation == incarnation && matches!(owner.life, Life::Live));
    let Some(owner) = owner else { return back_to_the_board(tx, change, task, None, because) };
    task.status = Status::InProgress;
    task.claimed_ms = Some(tx.ctx.now_ms);
    change.board.place(task.id, Place::Claimed(owner.name.clone()));
    if owner.detached {
        change.board.expiring.insert(task.id, tx.ctx.now_ms + ms(tx.ctx.limits.claim_ttl));
    }
    change.write(tx, task)
}

/// Voids the review of a task that is about to be closed, released or reassigned. The caller changes the task.
pub(super) fn void(tx: &mut Tx<'_>, task: &mut TaskRecord) -> Result<(), RuleError> {
    let Some(review) = task.review.take() else { return Ok(()) };
    task.commit = String::new();
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(()) };
    let mut team = TeamRecord::clone(&team);
    request::review::void(tx, &mut team, &review.request_id, CancelCause::TaskChanged)?;
    tx.put("", &team);
    Ok(())
}

/// Voids the reviews of a member whose branch has a newer commit than they are of, and returns these tasks to it. `at_ms`: when
/// its runner looked at the work. What it saw before a review began may be older than that review's commit.
pub fn note_work(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    work: &v1::Work,
    at_ms: u64,
) -> Result<(), RuleError> {
    let pending = team.member(name).map(|member| member.pending_reviews.clone()).unwrap_or_default();
    tx.want::<v1::Request>(pending.iter().map(|pending| pending.id.to_string()))?;
    for pending in pending {
        let request = request::find(tx, pending.id.as_str())?;
        let is_newer = request.work.as_ref().is_some_and(|asked| {
            (&asked.repository, &asked.branch) == (&work.repository, &work.branch) && asked.head != work.head
        });
        if !is_newer || work.head.is_empty() || at_ms <= pending.created_ms {
            continue;
        }
        let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(()) };
        let mut team = TeamRecord::clone(&team);
        request::review::void(tx, &mut team, &pending.id, CancelCause::NewerCommit)?;
        tx.put("", &team);
        let mut change = Change::begin(tx)?;
        let mut task = find(tx, &change.board, request.task_id)?;
        let because = format!("{name} committed after it had asked for the review");
        return_task(tx, &team, &mut change, &mut task, request.incarnation, &because)?;
        record(tx, TaskEventKind::ReviewEnded, &task, &Actor::Coordinator, &because);
        change.finish(tx);
        let asked = cut(request::review::commit_of(request.work.as_ref()), SHORT_CHARS);
        let notice = v1::Notice {
            kind: NoticeKind::ReviewVoid.into(),
            member: name.to_string(),
            request_id: request.id.clone(),
            task: Some(summary_of_record(&task)),
            text: format!(
                "The review of task {} is void: it was of commit {asked}, and {} is newer. Complete the task again to ask for a \
                 review of the newest commit.",
                task.id,
                cut(&work.head, SHORT_CHARS)
            ),
            ..v1::Notice::default()
        };
        notices::notify(tx, &team, &[&Actor::Member(name.clone())], notice)?;
    }
    Ok(())
}

/// Tells the lead the outcome of merging an approved commit and, if it was not merged, the member as well.
pub fn note_merge(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    outcome: &v1::MergeOutcome,
) -> Result<(), RuleError> {
    let Some(task) = tx.read::<TaskRecord>(&record_id(outcome.task_id))? else { return Ok(()) };
    // Only what was approved, and by the runner that was to merge it.
    let is_approved = task.status == Status::Completed && task.merge_on_approval && !task.commit.is_empty();
    if !task.is_owned_by(name) || !is_approved || task.commit != outcome.commit {
        return Ok(());
    }
    let (id, into) = (task.id, word::one_line(&cut(&outcome.into, BRANCH_CHARS_MAX)));
    let commit = cut(&outcome.merged, SHORT_CHARS);
    let text = match (outcome.merged.is_empty(), outcome.conflicts.as_slice()) {
        (false, _) => format!("The approved work of {name} on task {id} is merged into {into}, at {commit}."),
        (true, []) => {
            let why = cut(&outcome.detail, DETAIL_CHARS_MAX);
            format!(
                "The approved work of {name} on task {id} is not merged into {into}. Its runner says:\n{}",
                why.trim()
            )
        }
        (true, paths) => format!(
            "The approved work of {name} on task {id} conflicts with {into} in {}. {name}, merge {into} into your branch, resolve \
             the conflicts and commit; then `teamwire work merge {name}` can merge it.",
            word::paths(paths)
        ),
    };
    let notice = v1::Notice {
        kind: NoticeKind::Merge.into(),
        member: name.to_string(),
        task: Some(summary_of_record(&task)),
        text,
        ..v1::Notice::default()
    };
    let (lead, member) = (Actor::Member(team.lead.clone()), Actor::Member(name.clone()));
    match outcome.merged.is_empty() {
        true => notices::notify(tx, team, &[&lead, &member], notice),
        false => notices::notify(tx, team, &[&lead], notice),
    }
}

/// Returns the tasks of a member that are in review.
pub(super) fn waiting_for(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name) -> Result<Vec<u64>, RuleError> {
    let pending = team.member(name).map(|member| member.pending_reviews.clone()).unwrap_or_default();
    tx.want::<v1::Request>(pending.iter().map(|pending| pending.id.to_string()))?;
    pending.iter().map(|pending| Ok(request::find(tx, pending.id.as_str())?.task_id)).collect()
}

/// Refuses a reviewer or a merge that does not fit.
pub(super) fn check(task: &TaskRecord) -> Result<(), Refusal> {
    if task.merge_on_approval && task.reviewer.is_none() {
        let text = "merge_on_approval needs a reviewer: nothing is merged that no one has approved.";
        return Err(Refusal::new(Reason::InvalidField, text).field("merge_on_approval"));
    }
    Ok(())
}
