//! Backends, which start members: the interface between a host's orders and the processes or Pods that carry them out.

use std::{fmt, time::SystemTime};

use teamwire_client::TlsOptions;
use teamwire_proto::v1;

/// Starts members, and remembers them even if the host program is killed.
///
/// The host calls the methods for one order one after another, and those for different orders concurrently.
pub trait Backend: Send + Sync + 'static {
    /// Returns what the host offers. The host reads it whenever it connects.
    fn offer(&self) -> v1::HostOffer;

    /// Looks up the result of an earlier delivery of this order, and ends an incomplete start that cannot continue. The
    /// host calls it before each [`Backend::admit`], because an order is delivered again if the host program died while
    /// carrying it out.
    fn recover(&self, order: &Order) -> impl Future<Output = Found> + Send;

    /// Checks that the order can be carried out, and reserves what it needs. Waits until an earlier member of the same
    /// name is gone.
    fn admit(&self, order: &Order) -> impl Future<Output = Result<(), StartError>> + Send;

    /// Starts an order's member. Returns once the member has its token and [`Backend::recover`] would find it.
    ///
    /// If it fails, it must not leave a process that could still join, other than a member whose end
    /// [`Backend::next_end`] will return.
    fn start(&self, order: &Order, ticket: Ticket) -> impl Future<Output = Result<(), StartError>> + Send;

    /// Releases what [`Backend::admit`] reserved for an order that was not started after all.
    fn release(&self, order: &Order) -> impl Future<Output = ()> + Send;

    /// Waits for the end of a member that this process or an earlier one started. Returns each end once per process,
    /// and again after a restart until it is [forgotten](Backend::forget). Cancel-safe.
    fn next_end(&self) -> impl Future<Output = Ended> + Send;

    /// Forgets an end that the coordinator now knows about, and removes what is left of the member, but nothing that
    /// would be lost. Returns a sentence about what stays, and where.
    fn forget(&self, request_id: &str) -> impl Future<Output = Option<String>> + Send;

    /// Asks all members that it has started to end, and waits until they have. Admits no more orders.
    /// [`Backend::next_end`] still returns the ends.
    fn stop_all(&self) -> impl Future<Output = ()> + Send;
}

/// An order to start a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Its id. At most one member is started for it.
    pub request_id: String,
    /// The name of the member to start.
    pub member: String,
    /// The team.
    pub team: String,
    /// What was ordered.
    pub terms: v1::SpawnTerms,
    /// When it expires. The join token is void from then on, so a member that has not joined by then never will.
    pub expires_at: Option<SystemTime>,
}

/// What a member joins with.
#[derive(Clone)]
pub struct Ticket {
    /// The join token, a secret that is good for one join under the member's name. Never pass it as an argument or in
    /// an environment variable.
    pub join_token: String,
    /// The coordinator's address, or several separated by commas.
    pub address: String,
    /// For `https` addresses: which authority to trust, and which certificate to present.
    pub tls: TlsOptions,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { join_token: _, address, tls } = self;
        f.debug_struct("Ticket").field("address", address).field("tls", tls).finish_non_exhaustive()
    }
}

/// The result of an earlier delivery of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The member got its token. Either it runs, or [`Backend::next_end`] will return its end. The host acknowledges
    /// the order.
    Started,
    /// The start was interrupted, and none of its processes run anymore. The host takes the order again, unless the
    /// member had already joined: then the host reports its end and calls [`Backend::forget`].
    Interrupted,
    /// The backend has never seen the order.
    Nothing,
}

/// Why a member could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// What to tell the member that ordered it: a sentence on the first line, and then perhaps the last lines of some
    /// output. Up to [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
    /// `true` if another host may be able to start it, for example because this one is full.
    pub try_another_host: bool,
}

/// How many bytes of a reason the host sends. It truncates longer ones.
pub const REASON_BYTES_MAX: usize = 4 * 1024;

impl StartError {
    /// Creates the error for an order that would fail in the same way on another host.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), try_another_host: false }
    }

    /// Creates the error for an order that another host may be able to carry out.
    pub fn here_only(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), try_another_host: true }
    }
}

/// The end of a member that a backend has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The order that it was started for.
    pub request_id: String,
    /// Its name.
    pub member: String,
    /// How it ended, as far as is known. The host reports it only if the member itself has not.
    pub exit: v1::ExitReport,
    /// If the member ended before its first session: what to tell the member that ordered it, as in
    /// [`StartError::reason`].
    pub reason: String,
    /// See [`StartError::try_another_host`].
    pub try_another_host: bool,
}
