//! Reports what the program does and uses, in the background and at most twice a second.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use teamwire_client::{Client, Retry};
use teamwire_proto::v1::{self, TranscriptKind};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use super::{
    Incarnation,
    background::{Background, finished, start},
};
use crate::transcript::Entry;

/// The time between two reports, and between two attempts at one.
const INTERVAL: Duration = Duration::from_millis(500);

/// How many lines wait for the next report. If there are more, the oldest are left out.
const LINES_MAX: usize = 200;

/// How many characters of a line are reported.
const LINE_CHARS_MAX: usize = 500;

/// How many changed files a report contains.
const CHANGED_MAX: usize = 500;

/// How many bytes of lines a report contains: well below what a coordinator accepts in one call.
const REPORT_BYTES_MAX: usize = 128 * 1024;

impl Incarnation<'_> {
    /// Reports one thing that the program did, such as a tool call, for people who watch. Never waits. Blank lines are
    /// ignored, and long ones are cut.
    pub(crate) fn activity(&self, line: impl Into<String>) {
        self.reporter.waiting.send_if_modified(|waiting| waiting.push(line.into()));
    }

    /// Records that another process of the program begins in this life, which counts from zero.
    pub(crate) fn begin_process(&mut self) {
        self.used_earlier = self.used_earlier.plus(mem::take(&mut self.used));
        // The next process must not begin with budgets that were true before.
        self.reporter.budgets.send_replace(None);
    }

    /// Reports what the current process of the program has used. Never waits. Replaces an earlier report that has not
    /// been sent. Returns what the program has used since this life began.
    pub(crate) fn usage(&mut self, usage: v1::Usage) -> v1::Usage {
        self.used = usage;
        let in_life = self.used_earlier.plus(usage);
        self.reporter.waiting.send_modify(|waiting| waiting.usage = Some(in_life));
        in_life
    }

    /// Reports what the life before this one has used, and could not report any more. Never waits.
    pub(super) fn report_left_usage(&mut self, left: v1::Usage) {
        self.used_earlier = left;
        self.usage(v1::Usage::default());
    }

    /// Returns what the member has used in all of its lives, as far as this runner knows.
    pub(super) fn total_usage(&self) -> v1::Usage {
        let before = self.joined.member.as_ref().and_then(|member| member.total_usage).unwrap_or_default();
        before.plus(self.used_earlier).plus(self.used)
    }

    /// Reports a turn that has ended. Never waits. Replaces an earlier report that has not been sent.
    pub(crate) fn turn_ended(&mut self, turn: EndedTurn) {
        self.turns += 1;
        if let Some(telemetry) = &self.telemetry {
            telemetry.turn_ended(&turn);
        }
        let (text, usage) = (turn.cut_short.clone(), turn.usage);
        self.record(Entry { kind: TranscriptKind::TurnEnded, text, usage, ..Entry::default() });
        let numbered = (self.turns, turn);
        self.reporter.waiting.send_modify(|waiting| waiting.turn = Some(numbered));
    }

    /// Returns what reports the member's work and the files that its program has changed.
    pub(super) fn work_reporter(&self) -> WorkReporter {
        WorkReporter(Arc::clone(&self.reporter.waiting))
    }

    /// Returns the budgets that bind the member, as the coordinator answers them.
    pub(crate) fn budgets(&self) -> watch::Receiver<Option<BudgetNews>> {
        self.reporter.budgets.subscribe()
    }

    /// Asks the coordinator for the budgets. Never waits.
    pub(crate) fn ask_for_budgets(&self) {
        self.reporter.waiting.send_modify(|waiting| waiting.asks_for_budgets = true);
    }

    /// Reports what the program is and does. Never waits. Replaces an earlier report that has not been sent.
    pub(crate) fn program_state(&mut self, state: &ProgramState) {
        self.in_flight.set_in_turn(state.turn_since.is_some());
        if let Some(telemetry) = &self.telemetry {
            telemetry.model(&state.model);
        }
        self.reporter.waiting.send_if_modified(|waiting| {
            let is_new = waiting.known_program != *state;
            if is_new {
                waiting.known_program = state.clone();
                waiting.program = Some(state.clone());
            }
            is_new
        });
    }

    /// Reports how many turns of the program have failed in a row, and how the latest one did. Zero if it has not
    /// failed. Never waits. Replaces an earlier report that has not been sent.
    pub(crate) fn failed_turns(&self, count: u32, error: &str) {
        let failed = v1::FailedTurns { count, error: error.to_owned(), since: None };
        self.reporter.waiting.send_modify(|waiting| waiting.failed_turns = Some(failed));
    }
}

/// The budgets that bind the member.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetNews {
    pub(crate) budgets: Vec<v1::BudgetUse>,
    /// What the program had used in this life when they were so.
    pub(crate) reported: v1::Usage,
}

/// A turn of the program that has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedTurn {
    /// `None` if its beginning was not seen.
    pub(crate) started: Option<Instant>,
    pub(crate) ended: Instant,
    /// What the model wrote last. Up to 16 KiB.
    pub(crate) final_text: String,
    pub(crate) tool_calls: u32,
    /// The files that its tools changed.
    pub(crate) files: Vec<String>,
    /// `None` if the program does not say.
    pub(crate) usage: Option<v1::Usage>,
    /// Why it ended early. Empty if it did not.
    pub(crate) cut_short: String,
}

impl EndedTurn {
    /// Returns the report of this turn of a life.
    fn report(&self, turn: u64) -> v1::ReportedTurn {
        v1::ReportedTurn {
            turn,
            start_age: self.started.and_then(age),
            end_age: age(self.ended),
            final_text: self.final_text.clone(),
            tool_calls: self.tool_calls,
            files: self.files.clone(),
            usage: self.usage,
            cut_short: self.cut_short.clone(),
        }
    }
}

/// Returns how long ago something was.
fn age(since: Instant) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(since.elapsed()).ok()
}

/// What a program is and does, as far as its adapter knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramState {
    /// Its name and version. Empty means unknown.
    pub(crate) version: String,
    /// The model that it uses. Empty means unknown.
    pub(crate) model: String,
    /// When its turn began. `None` if it is in no turn.
    pub(crate) turn_since: Option<Instant>,
    /// The tool call that is running, and when it began.
    pub(crate) tool: Option<(String, Instant)>,
    /// What keeps it from its work. Empty means nothing.
    pub(crate) trouble: String,
}

impl ProgramState {
    fn report(&self) -> v1::ReportedProgram {
        v1::ReportedProgram {
            version: self.version.clone(),
            model: self.model.clone(),
            turn_age: self.turn_since.and_then(age),
            tool: self.tool.as_ref().map(|(line, _)| line.clone()).unwrap_or_default(),
            tool_age: self.tool.as_ref().and_then(|(_, since)| age(*since)),
            trouble: self.trouble.clone(),
        }
    }
}

/// Reports the member's work and the files that its program has changed.
#[derive(Clone, Debug)]
pub(super) struct WorkReporter(Arc<watch::Sender<UnreportedActivity>>);

impl WorkReporter {
    /// Reports files that the program has changed, by paths in the repository. Never waits.
    pub(super) fn changed(&self, repository: &str, paths: Vec<String>) {
        if paths.is_empty() {
            return;
        }
        self.0.send_modify(|waiting| {
            let empty = || v1::ChangedFiles { repository: repository.to_owned(), paths: Vec::new() };
            let changed = waiting.changed.get_or_insert_with(empty);
            for path in paths {
                if changed.paths.len() < CHANGED_MAX && !changed.paths.contains(&path) {
                    changed.paths.push(path);
                }
            }
        });
    }

    /// Reports the outcome of merging an approved commit. Never waits.
    pub(super) fn merge(&self, outcome: v1::MergeOutcome) {
        self.0.send_modify(|waiting| waiting.merges.push_back(outcome));
    }

    /// Reports the member's work, as it was at an instant or later. Never waits. Replaces an earlier report that has not been sent.
    pub(super) fn work(&self, work: v1::Work, seen: Instant) {
        self.0.send_modify(|waiting| waiting.work = Some((work, seen)));
    }
}

/// Sends the reports of one incarnation.
#[derive(Debug)]
pub(super) struct ActivityReporter {
    waiting: Arc<watch::Sender<UnreportedActivity>>,
    budgets: Arc<watch::Sender<Option<BudgetNews>>>,
    sending: Background<()>,
}

impl ActivityReporter {
    /// Creates a reporter that calls with `client`.
    pub(super) fn new(client: Client) -> Self {
        let waiting = Arc::new(watch::Sender::new(UnreportedActivity::default()));
        let budgets = Arc::new(watch::Sender::new(None));
        let sending = start(run(client.with_retry(Retry::none()), Arc::clone(&waiting), Arc::clone(&budgets)));
        Self { waiting, budgets, sending }
    }

    /// Waits until everything is reported. Must not be called again after it has returned.
    pub(super) async fn finish(&mut self) {
        self.waiting.send_modify(|waiting| waiting.is_last = true);
        finished(&mut self.sending).await;
    }
}

/// What waits to be reported.
#[derive(Debug, Default)]
struct UnreportedActivity {
    lines: VecDeque<(Instant, String)>,
    /// How many older lines were left out.
    left_out: usize,
    usage: Option<v1::Usage>,
    failed_turns: Option<v1::FailedTurns>,
    program: Option<ProgramState>,
    /// A turn that has ended, and its number.
    turn: Option<(u64, EndedTurn)>,
    /// Files that the program has changed.
    changed: Option<v1::ChangedFiles>,
    /// The member's work, and since when it is so.
    work: Option<(v1::Work, Instant)>,
    /// The outcome of merging approved commits.
    merges: VecDeque<v1::MergeOutcome>,
    /// The runner wants to know the budgets.
    asks_for_budgets: bool,
    /// What was last to be reported of the program.
    known_program: ProgramState,
    /// Nothing will be added.
    is_last: bool,
}

impl UnreportedActivity {
    /// Adds a line. `false` if it is blank.
    fn push(&mut self, line: String) -> bool {
        let line = line.trim();
        if line.is_empty() {
            return false;
        }
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.left_out += 1;
        }
        self.lines.push_back((Instant::now(), cut(line)));
        true
    }

    fn is_empty(&self) -> bool {
        let has_news = self.usage.is_some() || self.failed_turns.is_some() || self.program.is_some();
        let has_work = self.changed.is_some() || self.work.is_some() || !self.merges.is_empty();
        self.lines.is_empty() && !has_news && !has_work && self.turn.is_none() && !self.asks_for_budgets
    }

    /// Takes out the contents of the next report.
    fn take(&mut self) -> Report {
        self.asks_for_budgets = false;
        let mut lines = Vec::new();
        if let (1.., Some((at, _))) = (self.left_out, self.lines.front()) {
            let left_out = mem::take(&mut self.left_out);
            lines.push((*at, format!("[{left_out} earlier lines were too many at once and are left out]")));
        }
        let mut bytes = 0;
        while let Some((_, line)) = self.lines.front() {
            bytes += line.len();
            if bytes > REPORT_BYTES_MAX {
                break;
            }
            lines.extend(self.lines.pop_front());
        }
        Report {
            lines,
            usage: self.usage.take(),
            failed_turns: self.failed_turns.take(),
            program: self.program.take(),
            turn: self.turn.take(),
            changed: self.changed.take(),
            work: self.work.take(),
            merge: self.merges.pop_front(),
            idempotency_key: Uuid::now_v7().to_string(),
        }
    }
}

/// Returns a line as it is reported.
fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some(_) => line.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// One report.
struct Report {
    lines: Vec<(Instant, String)>,
    usage: Option<v1::Usage>,
    failed_turns: Option<v1::FailedTurns>,
    program: Option<ProgramState>,
    turn: Option<(u64, EndedTurn)>,
    changed: Option<v1::ChangedFiles>,
    work: Option<(v1::Work, Instant)>,
    merge: Option<v1::MergeOutcome>,
    idempotency_key: String,
}

impl Report {
    fn request(&self) -> v1::ReportActivityRequest {
        let lines = self.lines.iter().map(|(at, text)| v1::ReportedLine { text: text.clone(), age: age(*at) });
        let (failed_turns, idempotency_key) = (self.failed_turns.clone(), self.idempotency_key.clone());
        let program = self.program.as_ref().map(ProgramState::report);
        let turn = self.turn.as_ref().map(|(number, turn)| turn.report(*number));
        v1::ReportActivityRequest {
            lines: lines.collect(),
            usage: self.usage,
            failed_turns,
            idempotency_key,
            program,
            turn,
            changed: self.changed.clone(),
            work: self.work.as_ref().map(|(work, _)| work.clone()),
            work_age: self.work.as_ref().and_then(|(_, seen)| age(*seen)),
            merge: self.merge.clone(),
        }
    }
}

/// Reports what waits, until everything is reported and nothing will be added.
async fn run(
    client: Client,
    waiting: Arc<watch::Sender<UnreportedActivity>>,
    budgets: Arc<watch::Sender<Option<BudgetNews>>>,
) {
    let mut reported = v1::Usage::default();
    let mut changes = waiting.subscribe();
    loop {
        drop(changes.wait_for(|waiting| waiting.is_last || !waiting.is_empty()).await);
        if waiting.borrow().is_empty() {
            return;
        }
        let mut report = None;
        waiting.send_if_modified(|waiting| {
            report = Some(waiting.take());
            false
        });
        if let Some(report) = report {
            reported = report.usage.unwrap_or(reported);
            if let Some(reply) = send(&client, &report).await {
                budgets.send_replace(Some(BudgetNews { budgets: reply.budgets, reported }));
            }
        }
        // The last reports follow each other at once.
        let _ = timeout(INTERVAL, changes.wait_for(|waiting| waiting.is_last)).await;
    }
}

/// Sends a report, and repeats it until a coordinator accepts it. `None` if it is refused.
async fn send(client: &Client, report: &Report) -> Option<v1::ReportActivityResponse> {
    loop {
        let error = match client.report_activity(report.request()).await {
            Ok(reply) => return Some(reply),
            Err(error) => error,
        };
        tracing::debug!(%error, "activity was not reported");
        if !error.is_retryable() {
            return None;
        }
        sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_wait_and_the_report_says_how_many_are_left_out() {
        let mut waiting = UnreportedActivity::default();
        for number in 0..LINES_MAX + 3 {
            assert!(waiting.push(format!(" line {number}\n")));
        }
        assert!(!waiting.push(" \n".to_owned()));
        let lines: Vec<String> = waiting.take().lines.into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines[0].starts_with("[3 earlier lines"), "{}", lines[0]);
        assert_eq!((lines[1].as_str(), lines[LINES_MAX].as_str()), ("line 3", "line 202"));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_long_line_is_cut_and_a_report_is_never_too_large() {
        let mut waiting = UnreportedActivity::default();
        for _ in 0..LINES_MAX {
            waiting.push("𝄞".repeat(10_000));
        }
        let first = waiting.take();
        assert_eq!(first.lines[0].1.chars().count(), LINE_CHARS_MAX);
        assert!(first.lines[0].1.ends_with('…'));
        let bytes: usize = first.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(bytes <= REPORT_BYTES_MAX && !waiting.is_empty());
        let mut lines = first.lines.len();
        while !waiting.is_empty() {
            lines += waiting.take().lines.len();
        }
        assert_eq!(lines, LINES_MAX);
    }
}
