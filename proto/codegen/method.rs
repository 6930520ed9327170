//! The table of RPCs, from their `idempotency_level`, the `wait_policy` of their requests and the `debug_redact` of their
//! replies.

use protox::prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::{by_variant, message, policy, redact::is_secret};

pub(crate) fn table(pool: &DescriptorPool) -> String {
    let mut methods: Vec<MethodDescriptor> =
        pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    methods.sort_by(|a, b| a.name().cmp(b.name()));
    let variants: String = methods
        .iter()
        .map(|method| format!("/// {}.{}\n{},\n", method.parent_service().name(), method.name(), method.name()))
        .collect();
    let all: String = methods.iter().map(|method| format!("Self::{},", method.name())).collect();
    let arms = |value: &dyn Fn(&MethodDescriptor) -> String| {
        methods.iter().map(|method| (method.name().to_owned(), value(method))).collect::<Vec<_>>().into_iter()
    };
    format!(
        "/// An RPC of the protocol.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum Method {{\n{variants}}}\n\
         impl Method {{\n/// Every RPC, in the order of their names.\npub const ALL: &[Self] = &[{all}];\n{}{}{}{}{}{}{}{}}}\n",
        by_variant(
            "name(self) -> &'static str",
            "Returns the RPC's name.",
            arms(&|method| format!("{:?}", method.name()))
        ),
        by_variant(
            "service(self) -> &'static str",
            "Returns the name of the RPC's service.",
            arms(&|method| format!("{:?}", method.parent_service().name())),
        ),
        by_variant(
            "path(self) -> &'static str",
            "Returns the path that a client calls.",
            arms(&|method| format!("\"/{}/{}\"", method.parent_service().full_name(), method.name())),
        ),
        by_variant(
            "effect(self) -> Effect",
            "Returns what the RPC does to a coordinator.",
            arms(&|method| format!("Effect::{}", effect(method))),
        ),
        by_variant(
            "has_idempotency_key(self) -> bool",
            "Returns whether the request has an idempotency key.",
            arms(&|method| method.input().get_field_by_name("idempotency_key").is_some().to_string()),
        ),
        by_variant(
            "is_secret(self) -> bool",
            "Returns whether the reply carries a credential or a token, so that it is never logged.",
            arms(&|method| method.output().fields().any(|field| is_secret(&field)).to_string()),
        ),
        by_variant(
            "is_streaming(self) -> bool",
            "Returns whether the reply is a stream.",
            arms(&|method| method.is_server_streaming().to_string()),
        ),
        by_variant(
            "wait(self) -> Option<Wait>",
            "Returns how long the coordinator may hold back its reply. None: it answers at once.",
            arms(&|method| wait(pool, method)),
        ),
    )
}

fn effect(method: &MethodDescriptor) -> &'static str {
    let level = method.options().get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
    match level {
        Some(1) => "Read",
        Some(2) => "Repeatable",
        _ => "Once",
    }
}

fn wait(pool: &DescriptorPool, method: &MethodDescriptor) -> String {
    let found = method.input().fields().find_map(|field| {
        let policy = policy(pool, &field.options(), "wait_policy")?;
        Some((field.name().to_owned(), seconds(&policy, "default"), seconds(&policy, "max")))
    });
    found.map_or("None".to_owned(), |(field, default, max)| {
        format!(
            "Some(Wait {{ field: {field:?}, default: Duration::from_secs({default}), max: Duration::from_secs({max}) }})"
        )
    })
}

fn seconds(policy: &DynamicMessage, field: &str) -> i64 {
    let duration = message(&policy.get_field_by_name(field).expect("a field"));
    duration.get_field_by_name("seconds").and_then(|seconds| seconds.as_i64()).expect("seconds")
}
