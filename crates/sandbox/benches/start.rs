//! What a start costs: each class against a plain spawn of the same program and against bubblewrap, all waited for.

#![expect(clippy::disallowed_methods, reason = "this is the bench of `spawn` itself")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot start has nothing to measure")]

use std::process::Command;

use divan::Bencher;
use sandbox::{Access, Class, Confinement, Grant, Mask, MaskKind, Network};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn main() {
    sandbox::helper_main();
    divan::main();
}

fn tokio() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[divan::bench(sample_count = 500, sample_size = 1)]
fn plain(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Command::new("/bin/true").status().unwrap());
}

/// Only as far as its own `main`: no control socket, so that it is an ordinary run that ends.
#[divan::bench(sample_count = 500, sample_size = 1)]
fn reexec(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Command::new("/proc/self/exe").arg("--version").output().unwrap());
}

fn confinement(class: Class) -> Confinement {
    let mut confinement = Confinement::new("/bin/true", "/");
    confinement.class = class;
    confinement.network = match class {
        Class::Advisory => Network::Inherit,
        Class::Scoped => Network::None,
        Class::Sealed => Network::Loopback,
    };
    confinement
}

/// What a call has: a workdir, a private directory, some hard blocks.
fn furnished(class: Class) -> (Confinement, [TempDir; 2]) {
    let folders = [(); 2].map(|()| tempfile::tempdir_in("/var/tmp").unwrap());
    let [work, private] = folders.each_ref().map(TempDir::path);
    let mut confinement = confinement(class);
    confinement.cwd = work.to_owned();
    confinement.private = Some(private.to_owned());
    confinement.grants.push(Grant::new(work, Access::Write));
    for name in 0..4 {
        let secret = work.join(format!("secret {name}"));
        std::fs::write(&secret, "").unwrap();
        confinement.masks.push(Mask::new(secret, MaskKind::Hidden));
    }
    (confinement, folders)
}

fn run(bencher: Bencher<'_, '_>, confinement: &Confinement) {
    let runtime = tokio();
    bencher.bench_local(|| {
        runtime.block_on(async {
            let (process, _) = sandbox::spawn(confinement).await.unwrap();
            process.wait().await.unwrap()
        })
    });
}

#[divan::bench(sample_count = 500, sample_size = 1, args = [Class::Advisory, Class::Scoped, Class::Sealed])]
fn held(bencher: Bencher<'_, '_>, class: Class) {
    run(bencher, &confinement(class));
}

#[divan::bench(sample_count = 500, sample_size = 1, args = [Class::Scoped, Class::Sealed])]
fn furnished_as_for_a_call(bencher: Bencher<'_, '_>, class: Class) {
    let (confinement, _folders) = furnished(class);
    run(bencher, &confinement);
}

/// Until the program runs: what a caller waits for before it can read.
#[divan::bench(sample_count = 500, sample_size = 1, args = [Class::Advisory, Class::Scoped, Class::Sealed])]
fn started(bencher: Bencher<'_, '_>, class: Class) {
    let runtime = tokio();
    let confinement = confinement(class);
    bencher.bench_local(|| runtime.block_on(async { sandbox::spawn(&confinement).await.unwrap() }));
}

/// The usual tool for this, where it is installed, with as much as `sealed` has; its filter of system calls is not counted.
#[divan::bench(sample_count = 500, sample_size = 1)]
fn bubblewrap(bencher: Bencher<'_, '_>) {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]);
    command.args(["--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for link in ["bin", "sbin", "lib", "lib64"] {
        command.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    command.arg("/bin/true");
    if command.status().is_ok_and(|status| status.success()) {
        bencher.bench_local(|| command.status().unwrap());
    }
}
