//! The names and ids of connections, agents and tools, as they may stand in the record.

/// What ids of mods begin with; no connection's name or id does.
const MOD: &str = "mod.";
/// The longest name or id, in characters.
const LONGEST: usize = 64;
/// The longest name of a tool or of an agent, in characters.
const LONGEST_TOOL: usize = 128;
/// The longest name of a variable, in characters.
const LONGEST_VARIABLE: usize = 128;

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

/// Whether it can be the name of a capsule. Which names capsules have is the manifest's to say.
pub(super) fn is_agent(text: &str) -> bool {
    is_tool(text)
}

/// Whether it can name a variable of a process: `[A-Za-z_][A-Za-z0-9_]{0,127}`.
pub(super) fn is_variable(text: &str) -> bool {
    text.len() <= LONGEST_VARIABLE
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether it is a SHA-256 as it is written here: 64 hexadecimal digits in lower case.
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
