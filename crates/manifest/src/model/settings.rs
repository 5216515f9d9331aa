//! The parts of the manifest that shape a session: inference settings, control, lifecycle, records.

use super::Endpoint;
use super::words::{
    AfterTask, AgentSetting, AuthenticationScheme, Capture, ControlSetting, ConversationMode, RelativePath, SecretName,
    TaskAcceptance,
};
use crate::decode::{Context, Fault, Value, unquoted};
use crate::table::mapping;
use crate::yaml::{Kind, Node, Plain};

mapping! {
    /// How failed calls to a provider are repeated.
    pub struct Retry {
        /// Attempts after the first; 0 switches repeating off.
        pub max_retries: u32 = 6, in 0 ..= 100;
        /// The limit of the first wait in milliseconds; the wait is random below it, and the limit doubles each time.
        pub initial_delay_ms: u64 = 1000, in 0 ..= 3600000;
        /// The longest wait in milliseconds.
        pub max_delay_ms: u64 = 30000, in 0 ..= 3600000;
    }
}

mapping! {
    /// Summarising older turns when the context fills up.
    pub struct Compaction {
        /// The share of the input budget at which it begins: above 0, at most 1.
        pub threshold: Share = Share(0.85);
        /// What the summarising call is told. Absent: a built-in text.
        pub system_prompt: Option<String>;
    }
}

/// A share: above 0, at most 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// The share as a number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Value for Share {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let number = match &node.kind {
            Kind::Scalar { text, plain: Plain::Integer | Plain::Float } => text.parse::<f64>().ok(),
            _ => None,
        };
        match number {
            Some(number) if number > 0.0 && number <= 1.0 => Some(Self(number)),
            _ => {
                let fault = Fault::new("must be a number above 0 and at most 1");
                let fault = fault.found(node.describe());
                let hint = unquoted(node, |text| text.parse::<f64>().is_ok_and(f64::is_finite));
                cx.fault(node, hint.into_iter().fold(fault, Fault::hint))
            }
        }
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Share
    }

    #[cfg(feature = "schema")]
    fn json(&self) -> serde_json::Value {
        self.0.into()
    }
}

mapping! {
    /// What may be changed while a session runs.
    pub struct Control {
        /// Settings that the holder of the control token may change.
        pub settings: Vec<ControlSetting>;
        /// Credentials that are injected after launch, by name; they are never looked up.
        pub secrets: Vec<SecretName>;
        /// Settings that the agent may change about itself.
        pub agent_settings: Vec<AgentSetting>;
    }
}

impl Control {
    /// Whether the session has a control surface: something is listed for the holder of the token.
    #[must_use]
    pub fn has_surface(&self) -> bool {
        !self.settings.is_empty() || !self.secrets.is_empty()
    }
}

mapping! {
    /// How a session takes tasks and when it ends.
    pub struct Lifecycle {
        /// Who may give the session work.
        pub task_acceptance: TaskAcceptance = TaskAcceptance::Single;
        /// What it does when a task has ended.
        pub after_task: AfterTask = AfterTask::Exit;
        /// Tasks that may wait.
        pub queue_depth: u32 = 8, in 1 ..= 65536;
        /// What a task knows of the tasks before it.
        pub conversation: ConversationMode = ConversationMode::Stateless;
        /// Seconds that a task waits for the answer to a question.
        pub input_timeout_secs: u64 = 600, in 1 ..= 604800;
        /// Seconds that a command of the shell is waited for; then it goes on in the background. 0: to its end.
        pub shell_grace_secs: u64 = 0, in 0 ..= 86400;
    }
}

mapping! {
    /// Where measurements go.
    pub struct Observability {
        /// The OTLP endpoint of a collector.
        pub otlp_endpoint: Option<Endpoint>;
    }
}

mapping! {
    /// The address of a running session.
    pub struct Listener {
        /// The port. Absent: a free one.
        pub internal_port: Option<u16>, in 1 ..= 65535;
        /// How callers prove themselves. Absent: they need not.
        pub authentication: Option<Authentication>;
    }
}

mapping! {
    /// How callers prove themselves.
    pub struct Authentication {
        /// The scheme.
        pub scheme: AuthenticationScheme;
    }
}

mapping! {
    /// What other capsules may fetch.
    pub struct Exports {
        /// Files that the agent may share.
        pub peer_files: Option<PeerFiles>;
    }
}

mapping! {
    /// Files that the agent may share.
    pub struct PeerFiles {
        /// The directory in the working directory that they lie in.
        pub root: RelativePath;
    }
}

mapping! {
    /// What the trace keeps.
    pub struct Trace {
        /// How much of a tool call.
        pub capture: Capture = Capture::Content;
    }
}
