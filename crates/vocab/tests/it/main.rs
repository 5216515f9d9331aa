//! The laws of ids, of tool calls' arguments, and of the trust table.

use proptest::prelude::*;
use vocab::{Arguments, ContextId, Lane, Origin, SessionId, TaskId, ToolCall, Trust};

#[test]
fn minted_ids_parse_back_and_sort_by_time() {
    let ids: Vec<SessionId> = (0..1000).map(|_| SessionId::new()).collect();
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(ids, sorted);
    for id in ids {
        assert_eq!(id.as_str().parse::<SessionId>(), Ok(id));
    }
}

#[test]
fn an_id_of_another_kind_or_case_is_refused() {
    let hex = "0190a1b2c3d47e5f8a9b0c1d2e3f4a5b";
    assert!(format!("ses_{hex}").parse::<SessionId>().is_ok());
    for bad in [
        format!("task_{hex}"),
        format!("ses_{}", hex.to_uppercase()),
        format!("ses_{hex}0"),
        "ses_".into(),
        format!("ses_{hex}\n"),
        format!("ses_../{}", hex.get(3..).unwrap()),
    ] {
        let error = bad.parse::<SessionId>().unwrap_err().to_string();
        assert!(error.ends_with("is not a session id: `ses_` and 32 lower-case hex digits"), "{error}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn a_client_may_choose_a_context_id_that_cannot_leave_its_directory() {
    for good in ["a", "my-chat_1", &"x".repeat(64)] {
        assert!(good.parse::<ContextId>().is_ok());
    }
    for bad in ["", ".", "..", "a/b", "a b", "é", &"x".repeat(65)] {
        assert!(bad.parse::<ContextId>().is_err(), "{bad}");
    }
}

#[test]
fn arguments_are_an_object_or_say_why_not() {
    let object = |text: &str| ToolCall::new("c", "t", text).arguments;
    assert_eq!(object(""), Arguments::Object(serde_json::Map::new()));
    assert_eq!(object("{}"), Arguments::Object(serde_json::Map::new()));
    let Arguments::Malformed { raw, reason } = object("[1]") else { panic!("an array is no input") };
    assert_eq!((raw.as_str(), reason.as_str()), ("[1]", "the input must be a JSON object, not an array"));
    let Arguments::Malformed { reason, .. } = object("{\"a\":") else { panic!("cut JSON is no input") };
    assert!(reason.starts_with("the input is not valid JSON: EOF"), "{reason}");
}

#[test]
fn trust_follows_the_table() {
    use Origin::*;
    for origin in [User, Schedule, System] {
        assert_eq!(origin.trust(Some(Trust::Untrusted)), Trust::Trusted);
    }
    assert_eq!(Event.trust(Some(Trust::Trusted)), Trust::Untrusted);
    for origin in [Peer, Completion] {
        assert_eq!(origin.trust(None), Trust::Untrusted);
        assert_eq!(origin.trust(Some(Trust::Trusted)), Trust::Trusted);
        assert_eq!(origin.trust(Some(Trust::Untrusted)), Trust::Untrusted);
    }
    assert!(User.lane() < Peer.lane() && Peer.lane() < Event.lane());
    assert_eq!(Completion.lane(), Lane::Background);
}

proptest! {
    #[test]
    fn any_text_is_read_without_loss(text in ".*") {
        match ToolCall::new("c", "t", &text).arguments {
            Arguments::Malformed { raw, .. } => prop_assert_eq!(raw, text),
            Arguments::Object(map) => prop_assert!(text.trim().is_empty() && map.is_empty() || serde_json::from_str::<serde_json::Value>(&text).is_ok()),
        }
    }

    #[test]
    fn ids_survive_json(_n in 0..10u8) {
        let id = TaskId::new();
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<TaskId>(&json).unwrap(), id);
    }
}
