//! What a capsule and its artifacts may do. Absent means not granted.

use super::gateway::GatewayDeclaration;
use super::net::NetworkEntry;
use super::words::{BuiltinTool, Containment, EnvName, EnvPattern, RelativePath, ShellName};
use super::{Endpoint, FilePath, HeaderName, HeaderTemplate};
use crate::table::mapping;

mapping! {
    /// What the agent may do. Everything is off until it stands here.
    pub struct Capabilities {
        /// The built-in tools that the agent gets.
        pub tools: Vec<BuiltinTool>;
        /// Hosts that the agent's tools and processes may reach. Absent: none.
        pub network: Option<Network>;
        /// The files that the agent may reach.
        pub filesystem: Filesystem;
        /// Programs that become tools, and how processes start.
        pub shell: Shell;
        /// Environment that the agent's processes see.
        pub env: Env;
        /// Leave to start subagents.
        pub spawn: Option<Spawn>;
        /// Capsules from which files may be fetched.
        pub peer_fetch: Option<PeerFetch>;
        /// Capsules that this one may give work, with the token to present.
        pub peers: Vec<Peer>;
        /// The weakest containment with which the session may start.
        pub containment: Option<Containment>;
        /// Limits on each process tree that the agent starts.
        pub resources: Resources;
    }
}

mapping! {
    /// Hosts that may be reached.
    pub struct Network {
        /// `host`, `host:port` or `scheme://host[:port]`; `*.` at the front covers the names below.
        pub allow: Vec<NetworkEntry>;
    }
}

mapping! {
    /// The files that the agent may reach.
    pub struct Filesystem {
        /// The part of the working directory that file tools and processes work in. Absent: all of it.
        pub scope: Option<RelativePath>;
        /// Paths in the working directory that may be read and never written.
        pub read_only: Vec<RelativePath>;
        /// Paths of the host that a process may read and execute; `~` is the operator's home.
        pub read: Vec<FilePath>;
        /// Whether a process may execute what lies in the working directory when the session is sealed.
        pub workdir_exec: bool = false;
    }
}

mapping! {
    /// Programs that become tools, and how processes start.
    pub struct Shell {
        /// Programs that the agent gets as tools of the same name.
        pub allow: Vec<ShellName>;
        /// Variables that no process sees, also when another key lets them in.
        pub strip_env: Vec<EnvPattern>;
        /// Variables of the runtime's environment that every process sees.
        pub baseline_env: Vec<EnvName>;
        /// Seconds that a command may take.
        pub timeout_secs: u64 = 30, in 1 ..= 86400;
        /// Services that processes may use with a credential that they never hold.
        pub(crate) gateways: Vec<ShellGatewayDeclaration>;
    }
}

mapping! {
    /// A service that processes may use with a credential that they never hold.
    pub(crate) struct ShellGatewayDeclaration {
        /// Processes find it in `MURMUR_GATEWAY_<NAME>`.
        pub(crate) name: EnvName;
        /// The base of the service.
        pub(crate) endpoint: Endpoint;
        /// The credential: `${NAME}` or a literal.
        pub(crate) api_key: Option<super::ApiKey>;
        /// Whether the service needs no credential.
        pub(crate) keyless: bool = false;
        /// The header that carries the credential.
        pub(crate) upstream_auth: Option<UpstreamAuth>;
    }
}

mapping! {
    /// The header with which a credential is sent.
    pub struct UpstreamAuth {
        /// The header's name.
        pub header: HeaderName;
        /// The header's value; `{key}` stands for the credential.
        pub value: HeaderTemplate;
    }
}

mapping! {
    /// Environment that the agent's processes see.
    pub struct Env {
        /// Variables of the runtime's environment, by name.
        pub allow: Vec<EnvName>;
    }
}

mapping! {
    /// Leave to start subagents.
    pub struct Spawn {
        /// How deep subagents may start subagents.
        pub max_depth: u32 = 2, in 1 ..= 16;
        /// How many subagents one task may start. Of one session, 16 run at the same time.
        pub max_children: u32 = 8, in 1 ..= 256;
        /// Seconds that one may take.
        pub timeout_secs: u64 = 1800, in 1 ..= 86400;
    }
}

mapping! {
    /// Capsules from which files may be fetched.
    pub struct PeerFetch {
        /// Their addresses.
        pub allow: Vec<NetworkEntry>;
    }
}

mapping! {
    /// A capsule that this one may give work.
    pub struct Peer {
        /// Its address.
        pub url: Endpoint;
        /// The file that holds the token to present to it.
        pub token_file: FilePath;
    }
}

mapping! {
    /// Limits on each process tree that the agent starts. Absent: the host's own.
    pub struct Resources {
        /// Seconds of processor time.
        pub cpu_seconds: Option<u64>, in 1 ..= 31536000;
        /// Bytes of memory.
        pub memory_bytes: Option<u64>, in 1048576 ..= 18446744073709551615;
        /// Processes and threads.
        pub max_processes: Option<u64>, in 1 ..= 1000000;
        /// Open files.
        pub max_open_files: Option<u64>, in 8 ..= 1000000;
        /// Bytes of one file.
        pub max_file_size_bytes: Option<u64>, in 0 ..= 18446744073709551615;
    }
}

mapping! {
    /// What one artifact may do, at most what the capsule may.
    pub struct ArtifactCapabilities {
        /// Hosts that it may reach.
        pub network: Option<Network>;
        /// The directory that it may reach.
        pub filesystem: ArtifactFilesystem;
        /// Environment that it sees.
        pub env: Env;
        /// What a hook may see of tasks.
        pub task_io: ReadGrant;
        /// What a hook may see of the conversation.
        pub conversation: ReadGrant;
    }
}

mapping! {
    /// The directory that an artifact may reach.
    pub struct ArtifactFilesystem {
        /// A path inside the capsule's own scope.
        pub scope: Option<RelativePath>;
    }
}

mapping! {
    /// A grant to read.
    pub struct ReadGrant {
        /// Whether it may be read.
        pub read: bool = false;
    }
}

impl ShellGatewayDeclaration {
    pub(crate) fn gateway(&self) -> GatewayDeclaration {
        GatewayDeclaration { endpoint: self.endpoint.clone(), api_key: self.api_key.clone(), keyless: self.keyless }
    }
}

/// A service that processes may use with a credential that they never hold.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellGateway {
    /// Processes find it in `MURMUR_GATEWAY_<NAME>`.
    pub name: EnvName,
    /// The service and its credential.
    pub gateway: super::Gateway,
    /// The header that carries the credential; present exactly when there is one.
    pub upstream_auth: Option<UpstreamAuth>,
}

impl Shell {
    /// Services that processes may use with a credential that they never hold.
    #[must_use]
    pub fn gateways(&self) -> Vec<ShellGateway> {
        self.gateways
            .iter()
            .filter_map(|declared| {
                Some(ShellGateway {
                    name: declared.name.clone(),
                    gateway: declared.gateway().resolve()?,
                    upstream_auth: declared.upstream_auth.clone(),
                })
            })
            .collect()
    }
}
