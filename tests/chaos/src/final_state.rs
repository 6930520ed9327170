//! The final state of a team, as the lead sees it.

use teamwire_client::{Client, Error, v1};

use crate::{
    history::{Recorder, What},
    member,
    orders::micros,
};

/// Records all messages with their receipts, decisions, losses and tasks.
pub async fn record(lead: &Client, note: &Recorder) -> Result<(), Error> {
    let word = |name: &str, prefix: &str| name.trim_start_matches(prefix).to_ascii_lowercase();
    let mut request = v1::ListHistoryRequest {
        filter: Some(v1::HistoryFilter { include_receipts: true, ..Default::default() }),
        page_size: 1_000,
        ..Default::default()
    };
    loop {
        let page = lead.list_history(request.clone()).await?;
        for entry in page.entries {
            match entry.event {
                Some(v1::history_entry::Event::Message(message)) => {
                    use v1::message::Body::{Broadcast, Message};
                    let content = match message.body {
                        Some(Message(text)) => text.content,
                        Some(Broadcast(text)) => text.content,
                        _ => continue,
                    };
                    let state = |it: &v1::Receipt| match word(it.state().as_str_name(), "RECEIPT_STATE_").as_str() {
                        "dead_lettered" => format!(
                            "dead_lettered: {}",
                            it.dead_letter_cause()
                                .as_str_name()
                                .trim_start_matches("DEAD_LETTER_CAUSE_")
                                .to_ascii_lowercase()
                        ),
                        state => state.to_owned(),
                    };
                    let receipts = entry.receipts.iter().map(|it| (it.recipient.clone(), state(it))).collect();
                    let from = message.sender.unwrap_or_default().name;
                    note.note(What::FinalMessage { message_id: message.id, from, content, receipts });
                }
                Some(v1::history_entry::Event::Decision(request)) => {
                    let state = member::state_of(&request);
                    if request.kind() == v1::RequestKind::Spawn {
                        note.note(What::FinalOrder {
                            request_id: request.id.clone(),
                            who: request.member.clone(),
                            state: state.clone(),
                            expires_us: micros(request.expires_at),
                            decided_us: micros(request.decided_at),
                        });
                    }
                    note.note(What::FinalRequest { request_id: request.id, state });
                }
                Some(v1::history_entry::Event::Member(changed)) if changed.state() == v1::MemberState::Lost => {
                    note.note(What::FinalLost { who: changed.member });
                }
                Some(v1::history_entry::Event::Team(event)) if event.kind() == v1::TeamEventKind::WritesLost => {
                    note.note(What::FinalWritesLost);
                }
                _ => {}
            }
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    for member in lead.members().await? {
        if member.state() == v1::MemberState::Spawning {
            note.note(What::FinalReserved { who: member.name });
        }
    }
    let mut request = v1::ListTasksRequest { page_size: 1_000, ..Default::default() };
    loop {
        let page = lead.list_tasks(request.clone()).await?;
        for task in page.tasks {
            let is_completed = task.status() == v1::TaskStatus::Completed;
            note.note(What::FinalTask { task_id: task.id, is_completed });
        }
        if page.next_page_token.is_empty() {
            return Ok(());
        }
        request.page_token = page.next_page_token;
    }
}
