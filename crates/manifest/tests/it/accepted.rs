//! Manifests that load, and what they mean.

use manifest::{
    AfterTask, ArtifactBody, BuiltinDriver, BuiltinTool, Capture, Containment, Credential, Engine, Program,
    StateEffect, TaskAcceptance,
};

use crate::fixture::Capsule;

#[test]
fn the_least_manifest_has_the_documented_defaults() {
    let capsule = Capsule::least("");
    let loaded = capsule.load().unwrap();
    assert_eq!(loaded.path, capsule.path("murmur.yaml"));
    assert_eq!(loaded.dir, capsule.dir());
    assert_eq!(loaded.warnings, []);
    insta::assert_debug_snapshot!(loaded.manifest.lifecycle, @r"
    Lifecycle {
        task_acceptance: Single,
        after_task: Exit,
        queue_depth: 8,
        conversation: Stateless,
        input_timeout_secs: 600,
        shell_grace_secs: 0,
    }
    ");
    insta::assert_debug_snapshot!(loaded.manifest.inference.retry, @r"
    Retry {
        max_retries: 6,
        initial_delay_ms: 1000,
        max_delay_ms: 30000,
    }
    ");
    let manifest = &loaded.manifest;
    assert_eq!((manifest.inference.max_tokens, manifest.inference.max_turns), (4096, 50));
    assert_eq!(manifest.inference.max_session_tokens, None);
    assert_eq!(manifest.trace.capture, Capture::Content);
    assert_eq!(manifest.capabilities.tools, []);
    assert_eq!(manifest.capabilities.shell.timeout_secs, 30);
    assert_eq!(manifest.capabilities.containment, None);
    assert_eq!(manifest.network.authentication, None);
    assert!(!manifest.control.has_surface());
    let primary = manifest.inference.primary().unwrap();
    assert_eq!((primary.name.as_str(), primary.driver), ("primary", BuiltinDriver::Scripted));
    assert_eq!(primary.script.as_ref().unwrap().absolute, capsule.path("play.yaml"));
    assert_eq!(primary.gateway, None);
}

#[test]
fn the_full_manifest_means_what_it_says() {
    let capsule = Capsule::full();
    let loaded = capsule.load().unwrap();
    assert_eq!(loaded.warnings, []);
    let manifest = &loaded.manifest;
    assert_eq!(manifest.name.as_str(), "fetch-and-summarise");
    assert_eq!(manifest.inference.system_prompt.as_deref(), Some("Be brief."));
    let choices: Vec<_> = manifest
        .inference
        .choices()
        .map(|choice| (choice.name.as_str(), choice.driver, choice.model.as_str(), choice.limits.context_window))
        .collect();
    assert_eq!(
        choices,
        [
            ("primary", BuiltinDriver::Anthropic, "my-model", 200_000),
            ("cheap", BuiltinDriver::Openai, "small-model", 16_000),
        ]
    );
    let gateway = manifest.inference.primary().unwrap().gateway.clone().unwrap();
    assert_eq!(gateway.endpoint.as_str(), "https://api.anthropic.com");
    assert_eq!(gateway.credential.reference().unwrap().as_str(), "ANTHROPIC_API_KEY");
    assert!(manifest.grants(BuiltinTool::ShellExec));
    assert!(!manifest.grants(BuiltinTool::FilesWrite));
    assert_eq!(manifest.capabilities.containment, Some(Containment::Scoped));
    let network = manifest.capabilities.network.clone().unwrap();
    let allowed: Vec<String> = network.allow.iter().map(ToString::to_string).collect();
    assert_eq!(allowed, ["https://api.example.com", "localhost:9000"]);
    assert_eq!(manifest.lifecycle.task_acceptance, TaskAcceptance::Queue);
    assert_eq!(manifest.lifecycle.after_task, AfterTask::Sleep);
    assert_eq!(manifest.capabilities.shell.gateways()[0].name.as_str(), "CARDS");
    assert_eq!(manifest.profile[0].text, "You are careful.\n");
    assert_eq!(manifest.profile[0].path.absolute, capsule.path("profile/identity.md"));
}

#[test]
fn a_tool_is_what_its_own_file_says() {
    let capsule = Capsule::full();
    let loaded = capsule.load().unwrap();
    let (artifact, tool) = loaded.manifest.tools().next().unwrap();
    assert_eq!(artifact.name.as_str(), "web-fetch");
    assert_eq!(tool.description, "Fetches a page and returns its text.");
    assert_eq!(tool.state_effect, StateEffect::Read);
    assert_eq!(tool.dir, capsule.path("tools/web-fetch"));
    let argv = [
        capsule.path("tools/web-fetch/run.sh").into_os_string(),
        "--config".into(),
        capsule.path("tools/web-fetch/fetch.toml").into_os_string(),
    ];
    assert_eq!(tool.program, Program::Native { argv: argv.to_vec() });
    assert_eq!(
        serde_json::Value::Object(tool.input_schema.clone()),
        serde_json::json!({"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]})
    );
}

#[test]
fn a_skill_is_found_in_any_case_or_named_itself() {
    let capsule = Capsule::full();
    let skill = |capsule: &Capsule| {
        let loaded = capsule.load().unwrap();
        let (artifact, skill) = loaded.manifest.skills().next().unwrap();
        (artifact.name.to_string(), skill.clone())
    };
    let (name, found) = skill(&capsule);
    assert_eq!((name.as_str(), found.description.as_str()), ("house-style", "How we write."));
    assert_eq!(found.file, capsule.path("skills/house-style/SKILL.md"));
    assert!(found.text.starts_with("---\nname: house-style\n"));
    capsule.write("skills/house-style/skill.md", "No front matter.\n");
    let (_, found) = skill(&capsule);
    assert_eq!((found.description.as_str(), found.text.as_str()), ("", "No front matter.\n"));
    capsule.edit("murmur.yaml", "./skills/house-style", "skills/house-style/SKILL.md");
    assert_eq!(skill(&capsule).1.description, "How we write.");
}

#[test]
fn hooks_and_mods_load_too() {
    let capsule = Capsule::least("");
    capsule.edit(
        "murmur.yaml",
        "  - { name: scripted, runtime: driver }\n",
        "  - { name: scripted, runtime: driver }
  - { name: guard, runtime: hook, source: guard, capabilities: { task_io: { read: true } } }
  - { name: notes, runtime: mod, source: notes }\n",
    );
    capsule.write(
        "guard/murmur.yaml",
        "name: guard\nversion: '1'\nruntime: hook\nimplementation: wasm\ncomponent: guard.wasm\n\
         events: [on-tool-call, on-shell]\nexecution_mode: blocking\n",
    );
    capsule.write("guard/guard.wasm", "");
    capsule.write("notes/murmur.yaml", "name: notes\nversion: '1'\nruntime: mod\ncommand: [python3, ./serve.py]\n");
    let loaded = capsule.load().unwrap();
    let component = capsule.path("guard/guard.wasm");
    match &loaded.manifest.artifact("guard").unwrap().body {
        ArtifactBody::Hook(hook) => assert_eq!(hook.program, Program::Component { path: component }),
        other => panic!("{other:?}"),
    }
    match &loaded.manifest.artifact("notes").unwrap().body {
        ArtifactBody::Mod(part) => {
            assert_eq!(part.argv, ["python3".into(), capsule.path("notes/serve.py").into_os_string()]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_coding_cli_can_be_the_loop() {
    let capsule = Capsule::least("");
    capsule.write(
        "murmur.yaml",
        "name: demo\nversion: 0.1.0\ninference: { transport: process, command: claude, env: [ANTHROPIC_API_KEY] }\n",
    );
    match capsule.load().unwrap().manifest.inference.engine {
        Engine::Process { command, model, env } => {
            assert_eq!((command.as_str(), model, env.len()), ("claude", None, 1));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_system_prompt_can_stand_in_a_file() {
    let capsule = Capsule::full();
    capsule.write("prompt.md", "From a file.\n");
    capsule.edit("murmur.yaml", "system_prompt: Be brief.", "system_prompt_file: prompt.md");
    assert_eq!(capsule.load().unwrap().manifest.inference.system_prompt.as_deref(), Some("From a file.\n"));
}

#[test]
fn edges_of_the_ranges_are_accepted() {
    for (from, to) in [
        ("name: fetch-and-summarise", "name: \"-\""),
        ("version: 0.1.0", "version: \"1.0\""),
        ("version: 0.1.0", "version: yes"),
        ("max_tokens: 4096", "max_tokens: 1"),
        ("max_tokens: 4096", "max_tokens: 15999"),
        ("max_turns: 50", "max_turns: 1"),
        ("threshold: 0.85", "threshold: 1"),
        ("threshold: 0.85", "threshold: 1.0e-3"),
        ("max_retries: 6", "max_retries: 0"),
        ("max_tokens: 4096", "max_tokens: 0x10"),
        ("timeout_secs: 30", "timeout_secs: 86400"),
        ("internal_port: 14159", "internal_port: 65535"),
        ("\"localhost:9000\"", "\"*.example.com\""),
        ("\"localhost:9000\"", "\"[::1]:80\""),
        ("scope: src", "scope: ..."),
        ("name: cheap", "name: c"),
        ("model: my-model", "model: claude-sonnet-5"),
        ("model: my-model", "model: claude-haiku-4-5-20251001"),
        ("Bearer {key}", "Token token={key}"),
    ] {
        let capsule = Capsule::full();
        capsule.edit("murmur.yaml", from, to);
        if let Err(rejected) = capsule.load() {
            panic!("{to}: {}", rejected.render());
        }
    }
}

#[test]
fn warnings_accept_the_manifest() {
    let capsule = Capsule::full();
    capsule
        .edit("murmur.yaml", "max_tokens: 4096", "max_tokens: 9000")
        .edit("murmur.yaml", "${ANTHROPIC_API_KEY}", "sk-ant-very-secret")
        .edit("murmur.yaml", "https://api.anthropic.com", "http://api.anthropic.com");
    let loaded = capsule.load().unwrap();
    let rendered: String = loaded.warnings.iter().map(manifest::Diagnostic::render).collect();
    insta::assert_snapshot!(capsule.short(&rendered));
    let primary = loaded.manifest.inference.primary().unwrap().gateway.clone().unwrap();
    match &primary.credential {
        Credential::Literal(literal) => assert_eq!(literal.expose(), "sk-ant-very-secret"),
        other => panic!("{other:?}"),
    }
    assert!(!format!("{loaded:?}").contains("sk-ant-very-secret"));
}

#[test]
fn a_field_can_be_placed() {
    let loaded = Capsule::full().load().unwrap();
    let place = |field: &str| loaded.place(field).map(|place| (place.line, place.column));
    assert_eq!(place("artifacts[0].gateway.api_key"), Some((10, 16)));
    assert_eq!(place("artifacts[0].models[\"my-model\"].context_window"), Some((12, 35)));
    assert_eq!(place("artifacts[9]"), None);
}

#[test]
fn the_scaffold_loads_without_findings() {
    let capsule = Capsule::least("");
    capsule.write("murmur.yaml", manifest::scaffold("My Agent"));
    let loaded = capsule.load().map_err(|rejected| rejected.render()).unwrap();
    assert_eq!(loaded.manifest.name.as_str(), "my-agent");
    assert_eq!(loaded.warnings, []);
    assert_eq!(manifest::unsupported(&loaded), []);
}

#[test]
fn every_commented_line_of_the_scaffold_works() {
    let capsule = Capsule::full();
    // Prose begins with a capital letter; every other comment is a line of the manifest.
    let mut text = String::new();
    for line in manifest::scaffold("x").lines() {
        let code = match line.split_once("# ") {
            Some((indent, rest)) if indent.trim().is_empty() && !rest.starts_with(char::is_uppercase) => {
                format!("{indent}{rest}")
            }
            _ => line.to_owned(),
        };
        text.push_str(&code);
        text.push('\n');
    }
    capsule.write("murmur.yaml", &text);
    let loaded = capsule.load().map_err(|rejected| format!("{text}\n{}", rejected.render())).unwrap();
    assert_eq!(loaded.manifest.artifacts.len(), 3);
    assert_eq!(loaded.manifest.capabilities.tools.len(), 11);
    assert_eq!(loaded.manifest.capabilities.shell.allow.len(), 2);
    assert_eq!(manifest::unsupported(&loaded), []);
}

#[test]
fn further_keys_of_the_request_pass_to_the_provider_as_they_stand() {
    let capsule = Capsule::full();
    capsule.edit(
        "murmur.yaml",
        "config: {}",
        "config: { temperature: 0.5, thinking: { type: enabled, budget_tokens: 2048 } }",
    );
    let config = capsule.load().unwrap().manifest.inference.primary().unwrap().config.clone();
    let expected = serde_json::json!({"temperature": 0.5, "thinking": {"type": "enabled", "budget_tokens": 2048}});
    assert_eq!(serde_json::Value::Object(config), expected);
}
