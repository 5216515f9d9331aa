//! The commands, one module each. A command returns its exit status or a [`Failure`](crate::failure::Failure).

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod fence;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod policy;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod stop;
pub(crate) mod subagent;
pub(crate) mod trace;
pub(crate) mod watch;
