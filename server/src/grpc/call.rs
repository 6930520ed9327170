//! A call of one of the protocol's methods: what the layer, the handlers and the bodies of a call share.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{HeaderValue, Request, Uri};
use teamwire_proto::{Method, Refusal, address::Address, credential::Credential};

use super::{advertised::called_at, audited::About, cost::Cost, credentials};
use crate::{
    domain::identity::CallerCredentials,
    edge::auth_gate::{AuthGate, GatedCall},
};

/// A call. The layer makes it, and the request's extensions carry it to the handler; nothing else of ours travels
/// there.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// What the call presented, or why that is refused.
    pub(super) credentials: Result<Arc<CallerCredentials>, Refusal>,
    /// The call at the gate of its connection. `None` if the connection has no gate.
    pub(super) gated: Option<GatedCall>,
    uri: Uri,
    /// What a proxy that terminates TLS says of it. `None` if none does.
    forwarded: Option<HeaderValue>,
    /// What the call costs, and who pays for it.
    pub(super) cost: Cost,
    about: OnceLock<About>,
    created: OnceLock<String>,
    examined: AtomicUsize,
}

impl Call {
    /// Makes a call of a request, and takes the gate of the connection out of it.
    pub(super) fn new<B>(method: Method, request: &mut Request<B>) -> Self {
        Self {
            method,
            credentials: credentials::read(request.headers()).map(Arc::new),
            gated: request.extensions_mut().remove::<Arc<AuthGate>>().map(GatedCall::new),
            uri: request.uri().clone(),
            forwarded: request.headers().get("x-forwarded-proto").cloned(),
            cost: Cost::of(method),
            about: OnceLock::new(),
            created: OnceLock::new(),
            examined: AtomicUsize::new(0),
        }
    }

    /// Returns what presented a credential that can be read. `None` if nothing did.
    pub(super) fn who(&self) -> Option<&Arc<CallerCredentials>> {
        self.credentials.as_ref().ok()
    }

    /// Returns where the call comes from. `None` means unknown.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.gated.as_ref().and_then(GatedCall::peer)
    }

    /// Returns where the call goes.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the address that the call used. `None` means unknown. `socket`: the address of the coordinator's Unix
    /// socket.
    pub(super) fn called_at(&self, socket: Option<&Address>) -> Option<Address> {
        called_at(&self.uri, self.forwarded.as_ref(), self.peer(), socket)
    }

    /// Records what the request is about, for the audit log.
    pub(super) fn is_about(&self, about: About) {
        let _ = self.about.set(about);
    }

    /// Returns what the request is about. Empty if it has not been read.
    pub(super) fn about(&self) -> About {
        self.about.get().cloned().unwrap_or_default()
    }

    /// Records what the call has created, for the audit log: the name of a member.
    pub(super) fn has_created(&self, name: String) {
        let _ = self.created.set(name);
    }

    /// Records which credential the call has created, for the audit log: its id.
    pub(super) fn has_created_credential(&self, text: &str) {
        if let Ok(
            Credential::Join { id, .. }
            | Credential::Observer { id, .. }
            | Credential::SignInCode { id, .. }
            | Credential::Console { id, .. },
        ) = Credential::parse(text)
        {
            self.has_created(id);
        }
    }

    /// Returns what the call has created. Empty means nothing that the audit log names.
    pub(super) fn created(&self) -> String {
        self.created.get().cloned().unwrap_or_default()
    }

    /// Records how many bytes the call has examined besides those that it returns.
    pub(super) fn has_examined(&self, bytes: usize) {
        self.examined.store(bytes, Ordering::Relaxed);
    }

    /// Returns how many bytes the call has examined besides those that it returns.
    pub(super) fn examined(&self) -> usize {
        self.examined.load(Ordering::Relaxed)
    }
}
