//! Starts processes, and ends them: the only room that does, and the only one with `unsafe`.
//!
//! A [`Confinement`] says in plain data what to start and what it may have. [`spawn`] hands it to a
//! helper, a re-exec of the same binary, which installs it in a single thread, starts the program and
//! stays as the reaper of everything that descends from it. What really holds comes back as an
//! [`Enforcement`], a value that the installation itself returned.
//!
//! Of three [`Class`]es the weakest, [`Advisory`](Class::Advisory), bounds nothing but resources. [`Scoped`](Class::Scoped)
//! and [`Sealed`](Class::Sealed) are boundaries of the kernel: each [`Grant`] is mounted into a file tree of the process's
//! own, each [`Mask`] on top of it, Landlock and a filter of system calls hold what mounts do not. A class is installed
//! whole or nothing runs; [`Host`] tells beforehand what can be had.
//!
//! The helper ends the whole tree when it is asked to, when the program has ended, and when the process
//! that asked for it is gone, however that went. Should the program kill its helper, the runtime ends what is
//! left. So a [`Process`] leaves nothing behind, unless both are killed, the helper first.
//!
//! Root is held as everybody else is: in a user namespace in which only itself is known, without capabilities. So what it
//! could do to other users' files outside it cannot do inside.
//!
//! This room knows no timeouts, no caps on output and no policy: its callers do.
//!
//! ```no_run
//! use sandbox::{Access, Class, Confinement, Exit, Grant, Mask, MaskKind, Network};
//! use tokio::io::AsyncReadExt;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     sandbox::helper_main(); // before anything else
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         let mut confinement = Confinement::new("/bin/echo", "/srv/agent");
//!         confinement.argv.push("hello".into());
//!         confinement.class = Class::Sealed;
//!         confinement.network = Network::None;
//!         confinement.grants.push(Grant::new("/srv/agent", Access::Write));
//!         confinement.masks.push(Mask::new("/srv/agent/.env", MaskKind::Hidden));
//!         let (mut process, enforcement) = sandbox::spawn(&confinement).await?;
//!         assert_eq!(enforcement.class, Class::Sealed);
//!         let mut text = String::new();
//!         if let Some(mut stdout) = process.stdout.take() {
//!             stdout.read_to_string(&mut text).await?;
//!         }
//!         assert_eq!(process.wait().await?, Exit::Code(0));
//!         assert_eq!(text, "hello\n");
//!         Ok(())
//!     })
//! }
//! ```

mod boundary;
mod cgroup;
mod confinement;
mod enforcement;
mod error;
mod grants;
mod harden;
mod helper;
mod host;
mod landlock;
mod launch;
mod layer;
mod plan;
mod process;
mod seccomp;
mod strays;
mod sys;
mod tree;
mod wire;

pub use boundary::{Access, Grant, Mask, MaskKind, Network};
pub use cgroup::Cgroup;
pub use confinement::{Class, Confinement, Limits, Stdin};
pub use enforcement::{Enforcement, Namespace, Namespaces};
pub use error::{Field, SandboxError, Step};
pub use grants::{grants_around, system_grants};
pub use harden::harden_self;
pub use helper::helper_main;
pub use host::{Host, Missing};
pub use layer::Layer;
pub use process::{Exit, Process, spawn};
