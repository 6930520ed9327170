//! Streams that follow a team's tasks or history: first what exists, then what changes, until the client leaves or the
//! team is deleted.
//!
//! What a stream has read counts against its credential's budget for reply bytes until the client takes it. A client
//! that takes nothing for [`Pace::write_timeout`](crate::delivery::Pace) while frames wait is cut off, and they are
//! freed.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::stream;
use parking_lot::Mutex;
use prost::Message;
use teamwire_proto::{Reason, Refusal, credential::Credential};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};
use tokio_stream::Stream;
use tonic::Status;

use super::services::{self, Services};
use crate::{
    budget::{Account, ByteLease},
    domain::identity::{CallerCredentials, operator_replaced, team_not_found},
    store::Namespace,
};

/// How many frames wait for a client at most, unless what it follows says otherwise.
pub(super) const FRAMES_MAX: usize = 32;

/// How many bytes are read at once, unless a single item has more.
pub(super) const READ_BYTES_MAX: usize = 256 * 1024;

/// How often a follower reads without a notification, in case one was lost.
const POLL: Duration = Duration::from_secs(2);

/// The frames that a client reads.
pub(super) type Frames<F> = Pin<Box<dyn Stream<Item = Result<F, Status>> + Send>>;

/// Something that can be followed.
#[tonic::async_trait]
pub(super) trait Followed: Send + 'static {
    type Frame: Message + Send + 'static;

    /// How many frames wait for a slow client at most.
    const FRAMES_MAX: usize = FRAMES_MAX;

    /// Whether [`Self::next`] reads records, which costs memory.
    const READS_RECORDS: bool = true;

    /// Returns the next frames, of about [`READ_BYTES_MAX`], and whether more are available at once.
    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal>;
}

/// Who follows something, and whose budget it uses.
pub(super) struct Follower {
    pub(super) who: Arc<CallerCredentials>,
    /// `None` if its credential was not looked up.
    pub(super) account: Option<Arc<Account>>,
    pub(super) namespace: Namespace,
}

/// A frame that waits for its client, and its memory.
struct QueuedFrame<F> {
    frame: Result<F, Status>,
    lease: Option<ByteLease>,
}

/// Writes the frames of a stream.
struct Writer<F> {
    frames: mpsc::Sender<QueuedFrame<F>>,
    /// Does not keep the queue open.
    queue: Weak<Mutex<mpsc::Receiver<QueuedFrame<F>>>>,
    frames_max: usize,
    /// How many frames the client has taken.
    taken: Arc<AtomicU64>,
    seen: u64,
    /// When the client last took one, or none was waiting, as far as is known.
    moved_at: Instant,
}

impl Services {
    /// Follows something in a namespace, and reads it whenever the watch changes.
    pub(super) fn follow<F: Followed>(
        &self,
        follower: Follower,
        watch: watch::Receiver<u64>,
        followed: F,
    ) -> Frames<F::Frame> {
        // The last frame has its own place.
        let (frames, queue) = mpsc::channel(F::FRAMES_MAX + 1);
        let (queue, taken) = (Arc::new(Mutex::new(queue)), Arc::new(AtomicU64::new(0)));
        let mut writer = Writer {
            frames,
            queue: Arc::downgrade(&queue),
            frames_max: F::FRAMES_MAX,
            taken: Arc::clone(&taken),
            seen: 0,
            moved_at: Instant::now(),
        };
        let this = self.clone();
        tokio::spawn(async move {
            let Ok(last) = writer.frames.clone().reserve_owned().await else { return };
            let sent = this.while_signed_in(&follower.who, this.send_frames(&follower, watch, followed, &mut writer));
            let refusal = match this.draining.run_until_cancelled(sent).await {
                Some(Ok(())) => return,
                // The credential of a deleted team is invalid; here that is known to be the reason.
                Some(Err(refusal)) if refusal.reason == Reason::CredentialInvalid => match &follower.who.credential {
                    Credential::Operator { .. } => operator_replaced(),
                    _ => team_not_found(follower.namespace.as_str()),
                },
                Some(Err(refusal)) => refusal,
                None => services::draining(),
            };
            if refusal.reason == Reason::SlowConsumer {
                writer.clear();
            }
            last.send(QueuedFrame { frame: Err(refusal.into()), lease: None });
        });
        // The memory of the frame that was taken last: it is in the connection once the next one is asked for.
        let mut held = None;
        Box::pin(stream::poll_fn(move |context| {
            let frame = queue.lock().poll_recv(context);
            if let Poll::Ready(Some(_)) = &frame {
                taken.fetch_add(1, Ordering::Relaxed);
            }
            drop(held.take());
            frame.map(|frame| {
                frame.map(|waiting| {
                    held = waiting.lease;
                    waiting.frame
                })
            })
        }))
    }

    async fn send_frames<F: Followed>(
        &self,
        follower: &Follower,
        mut watch: watch::Receiver<u64>,
        mut followed: F,
        writer: &mut Writer<F::Frame>,
    ) -> Result<(), Refusal> {
        let write_timeout = self.pace.write_timeout;
        loop {
            if let Some(wait) = follower.account.as_ref().and_then(|account| account.read_wait()) {
                tokio::select! {
                    () = sleep(wait) => {}
                    () = writer.frames.closed() => return Ok(()),
                }
            }
            watch.mark_unchanged();
            let read = tokio::select! {
                read = read(follower.account.as_deref(), &mut followed, write_timeout) => read,
                () = writer.frames.closed() => return Ok(()),
            };
            match read {
                Ok((next, has_more, mut lease)) => {
                    self.heartbeats.record_caller(&follower.who);
                    for frame in next {
                        let lease = lease.as_mut().map(|lease| lease.take(frame.encoded_len()));
                        let sent = timeout(write_timeout, writer.frames.send(QueuedFrame { frame: Ok(frame), lease }));
                        match sent.await {
                            Ok(Ok(())) => {}
                            Ok(Err(_)) => return Ok(()),
                            Err(_) => return Err(slow(write_timeout)),
                        }
                    }
                    if has_more {
                        continue;
                    }
                }
                Err(refusal) if refusal.reason == Reason::StoreUnavailable => {}
                Err(refusal) => return Err(refusal),
            }
            if writer.stalled_for() >= write_timeout {
                return Err(slow(write_timeout));
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL.min(write_timeout)) => {}
                () = writer.frames.closed() => return Ok(()),
            }
        }
    }
}

/// Reads what comes next, as far as the follower's budget lasts. Returns the memory that it takes, too.
async fn read<F: Followed>(
    account: Option<&Account>,
    followed: &mut F,
    write_timeout: Duration,
) -> Result<(Vec<F::Frame>, bool, Option<ByteLease>), Refusal> {
    let Some(account) = account else {
        let (next, has_more) = followed.next().await?;
        return Ok((next, has_more, None));
    };
    let Some(lease) = account.lease_within(READ_BYTES_MAX, write_timeout).await else {
        return Err(slow(write_timeout));
    };
    let slot = if F::READS_RECORDS { Some(account.read_permit().await) } else { None };
    let (next, has_more) = followed.next().await?;
    drop(slot);
    Ok((next, has_more, Some(lease)))
}

impl<F> Writer<F> {
    /// Returns for how long the client has taken no frame while some were waiting.
    fn stalled_for(&mut self) -> Duration {
        let taken = self.taken.load(Ordering::Relaxed);
        let is_empty = self.frames.capacity() >= self.frames_max;
        if is_empty || std::mem::replace(&mut self.seen, taken) != taken {
            self.moved_at = Instant::now();
        }
        self.moved_at.elapsed()
    }

    /// Frees the frames that wait.
    fn clear(&self) {
        if let Some(queue) = self.queue.upgrade() {
            let mut queue = queue.lock();
            while queue.try_recv().is_ok() {}
        }
    }
}

fn slow(write_timeout: Duration) -> Refusal {
    let text =
        format!("The client read nothing from this stream for {write_timeout:?}. Read faster, and open it again.");
    Refusal::new(Reason::SlowConsumer, text)
}
