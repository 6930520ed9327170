//! Reads the caller's credentials from a call's metadata.

use http::{HeaderMap, header::AUTHORIZATION};
use teamwire_proto::{Reason, Refusal, SESSION_METADATA_KEY, credential::Credential, trace_parent};

use crate::domain::{identity::CallerCredentials, secret::SessionId};

/// Reads the credentials of a call.
pub(super) fn read(headers: &HeaderMap) -> Result<CallerCredentials, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(missing)?.to_str().map_err(|_| invalid())?;
    if values.next().is_some() {
        // A proxy between may take the other one for the caller's.
        return Err(invalid());
    }
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => return Err(invalid()),
    };
    if token.is_empty() {
        return Err(missing());
    }
    let text = |key: &str| headers.get(key).and_then(|value| value.to_str().ok());
    let session = text(SESSION_METADATA_KEY).and_then(SessionId::presented);
    let trace_parent = text(trace_parent::METADATA_KEY).filter(|text| trace_parent::is_valid(text));
    Ok(CallerCredentials {
        trace_parent: trace_parent.map(str::to_owned),
        ..CallerCredentials::new(Credential::parse(token)?, session)
    })
}

/// The refusal of a call without a credential.
pub(super) fn missing() -> Refusal {
    Refusal::new(
        Reason::CredentialMissing,
        "The call has no credential. Send one in the metadata key `authorization`, as `Bearer TOKEN`; `teamwire join` and \
         `teamwire team create` issue one.",
    )
}

fn invalid() -> Refusal {
    Refusal::new(
        Reason::CredentialInvalid,
        "The `authorization` metadata must be given once and read `Bearer TOKEN`, in ASCII.",
    )
}
