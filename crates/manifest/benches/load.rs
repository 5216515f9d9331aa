//! How long it takes to load a manifest: part of every launch, so it has to stay far below one
//! millisecond.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up ends")]

use std::path::Path;

fn main() {
    divan::main();
}

/// The starter manifest, from its file.
#[divan::bench]
fn starter(bencher: divan::Bencher<'_, '_>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("murmur.yaml");
    std::fs::write(&path, manifest::scaffold("bench")).expect("a written file");
    bencher.bench(|| manifest::load(&path).map(|loaded| manifest::unsupported(&loaded)));
}

/// A manifest that uses every key, from memory; its sources are missing, so every rule runs.
#[divan::bench]
fn full() -> bool {
    let text = include_bytes!("../tests/it/base/murmur.yaml");
    manifest::parse(text, Path::new("/nonexistent/murmur.yaml")).is_err()
}
