//! From what went wrong to a typed [`DriverError`].
//!
//! Providers agree on neither status nor words, so both are read: the vendor's own type or code
//! first, then the status, then known phrases for a conversation that is too long. Text that a
//! provider sent is shown cut, printable and without the API key; nothing else of it is trusted.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use secrets::{Redactor, Secret};
use serde_json::Value;
use vocab::{DriverError, DriverErrorKind as Kind};

use crate::sse::SseError;

/// The longest piece of a provider's words that a message shows, in characters.
const SHOWN: usize = 300;

/// A failure before it knows whose it is. `detail` goes on after the driver's name: `is overloaded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    /// Foreign words that follow the detail, whole and as they came until the key is out of them.
    quote: Option<Quote>,
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) retryable: bool,
}

impl From<SseError> for Fault {
    fn from(error: SseError) -> Self {
        Self::bad(error.to_string())
    }
}

/// Words of somebody else, and how they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Quote {
    text: String,
    limit: usize,
    after: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let retryable = match kind {
            Kind::RateLimit | Kind::Overloaded | Kind::Network | Kind::CutStream | Kind::Server => true,
            Kind::Auth
            | Kind::InvalidRequest
            | Kind::ContextTooLong
            | Kind::BadResponse
            | Kind::Script
            | Kind::SpendCeiling => false,
        };
        Self { kind, detail: detail.into(), quote: None, status: None, retry_after: None, retryable }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadResponse, detail)
    }

    /// Goes on with foreign words, of which at most `limit` characters are shown, and then with ours. The
    /// words must not be cut or changed before: a piece of the key could not be recognised any more.
    pub(crate) fn quoting(self, text: impl Into<String>, limit: usize, after: impl Into<String>) -> Self {
        Self { quote: Some(Quote { text: text.into(), limit, after: after.into() }), ..self }
    }

    pub(crate) fn for_good(self) -> Self {
        Self { retryable: false, ..self }
    }

    /// An HTTP answer that is no success.
    pub(crate) fn of_status(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let fault = Self::of_words(Some(status), &Words::read(body));
        Self { status: Some(status), retry_after: retry_after(headers, SystemTime::now()), ..fault }
    }

    /// An error that the provider put into its answer.
    pub(crate) fn of_error(error: &Value) -> Self {
        Self::of_words(None, &Words::of(error))
    }

    fn of_words(status: Option<u16>, words: &Words) -> Self {
        let (kind, retryable) = classify(status.or(words.status), words);
        let mut detail = String::from(match kind {
            Kind::Auth => "refused the credential",
            Kind::RateLimit => "limits the rate",
            Kind::Overloaded => "is overloaded",
            Kind::InvalidRequest => "refused the request",
            Kind::Script => "left its script",
            Kind::SpendCeiling => "may not spend more",
            Kind::ContextTooLong => "says that the conversation is too long for the model",
            Kind::Network => "did not get the request in time",
            Kind::BadResponse => "gave an answer that is none",
            Kind::CutStream => "broke the answer off",
            Kind::Server => "failed",
        });
        if let Some(status) = status {
            let _ = write!(detail, " ({status})");
        }
        if words.message.is_empty() {
            return Self { retryable, ..Self::new(kind, detail) };
        }
        detail.push_str(": ");
        Self { retryable, ..Self::new(kind, detail).quoting(&words.message, SHOWN, "") }
    }
}

/// Who failed: what every message names, and the keys that none may, in whatever form a provider repeats them.
#[derive(Clone)]
pub(crate) struct Who {
    driver: &'static str,
    host: String,
    redactor: Redactor,
}

impl Who {
    pub(crate) fn new(driver: &'static str, host: String) -> Self {
        Self { driver, host, redactor: Redactor::new() }
    }

    /// Learns a key that is about to be sent.
    pub(crate) fn keep_out(&self, key: &Secret) {
        self.redactor.learn(key);
    }

    pub(crate) fn error(&self, fault: Fault) -> DriverError {
        let mut detail = self.redactor.redact_owned(fault.detail).into_string();
        if let Some(Quote { text, limit, after }) = fault.quote {
            let text = self.redactor.redact_owned(text).into_string();
            detail.push_str(&printable(&text, limit));
            detail.push_str(&after);
        }
        DriverError {
            kind: fault.kind,
            status: fault.status,
            message: printable(&format!("{} at {} {detail}", self.driver, self.host), SHOWN + 120),
            retry_after: fault.retry_after,
            retryable: fault.retryable,
        }
    }
}

/// What a provider says about its own failure.
#[derive(Debug, Default)]
struct Words {
    /// Types and codes, lower-case.
    names: Vec<String>,
    message: String,
    /// An HTTP status inside the body, as gateways put it there.
    status: Option<u16>,
}

impl Words {
    fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_slice::<Value>(body) {
            Ok(Value::Array(items)) => items.first().map(Self::of_body).unwrap_or_default(),
            Ok(value) => Self::of_body(&value),
            Err(_) if text.trim_start().starts_with('<') => {
                Self { message: "an HTML page".to_owned(), ..Self::default() }
            }
            Err(_) => Self { message: text.trim().to_owned(), ..Self::default() },
        }
    }

    fn of_body(body: &Value) -> Self {
        Self::of(body.get("error").filter(|error| !error.is_null()).unwrap_or(body))
    }

    fn of(error: &Value) -> Self {
        let mut words = Self::default();
        for name in ["code", "type", "status"] {
            match error.get(name) {
                Some(Value::String(name)) => words.names.push(name.to_lowercase()),
                Some(Value::Number(code)) => {
                    words.status = code
                        .as_u64()
                        .and_then(|code| u16::try_from(code).ok())
                        .filter(|code| (400..600).contains(code));
                }
                _ => {}
            }
        }
        words.message = match (error, error.get("message").or_else(|| error.get("detail"))) {
            (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
            (_, Some(other)) => other.to_string(),
            (Value::Null, None) => String::new(),
            (other, None) => other.to_string(),
        };
        words
    }

    fn named(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }
}

const TOO_LONG: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "model_context_window_exceeded",
    "contextwindowexceedederror",
];
const NO_CREDIT: [&str; 3] = ["insufficient_quota", "billing_error", "billing_hard_limit_reached"];
const RATE: [&str; 4] = ["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "throttling_error"];
const OVERLOADED: [&str; 4] = ["overloaded_error", "overloaded", "engine_overloaded", "unavailable_error"];
const AUTH: [&str; 4] = ["authentication_error", "permission_error", "invalid_api_key", "permission_denied"];
const INVALID: [&str; 5] =
    ["invalid_request_error", "not_found_error", "model_not_found", "badrequesterror", "invalid_argument"];

/// The kind, and whether a later try may succeed.
fn classify(status: Option<u16>, words: &Words) -> (Kind, bool) {
    if words.named(&TOO_LONG) {
        return (Kind::ContextTooLong, false);
    }
    // An account without credit answers 429 like a rate limit, but no waiting cures it.
    if words.named(&NO_CREDIT) {
        return (Kind::Auth, false);
    }
    let (kind, retryable) = match status {
        Some(401..=403) => (Kind::Auth, false),
        Some(408) => (Kind::Network, true),
        Some(413) => (Kind::ContextTooLong, false),
        Some(425) => (Kind::Server, true),
        Some(429) => (Kind::RateLimit, true),
        Some(503 | 529) => (Kind::Overloaded, true),
        Some(500..) => (Kind::Server, true),
        Some(_) => (Kind::InvalidRequest, false),
        None if words.named(&RATE) => (Kind::RateLimit, true),
        None if words.named(&OVERLOADED) => (Kind::Overloaded, true),
        None if words.named(&AUTH) => (Kind::Auth, false),
        None if words.named(&INVALID) => (Kind::InvalidRequest, false),
        None => (Kind::Server, true),
    };
    if matches!(kind, Kind::InvalidRequest | Kind::Server) && says_too_long(&words.message) {
        return (Kind::ContextTooLong, false);
    }
    (kind, retryable)
}

/// The phrases by which servers without a code of their own say it.
fn says_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    let says = |phrase: &str| message.contains(phrase);
    [
        "prompt is too long",
        "input is too long",
        "exceed context limit",
        "maximum context length",
        "maximum model length",
        "context length exceeded",
        "exceeds the context length",
        "exceeds context length",
        "exceeds the available context size",
        "reduce the length of the messages",
        "too large for model with",
        "max_new_tokens` must be <=",
    ]
    .iter()
    .any(|phrase| says(phrase))
        || (says("exceed") && (says("context window") || says("maximum number of tokens")))
}

/// How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let read = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| {
        text.parse::<f64>().ok().and_then(|value| Duration::try_from_secs_f64(value / unit).ok())
    };
    if let Some(wait) = read("retry-after-ms").and_then(|text| seconds(text, 1000.0)) {
        return Some(wait);
    }
    let text = read("retry-after")?;
    seconds(text, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        // A date in the past asks for no wait.
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// Makes foreign text safe to show in one line: control and direction characters are escaped, blanks
/// folded, and at most `limit` characters kept.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(limit * 4));
    let mut blank = false;
    for (count, c) in text.trim().chars().enumerate() {
        if count >= limit {
            shown.push('…');
            break;
        }
        if c.is_whitespace() {
            if !blank {
                shown.push(' ');
            }
        } else if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        blank = c.is_whitespace();
    }
    shown
}
