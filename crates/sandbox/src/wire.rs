//! What the helper and the runtime say to each other once the plan is handed over.
//!
//! Records have a fixed length, so that a stream socket carries them without framing: the runtime reads
//! whole records, and the end of the stream is the one other event there is. Both sides are the same
//! binary, so the form needs no version.

use std::time::Duration;

use crate::confinement::Limits;
use crate::enforcement::Namespaces;
use crate::error::Step;
use crate::process::Exit;

const WORDS: usize = 11;
/// Bytes of a [`Report`].
pub(crate) const REPORT: usize = WORDS * 8;
/// Bytes of a request: the milliseconds that the tree has left, little-endian.
pub(crate) const REQUEST: usize = 4;

/// From TERM to KILL, when nobody says otherwise.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// From KILL to giving up: only a process that hangs in the kernel is still there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What the installation found in force when it was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) limits: Limits,
    /// Zero for none.
    pub(crate) landlock: u32,
    pub(crate) namespaces: Namespaces,
    pub(crate) masked: u32,
    pub(crate) cgroup: bool,
}

/// What stopped the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
    /// Which grant, mask or port, for steps that go through a list.
    pub(crate) index: u32,
}

/// From the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs; this is in force.
    Started { pid: i32, installed: Installed },
    /// The program could not be started, and nothing is left of it.
    Failed(Failure),
    /// The program has ended so, and nothing is left of its tree.
    Ended(Exit),
    /// Something of the tree is left.
    Survived,
}

impl Report {
    pub(crate) fn encode(&self) -> [u8; REPORT] {
        let words: [u64; WORDS] = match *self {
            Self::Started { pid, installed: Installed { limits, landlock, namespaces, masked, cgroup } } => {
                let [a, b, c, d, e] = limit_words(&limits);
                let [landlock, masked] = [landlock, masked].map(u64::from);
                let own = u64::from(namespaces.bits());
                [1, to_word(pid), a, b, c, d, e, landlock, own, masked, u64::from(cgroup)]
            }
            Self::Failed(Failure { step, errno, index }) => {
                let number = Step::ALL.iter().position(|other| *other == step).unwrap_or_default();
                [2, to_word(errno), number as u64, u64::from(index), 0, 0, 0, 0, 0, 0, 0]
            }
            Self::Ended(Exit::Code(code)) => [3, to_word(code), 0, 0, 0, 0, 0, 0, 0, 0, 0],
            Self::Ended(Exit::Signal(signal)) => [4, to_word(signal), 0, 0, 0, 0, 0, 0, 0, 0, 0],
            Self::Survived => [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
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
        let [kind, value, a, b, c, d, e, landlock, own, masked, cgroup] = words;
        let value = from_word(value)?;
        Some(match kind {
            1 => {
                let installed = Installed {
                    limits: limits([a, b, c, d, e]),
                    landlock: u32::try_from(landlock).ok()?,
                    namespaces: Namespaces::from_bits(u8::try_from(own).ok()?),
                    masked: u32::try_from(masked).ok()?,
                    cgroup: cgroup == 1,
                };
                Self::Started { pid: value, installed }
            }
            2 => {
                let step = *Step::ALL.get(usize::try_from(a).ok()?)?;
                Self::Failed(Failure { step, errno: value, index: u32::try_from(b).ok()? })
            }
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
    use crate::enforcement::Namespace;

    #[test]
    fn every_report_comes_back() {
        let limits = Limits { cpu_seconds: Some(0), max_open_files: Some(7), ..Limits::default() };
        let namespaces = [Namespace::User, Namespace::Cgroup].into_iter().collect();
        let installed = Installed { limits, landlock: 6, namespaces, masked: 2, cgroup: true };
        let mut reports = vec![
            Report::Started { pid: 4_194_304, installed },
            Report::Started { pid: 2, installed: Installed::default() },
            Report::Ended(Exit::Code(-1)),
            Report::Ended(Exit::Signal(9)),
            Report::Survived,
        ];
        reports.extend(Step::ALL.map(|step| Report::Failed(Failure { step, errno: 2, index: 3 })));
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
