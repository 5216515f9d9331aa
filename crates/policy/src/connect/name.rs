//! The names and ids of connections, agents and tools, as they may stand in the record.

/// What ids of mods begin with; no connection's name or id does.
pub(super) const MOD: &str = "mod.";
/// The longest name or id, in characters.
const LONGEST: usize = 64;
/// The longest name of a tool, in characters.
const LONGEST_TOOL: usize = 128;

/// Whether it can name a connection: it is shown to people and stands in a fence's marker.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " _-.:@+()".contains(c);
    !text.is_empty()
        && text.chars().count() <= LONGEST
        && text.trim() == text
        && text.chars().all(allowed)
        && !text.to_lowercase().starts_with(MOD)
}

/// Whether it can be the id of a connection: `[A-Za-z0-9_-]{1,64}`.
pub(super) fn is_id(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

/// Whether it can be the id of a mod: `mod.` and an id.
pub(super) fn is_mod(text: &str) -> bool {
    text.strip_prefix(MOD).is_some_and(|id| !id.is_empty() && id.len() <= LONGEST && !id.contains(char::is_control))
}

/// Whether it can be the exact name of a tool. Which of them can be used is the catalog's to say.
pub(super) fn is_tool(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= LONGEST_TOOL && !text.contains(char::is_control)
}
