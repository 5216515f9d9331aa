//! What is masked inside the workdir.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::{Arena, Escape, Outcome, call, expect};

pub(crate) const ESCAPES: &[Escape] = &[
    ("masked: read hidden", |arena| shows(&arena.work(".env"))),
    ("masked: read hidden by a link", |arena| shows(&arena.work("link to .env"))),
    ("masked: read hidden by a new link", by_new_link),
    ("masked: read hidden by /proc/self/cwd", |_| shows(Path::new("/proc/self/cwd/.env"))),
    ("masked: read hidden by a descriptor", by_descriptor),
    ("masked: read hidden by another case of its path", |arena| shows(&arena.work("./secrets/../.env"))),
    ("masked: change mode of hidden", change_mode),
    ("masked: rename hidden", |arena| there_and_back(arena, ".env")),
    ("masked: rename over hidden", rename_over),
    ("masked: link hidden", |arena| fs::hard_link(arena.work(".env"), arena.work("env link"))),
    ("masked: exchange hidden", exchange),
    ("masked: read hidden after its parent was renamed", parent_renamed),
    ("masked: read in a hidden directory", |arena| shows(&arena.work("secrets/key"))),
    ("masked: list a hidden directory", |arena| expect(fs::read_dir(arena.work("secrets"))?.count() > 0)),
    ("masked: rename a hidden directory", |arena| there_and_back(arena, "secrets")),
    ("masked: make in a hidden directory", |arena| fs::write(arena.work("secrets/made"), "x")),
    ("masked: change what is below a hidden directory", |arena| fs::write(arena.work("secrets/read-only/file"), "x")),
    ("masked: change read-only", |arena| {
        OpenOptions::new().append(true).open(arena.work("read-only"))?.write_all(b"x")
    }),
    ("masked: truncate read-only", |arena| {
        OpenOptions::new().write(true).truncate(true).open(arena.work("read-only")).map(drop)
    }),
    ("masked: remove read-only", |arena| fs::remove_file(arena.work("read-only"))),
    ("masked: replace read-only", replace),
    ("masked: change mode of read-only", |arena| {
        fs::set_permissions(arena.work("read-only"), fs::Permissions::from_mode(0o777))
    }),
    ("masked: make below read-only", |arena| fs::write(arena.work("tree/made"), "x")),
    ("masked: move from read-only", |arena| {
        fs::rename(arena.work("tree/file"), arena.work("file"))?;
        fs::rename(arena.work("file"), arena.work("tree/file"))
    }),
    ("masked: remove below read-only", |arena| fs::remove_file(arena.work("tree/file"))),
    ("masked: read hidden below read-only", |arena| shows(&arena.work("tree/hidden"))),
    ("masked: remove hidden", |arena| fs::remove_file(arena.work(".env"))),
    ("masked: unmount hidden", |arena| unmount(&arena.work(".env"))),
];

fn shows(path: &Path) -> Outcome {
    expect(fs::read_to_string(path)? == "secret")
}

fn there_and_back(arena: &Arena, name: &str) -> Outcome {
    fs::rename(arena.work(name), arena.work("renamed for a while"))?;
    fs::rename(arena.work("renamed for a while"), arena.work(name))
}

fn by_new_link(arena: &Arena) -> Outcome {
    let link = arena.work("new link to .env");
    symlink(".env", &link)?;
    shows(&link)
}

fn by_descriptor(arena: &Arena) -> Outcome {
    let directory = fs::File::open(arena.work(""))?;
    shows(Path::new(&format!("/proc/self/fd/{}/.env", directory.as_raw_fd())))
}

fn change_mode(arena: &Arena) -> Outcome {
    fs::set_permissions(arena.work(".env"), fs::Permissions::from_mode(0o666))
}

fn rename_over(arena: &Arena) -> Outcome {
    fs::write(arena.work("other"), "x")?;
    fs::rename(arena.work("other"), arena.work(".env"))
}

fn exchange(arena: &Arena) -> Outcome {
    fs::write(arena.work("other"), "x")?;
    let [one, other] =
        [".env", "other"].map(|name| std::ffi::CString::new(arena.work(name).as_os_str().as_encoded_bytes()));
    let (one, other) = (one?, other?);
    // SAFETY: NUL-terminated strings.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    call(done).map(drop)
}

fn parent_renamed(arena: &Arena) -> Outcome {
    fs::rename(arena.work("parent"), arena.work("renamed"))?;
    shows(&arena.work("renamed/.env"))
}

fn replace(arena: &Arena) -> Outcome {
    fs::write(arena.work("replacement"), "x")?;
    fs::rename(arena.work("replacement"), arena.work("read-only"))
}

fn unmount(path: &Path) -> Outcome {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: a NUL-terminated string.
    match call(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) }.into()) {
        // Nothing is mounted there, but it was looked at.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => done.map(drop).map_err(|error: io::Error| error),
    }
}
