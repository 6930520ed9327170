//! Trust between clients and coordinators, with a scripted coordinator that speaks TLS.

use std::fs;

use teamwire_client::{Client, Error, Identity, Pem, Retry, TlsOptions, message};
use teamwire_proto::join_string::Fingerprint;
use teamwire_test_coordinator::{Authority, Coordinator, MEMBER};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const HERE: &str = "127.0.0.1";

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions { ca: Some(Pem::Text(authority.pem())), ..TlsOptions::default() }
}

fn knowing(fingerprint: Fingerprint) -> TlsOptions {
    TlsOptions { fingerprint: Some(fingerprint), ..TlsOptions::default() }
}

/// Sends something with the default retries, and returns the client.
async fn send(address: &str, tls: TlsOptions) -> Result<Client, Error> {
    let client = Client::connect_with(address, tls)?.with_credential(MEMBER)?;
    client.send(message::direct("lead", "s", "c")).await?;
    Ok(client)
}

/// Expects that connecting securely fails at once, and returns why.
async fn insecure(address: &str, tls: TlsOptions) -> String {
    match send(address, tls).await {
        Err(error @ Error::Insecure { .. }) => {
            assert!(!error.is_retryable());
            error.to_string()
        }
        other => panic!("not insecure: {other:?}"),
    }
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let coordinator = Coordinator::start_with(Some(ours.issue(HERE).serve(&ours))).await;
    send(&coordinator.url(), trusting(&ours)).await.expect("trusted");
    for tls in [trusting(&other), TlsOptions::default()] {
        let why = insecure(&coordinator.url(), tls).await;
        assert!(why.contains("authority that is not trusted here") && why.contains("--ca"), "{why}");
    }
    assert_eq!(coordinator.with(|state| state.sends.len()), 1);
}

#[tokio::test]
async fn the_authority_may_be_in_a_file() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue(HERE).serve(&ours))).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("ca.crt");
    fs::write(&file, ours.pem()).expect("written");
    let tls = TlsOptions { ca: Some(Pem::File(file)), ..TlsOptions::default() };
    let identity = Identity { address: coordinator.url(), tls, credential: Some(MEMBER.into()), ..Identity::default() };
    let client = Client::from_identity(&identity).expect("a client");
    client.send(message::direct("lead", "s", "c")).await.expect("sent");
}

#[tokio::test]
async fn a_fingerprint_is_replaced_by_its_certificate_after_the_first_connection() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue(HERE).serve(&ours))).await;
    let client = send(&coordinator.url(), knowing(ours.fingerprint())).await.expect("known");
    assert_eq!(client.tls(), trusting(&ours));
    send(&coordinator.url(), client.tls()).await.expect("trusted");
}

#[tokio::test]
async fn a_coordinator_without_the_certificate_of_the_fingerprint_is_not_trusted() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let coordinator = Coordinator::start_with(Some(other.issue(HERE).serve(&other))).await;
    let why = insecure(&coordinator.url(), knowing(ours.fingerprint())).await;
    assert!(why.contains(&ours.fingerprint().to_string()) && why.contains("join string"), "{why}");
    assert!(send(&coordinator.url(), knowing(other.fingerprint())).await.is_ok());
}

#[tokio::test]
async fn presenting_the_authoritys_certificate_without_its_key_is_not_enough() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("ours"));
    // Anyone can copy a certificate from a handshake.
    let impostor = Coordinator::start_with(Some(theirs.issue(HERE).serve(&ours))).await;
    insecure(&impostor.url(), knowing(ours.fingerprint())).await;
    assert_eq!(impostor.with(|state| state.sends.len()), 0);
}

#[tokio::test]
async fn a_certificate_for_another_host_is_rejected() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue("elsewhere.example").serve(&ours))).await;
    for tls in [trusting(&ours), knowing(ours.fingerprint())] {
        let why = insecure(&coordinator.url(), tls).await;
        assert!(why.contains("not for 127.0.0.1 but for elsewhere.example"), "{why}");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_rejected() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue_expired(HERE).serve(&ours))).await;
    for tls in [trusting(&ours), knowing(ours.fingerprint())] {
        let why = insecure(&coordinator.url(), tls).await;
        assert!(why.contains("has expired"), "{why}");
    }
}

#[tokio::test]
async fn a_client_presents_its_certificate_or_learns_that_it_needs_one() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let coordinator = Coordinator::start_with(Some(ours.issue(HERE).serve_only(&ours, &clients))).await;
    let showing = |authority: &Authority| {
        let issued = authority.issue("ann");
        TlsOptions { cert: Some(Pem::Text(issued.cert)), key: Some(Pem::Text(issued.key)), ..trusting(&ours) }
    };
    send(&coordinator.url(), showing(&clients)).await.expect("let in");
    let why = insecure(&coordinator.url(), trusting(&ours)).await;
    assert!(why.contains("requires a client certificate") && why.contains("--cert"), "{why}");
    let why = insecure(&coordinator.url(), showing(&ours)).await;
    assert!(why.contains("does not accept our client certificate") && why.contains("--cert"), "{why}");
    assert!(!format!("{:?}", showing(&clients)).contains("PRIVATE"));
    assert_eq!(coordinator.with(|state| state.sends.len()), 1);
}

#[tokio::test]
async fn a_silent_coordinator_is_skipped() {
    let ours = Authority::new("ours");
    let coordinator = Coordinator::start_with(Some(ours.issue(HERE).serve(&ours))).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("https://{},{}", silent.local_addr().expect("an address"), coordinator.url());
    // Often enough that it is tried first.
    for _ in 0..8 {
        let client = Client::connect_with(&address, trusting(&ours)).expect("a client").with_retry(Retry::none());
        let client = client.with_credential(MEMBER).expect("a credential");
        client.send(message::direct("lead", "s", "c")).await.expect("sent in one attempt");
    }
    assert_eq!(coordinator.with(|state| state.sends.len()), 8);
}

#[tokio::test]
async fn a_mismatch_of_http_and_https_is_explained() {
    let ours = Authority::new("ours");
    let (plain, secure) =
        (Coordinator::start().await, Coordinator::start_with(Some(ours.issue(HERE).serve(&ours))).await);
    let why = insecure(&plain.url().replace("http:", "https:"), trusting(&ours)).await;
    assert!(why.contains("does not speak TLS") && why.contains("http://"), "{why}");
    let why = insecure(&secure.url().replace("https:", "http:"), TlsOptions::default()).await;
    assert!(why.contains("speaks TLS") && why.contains("https://"), "{why}");
}

#[tokio::test]
async fn a_server_that_is_not_a_coordinator_is_recognized() {
    let answers =
        ["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", "<html>", "-ERR unknown command\r\n", "SSH-2.0-x"];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            stream.write_all(answer.as_bytes()).await.expect("written");
            // Until the client has hung up.
            while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        });
        let why = insecure(&address.to_string(), TlsOptions::default()).await;
        assert!(why.contains("is not a coordinator"), "{answer}: {why}");
        server.await.expect("no panic");
    }
}

#[tokio::test]
async fn unusable_certificates_are_rejected_before_anything_is_sent() {
    let issued = Authority::new("ours").issue("ann");
    let (cert, key) = (Some(Pem::Text(issued.cert)), Some(Pem::Text(issued.key)));
    let other_key = Some(Pem::Text(Authority::new("other").issue("bob").key));
    for (tls, complaint) in [
        (TlsOptions { cert: cert.clone(), ..TlsOptions::default() }, "--cert and --key together"),
        (TlsOptions { cert: cert.clone(), key: other_key, ..TlsOptions::default() }, "do not go together"),
        (TlsOptions { cert: key.clone(), key: key.clone(), ..TlsOptions::default() }, "no certificate"),
        (TlsOptions { cert: cert.clone(), key: cert.clone(), ..TlsOptions::default() }, "no key"),
        (TlsOptions { ca: key, ..TlsOptions::default() }, "no certificate"),
        (TlsOptions { ca: Some(Pem::File("/no/such/ca".into())), ..TlsOptions::default() }, "/no/such/ca"),
    ] {
        match Client::connect_with("https://127.0.0.1:1", tls) {
            Err(error @ Error::TlsOptions(_)) => assert!(error.to_string().contains(complaint), "{error}"),
            other => panic!("{complaint}: {other:?}"),
        }
    }
}
