//! The tools of one session by name. The grant is a tool's existence: what was not declared is not here.

use std::collections::HashMap;
use std::sync::Arc;

use fence::RuntimeWords;
use policy::Tool;
use vocab::{StateEffect, ToolSpec};

/// Says which declaration of the manifest a tool of this name is missing from.
pub type MissingGrant = fn(&str) -> &'static str;

/// The session's tools.
pub struct Registry {
    tools: HashMap<String, Arc<dyn Tool>>,
    specs: Vec<ToolSpec>,
    missing: MissingGrant,
}

impl Registry {
    /// A registry of these tools, offered in this order. A later tool of the same name replaces none:
    /// the manifest has already refused such a pair.
    #[must_use]
    pub fn new(tools: Vec<Arc<dyn Tool>>, missing: MissingGrant) -> Self {
        let specs = tools.iter().map(|tool| tool.spec().clone()).collect();
        let mut by_name = HashMap::with_capacity(tools.len());
        for tool in tools {
            by_name.entry(tool.spec().name.clone()).or_insert(tool);
        }
        Self { tools: by_name, specs, missing }
    }

    /// The same with tools of the runtime's own. The manifest lets no other take their names.
    pub(crate) fn with(mut self, own: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        for tool in own {
            self.specs.push(tool.spec().clone());
            self.tools.insert(tool.spec().name.clone(), tool);
        }
        self
    }

    /// What the model is offered. It does not change within a task.
    #[must_use]
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Whether a call of this name changes anything; one that cannot run changes nothing.
    #[must_use]
    pub fn effect_of(&self, name: &str) -> StateEffect {
        self.tools.get(name).map_or(StateEffect::Read, |tool| tool.state_effect())
    }

    /// What the model is told when it calls a tool that is not here.
    pub fn unknown(&self, name: &str) -> RuntimeWords {
        let words = RuntimeWords::new("there is no tool named `").echo(name).text("` in this capsule: ");
        let words = words.text((self.missing)(name)).text(". ");
        if self.specs.is_empty() {
            return words.text("It has no tools at all. Nothing ran.");
        }
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        words.text("Its tools are: ").echo(&names.join(", ")).text(". Nothing ran.")
    }
}
