//! The operator's credential.

use std::{fs, path::Path};

use teamwire_proto::credential::Credential;

use crate::{
    context::{OPERATOR_FILE, write_private},
    failure::Failure,
};

/// Returns the operator's secret: that of the file that was given, which is left in the state directory as well, or that of
/// the state directory; makes it on the first start.
pub(super) fn operator_secret(state_dir: &Path, given: Option<&Path>) -> Result<String, Failure> {
    let path = state_dir.join(OPERATOR_FILE);
    let secret_in = |text: &str| match Credential::parse(text.trim()) {
        Ok(Credential::Operator { secret }) => Some(secret),
        _ => None,
    };
    if let Some(given) = given {
        let text = fs::read_to_string(given).map_err(|error| {
            Failure::usage(format!("The operator's credential {} cannot be read: {error}.", given.display()))
        })?;
        let secret = secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds no operator's credential, which is \"two:\" and 16 to 128 letters and digits.",
                given.display()
            ))
        })?;
        write_private(&path, format!("{}\n", text.trim()).as_bytes())?;
        return Ok(secret);
    }
    if let Ok(text) = fs::read_to_string(&path) {
        return secret_in(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds no operator's credential. Mend it, or move it away to have a new one made.",
                path.display()
            ))
        });
    }
    let random: [u8; 20] = rand::random();
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = Credential::Operator { secret: secret.clone() }.reveal();
    write_private(&path, format!("{credential}\n").as_bytes())?;
    Ok(secret)
}
