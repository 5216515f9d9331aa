//! The export against a real receiver.
