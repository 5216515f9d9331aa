//! A session from outside: lanes, acceptance, cancels, conversations, questions, frames.

use std::sync::Arc;
use std::time::Duration;

use runtime::{
    Acceptance, AfterTask, Caller, Claim, Lifecycle, NewTask, RequestError, SessionHandle, StreamEvent, TaskView,
};
use tokio::sync::Notify;
use vocab::{ContextId, EndStatus, Origin, StateEffect, TaskId, TaskSource, TaskState, Trust};

use crate::fakes::{Deed, FakeTool, Say, Stage, serve, task};

const QUEUE: Lifecycle = Lifecycle {
    acceptance: Acceptance::Queue,
    after_task: AfterTask::Exit,
    queue_depth: 2,
    threaded: false,
    input_timeout: Duration::from_secs(600),
};

fn sent(text: &str) -> NewTask {
    NewTask { source: TaskSource::A2a, ..task(text) }
}

fn peer(text: &str) -> NewTask {
    NewTask { claim: Some(Claim { origin: Origin::Peer, trust: Some(Trust::Trusted) }), ..sent(text) }
}

fn in_context(context: &ContextId, text: &str) -> NewTask {
    NewTask { context: Some(context.clone()), ..sent(text) }
}

fn look(handle: &SessionHandle, task: &TaskId) -> TaskView {
    handle.task(Caller::Operator, task).unwrap()
}

/// The states of a task, in the order in which the stream tells them.
fn states(handle: &SessionHandle, task: &TaskId) -> Vec<&'static str> {
    let frames = handle.stream().after(0, usize::MAX).frames;
    frames
        .iter()
        .filter(|frame| frame.task.as_ref().is_some_and(|(of, _)| of == task))
        .filter_map(|frame| match &frame.event {
            StreamEvent::Status { state, .. } => Some(state.as_str()),
            _ => None,
        })
        .collect()
}

fn waiting_tool(started: &Arc<Notify>) -> Arc<dyn policy::Tool> {
    FakeTool::make("wait", StateEffect::Mutate, Deed::Wait(Arc::clone(started)))
}

#[tokio::test]
async fn the_operator_goes_before_peers_and_peers_before_the_rest() {
    let lifecycle = Lifecycle { queue_depth: 9, ..QUEUE };
    let says = vec![Say::Text("1"), Say::Text("2"), Say::Text("3"), Say::Text("4"), Say::Text("5")];
    let (stage, mut session) = Stage::open_as(says, Vec::new(), lifecycle);
    let handle = session.handle();
    let submitted = [
        (Caller::Anonymous, sent("event"), "5"),
        (Caller::Peer, peer("peer"), "3"),
        (Caller::Anonymous, peer("claims to be a peer"), "4"),
        (Caller::Operator, sent("operator"), "1"),
        (Caller::Operator, sent("operator again"), "2"),
    ];
    let ids: Vec<TaskId> =
        submitted.iter().map(|(caller, task, _)| handle.submit(*caller, task.clone()).unwrap().id).collect();
    assert_eq!(serve(&mut session).await.len(), 5);
    session.finish(None).unwrap();
    for (id, (_, _, reply)) in ids.iter().zip(&submitted) {
        assert_eq!(look(&handle, id).response.as_deref(), Some(*reply));
        assert_eq!(states(&handle, id), ["submitted", "working", "completed"]);
    }
    let trusts: Vec<_> = ids.iter().map(|id| look(&handle, id).trust).collect();
    let (trusted, untrusted) = (Trust::Trusted, Trust::Untrusted);
    assert_eq!(trusts, [untrusted, trusted, untrusted, trusted, trusted]);
    let lanes: Vec<_> = stage
        .trace()
        .iter()
        .filter(|line| line["event_type"] == "task_start")
        .map(|line| line["lane"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(lanes, ["user", "user", "peer", "peer", "background"]);
}

#[tokio::test]
async fn what_does_not_fit_is_rejected_on_record_and_on_the_stream() {
    for (acceptance, fits) in [(Acceptance::None, 0), (Acceptance::Single, 1), (Acceptance::Queue, 3)] {
        let says = vec![Say::Text("a"), Say::Text("b"), Say::Text("c")];
        let (stage, mut session) = Stage::open_as(says, Vec::new(), Lifecycle { acceptance, ..QUEUE });
        let handle = session.handle();
        let views: Vec<TaskView> =
            (0..5).map(|number| handle.submit(Caller::Anonymous, sent(&number.to_string())).unwrap()).collect();
        let taken = views.iter().filter(|view| view.state == TaskState::Submitted).count();
        assert_eq!(taken, fits, "{acceptance:?}");
        assert_eq!(serve(&mut session).await.len(), fits);
        session.finish(None).unwrap();
        let rejected = &views[4];
        assert_eq!(rejected.state, TaskState::Rejected);
        assert!(rejected.message.as_deref().unwrap().contains("lifecycle."), "{:?}", rejected.message);
        assert_eq!(states(&handle, &rejected.id), ["submitted", "rejected"]);
        let ends: Vec<_> = stage.trace().into_iter().filter(|line| line["event_type"] == "task_end").collect();
        assert_eq!(ends.iter().filter(|line| line["status"] == "rejected").count(), 5 - fits);
        assert_eq!(ends.len(), 5);
    }
}

#[tokio::test]
async fn a_session_that_sleeps_takes_the_next_task_and_rejects_what_waits_when_it_ends() {
    let started = Arc::new(Notify::new());
    let lifecycle = Lifecycle { after_task: AfterTask::Sleep, ..QUEUE };
    let says = vec![Say::Text("first"), Say::Calls(&[("wait", "{}")])];
    let (stage, mut session) = Stage::open_as(says, vec![waiting_tool(&started)], lifecycle);
    let handle = session.handle();
    let outside = async {
        let first = handle.submit(Caller::Operator, sent("one")).unwrap().id;
        while look(&handle, &first).state != TaskState::Completed {
            tokio::task::yield_now().await;
        }
        assert_eq!(handle.status(), "idle");
        let second = handle.submit(Caller::Operator, sent("two")).unwrap().id;
        started.notified().await;
        let third = handle.submit(Caller::Operator, sent("three")).unwrap().id;
        assert_eq!(handle.status(), "working");
        assert!(handle.stop());
        assert_eq!(look(&handle, &third).state, TaskState::Rejected);
        assert_eq!(look(&handle, &third).message.as_deref(), Some("the session ended before the task began"));
        let late = handle.submit(Caller::Operator, sent("four")).unwrap();
        assert_eq!((late.state, late.message.as_deref()), (TaskState::Rejected, Some("the session is ending")));
        second
    };
    let (reports, second) = tokio::join!(serve(&mut session), outside);
    assert_eq!(
        reports.iter().map(|report| report.end.status).collect::<Vec<_>>(),
        [EndStatus::Ok, EndStatus::Interrupted]
    );
    assert_eq!(look(&handle, &second).state, TaskState::Failed);
    session.finish(None).unwrap();
    assert_eq!(handle.status(), "ending");
    let last = handle.stream().after(0, usize::MAX).frames.pop().unwrap();
    assert_eq!(last.event, StreamEvent::CapsuleClosed);
    assert_eq!(stage.trace().last().unwrap()["event_type"], "session_end");
}

#[tokio::test]
async fn a_cancel_reaches_what_waits_and_what_runs_and_nothing_that_ended() {
    let started = Arc::new(Notify::new());
    let says = vec![Say::Calls(&[("wait", "{}")]), Say::Text("third")];
    let (_stage, mut session) = Stage::open_as(says, vec![waiting_tool(&started)], QUEUE);
    let handle = session.handle();
    let [first, second, third] =
        ["one", "two", "three"].map(|text| handle.submit(Caller::Operator, sent(text)).unwrap().id);
    let outside = async {
        started.notified().await;
        assert_eq!(handle.cancel(Caller::Operator, &second).unwrap().state, TaskState::Canceled);
        assert_eq!(handle.cancel(Caller::Operator, &first).unwrap().state, TaskState::Working);
    };
    let (reports, ()) = tokio::join!(serve(&mut session), outside);
    let ends: Vec<_> = reports.iter().map(|report| (&report.task, report.end.status)).collect();
    assert_eq!(ends, [(&first, EndStatus::Canceled), (&third, EndStatus::Ok)]);
    assert_eq!(states(&handle, &first), ["submitted", "working", "canceled"]);
    assert_eq!(states(&handle, &second), ["submitted", "canceled"]);
    for (task, state) in [(&first, TaskState::Canceled), (&third, TaskState::Completed)] {
        let refused = handle.cancel(Caller::Operator, task).unwrap_err();
        assert!(matches!(refused, RequestError::Ended { state: of, .. } if of == state), "{refused}");
    }
    let unknown = TaskId::new();
    assert!(matches!(handle.cancel(Caller::Operator, &unknown), Err(RequestError::UnknownTask(id)) if id == unknown));
}

#[tokio::test]
async fn a_peer_knows_of_its_own_tasks_alone_and_a_reader_changes_nothing() {
    let says = vec![Say::Text("a"), Say::Text("b")];
    let (_stage, mut session) = Stage::open_as(says, Vec::new(), QUEUE);
    let handle = session.handle();
    let theirs = handle.submit(Caller::Operator, sent("the operator's")).unwrap();
    let own = handle.submit(Caller::Peer, sent("the peer's")).unwrap();
    let seen = |caller| handle.tasks(caller, |_| true).into_iter().map(|view| view.id).collect::<Vec<_>>();
    assert_eq!(seen(Caller::Peer), std::slice::from_ref(&own.id));
    assert_eq!(seen(Caller::Diagnostics), [own.id.clone(), theirs.id.clone()]);
    let unknown = handle.cancel(Caller::Peer, &theirs.id).unwrap_err();
    assert!(matches!(unknown, RequestError::UnknownTask(_)));
    let foreign = handle.submit(Caller::Peer, in_context(&theirs.context, "more")).unwrap_err();
    assert!(matches!(foreign, RequestError::UnknownContext(_)));
    assert!(matches!(handle.cancel(Caller::Diagnostics, &own.id), Err(RequestError::ReadOnly)));
    assert!(matches!(handle.submit(Caller::Diagnostics, sent("x")), Err(RequestError::ReadOnly)));
    assert_eq!(handle.cancel(Caller::Peer, &own.id).unwrap().state, TaskState::Canceled);
    serve(&mut session).await;
}

#[tokio::test]
async fn a_context_that_the_operator_joined_is_the_operators() {
    let lifecycle = Lifecycle { threaded: true, ..QUEUE };
    let says = vec![Say::Text("a"), Say::Text("o"), Say::Text("c")];
    let (stage, mut session) = Stage::open_as(says, Vec::new(), lifecycle);
    let handle = session.handle();
    let (joined, other): (ContextId, ContextId) = ("weekly".parse().unwrap(), "other".parse().unwrap());
    handle.submit(Caller::Peer, in_context(&joined, "first")).unwrap();
    let waits = handle.submit(Caller::Peer, in_context(&joined, "and now?")).unwrap().id;
    let apart = handle.submit(Caller::Peer, in_context(&other, "elsewhere")).unwrap().id;
    let mut ran = Vec::new();
    let mut tell = |report: &runtime::TaskReport| {
        ran.push((report.context.clone(), report.end.reply.clone()));
        if ran.len() == 1 {
            handle.submit(Caller::Operator, in_context(&joined, "what nobody else is to read")).unwrap();
            let refused = handle.submit(Caller::Peer, in_context(&joined, "more")).unwrap_err();
            assert!(matches!(refused, RequestError::UnknownContext(_)), "{refused}");
        }
    };
    session.serve(&mut tell).await.unwrap();
    assert_eq!(ran, [(joined.clone(), "a".into()), (joined, "o".into()), (other, "c".into())]);
    let view = handle.task(Caller::Peer, &waits).unwrap();
    let why = "the operator took over the conversation before the task began";
    assert_eq!((view.state, view.message.as_deref()), (TaskState::Rejected, Some(why)));
    assert_eq!(states(&handle, &waits), ["submitted", "rejected"]);
    assert_eq!(look(&handle, &apart).state, TaskState::Completed);
    let told = requests(&stage).iter().filter(|request| request.concat().contains("nobody else")).count();
    assert_eq!(told, 1, "the operator's own request alone");
    let end = stage.trace().into_iter().find(|line| line["task_id"] == waits.as_str() && line["status"] == "rejected");
    assert_eq!(end.map(|line| line["error"].clone()), Some(why.into()));
}

/// The operator's task may also come to nothing, and what is rejected has joined nothing.
#[tokio::test]
async fn a_task_that_is_rejected_takes_no_context() {
    let lifecycle = Lifecycle { threaded: true, queue_depth: 1, ..QUEUE };
    let (_stage, mut session) = Stage::open_as(vec![Say::Text("a"), Say::Text("b")], Vec::new(), lifecycle);
    let handle = session.handle();
    let context: ContextId = "weekly".parse().unwrap();
    for (caller, wanted) in [(Caller::Operator, None), (Caller::Operator, None), (Caller::Peer, Some(&context))] {
        let task = NewTask { context: wanted.cloned(), ..sent("x") };
        assert_eq!(handle.submit(caller, task).unwrap().state, TaskState::Submitted);
    }
    let full = handle.submit(Caller::Operator, in_context(&context, "private")).unwrap();
    assert_eq!(full.state, TaskState::Rejected);
    let mine = handle.submit(Caller::Peer, in_context(&context, "still mine")).unwrap();
    assert_eq!(mine.state, TaskState::Submitted);
    handle.stop();
    assert_eq!(serve(&mut session).await.len(), 0);
}

#[tokio::test]
async fn what_another_session_said_in_a_conversation_reaches_no_task_of_others() {
    for gone_on in [true, false] {
        let lifecycle = Lifecycle { threaded: true, ..QUEUE };
        let (stage, mut session) = Stage::open_as(vec![Say::Text("a"), Say::Text("b")], Vec::new(), lifecycle);
        let handle = session.handle();
        let context: ContextId = "weekly".parse().unwrap();
        handle.submit(Caller::Peer, in_context(&context, "first")).unwrap();
        let waits = handle.submit(Caller::Peer, in_context(&context, "and now?")).unwrap().id;
        let mut first = true;
        let mut tell = |_: &runtime::TaskReport| {
            if std::mem::take(&mut first) && gone_on {
                let mut other =
                    record::ConversationWriter::open(&stage.home, &context, stage.redactor.clone()).unwrap().writer;
                let text = fence::ModelText::unfenced(fence::Unfenced::Operator, "said elsewhere");
                other.append(&vocab::Message::user(text)).unwrap();
            }
        };
        session.serve(&mut tell).await.unwrap();
        let view = handle.task(Caller::Peer, &waits).unwrap();
        let (state, why) = if gone_on {
            (TaskState::Rejected, Some("the conversation went on in another session before the task began"))
        } else {
            (TaskState::Completed, None)
        };
        assert_eq!((view.state, view.message.as_deref()), (state, why));
        assert!(!requests(&stage).concat().concat().contains("elsewhere"));
    }
}

#[tokio::test]
async fn strangers_do_not_fill_the_operators_places() {
    let says = (0..6).map(|_| Say::Text("x")).collect();
    let (_stage, mut session) = Stage::open_as(says, Vec::new(), QUEUE);
    let handle = session.handle();
    let states = |caller| [(); 4].map(|()| handle.submit(caller, sent("x")).unwrap().state == TaskState::Submitted);
    assert_eq!(states(Caller::Anonymous), [true, true, true, false]);
    assert_eq!(states(Caller::Operator), [true, true, true, false]);
    assert_eq!(serve(&mut session).await.len(), 6);
}

/// The texts of the messages that the model was sent with each request.
fn requests(stage: &Stage) -> Vec<Vec<String>> {
    let sent = stage.sent.lock().unwrap();
    sent.iter().map(|messages| messages.iter().map(vocab::Message::text).collect()).collect()
}

#[tokio::test]
async fn tasks_of_one_context_share_a_conversation_only_where_the_capsule_says_so() {
    for threaded in [true, false] {
        let says = vec![Say::Text("one"), Say::Text("two")];
        let (stage, mut session) = Stage::open_as(says, Vec::new(), Lifecycle { threaded, ..QUEUE });
        let handle = session.handle();
        let context: ContextId = "my-thread".parse().unwrap();
        handle.submit(Caller::Anonymous, in_context(&context, "first")).unwrap();
        handle.submit(Caller::Anonymous, in_context(&context, "second")).unwrap();
        let reports = serve(&mut session).await;
        assert!(reports.iter().all(|report| report.context == context));
        let fenced = |text: &str| format!("<untrusted-content source=task:event>\n{text}\n</untrusted-content>");
        let second =
            if threaded { vec![fenced("first"), "one".to_owned(), fenced("second")] } else { vec![fenced("second")] };
        assert_eq!(requests(&stage), [vec![fenced("first")], second]);
        assert_eq!(stage.conversation(&context).len(), 4);
    }
}

#[tokio::test]
async fn a_conversation_of_before_is_the_operators_to_take_up() {
    let context: ContextId = "of-before".parse().unwrap();
    let lifecycle = Lifecycle { threaded: true, ..QUEUE };
    let (stage, mut session) = Stage::open_as(vec![Say::Text("one")], Vec::new(), lifecycle);
    session.handle().submit(Caller::Operator, in_context(&context, "a private matter")).unwrap();
    serve(&mut session).await;
    session.finish(None).unwrap();
    let (stage, mut session) = stage.again(vec![Say::Text("two")], lifecycle);
    let handle = session.handle();
    let refused = handle.submit(Caller::Anonymous, in_context(&context, "go on")).unwrap_err();
    assert!(matches!(refused, RequestError::UnknownContext(_)), "{refused}");
    let fresh: ContextId = "of-mine".parse().unwrap();
    assert!(handle.submit(Caller::Anonymous, in_context(&fresh, "nearest allowed")).is_ok());
    handle.submit(Caller::Operator, in_context(&context, "go on")).unwrap();
    let stopper = handle.clone();
    session
        .serve(&mut |_| {
            stopper.stop();
        })
        .await
        .unwrap();
    assert_eq!(requests(&stage), [["a private matter", "one", "go on"]]);
}

#[tokio::test]
async fn a_conversation_that_cannot_be_opened_fails_its_task_alone() {
    let context: ContextId = "held".parse().unwrap();
    let (stage, mut session) = Stage::open_as(vec![Say::Text("fine")], Vec::new(), QUEUE);
    let held = record::ConversationWriter::open(&stage.home, &context, stage.redactor.clone()).unwrap();
    let handle = session.handle();
    handle.submit(Caller::Operator, in_context(&context, "one")).unwrap();
    handle.submit(Caller::Operator, sent("two")).unwrap();
    let reports = serve(&mut session).await;
    drop(held);
    assert_eq!(reports.iter().map(|report| report.end.status).collect::<Vec<_>>(), [EndStatus::Failed, EndStatus::Ok]);
    let reason = reports[0].end.reason.as_deref().unwrap();
    assert!(reason.starts_with("the task's conversation cannot be opened: "), "{reason}");
    assert_eq!(states(&handle, &reports[0].task), ["submitted", "failed"]);
}

fn asking() -> Vec<Arc<dyn policy::Tool>> {
    vec![FakeTool::make("ask", StateEffect::Read, Deed::Ask("which one, s3cret?"))]
}

async fn until(handle: &SessionHandle, task: &TaskId, state: TaskState) {
    while look(handle, task).state != state {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tools_question_waits_for_its_answer() {
    let (stage, mut session) = Stage::open_as(vec![Say::Calls(&[("ask", "{}")]), Say::Text("done")], asking(), QUEUE);
    stage.redactor.learn(&secrets::Secret::new("s3cret".into()));
    let handle = session.handle();
    let id = handle.submit(Caller::Operator, sent("one")).unwrap().id;
    let answers = async {
        let early = handle.answer(Caller::Operator, None, &id, "too early".into()).unwrap_err();
        assert!(matches!(early, RequestError::NotWaiting(_)), "{early}");
        until(&handle, &id, TaskState::InputRequired).await;
        assert_eq!(look(&handle, &id).message.as_deref(), Some("which one, [redacted]?"));
        let stranger = handle.answer(Caller::Anonymous, None, &id, "mine".into()).unwrap_err();
        assert!(matches!(stranger, RequestError::OperatorsTask(_)), "{stranger}");
        let view = handle.answer(Caller::Operator, None, &id, "the left one".into()).unwrap();
        assert_eq!((view.state, view.message), (TaskState::Working, None));
        assert!(matches!(handle.answer(Caller::Operator, None, &id, "again".into()), Err(RequestError::NotWaiting(_))));
    };
    let (reports, ()) = tokio::join!(serve(&mut session), answers);
    assert_eq!(reports[0].end.status, EndStatus::Ok);
    assert_eq!(states(&handle, &id), ["submitted", "working", "input-required", "working", "completed"]);
    let trace = stage.trace();
    let find = |kind: &str| trace.iter().find(|line| line["event_type"] == kind).unwrap();
    assert_eq!(find("input_required")["prompt"], "which one, [redacted]?");
    let received = find("input_received");
    assert_eq!((&received["answered"], &received["trust"]), (&true.into(), &"trusted".into()));
    assert_eq!(received["answer"], "the left one");
    let expected = "<untrusted-content source=tool:ask>\nthey said the left one\n</untrusted-content>";
    assert_eq!(find("tool_call")["output"], expected);
    let late = handle.answer(Caller::Operator, None, &id, "late".into()).unwrap_err();
    assert!(matches!(late, RequestError::Ended { state: TaskState::Completed, .. }), "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_becomes_an_error_the_model_reads() {
    let (stage, mut session) = Stage::open_as(vec![Say::Calls(&[("ask", "{}")]), Say::Text("done")], asking(), QUEUE);
    let id = session.handle().submit(Caller::Operator, sent("one")).unwrap().id;
    let reports = serve(&mut session).await;
    assert_eq!(reports[0].end.status, EndStatus::Ok);
    let trace = stage.trace();
    let call = trace.iter().find(|line| line["event_type"] == "tool_call").unwrap();
    assert_eq!(call["status"], "error");
    assert!(call["output"].as_str().unwrap().contains("nobody answered"), "{call}");
    assert_eq!(states(&session.handle(), &id), ["submitted", "working", "input-required", "working", "completed"]);
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_an_answer() {
    let (stage, mut session) = Stage::open_as(vec![Say::Calls(&[("ask", "{}")])], asking(), QUEUE);
    let handle = session.handle();
    let id = handle.submit(Caller::Operator, sent("one")).unwrap().id;
    let cancels = async {
        until(&handle, &id, TaskState::InputRequired).await;
        handle.cancel(Caller::Operator, &id).unwrap();
    };
    let (reports, ()) = tokio::join!(serve(&mut session), cancels);
    assert_eq!(reports[0].end.status, EndStatus::Canceled);
    let conversation = stage.conversation(&reports[0].context);
    assert_eq!(conversation.iter().filter(|line| line["role"] == "tool").count(), 1, "the call has its result");
}

#[tokio::test]
async fn frames_tell_a_task_from_its_first_to_its_last_state() {
    let tools = vec![FakeTool::make("echo", StateEffect::Read, Deed::Echo)];
    let (_stage, mut session) = Stage::open(vec![Say::Calls(&[("echo", "{}")]), Say::Text("all done")], tools);
    let handle = session.handle();
    let view = handle.submit(Caller::Operator, task("do it")).unwrap();
    serve(&mut session).await;
    let frames = handle.stream().after(0, usize::MAX).frames;
    let ids: Vec<u64> = frames.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=u64::try_from(frames.len()).unwrap()).collect::<Vec<_>>());
    let artifact = frames.iter().find(|frame| frame.name() == "artifact").unwrap().data();
    let artifact_of = |duration: &serde_json::Value| {
        serde_json::json!({"id": view.id, "artifact": {
            "tool_name": "echo",
            "content": "<untrusted-content source=tool:echo>\n{}\n</untrusted-content>",
            "fence_source": "tool:echo",
            "tool_call_id": "call_1_0",
            "is_error": false,
            "duration_ms": duration,
            "exit_code": null,
            "truncated": false,
        }})
    };
    assert_eq!(artifact, artifact_of(&artifact["artifact"]["duration_ms"]));
    let text: String = frames
        .iter()
        .filter_map(|frame| match &frame.event {
            StreamEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "all done");
    let last = frames.last().unwrap().data();
    let expected = serde_json::json!({
        "id": view.id, "context_id": view.context,
        "status": {"state": "completed", "response": "all done"}, "final": true,
    });
    assert_eq!(last, expected);
}
