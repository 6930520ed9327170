//! The topics of notifications: what may have changed in a team.

use std::fmt;

use super::streams;

const INBOXES: &str = "inboxes";
const REQUESTS: &str = "requests";
const ROSTER: &str = "roster";
const SESSION_PREFIX: &str = "session/";
const TASKS: &str = "tasks";
const TEAM: &str = "team";
const RUNNER_PREFIX: &str = "runner/";
const WITHDRAWN_PREFIX: &str = "withdrawn/";

/// What may have changed. Members are given by their folded names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'t> {
    /// This member has reported activity. A commit with this topic concerns nothing else.
    Activity(&'t str),
    /// This member's inbox has grown.
    Inbox(&'t str),
    /// Any inbox of the team has grown.
    Inboxes,
    /// Messages have left this member's inbox without its doing.
    Withdrawn(&'t str),
    /// The session of this member was replaced or ended, or the member was asked to shut down.
    Session(&'t str),
    /// A request was decided.
    Requests,
    /// What is shown of a member or a host has changed. Concerns only those who watch the team.
    Roster,
    /// Someone asks this member's runner, or the runner has answered. A commit with this topic concerns
    /// nothing else.
    RunnerQuery(&'t str),
    /// A task has changed.
    Tasks,
    /// The team itself was changed or deleted.
    Team,
}

impl<'t> Topic<'t> {
    /// Reads a topic as notifications name it. `None` if this coordinator does not know it.
    pub fn parse(text: &'t str) -> Option<Self> {
        match text {
            INBOXES => Some(Self::Inboxes),
            REQUESTS => Some(Self::Requests),
            ROSTER => Some(Self::Roster),
            TASKS => Some(Self::Tasks),
            TEAM => Some(Self::Team),
            _ => streams::inbox_owner(text)
                .map(Self::Inbox)
                .or_else(|| streams::activity_owner(text).map(Self::Activity))
                .or_else(|| text.strip_prefix(SESSION_PREFIX).map(Self::Session))
                .or_else(|| text.strip_prefix(RUNNER_PREFIX).map(Self::RunnerQuery))
                .or_else(|| text.strip_prefix(WITHDRAWN_PREFIX).map(Self::Withdrawn)),
        }
    }
}

impl fmt::Display for Topic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity(member) => f.write_str(&streams::activity_of(member)),
            Self::Inbox(member) => f.write_str(&streams::inbox_of(member)),
            Self::Inboxes => f.write_str(INBOXES),
            Self::Session(member) => write!(f, "{SESSION_PREFIX}{member}"),
            Self::Requests => f.write_str(REQUESTS),
            Self::Roster => f.write_str(ROSTER),
            Self::Tasks => f.write_str(TASKS),
            Self::Team => f.write_str(TEAM),
            Self::RunnerQuery(member) => write!(f, "{RUNNER_PREFIX}{member}"),
            Self::Withdrawn(member) => write!(f, "{WITHDRAWN_PREFIX}{member}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_parses_back_to_itself() {
        let topics = [
            Topic::Activity("ann"),
            Topic::Inbox("ann"),
            Topic::Inboxes,
            Topic::Session("ann"),
            Topic::Requests,
            Topic::Roster,
            Topic::Tasks,
            Topic::Team,
            Topic::RunnerQuery("ann"),
            Topic::Withdrawn("ann"),
        ];
        for topic in topics {
            assert_eq!(Topic::parse(&topic.to_string()), Some(topic));
        }
        assert_eq!(Topic::parse("another"), None);
    }
}
