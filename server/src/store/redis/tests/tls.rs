//! The store over TLS and over a Unix socket.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use super::*;

/// Writes an authority `NAME-ca.pem`, and a certificate that it signed: `NAME.pem` with the key `NAME.key`.
fn certify(directory: &Path, name: &str) {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Without a distinct name, its certificates would look self-signed.
    authority.distinguished_name.push(DnType::CommonName, format!("authority of {name}"));
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let write = |file: String, text: String| fs::write(directory.join(file), text).unwrap();
    write(format!("{name}-ca.pem"), authority.pem());
    write(format!("{name}.pem"), signed.pem());
    write(format!("{name}.key"), key.serialize_pem());
}

#[tokio::test]
async fn tls_requires_trust_in_both_directions() {
    let directory = TempDir::new().unwrap();
    certify(directory.path(), "own");
    certify(directory.path(), "foreign");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let port = crate::store::test_redis::free_port();
    let Some(_server) = TestRedis::with(&[
        "--save",
        "",
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("own.pem"),
        "--tls-key-file",
        &file("own.key"),
        "--tls-ca-cert-file",
        &file("own-ca.pem"),
    ]) else {
        return;
    };
    let url = |parameters: &str| format!("rediss://127.0.0.1:{port}?{parameters}");
    let (ca, foreign_ca) = (format!("ca={}", file("own-ca.pem")), format!("ca={}", file("foreign-ca.pem")));
    let known = format!("{ca}&cert={}&key={}", file("own.pem"), file("own.key"));
    let store = RedisStore::connect(&url(&known), PREFIX).await.unwrap();
    let mut notifications = store.notifications();
    commit(&store, vec![append("s", "x"), notification()]).await.unwrap();
    assert_eq!(
        notifications.recv().await.unwrap(),
        Notification::Topic { namespace: namespace("a"), topic: "t".to_owned(), by: 7 }
    );
    // No client certificate; one by an authority the server does not know; a server that the client does not trust.
    let foreigner = format!("{ca}&cert={}&key={}", file("foreign.pem"), file("foreign.key"));
    let distrusts = format!("{foreign_ca}&cert={}&key={}", file("own.pem"), file("own.key"));
    for wrong in [&ca, &foreigner, &distrusts, ""] {
        let error = RedisStore::connect(&url(wrong), PREFIX).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{wrong}: {error}");
    }
}

#[tokio::test]
async fn unix_socket_works() {
    let Some(server) = TestRedis::with(&["--save", "", "--unixsocket", "redis.sock"]) else { return };
    let url = format!("redis+unix://{}?db=2", server.directory().join("redis.sock").display());
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    assert_eq!(sequences(&store).await, [1]);
}
