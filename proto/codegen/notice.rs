//! The table of notice kinds, from the `notice_policy` of the values of `NoticeKind`.

use protox::prost_reflect::{DescriptorPool, Kind};

use super::{by_variant, camel, flag, policy, text};

struct Row {
    variant: String,
    important: bool,
    noun: String,
    /// The text that tells what a notice of this kind is about, as Rust.
    about: String,
}

pub(crate) fn table(pool: &DescriptorPool) -> String {
    let kinds = pool.get_enum_by_name("teamwire.v1.NoticeKind").expect("NoticeKind");
    let notice = pool.get_message_by_name("teamwire.v1.Notice").expect("Notice");
    let about = |field: &str| match notice.get_field_by_name(field).map(|field| field.kind()) {
        None if field.is_empty() => "String::new()".to_owned(),
        Some(Kind::String) => format!("self.{field}.clone()"),
        Some(Kind::Message(_)) => {
            format!("self.{field}.as_ref().map_or_else(String::new, |{field}| {field}.id.to_string())")
        }
        _ => panic!("Notice has no field {field} that names something"),
    };
    let row = |value: protox::prost_reflect::EnumValueDescriptor| {
        let policy = policy(pool, &value.options(), "notice_policy").expect("every kind has a policy");
        Row {
            variant: camel(value.name().strip_prefix("NOTICE_KIND_").expect("the prefix")),
            important: flag(&policy, "important"),
            noun: text(&policy, "noun"),
            about: about(&text(&policy, "about")),
        }
    };
    let rows: Vec<Row> = kinds.values().skip(1).map(row).collect();
    let unspecified =
        || Row { variant: "Unspecified".to_owned(), important: false, noun: "notice".to_owned(), about: about("") };
    let arms = |value: fn(&Row) -> String| {
        std::iter::once(unspecified())
            .map(move |row| (row.variant.clone(), value(&row)))
            .chain(rows.iter().map(move |row| (row.variant.clone(), value(row))))
    };
    let abouts: String =
        arms(|row| row.about.clone()).map(|(variant, about)| format!("NoticeKind::{variant} => {about},\n")).collect();
    format!(
        "impl NoticeKind {{\n{}{}}}\nimpl Notice {{\n/// Returns the name or id of what the notice is about. Empty means the team.\n\
         pub fn about(&self) -> String {{\nmatch self.kind() {{\n{abouts}}}\n}}\n}}\n",
        by_variant(
            "is_important(self) -> bool",
            "Returns whether every notice of this kind is important.",
            arms(|row| row.important.to_string()),
        ),
        by_variant(
            "noun(self) -> &'static str",
            "Returns what a reader calls a notice of this kind.",
            arms(|row| format!("{:?}", row.noun)),
        ),
    )
}
