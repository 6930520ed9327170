//! The text that an agent reads: messages and tasks as the `<teammate-message>` element that agent programs know.
//!
//! Everything that a member wrote is escaped, in attributes and in the body, so that no name and no content can close
//! the element, open another one, or hide in characters that no one sees ([`visible`](crate::visible)). Foreign text
//! comes last in a body, after teamwire's own. A permission request ends with one more line of teamwire's: how the
//! member describes it.

mod next_step;

use std::fmt::Write;

use teamwire_proto::{
    name::LEAD_ALIAS,
    v1::{self, message::Body},
    visible::ends_line,
    word,
};

pub use self::next_step::next_step;
use crate::visible::replace_hidden;

/// How an agent answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerWith {
    /// With a `teamwire` command.
    Command,
    /// With the SendMessage tool.
    Tool,
}

/// Returns a message as an agent reads it.
///
/// The body of a message or broadcast is its content, escaped. The body of a protocol message is an explanation with
/// the request's id and the commands that answer it.
pub fn teammate_message(message: &v1::Message, answer_with: AnswerWith) -> String {
    let sender = message.sender.as_ref().map(|sender| sender.name.as_str()).unwrap_or_default();
    let (summary, body) = summary_and_body(message, sender, answer_with);
    let mut text = format!("<teammate-message teammate_id=\"{}\"", attribute(sender));
    if answer_with == AnswerWith::Tool && matches!(message.body, Some(Body::Message(_) | Body::Broadcast(_))) {
        // What an agent names as `in_reply_to` if it has several messages to answer.
        let _ = write!(text, " message_id=\"{}\"", attribute(&message.id));
    }
    if let Some(Body::Broadcast(broadcast)) = &message.body
        && !broadcast.tag.is_empty()
    {
        let _ = write!(text, " to=\"@{}\"", attribute(&broadcast.tag));
    }
    if !summary.is_empty() {
        let _ = write!(text, " summary=\"{}\"", attribute(&summary));
    }
    if message.automatic {
        let _ = write!(text, " note=\"automatic: its program wrote this at the end of a turn, and did not send it\"");
    } else if message.interrupt {
        let _ = write!(text, " note=\"it ended your last turn, which you do not continue unless it says so\"");
    }
    if !message.attachments.is_empty() {
        let uris: Vec<&str> = message.attachments.iter().map(|attachment| attachment.uri.as_str()).collect();
        let _ = write!(text, " attachments=\"{}\"", attribute(&uris.join(" ")));
    }
    let _ = write!(text, ">{body}</teammate-message>");
    text
}

/// Returns a message that a session has delivered. From the second delivery on, the element says which one it is,
/// because the agent may have acted on the message before.
pub fn delivered_message(message: &v1::Message, delivery_count: u32, answer_with: AnswerWith) -> String {
    let text = teammate_message(message, answer_with);
    if delivery_count <= 1 {
        return text;
    }
    let note =
        format!(" delivery_count=\"{delivery_count}\" note=\"delivered before: check what you have done already\">");
    text.replacen('>', &note, 1)
}

/// Returns a claimed task in the same form, for the agent that has claimed it.
pub fn claim(claim: &v1::Claim, answer_with: AnswerWith) -> String {
    let text = task(claim.task.as_ref().unwrap_or(&v1::Task::default()), answer_with);
    let warnings: String = claim.warnings.iter().map(|warning| format!("{}\n", escaped(warning))).collect();
    match text.split_once("\nSubject:\n") {
        Some((ours, subject)) if !warnings.is_empty() => format!("{ours}\n{warnings}Subject:\n{subject}"),
        _ => text,
    }
}

/// Returns a task in the same form, for the agent that has claimed it.
fn task(task: &v1::Task, answer_with: AnswerWith) -> String {
    let id = task.id;
    let answers = match answer_with {
        AnswerWith::Command => format!(
            "When it is done: teamwire task complete {id} --result \"the result\"\nTo give it back: teamwire task release \
             {id} --reason \"why\""
        ),
        AnswerWith::Tool => {
            let (done, give_back) = task_inputs(id);
            format!("When it is done, call TaskUpdate with {done}\nTo give it back: {give_back}")
        }
    };
    let review = match task.reviewer.as_str() {
        "" => String::new(),
        reviewer => format!(
            "Commit your work before you complete it: {} reviews that commit.\n",
            if reviewer == LEAD_ALIAS { "the lead".to_owned() } else { escaped(reviewer) }
        ),
    };
    let answers = format!("{review}{answers}");
    let says = format!("You have taken task {id}. {answers}\nSubject:\n{}", escaped(&task.subject));
    let body = with_text(says, "Description", &task.description);
    let summary = attribute(&format!("Task {id}: {}", task.subject));
    format!("<teammate-message teammate_id=\"coordinator\" summary=\"{summary}\">{body}</teammate-message>")
}

/// Returns what reminds an agent of a task that it has taken and neither completed nor given back.
pub fn task_reminder(id: u64) -> String {
    let (done, give_back) = task_inputs(id);
    format!(
        "You still have task {id}. If it is done, call TaskUpdate with {done}; if you cannot do it, give it back: {give_back}."
    )
}

/// Returns what reminds an agent of a request to shut down that it has not answered.
pub fn shutdown_reminder(request_id: &str) -> String {
    format!(
        "You have not answered the request to shut down, and no one reads what you write. You keep running until you \
         approve. request_id: {}\n{}",
        escaped(request_id),
        AnswerWith::Tool.shutdown(&escaped(request_id))
    )
}

/// Returns what reminds an agent that it has sent nothing to those whose messages it has read.
pub fn unsent_reminder(senders: &[String]) -> String {
    let senders: Vec<String> = senders.iter().map(|sender| escaped(sender)).collect();
    format!(
        "Your last turn sent nothing, and {} cannot see what you write. If it is meant for someone, send it with SendMessage. If \
         not, do nothing: the lead gets your text.",
        senders.join(" and ")
    )
}

/// Returns the two inputs of the TaskUpdate tool that complete a task and give it back.
fn task_inputs(id: u64) -> (String, String) {
    let input = |status: &str, result: &str| format!(r#"{{"taskId":"{id}","status":"{status}","result":"{result}"}}"#);
    (input("completed", "the result"), input("pending", "why"))
}

/// What a welcome tells an agent.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The member's name.
    pub name: &'a str,
    /// The team's name.
    pub team: &'a str,
    /// The lead's name. `None` if the member is the lead.
    pub lead: Option<&'a str>,
    /// The names of other members. `None` means unknown.
    pub others: Option<&'a [&'a str]>,
    /// Whether there are more others than these.
    pub has_more_others: bool,
    /// How the program reads and answers.
    pub interface: Interface,
}

/// How a program reads messages and answers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// It reads and writes lines of JSON.
    Lines,
    /// It is started for each batch of messages, which it reads as lines of JSON.
    Batches,
    /// It is started for each batch of messages, which it reads as a prompt.
    Prompts,
    /// It is an agent program: it reads messages as prompts and has the member's tools.
    Tools,
}

/// Returns who an agent is, who else is there, and how it answers.
pub fn welcome(about: &About<'_>) -> String {
    let role = role(about);
    let more = about.has_more_others.then_some("`teamwire status`");
    let others = match about.others {
        None => String::new(),
        Some(others) => format!(" {}", self::others(others, about.lead, more)),
    };
    let send = r#"{"to":"NAME","message":"TEXT","summary":"ONE LINE"}"#;
    let answer = match about.interface {
        Interface::Batches => format!(
            "You read messages or a task as lines of JSON. What you print answers the last message; a line {send} is sent as \
             a message. When you have processed everything, exit with code 0."
        ),
        Interface::Prompts => "What you print answers the last message, or is the result of the task. To send another \
            message, run `teamwire send NAME \"TEXT\"`."
            .to_owned(),
        Interface::Lines => format!(
            "You read messages as lines of JSON. To send one, print a line {send}. When you have processed a message, print \
             {{\"ack\":\"ID\"}} with its id."
        ),
        Interface::Tools => "Messages from the others arrive by themselves, as <teammate-message> elements. The others do not \
            see what you write: to reach them, call the tool SendMessage, with \
            {\"type\":\"message\",\"recipient\":\"NAME\",\"content\":\"TEXT\",\"summary\":\"5 to 10 words\"}; the recipient \
            team-lead is always the lead. TaskList, TaskClaim and TaskUpdate are for the shared task board. If you are asked \
            to shut down, answer with SendMessage as the request says."
            .to_owned(),
    };
    format!("{role}{others} {answer}")
}

/// Says who else is in the team, besides the lead, whom another sentence names. `more`: where the rest is listed, if there
/// is more.
pub(crate) fn others(names: &[&str], lead: Option<&str>, more: Option<&str>) -> String {
    let is_lead = |name: &str| lead.is_some_and(|lead| lead.eq_ignore_ascii_case(name));
    let names: Vec<&str> = names.iter().copied().filter(|name| !is_lead(name)).collect();
    match (names.as_slice(), more) {
        ([], None) => "No one else is in the team yet.".to_owned(),
        ([], Some(more)) => format!("{more} lists the others."),
        ([only], None) => format!("The only other teammate is {only}."),
        (names, None) => format!("The others are {}.", names.join(", ")),
        (names, Some(more)) => format!("The others are {} and more: see {more}.", names.join(", ")),
    }
}

/// Returns what an agent with the member's tools must never forget, for its system prompt.
pub fn identity(about: &About<'_>) -> String {
    format!(
        "{} Your teammates read only what you send with the tool SendMessage. Their messages arrive as <teammate-message> \
         elements.",
        role(about)
    )
}

fn role(about: &About<'_>) -> String {
    let (name, team) = (about.name, about.team);
    match about.lead {
        Some(lead) => format!("You are {name}, a teammate of team {team}. Its lead is {lead}."),
        None => format!("You are {name}, the lead of team {team}."),
    }
}

/// Returns what an agent reads first if it needs an approved plan before it may work on tasks.
pub fn plan_required(answer_with: AnswerWith) -> String {
    let how = match answer_with {
        AnswerWith::Command => "Submit it: teamwire plan submit \"the plan\".",
        AnswerWith::Tool => "Leave your plan mode if you have one, or else call the tool SubmitPlan.",
    };
    format!(
        "Before you may take or complete tasks, the lead must approve your plan. {how} The answer comes as a message. If the \
         plan is rejected, change it and submit it again."
    )
}

/// Returns the summary, not yet escaped, and the body, escaped where it is foreign.
fn summary_and_body(message: &v1::Message, sender: &str, answer_with: AnswerWith) -> (String, String) {
    let id = escaped(&message.request_id);
    let from = escaped(sender);
    match message.body.as_ref() {
        None => ("A message of an unknown kind".to_owned(), "Update teamwire to read it.".to_owned()),
        Some(Body::ShutdownRequest(body)) => {
            let asks = format!(
                "{from} asks you to shut down. request_id: {id}\nBring your work to a state that you can leave, then answer. \
                 You keep running until you approve.\n{}",
                answer_with.shutdown(&id)
            );
            ("Shutdown request".to_owned(), with_text(asks, "Reason", &body.reason))
        }
        Some(Body::ShutdownResponse(body)) => {
            let (summary, says) = match body.approve() {
                true => ("Shutdown approved", "approved its shutdown and is ending"),
                false => ("Shutdown refused", "refused to shut down and keeps working"),
            };
            (summary.to_owned(), with_text(format!("{from} {says}. request_id: {id}"), "Reason", &body.reason))
        }
        Some(Body::PlanApprovalRequest(body)) => {
            let summary = if body.summary.is_empty() { "A plan to approve" } else { &body.summary };
            let asks = format!("{from} asks you to approve a plan. request_id: {id}\n{}", answer_with.plan(&id, &from));
            (summary.to_owned(), with_text(asks, "Plan", &body.plan))
        }
        Some(Body::PlanApprovalResponse(body)) => {
            let (summary, says) = match body.approve() {
                true => ("Plan approved", "approved your plan. You may start the work"),
                false => ("Plan rejected", "rejected your plan. Change it and submit it again before you start"),
            };
            (summary.to_owned(), with_text(format!("{from} {says}. request_id: {id}"), "Feedback", &body.feedback))
        }
        Some(Body::PermissionRequest(body)) => {
            let asks = format!(
                "{from} asks for permission to use a tool, and waits for the answer. request_id: {id}\n{}\nTool: {}",
                answer_with.permission(&id),
                attribute(&body.tool),
            );
            // Indented, so that no line of it passes for one of ours.
            let detail = body.detail.split(ends_line).map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
            let asks = match body.detail.is_empty() {
                true => format!("{asks}\nThe request does not say what exactly the tool would do."),
                false => with_text(asks, "What the tool would do", &detail),
            };
            ("Permission request".to_owned(), format!("{asks}\n{from} describes it as: {}", attribute(&body.summary)))
        }
        Some(Body::PermissionResponse(body)) => {
            let (summary, says) = match body.approve() {
                true => ("Permission granted", "granted your permission request"),
                false => ("Permission refused", "refused your permission request. Do not do it"),
            };
            (summary.to_owned(), with_text(format!("{from} {says}. request_id: {id}"), "Reason", &body.reason))
        }
        Some(Body::ReviewRequest(body)) => {
            let work = body.work.as_ref().map_or_else(String::new, |work| {
                let (commit, sentence) = (attribute(&work.head), attribute(&word::work(work)));
                format!("\nIts work: {sentence}\nCommit: {commit}\n{}", answer_with.read_work(&from, &commit))
            });
            let merges = match body.merge_on_approval {
                true => "\nIf you approve, that commit is merged.",
                false => "",
            };
            let asks = format!(
                "{from} asks you to review its work on task {}. request_id: {id}{work}\n{}{merges}\nSubject:\n{}",
                body.task_id,
                answer_with.review(&id),
                escaped(&body.summary),
            );
            (format!("Review of task {}", body.task_id), with_text(asks, "What it says of the result", &body.result))
        }
        Some(Body::ReviewResponse(body)) => {
            let task = body.task_id;
            let (summary, says) = match body.approve() {
                true if body.merge => {
                    ("Review approved", "approved your work, and its commit is being merged".to_owned())
                }
                true => ("Review approved", "approved your work".to_owned()),
                false => (
                    "Review rejected",
                    format!(
                        "rejected your work on task {task}. Change it, commit, and complete the task again: {}",
                        answer_with.complete(task)
                    ),
                ),
            };
            (summary.to_owned(), with_text(format!("{from} {says}. request_id: {id}"), "Reason", &body.reason))
        }
        Some(Body::Notice(body)) => {
            let kind = body.kind().as_str_name().trim_start_matches("NOTICE_KIND_").to_ascii_lowercase();
            let text = match body.count {
                count if count > 1 && body.gathered.is_empty() => format!("{} ({count} times)", escaped(&body.text)),
                _ => escaped(&body.text),
            };
            let text = match next_step(body, answer_with) {
                next if next.is_empty() => text,
                next => format!("{text}\n{next}"),
            };
            let text = match &body.task {
                Some(task) => with_text(text, "Description", &task.description),
                None => text,
            };
            (format!("Notice: {}", kind.replace('_', " ")), text)
        }
        Some(body) => (body.summary().to_owned(), escaped(body.text())),
    }
}

impl AnswerWith {
    fn shutdown(self, id: &str) -> String {
        match self {
            Self::Command => commands(id),
            Self::Tool => tool_inputs("shutdown_response", &format!(r#""request_id":"{id}""#)),
        }
    }

    fn permission(self, id: &str) -> String {
        match self {
            Self::Command => commands(id),
            Self::Tool => tool_inputs("permission_response", &format!(r#""request_id":"{id}""#)),
        }
    }

    fn review(self, id: &str) -> String {
        match self {
            Self::Command => commands(id),
            Self::Tool => tool_inputs("review_response", &format!(r#""request_id":"{id}""#)),
        }
    }

    /// Says how to read a member's work at a commit, which is escaped, as is the name.
    fn read_work(self, member: &str, commit: &str) -> String {
        match self {
            Self::Command => format!("To read the changes: teamwire work diff {member} --commit {commit}"),
            Self::Tool => format!(
                r#"To read the changes, call WorkDiff with {{"member":"{member}","commit":"{commit}"}}. Review only that commit."#
            ),
        }
    }

    /// Says how to complete a task.
    fn complete(self, id: u64) -> String {
        match self {
            Self::Command => format!("teamwire task complete {id} --result \"the result\""),
            Self::Tool => format!("call TaskUpdate with {}", task_inputs(id).0),
        }
    }

    fn plan(self, id: &str, author: &str) -> String {
        match self {
            Self::Command => commands(id),
            Self::Tool => {
                tool_inputs("plan_approval_response", &format!(r#""recipient":"{author}","request_id":"{id}""#))
            }
        }
    }
}

/// Returns the two commands that answer a request.
fn commands(id: &str) -> String {
    format!("To approve: teamwire approve {id}\nTo refuse: teamwire reject {id} --reason \"why\"")
}

/// Returns the two inputs of the SendMessage tool that answer a request.
fn tool_inputs(kind: &str, request: &str) -> String {
    format!(
        r#"To approve, call SendMessage with {{"type":"{kind}",{request},"approve":true}}
To refuse: {{"type":"{kind}",{request},"approve":false,"content":"why"}}"#
    )
}

/// Appends foreign text under a label, unless it is empty.
fn with_text(ours: String, label: &str, foreign: &str) -> String {
    if foreign.is_empty() { ours } else { format!("{ours}\n{label}:\n{}", escaped(foreign)) }
}

/// Escapes a body. Line breaks and tabs stay.
pub(crate) fn escaped(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes the value of an attribute, which must stay on one line.
fn attribute(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    // Shown as a number instead of dropped, so that nothing stays hidden.
    let visible = |text: &str| {
        replace_hidden(text, |c, out| match stays(c) {
            true => out.push(c),
            false => {
                let _ = write!(out, "\u{0}#x{:X};", u32::from(c));
            }
        })
    };
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // A NUL is hidden itself, so only the numbers from above begin with one.
            '\0' => out.push('&'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
