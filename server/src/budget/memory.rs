//! What calls take in memory: the work of reads while they are carried out, the bytes of their replies while they wait
//! for their clients, and the bytes of large requests.
//!
//! A call first draws on its own credential's budget, and then on the shared one. So it never keeps others waiting
//! while it waits for its own client.

use std::{sync::Arc, time::Duration};

use teamwire_proto::Refusal;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::{account::Account, bounds::Class, shared::Pool};

/// How long a call waits for other calls of its credential, and then for all others, before it is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// Permission to carry out a read. Another one may begin once this is dropped.
#[derive(Debug)]
pub struct ReadPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Memory for bytes of a reply that the client has not taken. It is free again once this is dropped.
#[derive(Debug)]
pub struct ByteLease {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

/// Memory for a request. It is free again once this is dropped.
#[derive(Debug)]
pub struct RequestLease {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl ByteLease {
    /// Returns how many bytes it has.
    pub fn bytes(&self) -> usize {
        self.own.num_permits()
    }

    /// Takes this many bytes out of it, or what is left.
    pub fn take(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes());
        let part = |permit: &mut OwnedSemaphorePermit| permit.split(bytes).expect("both have as much");
        Self { own: part(&mut self.own), all: part(&mut self.all) }
    }

    /// Keeps at most this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in [&mut self.own, &mut self.all] {
            let excess = permit.num_permits().saturating_sub(bytes);
            drop(permit.split(excess));
        }
    }
}

/// How long a wrong guess of a credential takes.
const WRONG_GUESS: Duration = Duration::from_millis(20);

/// The look-up of a credential that a stranger has presented. While it is kept, it keeps others of its address waiting.
#[derive(Debug)]
pub struct Guess {
    _permit: OwnedSemaphorePermit,
    began: Instant,
}

impl Guess {
    /// Returns how long the answer waits if the credential is not valid: all wrong ones take the same time, whether or
    /// not their team exists.
    pub fn delay(&self) -> Duration {
        WRONG_GUESS.saturating_sub(self.began.elapsed())
    }
}

impl Account {
    /// Waits until a read may be carried out whose reply has up to this many bytes, or refuses it.
    pub async fn begin_read(&self, bytes: usize) -> Result<(ReadPermit, ByteLease), Refusal> {
        let until = Instant::now() + PATIENCE;
        let own = timeout_at(until, acquire(&self.reading, 1)).await.map_err(|_| {
            let size = self.shared.shares.reads_per_credential_max;
            self.too_many(Class::Reads, size, "reads at once", "Make one after another")
        })?;
        let own_lease = timeout_at(until, self.own_bytes(bytes)).await.map_err(|_| {
            let size = self.shared.shares.reply_bytes_per_credential_max;
            let what = "bytes of replies waiting that its clients do not read";
            self.too_many(Class::ReplyBytes, size, what, "Read them, or ask for smaller pages")
        })?;
        let all = async {
            let lease = self.part_of(&self.shared.reply_bytes, own_lease.num_permits()).await;
            (lease, self.part_of(&self.shared.reading, 1).await)
        };
        let (all_lease, all) = timeout_at(until, all).await.map_err(|_| self.too_busy())?;
        Ok((ReadPermit { _own: own, _all: all }, ByteLease { own: own_lease, all: all_lease }))
    }

    /// Waits until there is memory for this many bytes of a reply.
    pub async fn lease(&self, bytes: usize) -> ByteLease {
        let own = self.own_bytes(bytes).await;
        let all = self.part_of(&self.shared.reply_bytes, own.num_permits()).await;
        ByteLease { own, all }
    }

    /// Waits until there is memory for this many bytes of a stream. `None` if the credential's clients have taken too
    /// little for this long.
    pub async fn lease_within(&self, bytes: usize, patience: Duration) -> Option<ByteLease> {
        let own = timeout(patience, self.own_bytes(bytes)).await.ok()?;
        let all = self.part_of(&self.shared.reply_bytes, own.num_permits()).await;
        Some(ByteLease { own, all })
    }

    /// Waits until a read may be carried out for a stream.
    pub async fn read_permit(&self) -> ReadPermit {
        let own = acquire(&self.reading, 1).await;
        ReadPermit { _own: own, _all: self.part_of(&self.shared.reading, 1).await }
    }

    /// Waits until a stranger's credential may be looked up, or refuses that if too many others are waiting.
    pub async fn guess(&self) -> Result<Guess, Refusal> {
        let permit = timeout(PATIENCE, acquire(&self.reading, 1)).await.map_err(|_| self.too_many_guesses())?;
        Ok(Guess { _permit: permit, began: Instant::now() })
    }

    /// Waits until there is memory for a request of this many bytes, or refuses it. A single larger one gets all there
    /// is.
    pub async fn lease_for_request(self: Arc<Self>, bytes: usize) -> Result<RequestLease, Refusal> {
        let (shared, until) = (&self.shared, Instant::now() + PATIENCE);
        let bytes = bytes.min(shared.shares.request_bytes_per_credential_max);
        let own = acquire(&self.request_bytes, bytes);
        let own = timeout_at(until, own).await.map_err(|_| self.too_many_request_bytes())?;
        let size = match self.is_of_strangers {
            true => shared.shares.strangers_request_bytes_max(),
            false => shared.shares.request_bytes_max,
        };
        let bytes = bytes.min(size);
        let all = async {
            match self.is_of_strangers {
                true => acquire(&shared.strangers_request_bytes, bytes).await,
                false => self.part_of(&shared.request_bytes, bytes).await,
            }
        };
        let all = timeout_at(until, all).await.map_err(|_| self.too_many_requests(size))?;
        Ok(RequestLease { _own: own, _all: all })
    }

    /// Acquires bytes of the credential. A single larger reply gets all of them.
    async fn own_bytes(&self, bytes: usize) -> OwnedSemaphorePermit {
        let shares = self.shared.shares;
        acquire(&self.reply_bytes, bytes.min(shares.reply_bytes_per_credential_max).min(shares.reply_bytes_max)).await
    }

    /// Acquires a part of what all share; for leads, of the reserve if that is free first.
    async fn part_of(&self, pool: &Pool, amount: usize) -> OwnedSemaphorePermit {
        if !self.leads() {
            return acquire(&pool.shared, amount).await;
        }
        tokio::select! {
            biased;
            permit = acquire(&pool.shared, amount) => permit,
            permit = acquire(&pool.reserved, amount) => permit,
        }
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, amount: usize) -> OwnedSemaphorePermit {
    let amount = u32::try_from(amount).unwrap_or(u32::MAX);
    Arc::clone(semaphore).acquire_many_owned(amount).await.expect("it is never closed")
}
