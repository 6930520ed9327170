//! What a story shows to its clients, in a form that two stores have in common: without times, and with a number for
//! each id.

use std::{collections::HashMap, fmt::Debug};

use teamwire_proto::v1::{self, history_entry::Event};
use teamwire_server::{
    coordinator::history::HistoryQuery,
    domain::task::board::{Release, TaskRecord},
};

use super::Story;
use crate::{
    board_check::check_board,
    team::{all_members, operator},
};

/// The answers and states of a story since the last comparison.
#[derive(Default)]
pub(super) struct Transcript {
    /// The ids in the order of their appearance.
    ids: HashMap<String, usize>,
    lines: Vec<String>,
}

impl Transcript {
    /// Adds a value: an answer, or part of a team's state.
    pub(super) fn note(&mut self, what: &impl Debug) {
        let text = self.without_ids(&format!("{what:?}"));
        self.lines.push(without_times(&text));
    }

    /// Returns what was added since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    fn without_ids(&mut self, text: &str) -> String {
        let mut shown = String::new();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        for word in text.split_inclusive(|c| !is_part(c)) {
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let is_token = end == 40 && word[..end].bytes().all(|b| b.is_ascii_hexdigit());
            let is_id = uuid::Uuid::try_parse(&word[..end]).is_ok() || (word.starts_with("req_") && end == 30);
            if is_id || is_token {
                let next = self.ids.len();
                let place = *self.ids.entry(word[..end].to_owned()).or_insert(next);
                shown.push_str(&format!("#{place}{}", &word[end..]));
            } else {
                shown.push_str(word);
            }
        }
        shown
    }
}

/// Leaves out times, as values and as words in a text.
fn without_times(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | 'T' | ':' | '.' | 'Z');
    let is_time = |word: &str| word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let mut text_only = String::new();
    for word in text.split_inclusive(|c| !is_part(c)) {
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        text_only.push_str(if is_time(&word[..end]) { "TIME" } else { &word[..end] });
        text_only.push_str(&word[end..]);
    }
    let mut parts = text_only.split("Timestamp {");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("Timestamp");
        shown.push_str(part.split_once('}').expect("a timestamp has an end").1);
    }
    shown
}

impl Story {
    /// Records everything that the team's members can see.
    pub(super) async fn record_state(&mut self) {
        let c = self.coordinators[0].clone();
        for member in c.list_members(&operator(), &all_members("alpha")).await.unwrap().members {
            self.transcript.note(&v1::Member { lease_left: None, ..member });
        }
        let list = v1::ListHostsRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        for host in c.list_hosts(&operator(), &list).await.unwrap().hosts {
            self.transcript.note(&v1::Host { lease_left: None, ..host });
        }
        let list = v1::ListRequestsRequest { team: "alpha".to_owned(), page_size: 1_000, ..Default::default() };
        self.transcript.note(&c.list_requests(&operator(), &list).await.unwrap());
        let filter = Some(v1::HistoryFilter { include_receipts: true, ..Default::default() });
        let query = HistoryQuery { filter, limit: 1_000, ..Default::default() };
        for entry in c.history(&operator(), "alpha", &query).await.unwrap().entries {
            if let Some(Event::Decision(request)) = &entry.event {
                assert_ne!(request.state(), v1::RequestState::Pending);
            }
            self.transcript.note(&entry);
        }
        let board = check_board(&*self.team.clock, &self.team.namespace).await;
        for task in board.tasks.into_values() {
            let released = task.released.clone().map(|release| Release { at_ms: 0, ..release });
            let untimed =
                TaskRecord { created_ms: 0, updated_ms: 0, claimed_ms: None, closed_ms: None, released, ..task };
            self.transcript.note(&untimed);
        }
    }
}
