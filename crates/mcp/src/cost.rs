//! What checking against a schema can cost, before anybody checks.
//!
//! A validator follows references and branches wherever a schema sends it: a reference in a circle ends the
//! process by its stack, and thirty lines of references that double take for ever. A schema comes from a
//! server, so its cost is estimated first, from above: how many subschemas one value meets, and how many
//! meet each value within it. Only references to the schema's own parts, by pointer, are understood.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Subschemas that one value may meet.
const MAX_SAME: u64 = 10_000;

/// Subschemas that all values together may meet.
const MAX_TOTAL: u64 = 100_000_000;

/// How far references and branches may lead before a value is looked at; each step takes stack.
const MAX_LEVEL: usize = 200;

/// Keywords whose values are data and no schemas.
const DATA: &[&str] = &["const", "default", "enum", "examples"];

/// Keywords that apply one schema to the same value.
const SAME_ONE: &[&str] = &["not", "if", "then", "else"];
/// Those that apply each of a list.
const SAME_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Those that apply some of a map.
const SAME_MAP: &[&str] = &["dependentSchemas", "dependencies"];
/// Keywords that apply one schema to the values within; `items` may be a list, one for each value.
const WITHIN_ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that refer in ways that are not followed here.
const UNKNOWN: &[&str] = &["$dynamicRef", "$recursiveRef"];

/// What one value in a subschema's hands leads to.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Subschemas that it meets.
    same: u64,
    /// Subschemas that a value directly within it may meet first.
    within: u64,
}

struct Estimate<'s> {
    root: &'s Value,
    /// By the subschema's place in memory; `None` while it is being estimated.
    known: HashMap<*const Value, Option<Cost>>,
    worst: Cost,
    level: usize,
    fault: Option<&'static str>,
}

/// Whether checking a value of this depth is affordable.
///
/// # Errors
/// What is wrong with the schema.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), &'static str> {
    let mut estimate = Estimate { root: schema, known: HashMap::new(), worst: Cost::default(), level: 0, fault: None };
    estimate.all(schema, true);
    if let Some(fault) = estimate.fault {
        return Err(fault);
    }
    let Cost { same, within } = estimate.worst;
    let total = within.max(1).saturating_pow(depth(value)).saturating_mul(same);
    if same > MAX_SAME || total > MAX_TOTAL { Err("checking against it would cost too much") } else { Ok(()) }
}

impl<'s> Estimate<'s> {
    /// Estimates every object within the schema as if it were a subschema: one that is none costs little.
    fn all(&mut self, value: &'s Value, is_root: bool) {
        match value {
            Value::Object(map) => {
                let is_elsewhere = !is_root && map.get("$id").is_some_and(Value::is_string);
                if is_elsewhere || UNKNOWN.iter().any(|keyword| map.contains_key(*keyword)) {
                    self.fault = Some("it refers to parts of itself in a way that is not supported");
                }
                let cost = self.of(value);
                self.worst.same = self.worst.same.max(cost.same);
                self.worst.within = self.worst.within.max(cost.within);
                let inner = map.iter().filter(|(keyword, _)| !DATA.contains(&keyword.as_str()));
                inner.for_each(|(_, inner)| self.all(inner, false));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.all(inner, false)),
            _ => {}
        }
    }

    fn of(&mut self, schema: &'s Value) -> Cost {
        let Value::Object(map) = schema else { return Cost { same: 1, within: 0 } };
        let place = std::ptr::from_ref(schema);
        match self.known.get(&place) {
            Some(Some(cost)) => return *cost,
            Some(None) => {
                self.fault = Some("it refers to itself in a circle");
                return Cost::default();
            }
            None => {}
        }
        self.known.insert(place, None);
        let mut cost = Cost { same: 1, within: within(map) };
        for inner in same(map) {
            self.add(&mut cost, inner);
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            match reference.strip_prefix('#').and_then(|pointer| self.root.pointer(&decoded(pointer))) {
                Some(target) => self.add(&mut cost, target),
                None => self.fault = Some("it refers to something that is not in it"),
            }
        }
        self.known.insert(place, Some(cost));
        cost
    }

    fn add(&mut self, cost: &mut Cost, inner: &'s Value) {
        if self.level >= MAX_LEVEL {
            self.fault = Some("it refers to itself over too many steps");
            return;
        }
        self.level += 1;
        let inner = self.of(inner);
        self.level -= 1;
        cost.same = cost.same.saturating_add(inner.same);
        cost.within = cost.within.saturating_add(inner.within);
    }
}

/// The subschemas that meet the same value.
fn same(map: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let one = SAME_ONE.iter().filter_map(|keyword| map.get(*keyword));
    let list = SAME_LIST.iter().filter_map(|keyword| map.get(*keyword)?.as_array()).flatten();
    let maps = SAME_MAP.iter().filter_map(|keyword| map.get(*keyword)?.as_object()).flat_map(Map::values);
    one.chain(list).chain(maps)
}

/// How many subschemas may meet one value directly within.
fn within(map: &Map<String, Value>) -> u64 {
    let is_given = |keyword: &&&str| map.get(**keyword).is_some_and(|schema| schema.is_object() || schema.is_array());
    let one = WITHIN_ONE.iter().filter(is_given).count();
    // At most one of these for each value.
    let named = usize::from(map.contains_key("properties")) + usize::from(map.contains_key("prefixItems"));
    let patterns = map.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
    u64::try_from(one + named + patterns).unwrap_or(u64::MAX)
}

/// A pointer in a reference may be percent-encoded; only what a pointer needs is decoded.
fn decoded(pointer: &str) -> String {
    pointer.replace("%24", "$").replace("%25", "%")
}

fn depth(value: &Value) -> u32 {
    match value {
        Value::Object(map) => map.values().map(depth).max().unwrap_or(0).saturating_add(1),
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0).saturating_add(1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(schema: &Value, value: &Value) -> Option<&'static str> {
        check(schema, value).err()
    }

    #[test]
    fn a_reference_in_a_circle_is_refused_and_a_recursive_type_is_not() {
        let circle = Some("it refers to itself in a circle");
        assert_eq!(refused(&json!({"$ref": "#"}), &json!({})), circle);
        let two = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}});
        assert_eq!(refused(&two, &json!({})), circle);
        let unused = json!({"properties": {"x": {"$ref": "#/properties/x"}}});
        assert_eq!(refused(&unused, &json!({})), circle);
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": false});
        assert_eq!(refused(&tree, &json!({"left": {"left": {"right": {}}}})), None);
    }

    #[test]
    fn references_that_double_are_refused_and_a_few_are_not() {
        let doubling = |levels: usize| {
            let mut definitions = Map::new();
            for level in 0..levels {
                let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
                definitions.insert(format!("l{level}"), json!({"allOf": [next, next]}));
            }
            definitions.insert(format!("l{levels}"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/l0", "$defs": definitions})
        };
        assert_eq!(refused(&doubling(5), &json!({})), None);
        assert_eq!(refused(&doubling(40), &json!({})), Some("checking against it would cost too much"));
        let deep = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}}});
        let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(refused(&deep, &nested(3)), None);
        let wide = json!({"allOf": [deep["properties"]["a"]["allOf"][0], {"properties": {"a": {"$ref": "#"}}}]});
        assert!(refused(&wide, &nested(3)).is_some(), "it refers to itself");
        let twice = json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        assert_eq!(refused(&twice, &nested(10)), None);
        assert_eq!(refused(&twice, &nested(60)), Some("checking against it would cost too much"));
    }

    #[test]
    fn a_long_chain_of_references_is_refused_and_a_short_one_is_not() {
        let chain = |length: usize| {
            let link = |at: usize| (format!("l{at}"), json!({"$ref": format!("#/$defs/l{}", at + 1)}));
            let mut definitions: Map<String, Value> = (0..length).map(link).collect();
            definitions.insert(format!("l{length}"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/l0", "$defs": definitions})
        };
        assert_eq!(refused(&chain(100), &json!({})), None);
        assert_eq!(refused(&chain(5_000), &json!({})), Some("it refers to itself over too many steps"));
    }

    #[test]
    fn data_in_a_schema_is_no_schema() {
        let schema =
            json!({"properties": {"$ref": {"default": {"$ref": "#/none"}}, "b": {"enum": [{"$dynamicRef": "#x"}]}}});
        assert_eq!(refused(&schema, &json!({"$ref": 1})), None);
    }

    #[test]
    fn only_pointers_into_the_schema_itself_are_followed() {
        for reference in ["#/$defs/none", "other.json", "http://localhost/a", "#anchor"] {
            assert_eq!(
                refused(&json!({"items": {"$ref": reference}}), &json!({})),
                Some("it refers to something that is not in it")
            );
        }
        for schema in [json!({"properties": {"a": {"$id": "b"}}}), json!({"$dynamicRef": "#x"})] {
            assert_eq!(
                refused(&schema, &json!({})),
                Some("it refers to parts of itself in a way that is not supported")
            );
        }
        let fine = json!({"$id": "https://example.com/a", "properties": {"a": {"$ref": "#/%24defs/x~1y"}}, "$defs": {"x/y": {}}});
        assert_eq!(refused(&fine, &json!({})), None);
    }
}
