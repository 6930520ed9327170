//! The names of keys, fields and messages in Redis.
//!
//! Every key of a namespace starts with `<prefix>:{<namespace>}:`, so that a cluster keeps a namespace in one slot. The
//! rest of the key is one of:
//! - `m`: the meta hash, with the fields
//!   - `v`: the last version, in microseconds since 1970, which is also the namespace's clock;
//!   - `c`: `<version> <version of the contents>`, written by commits that change nothing but leases: if `v` is still
//!     the first
//!     one, what the namespace holds apart from them has the second;
//!   - `e`: `<day> <day before>`, the days whose idempotency keys exist and expire; the second may be missing;
//!   - `h`: the server's histories, `<id> <floor>;` each, newest first; see `data_loss.rs`;
//!   - `b`: the version of the commit that created the namespace;
//!   - `g`: how many losses were counted, and `gh`: under which history the last one was counted;
//!   - `u`: `<bytes> <day> <replies> <replies before>`, the bytes of records and entries, and those of the replies that
//!     were remembered
//!     on the day and on the day before; missing if the version that wrote the namespace did not count;
//!   - `s:<stream>`: a stream's next sequence and its weight;
//!   - the name of every other hash, so that the function finds everything it must drop;
//! - `k:<kind>`: the records of a kind: `v<id>` the version, `d<id>` the data;
//! - `s:<stream>`: a Redis stream with ids `<sequence>-0` and the fields `d` (data) and `w` (weight);
//! - `l`: the leases: name -> milliseconds since 1970;
//! - `d:<day>`: the idempotency keys used on a day since 1970, with their replies; expires by itself;
//! - `x:<id>:` and one of the above: a copy for an export, which expires by itself; see `export.rs`;
//! - `w`: the mark that `replicas.rs` sets and deletes.
//!
//! The namespace `~store` has only the meta hash, which is the store's marker; see `marker.rs`.

use std::{fmt, iter};

use crate::store::{Namespace, Notification};

/// Names everything that a store keeps in Redis.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
    channels: Vec<String>,
}

impl Keys {
    /// Makes the names that start with `prefix`. Returns `None` if the prefix is not 1 to 100 visible ASCII characters
    /// without braces. `is_single`: a single server knows all subscribers of a channel.
    pub(super) fn new(prefix: &str, is_single: bool) -> Option<Self> {
        let fits = !prefix.is_empty()
            && prefix.len() <= 100
            && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'));
        let notifications = format!("{prefix}:notifications");
        let own = is_single.then(|| format!("{notifications}:{:016x}", rand::random::<u64>()));
        fits.then(|| Self { prefix: prefix.to_owned(), channels: iter::once(notifications).chain(own).collect() })
    }

    /// Returns the channels to subscribe to. The first carries the notifications. On a single server there is a second,
    /// which only this store subscribes to and which carries nothing: by comparing subscriber counts, the function sees
    /// whether any other store listens.
    pub(super) fn channels(&self) -> &[String] {
        &self.channels
    }

    /// Returns whether the keys are spread over the nodes of a cluster.
    pub(super) fn are_in_cluster(&self) -> bool {
        self.channels.len() == 1
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

    /// Returns the key of the store's marker.
    pub(super) fn marker(&self) -> String {
        self.meta(&Self::marker_namespace())
    }

    /// Returns the namespace that the marker is in, which decides where it is in a cluster.
    pub(super) fn marker_namespace() -> Namespace {
        Namespace::from_stored("~store")
    }

    /// Returns a key of the namespace that never holds anything for long.
    pub(super) fn mark(&self, namespace: &Namespace) -> String {
        self.key(namespace, "w", "")
    }

    /// Returns the prefix of the keys of a namespace's copy.
    pub(super) fn copy_prefix(&self, namespace: &Namespace, id: u64) -> String {
        self.key(namespace, "x:", &format!("{id:016x}:"))
    }

    /// Returns the pattern of all meta hashes.
    pub(super) fn any_meta(&self) -> String {
        // The prefix may contain what is special in a pattern.
        let escape = |prefix: String, c: char| match c {
            '*' | '?' | '[' | ']' | '\\' | '^' | '-' => prefix + "\\" + &c.to_string(),
            c => prefix + &c.to_string(),
        };
        format!("{}:{{*}}:m", self.prefix.chars().fold(String::new(), escape))
    }

    /// Returns the namespace whose meta hash has this key.
    pub(super) fn namespace_of(&self, meta: &str) -> Option<Namespace> {
        let name = meta.strip_prefix(&self.prefix)?.strip_prefix(":{")?.strip_suffix("}:m")?;
        // What a stream is named after its namespace can look like the end of a meta hash.
        (!name.contains('}')).then(|| Namespace::from_stored(name))
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

    /// Returns the message that publishes a notification.
    pub(super) fn message(namespace: &Namespace, topic: &str, by: u64) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "{}/{by:x}/{topic}", namespace.as_str()))
    }

    /// Parses a message. `None` if it is not a coordinator's.
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

/// A message from a coordinator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// A notification: `<namespace>/<by, hexadecimal>/<topic>`.
    Notification(Notification),
    /// A commit with this version dropped the namespace: `!<namespace>/<version>`. No namespace's name starts with `!`.
    Dropped(Namespace, u64),
}
