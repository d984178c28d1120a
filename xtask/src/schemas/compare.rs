//! What two definitions of one message disagree about.

use std::fmt::Debug;

use crate::codegen::schema::{Field, Message, Range, Struct};

/// Every contradiction, one line each.
pub(super) fn contradictions(ours: &Message, theirs: &Message) -> Vec<String> {
    let mut found = Found { prefix: ours.name.clone(), lines: Vec::new() };
    found.check("last version", ours.versions.max, theirs.versions.max);
    if ours.versions.min > theirs.versions.min {
        found.line(format!("versions from {} are missing", theirs.versions.min));
    }
    let flexible = |from: Option<i16>| from.unwrap_or(i16::MAX).max(theirs.versions.min);
    found.check("first flexible version", flexible(ours.flexible_from), flexible(theirs.flexible_from));
    for struct_of_theirs in &theirs.structs {
        match ours.find(&struct_of_theirs.name) {
            Some(struct_of_ours) => found.structs(struct_of_ours, struct_of_theirs, theirs.versions),
            None => found.line(format!("struct {} is missing", struct_of_theirs.name)),
        }
    }
    for struct_of_ours in ours.structs.iter().filter(|s| theirs.find(&s.name).is_none()) {
        if clip(struct_of_ours.versions, theirs.versions).is_some() {
            found.line(format!("struct {} is not there", struct_of_ours.name));
        }
    }
    found.lines
}

struct Found {
    prefix: String,
    lines: Vec<String>,
}

impl Found {
    fn line(&mut self, line: String) {
        self.lines.push(format!("{}: {line}", self.prefix));
    }

    fn check<T: PartialEq + Debug>(&mut self, what: &str, ours: T, theirs: T) {
        if ours != theirs {
            self.line(format!("{what} is {ours:?} here, {theirs:?} there"));
        }
    }

    fn structs(&mut self, ours: &Struct, theirs: &Struct, versions: Range) {
        let ours_known: Vec<&Field> =
            ours.fields.iter().filter(|field| clip(field.versions, versions).is_some()).collect();
        let before = self.prefix.clone();
        for field in &theirs.fields {
            self.prefix = format!("{before}/{}.{}", ours.name, field.name);
            match ours_known.iter().find(|candidate| same_name(&candidate.name, &field.name)) {
                Some(candidate) => self.fields(candidate, field, versions),
                None => self.line("field is missing".into()),
            }
        }
        self.prefix = format!("{before}/{}", ours.name);
        for field in &ours_known {
            if !theirs.fields.iter().any(|candidate| same_name(&field.name, &candidate.name)) {
                self.line(format!("field {} is not there", field.name));
            }
        }
        // Tagged fields are written by tag, the others as they are listed.
        let order = |fields: &[&Field]| -> Vec<String> {
            fields.iter().filter(|field| field.tag.is_none()).map(|field| plain_name(&field.name)).collect()
        };
        let theirs_known: Vec<&Field> = theirs.fields.iter().collect();
        let (order_of_ours, order_of_theirs) = (order(&ours_known), order(&theirs_known));
        if order_of_ours != order_of_theirs {
            self.line(format!("fields are in another order: {order_of_ours:?} here, {order_of_theirs:?} there"));
        }
        self.prefix = before;
    }

    fn fields(&mut self, ours: &Field, theirs: &Field, versions: Range) {
        let clipped = |range: Option<Range>| range.and_then(|range| clip(range, versions)).map(|it| it.to_string());
        self.check("type", ours.kind.to_string(), theirs.kind.to_string());
        self.check("default", &ours.default, &theirs.default);
        self.check("range of versions", clipped(Some(ours.versions)), clipped(Some(theirs.versions)));
        self.check("range of nullable versions", clipped(ours.nullable), clipped(theirs.nullable));
        self.check("tag", ours.tag.map(|(tag, _)| tag), theirs.tag.map(|(tag, _)| tag));
        let tagged = |field: &Field| clipped(field.tag.map(|(_, range)| range));
        self.check("range of tagged versions", tagged(ours), tagged(theirs));
        self.check("ignorable", ours.ignorable, theirs.ignorable);
    }
}

/// Ours are in snake case, Kafka's in two kinds of camel case.
fn same_name(ours: &str, theirs: &str) -> bool {
    plain_name(ours) == plain_name(theirs)
}

fn plain_name(name: &str) -> String {
    name.chars().filter(|&c| c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

fn clip(range: Range, outer: Range) -> Option<Range> {
    let clipped = Range { min: range.min.max(outer.min), max: range.max.min(outer.max) };
    (clipped.min <= clipped.max).then_some(clipped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::contradictions;
    use crate::codegen::schema::parse;
    use crate::schemas::kafka::definition;

    fn check(ours: &str, expected: &[&str]) {
        let theirs = json!({
            "name": "X", "validVersions": "1-3", "flexibleVersions": "2+",
            "fields": [
                { "name": "MaxWait", "type": "int32", "versions": "0+", "default": "0x7f" },
                { "name": "Gone", "type": "int32", "versions": "0" },
                { "name": "Topics", "type": "[]Topic", "versions": "1+", "nullableVersions": "2+", "fields": [
                    { "name": "Name", "type": "string", "versions": "3+", "taggedVersions": "3+", "tag": 0, "ignorable": true },
                ]},
            ],
        });
        let schema = parse(&format!("/// D.\ncontrol X versions 0-3 flexible 2+\nvalue {{\n{ours}\n}}\n")).unwrap();
        let found = contradictions(&schema.messages[0], &definition(&theirs).unwrap().message);
        assert_eq!(found, expected);
    }

    const TOPICS: &str = "topics: []Topic, versions 1+, nullable 2+ {\nname: string, versions 3+, tag 0, ignorable\n}";

    #[test]
    fn what_agrees_has_no_contradictions() {
        check(&format!("max_wait: int32 = 127\ngone: int32, versions 0\n{TOPICS}"), &[]);
    }

    #[test]
    fn every_kind_of_contradiction_is_found() {
        check(
            &format!("{TOPICS}\nmax_wait: int64, versions 2+, ignorable\nmore: bool"),
            &[
                "X/X.MaxWait: type is \"int64\" here, \"int32\" there",
                "X/X.MaxWait: default is Zero here, Integer(127) there",
                "X/X.MaxWait: range of versions is Some(\"2-3\") here, Some(\"1-3\") there",
                "X/X.MaxWait: ignorable is true here, false there",
                "X/X: field more is not there",
                "X/X: fields are in another order: [\"topics\", \"maxwait\", \"more\"] here, [\"maxwait\", \"topics\"] there",
            ],
        );
        check(
            "max_wait: int32 = 127\ntopics: []Topic, versions 1+ {\nname: string, versions 3+\n}",
            &[
                "X/X.Topics: range of nullable versions is None here, Some(\"2-3\") there",
                "X/Topic.Name: tag is None here, Some(0) there",
                "X/Topic.Name: range of tagged versions is None here, Some(\"3\") there",
                "X/Topic.Name: ignorable is false here, true there",
                "X/Topic: fields are in another order: [\"name\"] here, [] there",
            ],
        );
        check(
            "max_wait: int32 = 127",
            &[
                "X/X.Topics: field is missing",
                "X/X: fields are in another order: [\"maxwait\"] here, [\"maxwait\", \"topics\"] there",
                "X: struct Topic is missing",
            ],
        );
    }
}
