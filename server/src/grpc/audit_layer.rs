//! Gives calls that used powers, or were refused for lack of them, to the writer of the audit log.
//!
//! The caller of a privileged call is described before the call, which may end the life or the team that the credential belongs
//! to; that of a refused call afterwards. If the client of a privileged call goes away, the call may still have been carried out,
//! so it gets an entry, too.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use http::{Request, Response};
use teamwire_proto::{Refusal, credential::Credential, name::Name, v1};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::{
    audited::{About, is_denied, method_of, subject_of},
    credentials::CredentialsResult,
};
use crate::{
    delivery::AuditWriter,
    domain::{
        audit::{
            caller::{account, stranger},
            chain::{Chain, Subject},
            tally::OK,
        },
        identity::CallerCredentials,
        time::timestamp,
    },
    edge::{auth_gate::AuthGate, listen::SOCKET_PEER},
};

/// What a call is about: an extension of its request, in which [`Services::open`](super::Services) notes it.
pub(super) type Noted = Arc<OnceLock<About>>;

/// The id of the credential that a call has created, or the name of the member that has joined: an extension of its response.
#[derive(Clone, Debug)]
pub(super) struct Created(pub(super) String);

impl Created {
    /// Reads the id of a credential from its text.
    pub(super) fn from_credential(text: &str) -> Option<Self> {
        match Credential::parse(text).ok()? {
            Credential::Join { id, .. }
            | Credential::Observer { id, .. }
            | Credential::SignInCode { id, .. }
            | Credential::Console { id, .. } => Some(Self(id)),
            Credential::Operator { .. } | Credential::Member { .. } => None,
        }
    }
}

/// Makes the response of a call that may have created something.
pub(super) fn with_created<T>(reply: T, created: Option<Created>) -> tonic::Response<T> {
    let mut response = tonic::Response::new(reply);
    if let Some(created) = created {
        response.extensions_mut().insert(created);
    }
    response
}

/// Wraps services; see the [module](self). Needs the layer of [`credentials`](super::credentials) around it.
#[derive(Clone, Debug)]
pub struct AuditLayer {
    writer: Arc<AuditWriter>,
}

impl AuditLayer {
    /// Makes a layer that passes calls to a writer.
    pub fn new(writer: Arc<AuditWriter>) -> Self {
        Self { writer }
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = AuditService<S>;

    fn layer(&self, inner: S) -> AuditService<S> {
        AuditService { inner, writer: Arc::clone(&self.writer) }
    }
}

/// A service whose calls are audited.
#[derive(Clone, Debug)]
pub struct AuditService<S> {
    inner: S,
    writer: Arc<AuditWriter>,
}

impl<S, Q, A> Service<Request<Q>> for AuditService<S>
where
    S: Service<Request<Q>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    Q: Send + 'static,
    A: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let Some(mut call) = Call::begin(&mut request, &self.writer) else {
            return Box::pin(self.inner.call(request));
        };
        if call.subject.is_none() {
            let replied = self.inner.call(request);
            return Box::pin(async move {
                let reply = replied.await?;
                call.end(Ended::of(&reply)).await;
                Ok(reply)
            });
        }
        // The clone takes over the readiness of the one that was polled.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            call.describe().await;
            let reply = inner.call(request).await?;
            call.end(Ended::of(&reply)).await;
            Ok(reply)
        })
    }
}

/// A call of a method of ours.
struct Call {
    writer: Arc<AuditWriter>,
    method: String,
    subject: Option<Subject>,
    presented: CredentialsResult,
    peer: Option<std::net::SocketAddr>,
    noted: Noted,
    /// Who calls. `None`: not looked up yet.
    caller: Option<v1::AuditCaller>,
    has_ended: bool,
}

impl Call {
    fn begin<Q>(request: &mut Request<Q>, writer: &Arc<AuditWriter>) -> Option<Self> {
        let method = method_of(request.uri().path())?.to_owned();
        let presented = request.extensions().get::<CredentialsResult>()?.clone();
        let noted = Noted::default();
        request.extensions_mut().insert(Arc::clone(&noted));
        Some(Self {
            writer: Arc::clone(writer),
            subject: subject_of(&method),
            method,
            presented,
            peer: request.extensions().get::<Arc<AuthGate>>().and_then(|gate| gate.peer()),
            noted,
            caller: None,
            has_ended: false,
        })
    }

    /// Finds out who calls. If the store does not answer, the caller counts as a stranger.
    async fn describe(&mut self) -> v1::AuditCaller {
        if let Some(caller) = &self.caller {
            return caller.clone();
        }
        let caller = match &self.presented {
            Ok(who) => self.writer.describe(who).await.unwrap_or_else(|_| stranger(Some(&who.credential))),
            Err(_) => stranger(None),
        };
        self.caller.insert(caller).clone()
    }

    async fn end(&mut self, ended: Ended) {
        // From here on, a client that goes away changes nothing.
        self.has_ended = true;
        match ended {
            Ended::Succeeded(created) => self.succeeded(created).await,
            Ended::Refused(refusal) if is_denied(refusal.reason) => self.denied(&refusal).await,
            Ended::Refused(refusal) if refusal.may_have_changed() => self.unknown(refusal.reason.as_str()),
            Ended::Refused(_) | Ended::Failed => {}
        }
    }

    async fn succeeded(&mut self, created: Option<String>) {
        let Some(subject) = self.subject else { return };
        let caller = self.describe().await;
        let has_powers = caller.is_lead || caller.kind() == v1::AuditCallerKind::Operator;
        let about = self.about();
        let object = if about.object.is_empty() { created.unwrap_or_default() } else { about.object };
        let is_privileged = subject == Subject::Privileged;
        let chain = match self.team() {
            Some(team) => {
                Chain::new(if is_privileged || has_powers { Subject::Privileged } else { subject }, Some(&team))
            }
            // The team of a privileged call exists, or did until now.
            None if is_privileged => {
                let team = Name::parse(&about.team, "team").ok();
                Chain::new(Subject::Privileged, team.as_ref())
            }
            None => Chain::new(if has_powers { Subject::Privileged } else { subject }, None),
        };
        let account = account(&caller, &self.ip());
        let entry = v1::AuditEntry { object, ..self.entry(caller, OK) };
        if is_privileged || has_powers {
            self.writer.write(&chain, entry).await;
        } else {
            self.writer.count_and_write(&chain, &account, entry).await;
        }
    }

    async fn denied(&mut self, refusal: &Refusal) {
        let caller = self.describe().await;
        let About { team, object } = self.about().refused(refusal);
        let entry = v1::AuditEntry { team, object, ..self.entry(caller.clone(), refusal.reason.as_str()) };
        self.count(&caller, entry);
    }

    /// Counts a call that may have been carried out.
    fn unknown(&mut self, outcome: &str) {
        if self.subject.is_some()
            && let Some(caller) = self.caller.clone()
        {
            let entry = self.entry(caller.clone(), outcome);
            self.count(&caller, entry);
        }
    }

    fn count(&self, caller: &v1::AuditCaller, entry: v1::AuditEntry) {
        let is_stranger = caller.kind() == v1::AuditCallerKind::Stranger;
        let team = self.team().filter(|_| !is_stranger);
        let chain = Chain::new(Subject::Access, team.as_ref());
        drop(self.writer.count(&chain, &account(caller, &self.ip()), entry));
    }

    /// Returns the team of the caller's credential.
    fn team(&self) -> Option<Name> {
        self.who().and_then(|who| who.credential.team()).cloned()
    }

    fn who(&self) -> Option<&CallerCredentials> {
        self.presented.as_ref().ok().map(Arc::as_ref)
    }

    fn ip(&self) -> String {
        self.peer.map_or_else(String::new, |peer| peer.ip().to_string())
    }

    fn about(&self) -> About {
        self.noted.get().cloned().unwrap_or_default()
    }

    fn entry(&self, caller: v1::AuditCaller, outcome: &str) -> v1::AuditEntry {
        let About { team, object } = self.about();
        let is_stranger = caller.kind() == v1::AuditCallerKind::Stranger;
        let own = self.team().filter(|_| !is_stranger).map(|team| team.to_string());
        v1::AuditEntry {
            at: Some(timestamp(self.writer.now_ms())),
            caller: Some(caller),
            address: match self.peer {
                Some(SOCKET_PEER) => "unix".to_owned(),
                peer => peer.map_or_else(String::new, |peer| peer.to_string()),
            },
            method: self.method.clone(),
            team: if team.is_empty() { own.unwrap_or_default() } else { team },
            object,
            outcome: outcome.to_owned(),
            calls: 1,
            ..v1::AuditEntry::default()
        }
    }
}

/// How a call ended.
enum Ended {
    /// It was carried out, and may have created something.
    Succeeded(Option<String>),
    /// A rule refused it.
    Refused(Refusal),
    /// The transport refused it.
    Failed,
}

impl Ended {
    /// Reads it from a reply. A refusal has its status in the headers, since it has no body.
    fn of<A>(reply: &Response<A>) -> Self {
        match Status::from_header_map(reply.headers()).filter(|status| status.code() != Code::Ok) {
            None => Self::Succeeded(reply.extensions().get::<Created>().map(|created| created.0.clone())),
            Some(status) => Refusal::from_status(&status).map_or(Self::Failed, Self::Refused),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_ended {
            self.unknown("CANCELLED");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use tokio::sync::Notify;
    use tokio_util::sync::CancellationToken;
    use tower::service_fn;

    use super::*;
    use crate::{
        coordinator::Coordinator,
        domain::{
            Limits,
            secret::{OperatorSecrets, SecretHash},
        },
        store::embedded::EmbeddedStore,
    };

    const OPERATOR: &str = "0123456789abcdef0123456789abcdef";

    #[tokio::test]
    async fn a_privileged_call_whose_client_goes_away_leaves_an_entry() {
        let store = EmbeddedStore::in_memory().unwrap();
        let operator = tokio::sync::watch::channel(OperatorSecrets::from(SecretHash::of(OPERATOR))).1;
        let coordinator = Coordinator::new(store, Limits::default(), operator).await.unwrap();
        let coordinator = Arc::new(coordinator);
        let writer = Arc::new(AuditWriter::new(Arc::clone(&coordinator)));
        let operator = CallerCredentials::new(Credential::Operator { secret: OPERATOR.to_owned() }, None);

        let is_reached = Arc::new(Notify::new());
        let reaches = Arc::clone(&is_reached);
        let never_ends = service_fn(move |_: Request<()>| {
            reaches.notify_one();
            pending::<Result<Response<()>, Infallible>>()
        });
        let mut service = AuditLayer::new(Arc::clone(&writer)).layer(never_ends);
        for method in ["TeamService/ForceStop", "TeamService/GetTeam"] {
            let mut request = Request::post(format!("/teamwire.v1.{method}")).body(()).unwrap();
            let presented: CredentialsResult = Ok(Arc::new(operator.clone()));
            request.extensions_mut().insert(presented);
            let call = tokio::spawn(service.call(request));
            is_reached.notified().await;
            call.abort();
            call.await.unwrap_err();
        }

        let stop = CancellationToken::new();
        stop.cancel();
        writer.run(stop).await;
        let request = v1::ListAuditEntriesRequest::default();
        let listed = coordinator.list_audit_entries(&operator, &request).await.unwrap().records;
        let told: Vec<_> = listed.into_iter().filter_map(|record| record.entry).collect();
        let [entry] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((entry.method.as_str(), entry.outcome.as_str()), ("TeamService/ForceStop", "CANCELLED"));
        assert_eq!(entry.caller.as_ref().map(v1::AuditCaller::kind), Some(v1::AuditCallerKind::Operator));
    }
}
