//! Gives calls that used powers, or were refused for lack of them, to the writer of the audit log.
//!
//! It looks up the caller of a privileged call before the call, which may end the life or the team that the credential
//! belongs to, and that of any other refused call afterwards. If the client of a privileged call goes away, the call
//! may still have been carried out, so it gets an entry, too.

use http::Response;
use teamwire_proto::{Refusal, name::Name, v1};
use tonic::{Code, Status, body::Body};

use super::{
    audited::{About, is_denied, name_of, subject_of},
    call::Call,
};
use crate::{
    delivery::AuditWriter,
    domain::{
        audit::{
            caller::{account, stranger},
            chain::{Chain, Subject},
            tally::OK,
        },
        time::timestamp,
    },
    edge::listen::SOCKET_PEER,
};

/// A call that may get an entry. If it is dropped before it ends, its client has gone away.
pub(super) struct AuditedCall<'a> {
    writer: &'a AuditWriter,
    call: &'a Call,
    subject: Option<Subject>,
    /// Who calls. `None` means not looked up yet.
    caller: Option<v1::AuditCaller>,
    has_ended: bool,
}

impl<'a> AuditedCall<'a> {
    /// Begins to follow a call. Describes its caller, if the call gets an entry when it succeeds.
    pub(super) async fn begin(call: &'a Call, writer: &'a AuditWriter) -> Self {
        let subject = subject_of(call.method);
        let mut audited = Self { writer, call, subject, caller: None, has_ended: false };
        if subject.is_some() {
            Box::pin(audited.describe()).await;
        }
        audited
    }

    /// Finds out who calls. If the store does not answer, the caller counts as a stranger.
    async fn describe(&mut self) -> v1::AuditCaller {
        if let Some(caller) = &self.caller {
            return caller.clone();
        }
        let caller = match &self.call.credentials {
            Ok(who) => self.writer.describe(who).await.unwrap_or_else(|_| stranger(Some(&who.credential))),
            Err(_) => stranger(None),
        };
        self.caller.insert(caller).clone()
    }

    /// Gives the call to the writer, if the way it ended deserves an entry.
    pub(super) async fn end(&mut self, ended: Ended) {
        // From here on, a client that goes away changes nothing.
        self.has_ended = true;
        match ended {
            // Boxed, since every call has room for what it may wait for, and few wait for these.
            Ended::Succeeded => {
                if let Some(subject) = self.subject {
                    Box::pin(self.succeeded(subject)).await;
                }
            }
            Ended::Refused(refusal) if is_denied(refusal.reason) => Box::pin(self.denied(&refusal)).await,
            Ended::Refused(refusal) if refusal.may_have_changed() => self.unknown(refusal.reason.as_str()),
            Ended::Refused(_) | Ended::Failed => {}
        }
    }

    async fn succeeded(&mut self, subject: Subject) {
        let caller = self.describe().await;
        let has_powers = caller.is_lead || caller.kind() == v1::AuditCallerKind::Operator;
        let about = self.call.about();
        let object = if about.object.is_empty() { self.call.created() } else { about.object };
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
        let About { team, object } = self.call.about().refused(refusal);
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
        self.call.who().and_then(|who| who.credential.team()).cloned()
    }

    fn ip(&self) -> String {
        self.call.peer().map_or_else(String::new, |peer| peer.ip().to_string())
    }

    fn entry(&self, caller: v1::AuditCaller, outcome: &str) -> v1::AuditEntry {
        let About { team, object } = self.call.about();
        let is_stranger = caller.kind() == v1::AuditCallerKind::Stranger;
        let own = self.team().filter(|_| !is_stranger).map(|team| team.to_string());
        v1::AuditEntry {
            at: Some(timestamp(self.writer.now_ms())),
            caller: Some(caller),
            address: match self.call.peer() {
                Some(SOCKET_PEER) => "unix".to_owned(),
                peer => peer.map_or_else(String::new, |peer| peer.to_string()),
            },
            method: name_of(self.call.method),
            team: if team.is_empty() { own.unwrap_or_default() } else { team },
            object,
            outcome: outcome.to_owned(),
            calls: 1,
            ..v1::AuditEntry::default()
        }
    }
}

/// How a call ended.
pub(super) enum Ended {
    /// It was carried out, or a stream has at least begun.
    Succeeded,
    /// A rule refused it.
    Refused(Refusal),
    /// The transport refused it.
    Failed,
}

impl Ended {
    /// Reads it from a reply. A refusal has its status in the headers, since it has no body.
    pub(super) fn of(reply: &Response<Body>) -> Self {
        match Status::from_header_map(reply.headers()).filter(|status| status.code() != Code::Ok) {
            None => Self::Succeeded,
            Some(status) => Refusal::from_status(&status).map_or(Self::Failed, Self::Refused),
        }
    }
}

impl Drop for AuditedCall<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.unknown("CANCELLED");
        }
    }
}
