//! The starter manifest that `mur init` writes.
//!
//! It loads without findings as it stands, and every commented line works when its `#` is removed.

/// A commented `murmur.yaml` for a new capsule, called what [`scaffold_name`] makes of `name`.
#[must_use]
pub fn scaffold(name: &str) -> String {
    include_str!("scaffold.yaml").replace("NAME", &scaffold_name(name))
}

/// A valid capsule name like `name`: in lower case, with a hyphen for every run of characters that it may
/// not have. What has letters beyond ASCII would be crippled rather than spelled, so that becomes `capsule`,
/// and so does what leaves nothing.
#[must_use]
pub fn scaffold_name(name: &str) -> String {
    const FALLBACK: &str = "capsule";
    if !name.is_ascii() {
        return FALLBACK.to_owned();
    }
    let mut out = String::new();
    for c in name.chars().take(100) {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { FALLBACK.to_owned() } else { out.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::scaffold_name;

    #[test]
    fn any_directory_name_gives_a_valid_name() {
        for (given, made) in [
            ("reviewer", "reviewer"),
            ("My Agent (2)", "my-agent-2"),
            ("__x__", "x"),
            ("日本", "capsule"),
            ("Ünï", "capsule"),
            ("U\u{308}ni", "capsule"),
            ("", "capsule"),
            ("...", "capsule"),
        ] {
            assert_eq!(scaffold_name(given), made);
        }
        assert_eq!(scaffold_name(&"a".repeat(101)), "a".repeat(100));
    }
}
