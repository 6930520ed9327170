//! A command at a terminal: it sees a pseudo-terminal, and a test types and reads at the other side.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    pty::{Winsize, openpty},
    sys::{
        signal::{Signal, killpg},
        termios::{LocalFlags, tcgetattr},
    },
    unistd::{Pid, tcgetpgrp},
};

use super::eventually;

/// How large a terminal is.
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// A command that runs at a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// Kept open, so that its settings can be read after the command has ended.
    screen: Option<OwnedFd>,
    reader: Option<thread::JoinHandle<()>>,
    shown: Arc<Mutex<String>>,
    /// Up to where the test has read what is shown.
    read: usize,
}

impl Terminal {
    /// Starts a command at a new terminal.
    pub(super) fn start(mut command: Command) -> Self {
        let pty = openpty(&SIZE, None).unwrap();
        // The command leaves processes in the background, which must not keep the terminal open.
        for side in [&pty.master, &pty.slave] {
            fcntl(side, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let side = || pty.slave.try_clone().unwrap();
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(pty.master);
        let (shown, mut reading) = (Arc::new(Mutex::new(String::new())), keyboard.try_clone().unwrap());
        let text = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = reading.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        Self { child, keyboard, screen: Some(pty.slave), reader: Some(reader), shown, read: 0 }
    }

    /// Waits until the command shows a text, and returns what it has shown up to its end since the last time.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) -> String {
        let (shown, from) = (Arc::clone(&self.shown), self.read);
        let found = || shown.lock().unwrap()[from..].find(text).map(|at| from + at + text.len());
        let end = eventually(&format!("\"{text}\" after {:?}", &shown.lock().unwrap()[from..].to_owned()), found);
        self.read = end;
        shown.lock().unwrap()[from..end].to_owned()
    }

    /// Waits until the command takes single keys, and types one.
    #[track_caller]
    pub(crate) fn presses(&mut self, key: &str) {
        eventually("the command takes keys", || (!self.waits_for_enter()).then_some(()));
        self.types(key);
    }

    /// Types a text.
    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Returns whether the terminal passes on whole lines and echoes them, as a shell leaves it.
    pub(crate) fn waits_for_enter(&self) -> bool {
        tcgetattr(self.screen.as_ref().unwrap()).unwrap().local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    /// Returns the command's process group. `None` if it has ended: the system then says 0, which would mean the test's own.
    fn group(&self) -> Option<Pid> {
        tcgetpgrp(&self.keyboard).ok().filter(|group| group.as_raw() > 1)
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        killpg(self.group().unwrap(), signal).unwrap();
    }

    /// Waits until the command has ended. Returns its exit code, and all that it has shown.
    #[track_caller]
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let status = eventually("its end", || self.child.try_wait().unwrap());
        assert!(self.waits_for_enter(), "the terminal is not as before");
        // The reader has everything once no one has the terminal open.
        self.screen = None;
        self.reader.take().unwrap().join().unwrap();
        (status.code(), self.shown.lock().unwrap().clone())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command is in another session.
        if let Some(group) = self.group() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
