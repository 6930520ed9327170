//! Reads scenarios and plays them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::driver::Driver;
use crate::world::{LEAD, PATIENCE, World};

/// The length of the text `$large`, in characters: a message may hold 64 KiB.
const LARGE_CHARS: usize = 60_000;

/// Which languages play the members of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cast {
    /// One language plays all of them.
    One,
    /// Every language plays one.
    All,
}

#[derive(Deserialize)]
struct List {
    scenario: Vec<Scenario>,
}

/// A scenario of `tests/conformance/scenarios.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// What must be true.
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) cast: Cast,
    /// The coordinator speaks TLS.
    #[serde(default)]
    tls: bool,
    /// With `tls`: the coordinator requires a client certificate, and every driver has one.
    #[serde(default)]
    client_certificates: bool,
    /// Without `tls`: the text of the coordinator's configuration file.
    #[serde(default)]
    configuration: String,
    /// Additional environment variables of the drivers; `$address` stands for the coordinator's address.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// The members besides the lead. They have joined and are connected before the first step.
    #[serde(default)]
    members: Vec<String>,
    /// Drivers that have not joined.
    #[serde(default)]
    strangers: Vec<String>,
    /// Second processes of members: driver name to member name.
    #[serde(default)]
    twins: BTreeMap<String, String>,
    steps: Vec<Step>,
}

fn once() -> usize {
    1
}

fn one() -> Cast {
    Cast::One
}

/// A command and the expected answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// A driver, `cli` (the lead at the command line) or `coordinator`.
    who: String,
    /// The command; for `cli` its arguments, separated by spaces.
    #[serde(rename = "do")]
    word: String,
    /// How many times to run the step.
    #[serde(default = "once")]
    times: usize,
    /// The command's fields.
    #[serde(default)]
    with: Map<String, Value>,
    /// What the answer must contain.
    #[serde(default)]
    gives: Option<Value>,
    /// Like `gives`, but repeats the command until the answer matches.
    #[serde(default)]
    until: Option<Value>,
    /// The expected refusal: its reason, or what it must contain.
    #[serde(default)]
    refused: Option<Value>,
    /// The error that the client itself is expected to report: what its text must contain.
    #[serde(default)]
    failed: Option<String>,
    /// Does not wait for the answer; a later `answer` step of the same driver checks it.
    #[serde(default)]
    later: bool,
    /// Values to keep from the answer: name to path in the answer, such as `message/id`.
    #[serde(default)]
    keep: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads `scenarios.toml`.
    pub(super) fn load() -> Vec<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scenarios.toml");
        let list: List =
            toml_edit::de::from_str(&fs::read_to_string(file).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        list.scenario
    }

    /// Plays it, and prints where it fails. Drivers take the languages in turn.
    pub(super) fn succeeds(&self, languages: &[&str]) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.play(languages)))
            .map_err(|_| eprintln!("^ in \"{}\" with {languages:?}\n", self.name))
            .is_ok()
    }

    fn play(&self, languages: &[&str]) {
        let mut world = if self.tls { World::with_tls() } else { World::configured(&self.configuration) };
        if self.client_certificates {
            require_certificates(&mut world);
        }
        world.create_team("acme");
        for member in &self.members {
            world.join(member);
        }
        // Over the Unix socket, unless the scenario is about TLS.
        let address = world.coordinator.local_address();
        let environment = self.environment.iter();
        let mut run = Run {
            environment: environment.map(|(name, text)| (name.clone(), text.replace("$address", &address))).collect(),
            kept: kept(&world, self.members.iter().map(String::as_str).chain([LEAD]), &address),
            world,
            drivers: BTreeMap::new(),
            languages: BTreeMap::new(),
        };
        let twins = self.twins.iter().map(|(twin, of)| (twin.as_str(), of.as_str()));
        let here = self.members.iter().chain(&self.strangers).map(|name| (name.as_str(), name.as_str()));
        let mut turns = languages.iter().cycle();
        for (name, identity) in here.chain([(LEAD, LEAD)]).chain(twins) {
            // A member named after a language plays in that language.
            let language = languages.iter().find(|language| **language == name).or_else(|| turns.next()).unwrap();
            run.languages.insert(name.to_owned(), (identity.to_owned(), (*language).to_owned()));
            run.start(name, &Map::new());
            if !self.strangers.iter().any(|stranger| stranger == name) {
                let answer = run.connect(name);
                assert!(
                    holds(&json!({"ok": {"member": identity, "team": "acme"}}), &answer),
                    "{name}: connect: {answer}"
                );
            }
        }
        for (number, step) in self.steps.iter().enumerate() {
            for _ in 0..step.times {
                run.check(step, number + 1);
            }
        }
    }
}

/// Makes the coordinator require client certificates, and gives every program one.
fn require_certificates(world: &mut World) {
    world.cli(LEAD, &["certs", "--client", "driver"]).succeeds();
    let file = |name: &str| world.home(LEAD).join("certs").join(name).display().to_string();
    let (ca, cert, key) = (file("ca.crt"), file("client-driver.crt"), file("client-driver.key"));
    world.coordinator.restart_with(&[("TEAMWIRE_TLS_CLIENT_CA", &ca)]);
    world.environment.borrow_mut().extend([("TEAMWIRE_CERT".to_owned(), cert), ("TEAMWIRE_KEY".to_owned(), key)]);
}

/// Returns the values that every scenario starts with.
fn kept<'a>(world: &World, members: impl Iterator<Item = &'a str>, address: &str) -> BTreeMap<String, Value> {
    let credentials = members.map(|member| (format!("{member}_credential"), world.credential(member).into()));
    let others = [
        ("operator", world.operator()),
        ("address", address.to_owned()),
        ("plain_address", address.replace("https://", "http://")),
        ("large", "x".repeat(LARGE_CHARS)),
    ];
    credentials.chain(others.map(|(name, value)| (name.to_owned(), value.into()))).collect()
}

/// A world and its drivers.
struct Run {
    world: World,
    drivers: BTreeMap<String, Driver>,
    /// Additional environment variables of the drivers.
    environment: BTreeMap<String, String>,
    /// The member and the language of each driver.
    languages: BTreeMap<String, (String, String)>,
    /// Values kept from answers, and those that every scenario starts with.
    kept: BTreeMap<String, Value>,
}

impl Run {
    /// Starts a driver, in place of an earlier one, with additional environment variables.
    fn start(&mut self, name: &str, variables: &Map<String, Value>) {
        let (identity, language) = self.languages[name].clone();
        let mut environment = self.environment.clone();
        for (variable, value) in variables {
            environment.insert(variable.clone(), self.filled_text(value.as_str().unwrap_or_default()));
        }
        let driver = Driver::start(&self.world, name, &identity, &language, &environment);
        self.drivers.insert(name.to_owned(), driver);
    }

    fn connect(&mut self, name: &str) -> Value {
        let driver = self.driver(name);
        driver.send(&json!({ "do": "connect" }));
        driver.answer()
    }

    fn check(&mut self, step: &Step, number: usize) {
        let began = Instant::now();
        let what = format!("step {number}: {} {} {}", step.who, step.word, Value::Object(step.with.clone()));
        loop {
            let answer = self.act(step);
            let wanted = match (&step.refused, step.until.as_ref().or(step.gives.as_ref())) {
                (Some(Value::String(reason)), _) => json!({ "refused": { "reason": reason } }),
                (Some(refusal), _) => json!({ "refused": refusal }),
                (None, wanted) => json!({ "ok": wanted.cloned().unwrap_or_else(|| json!({})) }),
            };
            let wanted = self.filled(&wanted);
            if let Some(text) = &step.failed {
                assert!(
                    answer["failed"].as_str().is_some_and(|failed| failed.contains(text)),
                    "{what}\n  wanted {text}\n  got    {answer}"
                );
                return;
            }
            if holds(&wanted, &answer) {
                for (name, place) in &step.keep {
                    let found = answer["ok"].pointer(&format!("/{place}"));
                    let found = found.unwrap_or_else(|| panic!("{what}: no {place} in {answer}")).clone();
                    self.kept.insert(name.clone(), found);
                }
                return;
            }
            let may_retry = step.until.is_some() && began.elapsed() < PATIENCE;
            assert!(may_retry, "{what}\n  wanted {wanted}\n  got    {answer}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a step's command, and returns the answer.
    fn act(&mut self, step: &Step) -> Value {
        let done = |value: Value| json!({ "ok": value });
        match (step.who.as_str(), step.word.as_str()) {
            ("coordinator", "restart") => {
                self.world.coordinator.end();
                self.world.coordinator.restart();
            }
            ("coordinator", "crash") => {
                self.world.coordinator.kill();
                self.world.coordinator.restart();
            }
            ("coordinator", "end") => self.world.coordinator.end(),
            ("coordinator", "start") => self.world.coordinator.restart(),
            ("cli", words) => {
                let words: Vec<String> = words.split(' ').map(|word| self.filled_text(word)).collect();
                let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
                let stdout = self.world.cli(LEAD, &arguments).succeeds().stdout;
                return done(json!({ "stdout": stdout.trim() }));
            }
            (name, "kill") => self.driver(name).kill(),
            (name, "exit") => {
                let code = self.driver(name).exit();
                return done(json!({ "code": code }));
            }
            (name, "start") => {
                self.start(name, &step.with);
                return self.connect(name);
            }
            (name, "chmod") => {
                let mode = u32::from_str_radix(step.with["mode"].as_str().unwrap(), 8).unwrap();
                let context = self.world.home(&self.languages[name].0).join("context.json");
                fs::set_permissions(context, fs::Permissions::from_mode(mode)).unwrap();
            }
            (name, "answer") => return self.driver(name).answer(),
            (name, "take") => {
                let driver = self.driver(name);
                driver.send(&json!({ "do": "next" }));
                let next = driver.answer();
                if let Some(id) = next.pointer("/ok/message/id") {
                    driver.send(&json!({ "do": "ack", "message_id": id }));
                    assert!(holds(&done(json!({})), &driver.answer()), "{name} acknowledges {id}");
                }
                return next;
            }
            (name, word) => {
                let mut command = self.filled(&Value::Object(step.with.clone()));
                command["do"] = word.into();
                let driver = self.driver(name);
                driver.send(&command);
                if !step.later {
                    return driver.answer();
                }
            }
        }
        done(json!({}))
    }

    fn driver(&mut self, name: &str) -> &mut Driver {
        self.drivers.get_mut(name).unwrap_or_else(|| panic!("no driver is called {name}"))
    }

    /// Replaces each `$NAME` by the value kept under that name.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.kept.get(name).unwrap_or_else(|| panic!("no step has kept {name}")).clone(),
                None => value.clone(),
            },
            Value::Array(values) => values.iter().map(|value| self.filled(value)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), self.filled(value))).collect::<Map<_, _>>().into()
            }
            _ => value.clone(),
        }
    }

    fn filled_text(&self, text: &str) -> String {
        let filled = self.filled(&text.into());
        filled.as_str().map_or_else(|| filled.to_string(), ToOwned::to_owned)
    }
}

/// Returns whether a value contains what is wanted. `"-"` matches an absent value, `"*"` any that is not empty.
fn holds(wanted: &Value, value: &Value) -> bool {
    match (wanted, value) {
        (Value::Object(wanted), Value::Object(value)) => wanted.iter().all(|(key, wanted)| match value.get(key) {
            Some(value) => holds(wanted, value),
            None => wanted == "-",
        }),
        (Value::Array(wanted), Value::Array(value)) => {
            wanted.len() == value.len() && wanted.iter().zip(value).all(|(wanted, value)| holds(wanted, value))
        }
        (Value::String(any), value) if any == "*" => !value.is_null() && value != "",
        _ => wanted == value,
    }
}

#[test]
fn a_value_matches_only_if_it_contains_all_that_is_wanted() {
    let value = json!({ "a": { "b": 1, "c": "x" }, "d": [1, 2] });
    for wanted in
        [json!({}), json!({ "a": { "b": 1 } }), json!({ "d": [1, 2], "e": "-" }), json!({ "a": { "c": "*" } })]
    {
        assert!(holds(&wanted, &value), "{wanted}");
    }
    for wanted in [json!({ "a": { "b": 2 } }), json!({ "d": [1] }), json!({ "e": "*" }), json!({ "a": "-" }), json!([])]
    {
        assert!(!holds(&wanted, &value), "{wanted}");
    }
}
