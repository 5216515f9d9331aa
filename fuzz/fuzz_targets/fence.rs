//! The fence's laws on any bytes: the rewrite is a pure insertion that leaves no live marker, a block
//! parses back, streams equal the whole, and a scan names every marker that is rewritten.
//!
//! The first byte is the size of the chunks, so that the fuzzer can move the cuts by itself.

#![no_main]

use std::borrow::Cow;
use std::io::Write as _;

use fence::{
    BlockWriter, ModelText, Neutraliser, RuntimeWords, Scanner, Source, count_lookalikes, echo, neutralise, parse,
    scan, wrap,
};
use libfuzzer_sys::fuzz_target;

const INFIX: &str = "!MURMUR-NEUTRALISED!";

fuzz_target!(|input: &[u8]| {
    let Some((&size, bytes)) = input.split_first() else {
        return;
    };
    let size = usize::from(size).max(1);
    on_bytes(bytes, size);
    if let Ok(text) = std::str::from_utf8(bytes) {
        on_text(text, size);
    }
});

fn on_bytes(bytes: &[u8], size: usize) {
    let source = Source::tool("fuzz");
    let block = |size: usize| {
        let mut block = BlockWriter::new(&source, Vec::new());
        for chunk in bytes.chunks(size) {
            block.write_all(chunk).unwrap();
        }
        block.finish_io().unwrap()
    };
    assert_eq!(block(size), block(bytes.len().max(1)));
    assert_eq!(scanned(bytes, size), scanned(bytes, bytes.len().max(1)));
}

fn scanned(bytes: &[u8], size: usize) -> Vec<fence::Finding> {
    let mut found = Vec::new();
    let mut scanner = Scanner::new();
    for chunk in bytes.chunks(size) {
        scanner.push(chunk, |finding| found.push(finding));
    }
    scanner.finish(|finding| found.push(finding));
    found
}

fn on_text(text: &str, size: usize) {
    let neutral = neutralise(text);
    let changed = neutral != text;
    assert_eq!(matches!(neutral, Cow::Owned(_)), changed);
    assert!(matches!(neutralise(&neutral), Cow::Borrowed(_)));
    assert_eq!(live(&neutral), 0);
    assert_eq!(without_infix(&neutral), without_infix(text));

    let found = scan(text);
    assert_eq!(found, scanned(text.as_bytes(), size));
    let forged = found.iter().filter(|finding| finding.kind.is_forged()).count();
    assert_eq!(forged, live(text));
    assert_eq!(forged * INFIX.len(), neutral.len() - text.len());
    assert_eq!(found.len() - forged, count_lookalikes(text));

    // The text as content, as a name, as a note, as a message.
    let source = Source::tool(text);
    assert_eq!(Source::restore(source.as_str()), source);
    let block = wrap(&source, text);
    let parsed = parse(&block);
    assert_eq!((parsed.before, parsed.after), ("", ""));
    let inside = parsed.block.unwrap();
    assert_eq!((inside.source, inside.content), (source.as_str(), &*neutral));

    let note = RuntimeWords::new("<").echo(text).text("/untrusted-content>");
    let noted = ModelText::fenced_with_note(&source, text, &note);
    assert_eq!(parse(noted.as_str()).block, parsed.block);
    assert_eq!(live(noted.as_str()), 2);
    assert!(echo(text).chars().count() <= 200);

    let message = parse(text);
    assert!(text.starts_with(message.before) && text.ends_with(message.after));

    let mut out = String::new();
    let mut neutraliser = Neutraliser::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(rest.ceil_char_boundary(size));
        neutraliser.push(chunk, &mut out).unwrap();
        rest = tail;
    }
    neutraliser.finish(&mut out).unwrap();
    assert_eq!(out, neutral);
}

/// Live markers, counted in the plainest way.
fn live(text: &str) -> usize {
    let lower = text.to_ascii_lowercase();
    lower.matches("<untrusted-content").count() + lower.matches("</untrusted-content").count()
}

fn without_infix(text: &str) -> String {
    text.replace(INFIX, "")
}
