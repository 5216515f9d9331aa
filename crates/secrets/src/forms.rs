//! The encodings in which a known value is recognised.
//!
//! Every form is one fixed byte string, so that finding it depends on nothing around it: a chunk
//! border, an odd backslash or a stray `%` before it cannot hide it. What real encoders differ in
//! (which characters they escape, in which case, whether `/` is escaped) is a table here, tried row by
//! row. Base64 and hex in lines are put together by `wrapped`. Not recognised: hex with separators or of mixed
//! case, two encodings on top of each other except the pairs listed in [`emit`], compression, and any cipher.

use zeroize::Zeroizing;

/// How one family of JSON writers escapes, beyond `"`, `\` and control characters.
struct Json {
    /// ASCII characters written as `\u00XX`.
    unicode: &'static str,
    /// Non-ASCII written as `\u` and four hex digits.
    ascii_only: bool,
    /// `/` written as `\/`.
    slash: bool,
}

const JSON: [Json; 9] = [
    // serde_json, JSON.stringify, Jackson
    Json { unicode: "", ascii_only: false, slash: false },
    // Python
    Json { unicode: "", ascii_only: true, slash: false },
    // PHP, with and without JSON_UNESCAPED_UNICODE
    Json { unicode: "", ascii_only: true, slash: true },
    Json { unicode: "", ascii_only: false, slash: true },
    // Go, Rails
    Json { unicode: "<>&\u{2028}\u{2029}", ascii_only: false, slash: false },
    // templates that write JSON into HTML
    Json { unicode: "<>&'", ascii_only: true, slash: false },
    // Gson
    Json { unicode: "<>&='", ascii_only: false, slash: false },
    // .NET
    Json { unicode: "\"&'+<>`\u{7f}", ascii_only: true, slash: false },
    // PHP with JSON_HEX_*
    Json { unicode: "\"<>&'", ascii_only: true, slash: true },
];

/// How one family of URL writers escapes.
enum Url {
    /// All but ASCII letters, digits and these; a space may become `+`.
    Keep(&'static str, bool),
    /// Controls, non-ASCII and these only.
    Escape(&'static str),
    /// Every byte.
    All,
}

const URL: [Url; 10] = [
    // RFC 3986 unreserved; the same with spaces as `+` (Python quote_plus)
    Url::Keep("-_.~", false),
    Url::Keep("-_.~", true),
    // encodeURIComponent, encodeURI, Python quote, HTML forms and Java
    Url::Keep("-_.!~*'()", false),
    Url::Keep("-_.!~*'();/?:@&=+$,#", false),
    Url::Keep("-_.~/", false),
    Url::Keep("*-._", true),
    // URL parsers: query, path, user information
    Url::Escape(" \"#<>'"),
    Url::Escape(" \"#<>?`{}^"),
    Url::Escape(" \"#<>?`{}^/:;=@[\\]|"),
    Url::All,
];

/// What the families above make of `+` and `/`, the only characters of base64 that they escape.
const BASE64_JSON: [Json; 2] =
    [Json { unicode: "", ascii_only: false, slash: true }, Json { unicode: "+", ascii_only: false, slash: false }];
const BASE64_URLS: [Url; 2] = [Url::Keep("", false), Url::Keep("/", false)];

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Calls `each` with every form of `value`; a form may come more than once.
///
/// Raw; JSON-escaped, also within another JSON text; URL-encoded; hex; base64 in both alphabets at the
/// three alignments, also JSON-escaped or URL-encoded. Base64 forms hold only the characters that the
/// value alone decides, so they match whatever stands before and after it.
pub(crate) fn emit(value: &str, mut each: impl FnMut(&[u8])) {
    // Base64 grows by a third and an escape makes 6 bytes of one: within this room the buffers never
    // grow, which would leave copies behind.
    let room = value.len() * 9 + 16;
    let mut form = Zeroizing::new(Vec::with_capacity(room));
    let mut outer = Zeroizing::new(Vec::with_capacity(room * 2));

    each(value.as_bytes());
    for digits in [LOWER, UPPER] {
        form.clear();
        value.chars().for_each(|c| unicode(&mut form, c, digits));
        each(&form);
        form.clear();
        value.bytes().for_each(|b| form.extend(hex(b, digits)));
        each(&form);
        url(&mut form, value, &Url::All, digits);
        each(&form);
    }
    if value.bytes().any(|b| !(b.is_ascii_alphanumeric() || b"-_.".contains(&b))) {
        for digits in [LOWER, UPPER] {
            for style in &JSON {
                json(&mut form, value, style, digits);
                each(&form);
                outer.clear();
                for &b in form.iter() {
                    outer.extend(matches!(b, b'"' | b'\\').then_some(b'\\'));
                    outer.push(b);
                }
                each(&outer);
            }
            for style in &URL {
                url(&mut form, value, style, digits);
                each(&form);
            }
        }
    }
    base64_forms(value, &mut outer, &mut form, &mut each);
}

fn base64_forms(value: &str, plain: &mut Vec<u8>, form: &mut Vec<u8>, each: &mut impl FnMut(&[u8])) {
    for lead in 0..3 {
        base64(plain, value.as_bytes(), lead, BASE64_URL);
        each(plain);
        base64(plain, value.as_bytes(), lead, BASE64);
        each(plain);
        if !plain.iter().any(|b| matches!(b, b'+' | b'/')) {
            continue;
        }
        let Ok(text) = std::str::from_utf8(plain) else {
            continue;
        };
        for digits in [LOWER, UPPER] {
            for style in &BASE64_JSON {
                json(form, text, style, digits);
                each(form);
            }
            for style in &BASE64_URLS {
                url(form, text, style, digits);
                each(form);
            }
        }
    }
}

/// The characters of the base64 text of `<lead unknown bytes><value><unknown>` that are the same
/// whatever the unknown bytes are.
fn base64(out: &mut Vec<u8>, value: &[u8], lead: usize, alphabet: &[u8; 64]) {
    out.clear();
    // The character that holds the last bits of the lead also holds this many of the value's.
    let skip = match lead {
        0 => 0,
        1 => 4,
        _ => 2,
    };
    let pair = |index: usize| u16::from(value.get(index).copied().unwrap_or(0));
    let mut bit = skip;
    while bit + 6 <= value.len() * 8 {
        let bits = (pair(bit / 8) << 8) | pair(bit / 8 + 1);
        let index = usize::from((bits >> (10 - bit % 8)) & 63);
        out.extend(alphabet.get(index));
        bit += 6;
    }
}

fn json(out: &mut Vec<u8>, value: &str, style: &Json, digits: &[u8; 16]) {
    out.clear();
    for c in value.chars() {
        let short = match c {
            _ if style.unicode.contains(c) || (style.ascii_only && !c.is_ascii()) => {
                unicode(out, c, digits);
                continue;
            }
            '"' | '\\' => c,
            '/' if style.slash => c,
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\0'..='\u{1f}' => {
                unicode(out, c, digits);
                continue;
            }
            _ => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        out.extend([b'\\', short as u8]);
    }
}

/// `\u` and four hex digits, twice for a character beyond the first plane.
fn unicode(out: &mut Vec<u8>, c: char, digits: &[u8; 16]) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let [high, low] = unit.to_be_bytes();
        out.extend(b"\\u");
        out.extend(hex(high, digits));
        out.extend(hex(low, digits));
    }
}

fn url(out: &mut Vec<u8>, value: &str, style: &Url, digits: &[u8; 16]) {
    out.clear();
    for b in value.bytes() {
        let kept = match style {
            Url::Keep(_, true) if b == b' ' => {
                out.push(b'+');
                continue;
            }
            Url::Keep(also, _) => b.is_ascii_alphanumeric() || also.as_bytes().contains(&b),
            Url::Escape(these) => (b' '..=b'~').contains(&b) && !these.as_bytes().contains(&b),
            Url::All => false,
        };
        if kept {
            out.push(b);
        } else {
            out.push(b'%');
            out.extend(hex(b, digits));
        }
    }
}

fn hex(byte: u8, digits: &[u8; 16]) -> impl Iterator<Item = u8> + '_ {
    [byte >> 4, byte & 15].into_iter().filter_map(|nibble| digits.get(usize::from(nibble)).copied())
}
