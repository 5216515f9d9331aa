//! Stub; see ARCHITECTURE.md.
