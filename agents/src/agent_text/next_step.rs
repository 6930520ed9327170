//! What the reader of a notice can do about it.

use teamwire_proto::v1::{self, NoticeKind};

use super::{AnswerWith, escaped};

/// Returns how the reader of a notice can act on it, in sentences. Empty if there is nothing to say.
pub fn next_step(notice: &v1::Notice, answer_with: AnswerWith) -> String {
    let (member, message, request) =
        (escaped(&notice.member), escaped(&notice.message_id), escaped(&notice.request_id));
    let task = notice.task.as_ref().map(|task| task.id);
    let is_blocked = notice.task.as_ref().is_some_and(|task| !task.waiting_for.is_empty());
    match (notice.kind(), answer_with, task) {
        (NoticeKind::Digest, ..) => {
            let mut steps: Vec<String> = Vec::new();
            for step in notice.gathered.iter().map(|gathered| next_step(gathered, answer_with)) {
                if !step.is_empty() && !steps.contains(&step) {
                    steps.push(step);
                }
            }
            steps.join("\n")
        }
        (NoticeKind::TaskAssignment, ..) if is_blocked => {
            "It can be claimed once these tasks are completed.".to_owned()
        }
        (NoticeKind::TaskAssignment, AnswerWith::Command, Some(id)) => {
            format!("Take it with `teamwire task claim {id}`; all of it: `teamwire task show {id}`.")
        }
        (NoticeKind::TaskAssignment, AnswerWith::Tool, Some(id)) => {
            format!("Take it: call TaskClaim with {{\"taskId\":\"{id}\"}}. All of it: TaskGet with the same input.")
        }
        (NoticeKind::TaskLapsed, AnswerWith::Command, Some(id)) => {
            format!("To claim it again: `teamwire task claim {id}`.")
        }
        (NoticeKind::TaskLapsed, AnswerWith::Tool, Some(id)) => {
            format!("To claim it again, call TaskClaim with {{\"taskId\":\"{id}\"}}.")
        }
        (NoticeKind::Unprocessed, AnswerWith::Command, _) => format!("See why with `teamwire doctor {member}`."),
        (NoticeKind::Unprocessed, AnswerWith::Tool, _) => "TeamStatus shows its state.".to_owned(),
        (NoticeKind::Quota, AnswerWith::Command, _) => "See how full it is with `teamwire doctor`.".to_owned(),
        (NoticeKind::DeadLetter, AnswerWith::Command, _) => {
            format!("See `teamwire message show {message}`.")
        }
        (NoticeKind::WorkFailed, AnswerWith::Command, _) => {
            let what = match task {
                Some(id) => Some(format!("`teamwire task show {id}`")),
                None if message.is_empty() => None,
                None => Some(format!("`teamwire message show {message}`")),
            };
            // A program that is still running has a log to follow.
            let logs = notice.exit.is_none().then(|| format!("`teamwire logs {member}`"));
            let see: Vec<String> = what.into_iter().chain(logs).collect();
            if see.is_empty() { String::new() } else { format!("See {}.", see.join(" and ")) }
        }
        (NoticeKind::WorkFailed, AnswerWith::Tool, Some(id)) => {
            format!("All of the task: call TaskGet with {{\"taskId\":\"{id}\"}}.")
        }
        (NoticeKind::ReviewVoid, AnswerWith::Command, Some(id)) => {
            format!("To complete it again: `teamwire task complete {id}`.")
        }
        (NoticeKind::ReviewVoid, AnswerWith::Tool, Some(id)) => {
            format!("To complete it again, call TaskUpdate with {{\"taskId\":\"{id}\",\"status\":\"completed\"}}.")
        }
        (NoticeKind::SpawnFailed, AnswerWith::Command, _) => {
            format!("See `teamwire requests {request}` and `teamwire hosts`.")
        }
        (NoticeKind::SpawnFailed, AnswerWith::Tool, _) => {
            "To order it again, call Task. TeamStatus shows the hosts.".to_owned()
        }
        _ => String::new(),
    }
}
