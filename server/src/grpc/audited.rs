//! Which calls the audit log is about, and what it says of them.

use std::any::Any;

use teamwire_proto::{Method, Reason, Refusal, method, name::Name, v1::AuditClass};
use tonic::Code;

use crate::domain::audit::chain::Subject;

/// Returns a method's name in the audit log.
pub(super) fn name_of(method: Method) -> String {
    format!("{}/{}", method.service(), method.name())
}

/// Returns which chain gets an entry when a call succeeds. `None` means none.
pub(super) fn subject_of(method: Method) -> Option<Subject> {
    match method.audit() {
        AuditClass::Powers => Some(Subject::Privileged),
        AuditClass::Access => Some(Subject::Access),
        AuditClass::Refusals | AuditClass::Unspecified => None,
    }
}

/// Returns whether a refusal says that the caller may not do this. Someone who asks for what it may not see learns that
/// it does not exist.
pub(super) fn is_denied(reason: Reason) -> bool {
    let hides = [Reason::TeamNotFound, Reason::CredentialNotFound];
    let has_ended = [Reason::SessionSuperseded, Reason::MemberStopped];
    matches!(reason.code(), Code::PermissionDenied | Code::Unauthenticated)
        || hides.contains(&reason)
        || has_ended.contains(&reason)
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// The team that the request names.
    pub(super) team: String,
    /// What it names within the team.
    pub(super) object: String,
}

/// Reads what a request is about. Texts that cannot be names are left out: they may be anything, such as a secret.
pub(super) fn about(request: &dyn Any) -> About {
    let (team, object) = method::audited(request);
    About { team: shown(team), object: shown(object) }
}

/// Returns a text if it is a name.
fn shown(text: &str) -> String {
    Name::parse(text, "object").map_or_else(|_| String::new(), |name| name.to_string())
}

impl About {
    /// Returns what a refused call was about.
    pub(super) fn refused(self, refusal: &Refusal) -> Self {
        let named = refusal.metadata.get("team").map(|team| shown(team)).filter(|_| self.team.is_empty());
        // An id that is none may be a part of a secret.
        let object = if refusal.reason == Reason::CredentialNotFound { String::new() } else { self.object };
        Self { team: named.unwrap_or(self.team), object }
    }
}

#[cfg(test)]
mod tests {
    use teamwire_proto::v1;

    use super::*;

    #[test]
    fn every_call_that_creates_a_credential_is_audited() {
        for method in Method::ALL.iter().filter(|method| method.is_secret()) {
            // A host takes the token of an order that the lead's Spawn has created, and an owner sees the token of its
            // claim. The calls in frames are audited themselves.
            let is_other = method.service() == "TaskService" || matches!(method, Method::TakeOrder | Method::Carry);
            assert!(subject_of(*method).is_some() || is_other, "{}", name_of(*method));
        }
    }

    #[test]
    fn an_object_that_is_not_a_name_is_left_out_of_the_audit_log() {
        let revoke = |id: &str| about(&v1::RevokeCredentialRequest { team: "acme".to_owned(), id: id.to_owned() });
        assert_eq!(revoke("x1"), About { team: "acme".to_owned(), object: "x1".to_owned() });
        assert_eq!(revoke("twv:acme:x1:0123456789abcdef0123").object, "");
        assert_eq!(revoke("x1\u{1b}[2J").object, "");
        let unknown = Refusal::new(Reason::CredentialNotFound, "");
        assert_eq!(revoke("0123456789abcdef0123").refused(&unknown).object, "");
        let elsewhere = Refusal::new(Reason::TeamNotFound, "").with("team", "other");
        assert_eq!(About::default().refused(&elsewhere).team, "other");
        assert_eq!(about(&v1::SendRequest::default()), About::default());
    }

    #[test]
    fn only_reasons_about_the_callers_rights_count_as_denials() {
        for reason in Reason::ALL {
            let denies = matches!(reason.code(), Code::PermissionDenied | Code::Unauthenticated);
            assert!(is_denied(*reason) || !denies, "{reason}");
        }
        for reason in [Reason::RateLimited, Reason::InvalidName, Reason::StoreUnavailable, Reason::TaskClaimed] {
            assert!(!is_denied(reason), "{reason}");
        }
        assert!(is_denied(Reason::MemberStopped) && is_denied(Reason::TeamNotFound));
    }
}
