//! Names, addresses, join strings, credentials and trace parents: what is accepted is exactly what is documented, reads
//! back as itself, and shows no secret.

use std::str;

use teamwire_proto::{
    Reason,
    address::{ADDRESSES_MAX, Address},
    credential::Credential,
    join_string::{JOIN_STRING_CHARS_MAX, JoinString},
    name, trace_parent as parent,
};

fn is_name(text: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len()) && bytes[0].is_ascii_alphanumeric() && bytes.iter().all(is_part)
}

/// A recipient, and the names in it.
pub(crate) fn recipient(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match name::Name::parse(text, "f") {
        Ok(name) => {
            assert!(is_name(text));
            assert_eq!(name.as_str(), text);
            assert_eq!(name, name::Name::parse(&text.to_ascii_uppercase(), "f").expect("the same name"));
            let written = serde_json::to_string(&name).expect("JSON");
            assert_eq!(serde_json::from_str::<name::Name>(&written).expect("a name").as_str(), text);
            assert_eq!(name::Name::parse_member(text, "f").is_ok(), !name::RESERVED.contains(&name.folded()));
        }
        Err(refusal) => {
            assert!(!is_name(text));
            assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::InvalidName, Some("f")));
            // It is shown to people, in a terminal.
            assert!(refusal.message.len() < 2_000 && !refusal.message.chars().any(char::is_control));
        }
    }
    let is_address = match text.split_once('@') {
        Some((member, team)) => is_name(member) && is_name(team),
        None => is_name(text),
    };
    match name::Address::parse(text, "f") {
        Ok(address) => {
            assert!(is_address);
            let team = address.team.map_or(String::new(), |team| format!("@{team}"));
            assert_eq!(format!("{}{team}", address.member), text);
        }
        Err(refusal) => {
            assert!(!is_address);
            assert_eq!(refusal.reason == Reason::MissingRecipient, text.is_empty());
        }
    }
}

/// A list of addresses of coordinators.
pub(crate) fn address(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(addresses) = Address::parse_list(text) else { return };
    check_addresses(&addresses);
}

fn check_addresses(addresses: &[Address]) {
    assert!((1..=ADDRESSES_MAX).contains(&addresses.len()));
    for address in addresses {
        assert_eq!(address.is_tls(), addresses[0].is_tls(), "a client could be led from https to http");
        let written = address.to_string();
        assert_eq!(written.parse::<Address>().as_ref(), Ok(address), "{written}");
        let authority: http::uri::Authority = address.authority().parse().expect("an authority");
        match address {
            Address::Unix(path) => assert!(path.starts_with('/') && !path.contains('\0')),
            Address::Tcp(tcp) => {
                // It becomes the authority of requests. What stands there is the host that was checked, and no other.
                assert_eq!(authority.host().trim_matches(['[', ']']), tcp.host);
                let implied = if tcp.is_tls { 443 } else { 80 };
                assert_eq!(authority.port_u16().unwrap_or(implied), tcp.port);
                assert!(written.parse::<http::Uri>().is_ok_and(|uri| uri.path() == "/" && uri.query().is_none()));
                assert!(tcp.port > 0 && tcp.host == tcp.host.to_ascii_lowercase());
            }
        }
    }
}

/// A join string.
pub(crate) fn join_string(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match JoinString::parse(text) {
        Ok(join) => {
            assert!(text.trim().len() <= JOIN_STRING_CHARS_MAX);
            assert!(matches!(join.token(), Credential::Join { .. }));
            // Unless the host's name contains it.
            let secret = join.token().secret();
            assert!(is_elsewhere(text, secret) || !format!("{join:?}").contains(secret), "the secret is shown");
            assert_eq!(JoinString::parse(&join.reveal()).as_ref(), Ok(&join));
            if join.fingerprint.is_some() {
                assert!(join.addresses[0].is_tls(), "there is no certificate to know");
            }
            if !join.addresses.is_empty() {
                check_addresses(&join.addresses);
            }
            let made = JoinString::new(join.token().clone(), join.addresses.clone(), join.fingerprint);
            assert_eq!(made, Some(join));
        }
        Err(refusal) => {
            assert_eq!(refusal.reason, Reason::CredentialInvalid);
            assert!(!quotes(&refusal.message, text), "what may be a secret is quoted: {refusal}");
        }
    }
}

/// Returns whether a text holds a secret besides at its end, where it belongs. Ids are folded: in whatever case.
fn is_elsewhere(text: &str, secret: &str) -> bool {
    text.to_ascii_lowercase().matches(&secret.to_ascii_lowercase()).count() > 1
}

/// A credential.
pub(crate) fn credential(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match Credential::parse(text) {
        Ok(credential) => {
            let written = credential.reveal();
            // Ids of tokens are case-insensitive.
            assert!(written.eq_ignore_ascii_case(text));
            assert_eq!(Credential::parse(&written).as_ref(), Ok(&credential));
            assert!(text.ends_with(credential.secret()) && credential.secret().len() >= 16);
            let secret = credential.secret();
            assert!(is_elsewhere(text, secret) || !format!("{credential:?}").contains(secret), "the secret is shown");
            let parts = text.split(':').count();
            assert_eq!(credential.team().is_none(), parts < 4, "only the operator's name no team");
        }
        Err(refusal) => assert!(!quotes(&refusal.message, text), "what may be a secret is quoted: {refusal}"),
    }
}

/// Returns whether a message shows a stretch of a text that could be a secret.
fn quotes(message: &str, text: &str) -> bool {
    text.as_bytes()
        .windows(16)
        .any(|part| part.iter().all(u8::is_ascii_digit) && message.as_bytes().windows(16).any(|shown| shown == part))
}

/// A trace parent.
pub(crate) fn trace_parent(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let is_hex = |range: std::ops::Range<usize>| input[range].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |range: std::ops::Range<usize>| input[range].iter().all(|byte| *byte == b'0');
    let is_valid = input.len() == 55
        && text.starts_with("00-")
        && input[35] == b'-'
        && input[52] == b'-'
        && (is_hex(3..35) && is_hex(36..52) && is_hex(53..55))
        && !is_zero(3..35)
        && !is_zero(36..52);
    assert_eq!(parent::is_valid(text), is_valid, "{text}");
}
