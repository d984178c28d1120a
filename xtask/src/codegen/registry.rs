//! The generated files that list all messages: `messages.rs`, `api_key.rs`, `records.rs`, and a list for tests.

use std::fmt::Write as _;

use super::rust::{HEADER, borrows, doc};
use super::schema::{Kind, Message, Range, Schema};

/// `messages.rs`: one module per message.
pub(super) fn messages(apis: &[&Schema]) -> String {
    let mut out = modules("The messages, one module each.", apis);
    out.push('\n');
    for schema in apis {
        let _ = writeln!(
            out,
            "crate::message::api!({}, {});",
            lifetime_of(&schema.messages[0]),
            lifetime_of(&schema.messages[1])
        );
    }
    out
}

/// How the `api!` macro is told whether a message borrows.
fn lifetime_of(message: &Message) -> String {
    let borrows = message.structs.first().is_some_and(|owner| borrows(message, owner));
    if borrows { format!("{}<'a>", message.name) } else { message.name.clone() }
}

/// `api_key.rs`: the registry of APIs.
pub(super) fn api_key(apis: &[&Schema]) -> String {
    let mut apis: Vec<&&Schema> = apis.iter().collect();
    apis.sort_by_key(|schema| schema.number);
    let mut out = String::from(HEADER);
    out.push_str(
        "\n//! The APIs that have a schema.\n\nuse riparian_wire::VersionRange;\n\n\
         use crate::api_key::Info;\n\n\
         /// An API of the Kafka protocol that Riparian has a schema for.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(i16)]\npub enum ApiKey {\n",
    );
    for schema in &apis {
        doc(&mut out, &schema.docs);
        let _ = writeln!(out, "{} = {},", schema.name, schema.number.unwrap_or_default());
    }
    out.push_str("}\n\nimpl ApiKey {\n/// Every API, ascending by code.\n");
    let _ = writeln!(out, "pub const ALL: [Self; {}] = [", apis.len());
    for schema in &apis {
        let _ = writeln!(out, "Self::{},", schema.name);
    }
    out.push_str("];\n\npub(crate) const fn info(self) -> Info {\nmatch self {\n");
    for schema in &apis {
        let range = |range: Range| format!("VersionRange::new({}, {})", range.min, range.max);
        let served = schema.served.map_or_else(|| "None".into(), |served| format!("Some({})", range(served)));
        let flexible = schema.flexible_from.map_or_else(|| "i16::MAX".into(), |from| from.to_string());
        let _ = writeln!(
            out,
            "Self::{0} => Info {{ name: \"{0}\", versions: {1}, served: {served}, flexible_from: {flexible} }},",
            schema.name,
            range(schema.versions)
        );
    }
    out.push_str("}\n}\n}\n");
    out
}

/// `records.rs`: one module per key and value, and the enums that tell them apart.
pub(super) fn records(stored: &[&Schema]) -> String {
    let mut out = modules("The stored records, one module per key and value.", stored);
    for (kind, list) in [(Kind::Record, "keys"), (Kind::Metadata, "metadata_records")] {
        let mut schemas: Vec<&&Schema> = stored.iter().filter(|schema| schema.kind == kind).collect();
        schemas.sort_by_key(|schema| schema.number);
        out.push('\n');
        for schema in &schemas {
            if let [_, value] = &schema.messages[..] {
                let _ = writeln!(out, "crate::stored::value!({});", lifetime_of(value));
            }
        }
        let _ = writeln!(out, "\ncrate::stored::{list}! {{");
        for schema in &schemas {
            doc(&mut out, &schema.docs);
            let variant = schema.name.strip_suffix("Record").unwrap_or(&schema.name);
            let _ = writeln!(out, "{variant}({}),", lifetime_of(&schema.messages[0]));
        }
        out.push_str("}\n");
    }
    out
}

/// A macro that names every message, for tests that go over all of them.
pub(super) fn message_list(schemas: &[Schema]) -> String {
    let mut out = format!("{HEADER}\n//! All messages.\n\n");
    out.push_str("/// Calls a macro with the name and the path of every message.\n");
    out.push_str("macro_rules! each_message {\n($check:ident) => {\n");
    for (schema, message) in schemas.iter().flat_map(|schema| schema.messages.iter().map(move |m| (schema, m))) {
        let path = if schema.kind == Kind::Api { "riparian_protocol::messages" } else { "riparian_records::stored" };
        let typed = lifetime_of(message).replace("'a", "'_");
        let _ = writeln!(out, "$check!(\"{}\", {path}::{typed});", message.name);
    }
    out.push_str("};\n}\n\npub(crate) use each_message;\n");
    out
}

/// Declarations of the modules, and their top-level structs.
fn modules(docs: &str, schemas: &[&Schema]) -> String {
    let mut out = format!("{HEADER}\n//! {docs}\n\n");
    let mut names: Vec<&str> = schemas.iter().flat_map(|s| &s.messages).map(|m| m.name.as_str()).collect();
    names.sort_unstable();
    for name in &names {
        let _ = writeln!(out, "pub mod {};", super::snake(name));
    }
    out.push('\n');
    for name in &names {
        let _ = writeln!(out, "pub use self::{}::{name};", super::snake(name));
    }
    out
}
