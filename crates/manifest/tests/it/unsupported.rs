//! What is declared and not done yet is named, and nothing else is.

use crate::fixture::Capsule;

#[test]
fn everything_that_is_not_done_yet_is_named() {
    let capsule = Capsule::full();
    let loaded = capsule.load().unwrap();
    let found: String = manifest::unsupported(&loaded)
        .iter()
        .map(|diagnostic| format!("{diagnostic} ({})\n", diagnostic.field))
        .collect();
    insta::assert_snapshot!(capsule.short(&found));
}

#[test]
fn one_finding_looks_like_this() {
    let capsule = Capsule::least("capabilities:\n  spawn: { max_depth: 1 }\n");
    let loaded = capsule.load().unwrap();
    let found: String = manifest::unsupported(&loaded).iter().map(manifest::Diagnostic::render).collect();
    insta::assert_snapshot!(capsule.short(&found));
}

#[test]
fn what_is_done_is_not_named() {
    let capsule = Capsule::least(
        "capabilities:
  tools: [files_read, files_write, files_edit, files_patch, shell_exec, git_status, git_diff, git_commit]
  filesystem: { scope: src, read_only: [tests], workdir_exec: false }
  shell: { allow: [git], strip_env: [\"A*\"], baseline_env: [PATH], timeout_secs: 5 }
  env: { allow: [LANG] }
  containment: advisory
  resources: { cpu_seconds: 1 }
control: {}
lifecycle: { task_acceptance: single, after_task: exit, queue_depth: 8, conversation: stateless }
profile: []
verify: [cargo test]
trace: { capture: none }
",
    );
    let loaded = capsule.load().map_err(|rejected| rejected.render()).unwrap();
    assert_eq!(manifest::unsupported(&loaded), []);
}
