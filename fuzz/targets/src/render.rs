//! The text in which an agent reads a message: whatever is in the message, it has one sender, and everything that was
//! said is there to be seen.

use prost::Message as _;
use teamwire_agents::agent_text;
use teamwire_proto::{
    v1::{self, message::Body},
    visible::ends_line,
};

/// An element as an agent reads it, taken apart.
struct Element {
    attributes: Vec<(String, String)>,
    body: String,
}

/// Returns a task as its owner reads it.
pub(crate) fn claimed(task: &v1::Task) -> String {
    let claim = v1::Claim { task: Some(task.clone()), ..v1::Claim::default() };
    agent_text::claim(&claim, agent_text::AnswerWith::Command)
}

/// A message or a task.
pub(crate) fn render(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else { return };
    if kind % 2 == 0 {
        let Ok(message) = v1::Message::decode(input) else { return };
        check_message(&message);
    } else {
        let Ok(task) = v1::Task::decode(input) else { return };
        let element = parse(&claimed(&task));
        assert_eq!(element.attributes[0], ("teammate_id".to_owned(), "coordinator".to_owned()));
        assert!(element.body.contains(&task.subject) && element.body.ends_with(&task.description));
    }
}

fn check_message(message: &v1::Message) {
    let element = parse(&agent_text::teammate_message(message, agent_text::AnswerWith::Command));
    let sender = message.sender.as_ref().map_or("", |sender| sender.name.as_str());
    assert_eq!(element.attributes[0], ("teammate_id".to_owned(), sender.to_owned()));
    for (name, value) in &element.attributes {
        match (name.as_str(), message.body.as_ref()) {
            ("note", _) => assert!(message.automatic || message.interrupt, "{value:?} was forged"),
            ("to", Some(Body::Broadcast(body))) => assert_eq!(*value, format!("@{}", body.tag)),
            ("to", _) => panic!("{value:?} was forged"),
            _ => {}
        }
    }
    let foreign = match message.body.as_ref() {
        None => return,
        Some(Body::Message(body)) => {
            assert_eq!(element.body, body.content);
            return;
        }
        Some(Body::Broadcast(body)) => {
            assert_eq!(element.body, body.content);
            return;
        }
        Some(Body::ShutdownRequest(body)) => &body.reason,
        Some(Body::ShutdownResponse(body)) => &body.reason,
        Some(Body::PlanApprovalRequest(body)) => &body.plan,
        Some(Body::PlanApprovalResponse(body)) => &body.feedback,
        Some(Body::PermissionRequest(body)) => {
            let mut lines = body.detail.split(ends_line).filter(|line| !line.is_empty());
            let is_shown = |line: &str| element.body.contains(&format!("\n    {line}\n"));
            assert!(element.body.contains(&body.tool) && lines.all(is_shown), "what was asked is not there");
            assert!(
                element.body.ends_with(&format!(" describes it as: {}", body.summary)),
                "its description comes last"
            );
            return;
        }
        Some(Body::PermissionResponse(body)) => &body.reason,
        Some(Body::ReviewRequest(body)) => {
            assert!(element.body.contains(&body.summary), "what is reviewed is not there");
            &body.result
        }
        Some(Body::ReviewResponse(body)) => &body.reason,
        Some(Body::SpawnOrder(body)) => &body.summary,
        Some(Body::Notice(body)) => &body.text,
    };
    assert!(element.body.contains(foreign), "what was said is not there");
    if !matches!(message.body, Some(Body::Notice(_))) {
        assert!(element.body.ends_with(foreign), "foreign text comes last");
    }
}

/// Takes the one element apart. Panics if it is not one element, or hides something.
fn parse(text: &str) -> Element {
    for (at, c) in text.char_indices() {
        assert!(!hides(c), "{c:?} at {at} of {text:?}");
    }
    let rest = text.strip_prefix("<teammate-message").expect("it begins with its start tag");
    let (head, rest) = rest.split_once('>').expect("its start tag ends");
    let body = rest.strip_suffix("</teammate-message>").expect("it ends with its end tag");
    assert!(!body.contains(['<', '>']), "there is a second tag: {text:?}");
    assert!(!head.contains(['<', '\n', '\t']), "the start tag is on one line: {head:?}");
    let mut attributes = Vec::new();
    let mut rest = head;
    while let Some(attribute) = rest.strip_prefix(' ') {
        let (name, value) = attribute.split_once("=\"").expect("an attribute has a value");
        let (value, after) = value.split_once('"').expect("a value ends");
        assert!(
            ["teammate_id", "to", "summary", "note", "attachments"].contains(&name),
            "an attribute was forged: {name}"
        );
        assert!(attributes.iter().all(|(known, _)| known != name), "{name} is there twice");
        attributes.push((name.to_owned(), unescape(value)));
        rest = after;
    }
    assert!(rest.is_empty() && !attributes.is_empty(), "{rest:?} is left of the start tag");
    Element { attributes, body: unescape(body) }
}

/// Returns whether a character moves the cursor, turns the direction of the text, or carries text that no reader sees.
fn hides(c: char) -> bool {
    let turns = matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let breaks = (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{2028}' | '\u{2029}');
    // Tags, a whole invisible ASCII; variation selectors that no text needs; other characters without a shape.
    let is_shapeless =
        matches!(c, '\u{E0000}'..='\u{E0FFF}' | '\u{FE00}'..='\u{FE0D}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    turns || breaks || is_shapeless
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (entity, after) = after.split_once(';').expect("an entity ends");
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let digits = number.strip_prefix("#x").expect("an entity that is known");
                char::from_u32(u32::from_str_radix(digits, 16).expect("a number")).expect("a character")
            }
        });
        rest = after;
    }
    out + rest
}
