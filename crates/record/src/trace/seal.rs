//! The seal: what `session_end` says of the file, and what exactly is signed.
//!
//! Signed are a domain, the session, the chain's head, the number of lines, and the bytes of the
//! `session_end` line in front of the signature. What follows them is the signature and the head once
//! more, each with one possible spelling, so no byte of a signed file is free. The session stands in
//! the signed text by itself, so that no line of another session can be passed off as this one's.

use serde::Deserialize;
use vocab::SessionId;

use super::chain::BreakReason;
use crate::error::echo;
use crate::line::Line;
use crate::{Digest, PublicKey, TraceKey};

const DOMAIN: &[u8] = b"murmur trace v1\0";
const SIGNATURE: &[u8] = b",\"signature\":\"";
/// 64 bytes in base64.
const SIGNATURE_LEN: usize = 88;

/// What the end of a trace says.
#[derive(Debug)]
pub(crate) struct Seal {
    head: Option<Digest>,
    lines: u64,
    signed: Option<Signed>,
}

#[derive(Debug)]
struct Signed {
    key: String,
    /// The bytes of the line in front of the signature.
    front: Vec<u8>,
    signature: String,
}

#[derive(Deserialize)]
struct Fields {
    lines: u64,
    head: Option<String>,
    #[serde(default)]
    public_key: Option<String>,
    #[serde(default)]
    signature: Option<String>,
}

impl Seal {
    /// Reads a `session_end` line from its start to where `prev` begins.
    pub(crate) fn read(own: &[u8]) -> Option<Self> {
        let mut object = own.to_vec();
        object.push(b'}');
        let fields: Fields = serde_json::from_slice(&object).ok()?;
        let head = match fields.head {
            Some(hex) => Some(Digest::from_hex(hex.as_bytes())?),
            None => None,
        };
        let signed = match (fields.public_key, fields.signature) {
            (None, None) => None,
            (Some(key), Some(signature)) => {
                let rest = own.strip_suffix(b"\"")?;
                let (rest, text) = rest.split_at_checked(rest.len().checked_sub(SIGNATURE_LEN)?)?;
                if text != signature.as_bytes() {
                    return None;
                }
                Some(Signed { key, front: rest.strip_suffix(SIGNATURE)?.to_vec(), signature })
            }
            _ => return None,
        };
        Some(Self { head, lines: fields.lines, signed })
    }

    pub(crate) fn head(&self) -> Option<Digest> {
        self.head
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Judges the signature; `None` when there is none. Without a key any will do.
    pub(crate) fn check(&self, session: &SessionId, key: Option<&PublicKey>) -> Option<Result<(), BreakReason>> {
        let signed = self.signed.as_ref()?;
        let Some(key) = key else { return Some(Ok(())) };
        if signed.key != key.to_string() {
            return Some(Err(BreakReason::OtherKey { key: echo(&signed.key) }));
        }
        let message = message(session, self.head, self.lines, &signed.front);
        Some(if key.signed(&message, &signed.signature) { Ok(()) } else { Err(BreakReason::WrongSignature) })
    }
}

/// Adds the seal's keys to a `session_end` line that holds all others but `prev`.
pub(crate) fn write(
    line: &mut Line<'_>,
    session: &SessionId,
    head: Option<Digest>,
    lines: u64,
    key: Option<&TraceKey>,
) {
    line.key("lines");
    line.number(lines);
    line.key("head");
    match head {
        Some(head) => line.digest(head),
        None => line.raw(b"null"),
    }
    if let Some(key) = key {
        line.key("public_key");
        line.verbatim(&key.public().to_string());
        let signature = key.sign(&message(session, head, lines, line.so_far()));
        line.raw(SIGNATURE);
        line.raw(signature.as_bytes());
        line.raw(b"\"");
    }
}

fn message(session: &SessionId, head: Option<Digest>, lines: u64, front: &[u8]) -> Vec<u8> {
    let head = head.map_or([0; 32], |head| *head.as_bytes());
    [DOMAIN, session.as_str().as_bytes(), b"\0", &head, &lines.to_be_bytes(), front].concat()
}
