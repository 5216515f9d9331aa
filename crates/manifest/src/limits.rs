//! What well-known models take and give.
//!
//! One table, so that an author need not look the numbers up. A model that is not here is declared
//! under `models:` of its driver artifact; guessing would let a request fail far from its cause.

use crate::model::ModelLimits;

/// Ids as the providers publish them, with context window and longest reply in tokens.
const WELL_KNOWN: &[(&str, u64, u64)] = &[
    // Anthropic
    ("claude-fable-5-2", 1_000_000, 128_000),
    ("claude-fable-5-1", 1_000_000, 128_000),
    ("claude-fable-5", 1_000_000, 128_000),
    ("claude-opus-5-5", 1_000_000, 128_000),
    ("claude-opus-5", 1_000_000, 128_000),
    ("claude-sonnet-5-5", 1_000_000, 128_000),
    ("claude-sonnet-5", 1_000_000, 128_000),
    ("claude-haiku-5-5", 1_000_000, 128_000),
    ("claude-opus-4-8", 1_000_000, 128_000),
    ("claude-opus-4-7", 1_000_000, 128_000),
    ("claude-opus-4-6", 1_000_000, 128_000),
    ("claude-sonnet-4-6", 1_000_000, 64_000),
    ("claude-opus-4-5", 200_000, 64_000),
    ("claude-sonnet-4-5", 200_000, 64_000),
    ("claude-haiku-4-5", 200_000, 64_000),
    ("claude-opus-4-1", 200_000, 32_000),
    // OpenAI
    ("gpt-5.6", 1_050_000, 128_000),
    ("gpt-5.6-sol", 1_050_000, 128_000),
    ("gpt-5.6-terra", 1_050_000, 128_000),
    ("gpt-5.6-luna", 1_050_000, 128_000),
    ("gpt-5.5", 1_050_000, 128_000),
    ("gpt-5.4", 1_050_000, 128_000),
    ("gpt-5.4-mini", 400_000, 128_000),
    ("gpt-5.4-nano", 400_000, 128_000),
    ("gpt-5.2", 400_000, 128_000),
    ("gpt-5.1", 400_000, 128_000),
    ("gpt-5", 400_000, 128_000),
    ("gpt-5-mini", 400_000, 128_000),
    ("gpt-5-nano", 400_000, 128_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4.1-mini", 1_047_576, 32_768),
    ("gpt-4.1-nano", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("gpt-4o-mini", 128_000, 16_384),
    ("o3", 200_000, 100_000),
    ("o4-mini", 200_000, 100_000),
    // The built-in driver that plays a transcript
    ("scripted", 200_000, 64_000),
];

/// The limits of a well-known model, by its id with or without the date of a snapshot.
pub(crate) fn well_known(model: &str) -> Option<ModelLimits> {
    let find = |id: &str| WELL_KNOWN.iter().find(|(known, _, _)| *known == id);
    let &(_, context_window, max_output_tokens) = find(model).or_else(|| find(undated(model)?))?;
    Some(ModelLimits { context_window, max_output_tokens })
}

/// The ids of the table.
pub(crate) fn ids<'a>() -> impl Iterator<Item = &'a str> {
    WELL_KNOWN.iter().map(|(id, _, _)| *id)
}

/// `model` without `-YYYYMMDD` or `-YYYY-MM-DD` at its end.
fn undated(model: &str) -> Option<&str> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, last) = model.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::well_known;

    #[test]
    fn snapshots_have_the_limits_of_their_model() {
        let window = |model| well_known(model).map(|limits| limits.context_window);
        assert_eq!(window("claude-haiku-4-5"), Some(200_000));
        assert_eq!(window("claude-haiku-4-5-20251001"), Some(200_000));
        assert_eq!(window("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(window("gpt-4o-24-08-06"), None);
        assert_eq!(window("claude-haiku-4-5-2025100"), None);
        assert_eq!(window("-20251001"), None);
    }
}
