//! Reading a document: every fault of every rule, with its place.
//!
//! A rule's fields are checked each by itself, so that one fault hides no other; its pattern and
//! examples are tried only when the fields that they depend on are sound.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    Base, Document, Examples, Fault, HardBlock, MAX_DOCUMENT, MAX_PATTERN, MAX_RULES, Matching, Operations, Subject,
    Wrong, json, possible,
};
use crate::Operation;
use crate::compiled::Compiled;

const KEYS: [&str; 8] = ["id", "enabled", "type", "pattern", "match", "operations", "reason", "examples"];

pub(super) fn document(text: &str, base: &Base) -> Result<Document, Vec<Fault>> {
    let whole = |wrong| vec![Fault { index: None, wrong }];
    if text.len() > MAX_DOCUMENT {
        return Err(whole(Wrong::TooLarge));
    }
    let value = json::parse(text).map_err(whole)?;
    let Value::Object(top) = value else { return Err(whole(Wrong::NoObject)) };
    // A newer version may mean anything by the rest, so the rest is not looked at.
    if top.get("version").is_none_or(|version| version.as_u64() != Some(1)) {
        return Err(whole(Wrong::Version));
    }
    let mut faults: Vec<Fault> = top
        .keys()
        .filter(|key| !matches!(key.as_str(), "version" | "hardBlocks"))
        .map(|key| Fault { index: None, wrong: Wrong::UnknownKey(key.clone()) })
        .collect();
    let rules = match top.get("hardBlocks") {
        Some(Value::Array(rules)) if rules.len() > MAX_RULES => return Err(whole(Wrong::TooMany)),
        Some(Value::Array(rules)) => rules.as_slice(),
        _ => {
            faults.extend(whole(Wrong::NoArray));
            &[]
        }
    };
    let mut ids = HashSet::new();
    let mut sound = Vec::with_capacity(rules.len());
    for (index, value) in rules.iter().enumerate() {
        let mut checker = Checker { faults: Vec::new() };
        let rule = match value {
            Value::Object(map) => checker.rule(map, &mut ids, base),
            _ => checker.wrong(Wrong::NoRule),
        };
        faults.extend(checker.faults.into_iter().map(|wrong| Fault { index: Some(index), wrong }));
        sound.extend(rule);
    }
    if faults.is_empty() { Ok(Document { rules: sound }) } else { Err(faults) }
}

struct Checker {
    faults: Vec<Wrong>,
}

impl Checker {
    fn wrong<T>(&mut self, wrong: Wrong) -> Option<T> {
        self.faults.push(wrong);
        None
    }

    fn rule(&mut self, map: &Map<String, Value>, ids: &mut HashSet<String>, base: &Base) -> Option<HardBlock> {
        for key in map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            self.faults.push(Wrong::UnknownKey(key.clone()));
        }
        let id = self.id(map.get("id"), ids);
        let enabled = match map.get("enabled") {
            None => Some(true),
            Some(Value::Bool(enabled)) => Some(*enabled),
            Some(_) => self.wrong(Wrong::Enabled),
        };
        let subject = match map.get("type").and_then(Value::as_str) {
            Some("path") => Some(Subject::Path),
            Some("command") => Some(Subject::Command),
            _ => self.wrong(Wrong::Type),
        };
        let pattern = self.pattern(map.get("pattern"));
        let matching = self.matching(map.get("match"), subject);
        let operations = self.operations(map.get("operations"));
        let reason = match map.get("reason") {
            None => Some(None),
            Some(Value::String(reason)) => Some(Some(reason.as_str().into())),
            Some(_) => self.wrong(Wrong::Reason),
        };
        let examples = self.examples(map.get("examples"));
        if let (Some(subject), Some(pattern), Some(matching)) = (subject, &pattern, matching)
            && let Err(wrong) = possible::check(subject, matching, pattern, base)
        {
            self.faults.push(wrong);
        }
        let rule = HardBlock {
            id: id?.into(),
            enabled: enabled?,
            subject: subject?,
            pattern: pattern?,
            matching: matching?,
            operations: operations?,
            reason: reason?,
            examples: examples?,
        };
        // Commands are executed and nothing else is done to them.
        if rule.subject == Subject::Command && !rule.operations.has(Operation::Execute) {
            return self.wrong(Wrong::NotExecuted);
        }
        if self.faults.is_empty() {
            self.try_examples(&rule, base);
        }
        Some(rule)
    }

    fn id(&mut self, value: Option<&Value>, ids: &mut HashSet<String>) -> Option<String> {
        let id = match value {
            Some(Value::String(id)) if !id.is_empty() => id,
            _ => return self.wrong(Wrong::IdRequired),
        };
        let sound = id.len() <= 120 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
        if !sound {
            return self.wrong(Wrong::IdInvalid);
        }
        if !ids.insert(id.clone()) {
            return self.wrong(Wrong::IdDuplicate);
        }
        Some(id.clone())
    }

    fn pattern(&mut self, value: Option<&Value>) -> Option<String> {
        match value {
            Some(Value::String(pattern)) if pattern.len() > MAX_PATTERN => self.wrong(Wrong::PatternTooLong),
            Some(Value::String(pattern)) if !pattern.is_empty() => Some(pattern.clone()),
            _ => self.wrong(Wrong::PatternRequired),
        }
    }

    fn matching(&mut self, value: Option<&Value>, subject: Option<Subject>) -> Option<Matching> {
        let Some(value) = value else {
            return subject.map(|subject| match subject {
                Subject::Path => Matching::Glob,
                Subject::Command => Matching::Regex,
            });
        };
        match value.as_str() {
            Some("exact") => Some(Matching::Exact),
            Some("prefix") => Some(Matching::Prefix),
            Some("glob") => Some(Matching::Glob),
            Some("regex") => Some(Matching::Regex),
            Some("contains") => Some(Matching::Contains),
            _ => self.wrong(Wrong::Match),
        }
    }

    fn operations(&mut self, value: Option<&Value>) -> Option<Operations> {
        let Some(Value::Array(values)) = value else { return self.wrong(Wrong::OperationsRequired) };
        if values.is_empty() {
            return self.wrong(Wrong::OperationsRequired);
        }
        let before = self.faults.len();
        let mut operations = Operations::default();
        for value in values {
            let known = Operations::ALL.into_iter().find(|operation| value.as_str() == Some(operation.as_str()));
            match (known, value) {
                (Some(operation), _) => operations = operations.with(operation),
                (None, Value::String(text)) => self.faults.push(Wrong::Operation(text.clone())),
                (None, other) => self.faults.push(Wrong::Operation(other.to_string())),
            }
        }
        (self.faults.len() == before).then_some(operations)
    }

    fn examples(&mut self, value: Option<&Value>) -> Option<Option<Examples>> {
        let Some(value) = value else { return Some(None) };
        let texts = |value: Option<&Value>| match value {
            None => Some(Vec::new()),
            Some(Value::Array(texts)) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
            Some(_) => None,
        };
        let read = value.as_object().and_then(|map| {
            let known = map.keys().all(|key| key == "blocks" || key == "allows");
            let examples = Examples { blocks: texts(map.get("blocks"))?, allows: texts(map.get("allows"))? };
            known.then_some(examples)
        });
        match read {
            Some(examples) => Some(Some(examples)),
            None => self.wrong(Wrong::Examples),
        }
    }

    fn try_examples(&mut self, rule: &HardBlock, base: &Base) {
        let Some(examples) = &rule.examples else { return };
        // A rule that rests is tried as if it worked: it may be enabled any time.
        let alone = Document { rules: vec![HardBlock { enabled: true, ..rule.clone() }] };
        let Ok(compiled) = Compiled::without_links(&alone, base) else {
            self.faults.push(Wrong::Unmatchable);
            return;
        };
        let wrong = |texts: &[String], expected: bool| -> Vec<Wrong> {
            let failed = texts.iter().filter(|text| compiled.blocks_example(text) != expected);
            failed.map(|text| Wrong::ExampleFailed(text.clone())).collect()
        };
        self.faults.extend(wrong(&examples.blocks, true));
        self.faults.extend(wrong(&examples.allows, false));
    }
}
