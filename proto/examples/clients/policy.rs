//! What the protocol's options say of refusals and calls: which of them a client may repeat, which calls wait, and which
//! replies are secret.

use teamwire_proto::{
    Method, Reason,
    method::{Effect, Wait},
    reason::Retry,
};

use crate::camel;

/// Returns the files, with their paths.
pub(crate) fn files() -> [(&'static str, String); 4] {
    let policy = Policy::read();
    [
        ("client/python/src/teamwire/_policy.py", policy.python()),
        ("client/typescript/src/gen/policy.ts", policy.typescript()),
        ("client/go/protocol_gen.go", policy.go()),
        ("client/java/src/main/java/io/teamwire/Policy.java", policy.java()),
    ]
}

struct Policy {
    sets: [Set; 7],
    waits: Vec<(Method, Wait)>,
}

/// The reasons or the calls that something holds for.
struct Set {
    /// In words, such as `is retried`.
    name: &'static str,
    /// What holds for each, after "whether".
    holds: &'static str,
    /// The members of the set, after "the".
    are: &'static str,
    of: Of,
}

enum Of {
    Reasons(Vec<Reason>),
    Methods(Vec<Method>),
}

impl Policy {
    fn read() -> Self {
        let reasons = |holds: fn(&Reason) -> bool| {
            let mut found: Vec<Reason> = Reason::ALL.iter().copied().filter(holds).collect();
            found.sort_by_key(|reason| reason.as_str());
            Of::Reasons(found)
        };
        let methods = |holds: fn(&Method) -> bool| {
            Of::Methods(Method::ALL.iter().copied().filter(|method| !method.is_streaming() && holds(method)).collect())
        };
        let is_retried = |reason: &Reason| reason.retry() == Retry::Automatic;
        Self {
            sets: [
                Set {
                    name: "is retried",
                    holds: "a client repeats a call that was refused for this reason",
                    are: "reasons for which a client repeats a call",
                    of: reasons(is_retried),
                },
                Set {
                    name: "is retryable",
                    holds: "a call that was refused for this reason may succeed later, without a change",
                    are: "reasons for which a refused call may succeed later, without a change",
                    of: reasons(|reason| reason.is_retryable()),
                },
                Set {
                    name: "is outcome unknown",
                    holds: "a call that was refused for this reason may have changed something",
                    are: "reasons for which a refused call may have changed something",
                    of: reasons(|reason| !reason.is_outcome_known()),
                },
                Set {
                    name: "is reopened",
                    holds: "a subscription that ended for this reason opens another session",
                    are: "reasons after which a subscription opens another session",
                    of: reasons(|reason| reason.retry() == Retry::Automatic || reason.reopens_stream()),
                },
                Set {
                    name: "is read",
                    holds: "this call changes nothing",
                    are: "calls that change nothing",
                    of: methods(|method| method.effect() == Effect::Read),
                },
                Set {
                    name: "is once",
                    holds: "this call must not be repeated while its outcome is unknown",
                    are: "calls that must not be repeated while their outcome is unknown",
                    of: methods(|method| method.effect() == Effect::Once),
                },
                Set {
                    name: "is secret",
                    holds: "the reply to this call carries a credential, so that its idempotency key must be unguessable",
                    are: "calls whose reply carries a credential, so that their idempotency key must be unguessable",
                    of: methods(|method| method.is_secret()),
                },
            ],
            waits: Method::ALL.iter().filter_map(|method| Some((*method, method.wait()?))).collect(),
        }
    }

    fn python(&self) -> String {
        let mut text =
            "\"\"\"What the protocol's options say of refusals and calls. Written by `cargo xtask generate`.\"\"\"\n"
                .to_owned();
        for set in &self.sets {
            let rows: String = set.names(bare).iter().map(|name| format!("    {name:?},\n")).collect();
            let name = set.name.trim_start_matches("is ").replace(' ', "_").to_ascii_uppercase();
            text += &format!("\n{name} = {{\n{rows}}}\n\"\"\"The {}.\"\"\"\n", set.are);
        }
        let row = |(method, wait): &(Method, Wait)| {
            let (default, max) = (wait.default.as_secs(), wait.max.as_secs());
            format!("    {:?}: ({:?}, {default}, {max}),\n", method.name(), wait.field)
        };
        let rows: String = self.waits.iter().map(row).collect();
        text + &format!(
            "\nWAITS = {{\n{rows}}}\n\"\"\"The calls that wait: the field that says how long, the default and the maximum, in seconds.\"\"\"\n"
        )
    }

    fn typescript(&self) -> String {
        let mut text = "// Written by `cargo xtask generate`. Do not edit.\n\
                        /** What the protocol's options say of refusals and calls. */\n"
            .to_owned();
        for set in &self.sets {
            let rows: String = set.names(bare).iter().map(|name| format!("  {name:?},\n")).collect();
            let name = set.name.trim_start_matches("is ").replace(' ', "_").to_ascii_uppercase();
            text += &format!(
                "\n/** The {}. */\nexport const {name}: ReadonlySet<string> = new Set([\n{rows}]);\n",
                set.are
            );
        }
        let row = |(method, wait): &(Method, Wait)| {
            let (default, max) = (wait.default.as_millis(), wait.max.as_millis());
            format!("  [{:?}, {{ field: {:?}, defaultMs: {default}, maxMs: {max} }}],\n", method.name(), wait.field)
        };
        let rows: String = self.waits.iter().map(row).collect();
        text + &format!(
            "\n/** The calls that wait: the field that says how long, the default and the maximum. */\n\
             export const WAITS: ReadonlyMap<string, {{ field: \"timeout\" | \"wait\"; defaultMs: number; maxMs: number }}> = new Map([\n{rows}]);\n"
        )
    }

    fn go(&self) -> String {
        let mut text =
            "// Code generated by cargo xtask generate. DO NOT EDIT.\n\npackage teamwire\n\nimport \"time\"\n"
                .to_owned();
        for set in &self.sets {
            let name = camel(set.name);
            let rows = set.names(path).iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",\n\t\t");
            let subject = set.subject();
            text += &format!(
                "\n// {name} returns whether {}.\nfunc {name}({subject} string) bool {{\n\tswitch {subject} {{\n\tcase {rows}:\n\
                 \t\treturn true\n\t}}\n\treturn false\n}}\n",
                set.holds
            );
        }
        let row = |(method, wait): &(Method, Wait)| {
            let (default, max) = (wait.default.as_secs(), wait.max.as_secs());
            format!(
                "\tcase {:?}:\n\t\treturn {:?}, {default} * time.Second, {max} * time.Second\n",
                path(*method),
                wait.field
            )
        };
        let rows: String = self.waits.iter().map(row).collect();
        text + &format!(
            "\n// waitOf returns the field that says how long a call waits, the default and the maximum. Empty: it does not wait.\n\
             func waitOf(method string) (field string, absent, most time.Duration) {{\n\tswitch method {{\n{rows}\t}}\n\treturn \"\", 0, 0\n}}\n"
        )
    }

    fn java(&self) -> String {
        let mut text = "package io.teamwire;\n\n\
                        /** What the protocol's options say of refusals and calls. Written by {@code cargo xtask generate}. */\n\
                        final class Policy {\n    private Policy() {}\n\n\
                        \x20   /**\n     * How long a call waits.\n     *\n     * @param field the field of its request that says so; empty: it does not wait\n     \
                        * @param absent how many seconds when the field is absent\n     * @param most how many seconds at most\n     */\n\
                        \x20   record Wait(String field, long absent, long most) {}\n"
            .to_owned();
        for set in &self.sets {
            let rows: String =
                set.names(bare).iter().map(|name| format!("            case {name:?} -> true;\n")).collect();
            text += &format!(
                "\n    /** Returns whether {}. */\n    static boolean {}(String {}) {{\n        return switch ({}) {{\n{rows}            \
                 default -> false;\n        }};\n    }}\n",
                set.holds,
                camel(set.name),
                set.subject(),
                set.subject()
            );
        }
        let row = |(method, wait): &(Method, Wait)| {
            let (default, max) = (wait.default.as_secs(), wait.max.as_secs());
            format!("            case {:?} -> new Wait({:?}, {default}, {max});\n", method.name(), wait.field)
        };
        let rows: String = self.waits.iter().map(row).collect();
        text + &format!(
            "\n    /** Returns how long a call waits. */\n    static Wait waitOf(String method) {{\n        return switch (method) {{\n{rows}            \
             default -> new Wait(\"\", 0, 0);\n        }};\n    }}\n}}\n"
        )
    }
}

impl Set {
    fn subject(&self) -> &'static str {
        match self.of {
            Of::Reasons(_) => "reason",
            Of::Methods(_) => "method",
        }
    }

    fn names(&self, method: fn(Method) -> String) -> Vec<String> {
        match &self.of {
            Of::Reasons(reasons) => reasons.iter().map(|reason| reason.as_str().to_owned()).collect(),
            Of::Methods(methods) => methods.iter().map(|found| method(*found)).collect(),
        }
    }
}

/// Returns the name of a call on the wire.
fn path(method: Method) -> String {
    format!("/teamwire.v1.{}/{}", method.service(), method.name())
}

/// Returns the name of a call without its service.
fn bare(method: Method) -> String {
    method.name().to_owned()
}
