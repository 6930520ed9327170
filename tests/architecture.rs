//! Holds the invariants of the architecture: who may name whom, what only one place may use, how long a file may get.
//!
//! Plain reading of the sources: `use` declarations, and paths that begin with `crate`, `super` or a crate's name. A
//! check that reads nothing finds nothing, so [`the_checks_find_the_violations_they_are_for`] runs each of them over
//! made-up sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The sources of the product's crates.
const PRODUCT: [&str; 6] = ["agents/src", "client/rust/src", "kubernetes/src", "proto/src", "server/src", "src"];

/// The crates in which not even a module and those inside it may name each other in a circle.
const UNTIED: [&str; 2] = ["proto/src", "server/src"];

/// The parts of the server, and what each may name besides itself.
const SERVER_PARTS: [(&str, &[&str]); 14] = [
    (
        "server",
        &[
            "budget",
            "console",
            "coordinator",
            "delivery",
            "domain",
            "edge",
            "grpc",
            "health",
            "mcp",
            "sender",
            "store",
            "telemetry",
        ],
    ),
    ("grpc", &["budget", "coordinator", "delivery", "domain", "edge", "store", "telemetry"]),
    ("delivery", &["coordinator", "domain", "notify", "sender", "store", "telemetry"]),
    ("coordinator", &["domain", "notify", "store", "telemetry"]),
    ("notify", &["domain", "store"]),
    ("domain", &["store"]),
    ("store", &[]),
    ("sender", &[]),
    ("console", &["edge"]),
    ("mcp", &["console", "edge"]),
    ("telemetry", &["domain", "edge", "store"]),
    ("health", &["edge", "store", "telemetry"]),
    ("edge", &["budget"]),
    ("budget", &["domain"]),
];

/// The modules of the crate that runs agents, and what each may name besides itself.
const AGENTS_PARTS: [(&str, &[&str]); 21] = [
    ("runner", &["adapters", "config", "event", "exit", "hurry", "incarnation", "process", "transcript"]),
    ("programs", &["config", "process"]),
    (
        "adapters",
        &[
            "agent_text",
            "attach",
            "config",
            "event",
            "exit",
            "incarnation",
            "line_protocol",
            "mcp",
            "process",
            "programs",
            "transcript",
            "visible",
        ],
    ),
    (
        "incarnation",
        &[
            "attach",
            "config",
            "event",
            "exit",
            "hurry",
            "line_protocol",
            "pending_replies",
            "process",
            "programs",
            "tls_environment",
            "transcript",
            "work",
        ],
    ),
    ("attach", &["process"]),
    ("line_protocol", &["agent_text", "visible"]),
    ("mcp", &["agent_text", "hooks", "line_protocol", "pending_replies", "visible", "work"]),
    ("host", &["process", "programs", "tls_environment", "work"]),
    ("process", &["config", "event", "exit"]),
    ("config", &["agent_text", "event"]),
    ("hooks", &["agent_text", "setup", "visible"]),
    ("agent_text", &["visible"]),
    ("event", &[]),
    ("exit", &[]),
    ("hurry", &[]),
    ("pending_replies", &[]),
    ("setup", &[]),
    ("tls_environment", &[]),
    ("transcript", &[]),
    ("visible", &[]),
    ("work", &["process"]),
];

/// The modules of the binary, and what each may name besides itself.
const BINARY_PARTS: [(&str, &[&str]); 10] = [
    ("main", &["authority", "command", "context", "failure", "static_names", "telemetry"]),
    ("command", &["authority", "config", "context", "failure", "show", "stable_path", "telemetry"]),
    ("context", &["failure", "show"]),
    ("config", &["failure"]),
    ("show", &["failure"]),
    ("telemetry", &["config", "failure"]),
    ("failure", &["show"]),
    ("authority", &["context", "failure"]),
    ("stable_path", &[]),
    ("static_names", &[]),
];

/// What a crate of this workspace may depend on among the others.
const CRATES: [(&str, &[&str]); 5] = [
    ("proto", &[]),
    ("server", &["teamwire-proto"]),
    ("client/rust", &["teamwire-proto"]),
    ("agents", &["teamwire-client", "teamwire-proto"]),
    ("kubernetes", &["teamwire-agents", "teamwire-client", "teamwire-proto"]),
];

/// The reasons that the coordinator may give by itself: the store has failed. All others are rules.
const COORDINATOR_REASONS: [&str; 4] = ["DurabilityNotReached", "Internal", "StoreFull", "StoreUnavailable"];

/// How many lines a file of the product may have.
const LINES_MAX: usize = 500;

/// The files with unsafe code: three of the product, of which one puts a child into its cgroup and has the kernel end it
/// with its parent, one reads the process table of macOS, and one calls the C library of a static build; and one that
/// replaces the C library's clock and random numbers in simulations.
const UNSAFE: [&str; 4] = [
    "agents/src/process/before_exec.rs",
    "agents/src/process/process_table/macos.rs",
    "src/static_names.rs",
    "tests/simulation/src/determinism.rs",
];

#[test]
fn each_part_of_the_server_names_only_those_below_it() {
    none(arrows(&Sources::read("server/src"), &SERVER_PARTS));
}

#[test]
fn each_module_that_runs_agents_names_only_those_below_it() {
    none(arrows(&Sources::read("agents/src"), &AGENTS_PARTS));
}

#[test]
fn each_module_of_the_binary_names_only_those_below_it() {
    none(arrows(&Sources::read("src"), &BINARY_PARTS));
}

#[test]
fn no_modules_of_a_crate_depend_on_each_other_in_a_cycle() {
    for root in PRODUCT {
        none(circles(&Sources::read(root), UNTIED.contains(&root)));
    }
}

#[test]
fn each_crate_depends_only_on_those_below_it() {
    for (of, may) in CRATES {
        let manifest = fs::read_to_string(root().join(of).join("Cargo.toml")).expect("a manifest");
        none(dependencies(of, &manifest, may));
    }
}

#[test]
fn only_grpc_names_the_status_of_a_call() {
    none(names(&Sources::read("server/src"), "grpc/", &["tonic::Status", "tonic::Code"]));
}

#[test]
fn only_one_store_names_redis() {
    none(names(&Sources::read("server/src"), "store/redis/", &["redis"]));
}

#[test]
fn the_domain_names_no_transport_no_clock_and_no_random_numbers() {
    let domain = Sources::read("server/src/domain");
    let banned =
        ["tonic", "tokio", "redis", "rand", "std::time::Instant", "std::time::SystemTime", "std::env", "std::fs"];
    none(names(&domain, "nowhere", &banned));
}

#[test]
fn the_coordinator_contains_no_rule_that_refuses() {
    none(reasons(&Sources::read("server/src/coordinator"), &COORDINATOR_REASONS));
}

#[test]
fn unsafe_code_is_in_three_places_of_the_product_and_one_of_the_tests() {
    let mut everywhere = Sources::default();
    for root in ["agents", "bench", "client/rust", "fuzz", "kubernetes", "proto", "server", "src", "tests", "xtask"] {
        everywhere.add(root, root);
    }
    let found = unsafe_code(&everywhere);
    assert_eq!(found, UNSAFE, "there is unsafe code elsewhere, or none here any more");
}

#[test]
fn no_file_of_the_product_is_too_long() {
    for root in PRODUCT {
        none(too_long(&Sources::read(root), LINES_MAX));
    }
}

#[test]
fn the_checks_find_the_violations_they_are_for() {
    let of = |files: &[(&str, &str)]| {
        Sources(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    };
    let parts: [(&str, &[&str]); 2] = [("above", &["below"]), ("below", &[])];
    let sound = of(&[
        ("lib.rs", "pub mod above;\npub mod below;"),
        ("above/mod.rs", "use crate::below::Thing;\n// use crate::above::Other"),
        (
            "below.rs",
            "use std::fmt;\n/// See [`crate::above`].\npub struct Thing;\n#[cfg(test)]\nmod tests {\n use crate::above; }",
        ),
    ]);
    none(arrows(&sound, &parts));
    none(circles(&sound, true));

    let upward = of(&[("above.rs", ""), ("below/deep.rs", "use super::super::{\n    above::{self, Thing},\n};")]);
    assert_eq!(arrows(&upward, &parts), ["below/deep.rs names above"]);
    let inline = of(&[("above.rs", ""), ("below.rs", "fn f() { crate::above::g() }")]);
    assert_eq!(arrows(&inline, &parts), ["below.rs names above"]);
    let renamed = of(&[("lib.rs", "pub use self::above::Thing;"), ("above.rs", ""), ("below.rs", "use crate::Thing;")]);
    assert_eq!(arrows(&renamed, &parts), ["below.rs names above"]);
    let unknown = of(&[("beside.rs", "")]);
    assert_eq!(arrows(&unknown, &parts), ["beside.rs is in no part that this test knows"]);

    let circle = of(&[
        ("a/mod.rs", "mod one;\nmod two;"),
        ("a/one.rs", "use super::two::Two;"),
        ("a/two.rs", "fn f() -> crate::a::one::One { todo!() }"),
    ]);
    assert_eq!(circles(&circle, false), ["a/one.rs -> a/two.rs -> a/one.rs"]);
    let face = of(&[
        ("a/mod.rs", "mod one;\npub use self::one::One;"),
        ("a/one.rs", "use crate::b::Two;"),
        ("b.rs", "use crate::a::One;"),
    ]);
    assert_eq!(circles(&face, false), ["a/one.rs -> b.rs -> a/one.rs"]);

    let status = of(&[
        ("grpc/a.rs", "use tonic::{Request, Status};"),
        ("b.rs", "use tonic::{Request, Status};"),
        ("c.rs", "fn f(_: tonic::Code) {}"),
        ("d.rs", "use tonic::transport::Server;"),
    ]);
    let banned = ["tonic::Status", "tonic::Code"];
    assert_eq!(names(&status, "grpc/", &banned), ["b.rs names tonic::Status", "c.rs names tonic::Code"]);
    let module = of(&[
        ("store/mod.rs", "pub mod redis;\nuse redis::Store;"),
        ("store/redis.rs", ""),
        ("a.rs", "use redis::Client;"),
    ]);
    assert_eq!(names(&module, "nowhere", &["redis"]), ["a.rs names redis::Client"]);

    let rule = of(&[("a.rs", "Refusal::new(Reason::Internal, x); Refusal::new(Reason::NotPermitted, y)")]);
    assert_eq!(reasons(&rule, &COORDINATOR_REASONS), ["a.rs refuses with NotPermitted"]);

    let manifest = "[dependencies]\nteamwire-proto = { workspace = true }\nteamwire-server = { workspace = true }\n[dev-dependencies]\nteamwire-chaos = \"1\"";
    assert_eq!(dependencies("x", manifest, &["teamwire-proto"]), ["x depends on teamwire-server"]);

    let danger = of(&[("a.rs", "// unsafe\n#![forbid(unsafe_code)]"), ("b.rs", "fn f() { unsafe { g() } }")]);
    assert_eq!(unsafe_code(&danger), ["b.rs"]);
    assert_eq!(too_long(&of(&[("a.rs", "\n\n\n"), ("b.rs", "\n")]), 2), ["a.rs has 3 lines"]);
}

fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Source files, by their paths below a root.
#[derive(Default)]
struct Sources(BTreeMap<String, String>);

impl Sources {
    /// Reads the sources in a directory. Separate test files are not product code.
    fn read(directory: &str) -> Self {
        let mut sources = Self::default();
        sources.add(directory, "");
        let is_test = |path: &str| {
            path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "conformance.rs" | "differential.rs"))
        };
        sources.0.retain(|path, _| !is_test(path));
        assert!(!sources.0.is_empty(), "there are no sources in {directory}");
        sources
    }

    fn add(&mut self, directory: &str, prefix: &str) {
        for entry in fs::read_dir(root().join(directory)).expect(directory) {
            let entry = entry.expect(directory);
            let name = entry.file_name().into_string().expect("a name");
            let (path, below) = (format!("{directory}/{name}"), format!("{prefix}/{name}"));
            let below = below.trim_start_matches('/');
            if entry.path().is_dir() {
                if name != "target" {
                    self.add(&path, below);
                }
            } else if name.ends_with(".rs") {
                self.0.insert(below.to_owned(), fs::read_to_string(entry.path()).expect(&path));
            }
        }
    }

    /// Returns the files by the modules that they hold.
    fn modules(&self) -> BTreeMap<Vec<&str>, &str> {
        self.0.keys().map(|path| (module_of(path), path.as_str())).collect()
    }
}

/// Returns the path of the module that a file holds.
fn module_of(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.last().is_some_and(|last| matches!(*last, "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Returns a file's code, without comments and without its module of tests.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = product.lines().map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns every path that a file's code names: those of its `use` declarations, and those in its expressions that
/// begin with `crate`, `super` or a lower-case name which no `use` has brought in.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut expressions = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let is_start = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        let after = &rest[at + 4..];
        let Some(end) = after.find(';').filter(|_| is_start) else {
            expressions += &rest[..at + 4];
            rest = after;
            continue;
        };
        expressions += &rest[..at];
        expand(&after[..end].split_whitespace().collect::<Vec<_>>().join(" "), &[], &mut found);
        rest = &after[end..];
    }
    expressions += rest;
    let brought_in: BTreeSet<String> = found.iter().filter_map(|path| path.last().cloned()).collect();
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    for word in expressions.split(|c| !is_path(c)).filter(|word| word.contains("::")) {
        let path: Vec<String> = word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let Some(first) = path.first().filter(|first| first.starts_with(|c: char| c.is_lowercase())) else { continue };
        if !brought_in.contains(first) {
            found.insert(path);
        }
    }
    found
}

/// Takes a tree of `use` apart.
fn expand(tree: &str, prefix: &[String], found: &mut BTreeSet<Vec<String>>) {
    let tree = tree.trim();
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, Some(group.strip_suffix('}').unwrap_or(group))),
        None => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "self" || prefix.is_empty());
    let path: Vec<String> =
        prefix.iter().cloned().chain(parts.filter(|part| !part.is_empty()).map(str::to_owned)).collect();
    let Some(group) = group else {
        found.insert(path);
        return;
    };
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    expand(&group[start..at], &path, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// What a path in a file names.
enum Named {
    /// Something in this crate, by its whole path.
    Inside(Vec<String>),
    /// Something in another crate.
    Outside(Vec<String>),
}

fn resolve(path: &[String], of: &[&str], modules: &BTreeMap<Vec<&str>, &str>) -> Named {
    let whole = |base: &[&str], rest: &[String]| {
        Named::Inside(base.iter().map(|part| (*part).to_owned()).chain(rest.iter().cloned()).collect())
    };
    let mut base = of.to_vec();
    match path[0].as_str() {
        "crate" => whole(&[], &path[1..]),
        "self" => whole(of, &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len().saturating_sub(ups));
            whole(&base, &path[ups..])
        }
        child => {
            base.push(child);
            let is_child = modules.keys().any(|module| module.starts_with(&base));
            if is_child { whole(of, path) } else { Named::Outside(path.to_vec()) }
        }
    }
}

/// Finds what a part of a crate names without being allowed to.
fn arrows(sources: &Sources, parts: &[(&str, &[&str])]) -> Vec<String> {
    let modules = sources.modules();
    let of_crate = sources.0.get("lib.rs").map(|text| handed_on(&[], &code(text), &modules)).unwrap_or_default();
    let mut violations = Vec::new();
    for (file, text) in &sources.0 {
        let of = module_of(file);
        let Some(part) = of.first() else { continue };
        let Some((_, may)) = parts.iter().find(|(name, _)| name == part) else {
            violations.push(format!("{file} is in no part that this test knows"));
            continue;
        };
        let mut named = BTreeSet::new();
        for path in paths(&code(text)) {
            if let Named::Inside(path) = resolve(&path, &of, &modules)
                && let Some(name) = path.first()
                && let Some(first) = of_crate.get(name).map_or(Some(name), |whole| whole.first())
                && parts.iter().any(|(name, _)| name == first)
                && first != part
                && !may.contains(&first.as_str())
            {
                named.insert(first.clone());
            }
        }
        violations.extend(named.into_iter().map(|other| format!("{file} names {other}")));
    }
    violations
}

/// Returns what a module hands on from the modules inside it, by name: the whole paths behind its `pub use`.
fn handed_on(of: &[&str], code: &str, modules: &BTreeMap<Vec<&str>, &str>) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (at, _) in code.match_indices("pub") {
        let after = &code[at + 3..];
        let after = after.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(after, |(_, rest)| rest);
        let Some(tree) = after.strip_prefix(" use ").and_then(|rest| rest.split(';').next()) else { continue };
        let mut paths = BTreeSet::new();
        expand(&tree.split_whitespace().collect::<Vec<_>>().join(" "), &[], &mut paths);
        for path in paths {
            if let Named::Inside(whole) = resolve(&path, of, modules)
                && whole.len() > of.len() + 1
                && whole.iter().zip(of).all(|(one, other)| one == other)
                && let Some(name) = whole.last()
            {
                found.insert(name.clone(), whole.clone());
            }
        }
    }
    found
}

/// Finds files that name each other in a circle. A module that hands a name on from a module inside it does not name
/// it; who takes the name from there names the file that defines it.
///
/// Unless they are strict, a module and those inside it count as one: what the inner ones name in it is left out.
fn circles(sources: &Sources, are_strict: bool) -> Vec<String> {
    let modules = sources.modules();
    let handed_on: BTreeMap<Vec<&str>, _> = sources
        .0
        .iter()
        .map(|(file, text)| (module_of(file), handed_on(&module_of(file), &code(text), &modules)))
        .collect();
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, text) in &sources.0 {
        let of = module_of(file);
        for path in paths(&code(text)) {
            let Named::Inside(path) = resolve(&path, &of, &modules) else { continue };
            let is_handed_on = handed_on[&of].values().any(|whole| *whole == path);
            let is_around = |other: &str| !are_strict && is_inside(&of, &module_of(other));
            let other = definer(&path, &modules, &handed_on);
            if let Some(other) = other.filter(|other| *other != file && !is_handed_on && !is_around(other)) {
                names.entry(file).or_default().insert(other);
            }
        }
    }
    let (mut done, mut found) = (BTreeSet::new(), Vec::new());
    for file in names.keys() {
        walk(file, &names, &mut Vec::new(), &mut done, &mut found);
    }
    found
}

/// Returns whether a module is inside another one.
fn is_inside(module: &[&str], other: &[&str]) -> bool {
    module.len() > other.len() && module.starts_with(other)
}

/// Returns the file that defines what a path names.
fn definer<'s>(
    path: &[String],
    modules: &BTreeMap<Vec<&str>, &'s str>,
    handed_on: &BTreeMap<Vec<&str>, BTreeMap<String, Vec<String>>>,
) -> Option<&'s str> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let length = (1..=parts.len()).rev().find(|length| modules.contains_key(&parts[..*length]))?;
    let module = &parts[..length];
    match path.get(length).and_then(|name| handed_on[module].get(name)) {
        Some(whole) => definer(whole, modules, handed_on),
        None => modules.get(module).copied(),
    }
}

fn walk<'s>(
    file: &'s str,
    names: &BTreeMap<&'s str, BTreeSet<&'s str>>,
    way: &mut Vec<&'s str>,
    done: &mut BTreeSet<&'s str>,
    found: &mut Vec<String>,
) {
    if let Some(at) = way.iter().position(|before| *before == file) {
        found.push([&way[at..], &[file]].concat().join(" -> "));
        return;
    }
    if done.contains(file) {
        return;
    }
    way.push(file);
    for other in names.get(file).into_iter().flatten() {
        walk(other, names, way, done, found);
    }
    way.pop();
    done.insert(file);
}

/// Finds files outside a place that name something that only the place may. A crate's name bans everything in it.
fn names(sources: &Sources, place: &str, banned: &[&str]) -> Vec<String> {
    let modules = sources.modules();
    let mut violations = Vec::new();
    for (file, text) in sources.0.iter().filter(|(file, _)| !file.starts_with(place)) {
        for path in paths(&code(text)) {
            let Named::Outside(path) = resolve(&path, &module_of(file), &modules) else { continue };
            let path = path.join("::");
            if banned.iter().any(|name| path == *name || path.starts_with(&format!("{name}::"))) {
                violations.push(format!("{file} names {path}"));
            }
        }
    }
    violations
}

/// Finds refusals with other reasons than the allowed ones.
fn reasons(sources: &Sources, allowed: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for (file, text) in &sources.0 {
        let code = code(text);
        for after in code.split("Refusal::new(").skip(1) {
            let reason = after.trim_start().strip_prefix("Reason::").unwrap_or("another value");
            let reason = reason.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            if !allowed.contains(&reason) {
                violations.push(format!("{file} refuses with {reason}"));
            }
        }
    }
    violations
}

/// Finds dependencies on crates of this workspace that a crate may not have. Those of tests are free.
fn dependencies(of: &str, manifest: &str, may: &[&str]) -> Vec<String> {
    let section =
        manifest.split("\n[").find_map(|section| section.trim_start_matches('[').strip_prefix("dependencies]"));
    let names = section.unwrap_or("").lines().filter_map(|line| line.split(['=', '.', ' ']).next());
    let ours = names.filter(|name| name.starts_with("teamwire") && !may.contains(name));
    ours.map(|name| format!("{of} depends on {name}")).collect()
}

/// Finds files with unsafe code.
fn unsafe_code(sources: &Sources) -> Vec<String> {
    let has = |text: &str| {
        let code = code(text);
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    };
    // This file names the word.
    let files = sources.0.iter().filter(|(file, text)| *file != "tests/architecture.rs" && has(text));
    files.map(|(file, _)| file.clone()).collect()
}

/// Finds files with too many lines.
fn too_long(sources: &Sources, lines_max: usize) -> Vec<String> {
    let lines = sources.0.iter().map(|(file, text)| (file, text.lines().count()));
    lines.filter(|(_, lines)| *lines > lines_max).map(|(file, lines)| format!("{file} has {lines} lines")).collect()
}
