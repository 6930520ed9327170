//! What every message may carry besides its body: what it replies to, and attachments.

use teamwire_proto::{Reason, Refusal, id::MessageId, v1};

use super::limits::Limits;

/// Checks the envelope of a send.
pub(super) fn check_envelope(request: &v1::SendRequest, limits: &Limits) -> Result<(), Refusal> {
    if !request.in_reply_to.is_empty() {
        MessageId::parse(&request.in_reply_to, "in_reply_to")?;
    }
    let invalid = |what: String| Refusal::new(Reason::InvalidAttachment, what).field("attachments");
    if request.attachments.len() > limits.attachments_max {
        return Err(invalid(format!("A message takes up to {} attachments.", limits.attachments_max)));
    }
    for (n, attachment) in request.attachments.iter().enumerate() {
        let uri = &attachment.uri;
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_absolute = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !is_absolute || uri.len() > 2_048 || uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(invalid(format!(
                "attachments[{n}].uri must be an absolute URI of up to 2,048 characters, such as https://host/path."
            )));
        }
        if attachment.media_type.len() > 255 || attachment.media_type.chars().any(char::is_control) {
            return Err(invalid(format!(
                "attachments[{n}].media_type must be up to 255 characters, such as text/plain."
            )));
        }
        let sha = &attachment.sha256;
        if !sha.is_empty() && (sha.len() != 64 || !sha.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
            return Err(invalid(format!("attachments[{n}].sha256 must be 64 lower-case hexadecimal digits.")));
        }
    }
    Ok(())
}
