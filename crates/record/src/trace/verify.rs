//! Verifying a trace: the chain over all lines, then the signed end.
//!
//! A file that was cut off (a killed session, a torn last line) is unsigned, not broken: there is no
//! way to tell a crash from somebody who removed the end. The caller shows that as a warning.

use std::path::Path;

use vocab::SessionId;

use super::chain::{Break, BreakReason, Chain};
use crate::lines::{Lines, Next};
use crate::regular::{self, Links};
use crate::{Error, PublicKey};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Whole lines that hold together from the start.
    pub lines: u64,
    /// Bytes of an unfinished line at the end.
    pub torn_bytes: u64,
    /// The session that the lines belong to.
    pub session: Option<SessionId>,
    /// The verdict.
    pub status: VerifyStatus,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyStatus {
    /// Every byte is as the session wrote it.
    Verified,
    /// Every line continues the one before, but nothing vouches for the whole.
    Unsigned(Unsigned),
    /// Every line continues the one before and the end is signed, but there was no key to check it with.
    Unchecked,
    /// Somebody changed the file, or the disk did.
    Broken {
        /// The line to which it is put down, from 1.
        line: u64,
        /// What is wrong with it.
        reason: BreakReason,
    },
}

/// Why nothing vouches for a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// The session runs, or was killed.
    #[error("the session did not end, or its end was cut off")]
    NoEnd,
    /// The session ended, but had no key to sign with.
    #[error("the session's end carries no signature")]
    NoSignature,
}

/// Reads the whole trace, in constant memory, and checks it with the public key; without one, all but the
/// signature. `session` is the one that the file is kept under, if that is known: a trace of another
/// session is then refused, and so is a link, which no session makes.
///
/// # Errors
/// [`Error::UnsafeRecord`] when it is no regular file, or what the system says when it cannot be read. A
/// broken trace is a report, not an error.
pub fn verify(path: &Path, session: Option<&SessionId>, key: Option<&PublicKey>) -> Result<VerifyReport, Error> {
    let file = regular::open(path, if session.is_some() { Links::Refuse } else { Links::Follow })?;
    let mut lines = Lines::of(file);
    let mut chain = Chain::of(session);
    let mut torn_bytes = 0;
    let found = loop {
        let next = lines.next().map_err(|error| Error::io("read", path, error))?;
        let number = chain.count() + 1;
        match next {
            Next::Line(line) => {
                if let Err(found) = chain.push(line) {
                    let after = lines.next().map_err(|error| Error::io("read", path, error))?;
                    break Err(chain.blame(found, after.line()));
                }
            }
            Next::Torn(_) if chain.seal().is_some() => {
                break Err(Break { line: number - 1, reason: BreakReason::Garbage });
            }
            Next::Torn(bytes) if !is_unfinished(bytes) => {
                break Err(Break { line: number, reason: BreakReason::NotALine });
            }
            Next::Torn(bytes) => torn_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Next::TooLong => break Err(Break { line: number, reason: BreakReason::TooLong }),
            Next::End => break Ok(()),
        }
    };
    let status = match found {
        Err(Break { line, reason }) => VerifyStatus::Broken { line, reason },
        Ok(()) => match chain.check_seal(key) {
            Some(Ok(())) if key.is_none() => VerifyStatus::Unchecked,
            Some(Ok(())) => VerifyStatus::Verified,
            Some(Err(reason)) => VerifyStatus::Broken { line: chain.count(), reason },
            None if chain.seal().is_some() => VerifyStatus::Unsigned(Unsigned::NoSignature),
            None => VerifyStatus::Unsigned(Unsigned::NoEnd),
        },
    };
    Ok(VerifyReport {
        lines: chain.count(),
        torn_bytes,
        session: chain.session().filter(|_| chain.count() > 0).cloned(),
        status,
    })
}

/// Whether the bytes can be what a crash left of one line: its beginning, or zeros where a file system
/// had given room but not yet data.
fn is_unfinished(bytes: &[u8]) -> bool {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let written = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    match serde_json::from_slice::<serde::de::IgnoredAny>(written) {
        // All of it but the newline. Anything in the newline's place is no crash.
        Ok(_) => zeros == 0 && written.ends_with(b"}"),
        Err(error) => error.is_eof(),
    }
}
