//! A message as a client of either version sends it, read into what a task needs.
//!
//! A message is text: its text parts joined by newlines, data parts as their JSON. What is not text has
//! no place to go and is refused by its name.

use serde_json::{Map, Value};
use vocab::{ContextId, TaskId};

use crate::fault::{Fault, Kind};
use crate::params::{self, Params};
use crate::shape::Form;

/// No id that a sender gives its message is longer.
const LONGEST_ID: usize = 256;

/// A message that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The id that its sender gave it.
    pub(crate) id: Option<String>,
    pub(crate) text: String,
    /// The task that it answers.
    pub(crate) task: Option<TaskId>,
    pub(crate) context: Option<ContextId>,
    /// What the task is for, as its sender says in `metadata.action`; of a new task's message alone.
    pub(crate) action: Option<String>,
    /// Whether the sender wants to have the task when it has ended.
    pub(crate) waits: bool,
    /// How much of the task's history the sender wants.
    pub(crate) history: Option<usize>,
}

impl Message {
    pub(crate) fn read(params: &Params, form: Form) -> Result<Self, Fault> {
        let message = params.object("message")?;
        let none = Map::new();
        let configuration = params.optional("configuration")?.unwrap_or(&none);
        let (push, role) = match form {
            Form::V1 { .. } => ("taskPushNotificationConfig", "ROLE_USER"),
            Form::V03 => ("pushNotificationConfig", "user"),
        };
        if configuration.get(push).is_some_and(|config| !config.is_null()) {
            return Err(Fault::new(Kind::PushNotSupported, "push notifications are not supported"));
        }
        if params::text(message, "role")?.is_some_and(|said| said != role) {
            return Err(Fault::params(format!("`message.role` must be `{role}`")));
        }
        let waits = match form {
            Form::V1 { .. } => {
                if params::text(message, "messageId")?.is_none() {
                    return Err(Fault::params("`message.messageId` is missing"));
                }
                !params::flag(configuration, "returnImmediately")?.unwrap_or(false)
            }
            Form::V03 => params::flag(configuration, "blocking")?.unwrap_or(false),
        };
        let text = text(message)?;
        let id = params::text(message, "messageId")?.map(str::to_owned);
        if id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) {
            return Err(Fault::params(format!("`message.messageId` is longer than {LONGEST_ID} bytes")));
        }
        Ok(Self {
            id,
            text,
            task: params::text(message, "taskId")?.map(task_id).transpose()?,
            context: params::text(message, "contextId")?.map(context_id).transpose()?,
            action: action(message)?,
            waits,
            history: params::count(configuration, "historyLength")?,
        })
    }
}

/// A task's id. One that cannot be any is told like one that nobody has.
pub(crate) fn task_id(text: &str) -> Result<TaskId, Fault> {
    text.parse().map_err(|_| {
        let shown: String = text.escape_debug().take(80).collect();
        Fault::new(Kind::TaskNotFound, format!("there is no task `{shown}` in this session"))
    })
}

pub(crate) fn context_id(text: &str) -> Result<ContextId, Fault> {
    text.parse().map_err(|error: vocab::InvalidId| Fault::params(error.to_string()))
}

/// The word for what the task is for. Whether it counts is the session's to say.
fn action(message: &Map<String, Value>) -> Result<Option<String>, Fault> {
    let said = match message.get("metadata") {
        None | Some(Value::Null) => None,
        Some(Value::Object(metadata)) => metadata.get("action"),
        Some(_) => return Err(Fault::params("`message.metadata` must be an object")),
    };
    match said {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) if runtime::is_action_name(word) => Ok(Some(word.clone())),
        Some(_) => Err(Fault::params(
            "`message.metadata.action` must be a word of 1 to 64 letters, digits, hyphens and underscores",
        )),
    }
}

fn text(message: &Map<String, Value>) -> Result<String, Fault> {
    let parts = message.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or_else(|| Fault::params("`message.parts` must be an array"))?;
    let texts: Result<Vec<String>, Fault> = parts.iter().map(part).collect();
    let text = texts?.join("\n");
    if text.trim().is_empty() {
        return Err(Fault::params("`message.parts` hold no text"));
    }
    Ok(text)
}

fn part(part: &Value) -> Result<String, Fault> {
    let part = part.as_object().ok_or_else(|| Fault::params("each of `message.parts` must be an object"))?;
    if let Some(name) = ["file", "raw", "url"].into_iter().find(|name| part.contains_key(*name)) {
        return Err(Fault::new(
            Kind::ContentType,
            format!("a part with `{name}` is not taken: this agent reads text and data"),
        ));
    }
    match (part.get("text"), part.get("data")) {
        (Some(Value::String(text)), None) => Ok(text.clone()),
        (None, Some(data)) => Ok(data.to_string()),
        _ => Err(Fault::params("each of `message.parts` must hold either `text`, a string, or `data`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Message;
    use crate::fault::Kind;
    use crate::params::Params;
    use crate::shape::Form;

    const V1: Form = Form::V1 { tools: false };

    fn read(form: Form, params: Value) -> Result<Message, Kind> {
        let Value::Object(map) = params else { panic!("parameters are an object") };
        Message::read(&Params::new(map), form).map_err(|fault| fault.kind)
    }

    #[test]
    fn text_and_data_are_joined() {
        let parts = json!([{"text": "a"}, {"kind": "text", "text": ""}, {"kind": "data", "data": {"b": [1]}}]);
        let message = read(Form::V03, json!({"message": {"kind": "message", "parts": parts}})).unwrap();
        let expected = Message {
            id: None,
            text: "a\n\n{\"b\":[1]}".into(),
            task: None,
            context: None,
            action: None,
            waits: false,
            history: None,
        };
        assert_eq!(message, expected);
    }

    #[test]
    fn an_action_is_a_word_of_the_metadata() {
        let action = |metadata: Value| {
            let message = json!({"messageId": "m", "parts": [{"text": "a"}], "metadata": metadata});
            [V1, Form::V03].map(|form| read(form, json!({"message": message})).unwrap().action)
        };
        assert_eq!(
            action(json!({"action": "factory", "other": [1]})),
            [Some("factory".into()), Some("factory".into())]
        );
        for none in [json!(null), json!({}), json!({"action": null})] {
            assert_eq!(action(none), [None, None]);
        }
    }

    #[test]
    fn each_version_waits_in_its_own_words() {
        let message = json!({"messageId": "m", "parts": [{"text": "a"}]});
        let waits = |form, configuration: Value| {
            read(form, json!({"message": message, "configuration": configuration})).unwrap().waits
        };
        assert_eq!([waits(V1, json!({})), waits(V1, json!({"returnImmediately": true}))], [true, false]);
        assert_eq!([waits(V1, json!(null)), waits(V1, json!({"blocking": false}))], [true, true]);
        assert_eq!([waits(Form::V03, json!({})), waits(Form::V03, json!({"blocking": true}))], [false, true]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}], "contextId": "c-1"});
        assert!(read(V1, json!({"message": good})).is_ok());
        let with = |key: &str, value: Value| {
            let mut message = good.clone();
            message[key] = value;
            read(V1, json!({"message": message})).unwrap_err()
        };
        for (key, value, kind) in [
            ("messageId", json!(""), Kind::InvalidParams),
            ("messageId", json!(1), Kind::InvalidParams),
            ("role", json!("ROLE_AGENT"), Kind::InvalidParams),
            ("role", json!("user"), Kind::InvalidParams),
            ("parts", json!([]), Kind::InvalidParams),
            ("parts", json!("a"), Kind::InvalidParams),
            ("parts", json!(["a"]), Kind::InvalidParams),
            ("parts", json!([{"text": " \n"}]), Kind::InvalidParams),
            ("parts", json!([{"text": 1}]), Kind::InvalidParams),
            ("parts", json!([{"text": "a", "data": 1}]), Kind::InvalidParams),
            ("parts", json!([{}]), Kind::InvalidParams),
            ("parts", json!([{"raw": "aGk="}]), Kind::ContentType),
            ("parts", json!([{"text": "a"}, {"url": "http://x/"}]), Kind::ContentType),
            ("parts", json!([{"kind": "file", "file": {}}]), Kind::ContentType),
            ("metadata", json!([]), Kind::InvalidParams),
            ("metadata", json!({"action": 1}), Kind::InvalidParams),
            ("metadata", json!({"action": "a b"}), Kind::InvalidParams),
            ("contextId", json!("a/b"), Kind::InvalidParams),
            ("contextId", json!("c".repeat(65)), Kind::InvalidParams),
            ("taskId", json!("task_1"), Kind::TaskNotFound),
            ("taskId", json!(1), Kind::InvalidParams),
        ] {
            assert_eq!(with(key, value.clone()), kind, "{key} {value}");
        }
        assert_eq!(read(V1, json!({})), Err(Kind::InvalidParams));
        assert_eq!(read(V1, json!({"message": []})), Err(Kind::InvalidParams));
        let push = json!({"message": good, "configuration": {"taskPushNotificationConfig": {"url": "http://x/"}}});
        assert_eq!(read(V1, push), Err(Kind::PushNotSupported));
        let history = json!({"message": good, "configuration": {"historyLength": -1}});
        assert_eq!(read(V1, history), Err(Kind::InvalidParams));
    }
}
