//! The first and the last part of a stream, in bounded memory.
//!
//! Both ends are kept because a command says what it does at its start and how it ended at its end.
//! The middle is counted, never stored; whoever needs it reads the log file.

use std::collections::VecDeque;

/// How much of each stream a result shows.
pub(crate) const SHOWN: usize = 256 * 1024;
const HALF: usize = SHOWN / 2;

/// What was seen of one stream so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

/// What was kept of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Captured {
    /// The beginning; the whole stream when nothing was left out.
    pub(crate) head: Vec<u8>,
    /// The end, when something was left out.
    pub(crate) tail: Vec<u8>,
    /// Bytes between the two.
    pub(crate) omitted: u64,
    /// Bytes of the whole stream.
    pub(crate) total: u64,
}

impl Capture {
    /// Takes the stream's next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let (first, rest) = bytes.split_at(bytes.len().min(HALF.saturating_sub(self.head.len())));
        self.head.extend_from_slice(first);
        let (_, last) = rest.split_at(rest.len().saturating_sub(HALF));
        let excess = (self.tail.len() + last.len()).saturating_sub(HALF);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(last);
    }

    /// Whether so many bytes more leave something out.
    pub(super) fn overflows_with(&self, more: usize) -> bool {
        self.total.saturating_add(u64::try_from(more).unwrap_or(u64::MAX)) > u64::try_from(SHOWN).unwrap_or(u64::MAX)
    }

    /// The stream so far, if nothing of it was left out.
    pub(super) fn whole(&self) -> Option<Vec<u8>> {
        let kept = self.head.len() + self.tail.len();
        (u64::try_from(kept).ok() == Some(self.total)).then(|| {
            let (front, back) = self.tail.as_slices();
            [&self.head, front, back].concat()
        })
    }

    /// What is to be shown.
    pub(super) fn finish(self) -> Captured {
        if let Some(whole) = self.whole() {
            // Nothing was left out.
            return Captured { head: whole, tail: Vec::new(), omitted: 0, total: self.total };
        }
        let (mut head, mut tail) = (self.head, Vec::from(self.tail));
        // A character that the cut went through counts as left out.
        head.truncate(head.len() - unfinished(&head));
        tail.drain(..tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count());
        let kept = u64::try_from(head.len() + tail.len()).unwrap_or(u64::MAX);
        Captured { omitted: self.total.saturating_sub(kept), total: self.total, head, tail }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes at the end begin a character that is not complete.
fn unfinished(bytes: &[u8]) -> usize {
    let back = bytes.iter().rev().take(3).take_while(|byte| is_continuation(**byte)).count();
    let lead = bytes.iter().rev().nth(back).copied().unwrap_or(0);
    let wanted = match lead {
        0xC2..=0xDF => 1,
        0xE0..=0xEF => 2,
        0xF0..=0xF4 => 3,
        _ => 0,
    };
    if back < wanted { back + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(chunks: &[&[u8]]) -> Captured {
        let mut capture = Capture::default();
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.finish()
    }

    #[test]
    fn a_stream_of_exactly_the_cap_is_whole_and_one_byte_more_is_not() {
        let full = vec![b'x'; SHOWN];
        let whole = captured(&[&full]);
        assert_eq!((whole.head.len(), whole.tail.len(), whole.omitted), (SHOWN, 0, 0));
        let cut = captured(&[&full, b"y"]);
        assert_eq!((cut.head.len(), cut.tail.len(), cut.omitted), (HALF, HALF, 1));
        assert!(cut.tail.ends_with(b"xy"));
    }

    #[test]
    fn a_character_under_the_cut_is_left_out_not_broken() {
        let mut stream = vec![b'a'; HALF - 1];
        stream.extend_from_slice("ü".as_bytes());
        stream.extend(vec![b'm'; 10]);
        stream.extend_from_slice("ü".as_bytes());
        stream.extend(vec![b'z'; HALF - 1]);
        let cut = captured(&[&stream]);
        assert_eq!((cut.head, cut.tail), (vec![b'a'; HALF - 1], vec![b'z'; HALF - 1]));
        assert_eq!(cut.omitted, 14);
    }

    #[test]
    fn memory_does_not_grow_with_the_stream() {
        let mut capture = Capture::default();
        let chunk = vec![0u8; 64 * 1024];
        for _ in 0..1600 {
            capture.push(&chunk);
        }
        assert_eq!(capture.total, 1600 * 64 * 1024);
        assert!(capture.head.capacity() + capture.tail.capacity() <= 4 * SHOWN);
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(stream in prop::collection::vec(any::<u8>(), 0..4000), repeat in 1usize..200, cut in 1usize..5000) {
            let stream = stream.repeat(repeat);
            let pieces: Vec<&[u8]> = stream.chunks(cut).collect();
            prop_assert_eq!(captured(&pieces), captured(&[&stream]));
        }
    }
}
