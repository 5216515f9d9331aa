//! Names of attributes, and the one way by which a text becomes part of a span.
//!
//! Names without `murmur.` are those of the OpenTelemetry semantic conventions. A text is redacted before
//! it is cut, so that a piece of a secret cannot slip through at the end.

use secrets::Redactor;

use crate::wire::{AnyValue, ArrayValue, KeyValue, Value};

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const MODEL: &str = "gen_ai.request.model";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const AGENT_VERSION: &str = "gen_ai.agent.version";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const HTTP_STATUS: &str = "http.response.status_code";
pub(crate) const EXCEPTION_TYPE: &str = "exception.type";
pub(crate) const EXCEPTION_MESSAGE: &str = "exception.message";

pub(crate) const SESSION_ID: &str = "murmur.session.id";
pub(crate) const RESUMED_FROM: &str = "murmur.session.resumed_from";
pub(crate) const CAPTURE: &str = "murmur.capture";
pub(crate) const TASK_ID: &str = "murmur.task.id";
pub(crate) const ORIGIN: &str = "murmur.task.origin";
pub(crate) const TRUST: &str = "murmur.task.trust";
pub(crate) const STATUS: &str = "murmur.status";
pub(crate) const ERROR_CODE: &str = "murmur.error_code";
pub(crate) const TASKS: &str = "murmur.tasks";
pub(crate) const TURNS: &str = "murmur.turns";
pub(crate) const TOOL_CALLS: &str = "murmur.tool_calls";
pub(crate) const TURN: &str = "murmur.turn";
pub(crate) const DRIVER_CHOICE: &str = "murmur.driver_choice";
pub(crate) const DECISION: &str = "murmur.decision";
pub(crate) const ATTEMPTS: &str = "murmur.attempts";
pub(crate) const ATTEMPT: &str = "murmur.attempt";
pub(crate) const RETRY_IN: &str = "murmur.retry_in_ms";
pub(crate) const GIVEN_UP: &str = "murmur.given_up";
pub(crate) const STATE_EFFECT: &str = "murmur.tool.state_effect";
pub(crate) const EXIT_CODE: &str = "murmur.tool.exit_code";
pub(crate) const TRUNCATED: &str = "murmur.tool.truncated";
pub(crate) const SKILL: &str = "murmur.tool.skill";
pub(crate) const REASON: &str = "murmur.denied.reason";
pub(crate) const BLOCKERS: &str = "murmur.denied.blockers";

/// The longest text in a span, in characters.
const LONGEST: usize = 500;

/// A text as it may leave: redacted, on one line, and no longer than anybody reads.
pub(crate) fn clean(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.redact(text);
    redacted.as_str().chars().take(LONGEST).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// The attributes of one span, of one event of it, or of the resource.
pub(crate) struct Attributes<'r> {
    redactor: &'r Redactor,
    list: Vec<KeyValue>,
}

impl<'r> Attributes<'r> {
    pub(crate) fn new(redactor: &'r Redactor) -> Self {
        Self { redactor, list: Vec::new() }
    }

    pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
        self.push(key, Value::String(clean(self.redactor, value)));
        self
    }

    pub(crate) fn text_if(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    pub(crate) fn texts(mut self, key: &str, values: &[&str]) -> Self {
        let text = |value: &&str| AnyValue { value: Some(Value::String(clean(self.redactor, value))) };
        let values = values.iter().map(text).collect();
        self.push(key, Value::Array(ArrayValue { values }));
        self
    }

    pub(crate) fn int(mut self, key: &str, value: impl TryInto<i64>) -> Self {
        self.push(key, Value::Int(value.try_into().unwrap_or(i64::MAX)));
        self
    }

    pub(crate) fn int_if(self, key: &str, value: Option<impl TryInto<i64>>) -> Self {
        match value {
            Some(value) => self.int(key, value),
            None => self,
        }
    }

    /// Says that something is so; that it is not is said by silence.
    pub(crate) fn flag(mut self, key: &str, value: bool) -> Self {
        if value {
            self.push(key, Value::Bool(true));
        }
        self
    }

    pub(crate) fn into_list(self) -> Vec<KeyValue> {
        self.list
    }

    fn push(&mut self, key: &str, value: Value) {
        self.list.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) });
    }
}

#[cfg(test)]
mod tests {
    use secrets::{Redactor, Secret};

    use super::clean;

    #[test]
    fn a_text_is_redacted_before_it_is_cut() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("correct-horse-battery".to_owned()));
        let text = format!("{}correct-horse-battery", "x".repeat(490));
        assert_eq!(clean(&redactor, &text), format!("{}[redacted]", "x".repeat(490)));
        assert_eq!(clean(&redactor, &"é".repeat(600)), "é".repeat(500));
        assert_eq!(clean(&redactor, "two\nlines\u{1b}[31m"), "two lines [31m");
    }
}
