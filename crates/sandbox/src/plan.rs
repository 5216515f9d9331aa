//! A checked [`Confinement`] in the form that the system calls take, and its way to the helper.
//!
//! The plan travels in a memory file: arguments and environment may be larger than a socket takes in one
//! piece, and neither the helper's command line nor its environment, which other processes of the user
//! can read, may carry any of it.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::confinement::{Confinement, Limits};
use crate::error::{Field, SandboxError};
use crate::wire;

/// What the helper installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) umask: u32,
    pub(crate) limits: Limits,
}

impl Plan {
    /// Checks what can be checked without the system.
    pub(crate) fn new(confinement: &Confinement) -> Result<Self, SandboxError> {
        if confinement.argv.is_empty() {
            return Err(SandboxError::NoArguments);
        }
        let mut env = Vec::with_capacity(confinement.env.len());
        for (name, value) in &confinement.env {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(SandboxError::EnvironmentName { name: name.clone() });
            }
            env.push(c_string([name.as_bytes(), b"=", value.as_bytes()].concat(), Field::Environment)?);
        }
        let argv = confinement.argv.iter().map(|arg| c_string(arg.as_bytes(), Field::Argument));
        Ok(Self {
            program: absolute(&confinement.program, Field::Program)?,
            argv: argv.collect::<Result<_, _>>()?,
            env,
            cwd: absolute(&confinement.cwd, Field::Directory)?,
            umask: confinement.umask & 0o777,
            limits: confinement.limits,
        })
    }

    /// The plan as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, u64::from(self.umask));
        for word in wire::limit_words(&self.limits) {
            put_number(&mut out, word);
        }
        put_string(&mut out, &self.program);
        put_string(&mut out, &self.cwd);
        for list in [&self.argv, &self.env] {
            put_number(&mut out, list.len() as u64);
            for string in list {
                put_string(&mut out, string);
            }
        }
        out
    }

    /// The inverse of [`encode`](Self::encode); `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let umask = u32::try_from(take_number(&mut rest)?).ok()?;
        let mut words = [0; 5];
        for word in &mut words {
            *word = take_number(&mut rest)?;
        }
        let program = take_string(&mut rest)?;
        let cwd = take_string(&mut rest)?;
        let argv = take_list(&mut rest)?;
        let env = take_list(&mut rest)?;
        rest.is_empty().then_some(Self { program, argv, env, cwd, umask, limits: wire::limits(words) })
    }
}

fn c_string(bytes: impl Into<Vec<u8>>, field: Field) -> Result<CString, SandboxError> {
    CString::new(bytes).map_err(|_| SandboxError::NulByte { field })
}

fn absolute(path: &Path, field: Field) -> Result<CString, SandboxError> {
    if !path.is_absolute() {
        return Err(SandboxError::NotAbsolute { field, value: path.to_owned() });
    }
    c_string(OsStr::as_bytes(path.as_os_str()), field)
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, string: &CString) {
    put_number(out, string.as_bytes().len() as u64);
    out.extend_from_slice(string.as_bytes());
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_le_bytes(*head))
}

fn take_string(rest: &mut &[u8]) -> Option<CString> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    CString::new(head).ok()
}

fn take_list(rest: &mut &[u8]) -> Option<Vec<CString>> {
    let count = take_number(rest)?;
    // No capacity from the count: each string is at least a number long, so bytes bound the loop.
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(take_string(rest)?);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string() -> impl Strategy<Value = CString> {
        prop::collection::vec(1_u8.., 0..20).prop_map(|bytes| CString::new(bytes).unwrap())
    }

    fn plan() -> impl Strategy<Value = Plan> {
        let list = || prop::collection::vec(string(), 0..5);
        (string(), list(), list(), string(), 0_u32..0o1000, prop::array::uniform5(any::<u64>())).prop_map(
            |(program, argv, env, cwd, umask, words)| Plan {
                program,
                argv,
                env,
                cwd,
                umask,
                limits: wire::limits(words),
            },
        )
    }

    proptest! {
        #[test]
        fn a_plan_comes_back_and_nothing_shorter_does(plan in plan(), cut in any::<prop::sample::Index>()) {
            let bytes = plan.encode();
            prop_assert_eq!(Plan::decode(&bytes), Some(plan));
            prop_assert_eq!(Plan::decode(&bytes[..cut.index(bytes.len())]), None);
        }

        #[test]
        fn other_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(plan) = Plan::decode(&bytes) {
                prop_assert_eq!(plan.encode(), bytes);
            }
        }
    }
}
