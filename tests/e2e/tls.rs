//! TLS, with clients that are as they should be, and with others.

use std::{error::Error, fs, path::PathBuf};

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use teamwire_proto::v1;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, runtime::Runtime};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::{
    raw::Raw,
    world::{LEAD, World, eventually},
};

/// A CA and the directory that its certificates are written to.
struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate. Returns it and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// The files that a coordinator is given.
struct Files {
    directory: TempDir,
}

impl Files {
    fn of(ca: &Ca) -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.replace(ca);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a certificate with its CA behind it, and its key; each file in one step, the certificate last.
    fn replace(&self, ca: &Ca) {
        let (cert, key) = ca.issue("a coordinator");
        for (name, text) in [("key.pem", key), ("cert.pem", format!("{cert}{}", ca.pem()))] {
            fs::write(self.path("new"), text).unwrap();
            fs::rename(self.path("new"), self.path(name)).unwrap();
        }
    }

    /// The configuration of a coordinator that has them. `more`: further keys of the section.
    fn configuration(&self, more: &str) -> String {
        let path = |name| self.path(name).display().to_string();
        format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n{more}", path("cert.pem"), path("key.pem"))
    }
}

/// Calls as the operator over a new connection. `identity`: the client's certificate.
fn call(world: &World, ca: &Ca, identity: Option<(String, String)>) -> Result<Raw, String> {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca.pem())).domain_name("localhost");
    let tls = match identity {
        Some((cert, key)) => tls.identity(Identity::from_pem(cert, key)),
        None => tls,
    };
    let endpoint = Endpoint::from_shared(world.coordinator.address()).unwrap().tls_config(tls).unwrap();
    let caller = Raw { channel: endpoint.connect_lazy(), credential: Some(world.operator()) };
    runtime().block_on(list(&caller))?;
    Ok(caller)
}

async fn list(caller: &Raw) -> Result<(), String> {
    let listed = caller.teams().list_teams(caller.request(v1::ListTeamsRequest::default())).await;
    listed.map(drop).map_err(|status| {
        let causes =
            std::iter::successors(status.source(), |cause: &&dyn Error| (*cause).source()).map(ToString::to_string);
        format!("{status}: {}", causes.collect::<Vec<_>>().join(": "))
    })
}

/// Connections live on it from one call to the next.
fn runtime() -> &'static Runtime {
    static RUNTIME: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

#[test]
fn with_tls_only_clients_that_speak_it_and_trust_the_ca_get_through() {
    let _inside = runtime().enter();
    let (ca, other) = (Ca::new("a CA"), Ca::new("another CA"));
    let files = Files::of(&ca);
    let world = World::configured(&files.configuration(""));
    assert!(world.coordinator.address().starts_with("https://127.0.0.1:"), "{}", world.coordinator.address());
    call(&world, &ca, None).unwrap();

    let error = call(&world, &other, None).map(drop).unwrap_err();
    assert!(error.contains("UnknownIssuer") || error.contains("invalid peer certificate"), "{error}");
    let plain = format!("http://{}", world.coordinator.socket());
    runtime().block_on(list(&Raw::at(&plain, &world.operator()))).expect_err("no TLS");
    runtime().block_on(async {
        let mut garbage = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        garbage.write_all(&[0x55; 4_096]).await.unwrap();
        let mut answer = Vec::new();
        // An alert, or nothing: then it is over.
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut garbage, &mut answer).await;
        assert!(answer.len() < 64, "{answer:?}");
    });
    call(&world, &ca, None).expect("the others have done no harm");
}

#[test]
fn a_client_that_does_not_finish_the_handshake_in_time_is_cut_off() {
    let _inside = runtime().enter();
    let ca = Ca::new("a CA");
    let files = Files::of(&ca);
    let configuration =
        format!("log = \"debug\"\n[network]\nhandshake_timeout = \"500ms\"\n{}", files.configuration(""));
    let world = World::configured(&configuration);
    runtime().block_on(async {
        let mut silent = TcpStream::connect(world.coordinator.socket()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut silent, &mut answer);
        let _ = tokio::time::timeout(crate::world::PATIENCE, read).await.expect("it is closed");
    });
    world.coordinator.await_log("closed: no handshake", 1);
}

#[test]
fn health_probes_need_no_client_certificate() {
    let ca = Ca::new("the coordinators' CA");
    let files = Files::of(&ca);
    fs::write(files.path("clients.pem"), Ca::new("the clients' CA").pem()).unwrap();
    let client_ca = format!("client_ca = \"{}\"\n", files.path("clients.pem").display());
    let world = World::configured(&format!("health = \"127.0.0.1:0\"\n{}", files.configuration(&client_ca)));
    let address = format!("http://{}", world.coordinator.health_address());
    world.cli("prober", &["health", "--address", &address]).succeeds();
    world.cli("prober", &["health", "--address", &address, "--service", "live"]).succeeds();
    world.cli(LEAD, &["health"]).exits(69);
}

#[test]
fn with_a_client_ca_only_clients_with_its_certificate_get_through() {
    let _inside = runtime().enter();
    let (ca, clients, other) = (Ca::new("a CA"), Ca::new("the clients' CA"), Ca::new("another CA"));
    let files = Files::of(&ca);
    fs::write(files.path("clients.pem"), clients.pem()).unwrap();
    let client_ca = format!("client_ca = \"{}\"\n", files.path("clients.pem").display());
    let world = World::configured(&files.configuration(&client_ca));
    call(&world, &ca, Some(clients.issue("ann"))).unwrap();
    call(&world, &ca, None).map(drop).expect_err("no certificate");
    call(&world, &ca, Some(other.issue("ann"))).map(drop).expect_err("another member's certificate");
    call(&world, &ca, Some(ca.issue("ann"))).map(drop).expect_err("the coordinator's CA is not the clients'");
    call(&world, &ca, Some(clients.issue("bob"))).unwrap();
}

#[test]
fn new_certificates_are_loaded_at_run_time_and_open_connections_stay() {
    let _inside = runtime().enter();
    let (old, new) = (Ca::new("an old CA"), Ca::new("a new CA"));
    let files = Files::of(&old);
    let world = World::configured(&files.configuration("reload_interval = \"100ms\"\n"));
    // For a moment, key and certificate may not be of each other.
    world.coordinator.may_complain_of("the old certificates stay in force");
    let before = call(&world, &old, None).unwrap();
    files.replace(&new);
    eventually("the new certificates are in force", || call(&world, &new, None).ok());
    call(&world, &old, None).map(drop).expect_err("the old CA is no more");
    runtime().block_on(list(&before)).expect("as it began");
}

/// A runner that has lost its coordinator names the reason that lasts, and not only the first one.
#[test]
fn a_runner_says_why_it_cannot_come_back() {
    let (old, new) = (Ca::new("an old CA"), Ca::new("a new CA"));
    let files = Files::of(&old);
    fs::write(files.path("old.pem"), old.pem()).unwrap();
    let mut world = World::configured(&files.configuration(""));
    world.create_team("acme");
    let runner = world.run("bob", &["--ca", files.path("old.pem").to_str().unwrap()], "cat >/dev/null").ready();
    world.coordinator.end();
    files.replace(&new);
    world.coordinator.restart();
    runner.await_log("connection lost, reconnecting: its certificate comes from an authority that is not trusted here");
    world.coordinator.end();
    files.replace(&old);
    world.coordinator.restart();
    runner.await_log("connected again");
    let said = runner.log();
    assert_eq!(said.matches("not trusted here").count(), 1, "{said}");
}

#[test]
fn unusable_certificates_leave_the_old_ones_in_force() {
    let _inside = runtime().enter();
    let (old, new) = (Ca::new("an old CA"), Ca::new("a new CA"));
    let files = Files::of(&old);
    let world = World::configured(&files.configuration("reload_interval = \"24h\"\n"));
    world.coordinator.may_complain_of("the old certificates stay in force");
    let complaints = ["holds no certificate in PEM", "cannot be used together", "cannot be read"];
    for (number, complaint) in complaints.iter().enumerate() {
        match number {
            0 => fs::write(files.path("cert.pem"), "garbage").unwrap(),
            1 => fs::write(files.path("cert.pem"), old.issue("another key's").0).unwrap(),
            _ => fs::remove_file(files.path("cert.pem")).unwrap(),
        }
        world.coordinator.signal(Signal::SIGHUP);
        world.coordinator.await_log("the old certificates stay in force", number + 1);
        assert!(world.coordinator.log().contains(complaint), "{}", world.coordinator.log());
        call(&world, &old, None).unwrap();
    }
    files.replace(&new);
    world.coordinator.signal(Signal::SIGHUP);
    world.coordinator.await_log("new certificates are in force", 1);
    call(&world, &new, None).unwrap();
}

#[test]
fn a_coordinator_does_not_start_with_certificates_that_cannot_be_used() {
    let ca = Ca::new("a CA");
    let files = Files::of(&ca);
    let world = World::embedded();
    let path = |name| files.path(name).display().to_string();
    let (cert, key, absent) = (path("cert.pem"), path("key.pem"), path("absent.pem"));
    let serve = |options: &[&str]| {
        world.cli(LEAD, &[&["serve", "--listen", "0.0.0.0:0", "--store", "redis://127.0.0.1:1"], options].concat())
    };
    serve(&["--tls-cert", &cert, "--tls-key", &absent]).exits(64).complains_of("absent.pem cannot be read");
    serve(&["--tls-cert", &key, "--tls-key", &key]).exits(64).complains_of("holds no certificate");
    serve(&["--tls-cert", &cert, "--tls-key", &cert]).exits(64).complains_of("holds no private key");
    serve(&["--tls-cert", &cert]).exits(64).complains_of("--tls-key");
    serve(&["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &key])
        .exits(64)
        .complains_of("holds no certificate");
    // With good ones it may be reached from elsewhere, and gets as far as the store.
    serve(&["--tls-cert", &cert, "--tls-key", &key]).exits(69).complains_of("The store cannot be opened");
}
