//! Files that nobody granted, by their names, by links, by the system's own.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::{Arena, Escape, Outcome, call, expect};

pub(crate) const ESCAPES: &[Escape] = &[
    ("read outside", |arena| reads_secret(&arena.outside("secret"))),
    ("read outside by ..", |arena| reads_secret(&arena.work("../outside/secret"))),
    ("read outside by a link", by_link),
    ("read outside by a directory link", by_directory_link),
    ("read outside by a hard link", by_hard_link),
    ("read outside by /proc/self/cwd", |_| reads_secret(Path::new("/proc/self/cwd/../outside/secret"))),
    ("read outside by /proc/self/root", |arena| {
        reads_secret(
            &Path::new("/proc/self/root").join(arena.outside("secret").strip_prefix("/").unwrap_or(Path::new(""))),
        )
    }),
    ("read a home", |arena| reads_secret(&arena.base.join("home/token"))),
    ("list outside", |arena| expect(fs::read_dir(arena.outside(""))?.count() > 0)),
    ("stat outside", |arena| fs::metadata(arena.outside("secret")).map(drop)),
    ("make outside", |arena| fs::write(arena.outside("made"), "x")),
    ("append outside", |arena| OpenOptions::new().append(true).open(arena.outside("log"))?.write_all(b"x")),
    ("truncate outside", |arena| truncate(&arena.outside("log"))),
    ("remove outside", |arena| fs::remove_file(arena.outside("removable"))),
    ("make a directory outside", |arena| fs::create_dir(arena.outside("directory"))),
    ("make a link outside", |arena| symlink("/", arena.outside("link"))),
    ("move out", move_out),
    ("move in", |arena| fs::rename(arena.outside("movable"), arena.work("moved"))),
    ("change mode outside", |arena| fs::set_permissions(arena.outside("log"), fs::Permissions::from_mode(0o600))),
    ("rename the workdir", |arena| {
        fs::rename(arena.work(""), arena.base.join("renamed"))
            .and_then(|()| fs::rename(arena.base.join("renamed"), arena.work("")))
    }),
    ("write a program directory", |_| writes_anew(Path::new("/usr/bin/sandbox-escape-made"))),
    ("write /etc", |_| writes_anew(Path::new("/etc/sandbox-escape-made"))),
    ("write the root", |_| writes_anew(Path::new("/sandbox-escape-made"))),
    ("read /etc/shadow", |_| expect(!fs::read("/etc/shadow")?.is_empty())),
    ("list /root", |_| fs::read_dir("/root").map(drop)),
    ("list /home", |_| fs::read_dir("/home").map(drop)),
    ("list /run", |_| fs::read_dir("/run").map(drop)),
    ("list /sys", |_| fs::read_dir("/sys/class").map(drop)),
    ("read the kernel's log", |_| fs::File::open("/dev/kmsg").map(drop)),
    ("read memory by /dev/mem", |_| fs::File::open("/dev/mem").map(drop)),
    ("read a disk", read_disk),
    ("make a device", make_device),
    ("open by handle", open_by_handle),
    ("start what was written", |arena| start(&arena.work("program"))),
    ("start what was written to /tmp", |_| start(Path::new("/tmp/program"))),
    ("start what was written to /dev/shm", |_| start(Path::new("/dev/shm/program"))),
    ("start what was written by the loader", by_loader),
    ("map what was written", map_program),
    ("start from memory", from_memory),
    ("a program of root's", setuid_program),
];

fn reads_secret(path: &Path) -> Outcome {
    let mut text = String::new();
    fs::File::open(path)?.read_to_string(&mut text)?;
    expect(text == "secret")
}

fn by_link(arena: &Arena) -> Outcome {
    let link = arena.work("link to a file");
    symlink(arena.outside("secret"), &link)?;
    reads_secret(&link)
}

fn by_directory_link(arena: &Arena) -> Outcome {
    let link = arena.work("link to a directory");
    symlink(arena.outside(""), &link)?;
    reads_secret(&link.join("secret"))
}

fn by_hard_link(arena: &Arena) -> Outcome {
    let link = arena.work("hard link");
    fs::hard_link(arena.outside("secret"), &link)?;
    reads_secret(&link)
}

fn truncate(path: &Path) -> Outcome {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: a NUL-terminated string.
    call(unsafe { libc::truncate(path.as_ptr(), 0) }.into()).map(drop)
}

fn move_out(arena: &Arena) -> Outcome {
    fs::write(arena.work("own"), "x")?;
    fs::rename(arena.work("own"), arena.outside("own"))
}

/// Leaves nothing where it was open.
fn writes_anew(path: &Path) -> Outcome {
    fs::write(path, "x")?;
    fs::remove_file(path)
}

fn read_disk(_: &Arena) -> Outcome {
    for entry in fs::read_dir("/dev")?.flatten() {
        let name = entry.file_name();
        let disk = ["sd", "vd", "nvme", "xvd", "mmcblk"].iter().any(|kind| name.to_string_lossy().starts_with(kind));
        if disk && fs::File::open(entry.path()).is_ok() {
            return Ok(());
        }
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

fn make_device(arena: &Arena) -> Outcome {
    let path = std::ffi::CString::new(arena.work("device").as_os_str().as_encoded_bytes())?;
    // SAFETY: a NUL-terminated string.
    call(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 1)) }.into()).map(drop)
}

fn open_by_handle(_: &Arena) -> Outcome {
    // The root of most file systems: inode 2 with generation 0.
    let handle: [u32; 4] = [8, 1, 2, 0];
    let root = fs::File::open(".")?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&root);
    // SAFETY: a handle of eight bytes behind its length and type.
    let opened = unsafe { libc::syscall(libc::SYS_open_by_handle_at, descriptor, handle.as_ptr(), libc::O_PATH) };
    match call(opened) {
        // That such a handle is there or not is an answer that only the privileged get.
        Err(error) if error.raw_os_error() == Some(libc::ESTALE) => Ok(()),
        opened => opened.map(drop),
    }
}

fn copy_program(to: &Path) -> Outcome {
    fs::write(to, fs::read("/bin/true")?)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))
}

fn start(program: &Path) -> Outcome {
    copy_program(program)?;
    expect(Command::new(program).status()?.success())
}

fn by_loader(arena: &Arena) -> Outcome {
    copy_program(&arena.work("program"))?;
    let loader =
        ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].into_iter().find(|path| Path::new(path).exists());
    expect(Command::new(loader.unwrap_or("/lib/ld.so")).arg(arena.work("program")).status()?.success())
}

fn map_program(arena: &Arena) -> Outcome {
    copy_program(&arena.work("program"))?;
    let file = fs::File::open(arena.work("program"))?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: a new mapping, which nothing uses.
    let mapped = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, descriptor, 0)
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn from_memory(_: &Arena) -> Outcome {
    // SAFETY: a NUL-terminated name; the descriptor is new and nobody else's.
    let mut file = unsafe {
        let descriptor = call(libc::syscall(libc::SYS_memfd_create, c"program".as_ptr(), 0))?;
        <fs::File as std::os::fd::FromRawFd>::from_raw_fd(i32::try_from(descriptor).unwrap_or(-1))
    };
    file.write_all(&fs::read("/bin/true")?)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file));
    expect(Command::new(path).status()?.success())
}

/// As an ordinary user: `su` and the like begin as root only where privileges can be gained.
fn setuid_program(_: &Arena) -> Outcome {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_PATH);
    let status = fs::read_to_string("/proc/self/status")?;
    expect(status.contains("NoNewPrivs:\t0"))
}
