//! The operator's credential.

use std::{fs, path::Path};

use teamwire_proto::credential::Credential;

use crate::{
    context::{OPERATOR_FILE, refuse_shared, write_private},
    failure::Failure,
};

/// Returns the operator's secret: from the configured file, which is copied to the state directory, or from the state
/// directory, where the first start creates it.
pub(super) fn secret(state_dir: &Path, given: Option<&Path>) -> Result<String, Failure> {
    let path = state_dir.join(OPERATOR_FILE);
    let secret_in = |text: &str| match Credential::parse(text.trim()) {
        Ok(Credential::Operator { secret }) => Some(secret),
        _ => None,
    };
    if let Some(given) = given {
        let text = fs::read_to_string(given).map_err(|error| {
            Failure::usage(format!("Cannot read the operator's credential {}: {error}.", given.display()))
        })?;
        let secret = secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} does not hold an operator's credential, which is \"two:\" followed by 16 to 128 letters and digits.",
                given.display()
            ))
        })?;
        super::publish(&path, format!("{}\n", text.trim()).as_bytes(), "the operator's --credential");
        return Ok(secret);
    }
    refuse_shared(&path)?;
    if let Ok(text) = fs::read_to_string(&path) {
        return secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} does not hold an operator's credential. Fix it, or move it away and the coordinator creates a new one.",
                path.display()
            ))
        });
    }
    let random: [u8; 20] = rand::random();
    let secret = hex::encode(random);
    let credential = Credential::Operator { secret: secret.clone() }.reveal();
    write_private(&path, format!("{credential}\n").as_bytes())?;
    Ok(secret)
}
