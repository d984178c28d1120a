//! Test code: for every struct a function that makes a random one with all fields a version can carry.

use std::fmt::Write as _;

use super::rust::{Emitter, HEADER, borrows, default_value, field_name, uses};
use super::schema::{Field, Message, Schema, Struct, Type};

/// One file for a test binary: a module per message, and the macro `each_message!` that lists them.
pub(super) fn arbitrary(import: &str, schemas: &[&Schema]) -> String {
    let mut out = String::from(HEADER);
    out.push_str("\n//! Random messages.\n\n");
    let mut list = String::new();
    for message in schemas.iter().flat_map(|schema| &schema.messages) {
        let module = super::snake(&message.name);
        let ownership =
            if message.structs.first().is_some_and(|top| borrows(message, top)) { "borrows" } else { "owns" };
        let _ = writeln!(list, "$check!({module}, {}, {ownership});", message.name);
        let mut functions = String::new();
        for (index, owner) in message.structs.iter().enumerate() {
            function(&mut functions, message, owner, index == 0);
        }
        let _ = writeln!(out, "pub(crate) mod {module} {{");
        if functions.contains("Cow::") {
            out.push_str("use std::borrow::Cow;\n\n");
        }
        let _ = writeln!(out, "use {import}::{module}::*;");
        if functions.contains("Uuid::") {
            out.push_str("use riparian_types::Uuid;\n");
        }
        let _ = writeln!(out, "\nuse crate::luck::Luck;\n\n{functions}}}\n");
    }
    let _ = writeln!(
        out,
        "/// Calls a macro with the module, the name, and `borrows` or `owns`, of every message.\n\
         macro_rules! each_message {{\n($check:ident) => {{\n{list}}};\n}}\n\npub(crate) use each_message;"
    );
    out
}

fn function(out: &mut String, message: &Message, owner: &Struct, top: bool) {
    let emitter = Emitter { message, owner, top };
    let mut body = String::new();
    let mut tags = 0;
    for field in &owner.fields {
        let value = value(&emitter, field);
        let value = match emitter.condition(field.versions) {
            None => value,
            Some(condition) => format!("if {condition} {{ {value} }} else {{ {} }}", default_value(field)),
        };
        let _ = writeln!(body, "{}: {value},", field_name(&field.name));
        tags += u32::from(field.tag.is_some());
    }
    if message.flexible_from.is_some() {
        let _ = writeln!(body, "unknown_tagged_fields: luck.tags({}, {tags}),", emitter.flexible_condition());
    }
    let lifetime = if borrows(message, owner) { "<'static>" } else { "" };
    let version = if uses(&body, "version") { "version" } else { "_version" };
    let luck = if uses(&body, "luck") { "luck" } else { "_luck" };
    let visibility = if top { "pub(crate) " } else { "" };
    let _ = writeln!(
        out,
        "{visibility}fn {}({luck}: &mut Luck, {version}: i16) -> {}{lifetime} {{\n{} {{\n{body}}}\n}}\n",
        if top { "arbitrary".into() } else { super::snake(&owner.name) },
        owner.name,
        owner.name
    );
}

fn value(emitter: &Emitter<'_>, field: &Field) -> String {
    let value = plain(&field.kind);
    let Some(nullable) = field.nullable else {
        return value;
    };
    match emitter.condition_in(field.versions, nullable) {
        None => format!("if luck.null() {{ None }} else {{ Some({value}) }}"),
        Some(condition) => format!("if ({condition}) && luck.null() {{ None }} else {{ Some({value}) }}"),
    }
}

fn plain(kind: &Type) -> String {
    match kind {
        Type::Struct(name) => format!("{}(luck, version)", super::snake(name)),
        Type::Array(element) => format!("(0..luck.count()).map(|_| {}).collect()", plain(element)),
        Type::Records => "luck.bytes()".into(),
        kind => format!("luck.{kind}()"),
    }
}
