//! The lines that a program reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use teamwire_client::Delivery;
use teamwire_proto::{
    Refusal, dialect,
    v1::{self, MemberState, Role},
};

use crate::{
    agent_text::{self, AnswerWith, Interface},
    visible::json_line,
};

/// How many other members a welcome names.
const OTHERS_MAX: usize = 50;

/// A line for the program.
#[derive(Debug)]
pub(crate) struct InputLine {
    /// The line with its end, or several lines.
    pub(crate) text: String,
    /// The id of the message that it carries. Empty if it carries none.
    pub(crate) message_id: String,
}

/// Who a program is, who else is in the team, and how it answers.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    /// As a line of JSON, with its end.
    pub(crate) line: String,
    /// As an agent reads it.
    pub(crate) text: String,
    /// What an agent with the member's tools must never forget.
    pub(crate) identity: String,
    /// Whether the lead must approve a plan before the member may work on tasks.
    pub(crate) plan_required: bool,
}

/// Returns what a program reads first. `roster`: the first page of the team's members; `None` if it is unknown.
pub(crate) fn welcome(
    joined: &v1::JoinResponse,
    roster: Option<&v1::ListMembersResponse>,
    interface: Interface,
) -> Welcome {
    let team = joined.team.clone().unwrap_or_default();
    let joined = joined.member.clone().unwrap_or_default();
    let members = roster.map(|roster| roster.members.as_slice()).unwrap_or_default();
    // The roster is newer than the reply to the join.
    let member = members.iter().find(|member| member.name == joined.name).unwrap_or(&joined);
    let lead = members.iter().find(|member| member.role() == Role::Lead).map_or(&team.lead, |lead| &lead.name);
    let is_lead = member.role() == Role::Lead;
    let others: Vec<&v1::Member> =
        members.iter().filter(|other| other.name != member.name && other.state() != MemberState::Exited).collect();
    let named = &others[..others.len().min(OTHERS_MAX)];
    let has_more = others.len() > named.len() || roster.is_some_and(|roster| !roster.next_page_token.is_empty());
    let mut welcome = json!({
        "type": "welcome",
        "team": team.name,
        "member": member.name,
        "incarnation": joined.incarnation,
        "role": if is_lead { "lead" } else { "teammate" },
        "lead": lead,
    });
    if roster.is_some() {
        welcome["others"] = named.iter().map(|other| roster_entry(other)).collect();
        welcome["has_more_others"] = json!(has_more);
    }
    let names: Vec<&str> = named.iter().map(|other| other.name.as_str()).collect();
    let about = agent_text::About {
        name: &member.name,
        team: &team.name,
        lead: (!is_lead).then_some(lead.as_str()),
        others: roster.is_some().then_some(names.as_slice()),
        has_more_others: has_more,
        interface,
    };
    let mut text = agent_text::welcome(&about);
    if member.plan_required {
        welcome["plan_required"] = json!(true);
        let answer_with = if interface == Interface::Tools { AnswerWith::Tool } else { AnswerWith::Command };
        text = format!("{text} {}", agent_text::plan_required(answer_with));
    }
    welcome["text"] = json!(text);
    let identity = agent_text::identity(&about);
    Welcome { line: line(&welcome), text, identity, plan_required: member.plan_required }
}

fn roster_entry(member: &v1::Member) -> Value {
    let mut entry = json!({ "name": member.name });
    if let Some(attributes) = member.attributes.as_ref().filter(|attributes| !attributes.agent_type.is_empty()) {
        entry["agent_type"] = json!(attributes.agent_type);
    }
    entry
}

/// Returns a value as a line with its end.
pub(crate) fn line(value: &Value) -> String {
    json_line(value) + "\n"
}

/// Returns a message as a program reads it: the SendMessage object with its text form and its delivery count.
pub(crate) fn message(delivery: &Delivery) -> InputLine {
    let mut json = dialect::write(&delivery.message);
    json["text"] = json!(agent_text::teammate_message(&delivery.message, AnswerWith::Command));
    json["delivery_count"] = json!(delivery.delivery_count);
    InputLine { text: line(&json), message_id: delivery.message.id.clone() }
}

/// Returns a claimed task as a program reads it.
pub(crate) fn task(claim: &v1::Claim) -> InputLine {
    let task = claim.task.clone().unwrap_or_default();
    let json = json!({
        "type": "task",
        "task_id": task.id,
        "subject": task.subject,
        "description": task.description,
        "metadata": task.metadata.iter().collect::<BTreeMap<_, _>>(),
        "attempt": task.attempts,
        "claim_token": claim.token,
        "text": agent_text::claim(claim, AnswerWith::Command),
    });
    InputLine { text: line(&json), message_id: String::new() }
}

/// Returns the reply to a message that was sent. `in_reply_to`: the message that the runner took it to answer;
/// `request`: what the program wrote.
pub(crate) fn sent(response: &v1::SendResponse, in_reply_to: Option<&str>, request: Value) -> Value {
    let mut reply = json!({"type": "sent", "message_id": response.message_id, "recipients": response.recipients});
    if let Some(id) = in_reply_to {
        reply["in_reply_to"] = json!(id);
    }
    if !response.request_id.is_empty() {
        reply["request_id"] = json!(response.request_id);
    }
    if !response.warnings.is_empty() {
        reply["warnings"] = json!(response.warnings);
    }
    reply["request"] = request;
    reply
}

/// Returns the reply to a task that was `completed` or `released`.
pub(crate) fn task_closed(kind: &str, task_id: u64, request: Value) -> Value {
    json!({"type": kind, "task_id": task_id, "request": request})
}

/// Returns the reply to something that was refused. `written`: what the program wrote; a string is the beginning of a
/// line that is not an object.
pub(crate) fn refused(refusal: &Refusal, written: Value) -> Value {
    let mut reply = json!({"type": "error", "reason": refusal.reason.as_str(), "message": refusal.message});
    if let Some(field) = &refusal.field {
        reply["field"] = json!(field);
    }
    if !refusal.metadata.is_empty() {
        reply["metadata"] = json!(refusal.metadata);
    }
    let field = if written.is_string() { "line" } else { "request" };
    reply[field] = written;
    reply
}

/// Returns the reply to something that failed without a refusal.
pub(crate) fn failed(reason: &str, message: &str, request: Value) -> Value {
    json!({"type": "error", "reason": reason, "message": message, "request": request})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_line_that_says_everything_about_it() {
        let task =
            v1::Task { id: 7, subject: "a < b".into(), description: "x\ny".into(), attempts: 2, ..Default::default() };
        let line = task_line(task);
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&read["task_id"], &read["claim_token"], &read["attempt"]), (&json!(7), &json!("t"), &json!(2)));
        assert!(read["text"].as_str().expect("a text").contains("a &lt; b"));
    }

    fn member(name: &str, role: Role) -> v1::Member {
        v1::Member { name: name.into(), role: role.into(), state: MemberState::Active.into(), ..Default::default() }
    }

    fn welcomed(members: Vec<v1::Member>, interface: Interface) -> Value {
        let joined = v1::JoinResponse {
            team: Some(v1::Team { name: "blue".into(), lead: "zoe".into(), ..Default::default() }),
            member: Some(v1::Member { incarnation: 2, ..member("ann", Role::Teammate) }),
            ..Default::default()
        };
        let roster = v1::ListMembersResponse { members, ..Default::default() };
        let line = welcome(&joined, Some(&roster).filter(|roster| !roster.members.is_empty()), interface).line;
        assert!(line.len() < 32 * 1024, "{}", line.len());
        serde_json::from_str(&line).expect("JSON")
    }

    #[test]
    fn a_welcome_says_who_and_with_whom_and_how_to_answer() {
        let unknown = welcomed(Vec::new(), Interface::Lines);
        assert_eq!(
            (&unknown["role"], &unknown["lead"], &unknown["incarnation"]),
            (&json!("teammate"), &json!("zoe"), &json!(2))
        );
        assert_eq!(unknown.get("others"), None);
        let mut gone = member("gone", Role::Teammate);
        gone.set_state(MemberState::Exited);
        let reviewer = v1::MemberAttributes { agent_type: "reviewer".into(), ..Default::default() };
        let bob = v1::Member { attributes: Some(reviewer), ..member("bob", Role::Teammate) };
        // The lead has changed since the join.
        let roster =
            vec![member("zoe", Role::Teammate), member("ann", Role::Teammate), gone, bob, member("cyd", Role::Lead)];
        let welcome = welcomed(roster.clone(), Interface::Lines);
        assert_eq!((&welcome["lead"], &welcome["has_more_others"]), (&json!("cyd"), &json!(false)));
        assert_eq!(
            welcome["others"],
            json!([{"name": "zoe"}, {"name": "bob", "agent_type": "reviewer"}, {"name": "cyd"}])
        );
        let text = welcome["text"].as_str().expect("a text");
        for part in ["You are ann", "team blue", "lead is cyd", "others are zoe, bob.", r#"{"ack":"#, r#"{"to":"#] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(welcomed(roster, Interface::Batches)["text"].as_str().expect("a text").contains("exit with code 0"));
    }

    #[test]
    fn a_welcome_names_a_bounded_number_of_others() {
        let many = (0..200).map(|number| {
            let agent_type = "x".repeat(100);
            let attributes = Some(v1::MemberAttributes { agent_type, ..Default::default() });
            v1::Member { attributes, ..member(&format!("{number:0>63}"), Role::Teammate) }
        });
        let welcome = welcomed(many.collect(), Interface::Lines);
        assert_eq!(welcome["others"].as_array().map(Vec::len), Some(OTHERS_MAX));
        assert_eq!(welcome["has_more_others"], json!(true));
        assert!(welcome["text"].as_str().expect("a text").contains("teamwire status"));
    }

    fn task_line(task: v1::Task) -> String {
        super::task(&v1::Claim { task: Some(task), token: "t".into(), ..Default::default() }).text
    }
}
