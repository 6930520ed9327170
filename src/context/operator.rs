//! Commands that only the operator can use, and the identities that options and the environment name.

use teamwire_proto::credential::Credential;

use super::ContextArgs;
use crate::failure::{Failure, NOT_PERMITTED};

impl ContextArgs {
    /// Fails if the options or the environment name a caller other than the operator. `what`: what only the operator
    /// can do, as in "replace the operator's credential".
    ///
    /// For commands that change the files of the operator, which a coordinator cannot refuse.
    pub(crate) fn refuse_others(&self, what: &str) -> Result<(), Failure> {
        self.check_within_runner()?;
        let refused =
            |why: String| Err(Failure::with_code(NOT_PERMITTED, format!("Only the operator can {what}, {why}")));
        if let Some(who) = self.who.as_deref().filter(|who| *who != "operator") {
            return refused(format!("and --as names {who}. Leave out --as and TEAMWIRE_AS, or write --as operator."));
        }
        let given = self.credential.as_deref().map(Credential::parse).transpose()?;
        if given.is_some_and(|given| !matches!(given, Credential::Operator { .. })) {
            return refused(
                "and the given credential is not the operator's. Leave it out (--credential, --credential-file, \
                 TEAMWIRE_CREDENTIAL)."
                    .to_owned(),
            );
        }
        Ok(())
    }
}
