//! Skills: the capsule author's own guidance, shown as it is when the agent asks for it.
//!
//! A skill's text is not fenced, so it must be the author's: it was read when the manifest was loaded,
//! and nothing that the agent writes later can become part of it. The inventory alone names
//! descriptions.

use std::sync::Arc;

use manifest::SkillPackage;
use policy::{Action, ActionKind, BadInput, Cancel, Execution, Outcome, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{BoxFuture, StateEffect, ToolSpec};

use crate::definition::Definition;

/// One tool for each skill, then `list_skills` and `load_skill`; nothing when there is no skill.
pub fn skill_tools<'s>(skills: impl IntoIterator<Item = (&'s str, &'s SkillPackage)>) -> Vec<Arc<dyn Tool>> {
    let skills: Vec<Skill> = skills
        .into_iter()
        .map(|(name, package)| Skill {
            name: name.to_owned(),
            description: package.description.clone(),
            text: package.text.as_str().into(),
        })
        .collect();
    if skills.is_empty() {
        return Vec::new();
    }
    let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(skills.len() + 2);
    for skill in &skills {
        let description =
            if skill.description.is_empty() { "Guidance of this capsule's author." } else { &skill.description };
        let definition = Definition::new(&skill.name, StateEffect::Read, description, json!({}), &[]);
        tools.push(Arc::new(SkillTool { definition, source: Source::One(Arc::clone(&skill.text)) }));
    }
    let list = Definition::new(
        "list_skills",
        StateEffect::Read,
        "List the skills of this capsule: name and description.",
        json!({}),
        &[],
    );
    tools.push(Arc::new(SkillTool { definition: list, source: Source::One(inventory(&skills).into()) }));
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let properties = json!({"name": {"enum": names, "description": "the skill"}});
    let load = Definition::new("load_skill", StateEffect::Read, "Show a skill of this capsule.", properties, &["name"]);
    tools.push(Arc::new(SkillTool { definition: load, source: Source::Named(skills) }));
    tools
}

fn inventory(skills: &[Skill]) -> String {
    let lines = skills.iter().map(|skill| {
        if skill.description.is_empty() {
            format!("{}\n", skill.name)
        } else {
            format!("{}: {}\n", skill.name, skill.description)
        }
    });
    lines.collect()
}

struct Skill {
    name: String,
    description: String,
    text: Arc<str>,
}

struct SkillTool {
    definition: Definition,
    source: Source,
}

enum Source {
    One(Arc<str>),
    Named(Vec<Skill>),
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let text = match &self.source {
            Source::One(text) => {
                self.definition.check(input)?;
                Arc::clone(text)
            }
            Source::Named(skills) => {
                let Named { name } = self.definition.read(input)?;
                // The schema admits the names of skills alone.
                skills.iter().find(|skill| skill.name == name).map(|skill| Arc::clone(&skill.text)).unwrap_or_default()
            }
        };
        let action = Action::new(call_id, &self.spec().name, ActionKind::Skill);
        Ok(Proposal { action, execution: Box::new(Show(text)) })
    }
}

struct Show(Arc<str>);

impl Execution for Show {
    fn run(self: Box<Self>, _permit: Permit, _cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Ran(RawResult::skill(&*self.0))))
    }
}
