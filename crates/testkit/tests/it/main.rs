//! The scripted model server against requests written by hand: it must refuse what it says it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod home;
mod rules;
mod serving;
mod support;
