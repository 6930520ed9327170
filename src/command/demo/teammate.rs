//! `teamwire demo-teammate`: the scripted agents of the demo, hidden from the help.
//!
//! Each is a program that `teamwire run` drives over its standard input and output, like a real agent. They are part of the
//! binary rather than of `examples/`, because the demo must work from the installed binary alone, without an interpreter or
//! further files. `examples/echo.py` shows the same protocol in a few lines.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    super::line_loop::answer_lines,
    script::{Language, Script},
};
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct DemoTeammate {
    /// The part to play
    #[arg(value_enum)]
    part: Part,
    /// The language to speak
    #[arg(long, value_enum, default_value_t)]
    lang: Language,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Knows the tasks, reports their completion, and submits plans
    #[value(name = "task-manager")]
    Tasks,
    /// Asks for the list of tasks
    #[value(name = "knowledge-manager")]
    Knowledge,
    /// Receives broadcasts
    #[value(name = "file-manager")]
    Files,
}

impl DemoTeammate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let script = self.lang.script();
        let mut rejected_plans = 0;
        let mut rejected_before = false;
        answer_lines(|line| {
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let (kind, id) = (field("type"), field("id"));
            let answer = match kind.as_str() {
                "shutdown_request" => {
                    // The task manager rejects its first shutdown request because it has work left.
                    let reject = self.part == Part::Tasks && !std::mem::replace(&mut rejected_before, true);
                    let reason = if reject { script.shutdown_rejection } else { "" };
                    Some(
                        json!({"type": "shutdown_response", "request_id": field("request_id"), "approve": !reject, "content": reason}),
                    )
                }
                "plan_approval_response" if line["approve"] == false => {
                    rejected_plans += 1;
                    Some(plan(script, rejected_plans))
                }
                "message" => self.answer(script, &field("from"), &field("summary"), &id),
                _ => None,
            };
            let ack = (!id.is_empty()).then(|| json!({ "ack": id }));
            answer.into_iter().chain(ack).collect()
        })
    }

    fn answer(&self, script: &Script, from: &str, summary: &str, id: &str) -> Option<Value> {
        let is = |said: super::script::ScriptText| said.0 == summary;
        match self.part {
            Part::Knowledge if is(script.prepare_tasks) => Some(json!({
                "type": "message", "recipient": "task-manager",
                "summary": script.list_tasks.0, "content": script.list_tasks.1,
            })),
            Part::Tasks if is(script.list_tasks) => Some(json!({
                "type": "message", "recipient": from, "in_reply_to": id,
                "summary": script.tasks.0, "content": script.tasks.1,
            })),
            Part::Tasks if is(script.complete_task) => Some(json!({
                "type": "broadcast", "summary": script.task_completed.0, "content": script.task_completed.1,
            })),
            Part::Tasks if is(script.submit_plan) => Some(plan(script, 0)),
            _ => None,
        }
    }
}

fn plan(script: &Script, rejected: u32) -> Value {
    let plan = if rejected == 0 { script.plan } else { script.better_plan };
    json!({ "type": "plan_approval_request", "content": plan, "summary": script.plan_summary })
}
