//! Records from a damaged disk or a hostile hand: any bytes as a trace and as a conversation.
//!
//! Reading never panics. What can be continued is whole afterwards: a trace that takes an end verifies, and
//! a conversation opens a second time with the same messages and nothing left to repair.

#![no_main]

use std::fs::write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use record::{
    Capture, ConversationWriter, Home, SessionEnd, SessionStart, TraceKey, TraceOptions, TraceReader, TraceSummary,
    TraceWriter, VerifyStatus, verify,
};
use secrets::{Redactor, Secret};
use vocab::{ContextId, EndStatus, SessionId, SystemClock};

struct Scene {
    home: Home,
    key: TraceKey,
    session: SessionId,
    context: ContextId,
    redactor: Redactor,
    _dir: tempfile::TempDir,
}

static SCENE: LazyLock<Scene> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    let (session, context) = (SessionId::new(), ContextId::new());
    home.create_session_dir(&session).unwrap();
    let redactor = Redactor::new();
    redactor.learn(&Secret::new("hunter2".into()));
    drop(ConversationWriter::open(&home, &context, redactor.clone()).unwrap());
    let trace = home.trace_path(&session);
    write(&trace, "").unwrap();
    std::fs::set_permissions(&trace, std::fs::Permissions::from_mode(0o600)).unwrap();
    Scene { key: TraceKey::load_or_create(&home).unwrap(), home, session, context, redactor, _dir: dir }
});

fuzz_target!(|bytes: &[u8]| {
    as_trace(&SCENE, bytes);
    as_conversation(&SCENE, bytes);
});

fn as_trace(scene: &Scene, bytes: &[u8]) {
    let path = scene.home.trace_path(&scene.session);
    write(&path, bytes).unwrap();
    let public = scene.key.public();
    let report = verify(&path, None, Some(&public)).unwrap();
    assert_ne!(report.status, VerifyStatus::Verified, "nobody else has the key");
    let _ = TraceReader::open(&path).unwrap().count();
    let _ = TraceSummary::read(&path);

    let session = report.session.unwrap_or_else(|| scene.session.clone());
    let options = TraceOptions {
        session: session.clone(),
        capture: Capture::Content,
        redactor: scene.redactor.clone(),
        clock: Arc::new(SystemClock),
    };
    let Ok((mut writer, found)) = TraceWriter::reopen(&path, options) else { return };
    if found.lines == 0 {
        writer.append(None, start(&path)).unwrap();
    }
    writer.finish(&end(), Some(&scene.key)).unwrap();
    assert_eq!(verify(&path, Some(&session), Some(&public)).unwrap().status, VerifyStatus::Verified);
}

fn as_conversation(scene: &Scene, bytes: &[u8]) {
    write(scene.home.conversation_path(&scene.context), bytes).unwrap();
    let open = || ConversationWriter::open(&scene.home, &scene.context, scene.redactor.clone());
    let Ok(first) = open() else { return };
    let messages = first.messages;
    drop(first.writer);
    let again = open().unwrap();
    assert_eq!((again.messages, again.cut_bytes, again.completed), (messages, 0, 0));
}

fn start(workdir: &Path) -> SessionStart<'_> {
    SessionStart {
        mur_version: "0.1.0",
        capsule: "fuzz",
        capsule_version: "0.1.0",
        pid: 1,
        workdir,
        driver: "scripted",
        model: "script",
        scripted: Some(true),
        capture: Capture::Content,
        tools: &[],
        resumed_from: None,
        parent: None,
        control: None,
        inference_choices: None,
        effective_grants: None,
    }
}

fn end() -> SessionEnd<'static> {
    SessionEnd {
        status: EndStatus::Ok,
        error: None,
        tasks: 0,
        turns: 0,
        tool_calls: 0,
        input_tokens: 0,
        output_tokens: 0,
        duration_ms: 0,
    }
}
