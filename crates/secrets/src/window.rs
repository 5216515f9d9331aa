//! A filter that looks at few bytes of a text and never misses a pattern.
//!
//! Of the text only one 4-byte window in `stride` is looked at. Each pattern contributes the windows at
//! `stride` consecutive offsets, so one of them falls on a looked-at position wherever the pattern
//! stands. A bitmap of window hashes (8 KiB, in the first-level cache) rejects nearly all; what passes
//! is compared in full by the caller. Against an automaton this is several times faster, holds no
//! megabytes and is built in microseconds. Windows are kept only as hashes: no piece of a secret
//! stands in these tables.

use std::ops::ControlFlow;

const WINDOW: usize = 4;
const NONE: u32 = u32::MAX;

/// A place in a pattern whose window has some hash.
struct Entry {
    pattern: u32,
    offset: u32,
    next: u32,
}

/// The windows of patterns of similar length.
pub(crate) struct Windows {
    stride: usize,
    bits: Box<[u64; 1024]>,
    /// First entry for the low bits of a hash; the length is a power of two.
    heads: Vec<u32>,
    entries: Vec<Entry>,
}

fn hash(window: [u8; WINDOW]) -> u32 {
    u32::from_le_bytes(window).wrapping_mul(0x9e37_79b1) >> 16
}

impl Windows {
    /// `patterns` are `(number, bytes)`, each at least 6 bytes long. A larger `most` looks at less of
    /// the text and at more windows of each pattern.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = (u32, &'a [u8])> + Clone, most: usize) -> Option<Self> {
        let shortest = patterns.clone().map(|(_, bytes)| bytes.len()).min()?;
        let stride = shortest.saturating_sub(WINDOW - 1).clamp(1, most);
        let total = patterns.clone().count() * stride;
        let mut windows = Self {
            stride,
            bits: Box::new([0; 1024]),
            heads: vec![NONE; total.next_power_of_two().clamp(64, 1 << 16)],
            entries: Vec::with_capacity(total),
        };
        for (pattern, bytes) in patterns {
            // The middle: many values share a prefix that names their issuer, or a closing line.
            let first = (bytes.len() + 1 - WINDOW - stride) / 2;
            for (offset, window) in bytes.windows(WINDOW).enumerate().skip(first).take(stride) {
                if let Some(window) = window.first_chunk() {
                    windows.insert(hash(*window), pattern, offset);
                }
            }
        }
        Some(windows)
    }

    fn insert(&mut self, hash: u32, pattern: u32, offset: usize) {
        if let Some(word) = self.bits.get_mut(hash as usize >> 6) {
            *word |= 1 << (hash & 63);
        }
        let mask = self.heads.len() - 1;
        if let Some(head) = self.heads.get_mut(hash as usize & mask) {
            let next = std::mem::replace(head, self.entries.len() as u32);
            self.entries.push(Entry { pattern, offset: offset as u32, next });
        }
    }

    /// Looks at positions from `at` until `until` and calls `candidate` with a pattern number and
    /// where that pattern would start. Returns where to go on, or stops when told to.
    #[inline]
    pub(crate) fn scan(
        &self,
        text: &[u8],
        mut at: usize,
        until: usize,
        candidate: &mut impl FnMut(u32, usize) -> ControlFlow<()>,
    ) -> ControlFlow<(), usize> {
        while at < until {
            let Some(window) = text.get(at..).and_then(<[u8]>::first_chunk) else {
                return ControlFlow::Continue(text.len());
            };
            let hash = hash(*window);
            let word = self.bits.get(hash as usize >> 6).copied().unwrap_or(0);
            if word >> (hash & 63) & 1 != 0 {
                self.candidates(hash, at, candidate)?;
            }
            at += self.stride;
        }
        ControlFlow::Continue(at)
    }

    #[inline(never)]
    fn candidates(
        &self,
        hash: u32,
        at: usize,
        candidate: &mut impl FnMut(u32, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut next = self.heads.get(hash as usize & (self.heads.len() - 1)).copied().unwrap_or(NONE);
        while let Some(entry) = self.entries.get(next as usize) {
            if let Some(start) = at.checked_sub(entry.offset as usize) {
                candidate(entry.pattern, start)?;
            }
            next = entry.next;
        }
        ControlFlow::Continue(())
    }
}
