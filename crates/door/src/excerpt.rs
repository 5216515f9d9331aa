//! How much of each text a list shows: a task is asked for by its id to have the whole of it.

use serde::{Serialize, Serializer};

/// What may be shown, as it is used up.
#[derive(Debug)]
pub(crate) struct Excerpts {
    /// Bytes of one text.
    each: usize,
    /// Bytes of all texts from here on.
    left: usize,
    /// Whether something was shortened because all of them are too long together.
    short: bool,
}

/// A text, or its beginning and a word on what is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    text: &'a str,
    more: usize,
}

impl Excerpts {
    pub(crate) fn new(each: usize, all: usize) -> Self {
        Self { each, left: all, short: false }
    }

    /// Everything is shown whole.
    pub(crate) fn whole() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }

    /// As much of a text as may be shown.
    pub(crate) fn of<'a>(&mut self, text: &'a str) -> Shown<'a> {
        let wanted = text.len().min(self.each);
        self.short |= wanted > self.left;
        let (shown, rest) = text.split_at(text.floor_char_boundary(wanted.min(self.left)));
        self.left -= shown.len();
        Shown { text: shown, more: rest.len() }
    }

    /// Whether a value that cannot be cut may be shown; if so, it is.
    pub(crate) fn has_room(&mut self, value: &str) -> bool {
        let fits = value.len() <= self.each;
        self.short |= fits && value.len() > self.left;
        let fits = fits && value.len() <= self.left;
        self.left -= if fits { value.len() } else { 0 };
        fits
    }

    /// Whether there was room for each of the texts.
    pub(crate) fn had_room(&self) -> bool {
        !self.short
    }
}

impl<'a> Shown<'a> {
    pub(crate) fn whole(text: &'a str) -> Self {
        Self { text, more: 0 }
    }

    /// A value that is left out.
    pub(crate) fn none_of(value: &str) -> Self {
        Self { text: "", more: value.len() }
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.more {
            0 => serializer.serialize_str(self.text),
            more => serializer.collect_str(&format_args!("{}[{more} more bytes: ask for the task]", self.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Excerpts, Shown};

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        let mut cut = Excerpts::new(4, 9);
        assert_eq!(cut.of("abcd"), Shown::whole("abcd"));
        assert_eq!(cut.of("abcéé"), Shown { text: "abc", more: 4 });
        assert!(cut.had_room(), "each is only as long as one may be");
        assert!(!cut.has_room("12345"), "too long for one");
        assert!(cut.had_room());
        assert!(!cut.has_room("123"), "too long for what is left");
        assert!(!cut.had_room());
        assert_eq!(cut.of("xyz"), Shown { text: "xy", more: 1 });
        let json = |shown: Shown<'_>| serde_json::to_string(&shown).unwrap();
        assert_eq!(json(Shown::whole("a\n")), r#""a\n""#);
        assert_eq!(json(Shown { text: "\"a", more: 2 }), r#""\"a[2 more bytes: ask for the task]""#);
        assert_eq!(json(Shown::none_of("abc")), r#""[3 more bytes: ask for the task]""#);
    }

    proptest! {
        #[test]
        fn no_more_is_shown_than_may_be(
            texts in prop::collection::vec("\\PC{0,20}", 0..9), each in 0_usize..30, all in 0_usize..90,
        ) {
            let mut cut = Excerpts::new(each, all);
            let mut sum = 0;
            for text in &texts {
                let shown = cut.of(text);
                sum += shown.text.len();
                prop_assert!(shown.text.len() <= each && sum <= all);
                prop_assert_eq!(shown.text.len() + shown.more, text.len());
                prop_assert!(text.starts_with(shown.text));
            }
        }
    }
}
