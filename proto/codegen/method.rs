//! The table of RPCs, from their `idempotency_level` and `call_policy`, the `wait_policy` of their requests and the
//! `debug_redact` of their replies.

use protox::prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::{by_variant, camel, flag, message, policy, redact::is_secret, text, word, words};

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
         impl Method {{\n/// Every RPC, in the order of their names.\npub const ALL: &[Self] = &[{all}];\n{}{}{}{}{}{}{}{}{}{}{}}}\n{}",
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
            "Returns how long the coordinator may hold back its reply. `None` if it answers at once.",
            arms(&|method| wait(pool, method)),
        ),
        by_variant(
            "audience(self) -> &'static [Audience]",
            "Returns who may make the call.",
            arms(&|method| format!("&[{}]", audience(&call_policy(pool, method)))),
        ),
        by_variant(
            "audit(self) -> AuditClass",
            "Returns what the audit log keeps of the call.",
            arms(&|method| format!("AuditClass::{}", audit(&call_policy(pool, method)))),
        ),
        by_variant(
            "settles_lease(self) -> bool",
            "Returns whether the call itself renews the caller's lease, or ends its life.",
            arms(&|method| flag(&call_policy(pool, method), "settles_lease").to_string()),
        ),
        audited(pool, &methods),
    )
}

fn call_policy(pool: &DescriptorPool, method: &MethodDescriptor) -> DynamicMessage {
    policy(pool, &method.options(), "call_policy")
        .unwrap_or_else(|| panic!("{} has no option (call_policy)", method.full_name()))
}

fn audience(policy: &DynamicMessage) -> String {
    let audience = words(policy, "audience", "AUDIENCE_");
    assert!(!audience.is_empty(), "an RPC has no audience");
    audience.iter().map(|name| format!("Audience::{}", camel(name))).collect::<Vec<_>>().join(", ")
}

fn audit(policy: &DynamicMessage) -> String {
    let class = camel(&word(policy, "audit", "AUDIT_CLASS_"));
    assert_ne!(class, "Unspecified", "an RPC has no audit class");
    class
}

/// Writes the function that reads from a request what the audit log says of it.
fn audited(pool: &DescriptorPool, methods: &[MethodDescriptor]) -> String {
    let arms: String = methods
        .iter()
        .filter_map(|method| {
            let policy = call_policy(pool, method);
            let field = |option: &str| {
                let name = text(&policy, option);
                if name.is_empty() {
                    return "\"\"".to_owned();
                }
                method.input().get_field_by_name(&name).unwrap_or_else(|| panic!("{name} is not a field"));
                format!("&request.{name}")
            };
            let (team, object) = (field("audited_team"), field("audited_object"));
            let request = method.input().name().to_owned();
            (team.len().max(object.len()) > 2).then(|| {
                format!(
                    "if let Some(request) = request.downcast_ref::<crate::v1::{request}>() {{\n\
                     return ({team}, {object});\n}}\n"
                )
            })
        })
        .collect();
    format!(
        "/// Returns the texts of a request that name its team, and what it changes within the team, for the audit log.\n\
         pub fn audited(request: &dyn std::any::Any) -> (&str, &str) {{\n{arms}(\"\", \"\")\n}}\n"
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
