//! Tests of the endpoint's precedence.

use teamwire_client::{KeptIdentity, TlsOptions};
use teamwire_proto::join_string::JoinString;

use super::*;

fn arguments(who: Option<&str>, team: Option<&str>) -> ContextArgs {
    ContextArgs {
        address: None,
        ca: None,
        cert: None,
        key: None,
        credential: None,
        credential_file: None,
        team: team.map(str::to_owned),
        who: who.map(str::to_owned),
        context: None,
        state_dir: None,
        timeout: Some(1),
        is_quiet: true,
    }
}

#[test]
fn a_flag_outranks_the_join_string_and_the_join_string_outranks_the_saved_identity() {
    let text = format!("twj:a:x1:0123456789abcdef@https://joined:1+sha256:{}", "0a".repeat(32));
    let joining = JoinString::parse(&text).unwrap();
    let mut typed = arguments(None, None);
    let (address, tls) = typed.endpoint(Origin::JoinString(&joining)).unwrap();
    assert_eq!((address.as_str(), tls.fingerprint), ("https://joined:1", joining.fingerprint));
    typed.address = Some("https://typed:1".to_owned());
    typed.ca = Some(parse_pem("typed.crt").unwrap());
    let (address, tls) = typed.endpoint(Origin::JoinString(&joining)).unwrap();
    assert_eq!(address, "https://typed:1");
    assert!(matches!(tls.ca, Some(Pem::File(path)) if path.is_absolute()));

    let kept = KeptIdentity {
        team: "b".to_owned(),
        member: "lead".to_owned(),
        address: "http://10.0.0.1:1".to_owned(),
        credential: String::new(),
        tls: TlsOptions { ca: Some(Pem::Text("kept".into())), ..TlsOptions::default() },
    };
    let (address, tls) = arguments(None, None).endpoint(Origin::Saved(&kept)).unwrap();
    assert_eq!((address, tls), (kept.address.clone(), kept.tls.clone()));
    let old: KeptIdentity =
        serde_json::from_str(r#"{"team":"a","member":"b","address":"c","credential":"d"}"#).unwrap();
    assert!(old.tls.is_empty() && !serde_json::to_string(&old).unwrap().contains("tls"));
}
