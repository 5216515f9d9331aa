//! Redaction against a plain copy of the same text: `cargo bench -p secrets`.
//!
//! Each text is 256 KiB and holds no known value, which is what nearly all text is like; one row holds
//! many. Fifty values of 40 characters, or as the row says.

use divan::{Bencher, black_box, counter::BytesCount};
use secrets::{Redactor, Secret, StreamRedactor};

const SIZE: usize = 256 * 1024;
const CASES: [&str; 3] = ["prose", "json", "base64"];

fn main() {
    divan::main();
}

/// A small generator, so that every run sees the same bytes.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.roll(from.len())).copied().unwrap_or_default()
    }

    fn token(&mut self, alphabet: &str, length: usize) -> String {
        let chars: Vec<char> = alphabet.chars().collect();
        (0..length).filter_map(|_| chars.get(self.roll(chars.len())).copied()).collect()
    }
}

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WORDS: [&str; 24] = [
    "the ", "agent ", "reads ", "a ", "file ", "and ", "writes ", "its ", "answer ", "to ", "every ", "caller ",
    "who ", "asked, ", "because ", "nobody ", "else ", "could. ", "Then ", "it ", "waits ", "for ", "another ",
    "task.\n",
];
const CODE: [&str; 16] = [
    "{\"name\":\"",
    "value\",\"",
    "items\":[1,2,3],\"",
    "path\":\"/usr/lib/x\",\"",
    "text\":\"line\\n",
    "fn main() {\\n",
    "    let x = \\\"a\\\";\\n",
    "}\\n\",\"",
    "id\":\"",
    "0199a7c2",
    "\",\"ok\":true},",
    "\"url\":\"https://example.com/a?b=%20c\",",
    "null,",
    "[\"-\"],",
    "for i in 0..10 ",
    "return Err(e);",
];

fn text(kind: &str) -> String {
    let mut dice = Dice(7);
    let mut out = String::with_capacity(SIZE + 64);
    while out.len() < SIZE {
        match kind {
            "prose" => out.push_str(dice.pick(&WORDS)),
            "json" => out.push_str(dice.pick(&CODE)),
            _ => out.push_str(&dice.token(BASE64, 76)),
        }
    }
    out.truncate(SIZE);
    out
}

fn values(count: usize, length: usize) -> Vec<Secret> {
    let mut dice = Dice(99);
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..count).map(|_| Secret::new(format!("sk-{}", dice.token(alphabet, length - 3)))).collect()
}

fn redactor(values: &[Secret]) -> Redactor {
    let redactor = Redactor::new();
    values.iter().for_each(|value| redactor.learn(value));
    redactor.redact("");
    redactor
}

fn run(bencher: Bencher, text: &str, redactor: &Redactor) {
    bencher.counter(BytesCount::of_str(text)).bench(|| redactor.redact(black_box(text)).count());
}

#[divan::bench(args = CASES)]
fn memcpy(bencher: Bencher, kind: &str) {
    let text = text(kind);
    let mut to = vec![0_u8; text.len()];
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        black_box(&mut to).copy_from_slice(black_box(text.as_bytes()));
    });
}

#[divan::bench(args = CASES)]
fn redact_50(bencher: Bencher, kind: &str) {
    run(bencher, &text(kind), &redactor(&values(50, 40)));
}

/// One 8-byte value among the fifty makes the search look closer everywhere.
#[divan::bench(args = CASES)]
fn redact_50_one_of_8_bytes(bencher: Bencher, kind: &str) {
    let mut all = values(49, 40);
    all.extend(values(1, 8));
    run(bencher, &text(kind), &redactor(&all));
}

#[divan::bench(args = CASES)]
fn redact_50_of_12_bytes(bencher: Bencher, kind: &str) {
    run(bencher, &text(kind), &redactor(&values(50, 12)));
}

#[divan::bench(args = CASES)]
fn redact_50_and_a_short_one(bencher: Bencher, kind: &str) {
    let mut all = values(50, 40);
    all.push(Secret::new("4711".to_owned()));
    run(bencher, &text(kind), &redactor(&all));
}

#[divan::bench(args = CASES)]
fn redact_3(bencher: Bencher, kind: &str) {
    run(bencher, &text(kind), &redactor(&values(3, 40)));
}

#[divan::bench]
fn redact_50_a_value_each_kilobyte(bencher: Bencher) {
    let all = values(50, 40);
    let plain = text("prose");
    let mut full = String::new();
    for (piece, value) in plain.as_bytes().chunks(1024).zip(all.iter().cycle()) {
        full.push_str(&String::from_utf8_lossy(piece));
        full.push_str(value.expose());
    }
    run(bencher, &full, &redactor(&all));
}

#[divan::bench(args = [4, 64, 4096, 65536])]
fn stream_50_prose_in_chunks(bencher: Bencher, chunk: usize) {
    let text = text("prose");
    let redactor = redactor(&values(50, 40));
    bencher.counter(BytesCount::of_str(&text)).bench(|| {
        let mut stream = StreamRedactor::new(&redactor);
        for piece in text.as_bytes().chunks(chunk) {
            black_box(stream.push_bytes(black_box(piece)));
        }
        stream.finish()
    });
}

#[divan::bench(args = [0, 1, 3, 50])]
fn build(bencher: Bencher, count: usize) {
    bencher.with_inputs(|| values(count, 40)).bench_refs(|all| redactor(all));
}

#[divan::bench]
fn build_50_with_punctuation(bencher: Bencher) {
    let all: Vec<Secret> = values(50, 38).iter().map(|value| Secret::new(format!("{}/\"", value.expose()))).collect();
    bencher.bench(|| redactor(&all));
}
