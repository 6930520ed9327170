//! What the demo's members say, in the languages that it speaks.

use clap::ValueEnum;

/// A language of the demo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::command) enum Language {
    /// English
    #[default]
    En,
    /// Chinese
    Zh,
}

/// A summary and a text.
pub(super) type ScriptText = (&'static str, &'static str);

/// The lines of a play. The lead and its teammates run in different processes and recognize each other's lines by their
/// summaries.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) team_heading: &'static str,
    pub(super) data_heading: &'static str,
    pub(super) broadcast_heading: &'static str,
    pub(super) plan_heading: &'static str,
    pub(super) deletion_heading: &'static str,
    pub(super) shutdown_heading: &'static str,
    pub(super) deleted_heading: &'static str,
    pub(super) nothing_left: &'static str,
    /// The lead asks the knowledge manager for today's tasks.
    pub(super) prepare_tasks: ScriptText,
    /// The knowledge manager asks the task manager for them.
    pub(super) list_tasks: ScriptText,
    pub(super) tasks: ScriptText,
    /// The lead has a task completed.
    pub(super) complete_task: ScriptText,
    pub(super) task_completed: ScriptText,
    /// The lead asks for a plan.
    pub(super) submit_plan: ScriptText,
    pub(super) plan_summary: &'static str,
    pub(super) plan: &'static str,
    pub(super) plan_feedback: &'static str,
    pub(super) better_plan: &'static str,
    pub(super) first_shutdown: &'static str,
    pub(super) shutdown_rejection: &'static str,
    pub(super) second_shutdown: &'static str,
    pub(super) other_shutdowns: &'static str,
}

impl Language {
    /// Returns the play in this language.
    pub(super) fn script(self) -> &'static Script {
        match self {
            Self::En => &ENGLISH,
            Self::Zh => &CHINESE,
        }
    }
}

static ENGLISH: Script = Script {
    team_heading: "The team",
    data_heading: "A request for data",
    broadcast_heading: "A broadcast",
    plan_heading: "A plan, rejected and then approved",
    deletion_heading: "Deleting the team is refused while its members are live",
    shutdown_heading: "A shutdown, rejected with a reason and then approved",
    deleted_heading: "The team is deleted",
    nothing_left: "no data of the team is left",
    prepare_tasks: ("prepare today's tasks", "Please prepare the list of today's tasks."),
    list_tasks: ("list today's tasks", "Which tasks are planned for 2026-02-24?"),
    tasks: (
        "today's tasks",
        "Tasks of 2026-02-24:\n1. TASK-001: financial report (in progress)\n2. TASK-002: backup (completed)",
    ),
    complete_task: ("complete TASK-001", "Please complete TASK-001, and tell everyone."),
    task_completed: ("TASK-001 is completed", "TASK-001 is completed. Started: 09:00. Completed: 11:30."),
    submit_plan: ("submit your plan", "Please submit your plan for the financial report first."),
    plan_summary: "plan for the financial report",
    plan: "1. Read the data. 2. Write the report.",
    plan_feedback: "Please add error handling, and submit the plan again.",
    better_plan: "1. Read the data. 2. Write the report. 3. On errors, retry and log.",
    first_shutdown: "All tasks are done, and the team is about to be dissolved.",
    shutdown_rejection: "Three tasks are still in progress, so I cannot stop yet.",
    second_shutdown: "Your tasks were handed over. You can stop now.",
    other_shutdowns: "The team is about to be dissolved. Clean up, then stop.",
};

static CHINESE: Script = Script {
    team_heading: "团队成员",
    data_heading: "场景 1：数据请求",
    broadcast_heading: "场景 2：完成通知",
    plan_heading: "场景 3：计划审批（先拒绝，后批准）",
    deletion_heading: "成员在线时，拒绝删除团队",
    shutdown_heading: "场景 4：团队关闭（先拒绝并说明原因，后批准）",
    deleted_heading: "团队已删除",
    nothing_left: "团队的数据已全部清除",
    prepare_tasks: ("整理今日任务", "请整理今日任务"),
    list_tasks: ("查询今日任务列表", "请查询 2026-02-24 的所有任务列表"),
    tasks: (
        "返回今日任务列表",
        "2026-02-24 任务列表：\n1. TASK-001: 财务报表生成（进行中）\n2. TASK-002: 系统备份（已完成）",
    ),
    complete_task: ("请完成 TASK-001", "请完成任务 TASK-001 并通知大家"),
    task_completed: (
        "任务 TASK-001 完成",
        "任务 TASK-2026-02-24-001 已完成，开始时间：2026-02-24 09:00，完成时间：2026-02-24 11:30",
    ),
    submit_plan: ("请提交计划", "请先提交财务报表生成计划"),
    plan_summary: "财务报表生成计划",
    plan: "1. 读取数据 2. 生成报表",
    plan_feedback: "请添加错误处理逻辑，再重新提交计划",
    better_plan: "1. 读取数据 2. 生成报表 3. 错误处理：重试并记录日志",
    first_shutdown: "所有任务已完成，准备解散团队",
    shutdown_rejection: "还有 3 个任务正在进行，无法立即退出",
    second_shutdown: "任务已移交，可以退出了",
    other_shutdowns: "团队准备解散，请完成清理工作后退出",
};
