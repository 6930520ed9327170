//! Scenarios: what they say, and how they are played.

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::driver::Driver;
use crate::world::{LEAD, PATIENCE, World};

/// Which languages play a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cast {
    /// One at a time plays all of it.
    One,
    /// All together.
    All,
}

#[derive(Deserialize)]
struct List {
    scenario: Vec<Scenario>,
}

/// One row of the list.
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
    /// With `tls`: the coordinator lets in only those who have a certificate, and everybody has one.
    #[serde(default)]
    client_certificates: bool,
    /// Without `tls`: the coordinator's configuration, as its file has it.
    #[serde(default)]
    configuration: String,
    /// What drivers find in their environment besides; "$address" is where the coordinator is.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Who plays besides the lead. They have joined before, and are connected.
    #[serde(default)]
    members: Vec<String>,
    /// Who plays and has not joined.
    #[serde(default)]
    strangers: Vec<String>,
    /// Further processes of members: their names, and whose they are.
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

/// One step: somebody does something, and is told something.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// An driver, `cli` (the lead at the command line) or `coordinator`.
    who: String,
    /// The word of a command; for `cli` the arguments, with spaces between them.
    #[serde(rename = "do")]
    word: String,
    /// How often.
    #[serde(default = "once")]
    times: usize,
    /// What goes with it.
    #[serde(default)]
    with: Map<String, Value>,
    /// What the answer must have in it.
    #[serde(default)]
    gives: Option<Value>,
    /// The same, but again and again until it has.
    #[serde(default)]
    until: Option<Value>,
    /// The refusal that the answer must be: its reason, or all that it must have in it.
    #[serde(default)]
    refused: Option<Value>,
    /// The answer is not waited for; the step `answer` of the same driver takes it.
    #[serde(default)]
    later: bool,
    /// What to keep of the answer: names, and where in it they are, as `message/id`.
    #[serde(default)]
    keep: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads the list.
    pub(super) fn load() -> Vec<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scenarios.toml");
        let list: List =
            toml_edit::de::from_str(&fs::read_to_string(file).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        list.scenario
    }

    /// Plays it, and says where it fails. The languages are given to the drivers in turn.
    pub(super) fn succeeds(&self, languages: &[&str]) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.play(languages)))
            .map_err(|_| eprintln!("^ in \"{}\" with {languages:?}\n", self.name))
            .is_ok()
    }

    fn play(&self, languages: &[&str]) {
        let mut world = if self.tls { World::with_tls() } else { World::configured(&self.configuration) };
        if self.client_certificates {
            ask_for_certificates(&mut world);
        }
        world.create_team("acme");
        for member in &self.members {
            world.join(member);
        }
        let address = world.coordinator.address();
        let environment = self.environment.iter();
        let mut stage = Stage {
            environment: environment.map(|(name, text)| (name.clone(), text.replace("$address", &address))).collect(),
            world,
            drivers: BTreeMap::new(),
            kept: BTreeMap::new(),
            languages: BTreeMap::new(),
        };
        let twins = self.twins.iter().map(|(twin, of)| (twin.as_str(), of.as_str()));
        let here = self.members.iter().chain(&self.strangers).map(|name| (name.as_str(), name.as_str()));
        let mut turns = languages.iter().cycle();
        for (name, identity) in here.chain([(LEAD, LEAD)]).chain(twins) {
            // Who bears the name of a language plays in it.
            let language = languages.iter().find(|language| **language == name).or_else(|| turns.next()).unwrap();
            stage.languages.insert(name.to_owned(), (identity.to_owned(), (*language).to_owned()));
            stage.enter(name, !self.strangers.iter().any(|stranger| stranger == name));
        }
        for (number, step) in self.steps.iter().enumerate() {
            for _ in 0..step.times {
                stage.take(step, number + 1);
            }
        }
    }
}

/// Has the coordinator let in only those who have a certificate, and gives one to everybody.
fn ask_for_certificates(world: &mut World) {
    world.cli(LEAD, &["certs", "--client", "somebody"]).succeeds();
    let file = |name: &str| world.home(LEAD).join("certs").join(name).display().to_string();
    let (ca, cert, key) = (file("ca.crt"), file("client-somebody.crt"), file("client-somebody.key"));
    world.coordinator.restart_with(&[("TEAMWIRE_TLS_CLIENT_CA", &ca)]);
    world.environment.borrow_mut().extend([("TEAMWIRE_CERT".to_owned(), cert), ("TEAMWIRE_KEY".to_owned(), key)]);
}

/// A world with its drivers.
struct Stage {
    world: World,
    drivers: BTreeMap<String, Driver>,
    /// What drivers find in their environment besides.
    environment: BTreeMap<String, String>,
    /// Whose place an driver has, and its language.
    languages: BTreeMap<String, (String, String)>,
    /// What was kept of answers.
    kept: BTreeMap<String, Value>,
}

impl Stage {
    fn enter(&mut self, name: &str, connects: bool) {
        let (identity, language) = self.languages[name].clone();
        let mut driver = Driver::start(&self.world, name, &identity, &language, &self.environment);
        if connects {
            driver.tell(&json!({ "do": "connect" }));
            let answer = driver.answer();
            assert!(holds(&json!({"ok": {"member": identity, "team": "acme"}}), &answer), "{name}: connect: {answer}");
        }
        self.drivers.insert(name.to_owned(), driver);
    }

    fn take(&mut self, step: &Step, number: usize) {
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
            if holds(&wanted, &answer) {
                for (name, place) in &step.keep {
                    let found = answer["ok"].pointer(&format!("/{place}"));
                    let found = found.unwrap_or_else(|| panic!("{what}: no {place} in {answer}")).clone();
                    self.kept.insert(name.clone(), found);
                }
                return;
            }
            let may_come = step.until.is_some() && began.elapsed() < PATIENCE;
            assert!(may_come, "{what}\n  wanted {wanted}\n  but is {answer}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Has somebody do something, and returns the answer.
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
                let said = self.world.cli(LEAD, &arguments).succeeds().stdout;
                return done(json!({ "said": said.trim() }));
            }
            (name, "kill") => self.driver(name).kill(),
            (name, "exit") => {
                let code = self.driver(name).exit();
                return done(json!({ "code": code }));
            }
            (name, "enter") => self.enter(name, true),
            (name, "answer") => return self.driver(name).answer(),
            (name, "take") => {
                let driver = self.driver(name);
                driver.tell(&json!({ "do": "next" }));
                let taken = driver.answer();
                if let Some(id) = taken.pointer("/ok/message/id") {
                    driver.tell(&json!({ "do": "ack", "message_id": id }));
                    assert!(holds(&done(json!({})), &driver.answer()), "{name} acknowledges {id}");
                }
                return taken;
            }
            (name, word) => {
                let mut command = self.filled(&Value::Object(step.with.clone()));
                command["do"] = word.into();
                let driver = self.driver(name);
                driver.tell(&command);
                if !step.later {
                    return driver.answer();
                }
            }
        }
        done(json!({}))
    }

    fn driver(&mut self, name: &str) -> &mut Driver {
        self.drivers.get_mut(name).unwrap_or_else(|| panic!("nobody plays {name}"))
    }

    /// Puts what was kept in the place of `$NAME`.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.kept.get(name).unwrap_or_else(|| panic!("nothing was kept as {name}")).clone(),
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

/// Returns whether a value has all that is wanted of it. `"-"` wants it to be absent, `"*"` to be there and not empty.
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
fn what_is_wanted_must_be_there() {
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
