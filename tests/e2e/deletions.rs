//! What is left of a team that was deleted: nothing but its entries in the audit log, which have no contents.

use tokio::runtime::Runtime;

use crate::{
    agents,
    world::{LEAD, TestRedis, World},
};

redis_scenarios! {
    only_the_audit_log_of_a_deleted_team_is_left_in_redis,
}

fn only_the_audit_log_of_a_deleted_team_is_left_in_redis(world: World) {
    world.create_team("other");
    world.create_team("acme");
    let ann = world.run("ann", &[], agents::WILLING).ready();
    world.join("bob");
    world.cli(LEAD, &["send", "ann", "read at once"]).succeeds();
    ann.await_text("read at once");
    world.cli(LEAD, &["send", "bob", "never read"]).succeeds();
    world.cli(LEAD, &["send", "--broadcast", "to all"]).succeeds();
    world.cli("bob", &["send", LEAD, "to the lead"]).succeeds();
    world.cli("bob", &["plan", "submit", "first this, then that"]).succeeds();
    for task in ["done by bob", "claimed by bob", "open"] {
        world.cli(LEAD, &["task", "create", task]).succeeds();
    }
    world.cli("bob", &["task", "claim", "1"]).succeeds();
    world.cli("bob", &["task", "complete", "1", "--result", "done"]).succeeds();
    world.cli("bob", &["task", "claim", "2"]).succeeds();
    world.invite("carl");
    world.cli(LEAD, &["shutdown", "ann", "Well done.", "--wait"]).succeeds();
    assert_eq!(ann.exit(), 0);
    world.cli("bob", &["leave"]).succeeds();
    let runtime = Runtime::new().unwrap();
    let traces = || world.with_redis(|redis| runtime.block_on(traces_of("acme", redis)));
    assert!(traces().len() > 8, "{:?}", traces());
    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
    assert_eq!(traces(), Vec::<String>::new());
}

/// Returns every key in a Redis, besides those of the audit log, that names a team in itself or in what it holds.
async fn traces_of(team: &str, redis: &TestRedis) -> Vec<String> {
    let keys: Vec<String> = redis::from_redis_value(redis.tell(&["KEYS", "*"]).await).unwrap();
    let mut traces = Vec::new();
    for key in keys.into_iter().filter(|key| !key.contains("{~audit}")) {
        let kind: String = redis::from_redis_value(redis.tell(&["TYPE", &key]).await).unwrap();
        let content = match kind.as_str() {
            "hash" => redis.tell(&["HGETALL", &key]).await,
            "stream" => redis.tell(&["XRANGE", &key, "-", "+"]).await,
            other => panic!("{key} is a {other}"),
        };
        if key.contains(team) || names(&content, team.as_bytes()) {
            traces.push(key);
        }
    }
    traces
}

fn names(value: &redis::Value, team: &[u8]) -> bool {
    match value {
        redis::Value::Array(values) => values.iter().any(|value| names(value, team)),
        redis::Value::BulkString(bytes) => bytes.windows(team.len()).any(|part| part == team),
        _ => false,
    }
}
