//! The table of events. What a field is called, what it may hold and what it means stands here and
//! nowhere else.
//!
//! `session_end` is not an [`Event`]: only the writer's `finish` makes one, because it seals the file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use vocab::{
    ContextId, DriverErrorKind, EndStatus, EventId, Lane, MessageId, Origin, SessionId, StateEffect, StopReason,
    TaskId, TaskSource, Trust,
};

use super::field::{Body, CallId, EventSpec, Field, FieldSpec, KeyRule, ReviewTarget};
use super::words::{CallStatus, Capture, Decision, ReviewPhase, SubagentStatus, Verdict};
use crate::Digest;
use crate::line::Line;

macro_rules! event_struct {
    ($Event:ident = $name:literal, $meaning:literal, seal: $seal:expr, { $($field:ident: $Type:ty = $about:literal;)* }) => {
        #[doc = $meaning]
        #[derive(Debug, Clone, Copy)]
        pub struct $Event<'a> {
            $(#[doc = $about] pub $field: $Type,)*
        }

        impl<'a> $Event<'a> {
            pub(crate) const SPEC: EventSpec = EventSpec {
                name: $name,
                meaning: $meaning,
                fields: &[$(FieldSpec { name: stringify!($field), shape: <$Type as Field>::SHAPE, meaning: $about },)*],
                seal: $seal,
            };

            pub(crate) fn emit(&self, line: &mut Line<'_>) {
                $(self.$field.emit(stringify!($field), line);)*
            }
        }
    };
}

macro_rules! events {
    (
        $($Event:ident($Variant:ident) = $name:literal, $meaning:literal $fields:tt)*;
        sealed $Last:ident = $last:literal, $last_meaning:literal, $seal:expr, $last_fields:tt
    ) => {
        $(event_struct! { $Event = $name, $meaning, seal: &[], $fields })*
        event_struct! { $Last = $last, $last_meaning, seal: $seal, $last_fields }

        /// Every event type, in the order in which a session writes its first of each.
        pub const EVENTS: &[EventSpec] = &[$($Event::SPEC,)* $Last::SPEC];

        /// An event that a trace takes at any time before its end.
        #[derive(Debug, Clone, Copy)]
        pub enum Event<'a> {
            $(#[doc = $meaning] $Variant($Event<'a>),)*
        }

        impl Event<'_> {
            /// Its `event_type`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$Variant(_) => $name,)* }
            }

            pub(crate) fn emit(&self, line: &mut Line<'_>) {
                match self { $(Self::$Variant(event) => event.emit(line),)* }
            }
        }

        $(impl<'a> From<$Event<'a>> for Event<'a> {
            fn from(event: $Event<'a>) -> Self {
                Self::$Variant(event)
            }
        })*
    };
}

events! {
    SessionStart(SessionStart) = "session_start", "A session began; the first line of every trace." {
        mur_version: &'a str = "version of the program";
        capsule: &'a str = "the capsule's name";
        capsule_version: &'a str = "the capsule's version";
        pid: u32 = "process id of the runtime";
        workdir: &'a Path = "the directory the agent works in";
        driver: &'a str = "the driver of the primary choice";
        model: &'a str = "the model of the primary choice";
        scripted: Option<bool> = "`true` when the driver plays a script and no model answers";
        capture: Capture = "`trace.capture`: `none`, `meta` or `content`";
        tools: &'a [&'a str] = "names of the tools that the model is offered";
        resumed_from: Option<&'a SessionId> = "the session that this one resumes";
        parent: Option<&'a Value> = "of a subagent: what it is a child of, as `session_id`, `task_id`, `tool_call_id`, and its `depth`, from 1";
        control: Option<&'a Value> = "what `control:` declares: `settings`, `secrets` and, unless empty, `agent_settings`";
        inference_choices: Option<&'a Value> = "each driver choice, when alternates are declared: `name`, `driver`, `model`, `credential_source`, `available`";
        effective_grants: Option<&'a Value> = "what the capsule may reach on this host, as `mur run --explain-scope --json` prints it";
    }
    TaskReceived(TaskReceived) = "task_received", "A task entered the session's queue." {
        task_id: &'a TaskId = "the task";
        context_id: &'a ContextId = "the conversation it belongs to";
        source: TaskSource = "the way by which it came";
        origin: Origin = "who enqueued it";
        trust: Trust = "`trusted` or `untrusted`, derived from the origin";
        lane: Lane = "the queue lane it waits in";
        bytes: u64 = "size of its text as it came";
        from_task_id: Option<&'a TaskId> = "of a `completion` of the runtime's own: the task that left a command in the background";
        from_tool_call_id: Option<CallId<'a>> = "the call that started the command";
    }
    TaskStart(TaskStart) = "task_start", "A task left the queue and its text entered the conversation." {
        task_id: &'a TaskId = "the task";
        context_id: &'a ContextId = "the conversation it belongs to";
        source: TaskSource = "the way by which it came";
        origin: Origin = "who enqueued it";
        trust: Trust = "`trusted` or `untrusted`; an untrusted task's text is fenced";
        lane: Lane = "the queue lane it waited in";
        message_id: &'a MessageId = "its message in the conversation record";
        text: Body<'a> = "its text, as the model sees it";
        traceparent: Option<&'a str> = "the W3C trace context that came with it";
        fence_lookalikes: Option<u64> = "how many look-alikes of a fence marker its text holds";
        from_task_id: Option<&'a TaskId> = "as in `task_received`";
        from_tool_call_id: Option<CallId<'a>> = "as in `task_received`";
    }
    RequestRouted(RequestRouted) = "request_routed", "Skills and context documents were put in order for a task. It decides no permission and no tool's existence." {
        task_id: &'a TaskId = "the task";
        action: Option<&'a str> = "what the task is for, as the word that it was started with";
        skills: &'a [&'a str] = "the skills, those that bear most on the task first";
        documents: &'a [&'a str] = "the context documents, in the same order";
    }
    Inference(Inference) = "inference", "A model answered. Its line is the parent of what its turn does." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        driver_choice: Option<&'a str> = "the driver choice, when alternates are declared";
        model: Option<&'a str> = "the model, when alternates are declared";
        input_tokens: u64 = "all input tokens, cached ones included";
        output_tokens: u64 = "all output tokens, thinking included";
        cached_tokens: Option<u64> = "input tokens read from the provider's cache, where it says";
        cache_write_tokens: Option<u64> = "input tokens written to the provider's cache, where it says";
        thinking_tokens: Option<u64> = "output tokens spent on reasoning, where it says";
        decision: Decision = "what the runtime does next: `tool_call`, `reply`, `continue` or `stop`";
        stop_reason: StopReason = "why the model stopped";
        tool_name: Option<&'a str> = "the tool of the first call that it asks for";
        tool_calls: u32 = "how many calls it asks for";
        provider_id: Option<&'a str> = "the provider's id of the answer, where it gives one";
        attempts: u32 = "how many attempts it took, from 1";
        duration_ms: u64 = "from the first attempt to the end of the answer";
        system_sha: Digest = "SHA-256 of the system prompt";
        tools_sha: Digest = "SHA-256 of the tools as the model is offered them";
        message_ids: &'a [MessageId] = "messages that entered the conversation since the last inference of this task, the answer last";
    }
    InferenceError(InferenceError) = "inference_error", "One attempt of an inference call, or of a summarising call, failed." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        attempt: u32 = "the attempt that failed, from 1";
        kind: DriverErrorKind = "the kind of failure, such as `rate_limit`";
        http_status: Option<u16> = "the HTTP status, where there was one";
        message: &'a str = "what went wrong, in a sentence";
        retry_in_ms: Option<u64> = "how long until the next attempt; absent when there is none";
    }
    ActionReview(ActionReview) = "action_review", "A call was reviewed, before dispatch or at the point of effect." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        tool: &'a str = "the tool's name as the model called it";
        action: &'a str = "the kind of action, such as `files_read`";
        targets: &'a [ReviewTarget<'a>] = "each `operation` with its `path`, `command` or `argv`; the latter two under `capture: content` alone";
        verdict: Verdict = "`allowed` or `denied`";
        blockers: &'a [&'a str] = "codes of what stands against it";
        rule_ids: &'a [&'a str] = "ids of the operator's rules that matched";
        micros: u64 = "how long the review took, in microseconds";
        phase: ReviewPhase = "`propose` before dispatch, `execute` at the point of effect";
    }
    CallDenied(CallDenied) = "call_denied", "A call did not run; no `tool_call` is written for it." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        tool: &'a str = "the tool's name as the model called it";
        reason: &'a str = "why, as a code: `unknown_tool`, `bad_arguments`, `blocked`, …";
        blockers: &'a [&'a str] = "codes of what stands against it";
        rule_ids: &'a [&'a str] = "ids of the operator's rules that matched";
        phase: ReviewPhase = "`propose` before dispatch, `execute` at the point of effect";
        input: Body<'a> = "the input as the model wrote it";
        output: Body<'a> = "what the model was told";
    }
    ToolCallEvent(ToolCall) = "tool_call", "A tool ran." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_name: &'a str = "the tool's name as the model called it";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        input: Body<'a> = "its input";
        output: Body<'a> = "its result as the model saw it, fence included; with images an array of content parts";
        duration_ms: u64 = "how long it ran";
        status: CallStatus = "`ok` or `error`";
        state_effect: StateEffect = "`read` or `mutate`, as the tool declares";
        exit_code: Option<i32> = "the process's exit status, where a process exited";
        truncated: Option<bool> = "`true` when the result shows less than there was";
        detached: Option<bool> = "`true` when its command went on in the background: this is what there was of it by then";
        fence_lookalikes: Option<u64> = "how many look-alikes of a fence marker the result holds";
    }
    SkillCall(SkillCall) = "skill_call", "The model read a skill. Its text is the capsule author's own and not fenced." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_name: &'a str = "the skill's name";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        input: Body<'a> = "its input";
        output: Body<'a> = "the skill's text";
        duration_ms: u64 = "how long it took";
        status: CallStatus = "`ok` or `error`";
    }
    Shell(Shell) = "shell", "A process of a tool call ended. One that went on in the background may end after its task." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        binary: &'a str = "the program";
        command: Body<'a> = "the command text, or the arguments joined for reading";
        exit_code: Option<i32> = "its exit status; absent when a signal ended it";
        bytes: u64 = "bytes on its stdout and stderr before any cut";
        containment: Option<&'a str> = "`advisory`, `scoped` or `sealed`, as its own installation reported it; absent when it never began";
        enforcement: Option<&'a str> = "`full`, or `partial` when `unmasked_rules` names any; absent under `advisory`, where the kernel enforces none";
        unmasked_rules: Option<&'a [&'a str]> = "ids of rules that the kernel did not hold it to, although they cover something that was there";
        duration_ms: u64 = "how long it ran";
    }
    McpCall(McpCall) = "mcp_call", "A connection's tool was called, or its server did not come to be." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        connection: &'a str = "the connection's id";
        connection_name: &'a str = "what people call it";
        tool: &'a str = "the tool's exact name at its server";
        transport: &'a str = "`stdio`, `http` or `mod`";
        starts: u64 = "how many processes were started for the call: none where one was kept or behind an address, two when the first one ended before the call";
        protected: u64 = "how many values of the result stand behind handles";
        duration_ms: u64 = "from the first step towards the server to its answer";
    }
    InputRequired(InputRequired) = "input_required", "A tool asked whoever sent the task; the task waits." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        tool: &'a str = "the tool's name as the model called it";
        prompt: Body<'a> = "what it asks";
    }
    InputReceived(InputReceived) = "input_received", "A tool's question was answered, or nobody answered in time." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        answered: bool = "whether there is an answer";
        trust: Option<Trust> = "the class of whoever answered";
        answer: Option<Body<'a>> = "the answer as it went to the tool, redacted here";
        waited_ms: u64 = "how long the task waited";
    }
    SubagentStart(SubagentStart) = "subagent_start", "A subagent's process was started. What it did stands in its own trace." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        subagent: &'a SessionId = "the subagent's session";
        label: Option<&'a str> = "what the call names it";
        root: &'a Path = "the directory it works in";
        model: Option<&'a str> = "the driver choice that the call names; absent when it follows its parent's";
        depth: u32 = "how many sessions stand above it";
        queued_ms: u64 = "how long it waited for a place among those that run at the same time";
    }
    SubagentEnd(SubagentEnd) = "subagent_end", "A subagent ended." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        tool_call_id: CallId<'a> = "the provider's id of the call";
        subagent: &'a SessionId = "the subagent's session";
        status: SubagentStatus = "`succeeded`, `failed`, `cancelled` or `timed_out`";
        error: Option<&'a str> = "why it did not succeed, in a sentence";
        turns: u32 = "how many answers of a model it and its own subagents got";
        input_tokens: u64 = "input tokens of these";
        output_tokens: u64 = "output tokens of these";
        duration_ms: u64 = "from the start of its process";
    }
    Compaction(Compaction) = "compaction", "Older turns were summarised by one call of the primary choice, or could not be." {
        turn: u32 = "the turn that was about to begin, from 0";
        task_id: &'a TaskId = "the task";
        choice: &'a str = "the driver choice whose window filled up";
        driver_choice: &'a str = "the driver choice that was asked for the summary";
        model: &'a str = "its model";
        status: CallStatus = "`ok` or `error`";
        error: Option<&'a str> = "why there is no summary, in a sentence";
        before_tokens: u64 = "the next request before, estimated";
        after_tokens: u64 = "the next request after, estimated; the same when there is no summary";
        messages_replaced: u64 = "how many messages the summary stands for";
        message_id: Option<&'a MessageId> = "the summary's message in the conversation record";
        summary: Option<Body<'a>> = "the summary as the model sees it";
        input_tokens: u64 = "all input tokens of the call, cached ones included";
        output_tokens: u64 = "all output tokens of the call";
        cached_tokens: Option<u64> = "input tokens read from the provider's cache, where it says";
        attempts: Option<u32> = "how many attempts an answer took, from 1";
        duration_ms: u64 = "how long it took";
    }
    ControlChange(ControlChange) = "control_change", "A setting or a secret was changed while the session ran." {
        principal: &'a str = "`controller` or `agent`";
        token_id: Option<&'a str> = "the first 16 hex digits of the SHA-256 of the controller's token";
        kind: &'a str = "`setting` or `secret`";
        name: &'a str = "which one";
        action: &'a str = "`set` or `forget`";
        previous: Option<&'a Value> = "a setting's value before";
        value: Option<&'a Value> = "a setting's value from now on; a secret's never stands here";
        applies_from: Option<&'a str> = "`next_inference_call`, of a setting";
        replaced: Option<bool> = "whether a secret that was set had a value before";
    }
    ControlRefused(ControlRefused) = "control_refused", "A change was asked for and refused." {
        principal: &'a str = "`controller` or `agent`";
        token_id: Option<&'a str> = "as in `control_change`; absent when the token does not verify";
        status: u16 = "the HTTP status of the refusal";
        reason: &'a str = "why, as a code";
        kind: Option<&'a str> = "`setting` or `secret`, where the request named one";
        name: Option<&'a str> = "which one, where the request named one";
    }
    ControlApplied(ControlApplied) = "control_applied", "An inference call is about to use another value of a setting than the one before it." {
        turn: u32 = "the turn within the task, from 0";
        task_id: &'a TaskId = "the task";
        name: &'a str = "the setting";
        value: &'a Value = "the value that the call uses";
        change_id: Option<&'a EventId> = "the `control_change` that set it; absent for a value that stood in the manifest";
    }
    GatewayCredential(GatewayCredential) = "gateway_credential", "Something happened to a credential that requests to a service are keyed with. A trouble is told once, until it is over." {
        artifact: &'a str = "the artifact that names it, or `shell:<name>` for a gateway of processes";
        source: &'a str = "`config`, `environment`, `manifest`, `keyless`, `injected` or `none`: where its value stands";
        credential: Option<&'a str> = "its name; absent for a literal";
        change: &'a str = "`rotated`: another key than before was sent; `rejected`: the service answered 401; `unreadable`: there was no value to send";
        reason: Option<&'a str> = "why it is unreadable: `not_injected`, `not_found`, `unusable`, `exposed` or `unreadable`";
    }
    TaskEnd(TaskEnd) = "task_end", "A task ended." {
        task_id: &'a TaskId = "the task";
        status: EndStatus = "`ok`, `failed`, `canceled`, `rejected`, `spend_ceiling_reached`, `max_turns_reached` or `interrupted`";
        error_code: Option<&'a str> = "the diagnostic's code, where there is one";
        error: Option<&'a str> = "why it did not end well, in a sentence";
        reply: Option<Body<'a>> = "the final reply";
        text: Option<Body<'a>> = "its text as it came, when it never began: no `task_start` holds it";
        turns: u32 = "how many turns it took";
        tool_calls: u32 = "how many calls the model asked for";
        input_tokens: u64 = "input tokens of all turns and summaries";
        output_tokens: u64 = "output tokens of all turns and summaries";
        duration_ms: u64 = "from its start";
    }
    ;
    sealed SessionEnd = "session_end", "The session ended; the last line of a trace that was not cut off.", SEAL, {
        status: EndStatus = "how the session ended: `ok` when every task did";
        error: Option<&'a str> = "why it did not end well, in a sentence";
        tasks: u32 = "how many tasks it ran";
        turns: u32 = "how many turns they took";
        tool_calls: u32 = "how many calls the model asked for";
        input_tokens: u64 = "input tokens of all turns and summaries";
        output_tokens: u64 = "output tokens of all turns and summaries";
        duration_ms: u64 = "from its start";
    }
}

const SEAL: &[FieldSpec] = &[
    FieldSpec { name: "lines", shape: <u64 as Field>::SHAPE, meaning: "number of lines, this one included" },
    FieldSpec {
        name: "head",
        shape: <&str as Field>::SHAPE,
        meaning: "the chain's head: SHA-256 of the line before, hex",
    },
    FieldSpec {
        name: "public_key",
        shape: <Option<&str> as Field>::SHAPE,
        meaning: "public half of the key that signed",
    },
    FieldSpec {
        name: "signature",
        shape: <Option<&str> as Field>::SHAPE,
        meaning: "Ed25519 signature over head, `lines` and this line's own bytes in front of it, base64",
    },
];

const HEAD: &str = "\
# The trace

<!-- generated from the table of events; do not edit -->

`<home>/sessions/<session id>/trace.jsonl` holds one JSON object a line. Every line starts with
`event_type`, `event_id`, `parent_id` (the id of an earlier line, `null` on the first), `session_id` and
`timestamp` (Unix time in milliseconds), then come the event's own keys, and `prev` stands last: the
SHA-256 of the previous line's bytes without its newline, hex, `null` on the first line.

`trace.capture` in the manifest decides what is kept of bodies: `content` keeps them, `meta` keeps their
hashes and sizes, `none` keeps sizes alone. Every text is redacted before it is written.
";

/// The reference page `docs/reference/trace.md`.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = HEAD.to_owned();
    for event in EVENTS {
        // Writing into a string cannot fail.
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\n| Key | Type | Written | Meaning |\n|---|---|---|---|\n",
            event.name, event.meaning
        );
        for key in event.keys() {
            let rule = match key.rule {
                KeyRule::Any => "",
                KeyRule::Content => "`capture: content`",
                KeyRule::Meta => "`capture: meta`",
                KeyRule::NotNone => "not under `capture: none`",
            };
            let written = match (key.optional, rule) {
                (false, "") => "always".to_owned(),
                (true, "") => "where it applies".to_owned(),
                (false, rule) => rule.to_owned(),
                (true, rule) => format!("where it applies; {rule}"),
            };
            let _ = writeln!(page, "| `{}` | {} | {written} | {} |", key.name, key.json, key.meaning);
        }
    }
    page
}
