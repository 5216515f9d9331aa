//! The session's address over HTTP.
