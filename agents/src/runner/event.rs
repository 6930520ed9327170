//! What a runner tells of its doings, for a reader.

use std::{fmt, time::Duration};

/// Something that has happened. Its `Display` form is a line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunnerEvent {
    /// A life has begun.
    Joined {
        /// The team.
        team: String,
        /// The member.
        member: String,
        /// Which life of the member it is.
        incarnation: u64,
    },
    /// The program was started.
    Started {
        /// Its process.
        pid: i32,
    },
    /// A session has opened.
    Connected {
        /// How many messages wait.
        backlog: u64,
    },
    /// The session was lost; another one is being opened.
    Disconnected {
        /// What happened.
        detail: String,
    },
    /// A message was handed to the program.
    Handed {
        /// The message.
        message_id: String,
        /// How many sessions have seen it.
        delivery_count: u32,
    },
    /// The member was asked to end.
    ShutdownRequested {
        /// The request.
        request_id: String,
    },
    /// Something that the program or the runner wanted to send was not sent.
    NotSent {
        /// Why.
        detail: String,
    },
    /// A batch has failed as often as it is tried in one session, and is left to the next session.
    GivenBack {
        /// The message.
        message_id: String,
    },
    /// A task was taken off the board.
    TaskTaken {
        /// The task.
        task_id: u64,
    },
    /// A task that was taken is not the member's any more.
    TaskGone {
        /// The task.
        task_id: u64,
    },
    /// A task was given back to the board because the program has failed.
    TaskReleased {
        /// The task.
        task_id: u64,
        /// Why.
        detail: String,
    },
    /// No task can be taken just now.
    NoTask {
        /// Why.
        detail: String,
    },
    /// The program is being ended.
    Ending {
        /// Why.
        why: String,
    },
    /// The program has ended.
    Exited {
        /// Its exit code. None: a signal ended it.
        code: Option<i32>,
        /// The signal's number. Zero: none.
        signal: i32,
    },
    /// The program will be started again.
    Restarting {
        /// In how long.
        after: Duration,
    },
}

impl fmt::Display for RunnerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { team, member, incarnation: 1 } => write!(f, "joined {team} as {member}"),
            Self::Joined { team, member, incarnation } => write!(f, "joined {team} as {member}, life {incarnation}"),
            Self::Started { pid } => write!(f, "started process {pid}"),
            Self::Connected { backlog: 0 } => f.write_str("connected"),
            Self::Connected { backlog } => write!(f, "connected, {backlog} messages waiting"),
            Self::Disconnected { detail } => write!(f, "connection lost, reconnecting: {detail}"),
            Self::Handed { message_id, delivery_count: 0 | 1 } => write!(f, "handed over message {message_id}"),
            Self::Handed { message_id, delivery_count } => {
                write!(f, "handed over message {message_id}, delivery {delivery_count}")
            }
            Self::ShutdownRequested { request_id } => write!(f, "asked to end: {request_id}"),
            Self::NotSent { detail } => write!(f, "not sent: {detail}"),
            Self::GivenBack { message_id } => write!(f, "gave message {message_id} back after repeated failures"),
            Self::TaskTaken { task_id } => write!(f, "took task {task_id}"),
            Self::TaskGone { task_id } => write!(f, "task {task_id} is not ours any more"),
            Self::TaskReleased { task_id, detail } => write!(f, "gave task {task_id} back: {detail}"),
            Self::NoTask { detail } => write!(f, "no task: {detail}"),
            Self::Ending { why } => write!(f, "ending the process: {why}"),
            Self::Exited { code: Some(code), .. } => write!(f, "process ended with code {code}"),
            Self::Exited { code: None, signal } => write!(f, "process ended by signal {signal}"),
            Self::Restarting { after } => write!(f, "restarting in {} s", after.as_secs_f32().ceil()),
        }
    }
}
