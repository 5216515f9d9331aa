//! How long and how large anything of a server may be.
//!
//! Every number is a cap on what a hostile or broken server can make this process spend; the defaults are
//! what the product runs with, and tests make them smaller.

use std::time::Duration;

/// Caps on one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long starting and the handshake may take together.
    pub open: Duration,
    /// How long discovery may take, opening included.
    pub discovery: Duration,
    /// How long one call may take once the server is there.
    pub call: Duration,
    /// How long an orderly end may take, before the pipes are cut.
    pub close: Duration,
    /// How old a catalog may be when a call relies on it, even if the server has announced no change.
    pub catalog_age: Duration,
    /// Tools of one server.
    pub tools: usize,
    /// Pages of one catalog.
    pub pages: usize,
    /// Bytes of one catalog: names, descriptions, schemas.
    pub catalog_bytes: usize,
    /// Bytes of one message: a line on stdio, a body or an event on HTTP.
    pub message_bytes: usize,
    /// Bytes of one result.
    pub result_bytes: usize,
    /// Bytes on stdout that are no messages, over the whole life of a process.
    pub noise_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(20),
            discovery: Duration::from_secs(20),
            call: Duration::from_secs(30),
            close: Duration::from_secs(3),
            catalog_age: Duration::from_secs(60),
            tools: 1_000,
            pages: 100,
            catalog_bytes: 4 * 1024 * 1024,
            message_bytes: 16 * 1024 * 1024,
            result_bytes: 8 * 1024 * 1024,
            noise_bytes: 8 * 1024 * 1024,
        }
    }
}
