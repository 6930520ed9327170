//! How a client reads the status of any server.

use teamwire_proto::Refusal;
use tonic::{Code, Status};

/// The details of a status: a refusal or none, and a refusal is passed on unchanged.
pub(crate) fn refusal(input: &[u8]) {
    let Some((code, details)) = input.split_first() else { return };
    let status = Status::with_details(Code::from(i32::from(*code % 17)), "no", details.to_vec().into());
    let Some(refusal) = Refusal::from_status(&status) else { return };
    let passed_on = Status::from(refusal.clone());
    let again = Refusal::from_status(&passed_on).expect("it is still one");
    assert_eq!((again.reason, &again.message), (refusal.reason, &refusal.message));
    assert_eq!(passed_on.code(), again.reason.code());
    // More than fits is left out, and nothing is made up.
    assert!(again.metadata.iter().all(|(key, value)| refusal.metadata.get(key) == Some(value)));
}
