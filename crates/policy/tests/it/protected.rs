//! What a result is protected into: envelopes in every place, malformed ones, rules, adapters, and the tasks' borders.

use std::sync::Arc;

use fence::Source;
use policy::{
    Action, ActionKind, Bindings, Catalog, CatalogTool, ClearedCall, Connection, Connections, Consumer, Effect,
    FixedConnections, Gates, Handle, Lifecycle, ManagedReference, Permit, Policy, ProtectedStream, ProtectedValues,
    RawPart, RawResult, Reach, Resolve, Review, Rules, SecretRule, Shown, TaskIdentity, Unresolved,
};
use proptest::prelude::*;
use secrets::Redactor;
use serde_json::{Value, json};
use vocab::BoxFuture;

use crate::{ready, text};

pub(crate) const WITHHELD: &str = "the tool ran and its result is withheld: ";
pub(crate) const MALFORMED: &str =
    "malformed_sensitive_response: it marks a value as sensitive in a form that is not valid";
const VALUE: &str = "s3cret-value/+\"ü";

pub(crate) fn open() -> (ProtectedValues, Redactor) {
    let redactor = Redactor::new();
    (ProtectedValues::new(TaskIdentity::default(), redactor.clone()), redactor)
}

pub(crate) fn fenced(raw: RawResult, (values, redactor): &(ProtectedValues, Redactor)) -> Shown {
    raw.protect(values).redact(redactor).fence(&Source::tool("t"))
}

/// What the model reads of a result, without the fence and with each handle's random part left out.
pub(crate) fn content(shown: &Shown) -> String {
    let whole: String = shown.parts.iter().map(text).collect();
    fence::parse(&whole).block.unwrap().content.to_owned()
}

/// A text with each handle's random part left out.
pub(crate) fn plain(text: &str) -> String {
    let mut pieces = text.split("protected://");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |text, piece| text + "protected://" + piece.get(24..).unwrap())
}

/// What the model reads of this text.
pub(crate) fn seen(text: &str) -> String {
    plain(&content(&fenced(RawResult::ok(text), &open())))
}

pub(crate) fn envelope(kind: &str, value: &Value) -> Value {
    json!({"$burrowSensitive": {"type": kind, "value": value}})
}

/// The values that the handles in a text stand for.
fn bound(policy: &Policy, text: &str) -> Vec<String> {
    let action = Action::new("c", "shell_exec", ActionKind::ShellExec).with(Effect::command("true"));
    let Review::Allowed(approved) = ready(policy.review(action)) else { panic!("no rule covers it") };
    let permit = ready(approved.renew()).unwrap();
    handles(text).iter().map(|handle| value(&permit, handle).unwrap_or_else(|error| error)).collect()
}

fn handles(text: &str) -> Vec<Handle> {
    text.match_indices("protected://").map(|(at, _)| Handle::parse(text.get(at..at + 36).unwrap()).unwrap()).collect()
}

fn value(permit: &Permit, handle: &Handle) -> Result<String, String> {
    let asked = [("V".to_owned(), handle.as_str().to_owned())].into();
    let given = ready(permit.bind(&Bindings::parse(&asked).unwrap())).map_err(|error| error.to_string())?;
    Ok(given[0].1.expose().to_owned())
}

fn task() -> (Policy, Redactor) {
    let (values, redactor) = open();
    (Policy::new(Rules::new("/w".into())).for_task(Gates::default()).with_values(values), redactor)
}

#[test]
fn an_envelope_becomes_a_handle_wherever_it_stands() {
    let token = envelope("token", &json!(VALUE)).to_string();
    let mark = "\"[protected token: protected://]\"";
    let inner = json!({"a": envelope("token", &json!(VALUE))}).to_string();
    let pretty = serde_json::to_string_pretty(&json!({"a": envelope("token", &json!(VALUE))})).unwrap();
    let escaped = mark.replace('"', "\\\"");
    for (text, expected) in [
        (token.clone(), mark.to_owned()),
        (format!(" {{\"a\" : [1,{token} ] }}\n"), format!(" {{\"a\" : [1,{mark} ] }}\n")),
        (format!("passed: it {{\n{token}\nend"), format!("passed: it {{\n{mark}\nend")),
        (format!("{token}{token}"), format!("{mark}{mark}")),
        (json!({"text": inner}).to_string(), format!("{{\"text\":\"{{\\\"a\\\":{escaped}}}\"}}")),
        (json!({"text": pretty}).to_string(), format!("{{\"text\":\"{{\\n  \\\"a\\\": {escaped}\\n}}\"}}")),
        (inner.replace('"', "\\u0022").replace("\\\\u0022", "\\\\\\u0022"), format!("{{\\u0022a\\u0022:{escaped}}}")),
        (
            json!({"outer": json!({"text": inner}).to_string()}).to_string(),
            json!({"outer": json!({"text": "{\"a\":\"[protected token: protected://]\"}"}).to_string()}).to_string(),
        ),
        (token.replace(':', " :\n\t"), mark.to_owned()),
        (
            "{\"$burrowSensitive\":{\"value\":\"x\\u0000y\",\"type\":\"secret\"}}".to_owned(),
            mark.replace("token", "secret"),
        ),
    ] {
        assert_eq!(seen(&text), expected, "{text}");
    }
}

#[test]
fn every_type_and_every_kind_of_value_is_given_back_as_it_was_written() {
    let (policy, redactor) = task();
    for kind in ["credential", "secret", "token", "password", "private-key"] {
        for (written, given) in
            [("\"a\\nb\"", "a\nb"), ("12.50", "12.50"), ("-1e400", "-1e400"), ("true", "true"), ("\"\"", "")]
        {
            let text = format!("{{\"$burrowSensitive\":{{\"type\":\"{kind}\",\"value\":{written}}}}}");
            let shown = RawResult::ok(text).protect(policy.values()).redact(&redactor).fence(&Source::tool("t"));
            assert_eq!(shown.facts.protected, 1);
            assert_eq!(plain(&content(&shown)), format!("\"[protected {kind}: protected://]\""));
            assert_eq!(bound(&policy, &content(&shown)), [given]);
        }
    }
}

#[test]
fn what_is_malformed_withholds_the_whole_and_drops_what_was_taken() {
    let inside = |text: &str| format!("{{\"$burrowSensitive\":{text}}}");
    let good = envelope("token", &json!(VALUE)).to_string();
    let deep = (0..8).fold(good.clone(), |text, _| json!({"t": text}).to_string());
    for bad in [
        inside(r#"{"type":"api-key","value":"x"}"#),
        inside(r#"{"type":"token","value":null}"#),
        inside(r#"{"type":"token","value":{"a":1}}"#),
        inside(r#"{"type":"token","value":["x"]}"#),
        inside(r#"{"type":"token"}"#),
        inside(r#"{"value":"x"}"#),
        inside(r#"{"type":"token","value":"x","note":"y"}"#),
        inside(r#"{"type":"token","value":"x","value":"y"}"#),
        inside(r#"{"Type":"token","value":"x"}"#),
        inside("\"x\""),
        inside("null"),
        inside(r#"{"type":"token","value":01}"#),
        inside(r#"{"type":"token","value":"x",}"#),
        inside(&format!("{{\"type\":\"token\",\"value\":{good}}}")),
        inside(&format!("{{\"type\":\"token\",\"value\":{}}}", json!(good))),
        r#"{"$burrowSensitive":{"type":"token","value":"x"},"a":1}"#.to_owned(),
        r#"{"a":1,"$burrowSensitive":{"type":"token","value":"x"}}"#.to_owned(),
        r#"{"$burrowSensitive":{"type":"token","value":"x"},"$burrowSensitive":{"type":"token","value":"x"}}"#
            .to_owned(),
        r#"{"$burrowSensitive":{"type":"token","value":"x"#.to_owned(),
        r#"{"$burrowSensitive":"#.to_owned(),
        r"{'$burrowSensitive': {'type': 'token', 'value': 'x'}}".to_owned(),
        r#"{"\u0024burrowSensitive":{"type":"token","value":"x"}}"#.to_owned(),
        "$burrowSensitive: {type: token, value: x}".to_owned(),
        r#"{"t":"{\"$burrowSensitive\":{\"type\":\"token\",\"value\":\"x"}"#.to_owned(),
        r#"{"$burrowManaged":{"issuer":"c","reference":"r","version":1,"type":"token","expiresAt":9e3}}"#.to_owned(),
        deep,
    ] {
        let store = open();
        let shown = fenced(RawResult::ok(format!("{good} then {bad}")), &store);
        assert_eq!((content(&shown), shown.is_error), (format!("{WITHHELD}{MALFORMED}"), true), "{bad}");
        assert!(store.0.is_empty(), "{bad}");
        assert!(!store.1.is_clean(VALUE), "what was taken stays redacted: {bad}");
    }
    let many = good.repeat(1025);
    let store = open();
    assert!(content(&fenced(RawResult::ok(many), &store)).starts_with(WITHHELD) && store.0.is_empty());
    let long = envelope("token", &json!("x".repeat(64 * 1024 + 1))).to_string();
    assert!(seen(&long).starts_with(WITHHELD));
}

#[test]
fn without_a_task_nothing_is_taken() {
    let store = (ProtectedValues::default(), Redactor::new());
    let shown = fenced(RawResult::ok(envelope("token", &json!(VALUE)).to_string()), &store);
    assert!(content(&shown).starts_with(WITHHELD));
}

#[test]
fn the_value_is_redacted_beside_its_envelope_and_in_every_later_result() {
    let store = open();
    let shown = fenced(RawResult::ok(format!("{} s3cret-value", envelope("token", &json!("s3cret-value")))), &store);
    assert_eq!(plain(&content(&shown)), "\"[protected token: protected://]\" [redacted]");
    assert_eq!(content(&fenced(RawResult::error("s3cret-value?"), &store)), "[redacted]?");
}

#[test]
fn every_part_is_protected_and_an_image_is_none_of_it() {
    let image = RawPart::Image { media_type: "image/png".into(), data: "aGk=".into() };
    let parts =
        vec![RawPart::Text("a".into()), image, RawPart::Text(envelope("secret", &json!("abcdefgh")).to_string())];
    let shown = fenced(RawResult::of_parts(parts, false), &open());
    assert_eq!(
        plain(text(&shown.parts[0])),
        "<untrusted-content source=tool:t>\na\n\"[protected secret: protected://]\"\n"
    );
    assert_eq!((shown.parts.len(), shown.facts.protected), (3, 1));
}

#[test]
fn a_handle_belongs_to_its_task() {
    let ((one, redactor), (two, _)) = (task(), task());
    let shown = RawResult::ok(envelope("token", &json!(VALUE)).to_string()).protect(one.values());
    let text = content(&shown.redact(&redactor).fence(&Source::tool("t")));
    assert_eq!(bound(&one, &text), [VALUE]);
    assert_eq!(bound(&two, &text), ["protected_binding_not_found:V"]);
    one.values().end();
    assert_eq!(bound(&one, &text), ["protected_binding_not_found:V"]);
}

fn granted(connection: &Connection, tool: &str) -> (Policy, Arc<FixedConnections>, Redactor) {
    let catalog = Catalog::new(vec![CatalogTool {
        name: tool.into(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        definition: "d".into(),
        unusable: None,
        mod_authorized: false,
    }]);
    let mut record = Connections::default();
    record.put(connection.clone()).unwrap();
    record.grant("agent", connection, tool, &catalog).unwrap();
    let connectors = Arc::new(FixedConnections::none());
    connectors.set(record);
    connectors.offer(&connection.id, catalog);
    let (policy, redactor) = task();
    let source: Arc<dyn policy::Connectors> = connectors.clone();
    (policy.with_connectors("agent", source), connectors, redactor)
}

pub(crate) fn connection() -> Connection {
    Connection {
        id: "conn".into(),
        name: "Vault".into(),
        enabled: true,
        reach: Reach::Stdio { command: "server".into(), args: Vec::new() },
        lifecycle: Lifecycle::Ephemeral,
        variables: Default::default(),
        secrets: Default::default(),
        adapter: None,
        secret_rules: Vec::new(),
        resolver: None,
    }
}

fn call(policy: &Policy, tool: &str) -> ClearedCall {
    let action = Action::new("c", "mcp_call", ActionKind::McpCall).with(Effect::connected("conn", tool));
    let Review::Allowed(approved) = ready(policy.review(action)) else { panic!("it is granted") };
    ready(approved.renew()).unwrap().confirm_call().unwrap().clone()
}

/// What the model reads of these parts when this tool of the connection answers them.
pub(crate) fn answered(connection: &Connection, tool: &str, parts: &[&str], is_error: bool) -> (String, Vec<String>) {
    let (policy, _, redactor) = granted(connection, tool);
    let parts = parts.iter().map(|text| RawPart::Text((*text).to_owned())).collect();
    let raw = RawResult::of_parts(parts, is_error).answered_by(&call(&policy, tool));
    let text = content(&raw.protect(policy.values()).redact(&redactor).fence(&Source::tool("t")));
    (plain(&text), bound(&policy, &text))
}

#[test]
fn an_operators_rule_protects_what_it_points_at_and_leaves_the_rest_as_it_is() {
    let pointers = ["/data/key", "/list/1", "/nothing", "/a~1b"].map(str::to_owned).to_vec();
    let rule = SecretRule { tool: "read".into(), pointers };
    let ruled = Connection { secret_rules: vec![rule], ..connection() };
    let text = " {\"data\": {\"key\":\"k\\u00e9y-value\", \"n\": 1.0}, \"list\":[0,{\"x\":\"deep-value\",\"y\":null}], \"a/b\":true}\n";
    let expected = " {\"data\": {\"key\":\"[protected secret: protected://]\", \"n\": 1.0}, \
                    \"list\":[0,{\"x\":\"[protected secret: protected://]\",\"y\":null}], \
                    \"a/b\":\"[protected secret: protected://]\"}\n";
    let values = ["k\u{e9}y-value", "deep-value", "true"].map(str::to_owned).to_vec();
    assert_eq!(answered(&ruled, "read", &[text], false), (expected.to_owned(), values));
    assert_eq!(answered(&ruled, "read", &["{\"other\":1}"], false).0, "{\"other\":1}");
    assert_eq!(answered(&ruled, "write", &["plain key-value"], false).0, "plain key-value");
    let no_json =
        "unknown_sensitive_response: a rule of the operator about the secrets in it asks for JSON, which it is not";
    for other in ["plain", "{\"data\":1,\"data\":2}", "{\"data\":"] {
        assert_eq!(answered(&ruled, "read", &[other], false), (format!("{WITHHELD}{no_json}"), Vec::new()), "{other}");
    }
    let marked = json!({"data": {"key": envelope("token", &json!("tok-value"))}}).to_string();
    let (shown, values) = answered(&ruled, "read", &[&marked], false);
    assert_eq!(
        (shown.as_str(), values),
        ("{\"data\":{\"key\":\"[protected token: protected://]\"}}", vec!["tok-value".to_owned()])
    );
}

/// An issuer that gives this.
#[derive(Debug)]
struct Issuer(Result<String, Unresolved>);

impl Resolve for Issuer {
    fn resolve<'a>(
        &'a self,
        call: &'a ClearedCall,
        reference: &'a ManagedReference,
        consumer: &'a Consumer,
    ) -> BoxFuture<'a, Result<String, Unresolved>> {
        assert_eq!((call.tool(), call.connection().resolver.as_deref()), ("issue", Some("resolve")));
        let expected = json!({"reference": "r-1", "version": "7", "type": "token", "agent": "agent", "session": "s", "context": "c"});
        assert_eq!(reference.arguments(consumer), expected);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

fn managed(issuer: &str, expires: &Value) -> String {
    json!({"$burrowManaged": {"issuer": issuer, "reference": "r-1", "version": 7, "type": "token", "expiresAt": expires}}).to_string()
}

#[test]
fn a_managed_reference_is_resolved_where_all_that_it_rests_on_stands() {
    let connection = Connection { resolver: Some("resolve".into()), ..connection() };
    let (base, connectors, redactor) = granted(&connection, "issue");
    let identity = TaskIdentity { session: "s".into(), context: "c".into(), task: "t".into() };
    let policy = base.for_task(Gates::default()).with_values(ProtectedValues::new(identity, redactor.clone()));
    let issue = |text: &str| {
        let raw = RawResult::ok(text).answered_by(&call(&policy, "issue")).protect(policy.values());
        content(&raw.redact(&redactor).fence(&Source::tool("t")))
    };
    let good = issue(&managed("conn", &json!("2999-01-01T00:00:00Z")));
    assert_eq!(plain(&good), "\"[protected token: protected://]\"");
    let why = |policy: &Policy, text: &str| bound(policy, text).remove(0);
    assert_eq!(why(&policy, &good), "protected_binding_ref_invalid:V: a managed reference is not resolved here");
    let with = |answer: Result<String, Unresolved>| policy.clone().with_resolver(Arc::new(Issuer(answer)));
    let answer = Ok(envelope("token", &json!("issued-value")).to_string());
    assert_eq!(why(&with(answer.clone()), &good), "issued-value");
    assert!(!redactor.is_clean("issued-value"));
    for bad in [
        Ok("issued-value".to_owned()),
        Ok(envelope("password", &json!("x")).to_string()),
        Ok(format!("{} ", managed("conn", &json!(1)))),
    ] {
        let expected = "protected_binding_ref_invalid:V: its issuer's answer is no valid envelope of its type";
        assert_eq!(why(&with(bad), &good), expected);
    }
    assert_eq!(why(&with(Err(Unresolved)), &good), "protected_binding_ref_invalid:V: its issuer gave no value for it");
    let expired = issue(&managed("conn", &json!(1000)));
    assert_eq!(why(&with(answer.clone()), &expired), "protected_binding_ref_invalid:V: the reference has expired");
    assert_eq!(issue(&managed("other", &json!(1000))), format!("{WITHHELD}{MALFORMED}"));
    connectors.set(Connections::default());
    let gone = "protected_binding_ref_invalid:V: the connection or the grant that it rests on does not stand any more";
    assert_eq!(why(&with(answer), &good), gone);
    assert_eq!(
        seen(&managed("conn", &json!(1000))),
        format!("{WITHHELD}{MALFORMED}"),
        "a tool that is no connection's"
    );
}

/// Text that is full of what envelopes consist of.
pub(crate) fn noisy() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\n".to_owned()),
        Just("burrow".to_owned()),
        Just("$burrow".to_owned()),
        Just("\"$burrowSensitive\",".to_owned()),
        Just("`$burrowManaged` ".to_owned()),
        Just("protected://".to_owned()),
        Just("\\u0024\\u0062".to_owned()),
        Just("\"$burrow\\u0053ensitive\",".to_owned()),
        "[ -~ü]{0,8}".prop_map(|text| text.replace([':', '='], ".")),
    ];
    prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat())
}

pub(crate) fn streamed(text: &[u8], cuts: usize, values: &ProtectedValues) -> (Vec<u8>, bool) {
    let mut stream = ProtectedStream::new(values);
    let mut out = Vec::new();
    for chunk in text.chunks(cuts) {
        out.extend_from_slice(&stream.push(chunk));
    }
    let (rest, taken) = stream.finish();
    out.extend(rest);
    (out, taken.is_faulty())
}

proptest! {
    #[test]
    fn a_text_without_an_envelope_is_passed_byte_for_byte(text in noisy(), cuts in 1_usize..9) {
        let (values, _) = open();
        prop_assert_eq!(content(&fenced(RawResult::ok(text.clone()), &open())), text.clone());
        prop_assert_eq!(streamed(text.as_bytes(), cuts, &values), (text.into_bytes(), false));
    }

    #[test]
    fn bytes_of_any_kind_pass(bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in 1_usize..9) {
        let (values, _) = open();
        prop_assert_eq!(streamed(&bytes, cuts, &values), (bytes, false));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_value_is_left_wherever_and_however_it_comes(
        value in "[a-zA-Z0-9\"\\\\/ü\u{1f600}\n]{6,40}",
        before in noisy(),
        after in noisy(),
        level in 0_usize..4,
        cuts in 1_usize..40,
    ) {
        prop_assume!(!before.contains(&value) && !after.contains(&value) && !before.ends_with('\\') && !"[protected token: protected://".contains(&value));
        let inner = json!({"a": [envelope("token", &json!(value))]}).to_string();
        let nested = (0..level).fold(inner, |text, _| json!({"t": text}).to_string());
        let text = format!("{before}\n{nested}\n{after}");
        let (values, redactor) = open();
        let (whole, faulty) = streamed(text.as_bytes(), cuts, &values);
        prop_assert!(!faulty);
        let whole = String::from_utf8(whole).unwrap();
        let expected = (0..level).fold("{\"a\":[\"[protected token: protected://]\"]}".to_owned(), |text, _| json!({"t": text}).to_string());
        prop_assert_eq!(plain_marks(&whole), format!("{before}\n{expected}\n{after}"));
        prop_assert!(!redactor.is_clean(&value));
        // A text that ends anywhere in it is withheld, or ends before the value.
        for end in (0..=nested.len()).filter(|end| nested.is_char_boundary(*end)) {
            let (values, _) = open();
            let (shown, faulty) = streamed(&nested.as_bytes()[..end], cuts, &values);
            let shown = String::from_utf8(shown).unwrap();
            prop_assert!(faulty || !shown.contains("value"), "{}", shown);
        }
    }
}

/// A text with the random part of each mark left out.
fn plain_marks(text: &str) -> String {
    let mut pieces = text.split("[protected token: protected://");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |text, piece| text + "[protected token: protected://" + piece.get(24..).unwrap())
}
