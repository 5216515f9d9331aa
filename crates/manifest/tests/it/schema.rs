//! The generated schema and page agree with what loads.

use manifest::{artifact_json_schema, json_schema, reference_markdown};

#[test]
fn the_schema_is_what_it_was() {
    let schema = serde_json::to_string_pretty(&json_schema()).unwrap();
    insta::assert_snapshot!(schema);
    insta::assert_snapshot!(serde_json::to_string_pretty(&artifact_json_schema()).unwrap());
}

#[test]
fn the_page_is_what_it_was() {
    insta::assert_snapshot!(reference_markdown());
}

#[test]
fn every_mapping_of_the_schema_is_closed_and_every_key_described() {
    fn walk(value: &serde_json::Value, mappings: &mut usize) {
        if let Some(properties) = value.get("properties").and_then(serde_json::Value::as_object) {
            *mappings += 1;
            assert_eq!(value["additionalProperties"], false);
            for (key, property) in properties {
                assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{key}");
                walk(property, mappings);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = value.get(key) {
                walk(inner, mappings);
            }
        }
    }
    let mut mappings = 0;
    walk(&json_schema(), &mut mappings);
    assert!(mappings > 30, "{mappings}");
}
