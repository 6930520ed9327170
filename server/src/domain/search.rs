//! Searching the history for a text.

use teamwire_proto::{
    Reason, Refusal,
    v1::{self, history_entry::Event, message::Body},
};

/// How many characters a text to search for may have.
const TEXT_CHARS_MAX: usize = 200;

/// A text to search for.
#[derive(Clone, Debug)]
pub struct Needle(String);

impl Needle {
    /// Checks the text of a filter. `None` if it is empty, and everything passes.
    pub fn parse(text: &str) -> Result<Option<Self>, Refusal> {
        if text.chars().count() > TEXT_CHARS_MAX {
            let message = format!("filter.text takes up to {TEXT_CHARS_MAX} characters. Search for a part of it.");
            return Err(Refusal::new(Reason::InvalidField, message).field("filter.text"));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_lowercase())))
    }

    /// Returns whether the text was said in an entry. The entry must hold its whole message or request.
    pub fn is_in(&self, entry: &v1::HistoryEntry) -> bool {
        match &entry.event {
            Some(Event::Message(message)) => said(message).into_iter().any(|text| self.is_part_of(text)),
            Some(Event::Decision(v1::Request { content, reason, tool, summary, .. })) => {
                [content, reason, tool, summary].into_iter().any(|text| self.is_part_of(text))
            }
            Some(Event::Member(event)) => {
                self.is_part_of(&event.detail) || event.exit.as_ref().is_some_and(|exit| self.is_part_of(&exit.detail))
            }
            Some(Event::Task(event)) => self.is_part_of(&event.subject) || self.is_part_of(&event.detail),
            Some(Event::Permission(event)) => {
                let rule = event.rule.iter().flat_map(|rule| [&rule.tool, &rule.command, &rule.path]);
                rule.chain([&event.detail]).any(|text| self.is_part_of(text))
            }
            Some(Event::Team(_) | Event::DeadLetter(_)) | None => false,
        }
    }

    fn is_part_of(&self, text: &str) -> bool {
        match text.is_ascii() {
            // The fast way, which suffices for most texts.
            true => self.0.is_ascii() && text.to_ascii_lowercase().contains(&self.0),
            false => text.to_lowercase().contains(&self.0),
        }
    }
}

/// Returns the texts of a message.
fn said(message: &v1::Message) -> Vec<&str> {
    let Some(body) = &message.body else { return Vec::new() };
    let mut texts = vec![body.summary(), body.text()];
    if let Body::PermissionRequest(request) = body {
        texts.push(&request.tool);
    }
    texts
}
