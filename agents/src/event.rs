//! What happens to a runner, for people who watch it.

use std::{fmt, time::Duration};

use teamwire_proto::v1::RunnerAction;

/// Something that happened. Its `Display` form is one line, without the line break.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunnerEvent {
    /// Some processes may survive the runner. Reported before anything else, or when watchdogs keep ending.
    Uncontained {
        /// Which, and what to do.
        detail: &'static str,
    },
    /// The watchdog has ended before the runner, and another one has taken over.
    WatchdogReplaced {
        /// The process id of the one that has ended.
        ended: i32,
        /// The process id of its successor.
        pid: i32,
    },
    /// An incarnation of the member has begun.
    Joined {
        /// The team.
        team: String,
        /// The member.
        member: String,
        /// The number of the incarnation, from 1.
        incarnation: u64,
    },
    /// The program is about to resume its own session, which an earlier runner of the member has left.
    SessionResumed {
        /// The session's id.
        session_id: String,
    },
    /// The program has said what it is.
    ProgramVersion {
        /// Its name and version and, if that is another one, the version that was tried.
        version: String,
    },
    /// The program was started.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// A session has opened.
    Connected {
        /// How many messages wait in the inbox.
        backlog: u64,
        /// How long there was none. `None` if it is the first one, or the runner itself has renewed it.
        away: Option<Duration>,
    },
    /// The session was lost, and another is being opened. Reported once, until one has opened.
    Disconnected {
        /// What went wrong.
        detail: String,
    },
    /// A message was handed to the program.
    Handed {
        /// The message's id.
        message_id: String,
        /// How many sessions have delivered it, this one included.
        delivery_count: u32,
    },
    /// The program has so many messages in hand that the coordinator delivers no more.
    WindowFull {
        /// How many.
        messages: usize,
    },
    /// The member was asked to shut down.
    ShutdownRequested {
        /// The request's id.
        request_id: String,
    },
    /// An agent program has ended a turn without an answer to a request to shut down, and is reminded of it.
    ShutdownReminded {
        /// The request's id.
        request_id: String,
    },
    /// A person has the session of the program, which has ended.
    HandedOver {
        /// Who.
        holder: String,
    },
    /// The person has given the session back.
    TakenBack {
        /// Who.
        holder: String,
    },
    /// A budget is used up, so the program gets no prompts.
    Paused {
        /// Which, and how much was used.
        why: String,
    },
    /// No budget is used up any longer.
    Resumed,
    /// An agent program is to end its turn, because the lead has sent a message that says so.
    Interrupted,
    /// An agent program has ended a turn with a text that it sent to no one, and is reminded of it.
    UnsentReminded,
    /// The runner has sent a text that the program wrote and did not send.
    TextSent {
        /// To whom.
        recipient: String,
    },
    /// A call that the program asked for, or that the runner made for it, failed.
    NotSent {
        /// Why.
        detail: String,
    },
    /// A line of the program looks as if it is meant for the runner, and is malformed, mistyped or ambiguous. The
    /// program was sent the reason, if it reads its input.
    LineRefused {
        /// Why, and what to do.
        detail: String,
        /// The beginning of the line, with all but visible characters escaped.
        line: String,
    },
    /// The program has failed on a message, which goes back to the coordinator.
    GivenBack {
        /// The message's id.
        message_id: String,
    },
    /// The runner claimed a task.
    TaskTaken {
        /// The task's id.
        task_id: u64,
    },
    /// A claimed task is no longer the member's.
    TaskGone {
        /// The task's id.
        task_id: u64,
    },
    /// A task goes back to the board because the program failed.
    TaskReleased {
        /// The task's id.
        task_id: u64,
        /// Why.
        detail: String,
    },
    /// No task can be claimed just now. Reported once for each reason.
    NoTask {
        /// Why.
        detail: String,
    },
    /// What an agent program does: a tool call, or the first line of a text.
    Activity {
        /// One line.
        line: String,
    },
    /// The turn of an agent program that had messages in hand has failed. They are handed over again.
    PromptFailed {
        /// Why.
        detail: String,
        /// The delay before that.
        after: Duration,
    },
    /// An agent program asked for permission. Its approver is asked, unless a permission rule permits it.
    PermissionAsked {
        /// For what.
        what: String,
    },
    /// A permission rule of the team permits what an agent program asked for.
    PermittedByRule {
        /// The rule's id.
        rule: u64,
        /// What the rule permits.
        what: String,
    },
    /// An agent program asked for permission, which the runner refused.
    PermissionRefused {
        /// For what.
        what: String,
    },
    /// An agent program wants to leave its plan mode, and its plan was submitted to the lead.
    PlanSubmitted,
    /// An agent program cannot do something that it should.
    AgentWarning {
        /// What, and what to do.
        detail: String,
    },
    /// The program is being ended.
    Ending {
        /// Why.
        why: String,
    },
    /// The program has exited.
    Exited {
        /// Its exit code. `None` if a signal killed it.
        code: Option<i32>,
        /// The signal's number. Zero means none.
        signal: i32,
        /// What the runner did to end it.
        action: RunnerAction,
    },
    /// The program has ended, and the coordinator does not answer. The runner keeps trying to report how it ended.
    ReportDelayed {
        /// For how long.
        patience: Duration,
    },
    /// The program will be restarted.
    Restarting {
        /// The delay before that.
        after: Duration,
    },
}

impl fmt::Display for RunnerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncontained { detail } => f.write_str(detail),
            Self::WatchdogReplaced { ended, pid } => {
                write!(f, "the watchdog, process {ended}, has ended; process {pid} has taken over")
            }
            Self::Joined { team, member, incarnation: 1 } => write!(f, "joined {team} as {member}"),
            Self::Joined { team, member, incarnation } => {
                write!(f, "joined {team} as {member}, incarnation {incarnation}")
            }
            Self::SessionResumed { session_id } => write!(
                f,
                "resuming the program's session {session_id}, which an earlier run has left; --new-session starts another"
            ),
            Self::ProgramVersion { version } => write!(f, "the program is {version}"),
            Self::Started { pid } => write!(f, "started process {pid}"),
            Self::Connected { backlog, away } => {
                f.write_str("connected")?;
                if let Some(away) = away {
                    write!(f, " again after {} s", away.as_secs_f32().ceil())?;
                }
                match backlog {
                    0 => Ok(()),
                    1 => f.write_str(", 1 message waiting"),
                    backlog => write!(f, ", {backlog} messages waiting"),
                }
            }
            Self::Disconnected { detail } => write!(f, "connection lost, reconnecting: {detail}"),
            Self::Handed { message_id, delivery_count: 0 | 1 } => write!(f, "handed over message {message_id}"),
            Self::Handed { message_id, delivery_count } => {
                write!(f, "handed over message {message_id}, delivery {delivery_count}")
            }
            Self::WindowFull { messages } => write!(
                f,
                "{messages} messages are not acknowledged, so no more come; the program must write {{\"ack\":\"ID\"}} for each, \
                 or else run it with --ack written"
            ),
            Self::ShutdownRequested { request_id } => write!(f, "asked to shut down: {request_id}"),
            Self::HandedOver { holder } => write!(f, "{holder} has the session at a terminal"),
            Self::TakenBack { holder } => write!(f, "{holder} has given the session back"),
            Self::Paused { why } => f.write_str(why),
            Self::Resumed => f.write_str("resumed: there is budget again"),
            Self::Interrupted => f.write_str("the lead ended the program's turn"),
            Self::UnsentReminded => f.write_str("reminded the program that no one has received what it wrote"),
            Self::TextSent { recipient } => write!(f, "sent {recipient} what the program wrote and did not send"),
            Self::ShutdownReminded { request_id } => {
                write!(f, "not answered, so reminded of shutdown request {request_id}")
            }
            Self::NotSent { detail } => write!(f, "not sent: {detail}"),
            Self::LineRefused { detail, line } => write!(f, "refused a line of the program: {detail} The line: {line}"),
            Self::GivenBack { message_id } => write!(f, "gave message {message_id} back after a failure"),
            Self::TaskTaken { task_id } => write!(f, "took task {task_id}"),
            Self::TaskGone { task_id } => write!(f, "task {task_id} is no longer ours"),
            Self::TaskReleased { task_id, detail } => write!(f, "gave task {task_id} back: {detail}"),
            Self::NoTask { detail } => write!(f, "no task: {detail}"),
            Self::Activity { line } => f.write_str(line),
            Self::PromptFailed { detail, after } => {
                write!(f, "the turn failed, trying again in {} s: {detail}", after.as_secs_f32().ceil())
            }
            Self::PermissionAsked { what } => write!(f, "asked for permission: {what}"),
            Self::PermittedByRule { rule, what } => write!(f, "permitted by rule {rule}: {what}"),
            Self::PermissionRefused { what } => write!(f, "refused permission for {what}"),
            Self::PlanSubmitted => f.write_str("submitted a plan to the lead"),
            Self::AgentWarning { detail } => f.write_str(detail),
            Self::Ending { why } => write!(f, "ending the process: {why}"),
            Self::Exited { code, signal, action } => {
                match code {
                    Some(code) => write!(f, "process ended with code {code}"),
                    None => write!(f, "process ended by signal {signal}"),
                }?;
                match action {
                    RunnerAction::Sigterm => f.write_str(" after the runner sent SIGTERM"),
                    RunnerAction::Sigkill => f.write_str(" after the runner sent SIGKILL"),
                    RunnerAction::None | RunnerAction::Unspecified => Ok(()),
                }
            }
            Self::ReportDelayed { patience } => write!(
                f,
                "the coordinator does not answer; trying for up to {} s more to report how the program ended (Ctrl-C or SIGTERM \
                 gives up)",
                patience.as_secs_f32().ceil()
            ),
            Self::Restarting { after } => write!(f, "restarting in {} s", after.as_secs_f32().ceil()),
        }
    }
}
