use proptest::prelude::*;

use super::{Sse, SseError};

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<(String, String)>, SseError> {
    let mut events = Vec::new();
    let mut sse = Sse::default();
    for chunk in chunks {
        sse.feed(chunk, &mut |event| {
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok(false)
        })?;
    }
    assert_eq!(sse.events(), events.len());
    Ok(events)
}

fn whole(text: &str) -> Vec<(String, String)> {
    decode([text.as_bytes()]).unwrap()
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn every_line_end_and_every_field_is_read_as_the_standard_says() {
    assert_eq!(whole("data: a\n\ndata: b\r\rdata: c\r\n\r\n"), ["a", "b", "c"].map(|data| event("", data)));
    assert_eq!(whole("event: x\ndata:  one\ndata:two\ndata\n\n"), [event("x", " one\ntwo\n")]);
    assert_eq!(whole("\u{feff}data: a\n\n"), [event("", "a")]);
    assert_eq!(whole(": hi\nid: 7\nretry: 5\nevent: x\n\ndata: b\n\n"), [event("", "b")], "no data is no event");
    assert_eq!(whole("data: a\n\ndata: torn"), [event("", "a")], "nor is one without its blank line");
    assert_eq!(whole("error: {}\n\n"), [event("error", "{}")]);
}

#[test]
fn a_stop_leaves_the_rest_unread() {
    let mut seen = 0;
    let mut sse = Sse::default();
    let stopped = sse.feed(b"data: a\n\ndata: b\n\n", &mut |_| {
        seen += 1;
        Ok::<_, SseError>(true)
    });
    assert_eq!((stopped, seen), (Ok(true), 1));
}

#[test]
fn an_id_is_that_of_its_own_event_alone() {
    let mut ids = Vec::new();
    let mut sse = Sse::default();
    let text = "id: 7\ndata: a\n\ndata: b\n\nid: 8\n\ndata: c\n\nid: 9\0\ndata: d\n\nid:10\nid\ndata: e\n\n";
    sse.feed(text.as_bytes(), &mut |event| {
        ids.push((event.data.to_owned(), event.id.map(str::to_owned)));
        Ok::<_, SseError>(false)
    })
    .unwrap();
    let expected = [("a", Some("7")), ("b", None), ("c", None), ("d", None), ("e", Some(""))];
    assert_eq!(ids, expected.map(|(data, id)| (data.to_owned(), id.map(str::to_owned))));
}

#[test]
fn a_line_and_an_event_have_bounds() {
    let line = vec![b'x'; 8 << 20];
    assert_eq!(decode([line.as_slice(), b"\n\n"]), Ok(Vec::new()));
    let error = decode([line.as_slice(), b"x"]).unwrap_err();
    assert_eq!(error.to_string(), "sent a line of more than 8 MiB");
    let half: Vec<u8> = [b"data:".as_slice(), &[b'x'; 4 << 20], b"\n"].concat();
    assert_eq!(decode([half.as_slice(), &half, b"\n"]).unwrap().len(), 1);
    let mut small = Sse::bounded(9);
    assert_eq!(small.feed::<SseError>(b"data: abc\n\n", &mut |_| Ok(true)), Ok(true));
    assert_eq!(small.feed::<SseError>(b"data: abcd\n", &mut |_| Ok(true)), Err(SseError::LongLine(9)));
    assert_eq!(decode([half.as_slice(), &half, b"data:x\n"]), Err(SseError::LongEvent(8 << 20)));
}

proptest! {
    #[test]
    fn any_split_decodes_the_same(
        text in "(data|event|:|é| |\r|\n|\r\n|x){0,40}",
        cuts in proptest::collection::vec(0_usize..200, 0..8),
    ) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut from = 0;
        let chunks: Vec<&[u8]> = cuts.into_iter().map(|to| &bytes[std::mem::replace(&mut from, to)..to]).collect();
        prop_assert_eq!(decode(chunks), decode([bytes]));
    }

    #[test]
    fn any_bytes_decode_or_fail_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode([bytes.as_slice()]);
    }
}
