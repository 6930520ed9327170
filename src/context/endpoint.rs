//! Where the coordinator is, and whether a credential may be sent there.

use std::{
    env, fs,
    os::unix::ffi::OsStrExt as _,
    path::{self, Path, PathBuf},
    sync::Once,
};

use nix::unistd::geteuid;
use ring::digest::{SHA256, digest};
use teamwire_client::{ADDRESS_VARIABLE, CA_VARIABLE, Pem, SOCKET_FILE, TlsOptions};
use teamwire_proto::address::{Address, SOCKET_PATH_BYTES_MAX};

use super::{ADDRESS_FILE, CA_FILE, ContextArgs, Origin, absolute, is_within_runner, refuse_shared, runner::variable};
use crate::{failure::Failure, show};

impl ContextArgs {
    /// Returns the coordinator's address, and which CA to trust and certificate to present there.
    pub(super) fn endpoint(&self, origin: Origin<'_>) -> Result<(String, TlsOptions), Failure> {
        let address_variable = variable(ADDRESS_VARIABLE);
        let ca_variable = variable(CA_VARIABLE).map(|text| absolute(text.into()));
        let (address, mut tls) = match origin {
            Origin::Bare | Origin::Operator => {
                (address_variable, TlsOptions { ca: ca_variable, ..TlsOptions::default() })
            }
            Origin::JoinString(joining) => {
                let address = Some(joining.address()).filter(|address| !address.is_empty()).or(address_variable);
                let ca = if joining.fingerprint.is_some() { None } else { ca_variable };
                (address, TlsOptions { ca, fingerprint: joining.fingerprint, ..TlsOptions::default() })
            }
            Origin::Saved(identity) | Origin::Named(identity) => {
                let address = address_variable.or_else(|| Some(identity.address.clone()));
                let ca = ca_variable.or_else(|| identity.tls.ca.clone());
                (address, TlsOptions { ca, ..identity.tls.clone() })
            }
        };
        tls.ca = self.ca.clone().or(tls.ca);
        if self.cert.is_some() || self.key.is_some() {
            (tls.cert, tls.key) = (self.cert.clone(), self.key.clone());
        }
        if let Some(address) = self.address.clone().or(address) {
            self.refuse_plaintext(origin, &address)?;
            return Ok((address, tls));
        }
        let state_dir = self.state_dir()?;
        let Some(written) = self.written_address() else {
            return Ok((self.default_address()?, tls));
        };
        let ca = state_dir.join(CA_FILE);
        // Another user who can write there could redirect credentials to another coordinator.
        for path in [&state_dir, &state_dir.join(ADDRESS_FILE), &ca] {
            refuse_shared(path)?;
        }
        if tls.ca.is_none() && tls.fingerprint.is_none() && ca.exists() {
            tls.ca = Some(Pem::File(ca));
        }
        Ok((written, tls))
    }

    /// Returns the address that --address or the environment gives.
    pub(crate) fn given_address(&self) -> Option<String> {
        self.address.clone().or_else(|| variable(ADDRESS_VARIABLE))
    }

    /// Returns the address that a coordinator left in the state directory.
    fn written_address(&self) -> Option<String> {
        let written = fs::read_to_string(self.state_dir().ok()?.join(ADDRESS_FILE)).ok()?;
        Some(written.trim().to_owned())
    }

    /// Fails if a credential belongs to an https address and would be sent to an http one.
    fn refuse_plaintext(&self, origin: Origin<'_>, address: &str) -> Result<(), Failure> {
        let (whose, secure) = match origin {
            Origin::Saved(identity) | Origin::Named(identity) => return Ok(identity.refuse_plaintext(address)?),
            Origin::JoinString(joining) => ("The join string is", joining.address()),
            Origin::Operator => ("The operator's credential is", self.written_address().unwrap_or_default()),
            Origin::Bare => return Ok(()),
        };
        let is_plain = Address::parse_list(address).is_ok_and(|addresses| addresses.iter().any(Address::is_plain));
        if !secure.starts_with("https://") || !is_plain {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{whose} for {secure}, so it is not sent over http to {address}. Write the address with https://, or leave it out \
             (--address, {ADDRESS_VARIABLE})."
        )))
    }

    /// Returns the address of this machine's coordinator if it has left none.
    pub(crate) fn default_address(&self) -> Result<String, Failure> {
        let path = socket_path(&self.state_dir()?)?;
        Ok(Address::Unix(path.display().to_string()).to_string())
    }

    /// Fails if a credential would be sent, unasked, to where any program of this machine could listen. Warns if it is
    /// sent there because the user said so.
    pub(super) fn check_proof(&self, origin: Origin<'_>, address: &str) -> Result<(), Failure> {
        if !is_unproven(address) {
            return Ok(());
        }
        let is_named = self.given_address().is_some() || matches!(origin, Origin::JoinString(_) | Origin::Named(_));
        match origin {
            _ if is_named => self.warn_of_plaintext(address),
            Origin::Saved(identity) => identity.refuse_unproven()?,
            _ => return Err(no_socket(address)),
        }
        Ok(())
    }

    /// Returns whether an address is the socket of the coordinator with this state directory, whether or not it runs.
    pub(crate) fn is_own_socket(&self, address: &str) -> bool {
        self.written_address().is_some_and(|written| written == address)
            || self.default_address().is_ok_and(|default| default == address)
    }

    /// Warns once if whatever listens at an address on this machine would get the credential. Within a program of a
    /// runner, the runner has.
    fn warn_of_plaintext(&self, address: &str) {
        static WARNED: Once = Once::new();
        if self.is_quiet || is_within_runner() {
            return;
        }
        WARNED.call_once(|| {
            show::warn(&format!(
                "The credential is sent to {address}, where any program on this machine can listen. Prefer the coordinator's \
                 socket, an address with unix://."
            ));
        });
    }
}

/// Returns whether any program of this machine could listen at one of these addresses.
fn is_unproven(addresses: &str) -> bool {
    Address::parse_list(addresses).is_ok_and(|addresses| addresses.iter().any(Address::is_unproven))
}

/// Says that the coordinator of this machine can only be reached where any program could listen.
fn no_socket(written: &str) -> Failure {
    Failure::usage(format!(
        "The coordinator of this machine has no socket, only {written}, where any program could listen while it does not run. If it \
         is there, say so with --address {written} or {ADDRESS_VARIABLE}; its log says why it has no socket."
    ))
}

/// Returns where the socket of a state directory is: in it or, if that path is too long for a socket, in a directory of
/// this user among the temporary files.
pub(crate) fn socket_path(state_dir: &Path) -> Result<PathBuf, Failure> {
    let state_dir = path::absolute(state_dir)?;
    let socket = state_dir.join(SOCKET_FILE);
    if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(socket);
    }
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = runtime.unwrap_or_else(|| PathBuf::from("/tmp"));
    let name = hex::encode(&digest(&SHA256, state_dir.as_os_str().as_bytes()).as_ref()[..8]);
    Ok(runtime.join(format!("teamwire-{}/{name}.sock", geteuid())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_in_the_state_directory_unless_its_path_would_be_too_long() {
        assert_eq!(socket_path(Path::new("/state")).unwrap(), Path::new("/state").join(SOCKET_FILE));
        let long = |end: &str| socket_path(&Path::new("/state").join("x".repeat(100)).join(end)).unwrap();
        assert!(
            long("a").as_os_str().len() <= SOCKET_PATH_BYTES_MAX && long("a") != long("b"),
            "{}",
            long("a").display()
        );
    }
}
