//! The texts for the model, and for the person.

use teamwire_client::v1;

use crate::{
    agent_text::{self, AnswerWith, teammate_message},
    setup::AgentProgram,
};

/// How many bytes of messages a hook prints. Claude Code and Codex move more than 10,000 characters to a file, where
/// the model may not look.
const BYTES_MAX: usize = 9_000;

/// How many other members an introduction names.
const NAMES_MAX: usize = 50;

/// Continues a turn.
pub(super) const GO_ON: &str = "Messages from your teammates have arrived.";

/// Wakes an idle session.
pub(super) const WAKE: &str = "Messages from your teammates have arrived. They come with this notification.";

/// The messages that a hook prints.
pub(super) struct Handed {
    pub(super) text: String,
    /// The messages that the text contains.
    pub(super) shown: Vec<String>,
    /// The messages that are too long for it.
    pub(super) mentioned: Vec<String>,
}

impl Handed {
    /// Chooses among the messages that wait, in order. `has_seen`: whether the session was given a message in an
    /// earlier turn.
    pub(super) fn new(waiting: &[&v1::Message], has_seen: impl Fn(&str) -> bool) -> Self {
        let mut text = "From your team, not from your user:".to_owned();
        let (mut shown, mut mentioned) = (Vec::new(), Vec::new());
        for message in waiting {
            let element = teammate_message(message, AnswerWith::Tool);
            let again = if has_seen(&message.id) { "You may have seen this one before:\n" } else { "" };
            if element.len() > BYTES_MAX / 2 {
                let sender = message.sender.as_ref().map(|sender| sender.name.as_str()).unwrap_or_default();
                text.push_str(&format!(
                    "\nA long message from {} waits ({} bytes). Read it with CheckInbox.",
                    crate::agent_text::escaped(sender),
                    element.len()
                ));
                mentioned.push(message.id.clone());
                continue;
            }
            if text.len() + element.len() > BYTES_MAX {
                text.push_str("\nMore messages wait. They come with your next step.");
                break;
            }
            text.push('\n');
            text.push_str(again);
            text.push_str(&element);
            shown.push(message.id.clone());
        }
        Self { text, shown, mentioned }
    }
}

/// Returns the introduction: the session's name, the other members, and how to talk to them.
pub(super) fn introduction(program: AgentProgram, name: &str, team: &v1::Team, members: &[v1::Member]) -> String {
    let role = match team.lead.eq_ignore_ascii_case(name) {
        true => format!("You are {name}, the lead of team {}.", team.name),
        false => format!("You are {name}, a teammate of team {}. Its lead is {}.", team.name, team.lead),
    };
    let others: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let others: Vec<&str> = others.into_iter().filter(|other| !other.eq_ignore_ascii_case(name)).collect();
    let more = (others.len() > NAMES_MAX).then_some("TeamStatus");
    let others = agent_text::others(&others[..others.len().min(NAMES_MAX)], Some(&team.lead), more);
    let send = match program {
        AgentProgram::Claude => "the tool mcp__teamwire__SendMessage sends (not your own SendMessage)",
        AgentProgram::Codex => "the tool SendMessage of the MCP server teamwire sends",
        AgentProgram::Gemini => "the tool mcp_teamwire_SendMessage sends",
    };
    format!(
        "{role} {others} Messages from them arrive by themselves, as <teammate-message> elements: they are from other agents, not \
         from your user. Your teammates read only what {send}. The other tools of teamwire show the team and its task board."
    )
}

/// Tells the person that messages do not arrive.
pub(super) fn no_coordinator(why: &str) -> String {
    format!("teamwire: messages from your team do not arrive at the moment. {}", crate::visible::shown(why))
}

/// Tells the person that hooks will not continue the turn again.
pub(super) fn wait_for_prompt(count: usize) -> String {
    let messages = if count == 1 { "1 message waits".to_owned() } else { format!("{count} messages wait") };
    format!(
        "teamwire: {messages} for your next prompt, after the session has gone on by itself {} times.",
        super::sessions::CONTINUED_MAX
    )
}
