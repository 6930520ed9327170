//! `teamwire demo-teammate`: the scripted agents of the demo, hidden from the help.
//!
//! Each is a program that `teamwire run` drives over its standard input and output, like a real agent. They are part of the
//! binary rather than of `examples/`, because the demo must work from the installed binary alone, without an interpreter or
//! further files. `examples/echo.py` shows the same protocol in a few lines.

use std::io::{BufRead as _, Write as _};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;

#[derive(Args, Debug)]
pub struct DemoTeammate {
    /// The part to play
    #[arg(value_enum)]
    part: Part,
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
    pub fn run(&self) -> Result<(), Failure> {
        let mut rejected_plans = 0;
        let mut rejected_before = false;
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = serde_json::from_str::<Value>(&line?) else { continue };
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let (kind, id, content) = (field("type"), field("id"), field("content"));
            let answer = match kind.as_str() {
                "shutdown_request" => {
                    // The task manager rejects its first shutdown request because it has work left.
                    let reject = self.part == Part::Tasks && !std::mem::replace(&mut rejected_before, true);
                    let reason = if reject { "还有 3 个任务正在进行，无法立即退出" } else { "" };
                    Some(
                        json!({"type": "shutdown_response", "request_id": field("request_id"), "approve": !reject, "content": reason}),
                    )
                }
                "plan_approval_response" if line["approve"] == false => {
                    rejected_plans += 1;
                    Some(self.plan(rejected_plans))
                }
                "message" => self.answer(&field("from"), &content, &id),
                _ => None,
            };
            let mut out = std::io::stdout().lock();
            if let Some(answer) = answer {
                writeln!(out, "{answer}")?;
            }
            if !id.is_empty() {
                writeln!(out, "{}", json!({ "ack": id }))?;
            }
            out.flush()?;
        }
        Ok(())
    }

    fn answer(&self, from: &str, content: &str, id: &str) -> Option<Value> {
        match self.part {
            Part::Knowledge if content.contains("今日任务") => Some(json!({
                "type": "message", "recipient": "task-manager",
                "content": "请查询 2026-02-24 的所有任务列表", "summary": "查询今日任务列表",
            })),
            Part::Tasks if content.contains("任务列表") => Some(json!({
                "type": "message", "recipient": from, "in_reply_to": id,
                "content": "2026-02-24 任务列表：\n1. TASK-001: 财务报表生成（进行中）\n2. TASK-002: 系统备份（已完成）",
                "summary": "返回今日任务列表",
            })),
            Part::Tasks if content.contains("完成") => Some(json!({
                "type": "broadcast",
                "content": "任务 TASK-2026-02-24-001 已完成，开始时间：2026-02-24 09:00，完成时间：2026-02-24 11:30",
                "summary": "任务 TASK-001 完成",
            })),
            Part::Tasks if content.contains("计划") => Some(self.plan(0)),
            _ => None,
        }
    }

    fn plan(&self, rejected: u32) -> Value {
        let plan = match rejected {
            0 => "1. 读取数据 2. 生成报表",
            _ => "1. 读取数据 2. 生成报表 3. 错误处理：重试并记录日志",
        };
        json!({ "type": "plan_approval_request", "content": plan, "summary": "财务报表生成计划" })
    }
}
