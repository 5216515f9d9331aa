//! Known providers' answers: every shape that servers give them in, and what is in none.

use policy::{Adapter, Connection};
use serde_json::json;

use crate::protected::{WITHHELD, answered, connection};

const UNKNOWN: &str = "the tool ran and its result is withheld: unknown_sensitive_response: it comes from a provider of \
                       credentials, in a form that is not known";
const OWN_WORDS: &str = "[the provider's own words are withheld]";
const MARK: &str = "[protected secret: protected://]";
const PASSWORD: &str = "[protected password: protected://]";

fn of(adapter: Adapter) -> Connection {
    Connection { adapter: Some(adapter), ..connection() }
}

#[test]
fn bitwardens_answers_are_protected_in_each_form() {
    let bitwarden = of(Adapter::Bitwarden);
    let password = r#"{"result":{"kind":"password","value":"hunter2-hunter2","revealed":true}}"#;
    let (shown, values) =
        answered(&bitwarden, "keychain_get_password", &["password: hunter2-hunter2", password], false);
    let expected = "[the provider's own words are withheld]\n{\"result\":{\"kind\":\"password\",\"value\":\"[protected password: protected://]\",\"revealed\":true}}";
    assert_eq!((shown.as_str(), values), (expected, vec!["hunter2-hunter2".to_owned()]));
    let hidden = r#"{"result":{"kind":"password","value":null,"revealed":false}}"#;
    assert_eq!(answered(&bitwarden, "keychain_get_password", &[hidden], false).0, hidden);
    let item = json!({
        "object": "item", "id": "11", "type": 1, "name": "mail", "notes": "pin 4711 here",
        "login": {"username": "anna", "password": "hunter2-hunter2", "totp": "JBSWY3DPEHPK3PXP", "uris": [{"match": null, "uri": "https://mail.example"}]},
        "fields": [{"name": "api key", "value": "field-value", "type": 1}, {"name": "on", "value": "[REDACTED]", "type": 1}],
        "passwordHistory": [{"lastUsedDate": "2026-01-01", "password": "hunter1-hunter1"}],
    });
    let all = ["pin 4711 here", "hunter2-hunter2", "JBSWY3DPEHPK3PXP", "field-value", "hunter1-hunter1"];
    let texts = [item.to_string(), json!({"result": item}).to_string(), json!([item]).to_string()];
    for (tool, text) in [("keychain_get_item", &texts[1]), ("get", &texts[0]), ("list", &texts[2])] {
        let (shown, values) = answered(&bitwarden, tool, &[text], false);
        assert_eq!(values, all, "{tool}");
        assert!(shown.contains("\"username\":\"anna\"") && shown.contains("https://mail.example"), "{shown}");
    }
    let (shown, values) = answered(&bitwarden, "get", &["hunter2-hunter2\n"], false);
    assert_eq!((shown.as_str(), values), ("[protected secret: protected://]", vec!["hunter2-hunter2".to_owned()]));
    assert_eq!(answered(&bitwarden, "get", &["123456"], false).1, ["123456"]);
    for other in ["{\"success\":true,\"data\":\"hunter2-hunter2\"}", "[1]"] {
        assert_eq!(answered(&bitwarden, "get", &[other], false).0, UNKNOWN, "{other}");
    }
    assert_eq!(answered(&bitwarden, "get_item", &["hunter2-hunter2"], false).0, UNKNOWN);
    let error = UNKNOWN.replace("its result", "its error");
    assert_eq!(answered(&bitwarden, "get", &["hunter2-hunter2 was not it"], true).0, error);
    assert_eq!(answered(&bitwarden, "status", &["{\"status\":\"unlocked\"}"], false).0, "{\"status\":\"unlocked\"}");
}

#[test]
fn vaults_pairs_are_protected_with_and_without_what_is_around_them() {
    let vault = of(Adapter::Vault);
    for (text, expected) in [
        (json!({"user": "root-user", "port": 5432}), json!({"user": MARK, "port": MARK})),
        (
            json!({"data": {"user": "root-user", "port": 5432}, "metadata": {"version": 2}}),
            json!({"data": {"user": MARK, "port": MARK}, "metadata": {"version": 2}}),
        ),
        (
            json!({"request_id": "r", "data": {"data": {"user": "root-user", "port": 5432}, "metadata": {"version": 2}}}),
            json!({"request_id": "r", "data": {"data": {"user": MARK, "port": MARK}, "metadata": {"version": 2}}}),
        ),
    ] {
        let (shown, values) = answered(&vault, "read_secret", &[&text.to_string()], false);
        assert_eq!((shown, values), (expected.to_string(), vec!["root-user".to_owned(), "5432".to_owned()]));
    }
    assert!(answered(&vault, "read_secret", &["user=root-user"], false).0.starts_with(WITHHELD));
    let mounts = r#"[{"name":"secret/","type":"kv"}]"#;
    assert_eq!(answered(&vault, "list_mounts", &[mounts], false).0, mounts);
}

#[test]
fn an_item_of_1password_shows_its_plain_fields_alone() {
    let item = json!({"id": "i", "title": "db", "category": "LOGIN", "fields": [
        {"id": "username", "type": "STRING", "purpose": "USERNAME", "label": "username", "value": "anna"},
        {"id": "password", "type": "CONCEALED", "purpose": "PASSWORD", "label": "password", "value": "hunter2-hunter2", "reference": "op://v/db/password"},
        {"id": "notesPlain", "type": "STRING", "purpose": "NOTES", "label": "notesPlain", "value": "note-value"},
        {"id": "t", "type": "OTP", "label": "otp", "value": "otpauth://x", "totp": "123456"},
        {"id": "s", "title": "sdk", "fieldType": "Concealed", "value": "sdk-value"},
    ]});
    let (shown, values) = answered(&of(Adapter::OnePassword), "item_get", &[&item.to_string()], false);
    assert_eq!(values, ["hunter2-hunter2", "note-value", "otpauth://x", "123456", "sdk-value"]);
    assert!(shown.contains("\"value\":\"anna\"") && shown.contains("op://v/db/password"), "{shown}");
    assert!(answered(&of(Adapter::OnePassword), "item_get", &["{\"id\":1}"], false).0.starts_with(WITHHELD));
}

/// A login of Bitwarden, and the value in it.
fn login(value: &str) -> serde_json::Value {
    json!({"object": "item", "id": "11", "type": 1, "name": "mail", "login": {"username": "anna", "password": value}})
}

#[test]
fn an_answer_is_known_in_every_wrapper_and_behind_words() {
    let bitwarden = of(Adapter::Bitwarden);
    let (one, two) = (login("hunter1-hunter1"), login("hunter2-hunter2"));
    let shown = |value: &serde_json::Value| {
        value.to_string().replace("hunter1-hunter1", PASSWORD).replace("hunter2-hunter2", PASSWORD)
    };
    let list = json!({"success": true, "data": {"object": "list", "data": [one, two]}});
    let nested = json!({"result": {"items": [[one], []], "total": 2}});
    for (text, expected) in [
        (list.to_string(), shown(&list)),
        (nested.to_string(), shown(&nested)),
        (format!("{one}\n{two}\n"), format!("{}\n{}\n", shown(&one), shown(&two))),
        (format!("The item hunter1-hunter1:\n{one}"), format!("{OWN_WORDS}\n{}", shown(&one))),
        (format!("[resource bw://11 (application/json)]\n{one}"), format!("{OWN_WORDS}\n{}", shown(&one))),
        (format!("```json\n{one}\n```"), format!("```json\n{}\n```", shown(&one))),
        (format!("{one}\n{{\"other\":\"hunter3-hunter3\"}}"), format!("{}\n{OWN_WORDS}", shown(&one))),
    ] {
        for tool in ["get_item", "get", "list", "create_item"] {
            let (seen, values) = answered(&bitwarden, tool, &[&text], false);
            assert_eq!(seen, expected, "{tool}");
            assert!(values.iter().all(|value| value.starts_with("hunter")), "{values:?}");
        }
    }
    let string = json!({"success": true, "data": {"object": "string", "data": "hunter2-hunter2"}});
    let (seen, values) = answered(&bitwarden, "get", &[&string.to_string()], false);
    assert_eq!(
        (seen, values),
        (string.to_string().replace("hunter2-hunter2", MARK), vec!["hunter2-hunter2".to_owned()])
    );
}

#[test]
fn what_a_shape_does_not_list_is_protected() {
    let mut item = login("hunter2-hunter2");
    item["newMember"] = json!({"of": ["a newer version", 123_456, 7, true, null]});
    let text = json!({"result": item, "hint": "it is hunter2"}).to_string();
    let (seen, values) = answered(&of(Adapter::Bitwarden), "get_item", &[&text], false);
    assert_eq!(values, ["hunter2-hunter2", "a newer version", "123456", "it is hunter2"].map(str::to_owned), "{seen}");
    assert!(seen.contains("\"username\":\"anna\"") && seen.contains(",7,true,null]"), "{seen}");
    let field = json!({"id": "password", "type": "CONCEALED", "label": "password", "value": "hunter2-hunter2",
        "password_details": {"strength": "GOOD", "history": ["hunter1-hunter1"]}});
    let (seen, values) = answered(&of(Adapter::OnePassword), "item_get", &[&field.to_string()], false);
    assert_eq!(values, ["hunter2-hunter2", "hunter1-hunter1"].map(str::to_owned));
    assert!(seen.contains("\"strength\":\"GOOD\""), "{seen}");
}

#[test]
fn lists_of_a_vaults_secrets_and_its_certificates_are_known() {
    let vault = of(Adapter::Vault);
    let secret = json!({"data": {"user": "root-user"}, "metadata": {"version": 2}});
    let all = json!({"result": {"items": [{"data": secret}, secret]}});
    let (seen, values) = answered(&vault, "read_all", &[&all.to_string()], false);
    assert_eq!((seen, values), (all.to_string().replace("root-user", MARK), vec!["root-user".to_owned(); 2]));
    let array = json!(["root-user", ["other-user"]]);
    assert_eq!(answered(&vault, "read_secret", &[&array.to_string()], false).1, ["root-user", "other-user"]);
    let bare = json!({"data": {"data": {"user": "root-user"}}, "lease": "lease-value"});
    assert_eq!(answered(&vault, "read_secret", &[&bare.to_string()], false).1, ["root-user", "lease-value"]);
    let gone = json!({"data": {"data": null, "metadata": {"destroyed": true}}}).to_string();
    assert_eq!(answered(&vault, "read_secret", &[&gone], false), (gone.clone(), Vec::new()));
    let key = "-----BEGIN PRIVATE KEY-----";
    let issued = json!({"data": {"certificate": "pem", "serial_number": "01", "private_key": key}});
    let (seen, values) = answered(&vault, "issue_pki_certificate", &[&issued.to_string()], false);
    let expected = issued.to_string().replace(key, "[protected private-key: protected://]");
    assert_eq!((seen, values), (expected, vec![key.to_owned()]));
}

#[test]
fn only_a_harmless_tool_answers_in_any_form() {
    let text = "all is well: {\"value\":\"some-word\"}";
    for (adapter, harmless, other) in [
        (Adapter::Bitwarden, "keychain_status", "unlock"),
        (Adapter::Vault, "list_mounts", "vault_write"),
        (Adapter::OnePassword, "vault_list", "password_create"),
    ] {
        let connection = of(adapter);
        assert_eq!(answered(&connection, harmless, &[text], false), (text.to_owned(), Vec::new()));
        for text in [text, "some-word", "\"some-word\"", "12345", "{}", "{\"result\":\"some-word\"}"] {
            assert_eq!(answered(&connection, other, &[text], false).0, UNKNOWN, "{other} {text}");
        }
        assert_eq!(answered(&connection, other, &["", "  \n"], false).0, "  \n");
        assert!(answered(&connection, other, &["some-word"], true).0.starts_with(&WITHHELD.replace("result", "error")));
    }
    let folders = json!([{"object": "folder", "id": "1", "name": "work"}]).to_string();
    assert_eq!(answered(&of(Adapter::Bitwarden), "list", &[&folders], false), (folders.clone(), Vec::new()));
    let (seen, values) = answered(&of(Adapter::Bitwarden), "status", &[&login("hunter2-hunter2").to_string()], false);
    assert_eq!((seen.contains(PASSWORD), values), (true, vec!["hunter2-hunter2".to_owned()]));
    let overview =
        json!([{"id": "i", "title": "db", "category": "LOGIN", "vault": {"id": "v", "name": "w"}}]).to_string();
    assert_eq!(answered(&of(Adapter::OnePassword), "search", &[&overview], false), (overview.clone(), Vec::new()));
}
