//! The names of keys, fields and messages.
//!
//! Every key of a namespace begins with `<prefix>:{<namespace>}:`, so that a cluster keeps a namespace in one slot. Then comes:
//! - `m`: the meta hash: the last version `v`, in microseconds since 1970, which is the namespace's clock, too; the day of the
//!   ledger that has its expiry, and the day before where it has one, too `e` (`<day> <day before>`); the server's histories `h` (`<id> <floor>;`, newest first; see `losses.rs`), how often something was lost `g` and under
//!   which history that was counted `gh`, for each stream `s:<stream>` its next sequence and its weight, and for each other hash its name, by which the function finds
//!   what to drop;
//! - `k:<kind>`: the records of a kind: `v<id>` the version, `d<id>` the data;
//! - `s:<stream>`: a Redis stream whose ids are `<sequence>-0`, with the fields `d` data and `w` weight;
//! - `l`: the leases: name -> milliseconds since 1970;
//! - `d:<day>`: the ledger of a day since 1970, which expires by itself.

use std::{fmt, iter};

use crate::store::{Namespace, Notification};

/// Names whatever a store keeps in Redis.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
    channels: Vec<String>,
}

impl Keys {
    /// Returns the names that begin with `prefix`. `None` where it could not be told from the rest of a key.
    /// `one_knows_all`: one server knows who listens to a channel.
    pub(super) fn new(prefix: &str, one_knows_all: bool) -> Option<Self> {
        let fits = !prefix.is_empty()
            && prefix.len() <= 100
            && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'));
        let notifications = format!("{prefix}:notifications");
        let own = one_knows_all.then(|| format!("{notifications}:{:016x}", rand::random::<u64>()));
        fits.then(|| Self { prefix: prefix.to_owned(), channels: iter::once(notifications).chain(own).collect() })
    }

    /// Returns the channels to listen on: the one on which notifications are published; and where one server knows all who listen,
    /// one that only this store listens on and nothing is published on, by which the server sees whether anyone else does.
    pub(super) fn channels(&self) -> &[String] {
        &self.channels
    }

    pub(super) fn meta(&self, namespace: &Namespace) -> String {
        self.key(namespace, "m", "")
    }

    pub(super) fn records(&self, namespace: &Namespace, kind: &str) -> String {
        self.key(namespace, "k:", kind)
    }

    pub(super) fn stream(&self, namespace: &Namespace, stream: &str) -> String {
        self.key(namespace, "s:", stream)
    }

    pub(super) fn leases(&self, namespace: &Namespace) -> String {
        self.key(namespace, "l", "")
    }

    /// Returns a key of the namespace that nothing is kept under.
    pub(super) fn mark(&self, namespace: &Namespace) -> String {
        self.key(namespace, "w", "")
    }

    fn key(&self, namespace: &Namespace, sort: &str, name: &str) -> String {
        [&self.prefix, ":{", namespace.as_str(), "}:", sort, name].concat()
    }

    /// Returns the field of the meta hash that describes a stream.
    pub(super) fn extent_field(stream: &str) -> String {
        format!("s:{stream}")
    }

    pub(super) fn version_field(id: &str) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "v{id}"))
    }

    pub(super) fn data_field(id: &str) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "d{id}"))
    }

    /// Returns what is published for a notification.
    pub(super) fn message(namespace: &Namespace, topic: &str, by: u64) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "{}/{by:x}/{topic}", namespace.as_str()))
    }

    /// Reads what was published. `None` where no coordinator published it.
    pub(super) fn published(message: &[u8]) -> Option<Published> {
        let (namespace, rest) = std::str::from_utf8(message).ok()?.split_once('/')?;
        Some(match namespace.strip_prefix('!') {
            Some(namespace) => Published::Dropped(Namespace::from_stored(namespace), rest.parse().ok()?),
            None => {
                let (by, topic) = rest.split_once('/')?;
                let (namespace, by) = (Namespace::from_stored(namespace), u64::from_str_radix(by, 16).ok()?);
                Published::Notification(Notification::Topic { namespace, topic: topic.to_owned(), by })
            }
        })
    }
}

/// What coordinators publish.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// A wake-up: `<namespace>/<who says so, hexadecimal>/<topic>`.
    Notification(Notification),
    /// A namespace was dropped, by a commit of this version: `!<namespace>/<version>`. No namespace has a name like that.
    Dropped(Namespace, u64),
}
