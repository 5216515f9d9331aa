//! Spans of a session, for an OpenTelemetry receiver.
