//! Which tools can be called, and with which arguments.

use mcp::{Call, Error, validate};
use serde_json::{Map, Value, json};

use crate::support::{Fake, Reaction, arguments, never};

fn listing(tools: Value) -> Fake {
    Fake::on("tools/list", move |_| Reaction::Result(json!({"tools": tools.clone()})))
}

async fn call(fake: &Fake, tool: &str, input: Value) -> Result<(), Error> {
    let input = arguments(input);
    fake.kept()
        .call(&Call { tool, arguments: &input, definition: None, meta: None, confirm: None }, never())
        .await
        .map(drop)
}

#[tokio::test]
async fn only_a_usable_tool_of_exactly_that_name_is_called() {
    let fake = listing(json!([
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "a b", "inputSchema": {"type": "object"}},
        {"name": "bare"},
    ]));
    for tool in ["Echo", "echo ", "nothing", ""] {
        let failed = call(&fake, tool, json!({})).await.unwrap_err();
        assert!(matches!(failed, Error::ToolNotFound { .. }), "{failed}");
    }
    for tool in ["twice", "a b", "bare"] {
        let failed = call(&fake, tool, json!({})).await.unwrap_err();
        assert!(matches!(&failed, Error::ToolUnusable { tool: named, .. } if named == tool), "{failed}");
    }
    assert!(fake.got("tools/call").is_empty());
    call(&fake, "echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(fake.got("tools/call").len(), 1);
}

#[tokio::test]
async fn a_broken_entry_does_not_hide_the_others() {
    let fake = listing(
        json!([{"name": "good", "inputSchema": {}}, {"name": 7}, "nonsense", {"name": "odd", "description": 9, "inputSchema": []}]),
    );
    let catalog = fake.ephemeral().discover().await.unwrap();
    let found: Vec<_> = catalog.tools().iter().map(|tool| (tool.name.as_str(), tool.unusable.is_none())).collect();
    assert_eq!(found, [("good", true), ("", false), ("", false), ("odd", false)]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_not_sent() {
    let fake = Fake::usual();
    let failed = call(&fake, "echo", json!({"text": 7})).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the arguments of `echo` do not fit its schema: /text: value is not of type \"string\""
    );
    assert!(!failed.may_have_run());
    assert!(call(&fake, "echo", json!({})).await.is_err());
    assert!(fake.got("tools/call").is_empty());
    call(&fake, "echo", json!({"text": "7"})).await.unwrap();
    assert_eq!(fake.got("tools/call").len(), 1);
}

/// Checks arguments against a schema as a server would list it.
async fn check(schema: Value, input: Value) -> Result<(), Error> {
    let catalog = listing(json!([{"name": "t", "inputSchema": schema}])).ephemeral().discover().await.unwrap();
    validate("t", &catalog.find("t").unwrap().input_schema, &arguments(input))
}

#[tokio::test]
async fn a_schema_that_points_elsewhere_cannot_be_used_and_one_that_points_at_itself_can() {
    let inner =
        json!({"type": "object", "$defs": {"n": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
    assert!(check(inner.clone(), json!({"a": 1})).await.is_ok());
    assert!(matches!(check(inner, json!({"a": "1"})).await, Err(Error::Arguments { .. })));
    for elsewhere in
        ["http://127.0.0.1:1/schema", "https://example.com/s.json", "file:///etc/passwd", "other.json", "#/$defs/none"]
    {
        let failed = check(json!({"properties": {"a": {"$ref": elsewhere}}}), json!({"a": 1})).await;
        assert!(matches!(failed, Err(Error::ToolUnusable { .. })), "{elsewhere}: {failed:?}");
    }
}

#[tokio::test]
async fn a_tool_whose_schema_checks_nothing_is_shown_as_unusable() {
    let cases = [
        (json!({"properties": {"a": {"$ref": "#/$defs/none"}}}), Some("it refers to something that is not in it")),
        (json!({"properties": {"a": {"$ref": "https://example.com/s.json"}}}), Some("it refers to something")),
        (json!({"properties": {"a": {"type": "string", "pattern": "(["}}}), Some("")),
        (json!({"properties": {"a": {"type": "strnig"}}}), Some("")),
        (json!({"properties": {"a": {"type": "string", "pattern": "^(?!x)[a-z]+$"}}}), None),
    ];
    for (schema, expected) in cases {
        let fake = listing(json!([{"name": "t", "inputSchema": schema}, {"name": "u", "inputSchema": {}}]));
        let catalog = fake.ephemeral().discover().await.unwrap();
        let unusable = |name| catalog.find(name).unwrap().unusable.clone();
        match (unusable("t"), expected) {
            (Some(why), Some(expected)) => {
                let begins = format!("its input schema cannot be used: {expected}");
                assert!(why.starts_with(&begins) && why.lines().count() == 1, "{why}");
            }
            (why, expected) => assert_eq!((why, expected), (None, None), "{schema}"),
        }
        assert_eq!(unusable("u"), None);
        let called = call(&fake, "t", json!({"a": "b"})).await;
        assert_eq!(
            (called.is_ok(), fake.got("tools/call").len()),
            (expected.is_none(), usize::from(expected.is_none()))
        );
    }
}

#[tokio::test]
async fn a_description_has_two_thousand_characters_at_most() {
    let described = async |length: usize| {
        let tool = json!({"name": "t", "description": "é".repeat(length), "inputSchema": {}});
        let catalog = listing(json!([tool])).ephemeral().discover().await.unwrap();
        catalog.find("t").unwrap().description.clone().unwrap()
    };
    assert_eq!(described(2_000).await, "é".repeat(2_000));
    assert_eq!(described(2_001).await, format!("{}…", "é".repeat(1_999)));
}

#[tokio::test]
async fn many_faults_are_told_as_a_few() {
    let names: Vec<String> = (0..9).map(|number| format!("f{number}")).collect();
    let properties: Map<String, Value> = names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let input: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(1))).collect();
    match check(json!({"properties": properties}), Value::Object(input)).await {
        Err(Error::Arguments { faults, .. }) => {
            assert_eq!(faults.len(), 6);
            assert_eq!((faults[0].as_str(), faults[5].as_str()), ("/f0: value is not of type \"string\"", "and more"));
        }
        other => panic!("{other:?}"),
    }
}
