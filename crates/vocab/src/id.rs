//! Ids: a prefix and a UUIDv7 as 32 lower-case hex digits, so that they sort by time.
//!
//! A context id may also be chosen by a client (`[A-Za-z0-9_-]{1,64}`); it names a directory, so the
//! alphabet holds nothing that a path could be built of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not an id of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} id: {expected}")]
pub struct InvalidId {
    kind: &'static str,
    text: String,
    expected: &'static str,
}

const HEX_LEN: usize = 32;
const CLIENT_ID_MAX: usize = 64;
/// How much of a refused text an error repeats.
const ECHO_MAX: usize = 80;

fn fresh(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::now_v7().simple())
}

fn is_minted(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|hex| hex.len() == HEX_LEN && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

fn is_client_chosen(text: &str) -> bool {
    (1..=CLIENT_ID_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn refuse(kind: &'static str, text: &str, expected: &'static str) -> InvalidId {
    InvalidId { kind, text: text.escape_debug().take(ECHO_MAX).collect(), expected }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal, $valid:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// What every minted id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// Mints an id that sorts after every earlier one of this process.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "two calls give two ids: not a default")]
            pub fn new() -> Self {
                Self(fresh($prefix).into())
            }

            /// The id as it stands in records and on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.into())) } else { Err(refuse($kind, text, $expected)) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// One launch of a capsule.
    SessionId, "session", "ses_", |t| is_minted("ses_", t), "`ses_` and 32 lower-case hex digits"
);
id!(
    /// One piece of work that a session runs.
    TaskId, "task", "task_", |t| is_minted("task_", t), "`task_` and 32 lower-case hex digits"
);
id!(
    /// A conversation that tasks can share; minted here or chosen by a client.
    ContextId, "context", "ctx_", is_client_chosen, "1 to 64 of the characters A-Z a-z 0-9 _ -"
);
id!(
    /// One message of a conversation.
    MessageId, "message", "msg_", |t| is_minted("msg_", t), "`msg_` and 32 lower-case hex digits"
);
id!(
    /// One line of a session's trace.
    EventId, "event", "evt_", |t| is_minted("evt_", t), "`evt_` and 32 lower-case hex digits"
);
