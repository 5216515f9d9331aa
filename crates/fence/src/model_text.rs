//! Text that a model may read, as a type: the wall between foreign bytes and the model.
//!
//! The field is private and there is no conversion from strings, so every text says at its
//! construction whether it is fenced or, by name, why it need not be. It is not serialisable: a
//! stored text comes back through `restore`, in the one place that reads records. It does not carry
//! images or roles.

use crate::block::{neutralise_into, open, wrap};
use crate::marker::{CLOSER, OPENER, OPENER_END};
use crate::source::Source;
use crate::words::RuntimeWords;

/// Why a text stands unfenced. The runtime's own words have [`ModelText::runtime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unfenced {
    /// The operator's instructions: the system prompt, a task whose trust class is trusted.
    Operator,
    /// A declared skill's own text, staged inside the capsule at install.
    Skill,
    /// The model's own text, in its own turn.
    Model,
    /// The words of a hook that the operator declared.
    Hook,
}

/// Text that a model may read: fenced, or unfenced for a stated reason.
///
/// ```
/// use fence::{ModelText, RuntimeWords, Source, Unfenced};
///
/// let result = ModelText::fenced(&Source::tool("web-fetch"), "200 OK");
/// assert_eq!(result.source(), Some("tool:web-fetch"));
/// let refusal = ModelText::runtime(RuntimeWords::new("no tool named `").echo("sh").text("`"));
/// assert_eq!((refusal.as_str(), refusal.source()), ("no tool named `sh`", None));
/// let task = ModelText::unfenced(Unfenced::Operator, "Fetch the page.");
/// assert_eq!(task.source(), None);
/// ```
///
/// There is no other way in. A raw string is no model text:
///
/// ```compile_fail,E0277
/// let text: fence::ModelText = String::from("foreign").into();
/// ```
///
/// ```compile_fail,E0277
/// let text: fence::ModelText = "foreign".parse().unwrap();
/// ```
///
/// ```compile_fail,E0451
/// let text = fence::ModelText { text: String::from("foreign"), source: None };
/// ```
///
/// ```compile_fail,E0616
/// let mut text = fence::ModelText::fenced(&fence::Source::tool("sh"), "data");
/// text.text = String::from("foreign");
/// ```
///
/// ```compile_fail,E0277
/// fn needs_default<T: Default>() {}
/// needs_default::<fence::ModelText>();
/// ```
///
/// A fenced text needs a sanitised source, and the runtime's words are no plain string:
///
/// ```compile_fail,E0308
/// let text = fence::ModelText::fenced("tool:sh", "data");
/// ```
///
/// ```compile_fail,E0308
/// let text = fence::ModelText::runtime(String::from("foreign"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use]
pub struct ModelText {
    text: String,
    source: Option<Source>,
}

impl ModelText {
    /// A whole block: `content` from `source`.
    pub fn fenced(source: &Source, content: &str) -> Self {
        Self::labelled(source, wrap(source, content))
    }

    /// A whole block, and the runtime's own note on the line after its closing marker.
    pub fn fenced_with_note(source: &Source, content: &str, note: &RuntimeWords) -> Self {
        Self::labelled(source, noted(wrap(source, content), note))
    }

    /// The two text parts of a block over several parts, such as a result with images: the opening
    /// marker with `text`, and, to stand after the parts between, the closing marker. Joined they are
    /// the block that [`fenced`](Self::fenced) gives.
    pub fn fenced_around(source: &Source, text: &str) -> (Self, Self) {
        Self::around(source, text, CLOSER.to_owned())
    }

    /// Like [`fenced_around`](Self::fenced_around), with the runtime's own note on the line after
    /// the closing marker.
    pub fn fenced_around_with_note(source: &Source, text: &str, note: &RuntimeWords) -> (Self, Self) {
        Self::around(source, text, noted(CLOSER.to_owned(), note))
    }

    /// Text that stands unfenced, verbatim, for the reason given.
    pub fn unfenced(_reason: Unfenced, text: impl Into<String>) -> Self {
        Self { text: text.into(), source: None }
    }

    /// The runtime's own words.
    pub fn runtime(words: RuntimeWords) -> Self {
        Self { text: words.into_string(), source: None }
    }

    /// Text that a conversation record holds, as it stands there, with the `fence` label of its line.
    /// It is never fenced again.
    ///
    /// For the record's reader alone: what this takes was a `ModelText` when it was written, and
    /// nothing else may claim that. The workspace's `clippy.toml` bans the call everywhere else.
    pub fn restore(text: String, fence: Option<&str>) -> Self {
        Self { text, source: fence.map(Source::restore) }
    }

    /// Whether a text begins as one that is fenced does: whole, or the first or last part of a block over several.
    #[must_use]
    pub fn begins_fenced(text: &str) -> bool {
        text.starts_with(OPENER) || text.starts_with(CLOSER)
    }

    /// The same text with `hide` done to what stands between its markers and behind them, each for itself; to all of it
    /// where it is not fenced. The markers stay as they are. `hide` may only take away, or put a mark of its own in place.
    pub fn hiding(&self, mut hide: impl FnMut(&str) -> String) -> Self {
        let text = if self.source.is_some() { hidden_within(&self.text, hide) } else { hide(&self.text) };
        Self { text, source: self.source.clone() }
    }

    /// The text as the model reads it, markers included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The source's name as it stands in the marker; `None` when the text is not fenced.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.source.as_ref().map(Source::as_str)
    }

    /// The text as the model reads it, taken out.
    #[must_use]
    pub fn into_string(self) -> String {
        self.text
    }

    fn around(source: &Source, text: &str, closing: String) -> (Self, Self) {
        let mut opening = String::with_capacity(text.len() + 2 * CLOSER.len() + 32);
        open(source, &mut opening);
        neutralise_into(text, &mut opening);
        opening.push('\n');
        (Self::labelled(source, opening), Self::labelled(source, closing))
    }

    fn labelled(source: &Source, text: String) -> Self {
        Self { text, source: Some(source.clone()) }
    }
}

fn hidden_within(block: &str, mut hide: impl FnMut(&str) -> String) -> String {
    let opener = block.strip_prefix(OPENER).and_then(|rest| rest.find(OPENER_END));
    let opener = opener.map_or(0, |name| OPENER.len() + name + OPENER_END.len());
    let (opener, rest) = block.split_at_checked(opener).unwrap_or(("", block));
    let (content, closing) = rest.rfind(CLOSER).and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
    let (closer, after) = closing.split_at_checked(CLOSER.len()).unwrap_or(("", closing));
    [opener, &hide(content), closer, &hide(after)].concat()
}

fn noted(mut closed: String, note: &RuntimeWords) -> String {
    closed.push('\n');
    closed.push_str(note.as_str());
    closed
}
