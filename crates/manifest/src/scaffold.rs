//! The starter manifest that `mur init` writes.
//!
//! It loads without findings as it stands, and every commented line works when its `#` is removed.

/// A commented `murmur.yaml` for a new capsule. `name` is made a valid name when it is not one.
#[must_use]
pub fn scaffold(name: &str) -> String {
    include_str!("scaffold.yaml").replace("NAME", &valid_name(name))
}

/// `name` in lower case, with a hyphen for every run of characters that a name may not have.
fn valid_name(name: &str) -> String {
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
    if out.is_empty() { "capsule".to_owned() } else { out.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::valid_name;

    #[test]
    fn any_directory_name_gives_a_valid_name() {
        for (given, made) in [
            ("reviewer", "reviewer"),
            ("My Agent (2)", "my-agent-2"),
            ("__x__", "x"),
            ("日本", "capsule"),
            ("", "capsule"),
        ] {
            assert_eq!(valid_name(given), made);
        }
    }
}
