//! Giving up capabilities, for good.
//!
//! In a user namespace of its own a process has them all, over that namespace; a program must not, or it could undo its
//! mounts. Root's are given up too where the host has no namespaces.

use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

/// Gives up every capability and every way to get one back. Without a user namespace of its own, only a process that
/// may set its bounds can close them; `no_new_privs` keeps a program from gaining any all the same.
pub(super) fn drop_all(own_user_namespace: bool) -> Result<(), Errno> {
    match close_bounds() {
        Err(Errno::PERM) if !own_user_namespace => {}
        done => done?,
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    rustix::thread::set_no_new_privs(true)
}

fn close_bounds() -> Result<(), Errno> {
    use CapabilitiesSecureBits as Bits;
    rustix::thread::clear_ambient_capability_set()?;
    for number in 0..u64::BITS {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // One past the last that this kernel knows.
            Err(Errno::INVAL) => break,
            done => done?,
        }
    }
    rustix::thread::set_capabilities_secure_bits(
        Bits::NO_ROOT
            | Bits::NO_ROOT_LOCKED
            | Bits::NO_SETUID_FIXUP
            | Bits::NO_SETUID_FIXUP_LOCKED
            | Bits::KEEP_CAPS_LOCKED
            | Bits::NO_CAP_AMBIENT_RAISE
            | Bits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )
}
