//! Signing in: what a code becomes, and what a console credential may do, over literal records.

use teamwire_proto::{Reason, credential::Credential, v1};
use teamwire_server::domain::{
    access,
    identity::{self, Admit, CallerCredentials, Principal},
    records::{ActsFor, ConsoleRecord, EndCause, Exit, Life, SignInCodeRecord, SignInPurpose, SignInsRecord},
    secret::{SecretHash, SessionId},
};

use crate::world::*;

const HOUR_MS: u64 = 60 * 60 * 1_000;

fn code() -> SignInCodeRecord {
    SignInCodeRecord {
        secret: SecretHash::of("code"),
        acts_for: ActsFor::Member(name("ann")),
        proof: SecretHash::of("ann"),
        read_only: true,
        purpose: SignInPurpose::Console,
        expires_ms: NOW_MS + 1,
        used: false,
    }
}

fn console() -> ConsoleRecord {
    ConsoleRecord {
        secret: SecretHash::of("console"),
        acts_for: ActsFor::Member(name("ann")),
        proof: SecretHash::of("ann"),
        read_only: true,
        purpose: SignInPurpose::Console,
        created_ms: NOW_MS,
        expires_ms: Some(NOW_MS + 1),
        last_used_ms: None,
        revoked: false,
    }
}

fn with_code(secret: &str) -> CallerCredentials {
    let (team, id) = (Some(name("alpha")), "c1".to_owned());
    CallerCredentials::new(Credential::SignInCode { team, id, secret: secret.to_owned() }, None)
}

fn with_console() -> CallerCredentials {
    let (team, id) = (Some(name("alpha")), "c1".to_owned());
    CallerCredentials::new(Credential::Console { team, id, secret: "console".to_owned() }, SessionId::presented("1-x"))
}

#[test]
fn a_code_becomes_a_console_credential_for_the_same_member() {
    let world = World::with(&["lead", "ann"]).record("c1", &code());
    let request = v1::SignInRequest::default();
    let (reply, txn) = world.run(|tx| access::sign_in(tx, &with_code("code"), &request)).unwrap();
    assert!(put::<SignInCodeRecord>(&txn, "c1").unwrap().used);
    let console: ConsoleRecord = put(&txn, "c1").unwrap();
    assert_eq!((console.acts_for, console.proof), (code().acts_for, code().proof));
    assert_eq!((console.read_only, console.expires_ms), (true, Some(NOW_MS + 8 * HOUR_MS)));
    let Ok(Credential::Console { secret, .. }) = Credential::parse(&reply.credential) else { panic!("{reply:?}") };
    assert_eq!(console.secret, SecretHash::of(&secret));
    assert_eq!(put::<SignInsRecord>(&txn, "member/ann").unwrap().live, ["c1"]);
    assert_eq!(appended(&txn), ["history"]);
}

#[test]
fn a_tool_credential_acts_for_a_lead_only_if_it_was_created_for_one() {
    let tools = |leads| ConsoleRecord {
        acts_for: ActsFor::Member(name("lead")),
        proof: SecretHash::of("lead"),
        purpose: SignInPurpose::Tools { leads },
        expires_ms: None,
        ..console()
    };
    for leads in [false, true] {
        let world = World::with(&["lead", "ann"]).record("c1", &tools(leads));
        let called = world.run(|tx| identity::call(tx, &with_console(), "", Admit::Live));
        match leads {
            true => assert_eq!(called.unwrap().0.1, Principal::Member { name: name("lead"), lead: true }),
            false => assert_eq!(called.unwrap_err().reason, Reason::CredentialRevoked),
        }
    }
}

#[test]
fn tool_credentials_are_bounded_and_those_of_former_lives_make_room() {
    let code = SignInCodeRecord { purpose: SignInPurpose::Tools { leads: false }, read_only: false, ..code() };
    let listed = SignInsRecord { tools: (0..16).map(|at| format!("t{at}")).collect(), ..Default::default() };
    let signs_in = |former: usize| {
        let mut world = World::with(&["lead", "ann"]).record("c1", &code).record("member/ann", &listed);
        for (at, id) in listed.tools.iter().enumerate() {
            let proof = if at < former { "before" } else { "ann" };
            world =
                world.record(id, &ConsoleRecord { proof: SecretHash::of(proof), purpose: code.purpose, ..console() });
        }
        world.run(|tx| access::sign_in(tx, &with_code("code"), &v1::SignInRequest::default()))
    };
    assert_eq!(signs_in(0).unwrap_err().reason, Reason::QuotaExceeded);
    let (_, txn) = signs_in(3).unwrap();
    let listed: SignInsRecord = put(&txn, "member/ann").unwrap();
    assert_eq!((listed.tools.len(), listed.tools.last().unwrap().as_str(), listed.revoked.len()), (14, "c1", 3));
    assert!(listed.live.is_empty(), "it takes no sign-in's place");
    assert_eq!(put::<ConsoleRecord>(&txn, "c1").unwrap().expires_ms, None);
}

#[test]
fn an_unusable_sign_in_code_is_refused_with_its_specific_reason() {
    let used = SignInCodeRecord { used: true, ..code() };
    let expired = SignInCodeRecord { expires_ms: NOW_MS, ..code() };
    let of_a_former_life = SignInCodeRecord { proof: SecretHash::of("before"), ..code() };
    let of_a_stranger = SignInCodeRecord { acts_for: ActsFor::Member(name("zed")), ..code() };
    for (record, secret, reason) in [
        (&code(), "another", Reason::CredentialInvalid),
        (&used, "code", Reason::SignInCodeUsed),
        (&expired, "code", Reason::CredentialExpired),
        (&of_a_former_life, "code", Reason::CredentialRevoked),
        (&of_a_stranger, "code", Reason::CredentialRevoked),
    ] {
        let world = World::with(&["lead", "ann"]).record("c1", record);
        let refused = world.run(|tx| access::sign_in(tx, &with_code(secret), &v1::SignInRequest::default()));
        assert_eq!(refused.map(|(reply, _)| reply).unwrap_err().reason, reason, "{record:?}");
    }
}

#[test]
fn a_console_credential_acts_as_the_member_but_not_as_its_process() {
    let world = World::with(&["lead", "ann"]).record("c1", &console());
    let (team_and_name, _) = world.run(|tx| identity::member(tx, &with_console(), Admit::Live)).unwrap();
    assert_eq!(team_and_name.1, name("ann"));
    assert_eq!(with_console().session_id, None, "it has no session");
    for reason in [
        world.run(|tx| identity::process(tx, &with_console(), Admit::Live)).unwrap_err().reason,
        world.run(|tx| identity::member_process(tx, &with_console(), Admit::Live)).unwrap_err().reason,
        world.run(|tx| identity::host(tx, &with_console(), Admit::Live)).unwrap_err().reason,
    ] {
        assert_eq!(reason, Reason::NotPermitted);
    }
}

#[test]
fn a_read_only_caller_may_not_write() {
    let refused = |record: &ConsoleRecord| {
        let world = World::with(&["lead", "ann"]).record("c1", record);
        let rule = |tx: &mut teamwire_server::domain::tx::Tx<'_>| {
            identity::call(tx, &with_console(), "", Admit::Live)?;
            tx.check_writes()?;
            tx.end_lease("ann");
            tx.check_writes()
        };
        world.run(rule).map(|_| ()).map_err(|refusal| refusal.reason)
    };
    assert_eq!(refused(&console()), Err(Reason::NotPermitted));
    assert_eq!(refused(&ConsoleRecord { read_only: false, ..console() }), Ok(()));
}

#[test]
fn a_console_credential_ends_with_the_life() {
    let exited = Life::Exited { exit: Exit::default(), cause: EndCause::ProcessEnded };
    let approved = stopping(EndCause::Approved(request_id()));
    let forced = forced();
    for (life, expected) in [
        (Life::Live, Ok(())),
        (Life::Lost, Ok(())),
        (approved, Ok(())),
        (forced, Err(Reason::CredentialRevoked)),
        (exited, Err(Reason::CredentialRevoked)),
    ] {
        let world = World::with(&["lead", "ann"]).life("ann", life.clone()).record("c1", &console());
        let found = world.run(|tx| identity::call(tx, &with_console(), "", Admit::Stopping));
        assert_eq!(found.map(|_| ()).map_err(|refusal| refusal.reason), expected, "{life:?}");
    }
    for (record, reason) in [
        (ConsoleRecord { revoked: true, ..console() }, Reason::CredentialRevoked),
        (ConsoleRecord { expires_ms: Some(NOW_MS), ..console() }, Reason::CredentialExpired),
        (ConsoleRecord { secret: SecretHash::of("another"), ..console() }, Reason::CredentialInvalid),
        // Such a record is of the directory, and never of a team.
        (ConsoleRecord { acts_for: ActsFor::Operator, ..console() }, Reason::CredentialInvalid),
    ] {
        let world = World::with(&["lead", "ann"]).record("c1", &record);
        let found = world.run(|tx| identity::call(tx, &with_console(), "", Admit::Stopping));
        assert_eq!(found.map(|_| ()).unwrap_err().reason, reason, "{record:?}");
    }
}
