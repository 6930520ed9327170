//! Events of a host, for people who watch it.

use std::fmt;

use teamwire_proto::v1;

/// Something that happened. Its `Display` form is one line, without the line break.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostEvent {
    /// The coordinator knows what the host offers, and which members ended while no host ran. Orders may arrive from
    /// now on.
    Ready {
        /// The host's name.
        host: String,
        /// The team.
        team: String,
        /// What it offers.
        offer: v1::HostOffer,
    },
    /// The session was lost, and another is being opened. Said once, however many attempts fail.
    Disconnected {
        /// What went wrong.
        detail: String,
    },
    /// Another session has opened, and the coordinator again knows what the host offers.
    Reconnected,
    /// A member was started. It has not opened a session yet.
    Started {
        /// Its name.
        member: String,
        /// The profile.
        profile: String,
        /// The order.
        request_id: String,
    },
    /// An order was refused, or its member ended before its first session.
    Refused {
        /// The name of the member that was ordered.
        member: String,
        /// The order.
        request_id: String,
        /// Why.
        reason: String,
    },
    /// An order was not carried out because it had ended: it expired, was cancelled, or was decided before.
    Passed {
        /// The name of the member that was ordered.
        member: String,
        /// The order.
        request_id: String,
        /// Why.
        detail: String,
    },
    /// A member's last process has ended.
    Ended {
        /// Its name.
        member: String,
        /// The order that it was started for.
        request_id: String,
        /// How it ended.
        detail: String,
    },
    /// What a member has written stays, because it would otherwise be lost.
    Kept {
        /// The member's name.
        member: String,
        /// What stays, where, and why.
        detail: String,
    },
    /// A call failed and will not be retried. A later process may repeat what it was for.
    CallFailed {
        /// What failed, and why.
        detail: String,
    },
}

impl fmt::Display for HostEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { host, offer, .. } => {
                let names: Vec<&str> = offer.profiles.iter().map(|profile| profile.name.as_str()).collect();
                let slots = if offer.slots == 1 { "slot" } else { "slots" };
                write!(f, "Host {host} is ready: {} {slots}; profiles {}", offer.slots, names.join(", "))
            }
            Self::Disconnected { detail } => write!(f, "disconnected: {detail}; reconnecting"),
            Self::Reconnected => f.write_str("connected again"),
            Self::Started { member, profile, .. } => write!(f, "started {member} with the profile {profile}"),
            Self::Refused { member, reason, .. } => {
                write!(f, "did not start {member}: {}", reason.lines().next().unwrap_or_default())
            }
            Self::Passed { member, detail, .. } => write!(f, "did not start {member}: {detail}"),
            Self::Ended { member, detail, .. } => write!(f, "{member} has ended: {detail}"),
            Self::Kept { detail, .. } | Self::CallFailed { detail } => f.write_str(detail),
        }
    }
}
