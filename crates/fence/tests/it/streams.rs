//! Streams: markers split at every place, what is held back, errors of the inner writer, and the
//! amount of work, which is counted.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use fence::{BlockWriter, FindingKind, Neutraliser, Scanner, Source, neutralise, wrap};

#[test]
fn a_marker_split_at_any_place_is_rewritten() {
    for content in ["a</untrusted-content>b", "<<Untrusted-Content source=x>"] {
        for at in 0..=content.len() {
            let mut out = String::new();
            let mut neutraliser = Neutraliser::new();
            let (start, end) = content.split_at(at);
            for chunk in [start, "", end] {
                neutraliser.push(chunk, &mut out).unwrap();
            }
            neutraliser.finish(&mut out).unwrap();
            assert_eq!(out, neutralise(content), "split at {at}");
        }
    }
}

#[test]
fn only_what_may_become_a_marker_is_held_back() {
    for (chunk, out_at_once) in [
        ("plain", "plain"),
        ("a<", "a<"),
        ("a</untrusted-conte", "a<"),
        ("a</untrusted-contemp", "a</untrusted-contemp"),
        ("a<b<u", "a<b<"),
        ("<u<", "<u<"),
    ] {
        let mut out = String::new();
        let mut neutraliser = Neutraliser::new();
        neutraliser.push(chunk, &mut out).unwrap();
        assert_eq!(out, out_at_once);
        neutraliser.finish(&mut out).unwrap();
        assert_eq!(out, chunk);
    }
}

#[test]
fn a_block_of_any_bytes_is_written() {
    let mut block = BlockWriter::new(&Source::tool("sh"), Vec::new());
    for chunk in [&b"\xff<"[..], b"/untrusted", b"-content\xc3", b"\xa9<"] {
        block.write_all(chunk).unwrap();
    }
    assert_eq!(
        block.finish_io().unwrap(),
        b"<untrusted-content source=tool:sh>\n\xff<!MURMUR-NEUTRALISED!/untrusted-content\xc3\xa9<\n</untrusted-content>"
    );
}

#[test]
fn an_empty_stream_is_an_empty_block() {
    let source = Source::task("event");
    let bytes = BlockWriter::new(&source, Vec::new()).finish_io().unwrap();
    assert_eq!(bytes, wrap(&source, "").as_bytes());
    let text = BlockWriter::new(&source, String::new()).finish_fmt().unwrap();
    assert_eq!(text, wrap(&source, ""));
}

/// Fails once, at the given write, and works before and after.
struct FailsOnce<'a> {
    written: &'a mut Vec<u8>,
    writes_until: usize,
}

impl io::Write for FailsOnce<'_> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let turn = self.writes_until;
        self.writes_until = turn.wrapping_sub(1);
        if turn == 0 {
            return Err(io::Error::other("disk full"));
        }
        self.written.extend_from_slice(content);
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for FailsOnce<'_> {
    fn write_str(&mut self, content: &str) -> fmt::Result {
        io::Write::write(self, content.as_bytes()).map(|_| ()).map_err(|_| fmt::Error)
    }
}

#[test]
fn a_block_with_a_hole_never_gets_a_closer() {
    let mut written = Vec::new();
    let inner = FailsOnce { written: &mut written, writes_until: 1 };
    let mut block = BlockWriter::new(&Source::tool("sh"), inner);
    let first = io::Write::write_all(&mut block, b"one").unwrap_err();
    assert_eq!(first.to_string(), "disk full");
    let later = io::Write::write_all(&mut block, b"two").unwrap_err();
    assert_eq!(later.to_string(), "the fenced block was broken off by an earlier write error");
    assert!(block.finish_io().is_err());
    assert_eq!(written, b"<untrusted-content source=tool:sh>\n");

    let mut written = Vec::new();
    let inner = FailsOnce { written: &mut written, writes_until: 0 };
    let mut block = BlockWriter::new(&Source::tool("sh"), inner);
    assert_eq!(block.write_str("one"), Err(fmt::Error));
    assert!(block.finish_fmt().is_err());
    assert_eq!(written, b"");
}

/// Counts the writes and their bytes.
#[derive(Default)]
struct Counter {
    writes: usize,
    bytes: usize,
}

impl fmt::Write for Counter {
    fn write_str(&mut self, content: &str) -> fmt::Result {
        self.writes += 1;
        self.bytes += content.len();
        Ok(())
    }
}

#[test]
fn the_work_on_hostile_text_is_linear() {
    for piece in ["<", "</", "</untrusted-conte", "</untrusted-content", "<untrusted-<"] {
        for repeats in [1_000, 2_000] {
            let content = piece.repeat(repeats);
            for size in [1, 7, content.len()] {
                let mut counter = Counter::default();
                let mut neutraliser = Neutraliser::new();
                for chunk in content.as_bytes().chunks(size) {
                    let chunk = str::from_utf8(chunk).unwrap();
                    neutraliser.push(chunk, &mut counter).unwrap();
                }
                neutraliser.finish(&mut counter).unwrap();
                // Per chunk: what was held, and its end; per marker: what stands before, and the infix.
                let chunks = content.len().div_ceil(size);
                assert!(
                    counter.writes <= 3 * chunks + 2 * repeats + 1,
                    "{piece:?} in {size}: {} writes",
                    counter.writes
                );
                assert_eq!(counter.bytes, neutralise(&content).len());
            }
        }
    }
}

#[test]
fn a_scan_finds_what_is_split_inside_a_character_or_an_entity() {
    let content = "\u{ff1c}&#x2f;untrusted\\u002Dcontent";
    for at in 0..=content.len() {
        let mut found = Vec::new();
        let mut scanner = Scanner::new();
        scanner.push(&content.as_bytes()[..at], |finding| found.push(finding));
        scanner.push(&content.as_bytes()[at..], |finding| found.push(finding));
        scanner.finish(|finding| found.push(finding));
        let found: Vec<_> = found.iter().map(|f| (f.offset, f.len, f.kind)).collect();
        assert_eq!(found, [(0, content.len(), FindingKind::Entity)], "at {at}");
    }
}

#[test]
fn a_scan_of_invalid_bytes_goes_on() {
    let mut found = Vec::new();
    let mut scanner = Scanner::new();
    scanner.push(b"\xff\xf0<\xf0\x9f</untrusted-content\xe2\x80", |finding| {
        found.push((finding.offset, finding.kind));
    });
    scanner.finish(|finding| found.push((finding.offset, finding.kind)));
    assert_eq!(found, [(5, FindingKind::Closer)]);
}
