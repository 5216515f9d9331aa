//! The system prompt: the fence rule first, then the operator's words, then what the capsule declares.
//!
//! It does not change within a session, so that a provider's prompt cache holds; nothing that varies
//! from run to run (a date, a path) stands in it.

use std::fmt::Write as _;

/// A context document of the manifest's `profile:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextDocument {
    /// Its path as the manifest spells it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A skill as the model is told of it: its text comes when it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEntry {
    /// The tool's name.
    pub name: String,
    /// One line.
    pub description: String,
}

/// Puts the system prompt together.
#[must_use]
pub fn system_prompt(operator: Option<&str>, documents: &[ContextDocument], skills: &[SkillEntry]) -> String {
    let mut prompt = String::from(fence::RULE.trim_end());
    if let Some(operator) = operator.map(str::trim_end).filter(|text| !text.is_empty()) {
        prompt.push_str("\n\n");
        prompt.push_str(operator);
    }
    for document in documents {
        let _ = write!(prompt, "\n\n# {}\n\n{}", document.name, document.text.trim_end());
    }
    if !skills.is_empty() {
        prompt.push_str("\n\n# Skills\n\nGuidance that you can call up by name when it fits the task:\n");
        for skill in skills {
            let _ = write!(prompt, "\n- `{}`: {}", skill.name, skill.description);
        }
    }
    prompt.push('\n');
    prompt
}
