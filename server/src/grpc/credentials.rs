//! The caller's credentials, read out of a call's metadata once, for the layers and services that need them.

use std::sync::Arc;

use http::{HeaderMap, Request, header::AUTHORIZATION};
use teamwire_proto::{Reason, Refusal, SESSION_METADATA_KEY, credential::Credential, trace_parent};
use tower::util::MapRequestLayer;

use crate::domain::identity::CallerCredentials;

/// The paths of all methods that take a credential begin so.
const OURS: &str = "/teamwire.";

/// What a call presented, or why that is refused. An extension of its request.
pub(super) type CredentialsResult = Result<Arc<CallerCredentials>, Refusal>;

/// Makes the layer that reads credentials.
pub fn layer<B>() -> MapRequestLayer<impl Fn(Request<B>) -> Request<B> + Clone + Send + 'static> {
    MapRequestLayer::new(|mut request: Request<B>| {
        if request.uri().path().starts_with(OURS) {
            let presented: CredentialsResult = read(request.headers()).map(Arc::new);
            request.extensions_mut().insert(presented);
        }
        request
    })
}

/// Reads the credentials of a call.
fn read(headers: &HeaderMap) -> Result<CallerCredentials, Refusal> {
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
    let session = text(SESSION_METADATA_KEY).map(str::to_owned);
    let trace_parent = text(trace_parent::METADATA_KEY).filter(|text| trace_parent::is_valid(text)).unwrap_or_default();
    Ok(CallerCredentials {
        trace_parent: trace_parent.to_owned(),
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
