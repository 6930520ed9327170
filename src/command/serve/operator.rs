//! The operator's credential: where it is, and how it changes while the coordinator runs.
//!
//! The credential is the first line of the configured file, or of the one in the state directory; any further lines are
//! credentials that are accepted, too. One that was replaced is accepted for a while longer: the state directory lists
//! the hashes of these ([`Former`]), so that a restart changes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use teamwire_proto::credential::Credential;
use teamwire_server::domain::secret::{OperatorSecrets, SecretHash};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::sleep,
};

use crate::{
    context::{OPERATOR_FILE, refuse_shared, write_private},
    failure::Failure,
};

/// The state directory's file with the hashes of former credentials, a line each: the hash, and until when it is
/// accepted, in seconds since 1970.
const FORMER_FILE: &str = "operator.former";

/// How many former credentials are accepted.
const FORMER_MAX: usize = 8;

/// Returns a new credential for the operator.
pub(crate) fn new_credential() -> Credential {
    let random: [u8; 20] = rand::random();
    Credential::Operator { secret: hex::encode(random) }
}

/// Returns the secret of an operator's credential.
pub(crate) fn secret_in(line: &str) -> Option<String> {
    match Credential::parse(line.trim()) {
        Ok(Credential::Operator { secret }) => Some(secret),
        _ => None,
    }
}

/// The credentials of the operator, and the files that they come from.
#[derive(Debug)]
pub(super) struct OperatorFiles {
    state_dir: PathBuf,
    /// `None` if the credential is in the state directory.
    given: Option<PathBuf>,
    /// How long a credential that was replaced in the file is accepted.
    grace: Duration,
    /// The secrets in the file, the present one first.
    secrets: Vec<String>,
    published: watch::Sender<OperatorSecrets>,
}

impl OperatorFiles {
    /// Reads the configured file, which is copied to the state directory, or the one in the state directory, which the
    /// first start creates.
    pub(super) fn load(state_dir: &Path, given: Option<&Path>, grace: Duration) -> Result<Self, Failure> {
        let path = state_dir.join(OPERATOR_FILE);
        if given.is_none() {
            refuse_shared(&path)?;
            if !path.exists() {
                write_private(&path, format!("{}\n", new_credential().reveal()).as_bytes())?;
            }
        }
        let (state_dir, given) = (state_dir.to_owned(), given.map(Path::to_owned));
        let nothing = OperatorSecrets::new([], []);
        let mut files = Self { state_dir, given, grace, secrets: Vec::new(), published: watch::channel(nothing).0 };
        files.reload()?;
        Ok(files)
    }

    /// Returns the secrets that are accepted, as they change.
    pub(super) fn secrets(&self) -> watch::Receiver<OperatorSecrets> {
        self.published.subscribe()
    }

    /// Reads the files again now and then, and on every SIGHUP.
    pub(super) fn keep_current(mut self, interval: Duration) -> Result<(), Failure> {
        let mut hangups = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            let mut last_failure = String::new();
            loop {
                tokio::select! {
                    () = sleep(interval) => {}
                    hangup = hangups.recv() => if hangup.is_none() { return },
                }
                match self.reload() {
                    Ok(()) => last_failure.clear(),
                    Err(failure) => {
                        let failure = failure.message();
                        if failure != last_failure {
                            tracing::error!(%failure, "the operator's credential cannot be reloaded; the one before stays valid");
                        }
                        last_failure = failure;
                    }
                }
            }
        });
        Ok(())
    }

    /// Reads the files, and accepts from now on what they say. If they cannot be read, everything stays as it is.
    fn reload(&mut self) -> Result<(), Failure> {
        let secrets = self.read()?;
        let mut former = Former::read(&self.state_dir);
        let replaced = self.secrets.first().filter(|present| !secrets.contains(present));
        if let Some(replaced) = replaced {
            // `teamwire operator rotate` has recorded its end before.
            if !former.has(replaced) {
                former = former.with(replaced, self.grace);
                former.write(&self.state_dir)?;
            }
            tracing::info!("the operator's credential was replaced");
        }
        if let (Some(_), Some(present)) = (&self.given, secrets.first()) {
            let credential = Credential::Operator { secret: present.clone() }.reveal();
            let path = self.state_dir.join(OPERATOR_FILE);
            super::publish(&path, format!("{credential}\n").as_bytes(), "the operator's --credential");
        }
        let accepted = OperatorSecrets::new(
            secrets.iter().map(|secret| SecretHash::of(secret)),
            former.0.iter().map(|(hash, until)| (*hash, until.saturating_mul(1_000))),
        );
        self.published.send_if_modified(|known| {
            let is_new = *known != accepted;
            *known = accepted;
            is_new
        });
        self.secrets = secrets;
        Ok(())
    }

    fn read(&self) -> Result<Vec<String>, Failure> {
        let own = self.state_dir.join(OPERATOR_FILE);
        let path = self.given.as_deref().unwrap_or(&own);
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("Cannot read the operator's credential {}: {error}.", path.display()))
        })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Option<Vec<String>> = lines.map(secret_in).collect();
        secrets.filter(|secrets| !secrets.is_empty()).ok_or_else(|| {
            let advice = match self.given {
                Some(_) => "which is \"two:\" followed by 16 to 128 letters and digits.",
                None => "so fix it, or move it away and the coordinator creates a new one.",
            };
            Failure::usage(format!("{} does not hold an operator's credential, {advice}", path.display()))
        })
    }
}

/// The hashes of credentials that were replaced, each with its end in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Former(Vec<(SecretHash, u64)>);

impl Former {
    /// Reads those that the state directory lists. A list that is missing or shared with other users is empty.
    pub(crate) fn read(state_dir: &Path) -> Self {
        let path = state_dir.join(FORMER_FILE);
        if !path.exists() {
            return Self::default();
        }
        if let Err(failure) = refuse_shared(&path) {
            tracing::warn!(failure = failure.message(), "former credentials of the operator are not accepted");
            return Self::default();
        }
        let text = fs::read_to_string(path).unwrap_or_default();
        let parse = |line: &str| {
            let (hash, until) = line.split_once(' ')?;
            Some((SecretHash::try_from(hash.to_owned()).ok()?, until.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(parse).take(FORMER_MAX).collect())
    }

    fn has(&self, secret: &str) -> bool {
        self.0.iter().any(|(hash, _)| *hash == SecretHash::of(secret))
    }

    /// Adds a credential that is accepted for a while longer, and drops those that no longer are.
    pub(crate) fn with(&self, secret: &str, grace: Duration) -> Self {
        let (hash, now) = (SecretHash::of(secret), now());
        let mut listed = vec![(hash, now.saturating_add(grace.as_secs()))];
        listed.extend(self.0.iter().filter(|(other, until)| *other != hash && *until > now));
        listed.truncate(FORMER_MAX);
        Self(listed)
    }

    /// Writes the list.
    pub(crate) fn write(&self, state_dir: &Path) -> Result<(), Failure> {
        let lines = self.0.iter().map(|(hash, until)| format!("{} {until}\n", String::from(*hash)));
        write_private(&state_dir.join(FORMER_FILE), lines.collect::<String>().as_bytes())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A private directory, as a coordinator's state directory is.
    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    fn accepts(files: &OperatorFiles, secret: &str) -> bool {
        files.secrets().borrow().accept(&SecretHash::of(secret), now() * 1_000)
    }

    #[test]
    fn a_replaced_credential_is_accepted_for_the_grace_and_after_a_restart() {
        let state = directory();
        let mut files = OperatorFiles::load(state.path(), None, HOUR).expect("a credential");
        let old = files.secrets[0].clone();
        write_private(&state.path().join(OPERATOR_FILE), b"two:aaaaaaaaaaaaaaaa\n").expect("written");
        files.reload().expect("reloaded");
        assert!(accepts(&files, "aaaaaaaaaaaaaaaa") && accepts(&files, &old));
        let again = OperatorFiles::load(state.path(), None, HOUR).expect("a credential");
        assert!(accepts(&again, "aaaaaaaaaaaaaaaa") && accepts(&again, &old));
        // The end that a command has recorded takes precedence over the configured grace.
        Former::read(state.path()).with("aaaaaaaaaaaaaaaa", Duration::ZERO).write(state.path()).expect("written");
        write_private(&state.path().join(OPERATOR_FILE), b"two:bbbbbbbbbbbbbbbb\n").expect("written");
        files.reload().expect("reloaded");
        assert!(accepts(&files, "bbbbbbbbbbbbbbbb") && accepts(&files, &old) && !accepts(&files, "aaaaaaaaaaaaaaaa"));
    }

    #[test]
    fn a_file_with_several_credentials_accepts_all_of_them() {
        let (state, given) = (directory(), directory());
        let file = given.path().join("operator");
        write_private(&file, b"two:aaaaaaaaaaaaaaaa\ntwo:bbbbbbbbbbbbbbbb\n").expect("written");
        let mut files = OperatorFiles::load(state.path(), Some(&file), Duration::ZERO).expect("a credential");
        assert!(accepts(&files, "aaaaaaaaaaaaaaaa") && accepts(&files, "bbbbbbbbbbbbbbbb"));
        let copy = || fs::read_to_string(state.path().join(OPERATOR_FILE)).expect("a copy");
        assert_eq!(copy(), "two:aaaaaaaaaaaaaaaa\n");
        write_private(&file, b"two:bbbbbbbbbbbbbbbb\n").expect("written");
        files.reload().expect("reloaded");
        assert!(!accepts(&files, "aaaaaaaaaaaaaaaa") && accepts(&files, "bbbbbbbbbbbbbbbb"), "without a grace");
        assert_eq!(copy(), "two:bbbbbbbbbbbbbbbb\n");
        // What cannot be read changes nothing.
        write_private(&file, b"nothing of the kind\n").expect("written");
        files.reload().expect_err("not a credential");
        fs::remove_file(&file).expect("removed");
        files.reload().expect_err("no file");
        assert!(accepts(&files, "bbbbbbbbbbbbbbbb"));
    }
}
