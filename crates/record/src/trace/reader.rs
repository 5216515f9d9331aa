//! Reading a trace line by line, in constant memory, while it may still be written.
//!
//! A line is read as a JSON object with a known envelope; fields that this version does not know are
//! kept. Reading checks form, not truth: that is `verify`'s.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vocab::{EventId, SessionId};

use crate::lines::{Lines, Next};
use crate::regular::{self, Links};
use crate::{Error, LineFault};

/// One line of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceLine {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its event's type.
    pub event_type: String,
    /// Its event's id.
    pub event_id: EventId,
    /// The event that it belongs to.
    pub parent_id: Option<EventId>,
    /// The session.
    pub session_id: SessionId,
    /// When it was written, Unix time in milliseconds.
    pub timestamp: u64,
    /// Everything else on the line, in its order; `prev` is among it.
    pub fields: Map<String, Value>,
}

impl TraceLine {
    /// A field's text.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// A field's number.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.fields.get(name).and_then(Value::as_u64)
    }

    pub(crate) fn parse(number: u64, line: &[u8]) -> Result<Self, LineFault> {
        let Flat(fields) = serde_json::from_slice(line).map_err(|error| LineFault::Form(error.to_string()))?;
        let mut line = Fields(fields);
        Ok(Self {
            number,
            event_type: line.take("event_type")?,
            event_id: line.take("event_id")?,
            parent_id: line.take("parent_id")?,
            session_id: line.take("session_id")?,
            timestamp: line.take("timestamp")?,
            fields: line.0,
        })
    }
}

/// An object whose values are each read from their own text: a tool's input may be nested as deep as
/// JSON is read at all, and stands one level deeper here.
struct Flat(Map<String, Value>);

impl<'de> Deserialize<'de> for Flat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Flat;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Flat, A::Error> {
                let mut fields = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, &RawValue>()? {
                    fields.insert(key, serde_json::from_str(value.get()).map_err(A::Error::custom)?);
                }
                Ok(Flat(fields))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn take<T: serde::de::DeserializeOwned>(&mut self, name: &'static str) -> Result<T, LineFault> {
        let value = self.0.shift_remove(name).ok_or_else(|| LineFault::Form(format!("`{name}` is missing")))?;
        serde_json::from_value(value).map_err(|error| LineFault::Form(format!("`{name}`: {error}")))
    }
}

/// The lines of a trace, in order. An unfinished last line ends the reading like the file's end.
#[derive(Debug)]
pub struct TraceReader {
    lines: Lines<BufReader<File>>,
    path: PathBuf,
    torn_bytes: u64,
    failed: bool,
}

impl TraceReader {
    /// Opens a trace.
    ///
    /// # Errors
    /// [`Error::UnsafeRecord`] when it is no regular file, or what the system says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = regular::open(path, Links::Refuse)?;
        Ok(Self { lines: Lines::of(file), path: path.to_owned(), torn_bytes: 0, failed: false })
    }

    /// Once the end was reached: bytes of an unfinished last line.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }
}

impl TraceReader {
    /// The next line of one of these types, as the runtime writes them. Others are passed over unread.
    pub(crate) fn next_of(&mut self, types: &[&str]) -> Option<Result<TraceLine, Error>> {
        self.next_if(|line| {
            let rest = line.strip_prefix(br#"{"event_type":""#);
            rest.is_some_and(|rest| types.iter().any(|name| rest.starts_with(name.as_bytes())))
        })
    }

    /// The next line that is `wanted`; after an error, nothing.
    fn next_if(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Option<Result<TraceLine, Error>> {
        while !self.failed {
            let number = self.lines.number() + 1;
            let read = match self.lines.next() {
                Ok(Next::Line(line)) if !wanted(line) => continue,
                Ok(Next::Line(line)) => TraceLine::parse(number, line).map_err(|fault| (number, fault)),
                Ok(Next::TooLong) => Err((number, LineFault::TooLong)),
                Ok(Next::Torn(bytes)) => {
                    self.torn_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    return None;
                }
                Ok(Next::End) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(Error::io("read", &self.path, error)));
                }
            };
            self.failed = read.is_err();
            return Some(read.map_err(|(line, fault)| Error::BadLine { path: self.path.clone(), line, fault }));
        }
        None
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceLine, Error>;

    /// The next line; after an error, nothing.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_if(|_| true)
    }
}
