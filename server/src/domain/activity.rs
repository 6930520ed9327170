//! Activity: what a member's program does and uses, as its runner reports it.
//!
//! Reports are frequent and unimportant. So they stay out of the history and of the team's record, wake only the calls
//! that wait for them, and are dropped when the store is full.

use prost::Message as _;
use teamwire_proto::{id, name::Name, v1, word::cut_middle};

use super::{
    identity::{self, Admit, CallerCredentials},
    page::Page,
    price::Prices,
    records::{ActivityRecord, Failed, LastTurnRecord, Program, TeamRecord, ToolCall, WorkRecord},
    same_files, spending, streams, task,
    text::cut,
    time::{duration_ms, timestamp},
    topics::Topic,
    tx::{RuleError, Tx},
    work,
};
use crate::store::{Entry, Extent};

/// How many lines of a member are kept.
pub const LINES_MAX: u64 = 200;

/// How many characters of a line are kept.
const LINE_CHARS_MAX: usize = 500;

/// How many bytes of the last text of a turn are kept.
const FINAL_TEXT_BYTES_MAX: usize = 16 * 1024;

/// How many files of a turn are kept.
const FILES_MAX: usize = 100;

/// How many characters of a file's path are kept.
const FILE_CHARS_MAX: usize = 1_000;

/// How many characters of a program's version are kept.
const VERSION_CHARS_MAX: usize = 100;

/// How many characters of a model's name are kept.
const MODEL_CHARS_MAX: usize = 100;

/// By how much the beginning of something may differ between two reports: each says how long ago it was.
const SINCE_ROUNDING_MS: u64 = 2_000;

/// Adds lines to a member's activity, and raises the counters of what it has used. Returns by how much. `kept`: the
/// extent of its activity, as just read. Returns also the budgets that bind the member.
pub fn report(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ReportActivityRequest,
    kept: Extent,
) -> Result<(v1::Usage, Vec<v1::BudgetUse>), RuleError> {
    let (team, name) = identity::member_process(tx, who, Admit::Stopping)?;
    // The number of lines is bounded.
    tx.needs_no_room();
    let key = id::idempotency_key(&request.idempotency_key)?;
    let incarnation = team.member(&name).map_or(0, |member| member.incarnation);
    let before = tx.read::<ActivityRecord>(name.folded())?.as_deref().cloned().unwrap_or_default().in_life(incarnation);
    let is_repeated = key.is_some() && before.last_key.as_deref() == key;
    if is_repeated || tx.ctx.store_is_full {
        return Ok((v1::Usage::default(), spending::spend(tx, &before, v1::Usage::default())?));
    }
    let failed = match &request.failed_turns {
        None => before.failed.clone(),
        Some(failed) => failed_turns(failed, before.failed.as_ref(), tx.ctx.now_ms),
    };
    let program = match &request.program {
        None => before.program.clone(),
        Some(reported) => Some(program(reported, before.program.as_ref(), tx.ctx.now_ms)),
    };
    let model = model_of(&team, &name, program.as_ref());
    let (life, unpriced) = count(&tx.ctx.limits.prices, &model, &before, request.usage.as_ref());
    let record = ActivityRecord { last_key: key.map(str::to_owned), life, unpriced, failed, program, ..before.clone() };
    if record != before {
        tx.put(name.folded(), &record);
    }
    if let Some(reported) = &request.turn {
        turn_ended(tx, &name, incarnation, reported, &model)?;
    }
    same_files::report(tx, &team, &name, request.changed.as_ref(), request.work.as_ref())?;
    if let Some(outcome) = &request.merge {
        task::review::note_merge(tx, &team, &name, outcome)?;
    }
    if let Some(work) = &request.work {
        let work = work::kept(work);
        let at_ms = tx.ctx.now_ms.saturating_sub(duration_ms(request.work_age.as_ref()));
        task::review::note_work(tx, &team, &name, &work, at_ms)?;
        tx.put(name.folded(), &WorkRecord { work });
    }
    append(tx, &name, incarnation, &request.lines, kept);
    let used = life.since(before.life);
    Ok((used, spending::spend(tx, &record, used)?))
}

/// Returns what a life has used after a report, and which of its tokens wait for a price. Each token costs what the model
/// costs that the program uses when it is reported.
fn count(prices: &Prices, model: &str, before: &ActivityRecord, usage: Option<&v1::Usage>) -> (v1::Usage, v1::Usage) {
    let life = usage.map_or(before.life, |usage| before.life.each(*usage, u64::max));
    if usage.is_some_and(|usage| usage.cost_usd_micros > 0) {
        // The program knows what it costs.
        return (life, v1::Usage::default());
    }
    let unpriced = before.unpriced.plus(life.since(before.life));
    match prices.cost(model, unpriced) {
        Some(cost) => {
            let cost_usd_micros = life.cost_usd_micros.saturating_add(cost);
            (v1::Usage { cost_usd_micros, ..life }, v1::Usage::default())
        }
        None => (life, unpriced),
    }
}

/// Returns the model that a member's program uses: what the program says or, if it does not, what the member's attributes
/// say. Empty if neither does.
fn model_of(team: &TeamRecord, name: &Name, program: Option<&Program>) -> String {
    let said = program.and_then(|program| program.model.clone());
    said.or_else(|| team.member(name).map(|member| member.attributes.model.clone())).unwrap_or_default()
}

/// Takes over what a report says of a turn that has ended, unless a later one is known.
fn turn_ended(
    tx: &mut Tx<'_>,
    name: &Name,
    incarnation: u64,
    reported: &v1::ReportedTurn,
    model: &str,
) -> Result<(), RuleError> {
    let known = tx.read::<LastTurnRecord>(name.folded())?;
    if known.is_some_and(|known| (known.incarnation, known.turn) >= (incarnation, reported.turn)) {
        return Ok(());
    }
    let ago = |age: &prost_types::Duration| tx.ctx.now_ms.saturating_sub(duration_ms(Some(age)));
    let record = LastTurnRecord {
        incarnation,
        turn: reported.turn,
        started_ms: reported.start_age.as_ref().map(ago),
        ended_ms: reported.end_age.as_ref().map_or(tx.ctx.now_ms, ago),
        final_text: cut_middle(&reported.final_text, FINAL_TEXT_BYTES_MAX),
        tool_calls: reported.tool_calls,
        files: reported.files.iter().take(FILES_MAX).map(|file| cut(file, FILE_CHARS_MAX)).collect(),
        used: tx.ctx.limits.prices.complete(model, reported.usage.unwrap_or_default()),
        cut_short: cut(&reported.cut_short, LINE_CHARS_MAX),
    };
    tx.put(name.folded(), &record);
    Ok(())
}

/// Returns the last turn of the member that the caller asks for.
pub fn last_turn(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::GetLastTurnRequest,
) -> Result<v1::GetLastTurnResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    caller.may_read_texts()?;
    let name = team.resolve(&request.member, "member")?.name.clone();
    caller.may_read_texts_of(&name)?;
    let turn = tx.read::<LastTurnRecord>(name.folded())?.map(|record| record.show());
    let work = tx.read::<WorkRecord>(name.folded())?.map(|record| record.work.clone());
    Ok(v1::GetLastTurnResponse { turn, work })
}

/// Takes over what a report says of failed turns. `before`: what the previous one said.
fn failed_turns(reported: &v1::FailedTurns, before: Option<&Failed>, now_ms: u64) -> Option<Failed> {
    let error = cut(&reported.error, LINE_CHARS_MAX);
    let since_ms = before.map_or(now_ms, |before| before.since_ms);
    (reported.count > 0).then_some(Failed { count: reported.count, error, since_ms })
}

/// Takes over what a report says of the program. `before`: what the previous one said.
fn program(reported: &v1::ReportedProgram, before: Option<&Program>, now_ms: u64) -> Program {
    let cut = |text: &str, chars_max| Some(cut(text, chars_max)).filter(|cut| !cut.is_empty());
    let since = |age: Option<&prost_types::Duration>, before: Option<u64>| {
        let since_ms = now_ms.saturating_sub(duration_ms(Some(age?)));
        Some(before.filter(|before| before.abs_diff(since_ms) <= SINCE_ROUNDING_MS).unwrap_or(since_ms))
    };
    let tool = cut(&reported.tool, LINE_CHARS_MAX).map(|text| {
        let same = before.and_then(|before| before.tool.as_ref()).filter(|before| before.text == text);
        ToolCall { text, since_ms: since(reported.tool_age.as_ref(), same.and_then(|before| before.since_ms)) }
    });
    Program {
        version: cut(&reported.version, VERSION_CHARS_MAX),
        turn_since_ms: since(reported.turn_age.as_ref(), before.and_then(|before| before.turn_since_ms)),
        tool,
        trouble: cut(&reported.trouble, LINE_CHARS_MAX),
        model: cut(&reported.model, MODEL_CHARS_MAX),
    }
}

/// Appends lines, and removes the oldest ones beyond the limit.
fn append(tx: &mut Tx<'_>, name: &Name, incarnation: u64, lines: &[v1::ReportedLine], kept: Extent) {
    let stream = streams::activity(name);
    let lines = lines.iter().filter(|line| !line.text.trim().is_empty());
    let excess = lines.clone().count().saturating_sub(usize::try_from(LINES_MAX).unwrap_or(usize::MAX));
    let mut next = kept.next;
    for line in lines.skip(excess) {
        let at_ms = tx.ctx.now_ms.saturating_sub(duration_ms(line.age.as_ref()));
        let text = cut(&line.text, LINE_CHARS_MAX);
        let line = v1::ActivityLine { at: Some(timestamp(at_ms)), incarnation, text, ..v1::ActivityLine::default() };
        tx.append(stream.clone(), line.encode_to_vec().into(), 0, None);
        next += 1;
    }
    if next > kept.next {
        let first = kept.next - kept.entries;
        tx.remove(stream, (first..next.saturating_sub(LINES_MAX).min(kept.next)).collect());
        tx.notify(Topic::Activity(name.folded()));
    }
}

/// Shows a page of a member's activity. `entries`: those after the sequence `after`, one more than fit if there are as
/// many.
pub fn show(entries: Vec<Entry>, after: u64, size: usize) -> Result<Shown, prost::DecodeError> {
    let mut page = Page::new(size);
    let (mut last_sequence, mut has_more) = (after, false);
    for entry in entries {
        let line = v1::ActivityLine { sequence: entry.sequence, ..v1::ActivityLine::decode(&*entry.data)? };
        has_more = !page.add(line);
        if has_more {
            break;
        }
        last_sequence = entry.sequence;
    }
    Ok(Shown { lines: page.into_items(), last_sequence, has_more })
}

/// A page of a member's activity.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The lines, the oldest first.
    pub lines: Vec<v1::ActivityLine>,
    /// The highest sequence that the page covers.
    pub last_sequence: u64,
    /// Whether there are more.
    pub has_more: bool,
}

/// Returns the member whose activity the caller asks for. Every caller of the team may see it.
pub fn subject(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, member: &str) -> Result<Name, RuleError> {
    let (team, _) = identity::call(tx, who, named, Admit::Stopping)?;
    Ok(team.resolve(member, "member")?.name.clone())
}
