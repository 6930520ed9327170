//! What starts members: the seam between the orders of a host and the processes, or Pods, that carry them out.

use std::{fmt, time::SystemTime};

use teamwire_client::TlsOptions;
use teamwire_proto::v1;

/// Starts members, and knows what it has started, also after the host program was killed.
///
/// The host calls the methods of one order one after the other, and those of different orders at the same time.
pub trait Backend: Send + Sync + 'static {
    /// Returns what the host offers. The host reads it whenever it connects.
    fn offer(&self) -> v1::HostOffer;

    /// Looks up what an earlier delivery of this order has led to, and ends what cannot go on. Called before each
    /// [`Backend::admit`], because an order comes again if the host program died with it in hand.
    fn recover(&self, order: &Order) -> impl Future<Output = Found> + Send;

    /// Checks that the order can be carried out, and reserves what it needs. Waits for an earlier member of the same name to
    /// be gone.
    fn admit(&self, order: &Order) -> impl Future<Output = Result<(), StartError>> + Send;

    /// Starts the member of an order. Returns once it has its token, and [`Backend::recover`] would find it.
    ///
    /// Whatever has failed, nothing of the order may be left that could still join, other than a member whose end will come from
    /// [`Backend::next_end`].
    fn start(&self, order: &Order, ticket: Ticket) -> impl Future<Output = Result<(), StartError>> + Send;

    /// Gives back what [`Backend::admit`] reserved for an order that was not started after all.
    fn release(&self, order: &Order) -> impl Future<Output = ()> + Send;

    /// Waits for the end of something that was started, by this process or by an earlier one. Returns each end once per
    /// process, and again after a restart until it is [forgotten](Backend::forget). Cancel-safe.
    fn next_end(&self) -> impl Future<Output = Ended> + Send;

    /// Forgets an end that the coordinator knows of by now, and removes what is left of it.
    fn forget(&self, request_id: &str) -> impl Future<Output = ()> + Send;

    /// Asks everything that it has started to end, and waits until it has. Admits no more orders. The ends still come from
    /// [`Backend::next_end`].
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
    /// When it expires. The join token is void from then on, so that what has not joined by then never will.
    pub expires_at: Option<SystemTime>,
}

/// What a member joins with.
#[derive(Clone)]
pub struct Ticket {
    /// The join token, a secret: good for one join, under the member's name. Never an argument, and never in an environment.
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

/// What an earlier delivery of an order has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The member got its token. It runs, or its end will come from [`Backend::next_end`]. The host acknowledges the order.
    Started,
    /// The start was interrupted, and nothing of it runs anymore. The host takes the order again, unless the member had
    /// joined before: then the host reports its end, and calls [`Backend::forget`].
    Interrupted,
    /// The backend has never seen the order.
    Nothing,
}

/// Why a member is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// What to tell those who ordered it: the first line says it in a sentence, and the last lines of some output may
    /// follow. Up to [`REASON_BYTES_MAX`].
    pub reason: String,
    /// True: another host may be able to start it, for example because this one is full.
    pub try_another_host: bool,
}

/// How many bytes of a reason the host sends. It cuts a longer one off.
pub const REASON_BYTES_MAX: usize = 4 * 1024;

impl StartError {
    /// Creates the error of an order that would fail in the same way on another host.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), try_another_host: false }
    }

    /// Creates the error of an order that another host may be able to carry out.
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
    /// How it ended, as far as that is known. Reported only if the member itself has not reported it.
    pub exit: v1::ExitReport,
    /// For a member that ended before its first session: what to tell those who ordered it, as in [`StartError::reason`].
    pub reason: String,
    /// See [`StartError::try_another_host`].
    pub try_another_host: bool,
}
