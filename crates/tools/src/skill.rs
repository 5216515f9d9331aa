//! Skills: the capsule author's own guidance, shown as it is when the agent asks for it.
//!
//! A skill's text is not fenced, so it must be the author's: it was read when the manifest was loaded,
//! and nothing that the agent writes later can become part of it. The inventory alone names
//! descriptions.

use std::sync::Arc;

use manifest::SkillPackage;
use policy::{Action, ActionKind, BadInput, Cancel, Execution, Outcome, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use vocab::{BoxFuture, StateEffect};

use crate::definition::{About, Definition};

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
        tools.push(shows(&skill.name, description, Arc::clone(&skill.text)));
    }
    let description = "List the skills of this capsule: name and description.";
    tools.push(shows("list_skills", description, inventory(&skills).into()));
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let properties = json!({"name": {"enum": names, "description": "the skill"}});
    let load = definition("load_skill", "Show a skill of this capsule.", properties, &["name"]);
    tools.push(load.typed(move |action, Named { name }| {
        // The schema admits the names of skills alone.
        let text = skills.iter().find(|skill| skill.name == name).map(|skill| Arc::clone(&skill.text));
        show(action, text.unwrap_or_default())
    }));
    tools
}

fn definition(name: &str, description: &str, properties: Value, required: &[&str]) -> Definition {
    let (kind, state_effect) = (ActionKind::Skill, StateEffect::Read);
    Definition::new(About { name, kind, state_effect, description, properties, required })
}

/// A tool without arguments that shows one text.
fn shows(name: &str, description: &str, text: Arc<str>) -> Arc<dyn Tool> {
    definition(name, description, json!({}), &[]).tool(move |action, _| show(action, Arc::clone(&text)))
}

fn show(action: Action, text: Arc<str>) -> Result<Proposal, BadInput> {
    Ok(Proposal { action, execution: Box::new(Show(text)) })
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

#[derive(Deserialize)]
struct Named {
    name: String,
}

struct Show(Arc<str>);

impl Execution for Show {
    fn run(self: Box<Self>, _permit: Permit, _cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Ran(RawResult::skill(&*self.0))))
    }
}
