//! Memory for secret bytes: whole pages of its own, kept out of swap where the host allows, wiped at the end.
//!
//! The kernel locks pages, not bytes, and locks do not nest: so a buffer never shares a page. A host that
//! refuses (its limit of locked memory is reached) is not an error: the bytes are wiped all the same. Core
//! files are the process's business, see `sandbox::harden_self`.

use std::ops::Deref;

use region::LockGuard;
use zeroize::Zeroize as _;

/// Bytes that can be added to and read.
#[derive(Default)]
pub(crate) struct Locked {
    // Unlocked before the memory is given back.
    _guard: Option<LockGuard>,
    /// Never grows: its bytes would move and leave a copy behind.
    memory: Vec<u8>,
    /// Where the first whole page begins.
    start: usize,
    len: usize,
}

impl Locked {
    fn with_room(room: usize) -> Self {
        let page = region::page::size();
        let room = room.max(1).next_multiple_of(page);
        let memory = vec![0_u8; room + page];
        let start = memory.as_ptr().align_offset(page);
        let pages = memory.get(start..start.saturating_add(room));
        let guard = pages.and_then(|pages| region::lock(pages.as_ptr(), pages.len()).ok());
        let start = if pages.is_some() { start } else { 0 };
        Self { _guard: guard, memory, start, len: 0 }
    }

    /// Adds bytes. Those that were there may move; the old copy is wiped.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let needed = self.len + bytes.len();
        if needed + self.start > self.memory.len() {
            let mut larger = Self::with_room(needed.max(self.len * 2));
            larger.append(self);
            *self = larger;
        }
        let begin = self.start + self.len;
        if let Some(room) = self.memory.get_mut(begin..begin + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len = needed;
        }
    }

    #[cfg(test)]
    fn is_locked(&self) -> bool {
        self._guard.is_some()
    }
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::Locked;

    /// What the kernel says is locked of this process, in KiB.
    fn locked_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_added_is_there_and_its_pages_are_locked_while_it_lives() {
        let mut locked = Locked::default();
        let mut expected = Vec::new();
        for piece in 0..200_u8 {
            let bytes = vec![piece; usize::from(piece) * 3];
            locked.append(&bytes);
            expected.extend_from_slice(&bytes);
        }
        assert_eq!(*locked, *expected);
        let small = {
            let mut small = Locked::default();
            small.append(b"x");
            small
        };
        // A host may allow none.
        if locked.is_locked() && small.is_locked() {
            assert!(locked_kib() >= u64::try_from(expected.len() / 1024).unwrap());
        }
        drop(locked);
        assert_eq!(*small, *b"x");
    }
}
