//! What the question "is this still the last change?" costs, which every action asks.
//!
//! On SQLite, and on PostgreSQL where `MURMUR_TEST_POSTGRES` names a server (in whose database a schema
//! `murmur` stays behind).

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a benchmark that cannot run ends")]

use std::sync::Arc;

use divan::Bencher;
use store::{Change, EXECUTION_BOUNDARIES, Expected, Live, Store, StoreConfig, StoreError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const CHANGE: Change<'static> = Change { who: "bench", action: "policy.set", detail: None };

fn main() {
    divan::main();
}

struct Bench {
    runtime: Runtime,
    store: Arc<Store>,
    home: TempDir,
}

fn bench(config: impl FnOnce(&TempDir) -> StoreConfig) -> Bench {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = TempDir::new().unwrap();
    let store = runtime.block_on(Store::open(&config(&home), Arc::new(vocab::SystemClock))).unwrap();
    let text = "x".repeat(100_000);
    let save = store.save_document(EXECUTION_BOUNDARIES, &text, &CHANGE, Expected::Any);
    runtime.block_on(save).unwrap();
    Bench { runtime, store: Arc::new(store), home }
}

fn sqlite() -> Bench {
    bench(|home| StoreConfig::in_home(home.path()))
}

fn postgres() -> Option<Bench> {
    let Ok(url) = std::env::var("MURMUR_TEST_POSTGRES") else {
        eprintln!("LEFT OUT: MURMUR_TEST_POSTGRES names no PostgreSQL server");
        return None;
    };
    Some(bench(|_| StoreConfig::from_url(&url).unwrap()))
}

fn unchanged(bencher: Bencher<'_, '_>, bench: &Bench) {
    let live = Live::new(Arc::clone(&bench.store), EXECUTION_BOUNDARIES, |text: Option<&str>| {
        Ok::<_, StoreError>(text.map_or(0, str::len))
    });
    bencher.bench_local(|| bench.runtime.block_on(live.current()).unwrap());
}

fn read(bencher: Bencher<'_, '_>, bench: &Bench) {
    bencher.bench_local(|| bench.runtime.block_on(bench.store.document(EXECUTION_BOUNDARIES)).unwrap());
}

fn save(bencher: Bencher<'_, '_>, bench: &Bench) {
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let text = format!("{number}");
        bench.runtime.block_on(bench.store.save_document("bench", &text, &CHANGE, Expected::Any)).unwrap()
    });
}

#[divan::bench]
fn sqlite_unchanged(bencher: Bencher<'_, '_>) {
    unchanged(bencher, &sqlite());
}

#[divan::bench]
fn sqlite_never_made(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = TempDir::new().unwrap();
    let config = StoreConfig::in_home(home.path());
    let store = runtime.block_on(Store::open(&config, Arc::new(vocab::SystemClock))).unwrap();
    unchanged(bencher, &Bench { runtime, store: Arc::new(store), home });
}

#[divan::bench]
fn sqlite_read_100_kb(bencher: Bencher<'_, '_>) {
    read(bencher, &sqlite());
}

#[divan::bench]
fn sqlite_save(bencher: Bencher<'_, '_>) {
    save(bencher, &sqlite());
}

#[divan::bench]
fn sqlite_open(bencher: Bencher<'_, '_>) {
    let bench = sqlite();
    let config = StoreConfig::in_home(bench.home.path());
    bencher.bench_local(|| bench.runtime.block_on(Store::open(&config, Arc::new(vocab::SystemClock))).unwrap());
}

#[divan::bench]
fn postgres_unchanged(bencher: Bencher<'_, '_>) {
    if let Some(bench) = postgres() {
        unchanged(bencher, &bench);
    }
}

#[divan::bench]
fn postgres_read_100_kb(bencher: Bencher<'_, '_>) {
    if let Some(bench) = postgres() {
        read(bencher, &bench);
    }
}

#[divan::bench]
fn postgres_save(bencher: Bencher<'_, '_>) {
    if let Some(bench) = postgres() {
        save(bencher, &bench);
    }
}
