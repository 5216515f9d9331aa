//! The operator's hard blocks as they are stored: version 1 of the document, checked whole.
//!
//! Checking is written by hand over the JSON value, because every fault has a code of its own with the
//! index of its rule, and all of them are reported at once. A document exists only when it has none, so
//! whoever holds one need not ask again. It is not what actions are judged by: [`crate::Compiled`] is.

mod check;
mod json;
mod possible;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::Operation;

pub(crate) use possible::{MAX_COMPILED, NormalGlob, glob_set_pattern, normal_glob};

/// The largest document, in bytes.
pub const MAX_DOCUMENT: usize = 1024 * 1024;
/// The most rules of one document.
pub const MAX_RULES: usize = 10_000;
/// The longest pattern, in bytes.
pub const MAX_PATTERN: usize = 4096;

/// Where patterns are at home: relative ones are taken under the workdir, `~` is the operator's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// An absolute path.
    pub workdir: PathBuf,
    /// An absolute path.
    pub home: PathBuf,
    /// Where a shell looks for programs, first to last. They matter to rules about paths that are run.
    pub search: Vec<PathBuf>,
}

impl Base {
    /// A base of these two directories.
    #[must_use]
    pub fn new(workdir: impl AsRef<Path>, home: impl AsRef<Path>) -> Self {
        Self { workdir: crate::lexical(workdir.as_ref()), home: crate::lexical(home.as_ref()), search: Vec::new() }
    }

    /// The same where programs are found in these directories.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search = directories.into_iter().collect();
        self
    }

    /// The absolute path that a path or the beginning of a pattern means.
    #[must_use]
    pub fn absolute(&self, given: &str) -> PathBuf {
        match given.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => crate::lexical(&self.home.join(rest.trim_start_matches('/'))),
            _ => crate::lexical(&self.workdir.join(given)),
        }
    }
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Paths.
    Path,
    /// Commands.
    Command,
}

impl Subject {
    /// As it stands in the document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Command => "command",
        }
    }
}

/// How a pattern is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matching {
    /// The whole is equal.
    Exact,
    /// It begins so, in whole components or words.
    Prefix,
    /// Wildcards.
    Glob,
    /// A regular expression is found in it.
    Regex,
    /// The text is found in it.
    Contains,
}

impl Matching {
    /// As it stands in the document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Glob => "glob",
            Self::Regex => "regex",
            Self::Contains => "contains",
        }
    }
}

/// A set of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations(u8);

impl Operations {
    /// Every operation, in the order in which they are written.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Delete, Operation::Execute, Operation::Delegate];

    /// The set with one more.
    #[must_use]
    pub fn with(self, operation: Operation) -> Self {
        Self(self.0 | 1 << operation as u8)
    }

    /// Whether the operation is one of them.
    #[must_use]
    pub fn has(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The operations, in order.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Self::ALL.into_iter().filter(move |operation| self.has(*operation))
    }
}

/// Targets that a rule must block, and such that it must let pass; tried at every save.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examples {
    /// Must be blocked.
    pub blocks: Vec<String>,
    /// Must pass.
    pub allows: Vec<String>,
}

/// One hard block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardBlock {
    /// `[A-Za-z0-9_.:-]{1,120}`, unique in its document.
    pub id: Arc<str>,
    /// A rule that is not enabled blocks nothing.
    pub enabled: bool,
    /// What it is about.
    pub subject: Subject,
    /// What is looked for.
    pub pattern: String,
    /// How it is looked for.
    pub matching: Matching,
    /// For which operations.
    pub operations: Operations,
    /// What the model and the operator are told.
    pub reason: Option<Arc<str>>,
    /// What it is tried on at every save.
    pub examples: Option<Examples>,
}

/// A document without a fault.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    rules: Vec<HardBlock>,
}

impl Document {
    /// Reads and checks a document. `base` is what the examples of path rules are tried under.
    ///
    /// # Errors
    /// Every fault that it has.
    pub fn parse(text: &str, base: &Base) -> Result<Self, Vec<Fault>> {
        check::document(text, base)
    }

    /// The rules, in the order in which they are written.
    #[must_use]
    pub fn rules(&self) -> &[HardBlock] {
        &self.rules
    }

    /// The document in its one canonical form: every default is written out, keys and operations have
    /// their fixed order.
    #[must_use]
    pub fn to_json(&self) -> Value {
        to_json(&self.rules)
    }
}

/// A document of these rules.
pub(crate) fn to_json(rules: &[HardBlock]) -> Value {
    let rules: Vec<Value> = rules.iter().map(HardBlock::to_json).collect();
    json!({"version": 1, "hardBlocks": rules})
}

impl HardBlock {
    /// Whether it is about what processes do with files: the kernel can hold them to that, as far as the files exist.
    #[must_use]
    pub fn is_about_files(&self) -> bool {
        self.subject == Subject::Path && self.operations.iter().any(|operation| operation != Operation::Delegate)
    }

    /// The rule in its canonical form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let operations: Vec<&str> = self.operations.iter().map(Operation::as_str).collect();
        let mut rule = Map::new();
        rule.insert("id".into(), json!(&*self.id));
        rule.insert("enabled".into(), json!(self.enabled));
        rule.insert("type".into(), json!(self.subject.as_str()));
        rule.insert("pattern".into(), json!(self.pattern));
        rule.insert("match".into(), json!(self.matching.as_str()));
        rule.insert("operations".into(), json!(operations));
        if let Some(reason) = &self.reason {
            rule.insert("reason".into(), json!(&**reason));
        }
        if let Some(examples) = &self.examples {
            rule.insert("examples".into(), json!({"blocks": examples.blocks, "allows": examples.allows}));
        }
        Value::Object(rule)
    }
}

/// One thing that is wrong with a document. Its `Display` is its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The rule that it is about, if it is about one.
    pub index: Option<usize>,
    /// What is wrong.
    pub wrong: Wrong,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(to, "hardBlocks.{index}.")?;
        }
        write!(to, "{}", self.wrong)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> String {
        self.to_string()
    }
}

/// What can be wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Longer than [`MAX_DOCUMENT`].
    #[error("document_too_large")]
    TooLarge,
    /// No JSON.
    #[error("json_invalid")]
    Json,
    /// A key that stands twice in one object.
    #[error("json_duplicate_key:{0}")]
    DuplicateKey(String),
    /// No object.
    #[error("document_must_be_object")]
    NoObject,
    /// Another version than 1, or none.
    #[error("version_unsupported")]
    Version,
    /// No array of rules.
    #[error("hardBlocks_must_be_array")]
    NoArray,
    /// More than [`MAX_RULES`].
    #[error("hardBlocks_too_many")]
    TooMany,
    /// A rule that is no object.
    #[error("must_be_object")]
    NoRule,
    /// A key that no rule has.
    #[error("unknown_key:{0}")]
    UnknownKey(String),
    /// No id.
    #[error("id_required")]
    IdRequired,
    /// An id of other characters, or a longer one.
    #[error("id_invalid")]
    IdInvalid,
    /// An id that another rule has.
    #[error("id_duplicate")]
    IdDuplicate,
    /// No known type.
    #[error("type_invalid")]
    Type,
    /// No known way of matching.
    #[error("match_invalid")]
    Match,
    /// No pattern.
    #[error("pattern_required")]
    PatternRequired,
    /// Longer than [`MAX_PATTERN`].
    #[error("pattern_too_long")]
    PatternTooLong,
    /// No regular expression, or too large a one.
    #[error("pattern_regex_invalid")]
    Regex,
    /// No glob.
    #[error("pattern_glob_invalid")]
    Glob,
    /// It can never match anything.
    #[error("pattern_unmatchable")]
    Unmatchable,
    /// A rule about commands without `execute`: nothing else is done to a command. The code is the same.
    #[error("pattern_unmatchable")]
    NotExecuted,
    /// No operations.
    #[error("operations_required")]
    OperationsRequired,
    /// An operation that does not exist.
    #[error("operations_invalid:{0}")]
    Operation(String),
    /// `enabled` is neither true nor false.
    #[error("enabled_must_be_boolean")]
    Enabled,
    /// `reason` is no text.
    #[error("reason_must_be_string")]
    Reason,
    /// `examples` is not of its form.
    #[error("examples_invalid")]
    Examples,
    /// An example that the rule judges otherwise.
    #[error("example_failed:{0}")]
    ExampleFailed(String),
}

impl Wrong {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge => "a document may have 1 MiB",
            Self::Json => "write JSON: {\"version\": 1, \"hardBlocks\": []}",
            Self::NoObject | Self::NoRule => "write an object in braces",
            Self::Version => "write \"version\": 1",
            Self::NoArray => "write \"hardBlocks\": [] with the rules in it",
            Self::TooMany => "a document may have 10,000 rules; join patterns, for example with {a,b}",
            Self::DuplicateKey(_) => "an object may have each key once; remove one of the two",
            Self::UnknownKey(_) => "remove the key, or correct its spelling",
            Self::IdRequired => "give the rule an id of its own",
            Self::IdInvalid => "an id has 1 to 120 of the characters A-Z a-z 0-9 _ . : -",
            Self::IdDuplicate => "two rules have this id; change one",
            Self::Type => "the type is \"path\" or \"command\"",
            Self::Match => "match is \"exact\", \"prefix\", \"glob\", \"regex\" or \"contains\"",
            Self::PatternRequired => "write what is to be blocked as \"pattern\"",
            Self::PatternTooLong => "a pattern may have 4096 bytes; split the rule",
            Self::Regex => {
                "correct the expression; look-around and back-references do not exist, and it may not be huge"
            }
            Self::Glob => "correct the brackets or braces of the glob",
            Self::Unmatchable => "nothing can ever match this rule; correct the pattern",
            Self::NotExecuted => "a command is executed and nothing else: add \"execute\" to the operations",
            Self::OperationsRequired => "name one operation or more: read, write, delete, execute, delegate",
            Self::Operation(_) => "operations are read, write, delete, execute and delegate",
            Self::Enabled => "write true or false",
            Self::Reason => "write the reason as text",
            Self::Examples => "write \"examples\": {\"blocks\": [texts], \"allows\": [texts]}",
            Self::ExampleFailed(_) => "the rule does not treat this example as it says; correct one of the two",
        }
    }
}
