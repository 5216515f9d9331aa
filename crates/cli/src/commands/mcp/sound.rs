//! What a new connection may be called and reached by, before anything of it is stored.
//!
//! A record that was stored stays readable whatever is asked here later, so these are rules for what is given anew and
//! for nothing else. A name is what people grant by and what stands at each result of an agent's: two that look alike
//! are a trap. Letters are told apart by their script alone: names that are written wholly in another script than what
//! they imitate are not found.

use mcp::HttpConfig;
use policy::Connections;
use reqwest::Url;
use unicode_normalization::UnicodeNormalization as _;

use crate::failure::Failure;

/// Words in the name of a parameter whose value is a secret; alone, the shorter ones.
const SECRET_PARTS: [&str; 10] =
    ["token", "secret", "passw", "passphrase", "apikey", "accesskey", "credential", "signature", "bearer", "jwt"];
const SECRET_WORDS: [&str; 8] = ["key", "auth", "authorization", "sig", "pwd", "pass", "pw", "code"];
/// A secret that is shorter, or a word of letters or a number up to the second length, is hardly one. In bytes.
const SHORT: usize = 6;
const WORD: usize = 16;

/// Whether the name can be told from all others.
pub(super) fn name(text: &str, record: &Connections) -> Result<(), Failure> {
    let bad =
        |what: &str, hint: &str| Failure::failed(format!("the name `{text}` {what}")).code("E-MCP-020").hint(hint);
    if !text.nfkc().eq(text.chars()) {
        return Err(bad(
            "has characters that stand for others",
            "write it with plain letters, in composed form (NFKC)",
        ));
    }
    let scripts = text.chars().filter(|c| c.is_alphabetic()).map(Script::of);
    let mut scripts: Vec<Script> = scripts.collect();
    scripts.sort_unstable();
    scripts.dedup();
    if !matches!(scripts.as_slice(), [] | [_] | [Script::Latin, Script::Ideographs]) {
        return Err(bad("mixes letters of several scripts, of which some look alike", "use the letters of one script"));
    }
    let lower = text.to_lowercase();
    let taken = record.all().iter().find(|one| one.id == text || one.name.to_lowercase() == lower);
    match taken {
        Some(one) => Err(bad(
            &format!("is that of the connection `{}`", one.id),
            "names differ in more than their case: choose another, or `mur mcp update` that one",
        )),
        None => Ok(()),
    }
}

/// Kinds of letters; those of one kind may stand in one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Script {
    Latin,
    /// Chinese, Japanese and Korean, which are written with Latin letters among them and resemble none.
    Ideographs,
    Greek,
    Cyrillic,
    Other,
}

impl Script {
    fn of(letter: char) -> Self {
        match letter {
            'A'..='Z' | 'a'..='z' | '\u{aa}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Latin,
            '\u{3005}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{20000}'..='\u{3ffff}' => {
                Self::Ideographs
            }
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Self::Greek,
            '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{2de0}'..='\u{2dff}' | '\u{a640}'..='\u{a69f}' => {
                Self::Cyrillic
            }
            _ => Self::Other,
        }
    }
}

/// An address that can be called, and that holds no secret: it is stored, listed and logged in clear.
pub(super) fn address(url: &str) -> Result<&str, Failure> {
    let clear = "an address is stored and listed in clear: give the token with `--bearer-from-stdin`";
    let parsed = Url::parse(url).ok();
    if parsed.as_ref().is_some_and(|url| !url.username().is_empty() || url.password().is_some()) {
        return Err(Failure::failed("the address holds a credential").code("E-MCP-001").hint(clear));
    }
    HttpConfig::new(url).map_err(|error| Failure::failed(error.to_string()).code(error.code()).hint(error.hint()))?;
    let named = parsed.iter().flat_map(Url::query_pairs).find(|(name, _)| is_secret(name));
    match named {
        // The value is not repeated.
        Some((name, _)) => Err(Failure::failed(format!("the address holds a secret in its parameter `{name}`"))
            .code("E-MCP-001")
            .hint(clear)),
        None => Ok(url),
    }
}

fn is_secret(parameter: &str) -> bool {
    let plain: String = parameter.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_WORDS.contains(&plain.as_str()) || SECRET_PARTS.iter().any(|part| plain.contains(part))
}

/// The token in a text, whose end of line is none of it.
pub(super) fn token(text: &str) -> Result<&str, Failure> {
    let token = text.trim_end_matches(['\r', '\n']);
    let hint = "`printf %s \"$TOKEN\" | mur mcp add … --bearer-from-stdin`";
    if token.is_empty() {
        return Err(Failure::unusable("standard input holds no token").hint(hint));
    }
    // What no header carries, or a server reads as the end of it.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            Failure::unusable("the token holds a space, a line break or another character that none has").hint(hint)
        );
    }
    Ok(token)
}

/// Whether a value is hardly a secret: what else says the same would be hidden with it.
pub(super) fn is_plain_word(value: &str) -> bool {
    let is_one = |kind: fn(&u8) -> bool| value.bytes().all(|byte| kind(&byte));
    value.len() < SHORT || value.len() < WORD && (is_one(u8::is_ascii_alphabetic) || is_one(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::{address, is_plain_word, is_secret, name, token};
    use crate::failure::Failure;
    use policy::Connections;

    #[test]
    fn a_name_is_of_one_script_and_in_its_composed_form() {
        let named = |text| name(text, &Connections::default()).is_ok();
        for text in ["files", "Größe (2)", "Файлы", "αβγ", "日本", "Jira 日本語", "한국 wiki", "ÅÆ", "1", "ملفات"]
        {
            assert!(named(text), "{text}");
        }
        // Cyrillic а, Greek ο, full width, a ligature, a letterlike sign, a decomposed letter, Armenian օ, IPA ɑ.
        for text in ["filеs", "tοken", "ｆiles", "ﬁles", "\u{212b}", "u\u{308}ber", "gօ", "dɑta", "аο"] {
            assert!(!named(text), "{text}");
        }
    }

    #[test]
    fn an_address_is_safe_to_call_and_to_show() {
        for url in [
            "https://a.example/mcp",
            "https://a.example/mcp?author=me&page=2&keyword=a",
            "http://127.0.0.1:80/mcp",
            "http://localhost/mcp",
            "http://[::1]:9/mcp",
        ] {
            assert_eq!(address(url).unwrap(), url);
        }
        let refused = |url: &str| address(url).unwrap_err().message().to_owned();
        for url in ["http://a.example/mcp", "http://127.0.0.1.a.example/mcp", "http://10.0.0.1/"] {
            assert!(refused(url).contains("plain HTTP"), "{}", refused(url));
        }
        assert!(refused("https://u:p@a.example").contains("credential"));
        for name in
            ["token", "access_token", "apiKey", "API-KEY", "key", "client_secret", "tok%65n", "sig", "X-Amz-Signature"]
        {
            let message = refused(&format!("https://a.example/mcp?page=1&{name}=s3cr3t-value"));
            assert!(message.contains("holds a secret") && !message.contains("s3cr3t"), "{message}");
        }
        assert!(!is_secret("monkey") && !is_secret("design") && !is_secret("encoding") && !is_secret("passage"));
    }

    #[test]
    fn a_token_is_one_word() {
        assert_eq!(token("abc-._~+/=9\r\n"), Ok("abc-._~+/=9"));
        for text in ["", "\n", "a b", "a\nb", " a", "a\t", "a\u{7f}", "a\0", "tökén", "a\r\nx: y\n"] {
            let told: Failure = token(text).unwrap_err();
            assert_eq!(told.status(), 2, "{text:?}");
        }
    }

    #[test]
    fn short_and_common_values_are_told_apart() {
        for value in ["", "1", "info", "production", "12345678", "true"] {
            assert!(is_plain_word(value), "{value}");
        }
        for value in
            ["tok_8f14e45fceea", "hunter2", "correct horse battery", "abcdefghijklmnopqrst", "1234567890123456"]
        {
            assert!(!is_plain_word(value), "{value}");
        }
    }
}
