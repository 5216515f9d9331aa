//! Spans as a tree of lines, so that a test can say the whole of what it expects.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;

/// The spans below those without a known parent, with attributes; `names` are ids and what to say for them.
pub(crate) fn tree(spans: &[Span], names: &[(&str, &str)]) -> String {
    let known = |id: &[u8]| spans.iter().any(|span| span.span_id == id);
    let mut lines = String::new();
    for root in spans.iter().filter(|span| !known(&span.parent_span_id)) {
        show(spans, root, 0, &mut lines);
    }
    names.iter().fold(lines, |lines, (id, name)| lines.replace(id, name))
}

/// The names of the spans alone, indented below their parents.
pub(crate) fn outline(spans: &[Span]) -> String {
    let tree = tree(spans, &[]);
    tree.lines().filter(|line| line.trim_start().starts_with("* ")).map(|line| format!("{line}\n")).collect()
}

pub(crate) fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span is named `{name}`"));
    assert!(found.next().is_none(), "two spans are named `{name}`");
    span
}

fn show(spans: &[Span], span: &Span, depth: usize, lines: &mut String) {
    let indent = "  ".repeat(depth);
    let kind = span.kind().as_str_name().trim_start_matches("SPAN_KIND_").to_lowercase();
    let status = span.status.as_ref().map(|status| {
        let code = status.code().as_str_name().trim_start_matches("STATUS_CODE_").to_lowercase();
        format!(" [{code}{}{}]", if status.message.is_empty() { "" } else { ": " }, status.message)
    });
    let remote = if span.flags & 0x200 == 0 { "" } else { " remote parent" };
    lines.push_str(&format!("{indent}* {} ({kind}){}{remote}\n", span.name, status.unwrap_or_default()));
    attributes(&span.attributes, &format!("{indent}    "), lines);
    for link in &span.links {
        let target = spans.iter().find(|other| other.span_id == link.span_id && other.trace_id == link.trace_id);
        lines.push_str(&format!("{indent}    -> {}\n", target.map_or("?", |span| span.name.as_str())));
    }
    for event in &span.events {
        lines.push_str(&format!("{indent}    ! {}\n", event.name));
        attributes(&event.attributes, &format!("{indent}        "), lines);
    }
    let mut children: Vec<&Span> = spans.iter().filter(|child| child.parent_span_id == span.span_id).collect();
    children.sort_by_key(|child| child.start_time_unix_nano);
    for child in children {
        assert_eq!(child.trace_id, span.trace_id, "a child is of its parent's trace");
        assert!(child.start_time_unix_nano >= span.start_time_unix_nano, "{} before {}", child.name, span.name);
        assert!(child.end_time_unix_nano <= span.end_time_unix_nano, "{} after {}", child.name, span.name);
        show(spans, child, depth + 1, lines);
    }
}

fn attributes(list: &[KeyValue], indent: &str, lines: &mut String) {
    for attribute in list {
        lines.push_str(&format!("{indent}{} = {}\n", attribute.key, text(attribute.value.as_ref().unwrap())));
    }
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::ArrayValue(array) => {
            format!("[{}]", array.values.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        other => panic!("an attribute of a kind that is not used: {other:?}"),
    }
}
