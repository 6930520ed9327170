//! What a call costs and uses, and who pays for it.
//!
//! [`admission`](super::admission) assigns the call to an account as soon as it knows that the credential is valid;
//! from then on, that account pays. A call with `idempotency_level` `NO_SIDE_EFFECTS` costs the bytes of its reply,
//! every other one a transaction. Streams and calls that wait also count as open.

use std::{sync::Arc, time::Duration};

use http::Response;
use parking_lot::Mutex;
use teamwire_proto::{Method, Refusal, method::Effect};
use tokio::sync::OwnedMutexGuard;
use tonic::{Code, Status, body::Body};

use crate::{
    budget::{Account, ByteLease, Guess, OpenStream, ReadPermit, RequestLease},
    domain::page::PAGE_BYTES_MAX,
};

/// What a call costs, and who pays for it.
#[derive(Debug)]
pub(super) struct Cost {
    method: Method,
    account: Mutex<Option<Arc<Account>>>,
    spent: Mutex<Option<Spent>>,
    /// What a large request takes until the call is over.
    request: Mutex<Option<RequestLease>>,
    /// The look-up of a stranger's credential, until it has turned out to be valid.
    guess: Mutex<Option<(Guess, OwnedMutexGuard<()>)>>,
}

/// What a call has used up.
#[derive(Debug)]
pub(super) struct Spent {
    method: Method,
    account: Arc<Account>,
    /// A stream's or a waiting call's place.
    _open: Option<OpenStream>,
    permit: Option<ReadPermit>,
    lease: Option<ByteLease>,
}

impl Cost {
    /// Makes the cost of a call for which no one has paid.
    pub(super) fn of(method: Method) -> Self {
        let (account, spent, request) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { method, account, spent, request, guess: Mutex::default() }
    }

    /// Keeps the look-up of a stranger's credential, and so others of its address waiting, until the call is over.
    pub(super) fn guesses(&self, guess: Option<(Guess, OwnedMutexGuard<()>)>) {
        *self.guess.lock() = guess;
    }

    /// Ends the look-up: the credential is valid.
    pub(super) fn guessed_right(&self) {
        self.guess.lock().take();
    }

    /// Keeps the memory of the call's request until the call is over.
    pub(super) fn keep(&self, lease: RequestLease) {
        *self.request.lock() = Some(lease);
    }

    /// Returns what the call has used up. `None` if no one has paid.
    pub(super) fn take(&self) -> Option<Spent> {
        self.spent.lock().take()
    }

    /// Returns the account of the call. `None` if the caller is a stranger.
    fn account(&self) -> Option<Arc<Account>> {
        self.account.lock().clone()
    }

    /// Returns how long the answer to a refused call must wait, because too many calls of its account are refused, or
    /// because its credential is a wrong guess. A refusal has its status in the headers, since it has no body.
    pub(super) fn delay_of(&self, reply: &Response<Body>) -> Duration {
        if let Some((guess, _)) = &*self.guess.lock() {
            return guess.delay();
        }
        let code = reply.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()));
        let is_refused = matches!(code, Some(Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted));
        self.account().filter(|_| is_refused).map_or(Duration::ZERO, |account| account.refused())
    }

    /// Records the account of the call, which slows the caller if too many of its calls are refused. The last one
    /// counts: until a credential is looked up, the call is that of the connection's owner.
    pub(super) fn is_of(&self, account: &Arc<Account>) {
        *self.account.lock() = Some(Arc::clone(account));
    }

    /// Pays for the call, or refuses it. A read waits until it may be carried out.
    pub(super) async fn pay(&self, account: &Arc<Account>) -> Result<(), Refusal> {
        self.is_of(account);
        let method = self.method;
        let is_read = method.effect() == Effect::Read;
        if is_read {
            account.read()?
        } else {
            account.write()?
        }
        let may_wait = method.is_streaming() || method.wait().is_some();
        let open = if may_wait { Some(account.stream()?) } else { None };
        let mut spent = Spent { method, account: Arc::clone(account), _open: open, permit: None, lease: None };
        if is_read && !may_wait {
            let (permit, lease) = account.begin_read(PAGE_BYTES_MAX).await?;
            (spent.permit, spent.lease) = (Some(permit), Some(lease));
        }
        *self.spent.lock() = Some(spent);
        Ok(())
    }
}

impl Spent {
    /// Returns whether the reply is a stream.
    pub(super) fn is_of_stream(&self) -> bool {
        self.method.is_streaming()
    }

    /// Returns whether the call changes nothing.
    pub(super) fn is_of_read(&self) -> bool {
        self.method.effect() == Effect::Read
    }

    /// Charges a read that was carried out, and returns the memory that its reply takes until the client has it. One
    /// that the connection takes at once, of up to `piece` bytes, takes none.
    pub(super) async fn read(&mut self, bytes: usize, examined: usize, piece: usize) -> Option<ByteLease> {
        self.permit = None;
        self.account.charge_read(bytes.max(examined));
        match self.lease.take() {
            _ if bytes <= piece => None,
            Some(mut lease) => {
                lease.shrink_to(bytes);
                Some(lease)
            }
            None => Some(self.account.lease(bytes).await),
        }
    }

    /// Charges bytes that a stream has returned. Messages for a session were paid for when they were sent.
    pub(super) fn charge(&self, bytes: usize) {
        if self.is_of_read() {
            self.account.charge_stream(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }
}
