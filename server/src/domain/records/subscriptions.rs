//! The events that members have subscribed to.

use serde::{Deserialize, Serialize};
use teamwire_proto::{name::Name, v1::event_subscription};

use super::record_type::stored_as_json;

/// What a member waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// This member is idle, or its life ends.
    Idle(Name),
    /// This member's life ends, or the member is lost.
    Exit(Name),
    /// This task is completed or deleted.
    Task(u64),
    /// Another member edits a file that this pattern means.
    File(String),
}

impl Event {
    /// Returns the id of a subscription to it.
    pub fn id(&self) -> String {
        match self {
            Self::Idle(name) => format!("idle/{}", name.folded()),
            Self::Exit(name) => format!("exit/{}", name.folded()),
            Self::Task(id) => format!("task/{id}"),
            Self::File(pattern) => format!("file/{pattern}"),
        }
    }

    /// Returns the id of its [`SubscribersRecord`].
    pub fn subscribers_id(&self) -> String {
        match self {
            // A pattern is compared with each path, so one record holds them all.
            Self::File(_) => "files".to_owned(),
            _ => self.id(),
        }
    }

    /// Returns the protocol form.
    pub fn show(&self) -> event_subscription::Event {
        match self {
            Self::Idle(name) => event_subscription::Event::MemberIdle(name.to_string()),
            Self::Exit(name) => event_subscription::Event::MemberExit(name.to_string()),
            Self::Task(id) => event_subscription::Event::TaskDone(*id),
            Self::File(pattern) => event_subscription::Event::FileEdited(pattern.clone()),
        }
    }
}

/// The subscriptions of a member. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionsRecord {
    /// The oldest first.
    pub subscriptions: Vec<Subscription>,
}

stored_as_json!(SubscriptionsRecord, "subscriptions");

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// What the member waits for.
    pub event: Event,
    /// When it subscribed.
    pub created_ms: u64,
    /// When the subscription expires.
    pub expires_ms: u64,
}

/// Who has subscribed to an event, or to files. Id: [`Event::subscribers_id`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribersRecord {
    /// Each with its event.
    pub subscribers: Vec<(Name, Event)>,
}

stored_as_json!(SubscribersRecord, "subscribers");
