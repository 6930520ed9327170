//! The table of reasons, from the options of `enum Reason`.

use protox::prost_reflect::DescriptorPool;

use super::{by_variant, camel, documentation, flag, policy, word};

struct Row {
    variant: String,
    documentation: String,
    name: String,
    code: String,
    retry: String,
    outcome_unknown: bool,
    stream_reopens: bool,
}

pub(crate) fn table(pool: &DescriptorPool) -> String {
    let reason = pool.get_enum_by_name("teamwire.v1.Reason").expect("Reason");
    let mut rows = Vec::new();
    for (index, value) in (0..).zip(reason.values()).skip(1) {
        let policy = policy(pool, &value.options(), "reason_policy").expect("every reason has a policy");
        let name = value.name().strip_prefix("REASON_").expect("the prefix").to_owned();
        rows.push(Row {
            variant: camel(&name),
            documentation: documentation(&reason.parent_file(), &[5, 0, 2, index]),
            name,
            code: camel(&word(&policy, "code", "STATUS_CODE_")),
            retry: camel(&word(&policy, "retry", "RETRY_")).replace("Unspecified", "Never"),
            outcome_unknown: flag(&policy, "outcome_unknown"),
            stream_reopens: flag(&policy, "stream_reopens"),
        });
    }
    let variants: String = rows.iter().map(|row| format!("{}{},\n", row.documentation, row.variant)).collect();
    let all: String = rows.iter().map(|row| format!("Self::{},", row.variant)).collect();
    let arms = |value: fn(&Row) -> String| rows.iter().map(move |row| (row.variant.clone(), value(row)));
    format!(
        "/// Why a call was refused.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum Reason {{\n{variants}}}\n\
         impl Reason {{\n/// Every reason, in the order of the protocol.\npub const ALL: &[Self] = &[{all}];\n{}{}{}{}{}}}\n",
        by_variant(
            "as_str(self) -> &'static str",
            "Returns the reason's name in `google.rpc.ErrorInfo`.",
            arms(|row| format!("{:?}", row.name)),
        ),
        by_variant(
            "code(self) -> Code",
            "Returns the gRPC code of the reason.",
            arms(|row| format!("Code::{}", row.code))
        ),
        by_variant(
            "retry(self) -> Retry",
            "Returns whether a client repeats the call.",
            arms(|row| format!("Retry::{}", row.retry)),
        ),
        by_variant(
            "is_outcome_known(self) -> bool",
            "Returns whether the refused call has changed nothing for certain.",
            arms(|row| (!row.outcome_unknown).to_string()),
        ),
        by_variant(
            "reopens_stream(self) -> bool",
            "Returns whether a client opens a stream again that ended for this reason, although it would not repeat a call.",
            arms(|row| row.stream_reopens.to_string()),
        ),
    )
}
