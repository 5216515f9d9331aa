//! Laws of the fence, for all texts.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

use fence::{
    BlockWriter, ModelText, Neutraliser, RuntimeWords, Scanner, Source, count_lookalikes, echo, neutralise, parse,
    scan, wrap,
};
use proptest::prelude::*;

use crate::texts::{byte_chunks, chunked, hostile, str_chunks};

const INFIX: &str = "!MURMUR-NEUTRALISED!";

/// The contract read out loud, one byte at a time.
fn by_the_letter(content: &str) -> String {
    let lower = content.to_ascii_lowercase();
    let mut out = String::new();
    for (at, ch) in content.char_indices() {
        out.push(ch);
        let (_, rest) = lower.split_at(at);
        if rest.starts_with("<untrusted-content") || rest.starts_with("</untrusted-content") {
            out.push_str(INFIX);
        }
    }
    out
}

fn live(text: &str, marker: &str) -> usize {
    text.to_ascii_lowercase().matches(marker).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn neutralising_is_what_the_contract_says(content in hostile()) {
        let neutral = neutralise(&content);
        prop_assert_eq!(&*neutral, by_the_letter(&content));
        prop_assert_eq!(matches!(neutral, Cow::Borrowed(_)), *neutral == *content);
    }

    #[test]
    fn neutralising_twice_changes_nothing(content in hostile()) {
        let once = neutralise(&content).into_owned();
        prop_assert!(matches!(neutralise(&once), Cow::Borrowed(same) if same == once));
    }

    #[test]
    fn neutralising_only_inserts(content in hostile()) {
        // Take out as many infixes as were put in, at the places the scan names, from the end.
        let forged: Vec<_> = scan(&content).into_iter().filter(|f| f.kind.is_forged()).collect();
        let mut text = neutralise(&content).into_owned();
        for (nth, finding) in forged.iter().enumerate().rev() {
            let at = finding.offset + 1 + nth * INFIX.len();
            prop_assert_eq!(text.get(at..at + INFIX.len()), Some(INFIX));
            text.replace_range(at..at + INFIX.len(), "");
        }
        prop_assert_eq!(text, content);
    }

    #[test]
    fn a_block_parses_back_to_the_neutralised_content(name in hostile(), content in hostile()) {
        let source = Source::tool(&name);
        let block = wrap(&source, &content);
        let parsed = parse(&block);
        prop_assert_eq!((parsed.before, parsed.after), ("", ""));
        let inside = parsed.block.expect("a block");
        prop_assert_eq!(inside.source, source.as_str());
        prop_assert_eq!(inside.content, &*neutralise(&content));
    }

    #[test]
    fn a_block_holds_one_opener_and_one_closer(name in hostile(), content in hostile(), note in hostile()) {
        let note = RuntimeWords::new("<").echo(&note).text("/").echo(&note);
        let source = Source::tool_of(&name, &name);
        let text = ModelText::fenced_with_note(&source, &content, &note);
        prop_assert_eq!(live(text.as_str(), "<untrusted-content"), 1);
        prop_assert_eq!(live(text.as_str(), "</untrusted-content"), 1);
        let parsed = parse(text.as_str());
        prop_assert_eq!(parsed.after, format!("\n{note}"));
        prop_assert_eq!(parsed.block.map(|b| b.content.to_owned()), Some(neutralise(&content).into_owned()));
    }

    #[test]
    fn a_source_is_one_line_and_stable(name in hostile()) {
        let source = Source::task(&name);
        prop_assert!(!source.as_str().contains(['>', '\r', '\n']));
        prop_assert_eq!(live(source.as_str(), "<untrusted-content"), 0);
        prop_assert_eq!(Source::restore(source.as_str()), source);
    }

    #[test]
    fn parsing_loses_nothing(message in hostile()) {
        let parsed = parse(&message);
        if let Some(block) = parsed.block {
            let rebuilt_at_most = parsed.before.len() + block.source.len() + block.content.len()
                + parsed.after.len() + "<untrusted-content source=></untrusted-content>".len();
            prop_assert!((rebuilt_at_most..=rebuilt_at_most + 2).contains(&message.len()));
            prop_assert!(message.starts_with(parsed.before) && message.ends_with(parsed.after));
            prop_assert_eq!(live(parsed.after, "</untrusted-content>"), 0);
            prop_assert!(!block.source.contains('>'));
        } else {
            prop_assert_eq!((parsed.before, parsed.after), (message.as_str(), ""));
        }
    }

    #[test]
    fn neutralising_a_stream_equals_the_whole((content, sizes) in chunked()) {
        let mut out = String::new();
        let mut neutraliser = Neutraliser::new();
        for chunk in str_chunks(&content, &sizes) {
            neutraliser.push(chunk, &mut out).unwrap();
        }
        neutraliser.finish(&mut out).unwrap();
        prop_assert_eq!(out, neutralise(&content));
    }

    #[test]
    fn a_streamed_block_equals_the_whole((content, sizes) in chunked(), name in hostile()) {
        let source = Source::tool(&name);
        let whole = wrap(&source, &content);

        let mut text = BlockWriter::new(&source, String::new());
        for chunk in str_chunks(&content, &sizes) {
            text.write_str(chunk).unwrap();
        }
        prop_assert_eq!(text.finish_fmt().unwrap(), whole.clone());

        let mut bytes = BlockWriter::new(&source, Vec::new());
        for chunk in byte_chunks(content.as_bytes(), &sizes) {
            bytes.write_all(chunk).unwrap();
        }
        prop_assert_eq!(bytes.finish_io().unwrap(), whole.into_bytes());
    }

    #[test]
    fn scanning_a_stream_equals_the_whole((content, sizes) in chunked()) {
        let mut found = Vec::new();
        let mut scanner = Scanner::new();
        for chunk in byte_chunks(content.as_bytes(), &sizes) {
            scanner.push(chunk, |finding| found.push(finding));
        }
        scanner.finish(|finding| found.push(finding));
        prop_assert_eq!(found, scan(&content));
    }

    #[test]
    fn a_scan_sees_every_marker_that_is_rewritten(content in hostile()) {
        let found = scan(&content);
        let forged = found.iter().filter(|f| f.kind.is_forged()).count();
        prop_assert_eq!(forged * INFIX.len(), neutralise(&content).len() - content.len());
        prop_assert_eq!(found.len() - forged, count_lookalikes(&content));
        prop_assert!(found.is_sorted_by(|a, b| a.offset + a.len <= b.offset));
        prop_assert!(found.iter().all(|f| content.get(f.offset..f.offset + f.len).is_some()));
    }

    #[test]
    fn an_echo_is_short_printable_and_no_marker(foreign in hostile(), times in 1_usize..20) {
        let shown = echo(&foreign.repeat(times));
        prop_assert!(shown.chars().count() <= 200);
        let unfit = |ch: char| ch.is_control() || ch == '\u{200b}' || ch == '`';
        prop_assert!(!shown.chars().any(unfit));
        prop_assert!(matches!(neutralise(&shown), Cow::Borrowed(_)));
    }

    #[test]
    fn words_are_no_marker_over_their_joins(a in hostile(), b in hostile()) {
        let words = RuntimeWords::new("</untrusted").echo(&a).text("<").echo(&b).text("-content");
        prop_assert!(matches!(neutralise(words.as_str()), Cow::Borrowed(_)));
    }
}
