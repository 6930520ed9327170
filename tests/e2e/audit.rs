//! The audit log: who used which powers, and who was refused.

use std::fs;

use serde_json::Value;
use teamwire_proto::v1::{self, access_service_client::AccessServiceClient};
use tokio::runtime::Runtime;
use tonic::{Request, Status, transport::Channel};

use crate::{
    raw::Raw,
    world::{LEAD, ScriptedHost, World, eventually, offer},
};

scenarios! {
    refused_calls_and_sign_ins_leave_entries_without_their_secrets,
    a_lead_reads_the_log_of_its_team_and_a_teammate_does_not,
    a_new_credential_of_the_operator_leaves_an_entry,
}

store_scenarios! {
    each_privileged_call_leaves_an_audit_entry_that_outlives_the_coordinator_and_the_team,
    a_flood_of_refused_calls_neither_fills_the_log_nor_hides_a_forced_stop,
    a_changed_byte_is_found,
}

/// Returns the entries as the operator sees them.
fn log(world: &World) -> Vec<Value> {
    world.cli(LEAD, &["--as", "operator", "audit", "--all", "--json"]).succeeds().lines()
}

/// Returns the method, the object, the outcome and the kind of the caller of each entry.
fn told(log: &[Value]) -> Vec<[String; 4]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = |record: &Value| {
        let entry = &record["entry"];
        let method = text(&entry["method"]).split('/').next_back().unwrap_or_default().to_owned();
        [method, text(&entry["object"]), text(&entry["outcome"]), text(&entry["caller"]["kind"])]
    };
    log.iter().map(fields).collect()
}

#[track_caller]
fn has(log: &[Value], wanted: [&str; 4]) {
    let told = told(log);
    assert!(told.iter().any(|entry| *entry == wanted.map(str::to_owned)), "{wanted:?} is missing in {told:#?}");
}

fn verified(world: &World) -> Vec<Value> {
    world.cli(LEAD, &["--as", "operator", "audit", "--verify", "--json"]).succeeds().lines()
}

impl Raw {
    fn for_access(&self) -> AccessServiceClient<Channel> {
        AccessServiceClient::new(self.channel.clone())
    }
}

/// Calls with a credential.
struct Caller {
    runtime: Runtime,
    raw: Raw,
}

impl Caller {
    fn new(world: &World, credential: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let raw = runtime.block_on(async { Raw::at(&world.coordinator.address(), credential) });
        Self { runtime, raw }
    }

    fn force(&self, member: &str) -> Result<(), Status> {
        let request = v1::ForceStopRequest { member: member.to_owned(), ..Default::default() };
        self.runtime.block_on(async { self.raw.teams().force_stop(self.raw.request(request)).await.map(drop) })
    }

    fn sign_in(&self) -> Result<String, Status> {
        let request = self.raw.request(v1::SignInRequest::default());
        self.runtime.block_on(async { Ok(self.raw.for_access().sign_in(request).await?.into_inner().credential) })
    }

    fn code(&self) -> String {
        let request = self.raw.request(v1::CreateSignInCodeRequest::default());
        self.runtime
            .block_on(async { self.raw.for_access().create_sign_in_code(request).await.unwrap().into_inner().code })
    }

    fn revoke(&self, id: &str) -> Result<(), Status> {
        let request = v1::RevokeCredentialRequest { id: id.to_owned(), ..Default::default() };
        self.runtime
            .block_on(async { self.raw.for_access().revoke_credential(self.raw.request(request)).await.map(drop) })
    }
}

/// Returns the id in the text of a credential.
fn id_of(credential: &str) -> &str {
    credential.rsplit(':').nth(1).unwrap()
}

fn each_privileged_call_leaves_an_audit_entry_that_outlives_the_coordinator_and_the_team(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    world.join("bob");
    let observer = world.cli(LEAD, &["invite", "--observer", "--json"]).succeeds().json();
    let observer = observer["token"].as_str().unwrap().to_owned();
    let lead = Caller::new(&world, &world.credential(LEAD));
    let code = lead.code();
    let console = Caller::new(&world, &code).sign_in().unwrap();
    lead.revoke(id_of(&observer)).unwrap();
    let mut host = ScriptedHost::join(&world, "gpu-1", offer(&["claude"], &[], 1));
    world.cli(LEAD, &["spawn", "tester", "--profile", "claude", "--no-wait"]).succeeds();
    let order = host.next_order();
    host.refuse(&order, "no disk");
    world.cli(LEAD, &["shutdown", "ann", "--force"]).succeeds();
    world.cli(LEAD, &["team", "lead", "bob", "--yes"]).succeeds();
    drop(host);
    world.cli(LEAD, &["shutdown", "bob", "--force"]).exits(77);
    world.create_team("brief");
    world.cli(LEAD, &["team", "delete", "brief", "--yes"]).succeeds();

    let before = log(&world);
    for wanted in [
        ["CreateTeam", "lead", "OK", "operator"],
        ["Invite", "ann", "OK", "member"],
        ["Join", "ann", "OK", "join_token"],
        ["CreateObserver", id_of(&observer), "OK", "member"],
        ["CreateSignInCode", id_of(&code), "OK", "member"],
        ["SignIn", "", "OK", "member"],
        ["RevokeCredential", id_of(&observer), "OK", "member"],
        ["Invite", "gpu-1", "OK", "member"],
        ["Join", "gpu-1", "OK", "join_token"],
        ["Spawn", "tester", "OK", "member"],
        ["ForceStop", "ann", "OK", "member"],
        ["SetLead", "bob", "OK", "member"],
        ["ForceStop", "bob", "LEAD_ONLY", "member"],
        ["DeleteTeam", "", "OK", "member"],
    ] {
        has(&before, wanted);
    }
    let deleted = before.iter().find(|record| record["entry"]["method"] == "TeamService/DeleteTeam").unwrap();
    assert_eq!(deleted["chain"], "privileged/brief");
    let caller = &deleted["entry"]["caller"];
    assert_eq!(
        (&caller["member"], &caller["is_lead"], &caller["incarnation"]),
        (&LEAD.into(), &true.into(), &1.into())
    );
    assert_eq!(deleted["entry"]["address"], "unix", "{deleted}");
    let signed_in = before.iter().find(|record| record["entry"]["method"] == "AccessService/SignIn").unwrap();
    assert_eq!(signed_in["entry"]["caller"]["credential_id"], id_of(&console));

    world.coordinator.kill();
    world.coordinator.restart();
    let after = log(&world);
    assert_eq!(after[..before.len()], before[..]);
    let chains = verified(&world);
    assert!(chains.len() >= 2 && chains.iter().all(|chain| chain["intact"] == true), "{chains:?}");
    world.cli(LEAD, &["--as", "operator", "--team", "brief", "audit"]).succeeds();
}

fn refused_calls_and_sign_ins_leave_entries_without_their_secrets(world: World) {
    world.create_team("acme");
    let ann = world.join("ann");
    let code = Caller::new(&world, &ann).code();
    Caller::new(&world, &code).sign_in().unwrap();
    Caller::new(&world, &code).sign_in().unwrap_err();
    let secret = "0123456789abcdef0123456789abcdef01234567";
    let guess = format!("twm:acme:{LEAD}:{secret}");
    Caller::new(&world, &guess).force("ann").unwrap_err();
    Caller::new(&world, &format!("two:{secret}")).force("ann").unwrap_err();
    Caller::new(&world, "nonsense").force("ann").unwrap_err();
    // A secret where an id belongs.
    Caller::new(&world, &ann).revoke(secret).unwrap_err();
    // A stranger on the connection of a member.
    let on_open = Caller::new(&world, &ann);
    on_open.force(LEAD).unwrap_err();
    let mut request = Request::new(v1::CreateTeamRequest { name: "new".to_owned(), ..Default::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {guess}").parse().unwrap());
    on_open.runtime.block_on(on_open.raw.teams().create_team(request)).unwrap_err();
    world.cli(LEAD, &["shutdown", "ann", "--force"]).succeeds();
    on_open.force(LEAD).unwrap_err();

    let log = log(&world);
    has(&log, ["SignIn", "", "SIGN_IN_CODE_USED", "member"]);
    has(&log, ["ForceStop", "ann", "CREDENTIAL_INVALID", "stranger"]);
    has(&log, ["RevokeCredential", "", "CREDENTIAL_NOT_FOUND", "member"]);
    has(&log, ["CreateTeam", "", "CREDENTIAL_INVALID", "stranger"]);
    has(&log, ["ForceStop", "lead", "LEAD_ONLY", "member"]);
    has(&log, ["ForceStop", "lead", "MEMBER_STOPPED", "member"]);
    let guessed = log.iter().find(|record| record["entry"]["caller"]["claim"] == "member lead@acme").unwrap();
    assert_eq!(guessed["chain"], "access", "what a stranger claims puts nothing into the team's chains");
    let printed = format!("{log:?}");
    for secret in [secret, ann.rsplit(':').next().unwrap(), code.rsplit(':').next().unwrap()] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

fn a_flood_of_refused_calls_neither_fills_the_log_nor_hides_a_forced_stop(mut world: World) {
    world.create_team("acme");
    let ann = Caller::new(&world, &world.join("ann"));
    world.join("bob");
    for _ in 0..150 {
        ann.force("bob").unwrap_err();
    }
    world.cli(LEAD, &["shutdown", "bob", "--force"]).succeeds();
    for number in 0..150 {
        ann.force(&format!("member-{number}")).unwrap_err();
    }
    let stranger = Caller::new(&world, "twm:acme:ann:0123456789abcdef0123456789abcdef");
    for _ in 0..20 {
        stranger.force("bob").unwrap_err();
    }
    has(&log(&world), ["ForceStop", "bob", "OK", "member"]);
    world.coordinator.end();
    world.coordinator.restart();
    let log = log(&world);
    has(&log, ["ForceStop", "bob", "OK", "member"]);
    let counted = |outcome: &str| {
        let entries = log.iter().map(|record| &record["entry"]).filter(|entry| entry["outcome"] == outcome);
        let calls: Vec<u64> = entries.map(|entry| entry["calls"].as_u64().unwrap()).collect();
        (calls.len(), calls.iter().sum::<u64>())
    };
    assert_eq!(counted("LEAD_ONLY"), (2, 300), "the first call, and one entry for the others");
    assert_eq!(counted("CREDENTIAL_INVALID"), (2, 20));
    verified(&world);
}

fn a_changed_byte_is_found(mut world: World) {
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["shutdown", "ann", "--force"]).succeeds();
    let heads = verified(&world);
    assert!(heads.iter().any(|chain| chain["chain"] == "privileged/acme" && chain["intact"] == true), "{heads:?}");
    world.coordinator.end();
    let file = world.coordinator.state_directory().join("teamwire.redb");
    if file.exists() {
        let mut bytes = fs::read(&file).unwrap();
        let (written, changed) = (b"TeamService/ForceStop", b"TeamService/ForceStep");
        let places: Vec<usize> =
            (0..bytes.len() - written.len()).filter(|at| bytes[*at..].starts_with(written)).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + changed.len()].copy_from_slice(changed);
        }
        fs::write(&file, bytes).unwrap();
    } else {
        let script = "local entries = redis.call('XRANGE', KEYS[1], '-', '+')
            redis.call('DEL', KEYS[1])
            for _, entry in ipairs(entries) do
                for place, text in ipairs(entry[2]) do
                    entry[2][place] = string.gsub(text, 'ForceStop', 'ForceStep')
                end
                redis.call('XADD', KEYS[1], entry[1], unpack(entry[2]))
            end";
        let key = "teamwire:{~audit}:s:audit/privileged/acme";
        let runtime = Runtime::new().unwrap();
        world.with_redis(|redis| runtime.block_on(redis.tell(&["EVAL", script, "1", key])));
    }
    world.coordinator.restart();
    let broken = world.cli(LEAD, &["--as", "operator", "audit", "--verify"]).exits(1);
    let broken = broken.complains_of("privileged/acme: entry").complains_of("does not match its hash");
    assert!(broken.stdout.contains("broken") && broken.stdout.contains("intact"), "{}", broken.stdout);
    // The other entries can still be read.
    has(&log(&world), ["ForceStep", "ann", "OK", "member"]);
}

fn a_lead_reads_the_log_of_its_team_and_a_teammate_does_not(world: World) {
    world.create_team("acme");
    world.create_team("other");
    world.cli(LEAD, &["use", "lead@acme"]).succeeds();
    world.join("ann");
    let of_lead = world.cli(LEAD, &["--as", "lead@acme", "audit", "--json", "--all"]).succeeds().lines();
    has(&of_lead, ["Invite", "ann", "OK", "member"]);
    assert!(of_lead.iter().all(|record| record["chain"].as_str().unwrap().ends_with("/acme")), "{of_lead:?}");
    world.cli("ann", &["audit"]).exits(77).complains_of("Only the team's lead may read the audit log");
    world.cli("ann", &["audit", "--verify"]).exits(77);
    let table = world.cli(LEAD, &["--as", "operator", "audit", "-n", "1"]).succeeds().stdout;
    assert_eq!(table.lines().count(), 2, "{table}");
    let recent = world.cli(LEAD, &["--as", "operator", "audit", "--since", "1h"]).succeeds().stdout;
    assert!(recent.contains("CreateTeam") && recent.contains("lead of acme"), "{recent}");
    // Calls about no team, or about another one.
    world.cli(LEAD, &["--as", "lead@acme", "backup", "all.jsonl.gz"]).exits(77);
    let of_other = world.credential(LEAD);
    let refused = world.cli_in(LEAD, &["--team", "acme", "invite", "bob"], &[("TEAMWIRE_CREDENTIAL", &of_other)]);
    assert_ne!(refused.code, 0);
    for (call, who) in [("Backup", "lead (lead of acme)"), ("Invite", "lead (lead of other)")] {
        eventually("the entry names the caller's team", || {
            let listed = world.cli(LEAD, &["--as", "operator", "audit", "--since", "1h"]).succeeds().stdout;
            listed.lines().any(|line| line.contains(call) && !line.contains(" OK ") && line.contains(who)).then_some(())
        });
    }
}

fn a_new_credential_of_the_operator_leaves_an_entry(mut world: World) {
    world.create_team("acme");
    eventually("the operator's credential is noted", || {
        world.coordinator.end();
        fs::remove_file(world.coordinator.state_directory().join("operator.credential")).unwrap();
        world.coordinator.restart();
        let changed = told(&log(&world)).into_iter().find(|entry| entry[0] == "operator credential");
        changed.map(|entry| assert_eq!(entry[2..], ["OK", "administrator"]))
    });
    verified(&world);
}
