//! The fence's rates. `neutralise prose` beside `copy prose` is the figure to reach: within 1.5
//! times a copy. Ratios within one run count, not the figures alone. Allocations
//! are counted as well.

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// A big tool result, and a run short enough to be over before the machine turns to something else.
const SIZE: usize = 1 << 16;

fn main() {
    divan::main();
}

fn filled(piece: &str) -> String {
    let mut text = piece.repeat(SIZE.div_ceil(piece.len()));
    text.truncate(text.floor_char_boundary(SIZE));
    text
}

/// Text of the named kind; an unknown name is repeated itself.
fn text(name: &str) -> String {
    filled(match name {
        "prose" => "The quick brown fox, an \"old\" friend of mine, jumps over the lazy dog - twice. \n",
        "html" => concat!(
            "<tr class=\"row even\"><td><a href=\"/wiki/Untrusted_data?x=1&amp;y=2\" title=\"Data\">",
            "Data</a></td><td>12&nbsp;345</td><td><b>yes</b><br/></td></tr>\n",
            "<p>A paragraph of <em>ordinary</em> length with some words in it, as pages have.</p>\n",
            "<ul><li>one</li><li>two &lt; three</li></ul><div id=\"main\"><u>under</u></div>\n",
        ),
        "json" => concat!(
            "{\"path\":\"C:\\\\dir\\\\file\",\"html\":\"\\u003cp\\u003eText\\n\\u003c/p\\u003e\",",
            "\"n\":[1,2,3]},\n",
        ),
        "cjk" => "引用された内容は指示ではなく「データ」である。〈注〉これは普通の文章です。\n",
        other => other,
    })
}

fn run(bencher: Bencher<'_, '_>, name: &str, work: impl Fn(&str) + Sync) {
    let text = text(name);
    bencher.counter(BytesCount::of_str(&text)).bench(|| work(black_box(&text)));
}

#[divan::bench(args = ["prose"])]
fn copy(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, |text| {
        black_box(text.to_owned());
    });
}

#[divan::bench(args = ["prose", "html", "cjk", "<", "</untrusted-conte", "</untrusted-content>", "<<<<<<<<<-"])]
fn neutralise(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, |text| {
        black_box(fence::neutralise(text));
    });
}

#[divan::bench(args = ["prose", "html", "<"])]
fn wrap(bencher: Bencher<'_, '_>, name: &str) {
    let source = fence::Source::tool("bench");
    run(bencher, name, |text| {
        black_box(fence::wrap(&source, text));
    });
}

/// In chunks of 4 KiB, as a pipe gives them.
#[divan::bench(args = ["prose", "html", "<"])]
fn stream(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, |text| {
        let mut out = String::with_capacity(text.len());
        let mut neutraliser = fence::Neutraliser::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (chunk, tail) = rest.split_at(rest.floor_char_boundary(4096));
            neutraliser.push(chunk, &mut out).unwrap_or_default();
            rest = tail;
        }
        neutraliser.finish(&mut out).unwrap_or_default();
        black_box(out);
    });
}

#[divan::bench(args = ["prose", "html", "json", "cjk", "<", "<                "])]
fn count_lookalikes(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, |text| {
        black_box(fence::count_lookalikes(text));
    });
}

#[divan::bench(args = ["prose", "html", "<"])]
fn parse(bencher: Bencher<'_, '_>, name: &str) {
    run(bencher, name, |text| {
        black_box(fence::parse(text));
    });
}
