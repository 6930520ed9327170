//! The Unix socket of a coordinator: the commands of its user call there, and no other user gets in between.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command},
};

use nix::unistd::geteuid;

use crate::world::{LEAD, World, bare_command, eventually};

/// A user that is neither root nor the one that runs the tests.
const OTHER: u32 = 65_534;

#[test]
fn a_stranger_on_the_coordinators_port_gets_no_call() {
    let mut world = World::embedded();
    world.create_team("acme");
    world.cli(LEAD, &["status"]).succeeds();
    world.coordinator.end();
    let stranger = TcpListener::bind(world.coordinator.socket()).unwrap();
    stranger.set_nonblocking(true).unwrap();
    for typed in [&["status"][..], &["--as", "operator", "team", "list"], &["health"]] {
        world.cli_in(LEAD, typed, &[("TEAMWIRE_TIMEOUT", "1")]).exits(69).complains_of("unix:///");
        assert_eq!(stranger.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{typed:?}");
    }
}

#[test]
fn a_credential_goes_to_a_port_of_this_machine_only_if_the_user_says_so() {
    let world = World::embedded();
    world.create_team("acme");
    let address = world.coordinator.address();
    let warned = world.cli(LEAD, &["status", "--address", &address]).succeeds();
    warned.complains_of("any program on this machine can listen");
    let invited = world.cli(LEAD, &["invite", "ann", "--json"]).succeeds().json();
    let token = invited["token"].as_str().unwrap();
    world.cli("ann", &["join", token, "--address", &address]).succeeds().complains_of("any program");
    world.cli("ann", &["status"]).exits(64).complains_of(&format!("--address {address}"));
    world.cli_in("ann", &["status"], &[("TEAMWIRE_ADDRESS", &address)]).succeeds();
}

#[test]
fn users_of_one_machine_cannot_call_each_others_coordinators() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can act as two users");
        return;
    }
    let world = World::embedded();
    world.create_team("acme");
    // Where others can change what is at a path.
    let home = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    chown(home.path(), Some(OTHER), Some(OTHER)).unwrap();
    let as_other = |arguments: &[&str]| {
        let mut command = bare_command();
        command.args(arguments).env("HOME", home.path()).env("TEAMWIRE_TIMEOUT", "1").current_dir(home.path());
        command.uid(OTHER).gid(OTHER);
        command
    };
    let own = world.coordinator.local_address();
    let refused = as_other(&["health", "--address", &own]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("it is the coordinator of another user"), "{said}");

    let state = home.path().join("state");
    let log = fs::File::create(home.path().join("log")).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--state-dir", state.to_str().unwrap()];
    let mut theirs = as_other(&serve).stderr(log).spawn().unwrap();
    let address = eventually("it serves", || fs::read_to_string(state.join("address")).ok());
    let operator = world.operator();
    let called = ["team", "list", "--address", address.trim(), "--credential", &operator];
    let refused = world.cli(LEAD, &called);
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    assert_ne!(refused.code, 0);
    refused.complains_of(&format!(
        "another user (uid {OTHER}) listens there, and others can change /tmp, so nothing is sent"
    ));
}

#[test]
fn users_of_a_group_call_a_coordinator_over_its_socket() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can act as several users");
        return;
    }
    // Where only root and the coordinator's user can put a socket.
    let place = tempfile::tempdir_in("/run").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(place.path(), Some(OTHER), Some(OTHER)).unwrap();
    let path = place.path().join("coordinator.sock");
    let home = |user: u32| {
        let home = tempfile::tempdir().unwrap();
        chown(home.path(), Some(user), None).unwrap();
        home
    };
    let typed = |home: &Path, (user, group): (u32, u32), arguments: &[&str]| {
        let mut command = bare_command();
        command.args(arguments).env("HOME", home).env("TEAMWIRE_TIMEOUT", "1").current_dir(home).uid(user).gid(group);
        command
    };
    let coordinators = home(OTHER);
    let group = OTHER.to_string();
    let mut serve =
        typed(coordinators.path(), (OTHER, OTHER), &["serve", "--listen", "127.0.0.1:0", "--socket-group", &group]);
    let refused = serve.output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--socket"), "{refused:?}");
    let log = fs::File::create(coordinators.path().join("log")).unwrap();
    let _serving = Ended(serve.arg("--socket").arg(&path).stderr(log).spawn().unwrap());
    let said = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    };
    eventually("it serves", || path.exists().then_some(()));
    let created = said(&mut typed(coordinators.path(), (OTHER, OTHER), &["team", "create", "acme"]));
    assert_eq!(created.0, 0, "{created:?}");
    let invited = typed(coordinators.path(), (OTHER, OTHER), &["invite", "ann", "--json"]).output().unwrap().stdout;
    let invited: serde_json::Value = serde_json::from_slice(&invited).unwrap();
    let token = invited["join_string"].as_str().unwrap();
    assert!(token.contains(&format!("unix://{}", path.display())), "{token}");

    let user = OTHER - 1;
    let theirs = home(user);
    let refused = said(&mut typed(theirs.path(), (user, user), &["join", token]));
    assert!(refused.0 != 0 && refused.1.contains("--socket-group"), "not in the group: {refused:?}");
    let joined = said(&mut typed(theirs.path(), (user, OTHER), &["join", token]));
    assert_eq!(joined.0, 0, "{joined:?}");
    let sent = said(&mut typed(theirs.path(), (user, OTHER), &["send", "lead", "hello"]));
    assert_eq!(sent.0, 0, "{sent:?}");

    // Where others could have put it, it gets nothing.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = said(&mut typed(theirs.path(), (user, OTHER), &["send", "lead", "hello"]));
    assert!(refused.0 != 0 && refused.1.contains("others can change"), "{refused:?}");
}

/// A process that is killed when the test has ended.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
