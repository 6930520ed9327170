//! Reading the transcript that a member's runner keeps on its machine.
//!
//! A call leaves a query in the store, which wakes the member's session wherever it is open. The session writes a frame,
//! the runner answers with a page, and the call takes that page out of the store. Only pages on their way are stored, and
//! at most [`QUERIES_MAX`] for each member.

use teamwire_proto::{Reason, Refusal, name::Name, v1};

use super::{
    identity::{self, Admit, CallerCredentials},
    records::{Life, TeamRecord, TranscriptQueriesRecord, TranscriptQuery},
    topics::Topic,
    tx::{RuleError, Tx},
};

/// How many calls read a member's transcript at a time.
pub const QUERIES_MAX: usize = 8;

/// How many bytes a page has.
pub const PAGE_BYTES_MAX: usize = 256 * 1024;

/// How many characters of a refusal are kept.
const REFUSAL_CHARS_MAX: usize = 500;

/// How long a query is kept if its call does not take the answer: longer than any call waits.
const KEPT_MS: u64 = 60_000;

/// A page, as a member's runner sent it.
pub type PageRecord = v1::AnswerTranscriptQueryRequest;

/// Returns the member whose transcript the caller may read, and which has not exited.
pub fn subject(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ReadTranscriptRequest,
) -> Result<Name, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    caller.may_read_texts()?;
    let member = team.resolve(&request.member, "member")?;
    let name = &member.name;
    caller.may_read_texts_of(name)?;
    if matches!(member.life, Life::Exited { .. }) {
        let text = format!(
            "{name} has exited, so no runner answers for it. On the machine where it ran, `teamwire transcript {name}` reads \
             what its runner left."
        );
        return Err(Refusal::new(Reason::AgentExited, text).field("member").into());
    }
    Ok(name.clone())
}

/// Asks the runner of a member for a page.
pub fn ask(tx: &mut Tx<'_>, name: &Name, query: &TranscriptQuery) -> Result<(), RuleError> {
    let team = tx.read::<TeamRecord>("")?;
    let Some(incarnation) = team.as_ref().and_then(|team| team.member(name)).map(|member| member.incarnation) else {
        return Ok(());
    };
    tx.needs_no_room();
    let id = name.folded();
    let mut record = tx.read::<TranscriptQueriesRecord>(id)?.as_deref().cloned().unwrap_or_default();
    let now_ms = tx.ctx.now_ms;
    for old in record.queries.extract_if(.., |old| old.asked_ms + KEPT_MS < now_ms || old.incarnation != incarnation) {
        tx.delete::<PageRecord>(&old.id);
    }
    if record.queries.len() >= QUERIES_MAX {
        let text = format!("{QUERIES_MAX} calls are reading the transcript of {name}. Try again when one has ended.");
        return Err(Refusal::new(Reason::QuotaExceeded, text).into());
    }
    record.queries.push(TranscriptQuery { asked_ms: now_ms, incarnation, ..query.clone() });
    tx.put(id, &record);
    tx.notify(Topic::Transcript(id));
    Ok(())
}

/// Answers a query, if its call still waits.
pub fn answer(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::AnswerTranscriptQueryRequest,
) -> Result<(), RuleError> {
    let (_, name) = identity::member_process(tx, who, Admit::Stopping)?;
    tx.needs_no_room();
    let bytes = request.page.as_ref().map_or(0, prost::Message::encoded_len);
    if bytes > PAGE_BYTES_MAX {
        let text = format!("The page has {bytes} bytes, and the limit is {PAGE_BYTES_MAX}.");
        return Err(Refusal::new(Reason::ContentTooLarge, text).field("page").into());
    }
    let id = name.folded();
    let record = tx.read::<TranscriptQueriesRecord>(id)?;
    if record.is_none_or(|record| !record.queries.iter().any(|query| query.id == request.query_id)) {
        return Ok(());
    }
    let refusal = request.refusal.chars().take(REFUSAL_CHARS_MAX).collect();
    tx.put(&request.query_id, &PageRecord { refusal, ..request.clone() });
    tx.notify(Topic::Transcript(id));
    Ok(())
}

/// Takes the answer to a query out of the store. `None` if there is none yet. `gives_up`: the call waits no longer.
pub fn take(tx: &mut Tx<'_>, name: &Name, query_id: &str, gives_up: bool) -> Result<Option<PageRecord>, RuleError> {
    tx.needs_no_room();
    let answer = tx.read::<PageRecord>(query_id)?;
    if answer.is_none() && !gives_up {
        return Ok(None);
    }
    let mut record = tx.read::<TranscriptQueriesRecord>(name.folded())?.as_deref().cloned().unwrap_or_default();
    record.queries.retain(|query| query.id != query_id);
    match record.queries.is_empty() {
        true => tx.delete::<TranscriptQueriesRecord>(name.folded()),
        false => tx.put(name.folded(), &record),
    }
    let Some(answer) = answer else { return Ok(None) };
    tx.delete::<PageRecord>(query_id);
    Ok(Some(PageRecord::clone(&answer)))
}

/// Forgets the calls that read the transcript of a member, which is removed.
pub fn forget(tx: &mut Tx<'_>, name: &Name) -> Result<(), RuleError> {
    let Some(record) = tx.read::<TranscriptQueriesRecord>(name.folded())? else { return Ok(()) };
    for query in &record.queries {
        tx.delete::<PageRecord>(&query.id);
    }
    tx.delete::<TranscriptQueriesRecord>(name.folded());
    Ok(())
}

/// Returns the page that a runner has sent.
pub fn page(answer: PageRecord) -> Result<v1::ReadTranscriptResponse, Refusal> {
    match answer.refusal.as_str() {
        "" => Ok(answer.page.unwrap_or_default()),
        why => Err(silent(why)),
    }
}

/// Refuses a call whose runner has not answered in time.
pub fn no_answer(member: &Name) -> Refusal {
    silent(&format!(
        "The runner of {member} does not answer. `teamwire status` says whether it is connected; a program that joined without \
         `teamwire run` keeps no transcript."
    ))
}

fn silent(why: &str) -> Refusal {
    Refusal::new(Reason::RunnerSilent, why).field("member")
}
