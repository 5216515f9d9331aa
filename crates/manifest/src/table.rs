//! The three macros that declare `murmur.yaml`: mappings, choices and texts.
//!
//! Each key is written once, with its words, its type, its default and its range. The struct, the
//! strict decoder, the list of known keys that suggestions come from, the JSON Schema and the reference
//! page all come from that one place, so they cannot drift apart. A derive was not used because serde
//! stops at the first error, and an author wants all of them.

/// A mapping with a fixed set of keys: `field: Type [= default] [, in low ..= high];`.
///
/// A field without a default takes [`Value::absent`](crate::decode::Value::absent) of its type:
/// nothing for an option or a list, all defaults for a mapping, an error for everything else.
macro_rules! mapping {
    ($(#[doc = $doc:literal])+ $vis:vis struct $name:ident {
        $($(#[doc = $fdoc:literal])+ $fvis:vis $field:ident : $ty:ty $(= $default:expr)? $(, in $low:literal ..= $high:literal)?;)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $name {
            $($(#[doc = $fdoc])+ $fvis $field: $ty,)*
        }

        impl $crate::decode::Value for $name {
            fn decode(node: &$crate::yaml::Node, cx: &mut $crate::decode::Context<'_>) -> Option<Self> {
                const KEYS: &[&str] = &[$(stringify!($field)),*];
                let entries = cx.keys(node, KEYS)?;
                $(let $field = {
                    const RANGE: Option<(u64, u64)> = mapping!(@range $($low, $high)?);
                    cx.field::<$ty>(&entries, stringify!($field), RANGE, mapping!(@absent $ty $(, $default)?))
                };)*
                Some(Self { $($field: $field?,)* })
            }

            fn absent(cx: &mut $crate::decode::Context<'_>, at: $crate::yaml::Location) -> Option<Self> {
                Self::decode(&$crate::yaml::Node::empty_mapping(at), cx)
            }

            #[cfg(feature = "schema")]
            fn shape() -> $crate::schema::Shape {
                $crate::schema::Shape::Mapping {
                    docs: &[$($doc),+],
                    fields: vec![$($crate::schema::Field {
                        key: stringify!($field),
                        docs: &[$($fdoc),+],
                        shape: mapping!(@shape $ty $(, $low, $high)?),
                        default: mapping!(@default $ty $(, $default)?),
                    }),*],
                }
            }

            #[cfg(feature = "schema")]
            fn presence() -> $crate::schema::Presence {
                $crate::schema::presence_of_mapping(&<Self as $crate::decode::Value>::shape())
            }
        }
    };
    (@range) => { None };
    (@range $low:literal, $high:literal) => { Some(($low, $high)) };
    (@absent $ty:ty) => { <$ty as $crate::decode::Value>::absent };
    (@absent $ty:ty, $default:expr) => { |_, _| -> Option<$ty> { Some($default) } };
    (@shape $ty:ty) => { <$ty as $crate::decode::Value>::shape() };
    (@shape $ty:ty, $low:literal, $high:literal) => {
        <$ty as $crate::decode::Value>::shape().within($low, $high)
    };
    (@default $ty:ty) => { <$ty as $crate::decode::Value>::presence() };
    (@default $ty:ty, $default:expr) => {
        $crate::schema::Presence::Default(<$ty as $crate::decode::Value>::json(&$default))
    };
}

/// A closed set of words.
macro_rules! choices {
    ($(#[doc = $doc:literal])+ pub enum $name:ident {
        $($(#[doc = $vdoc:literal])+ $variant:ident = $word:literal,)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[doc = $vdoc])+ $variant,)*
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word that stands in the manifest.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::decode::Value for $name {
            fn decode(node: &$crate::yaml::Node, cx: &mut $crate::decode::Context<'_>) -> Option<Self> {
                const WORDS: &[&str] = &[$($word),*];
                let index = cx.choice(node, WORDS)?;
                Self::ALL.get(index).copied()
            }

            #[cfg(feature = "schema")]
            fn shape() -> $crate::schema::Shape {
                $crate::schema::Shape::Choice(vec![$(($word, &[$($vdoc),+][..])),*])
            }

            #[cfg(feature = "schema")]
            fn json(&self) -> serde_json::Value {
                self.as_str().into()
            }
        }
    };
}

/// A text that follows a rule: checked once here, trusted by everybody after.
macro_rules! text {
    ($(#[doc = $doc:literal])+ pub struct $name:ident, check: $check:path, pattern: $pattern:literal) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The text as the manifest has it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, when it follows the rule.
            pub(crate) fn parse(text: &str) -> Result<Self, $crate::decode::Fault> {
                $check(text).map(|()| Self(text.to_owned()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl $crate::decode::Value for $name {
            fn decode(node: &$crate::yaml::Node, cx: &mut $crate::decode::Context<'_>) -> Option<Self> {
                let text = cx.text(node)?;
                Self::parse(text).map_or_else(|fault| cx.fault(node, fault), Some)
            }

            #[cfg(feature = "schema")]
            fn shape() -> $crate::schema::Shape {
                $crate::schema::Shape::Text { pattern: Some($pattern) }
            }
        }
    };
}

pub(crate) use {choices, mapping, text};
