//! What a start costs: the helper against a plain spawn of the same program, both waited for.

#![expect(clippy::disallowed_methods, reason = "this is the bench of `spawn` itself")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot start has nothing to measure")]

use std::process::Command;

use divan::Bencher;
use sandbox::Confinement;
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

#[divan::bench(sample_count = 500, sample_size = 1)]
fn advisory(bencher: Bencher<'_, '_>) {
    let runtime = tokio();
    let confinement = Confinement::new("/bin/true", "/");
    bencher.bench_local(|| {
        runtime.block_on(async {
            let (process, _) = sandbox::spawn(&confinement).await.unwrap();
            process.wait().await.unwrap()
        })
    });
}

/// Until the program runs: what a caller waits for before it can read.
#[divan::bench(sample_count = 500, sample_size = 1)]
fn advisory_started(bencher: Bencher<'_, '_>) {
    let runtime = tokio();
    let confinement = Confinement::new("/bin/true", "/");
    bencher.bench_local(|| runtime.block_on(async { sandbox::spawn(&confinement).await.unwrap() }));
}
