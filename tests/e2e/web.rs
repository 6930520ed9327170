//! What a browser does: asks whether a page may call, and calls by gRPC-web over HTTP/1.1.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::world::{LEAD, PATIENCE, World};

const PAGE: &str = "http://localhost:5173";
const PATH: &str = "/teamwire.v1.TeamService/ListTeams";

/// An empty message, as gRPC frames it.
const EMPTY: &[u8] = &[0; 5];

/// Sends a request over a new connection, and returns the reply with its head in lower case.
///
/// A server that speaks another protocol may reset the connection while the request is still being written, so the
/// reply is what arrived until then.
fn ask(world: &World, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(world.coordinator.socket()).unwrap();
    let length = body.len();
    let mut request =
        format!("{head}\r\nhost: localhost\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    let _ = stream.write_all(&request);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(reply.len());
    (String::from_utf8_lossy(&reply[..end]).to_lowercase(), reply[end..].to_vec())
}

fn preflight(world: &World, origin: &str) -> String {
    let asked = "access-control-request-method: POST\r\naccess-control-request-headers: authorization,teamwire-session";
    ask(world, &format!("OPTIONS {PATH} HTTP/1.1\r\norigin: {origin}\r\n{asked}"), b"").0
}

fn call(world: &World, credential: &str) -> (String, Vec<u8>) {
    let content = "content-type: application/grpc-web+proto\r\nx-grpc-web: 1";
    let head = format!("POST {PATH} HTTP/1.1\r\norigin: {PAGE}\r\n{content}\r\nauthorization: Bearer {credential}");
    ask(world, &head, EMPTY)
}

fn says(reply: &(String, Vec<u8>), text: &str) -> bool {
    reply.0.contains(text) || String::from_utf8_lossy(&reply.1).contains(text)
}

#[test]
fn only_pages_of_configured_origins_can_call_from_a_browser() {
    let world = World::configured(&format!("[web]\norigins = [\"{PAGE}\"]\n"));
    world.create_team("acme");
    let head = preflight(&world, PAGE);
    assert!(
        head.starts_with("http/1.1 200") && head.contains(&format!("access-control-allow-origin: {PAGE}")),
        "{head}"
    );
    assert!(head.contains("teamwire-session") && head.contains("authorization"), "{head}");
    let head = preflight(&world, "http://localhost:5174");
    assert!(!head.contains("access-control-allow-origin"), "{head}");

    let listed = call(&world, &world.operator());
    assert!(listed.0.starts_with("http/1.1 200") && says(&listed, "grpc-status:0"), "{listed:?}");
    assert!(says(&listed, "acme"), "{listed:?}");
    assert!(listed.0.contains("grpc-status-details-bin"), "what a page may read: {}", listed.0);
    let refused = call(&world, "two:0123456789abcdef0123");
    assert!(says(&refused, "grpc-status: 16") || says(&refused, "grpc-status:16"), "{refused:?}");
    // It is counted like any other.
    let count = "teamwire_rpc_seconds_count{method=\"teamwire.v1.TeamService/ListTeams\",code=\"UNAUTHENTICATED\"}";
    assert_eq!(world.coordinator.metric(count), 1.0);
    // Those who speak gRPC notice nothing.
    world.cli(LEAD, &["team", "list"]).succeeds();
}

#[test]
fn headers_over_the_bound_are_refused_over_http_1_too() {
    let world = World::configured(&format!("[web]\norigins = [\"{PAGE}\"]\n[network]\nheader_bytes_max = \"2KiB\"\n"));
    let with = |bytes| {
        let content = format!("content-type: application/grpc-web+proto\r\nx-more: {}", "x".repeat(bytes));
        ask(&world, &format!("POST {PATH} HTTP/1.1\r\norigin: {PAGE}\r\n{content}"), EMPTY)
    };
    let refused = with(1_000);
    assert!(says(&refused, "grpc-status: 16"), "of the credential, not of the headers: {refused:?}");
    let refused = with(2_000);
    assert!(refused.0.starts_with("http/1.1 431"), "{refused:?}");
}

#[test]
fn without_configured_origins_only_native_grpc_is_served() {
    let world = World::embedded();
    let reply = call(&world, &world.operator());
    assert!(!reply.0.starts_with("http/1.1 200") && !says(&reply, "grpc-status"), "{reply:?}");
}

#[test]
fn a_page_watches_a_team_over_one_open_reply() {
    let world = World::configured(&format!("[web]\norigins = [\"{PAGE}\"]\n"));
    world.create_team("acme");
    let mut stream = TcpStream::connect(world.coordinator.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let content = "content-type: application/grpc-web+proto\r\nx-grpc-web: 1\r\nhost: localhost\r\ncontent-length: 5";
    let credential = world.credential(LEAD);
    let path = "/teamwire.v1.WatchService/WatchTeam";
    let head = format!("POST {path} HTTP/1.1\r\norigin: {PAGE}\r\n{content}\r\nauthorization: Bearer {credential}");
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    stream.write_all(EMPTY).unwrap();
    let mut read = Vec::new();
    let mut until = |text: &str| {
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&read).contains(text) {
            let count = stream.read(&mut part).unwrap();
            assert_ne!(count, 0, "the reply ended before {text}: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&part[..count]);
        }
    };
    until("acme");
    world.cli(LEAD, &["task", "create", "Paint the fence"]).succeeds();
    until("Paint the fence");
}
