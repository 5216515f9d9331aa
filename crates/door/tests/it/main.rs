//! The door against real sockets.
