//! The nodes of a topology as a graph in text.
//!
//! From each node that nothing leads to, lines go down along its output. A chain stays in its column; where a node has
//! several outputs, all but the last are set to the right. A node that was shown already is named again and not followed,
//! so that whatever a peer says of successors comes to an end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use riparian_client::admin::{Node, NodeKind, TopologyNodes};
use serde_json::{Value, json};

use crate::output::visible;

/// Columns beyond which lines are not set further to the right.
const INDENT_MAX: usize = 30;

pub(super) fn text(nodes: Option<&TopologyNodes>) -> String {
    let Some(nodes) = nodes else {
        return "  No member has described the topology (yet); clients do since version 4.4 of Kafka Streams.\n"
            .to_owned();
    };
    let mut text = String::new();
    for (id, nodes) in &nodes.subtopologies {
        writeln!(text, "  Subtopology {}", visible(id)).expect("writing to a string succeeds");
        subtopology(&mut text, nodes);
    }
    for (source, processor) in &nodes.global_stores {
        writeln!(text, "  Global store").expect("writing to a string succeeds");
        subtopology(&mut text, &[source.clone(), processor.clone()]);
    }
    text
}

fn subtopology(text: &mut String, nodes: &[Node]) {
    let by_name: BTreeMap<&str, &Node> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let reached: BTreeSet<&str> = nodes.iter().flat_map(|node| &node.successors).map(String::as_str).collect();
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    let starts = nodes.iter().filter(|node| !reached.contains(node.name.as_str()));
    // Nodes in a circle have no start.
    for start in starts.chain(nodes) {
        if shown.contains(start.name.as_str()) {
            continue;
        }
        // What is to be shown, the next last: how far to the right, and behind which sign.
        let mut open = vec![(0, "", start.name.as_str())];
        while let Some((depth, sign, name)) = open.pop() {
            let indent = "|  ".repeat(depth.min(INDENT_MAX));
            let node = by_name.get(name).filter(|_| shown.insert(name));
            let what = node.map_or_else(|| format!("{} (above)", visible(name)), |node| line(node));
            let what = if by_name.contains_key(name) { what } else { format!("{} (unknown)", visible(name)) };
            writeln!(text, "    {indent}{sign}{what}").expect("writing to a string succeeds");
            let Some((last, others)) = node.and_then(|node| node.successors.split_last()) else { continue };
            open.push((depth, "-> ", last));
            open.extend(others.iter().rev().map(|name| (depth + 1, "-> ", name.as_str())));
        }
    }
}

fn line(node: &Node) -> String {
    let mut line = visible(&node.name).into_owned();
    let list = |names: &[String]| visible(&names.join(", ")).into_owned();
    match (node.kind, &node.sink_topic) {
        (NodeKind::Source, _) if node.source_topics.is_empty() => line.push_str("  reads topics by a pattern"),
        (NodeKind::Sink, None) => line.push_str("  writes topics of its choice"),
        (_, Some(topic)) => line.push_str(&format!("  writes {}", visible(topic))),
        _ => {}
    }
    if !node.source_topics.is_empty() {
        line.push_str(&format!("  reads {}", list(&node.source_topics)));
    }
    if !node.stores.is_empty() {
        line.push_str(&format!("  stores {}", list(&node.stores)));
    }
    line
}

pub(super) fn json(nodes: Option<&TopologyNodes>) -> Value {
    let node = |node: &Node| {
        json!({
            "name": node.name,
            "kind": match node.kind {
                NodeKind::Source => "source",
                NodeKind::Processor => "processor",
                NodeKind::Sink => "sink",
                NodeKind::Unknown => "unknown",
            },
            "source_topics": node.source_topics,
            "sink_topic": node.sink_topic,
            "stores": node.stores,
            "successors": node.successors,
        })
    };
    let Some(nodes) = nodes else { return Value::Null };
    let subtopologies = nodes.subtopologies.iter();
    let stores = nodes.global_stores.iter();
    json!({
        "subtopologies": subtopologies
            .map(|(id, nodes)| json!({ "id": id, "nodes": nodes.iter().map(node).collect::<Vec<_>>() }))
            .collect::<Vec<_>>(),
        "global_stores": stores
            .map(|(source, processor)| json!({ "source": node(source), "processor": node(processor) }))
            .collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a > b c`, one node per line.
    fn check(nodes: &str, expected: &str) {
        let nodes: Vec<Node> = nodes
            .lines()
            .map(|line| {
                let (name, successors) = line.trim().split_once(" >").unwrap();
                let successors = successors.split_whitespace().map(str::to_owned).collect();
                Node { name: name.to_owned(), successors, kind: NodeKind::Processor, ..Node::default() }
            })
            .collect();
        let mut text = String::new();
        subtopology(&mut text, &nodes);
        assert_eq!(text.lines().map(|line| &line[4..]).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn a_chain_stays_in_its_column_and_branches_do_not() {
        check("a > b\nb > c\nc >", "a\n-> b\n-> c");
        check("a > b c d\nb > e\nc >\nd >\ne >", "a\n|  -> b\n|  -> e\n|  -> c\n-> d");
        check("a > c\nb > c\nc >", "a\n-> c\nb\n-> c (above)");
    }

    #[test]
    fn whatever_is_said_of_successors_comes_to_an_end() {
        check("a > b\nb > a", "a\n-> b\n-> a (above)");
        check("a > a x", "a\n|  -> a (above)\n-> x (unknown)");
    }

    #[test]
    fn topics_and_stores_stand_beside_their_nodes() {
        let source = Node {
            name: "s".into(),
            kind: NodeKind::Source,
            source_topics: vec!["in\u{1b}".into()],
            ..Node::default()
        };
        let sink = Node { name: "t".into(), kind: NodeKind::Sink, sink_topic: Some("out".into()), ..Node::default() };
        let store = Node { name: "p".into(), kind: NodeKind::Processor, stores: vec!["x".into()], ..Node::default() };
        assert_eq!(line(&source), "s  reads in\\u{1b}");
        assert_eq!(line(&sink), "t  writes out");
        assert_eq!(line(&store), "p  stores x");
    }
}
