//! Asking a member's runner for what only the runner has: its transcript, and the member's work.
//!
//! A call leaves a question in the store, which wakes the member's session wherever it is open. The session writes a frame,
//! the runner answers, and the call takes the answer out of the store. Only answers on their way are stored, and at most
//! [`QUERIES_MAX`] for each member.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, RequestState, WorkPart, answer_query_request::Answer, runner_query::Question},
};

use super::{
    identity::{self, Admit, CallerCredentials, Principal},
    records::{Life, RunnerQueriesRecord, TeamRecord, WaitingQuery},
    request,
    text::cut,
    topics::Topic,
    tx::{RuleError, Tx},
    work::is_commit_id,
};

/// How many calls wait for a member's runner at a time.
pub const QUERIES_MAX: usize = 8;

/// How many bytes an answer has.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// How many bytes of a bundle come with one question, and how many a bundle has.
const PAGE_BYTES_MAX: usize = 192 * 1024;
const BUNDLE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// How many characters of a refusal are kept.
const REFUSAL_CHARS_MAX: usize = 500;

/// How many commits a reader may say that it has.
const HAVE_MAX: usize = 256;

/// How many characters a commit, a ref or a version may have.
const ID_CHARS_MAX: usize = 500;

/// How long a question is kept if its call does not take the answer: longer than any call waits.
const KEPT_MS: u64 = 60_000;

/// An answer, as a member's runner sent it.
pub type AnswerRecord = v1::AnswerQueryRequest;

/// Returns the member that the question is for, which has not exited. Refuses a caller that may not ask it.
pub fn subject(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    team: &str,
    member: &str,
    question: &Question,
) -> Result<Name, RuleError> {
    let (team, caller) = identity::call(tx, who, team, Admit::Stopping)?;
    caller.may_read_texts()?;
    if let Question::Base(_) = question {
        caller.lead_only("give a member commits")?;
        // Not every write of it is in this transaction.
        tx.check_may_write()?;
    }
    let member = team.resolve(member, "member")?;
    let name = &member.name;
    let reviews = match question {
        Question::Work(request) => {
            check_work(request)?;
            // A salvage is named by its ref, or found among the commits that a branch is compared with.
            let is_id = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_of_commits = is_id(&request.commit) && is_id(&request.against);
            request.part() != WorkPart::Salvages && is_of_commits && is_reviewer(tx, &caller, &team, name)?
        }
        Question::Base(request) => {
            check_base(request)?;
            true
        }
        Question::Transcript(_) => false,
    };
    if !reviews {
        caller.may_read_texts_of(name)?;
    }
    if matches!(member.life, Life::Exited { .. }) {
        let command = match question {
            Question::Transcript(_) => "transcript",
            Question::Work(_) | Question::Base(_) => "work",
        };
        let text = format!(
            "{name} has exited, so no runner answers for it. On the machine where it ran, `teamwire {command} {name}` reads \
             what it left."
        );
        return Err(Refusal::new(Reason::AgentExited, text).field("member").into());
    }
    Ok(name.clone())
}

fn check_work(request: &v1::ReadWorkRequest) -> Result<(), Refusal> {
    let invalid = |field: &str, text: &str| Err(Refusal::new(Reason::InvalidField, text).field(field));
    if WorkPart::try_from(request.part).is_err() {
        return invalid("part", "part is none that this coordinator knows.");
    }
    if request.have.len() > HAVE_MAX {
        return invalid("have", "have takes up to 256 commits.");
    }
    let texts = [("commit", &request.commit), ("against", &request.against), ("version", &request.version)];
    let have = request.have.iter().map(|commit| ("have", commit));
    for (field, text) in texts.into_iter().chain(have) {
        if text.chars().count() > ID_CHARS_MAX || text.chars().any(char::is_control) || text.starts_with('-') {
            return invalid(field, &format!("{field} names no commit."));
        }
    }
    if request.offset > 0 && request.version.is_empty() {
        return invalid("version", "A page that does not begin at 0 needs the version of the first page.");
    }
    Ok(())
}

fn check_base(request: &v1::SendBaseRequest) -> Result<(), Refusal> {
    let invalid = |field: &str, text: &str| Err(Refusal::new(Reason::InvalidField, text).field(field));
    if !is_commit_id(&request.commit) {
        return invalid("commit", "commit takes 40 or 64 hexadecimal digits.");
    }
    let is_sound = |c: char| !c.is_control() && !c.is_whitespace();
    if request.branch.is_empty()
        || request.branch.chars().count() > ID_CHARS_MAX
        || !request.branch.chars().all(is_sound)
    {
        return invalid("branch", "branch names no branch.");
    }
    if request.data.len() > PAGE_BYTES_MAX {
        return invalid("data", "A page has up to 192 KiB.");
    }
    if request.total_bytes > BUNDLE_BYTES_MAX || request.offset > request.total_bytes {
        return invalid("total_bytes", "A bundle has up to 1 GiB.");
    }
    Ok(())
}

/// Returns whether the caller was asked to review a task of this member, and has not answered yet.
fn is_reviewer(tx: &mut Tx<'_>, caller: &Principal, team: &TeamRecord, owner: &Name) -> Result<bool, RuleError> {
    let Principal::Member { name, .. } = caller else { return Ok(false) };
    let Some(member) = team.member(owner) else { return Ok(false) };
    for pending in member.pending_reviews.iter().filter(|pending| pending.approver.as_ref() == Some(name)) {
        if request::find(tx, pending.id.as_str())?.state() == RequestState::Pending {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks the runner of a member.
pub fn ask(tx: &mut Tx<'_>, name: &Name, query: &v1::RunnerQuery) -> Result<(), RuleError> {
    let team = tx.read::<TeamRecord>("")?;
    let Some(incarnation) = team.as_ref().and_then(|team| team.member(name)).map(|member| member.incarnation) else {
        return Ok(());
    };
    tx.needs_no_room();
    let id = name.folded();
    let mut record = tx.read::<RunnerQueriesRecord>(id)?.as_deref().cloned().unwrap_or_default();
    let now_ms = tx.ctx.now_ms;
    for old in record.queries.extract_if(.., |old| old.asked_ms + KEPT_MS < now_ms || old.incarnation != incarnation) {
        delete(tx, &old.id);
    }
    if record.queries.len() >= QUERIES_MAX {
        let text = format!("{QUERIES_MAX} calls wait for the runner of {name}. Try again when one has ended.");
        return Err(Refusal::new(Reason::QuotaExceeded, text).into());
    }
    record.queries.push(WaitingQuery { id: query.query_id.clone(), asked_ms: now_ms, incarnation });
    tx.put(&query.query_id, query);
    tx.put(id, &record);
    tx.notify(Topic::RunnerQuery(id));
    Ok(())
}

/// Answers a question, if its call still waits.
pub fn answer(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::AnswerQueryRequest) -> Result<(), RuleError> {
    let (_, name) = identity::member_process(tx, who, Admit::Stopping)?;
    tx.needs_no_room();
    let bytes = prost::Message::encoded_len(request);
    if bytes > ANSWER_BYTES_MAX {
        let text = format!("The answer has {bytes} bytes, and the limit is {ANSWER_BYTES_MAX}.");
        return Err(Refusal::new(Reason::ContentTooLarge, text).field("answer").into());
    }
    let id = name.folded();
    let record = tx.read::<RunnerQueriesRecord>(id)?;
    if record.is_none_or(|record| !record.queries.iter().any(|query| query.id == request.query_id)) {
        return Ok(());
    }
    let mut answer = request.clone();
    if let Some(Answer::Refusal(why)) = &mut answer.answer {
        *why = cut(why, REFUSAL_CHARS_MAX);
    }
    tx.put(&request.query_id, &answer);
    tx.notify(Topic::RunnerQuery(id));
    Ok(())
}

/// Takes the answer to a question out of the store. `None` if there is none yet. `gives_up`: the call waits no longer.
pub fn take(tx: &mut Tx<'_>, name: &Name, query_id: &str, gives_up: bool) -> Result<Option<AnswerRecord>, RuleError> {
    tx.needs_no_room();
    let answer = tx.read::<AnswerRecord>(query_id)?;
    if answer.is_none() && !gives_up {
        return Ok(None);
    }
    let mut record = tx.read::<RunnerQueriesRecord>(name.folded())?.as_deref().cloned().unwrap_or_default();
    record.queries.retain(|query| query.id != query_id);
    match record.queries.is_empty() {
        true => tx.delete::<RunnerQueriesRecord>(name.folded()),
        false => tx.put(name.folded(), &record),
    }
    delete(tx, query_id);
    Ok(answer.map(|answer| AnswerRecord::clone(&answer)))
}

/// Forgets the calls that wait for the runner of a member, which is removed.
pub fn forget(tx: &mut Tx<'_>, name: &Name) -> Result<(), RuleError> {
    let Some(record) = tx.read::<RunnerQueriesRecord>(name.folded())? else { return Ok(()) };
    for query in &record.queries {
        delete(tx, &query.id);
    }
    tx.delete::<RunnerQueriesRecord>(name.folded());
    Ok(())
}

fn delete(tx: &mut Tx<'_>, query_id: &str) {
    tx.delete::<v1::RunnerQuery>(query_id);
    tx.delete::<AnswerRecord>(query_id);
}

/// Refuses a call that a runner has refused, or answered with something else.
pub fn refused(answer: Option<Answer>) -> Refusal {
    match answer {
        Some(Answer::Refusal(why)) => silent(&why),
        _ => silent("The runner does not know this question: it is of an earlier version."),
    }
}

/// Refuses a call whose runner has not answered in time.
pub fn no_answer(member: &Name) -> Refusal {
    silent(&format!(
        "The runner of {member} does not answer. `teamwire status` says whether it is connected; a program that joined without \
         `teamwire run` has none."
    ))
}

fn silent(why: &str) -> Refusal {
    Refusal::new(Reason::RunnerSilent, why).field("member")
}
