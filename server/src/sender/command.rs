//! Hands notifications to a program, on its standard input.
//!
//! No shell is involved. The program gets no environment variables but `PATH` and `HOME`, and its own process group,
//! which is ended if it takes too long.

use std::{
    env, fmt, io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use teamwire_proto::word::one_line;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, sink},
    process::{Child, ChildStderr},
    time::timeout,
};

use super::SendError;

/// How many bytes of a program's error output are kept. Further ones are read and dropped.
const ERROR_OUTPUT_BYTES_MAX: u64 = 4 * 1_024;

/// How long a process that the program has left behind may keep its error output open.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// A program that gets notifications.
#[derive(Debug)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
}

/// Leaves out the arguments, which may be secret.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Path::new(&self.program).file_name().map(|name| name.to_string_lossy());
        f.write_str(&name.unwrap_or_default())
    }
}

impl Command {
    /// Makes it from the program and its arguments. `None` if there is no program.
    pub fn new(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        (!program.is_empty()).then(|| Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// See [`Target::send`](super::Target::send).
    pub(super) async fn send(&self, body: &str, limit: Duration) -> Result<(), SendError> {
        let mut group = Group(self.start().map_err(SendError::Run)?);
        let mut said = Vec::new();
        let ended = timeout(limit, exchange(&mut group.0, body, &mut said)).await;
        let said = one_line(&String::from_utf8_lossy(&said));
        match ended {
            Err(_) => {
                group.end();
                // So that no zombie is left.
                let _ = group.0.wait().await;
                Err(SendError::TimedOut { limit, said })
            }
            Ok(Err(error)) => Err(SendError::Run(error)),
            Ok(Ok(status)) if !status.success() => Err(SendError::Failed { status, said }),
            Ok(Ok(_)) => {
                if !said.is_empty() {
                    tracing::info!(program = %self, said, "a program that notifies people has written to its error output");
                }
                Ok(())
            }
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        command.envs(["PATH", "HOME"].into_iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    }
}

/// Writes what the program reads, and waits for its end. Keeps the beginning of its error output in `said`.
async fn exchange(child: &mut Child, body: &str, said: &mut Vec<u8>) -> io::Result<ExitStatus> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // It need not read.
            let _ = stdin.write_all(body.as_bytes()).await;
        }
    };
    let mut read = Box::pin(read(stderr, said));
    let mut is_read = false;
    let both = async { tokio::join!(write, child.wait()).1 };
    tokio::pin!(both);
    let status = loop {
        tokio::select! {
            status = &mut both => break status?,
            () = &mut read, if !is_read => is_read = true,
        }
    };
    if !is_read {
        let _ = timeout(OUTPUT_GRACE, read).await;
    }
    Ok(status)
}

async fn read(stderr: Option<ChildStderr>, said: &mut Vec<u8>) {
    let Some(stderr) = stderr else { return };
    let mut kept = stderr.take(ERROR_OUTPUT_BYTES_MAX);
    if kept.read_to_end(said).await.is_ok() {
        let _ = tokio::io::copy(&mut kept.into_inner(), &mut sink()).await;
    }
}

/// A program and what it has started, which end when this is dropped, unless the program has ended.
struct Group(Child);

impl Group {
    fn end(&self) {
        // Not waited for, so its id names no other process.
        let Some(pid) = self.0.id().and_then(|id| i32::try_from(id).ok()) else { return };
        if let Err(error) = killpg(Pid::from_raw(pid), Signal::SIGKILL) {
            tracing::debug!(%error, "a process group could not be ended");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Command {
        Command::new(&["/bin/sh", "-c", script].map(ToOwned::to_owned)).unwrap()
    }

    #[tokio::test]
    async fn a_program_gets_the_notification_and_no_environment() {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("cat > {0}/body; env | cut -d = -f 1 | sort > {0}/env", directory.path().display());
        shell(&script).send("{\"a\":1}", LIMIT).await.unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("body"), "{\"a\":1}");
        let own = ["HOME", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];
        assert!(read("env").lines().all(|name| own.contains(&name)), "{}", read("env"));
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why_however_much_it_says() {
        let error = shell("yes no | head -c 200000 >&2; exit 3").send("", LIMIT).await;
        let Err(SendError::Failed { status, said }) = error else { panic!("{error:?}") };
        assert_eq!(status.code(), Some(3));
        assert!(said.starts_with("no no") && said.len() <= 4_096, "{said}");
        // It reads nothing of what it gets.
        shell("exit 0").send(&"x".repeat(1_000_000), LIMIT).await.unwrap();
        let missing = Command::new(&["/nowhere/notify".to_owned()]).unwrap().send("", LIMIT).await;
        assert!(matches!(missing, Err(SendError::Run(_))), "{missing:?}");
        assert!(Command::new(&[]).is_none());
    }

    #[tokio::test]
    async fn a_program_that_hangs_ends_with_what_it_has_started() {
        let directory = tempfile::tempdir().unwrap();
        let (pid, fifo) = (directory.path().join("pid"), directory.path().join("fifo"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The one that it starts holds the FIFO open for writing as long as it lives.
        let script = format!("echo waiting >&2; sleep 1000 > {} & echo $! > {}; wait", fifo.display(), pid.display());
        let reader = tokio::task::spawn_blocking(move || std::fs::read(fifo).map(|read| read.len()));
        let error = shell(&script).send("", Duration::from_secs(1)).await;
        let Err(SendError::TimedOut { said, .. }) = error else { panic!("{error:?}") };
        assert_eq!(said, "waiting");
        let read = timeout(LIMIT, reader).await.expect("what the program has started is gone");
        assert_eq!(read.unwrap().unwrap(), 0);
    }
}
