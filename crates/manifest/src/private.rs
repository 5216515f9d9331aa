//! What a message about a manifest must not repeat: whatever may be a credential.
//!
//! A credential is known by where it stands, not by how it looks: everything in a `gateway` and under a
//! key that speaks of keys, tokens, secrets, passwords or credentials is covered, misspelled or not.
//! Lines are covered from the text alone and too much rather than too little, because they are shown
//! just when the text could not be read. Of an address, scheme and host stay.

use crate::diagnostic::nearest;
use crate::model::SecretName;

/// What a key speaks of when its values are private.
const TOPICS: &[&str] = &[
    "key",
    "token",
    "secret",
    "passw",
    "passphrase",
    "credential",
    "gateway",
    "upstream_auth",
    "authorization",
    "bearer",
];
/// Keys whose misspelling is private too.
const PRIVATE: &[&str] =
    &["gateway", "gateways", "api_key", "token", "secret", "password", "passphrase", "credential", "upstream_auth"];
/// Keys of a private place that may be shown.
const SHOWN: &[&str] = &[
    "gateway",
    "gateways",
    "name",
    "endpoint",
    "api_key",
    "keyless",
    "upstream_auth",
    "header",
    "value",
    "secrets",
    "token",
    "token_file",
    "secret",
    "password",
    "credential",
    "url",
    "base_url",
    "host",
    "port",
    "path",
];

/// Whether what stands under `key` may be a credential.
pub(crate) fn is_private_key(key: &str) -> bool {
    // No word of the two tables is shorter, and a hostile file has a great many words.
    if key.len() < 3 {
        return false;
    }
    let folded = key.to_lowercase().replace('-', "_");
    // Limits count tokens of another kind.
    let limit = folded.starts_with("max") && folded.contains("token");
    let alike = |word: &&&str| word.chars().next() == folded.chars().next() && word.len().abs_diff(folded.len()) <= 3;
    !limit
        && (TOPICS.iter().any(|topic| folded.contains(topic))
            || nearest(&folded, PRIVATE.iter().filter(alike).copied()).is_some())
}

/// Whether a key may be a credential itself: in a private place one that is near to no known key,
/// elsewhere a private key that a value runs into (`api_key:…`).
pub(crate) fn hides_key(private: bool, key: &str) -> bool {
    let word = key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if private { !may_be_shown(key) } else { !word && is_private_key(key) }
}

fn may_be_shown(key: &str) -> bool {
    nearest(key, SHOWN.iter().copied()).is_some()
}

/// `text` with stars over what may be a credential; every character keeps its line and column.
pub(crate) fn cover(text: &str) -> String {
    let mut cover = Cover { out: String::with_capacity(text.len()), place: None };
    for line in text.split_inclusive(['\n', '\r']) {
        let (line, end) = match line.strip_suffix(['\n', '\r']) {
            Some(rest) => (rest, line.get(rest.len()..).unwrap_or_default()),
            None => (line, ""),
        };
        cover.line(line);
        cover.out.push_str(end);
    }
    cover.out
}

/// `text` with stars over the user, the query and the fragment of each address in it.
pub(crate) fn cover_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(after.len());
        let (address, behind) = after.split_at(end);
        let (user, place) = match address.rfind('@') {
            Some(at) => address.split_at(at),
            None => ("", address),
        };
        let (place, query) = place.split_at(place.find(['?', '#']).unwrap_or(place.len()));
        out.push_str(before);
        out.push_str("://");
        stars(user, &mut out);
        out.push_str(place);
        stars(query, &mut out);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// A place whose texts are private.
struct Place {
    /// Columns of the key: what stands deeper belongs to it.
    indent: usize,
    /// Brackets that are open since its line began: while there are any, columns say nothing.
    brackets: usize,
    /// The quote that is open.
    quote: Option<char>,
    /// Whether the key before a value names an address and not a credential.
    address: bool,
}

struct Cover {
    out: String,
    place: Option<Place>,
}

impl Cover {
    fn line(&mut self, line: &str) {
        let content = line.trim_start();
        let indent = line.chars().count() - content.chars().count();
        if let Some(mut place) = self.place.take() {
            let list = content.starts_with("- ") || content == "-";
            let inside = place.brackets > 0
                || place.quote.is_some()
                || indent > place.indent
                || content.is_empty()
                || content.starts_with(['#', ':', '}', ']'])
                || list && indent == place.indent;
            if inside {
                place.values(line, &mut self.out);
                self.place = Some(place);
                return;
            }
        }
        let Some((start, end)) = private_key(line) else {
            self.out.push_str(&cover_addresses(line));
            return;
        };
        let (front, rest) = line.split_at(end);
        let before = front.get(..start).unwrap_or_default();
        let key = front.get(start..).unwrap_or_default();
        let deep = before.chars().all(|c| " -?\"'".contains(c));
        // A key among others in brackets: what is deeper than its line belongs to it.
        let indent = if deep { before.trim_end_matches(['"', '\'']).chars().count() } else { indent };
        let indent = if before.contains('?') { indent.saturating_sub(2) } else { indent };
        let open = before.matches(['{', '[']).count().saturating_sub(before.matches(['}', ']']).count());
        self.out.push_str(&cover_addresses(before));
        self.out.push_str(key);
        let mut place = Place { indent, brackets: open, quote: None, address: !is_credential(key) };
        // The key's own closing quote opens nothing.
        let rest = match rest.strip_prefix(['"', '\'']) {
            Some(after) => {
                self.out.push_str(rest.strip_suffix(after).unwrap_or_default());
                after
            }
            None => rest,
        };
        place.values(rest, &mut self.out);
        self.place = Some(place);
    }
}

/// Where the first private key of a line stands, in bytes.
fn private_key(line: &str) -> Option<(usize, usize)> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-' || c == '.';
    let margin = line.len() - line.trim_start().len();
    let mut at = 0;
    while let Some(rest) = line.get(at..) {
        let start = at + rest.find(part)?;
        let word = line.get(start..)?;
        let word = word.split(|c| !part(c)).next()?;
        at = start + word.len();
        let before = line.get(..start)?.trim_end_matches([' ', '\t', '"', '\'']);
        let after = line.get(at..)?.trim_start_matches([' ', '\t', '"', '\'']);
        // A key whose colon was forgotten stands where keys do.
        let first = before.len() <= margin || before.ends_with(['{', ',', '?']) || before.get(margin..) == Some("-");
        let word = word.trim_start_matches('-');
        if (first || after.starts_with([':', '='])) && is_private_key(word) {
            return Some((at - word.len(), at));
        }
    }
    None
}

/// Whether the value of a key is a credential, and not a place that holds an address too.
fn is_credential(key: &str) -> bool {
    let address = ["endpoint", "url", "base_url", "host", "gateway", "gateways"];
    nearest(key, address.into_iter()).is_none()
}

impl Place {
    /// Writes a part of a line; keys that may be shown, punctuation and references stay.
    fn values(&mut self, line: &str, out: &mut String) {
        let mut rest = line;
        let mut first = true;
        while let Some(c) = rest.chars().next() {
            if let Some(quote) = self.quote {
                let (inside, behind) = quoted(rest, quote);
                self.scalar(inside, out);
                rest = behind;
                if rest.starts_with(quote) {
                    out.push(quote);
                    rest = rest.strip_prefix(quote).unwrap_or_default();
                    self.quote = None;
                }
                continue;
            }
            if c.is_whitespace() || "{}[],:".contains(c) {
                match c {
                    '{' | '[' => self.brackets += 1,
                    '}' | ']' => self.brackets = self.brackets.saturating_sub(1),
                    _ => {}
                }
                first = first && c.is_whitespace() || matches!(c, '{' | ',');
                out.push(c);
                rest = rest.strip_prefix(c).unwrap_or_default();
                continue;
            }
            if matches!(c, '"' | '\'') {
                self.quote = Some(c);
                out.push(c);
                rest = rest.strip_prefix(c).unwrap_or_default();
                first = false;
                continue;
            }
            if first && let Some(item) = rest.strip_prefix("- ") {
                out.push_str("- ");
                rest = item;
                continue;
            }
            let (text, behind) = plain(rest);
            if first && behind.trim_start().starts_with(':') && may_be_shown(text) {
                self.address = !is_credential(text);
                out.push_str(text);
            } else {
                self.scalar(text, out);
            }
            first = false;
            rest = behind;
        }
    }

    fn scalar(&self, text: &str, out: &mut String) {
        if matches!(text, "true" | "false" | "null" | "~") || is_reference(text) {
            out.push_str(text);
        } else if let Some(host) = self.address.then(|| host_end(text)).flatten() {
            let (shown, hidden) = text.split_at(host);
            out.push_str(shown);
            stars(hidden, out);
        } else {
            stars(text, out);
        }
    }
}

/// Up to the closing quote, or the end of the line.
fn quoted(text: &str, quote: char) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return text.split_at(at);
        }
        escaped = quote == '"' && c == '\\' && !escaped;
    }
    (text, "")
}

/// An unquoted text: a reference whole, else up to what may end it.
fn plain(text: &str) -> (&str, &str) {
    // To the first that is no part of a name, so that a long line is not searched again and again.
    let name = |name: &str| name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if let Some(end) = text.strip_prefix("${").and_then(name) {
        let (reference, behind) = text.split_at_checked(end + 3).unwrap_or((text, ""));
        if is_reference(reference) {
            return (reference, behind);
        }
    }
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let next = text.get(at + c.len_utf8()..).and_then(|rest| rest.chars().next());
        let colon = c == ':' && next.is_none_or(char::is_whitespace);
        if at > 0 && (c.is_whitespace() || ",{}[]".contains(c) || colon) && before != '$' {
            return text.split_at(at);
        }
        before = c;
    }
    (text, "")
}

/// `${NAME}`: it names a credential and is none.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).is_some_and(|name| SecretName::parse(name).is_ok())
}

/// Where the host of a well-formed address without a user ends.
fn host_end(text: &str) -> Option<usize> {
    let (scheme, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let end = scheme.len() + 3 + authority.len();
    (!text.contains('@') && crate::model::is_address(text.get(..end)?)).then_some(end)
}

fn stars(text: &str, out: &mut String) {
    out.extend(text.chars().map(|_| '*'));
}

#[cfg(test)]
mod tests {
    use super::{cover, cover_addresses, is_private_key};

    #[test]
    fn what_stands_in_a_private_place_is_covered() {
        for (text, shown) in [
            ("api_key: sk-1", "api_key: ****"),
            ("api_key: ${KEY} # x", "api_key: ${KEY} * *"),
            ("api_key: \"${KEY}\"", "api_key: \"${KEY}\""),
            ("api_key: ${key}", "api_key: *****}"),
            ("api_key: \"${sk\nname: x\n", "api_key: \"****\n*******\n"),
            ("api_kye: sk-1\nname: x", "api_kye: ****\nname: x"),
            ("api_key sk-1", "api_key ****"),
            ("api_key:sk-1", "api_key:****"),
            ("{ api_key: \"s,1\", x: y }", "{ api_key: \"***\", *: * }"),
            ("a: { api_key: ${K}, b: { api_key: x } }", "a: { api_key: ${K}, *: { api_key: * } }"),
            (
                "gateway:\n  endpoint: https://h:1/p?q\n  sk-1: 2\nname: x",
                "gateway:\n  endpoint: https://h:1****\n  ****: *\nname: x",
            ),
            (
                "gateway: { endpoint: http://u:p@h/, keyless: true }",
                "gateway: { endpoint: *************, keyless: true }",
            ),
            ("gateway: sk-1", "gateway: ****"),
            ("- gateway:\n    x: y\n  name: z", "- gateway:\n    *: *\n  name: z"),
            ("gateways:\n- name: x\n  api_key: y\nallow: z", "gateways:\n- name: *\n  api_key: *\nallow: z"),
            ("model: sk-1", "model: sk-1"),
            ("max_tokens: 5", "max_tokens: 5"),
            ("env: [MY_API_KEY]", "env: [MY_API_KEY]"),
        ] {
            assert_eq!(cover(text), shown);
        }
    }

    #[test]
    fn an_address_anywhere_loses_its_user_and_query() {
        for (text, shown) in [
            ("url: http://u:p@h:1/x", "url: http://***@h:1/x"),
            ("url: \"http://h/x?k=v#f\", y", "url: \"http://h/x******\", y"),
            ("http://h/x and https://a@b", "http://h/x and https://*@b"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(cover_addresses(text), shown);
        }
    }

    #[test]
    fn keys_are_known_by_what_they_speak_of() {
        for key in
            ["api_key", "API-KEY", "apiKey", "api_kye", "ToKeN", "client_secret", "passwd", "gatway", "credentials"]
        {
            assert!(is_private_key(key), "{key}");
        }
        for key in ["name", "model", "max_tokens", "max_output_tokens", "endpoint", "scope", "source", "path"] {
            assert!(!is_private_key(key), "{key}");
        }
    }
}
