//! Skills.

use std::path::PathBuf;
use std::sync::Arc;

use manifest::SkillPackage;
use policy::Tool;
use serde_json::json;

use super::Host;

fn skill(description: &str, text: &str) -> SkillPackage {
    SkillPackage { description: description.to_owned(), file: PathBuf::from("/x/skill.md"), text: text.to_owned() }
}

#[tokio::test]
async fn a_skill_is_shown_unfenced_and_the_inventory_holds_no_text() {
    let host = Host::new();
    let (style, bare) = (skill("how we write", "# Style\nBe brief.\n"), skill("", "x"));
    let tools = tools::skill_tools([("house-style", &style), ("bare", &bare)]);
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(names, ["house-style", "bare", "list_skills", "load_skill"]);
    let by_name =
        |name: &str| -> Arc<dyn Tool> { Arc::clone(tools.iter().find(|tool| tool.spec().name == name).unwrap()) };
    let shown = host.call(&by_name("house-style"), json!({})).await;
    assert_eq!((shown.text.as_str(), shown.fenced, shown.is_error), ("# Style\nBe brief.\n", false, false));
    let loaded = host.call(&by_name("load_skill"), json!({"name": "house-style"})).await;
    assert_eq!(loaded, shown);
    let listed = host.call(&by_name("list_skills"), json!({})).await;
    assert_eq!((listed.text.as_str(), listed.fenced), ("house-style: how we write\nbare\n", false));
    let unknown = host.bad_input(&by_name("load_skill"), json!({"name": "none"}));
    assert!(unknown.ends_with("`name` must be one of `house-style`, `bare`"), "{unknown}");
}

#[test]
fn without_a_skill_there_is_no_tool() {
    assert!(tools::skill_tools([]).is_empty());
}
