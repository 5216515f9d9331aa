//! The two envelopes, exactly as they must be written.
//!
//! Anything else is malformed: a key more or less, one twice, another type, a value that is no string, number or
//! boolean. A number or boolean keeps its spelling, for that is what a process will be given.

use secrets::Secret;
use serde_json::value::RawValue;

use super::leaves::Members;
use super::{ManagedReference, SensitiveType, opening};

/// What an envelope declares.
pub(super) enum Declared {
    /// A value.
    Sensitive(SensitiveType, Secret),
    /// A value that its issuer keeps.
    Managed(ManagedReference),
}

/// Reads an envelope; `None` for what is malformed.
pub(super) fn read(text: &str) -> Option<Declared> {
    let Members(outer) = serde_json::from_str(text).ok()?;
    let [(key, inner)] = outer.as_slice() else { return None };
    if key == "$burrowSensitive" {
        let [kind, value] = exactly(inner, ["type", "value"])?;
        return Some(Declared::Sensitive(kind_of(kind)?, value_of(value)?));
    }
    if key != "$burrowManaged" {
        return None;
    }
    let [issuer, reference, version, kind, expires] =
        exactly(inner, ["issuer", "reference", "version", "type", "expiresAt"])?;
    Some(Declared::Managed(ManagedReference {
        kind: kind_of(kind)?,
        issuer: string(issuer)?,
        reference: string(reference)?,
        version: string(version).or_else(|| number(version))?,
        expires_ms: moment(expires)?,
        tool: String::new(),
    }))
}

/// The values of exactly these fields, as they are written.
fn exactly<'t, const N: usize>(raw: &'t RawValue, names: [&str; N]) -> Option<[&'t RawValue; N]> {
    let Members(members) = serde_json::from_str(raw.get()).ok()?;
    let one = |name: &&str| members.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    let found: Vec<&RawValue> = names.iter().filter_map(one).collect();
    if members.len() == N { found.try_into().ok() } else { None }
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn number(raw: &RawValue) -> Option<String> {
    raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()).then(|| raw.get().to_owned())
}

fn kind_of(raw: &RawValue) -> Option<SensitiveType> {
    SensitiveType::named(&string(raw)?)
}

fn value_of(raw: &RawValue) -> Option<Secret> {
    let literal = || matches!(raw.get(), "true" | "false").then(|| raw.get().to_owned());
    let value = string(raw).or_else(|| number(raw)).or_else(literal)?;
    // An envelope in an envelope's value: whoever made it did not mean that value.
    (opening::find(value.as_bytes(), 0) == opening::Found::Nothing).then(|| Secret::new(value))
}

/// A point in time: RFC 3339, or milliseconds since the epoch.
fn moment(raw: &RawValue) -> Option<u64> {
    match string(raw) {
        Some(text) => vocab::read_rfc3339(&text),
        None => raw.get().parse().ok(),
    }
}
