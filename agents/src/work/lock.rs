//! Locks a file in a repository, so that one process at a time does something there.

use std::{
    collections::HashMap,
    fmt::Display,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::sleep,
};

/// How long to wait between two looks at a lock that another process has.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    _turn: OwnedMutexGuard<()>,
}

/// Waits for what came before in this process, and until no other process has locked the file `name` in a repository's
/// own directory. Fails after `patience`.
pub(crate) async fn lock(common: &Path, name: &str, patience: Duration) -> Result<Lock, String> {
    static QUEUES: LazyLock<Mutex<HashMap<PathBuf, Arc<AsyncMutex<()>>>>> = LazyLock::new(Mutex::default);
    let path = common.join(name);
    let failed = |error: &dyn Display| format!("{name} in {}: {error}", common.display());
    let busy = || failed(&format!("another process has had the lock for {} s", patience.as_secs()));
    let queue = Arc::clone(QUEUES.lock().entry(path.clone()).or_default());
    // As long as others of this process get and use their turns, the wait goes on.
    let turn = queue.lock_owned().await;
    let file = File::options().create(true).append(true).open(path).map_err(|error| failed(&error))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file, _turn: turn }),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
            Err(TryLockError::WouldBlock) if began.elapsed() >= patience => return Err(busy()),
            Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
        }
    }
}
