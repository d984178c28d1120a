//! Kafka's JSON definitions, brought into the form of our own.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::codegen::schema::{Default, Field, Message, Range, Struct, Type, range};

/// One of Kafka's definitions.
pub(super) struct Definition {
    /// API key or record type.
    pub(super) number: Option<i16>,
    pub(super) message: Message,
}

/// Reads a definition.
pub(super) fn definition(json: &Value) -> Result<Definition> {
    let name = text(json, "name")?;
    let versions = range(text(json, "validVersions")?, i16::MAX)?;
    let flexible_from = match text(json, "flexibleVersions")? {
        "none" => None,
        from => Some(range(from, versions.max)?.min),
    };
    let number = json["apiKey"].as_i64().map(i16::try_from).transpose()?;
    let mut structs = vec![Struct { docs: Vec::new(), name: name.into(), versions, fields: Vec::new() }];
    structs[0].fields = fields(&json["fields"], versions, versions.max, &mut structs)?;
    for common in list(&json["commonStructs"]) {
        let versions = clip(text(common, "versions")?, versions, versions.max)?.context("a struct without versions")?;
        define(text(common, "name")?, common, versions, &mut structs)?;
    }
    Ok(Definition { number, message: Message { name: name.into(), versions, flexible_from, structs } })
}

fn define(name: &str, json: &Value, versions: Range, structs: &mut Vec<Struct>) -> Result<()> {
    let index = structs.len();
    structs.push(Struct { docs: Vec::new(), name: name.into(), versions, fields: Vec::new() });
    structs[index].fields = fields(&json["fields"], versions, versions.max, structs)?;
    Ok(())
}

fn fields(json: &Value, parent: Range, max: i16, structs: &mut Vec<Struct>) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for json in list(json) {
        let name = text(json, "name")?;
        let field = field(name, json, parent, max).with_context(|| name.to_owned())?;
        // Fields of versions that are gone have no bytes any more.
        let Some(field) = field else { continue };
        if json["fields"].is_array() {
            let inner = field.kind.struct_name().context("fields inside something that is no struct")?.to_owned();
            define(&inner, json, field.versions, structs)?;
        }
        fields.push(field);
    }
    Ok(fields)
}

fn field(name: &str, json: &Value, parent: Range, max: i16) -> Result<Option<Field>> {
    // A field that is tagged in all its versions may leave `versions` out.
    let text_of_versions = json["versions"].as_str().or_else(|| json["taggedVersions"].as_str());
    let Some(versions) = clip(text_of_versions.context("no versions")?, parent, max)? else {
        return Ok(None);
    };
    let clipped = |key: &str| json[key].as_str().map_or(Ok(None), |text| clip(text, versions, max));
    let kind = Type::parse(text(json, "type")?)?;
    let tag = match (json["tag"].as_u64(), clipped("taggedVersions")?) {
        (None, None) => None,
        (Some(tag), Some(range)) => Some((u32::try_from(tag)?, range)),
        _ => bail!("a tag and its versions go together"),
    };
    ensure!(json["flexibleVersions"].is_null(), "flexible versions of a single field are not supported");
    Ok(Some(Field {
        docs: Vec::new(),
        name: name.into(),
        default: default(&kind, &json["default"])?,
        kind,
        versions,
        nullable: clipped("nullableVersions")?,
        tag,
        ignorable: json["ignorable"].as_bool().unwrap_or(false),
    }))
}

fn default(kind: &Type, json: &Value) -> Result<Default> {
    let text = match json {
        Value::Null => return Ok(Default::Zero),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(match kind {
        _ if text == "null" => Default::Null,
        Type::Bool => {
            if text.eq_ignore_ascii_case("true") {
                Default::True
            } else {
                Default::Zero
            }
        }
        Type::String if text.is_empty() => Default::Zero,
        Type::String => Default::Text(text),
        _ if kind.is_integer() => {
            let number = match text.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16)?,
                None => text.parse()?,
            };
            if number == 0 { Default::Zero } else { Default::Integer(number) }
        }
        _ if text.is_empty() => Default::Zero,
        _ => bail!("default '{text}' of {kind} is not understood"),
    })
}

/// A range of Kafka's, inside another; `None` if nothing is left of it.
fn clip(text: &str, outer: Range, max: i16) -> Result<Option<Range>> {
    if text == "none" {
        return Ok(None);
    }
    // The upper end of "3+" is that of the message, which may be below 3.
    let min = text.split(['+', '-']).next().unwrap_or_default().parse::<i16>()?;
    if min > max {
        return Ok(None);
    }
    let inner = range(text, max)?;
    let clipped = Range { min: inner.min.max(outer.min), max: inner.max.min(outer.max) };
    Ok((clipped.min <= clipped.max).then_some(clipped))
}

fn text<'a>(json: &'a Value, key: &str) -> Result<&'a str> {
    json[key].as_str().with_context(|| format!("'{key}' is missing"))
}

fn list(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}
