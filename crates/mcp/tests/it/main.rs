//! MCP connections against servers that do what no server should.

mod admission;
mod calls;
mod faults;
mod handshake;
mod http;
mod lifecycle;
mod limits;
mod support;
mod web;
