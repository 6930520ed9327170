//! Single keys and lines that a person types at the terminal.
//!
//! While the command waits for a key, the terminal neither echoes nor waits for Enter. Whatever ends the wait, also a
//! signal, the terminal is as before. Keys that were typed before the wait do not count, so that no one answers a
//! question that they have not seen.

use std::{
    io::{self, stdin},
    os::fd::AsFd as _,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, poll},
    sys::termios::{FlushArg, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcflush, tcgetattr, tcsetattr},
    unistd::read,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, INTERRUPTED};

/// How much is read at once. A terminal's line is not longer.
const READ_BYTES_MAX: usize = 4_096;

/// How long a thread waits for keys before it looks whether it should end, in milliseconds.
const LOOK_INTERVAL: u16 = 100;

/// The terminal that a person types at: standard input.
pub(in crate::command) struct Keys;

/// The signals that end a command at a terminal.
pub(in crate::command) struct Ends(Vec<Signal>);

impl Ends {
    /// Catches the signals from now on.
    pub(in crate::command) fn new() -> Result<Self, Failure> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        Ok(Self(kinds.into_iter().map(signal).collect::<Result<_, _>>()?))
    }

    /// Waits for one of them. Returns the failure of the command, which says what stays as it is.
    pub(in crate::command) async fn next(&mut self, stays: &str) -> Failure {
        let signals = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(signals).await;
        Failure::with_code(INTERRUPTED, format!("Interrupted. {stays}"))
    }
}

impl Keys {
    /// Waits for a key that is meant, and returns its character. Ignores all others, among them keys that are not one ASCII
    /// character, such as arrows, and text that was pasted. The end of the input counts as `q`.
    pub(in crate::command) async fn key(&self, is_meant: impl Fn(char) -> bool) -> Result<char, Failure> {
        let _unbuffered = Unbuffered::enter()?;
        loop {
            match self.read().await?.as_slice() {
                [] | [END_OF_TRANSMISSION] => return Ok('q'),
                [one] if one.is_ascii() && is_meant(char::from(*one)) => return Ok(char::from(*one)),
                _ => {}
            }
        }
    }

    /// Waits for a line, and returns it without spaces around it. `None` at the end of the input.
    pub(in crate::command) async fn line(&self) -> Result<Option<String>, Failure> {
        tcflush(stdin(), FlushArg::TCIFLUSH).map_err(io::Error::from)?;
        let bytes = self.read().await?;
        Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).trim().to_owned()))
    }

    /// Reads what was typed, once there is something.
    async fn read(&self) -> Result<Vec<u8>, Failure> {
        let stop = CancellationToken::new();
        let _stops_with_this = stop.clone().drop_guard();
        let reading = spawn_blocking(move || read_until(&stop));
        reading.await.map_err(|error| Failure::local("Cannot read the terminal", error))?
    }
}

/// Waits in its thread until something was typed, and reads it. Ends soon after `stop` is cancelled, and then reads
/// nothing.
fn read_until(stop: &CancellationToken) -> Result<Vec<u8>, Failure> {
    let stdin = stdin();
    while !stop.is_cancelled() {
        let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, LOOK_INTERVAL) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) if stop.is_cancelled() => break,
            Ok(_) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut bytes = vec![0; READ_BYTES_MAX];
        match read(&stdin, &mut bytes) {
            Ok(length) => {
                bytes.truncate(length);
                return Ok(bytes);
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Ok(Vec::new())
}

/// What Ctrl+D sends.
const END_OF_TRANSMISSION: u8 = 4;

/// A terminal that passes each key on as it is typed. Dropping this makes it as before.
struct Unbuffered {
    before: Termios,
}

impl Unbuffered {
    fn enter() -> Result<Self, Failure> {
        let before = tcgetattr(stdin()).map_err(io::Error::from)?;
        let mut changed = before.clone();
        changed.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        changed.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        changed.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        // A stopped or dumped process would leave the terminal as it is.
        for key in [SpecialCharacterIndices::VSUSP, SpecialCharacterIndices::VQUIT] {
            changed.control_chars[key as usize] = DISABLED;
        }
        tcsetattr(stdin(), SetArg::TCSAFLUSH, &changed).map_err(io::Error::from)?;
        Ok(Self { before })
    }
}

/// No key.
#[cfg(target_os = "linux")]
const DISABLED: u8 = 0;
#[cfg(not(target_os = "linux"))]
const DISABLED: u8 = 0xff;

impl Drop for Unbuffered {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), SetArg::TCSADRAIN, &self.before);
    }
}
