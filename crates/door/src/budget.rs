//! What bodies, or answers, may take of memory together: counted as their bytes come to be.
//!
//! Whoever holds the operator's token has a part of its own, so that strangers cannot use it up. The first bytes
//! of each are free: how many connections there are bounds those already, and so a few long ones that stop short
//! of their end do not keep short ones out.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use runtime::Caller;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;
use crate::refusal::Refusal;

/// So much is taken at a time.
const LUMP: usize = 4 << 10;

/// Bytes that may be held at a time: so many by the operator, and as many again by everybody else.
pub(crate) struct Budget {
    operator: Arc<Semaphore>,
    rest: Arc<Semaphore>,
    free: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize, limits: &Limits) -> Self {
        let part = || Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        Self { operator: part(), rest: part(), free: limits.free }
    }

    /// The part of one body or answer, which is nothing yet.
    pub(crate) fn hold(&self, caller: Caller) -> Hold {
        let pool = if caller == Caller::Operator { &self.operator } else { &self.rest };
        Hold { pool: Arc::clone(pool), room: self.free, permit: None }
    }
}

/// What one body or answer holds, until it is dropped.
pub(crate) struct Hold {
    pool: Arc<Semaphore>,
    /// Bytes that it may still grow by before more is taken.
    room: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Hold {
    /// Grows by so many bytes, if there is room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.room {
            let lump = (bytes - self.room).div_ceil(LUMP) * LUMP;
            let count = u32::try_from(lump).map_err(|_| Refusal::Overloaded)?;
            let more = Arc::clone(&self.pool).try_acquire_many_owned(count).map_err(|_| Refusal::Overloaded)?;
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                None => self.permit = Some(more),
            }
            self.room += lump;
        }
        self.room -= bytes;
        Ok(())
    }
}

/// An answer as it is written.
pub(crate) struct Page {
    bytes: Vec<u8>,
    hold: Hold,
}

/// An answer that was written, and its part.
struct Kept {
    bytes: Vec<u8>,
    _hold: Hold,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Page {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { bytes: Vec::new(), hold }
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<(), Refusal> {
        self.hold.grow(text.len())?;
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A value as JSON: in a JSON-RPC answer with this id (as JSON), or bare.
    pub(crate) fn answer(&mut self, id: Option<&str>, value: &impl Serialize) -> Result<(), Refusal> {
        if let Some(id) = id {
            self.text("{\"jsonrpc\":\"2.0\",\"id\":")?;
            self.text(id)?;
            self.text(",\"result\":")?;
        }
        // Nothing of ours fails to become JSON; what is written to may be full.
        serde_json::to_writer(&mut *self, value).map_err(|_| Refusal::Overloaded)?;
        if id.is_some() { self.text("}") } else { Ok(()) }
    }

    /// The whole; what it holds is given back with the last part of it.
    pub(crate) fn finish(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        match self.hold.permit {
            None => Bytes::from(self.bytes),
            Some(_) => Bytes::from_owner(Kept { bytes: self.bytes, _hold: self.hold }),
        }
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hold.grow(bytes.len()).map_err(|_| io::ErrorKind::StorageFull)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use runtime::Caller;
    use serde_json::json;

    use super::{Budget, LUMP, Page};
    use crate::limits::Limits;
    use crate::refusal::Refusal;

    #[test]
    fn what_is_held_is_given_back_with_its_last_part() {
        let budget = Budget::new(2 * LUMP, &Limits { free: 10, ..Limits::default() });
        let page = |caller, length: usize| {
            let mut page = Page::new(budget.hold(caller));
            page.text(&"x".repeat(length)).map(|()| page.finish())
        };
        let mut held = page(Caller::Anonymous, 10 + 2 * LUMP).unwrap();
        let part = held.split_off(held.len() - 1);
        drop(held);
        assert_eq!(page(Caller::Peer, 11), Err(Refusal::Overloaded), "strangers share one part");
        assert_eq!(page(Caller::Peer, 10).map(|bytes| bytes.len()), Ok(10), "the first bytes are free");
        assert_eq!(page(Caller::Operator, 11).map(|bytes| bytes.len()), Ok(11), "the operator has its own");
        drop(part);
        assert_eq!(page(Caller::Peer, 11).map(|bytes| bytes.len()), Ok(11));
        assert_eq!(page(Caller::Operator, 11 + 2 * LUMP), Err(Refusal::Overloaded));
    }

    #[test]
    fn an_answer_names_its_request_or_stands_alone() {
        let budget = Budget::new(LUMP, &Limits::default());
        let answer = |id| {
            let mut page = Page::new(budget.hold(Caller::Anonymous));
            page.answer(id, &json!({"a": "\n"})).unwrap();
            page.finish()
        };
        assert_eq!(answer(None), r#"{"a":"\n"}"#);
        assert_eq!(answer(Some("\"7\"")), r#"{"jsonrpc":"2.0","id":"7","result":{"a":"\n"}}"#);
    }
}
