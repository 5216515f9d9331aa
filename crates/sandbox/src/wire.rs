//! What the helper and the runtime say to each other once the plan is handed over.
//!
//! Records have a fixed length, so that a stream socket carries them without framing: the runtime reads
//! whole records, and the end of the stream is the one other event there is. Both sides are the same
//! binary, so the form needs no version.

use std::time::Duration;

use crate::confinement::Limits;
use crate::error::Step;
use crate::process::Exit;

const WORDS: usize = 8;
/// Bytes of a [`Report`].
pub(crate) const REPORT: usize = WORDS * 8;
/// Bytes of a request: the milliseconds that the tree has left, little-endian.
pub(crate) const REQUEST: usize = 4;

/// From TERM to KILL, when nobody says otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// From KILL to giving up: only a process that hangs in the kernel is still there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// From the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs; with these limits in force.
    Started { pid: i32, limits: Limits },
    /// The program could not be started, and nothing is left of it.
    Failed { step: Step, errno: i32 },
    /// The program has ended so, and nothing is left of its tree.
    Ended(Exit),
    /// Something of the tree is left.
    Survived,
}

impl Report {
    pub(crate) fn encode(&self) -> [u8; REPORT] {
        let words: [u64; WORDS] = match *self {
            Self::Started { pid, limits } => {
                let [a, b, c, d, e] = limit_words(&limits);
                [1, to_word(pid), 0, a, b, c, d, e]
            }
            Self::Failed { step, errno } => {
                let number = Step::ALL.iter().position(|other| *other == step).unwrap_or_default();
                [2, to_word(errno), number as u64, 0, 0, 0, 0, 0]
            }
            Self::Ended(Exit::Code(code)) => [3, to_word(code), 0, 0, 0, 0, 0, 0],
            Self::Ended(Exit::Signal(signal)) => [4, to_word(signal), 0, 0, 0, 0, 0, 0],
            Self::Survived => [5, 0, 0, 0, 0, 0, 0, 0],
        };
        let mut bytes = [0; REPORT];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` for what no helper writes.
    pub(crate) fn decode(bytes: &[u8; REPORT]) -> Option<Self> {
        let mut words = [0_u64; WORDS];
        for (word, slot) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*slot);
        }
        let [kind, value, number, a, b, c, d, e] = words;
        let value = from_word(value)?;
        Some(match kind {
            1 => Self::Started { pid: value, limits: limits([a, b, c, d, e]) },
            2 => Self::Failed { errno: value, step: *Step::ALL.get(usize::try_from(number).ok()?)? },
            3 => Self::Ended(Exit::Code(value)),
            4 => Self::Ended(Exit::Signal(value)),
            5 => Self::Survived,
            _ => return None,
        })
    }
}

fn to_word(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

fn from_word(word: u64) -> Option<i32> {
    Some(u32::try_from(word).ok()?.cast_signed())
}

/// The limits as numbers; the highest one, which is the kernel's "unlimited", stands for none.
pub(crate) fn limit_words(limits: &Limits) -> [u64; 5] {
    let Limits { cpu_seconds, memory_bytes, max_processes, max_open_files, max_file_size_bytes } = *limits;
    [cpu_seconds, memory_bytes, max_processes, max_open_files, max_file_size_bytes]
        .map(|limit| limit.unwrap_or(u64::MAX))
}

/// The inverse of [`limit_words`].
pub(crate) fn limits(words: [u64; 5]) -> Limits {
    let [cpu_seconds, memory_bytes, max_processes, max_open_files, max_file_size_bytes] =
        words.map(|word| (word != u64::MAX).then_some(word));
    Limits { cpu_seconds, memory_bytes, max_processes, max_open_files, max_file_size_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_comes_back() {
        let limits = Limits { cpu_seconds: Some(0), max_open_files: Some(7), ..Limits::default() };
        let mut reports = vec![
            Report::Started { pid: 4_194_304, limits },
            Report::Ended(Exit::Code(-1)),
            Report::Ended(Exit::Signal(9)),
            Report::Survived,
        ];
        reports.extend(Step::ALL.map(|step| Report::Failed { step, errno: 2 }));
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }

    #[test]
    fn what_no_helper_writes_is_nothing() {
        assert_eq!(Report::decode(&[0; REPORT]), None);
        assert_eq!(Report::decode(&[255; REPORT]), None);
    }
}
