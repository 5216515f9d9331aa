//! What both engines are told, word for word the same.
//!
//! Columns are `TEXT` and `BIGINT` alone and parameters are numbered in the order of their first use, because
//! that is what SQLite and PostgreSQL read alike: one list of migrations and one set of statements, so that a
//! test on one engine says something about the other. How a transaction begins, locks and announces itself
//! differs, and stands with each engine.

use crate::Version;
use crate::error::Damage;

/// The form of the tables that this program knows: how many migrations there are.
pub(crate) const FORM: i64 = 1;

/// The table of one row that says which form the others have, and which change was the last. Its columns stay as
/// they are for ever: a program that is older than the store must be able to read that it is.
pub(crate) const MIGRATIONS: &[&[&str]] = &[&[
    "CREATE TABLE store (
        one BIGINT PRIMARY KEY CHECK (one = 1),
        form BIGINT NOT NULL,
        number BIGINT NOT NULL,
        stamp TEXT NOT NULL
    )",
    "CREATE TABLE documents (
        key TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        digest TEXT NOT NULL,
        version BIGINT NOT NULL,
        saved_at TEXT NOT NULL,
        saved_by TEXT NOT NULL
    )",
    "CREATE TABLE audit (
        version BIGINT PRIMARY KEY,
        at TEXT NOT NULL,
        who TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        detail TEXT,
        before TEXT,
        after TEXT
    )",
    "INSERT INTO store (one, form, number, stamp) VALUES (1, 0, 0, '00000000000000000000000000000000')",
]];

pub(crate) const SET_FORM: &str = "UPDATE store SET form = $1 WHERE one = 1";
pub(crate) const GET_FORM: &str = "SELECT form FROM store WHERE one = 1";

/// The last change, and the document `$1` unless the last change is still `$2`: one statement, so that both are of
/// the same instant. A text that is longer than any that was saved is not fetched. With the document comes what the
/// log says of it and of its own length, so that a row that was taken away is missed.
pub(crate) const READ: &str = "SELECT s.form, s.number, s.stamp, l.newest, a.after,
        CASE WHEN octet_length(d.text) <= 4194304 THEN d.text END,
        d.digest, d.version, d.saved_at, d.saved_by
    FROM store s LEFT JOIN documents d ON d.key = $1 AND s.stamp <> $2
        LEFT JOIN (SELECT COALESCE(max(version), 0) AS newest FROM audit) l ON s.stamp <> $2
        LEFT JOIN audit a ON s.stamp <> $2
            AND a.version = (SELECT version FROM audit WHERE subject = $1 ORDER BY version DESC LIMIT 1)
    WHERE s.one = 1";
pub(crate) const BUMP: &str = "UPDATE store SET number = number + 1, stamp = $1 WHERE one = 1";
pub(crate) const SAVE: &str = "INSERT INTO documents (key, text, digest, version, saved_at, saved_by)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (key) DO UPDATE SET text = excluded.text, digest = excluded.digest, version = excluded.version,
        saved_at = excluded.saved_at, saved_by = excluded.saved_by";
pub(crate) const REMOVE: &str = "DELETE FROM documents WHERE key = $1";
pub(crate) const AUDIT: &str = "INSERT INTO audit (version, at, who, action, subject, detail, before, after)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
pub(crate) const LOG: &str = "SELECT version, at, who, action, subject, detail, before, after FROM audit
    WHERE subject = $1 AND version < $2 ORDER BY version DESC LIMIT $3";

/// The log of every document about connections.
pub(crate) const MCP_LOG: &str = "SELECT version, at, who, action, subject, detail, before, after FROM audit
    WHERE (subject = 'mcp_connections' OR substr(subject, 1, 12) = 'mcp_catalog.') AND version < $1
    ORDER BY version DESC LIMIT $2";

/// A parameter or a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

/// A row whose columns are taken from the left.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// The last change that a row of [`READ`] shows, without taking it.
    pub(crate) fn version(&self) -> Option<Version> {
        match self.0.as_slice() {
            [_, Value::Int(number), Value::Text(stamp), ..] => Version::stored(*number, stamp),
            _ => None,
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, Damage> {
        match self.0.next() {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(Damage::Row),
        }
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, Damage> {
        match self.0.next() {
            Some(Value::Int(number)) => Ok(Some(number)),
            Some(Value::Null) => Ok(None),
            _ => Err(Damage::Row),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Damage> {
        self.maybe_text()?.ok_or(Damage::Row)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Damage> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            _ => Err(Damage::Row),
        }
    }
}
