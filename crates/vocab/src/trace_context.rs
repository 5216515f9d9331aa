//! W3C trace context: the `traceparent` that a request brings and that calls pass on.
//!
//! A header that does not hold to the form is as good as none, so reading one is an option, not an error.

use std::fmt;

/// Which trace and which span of it something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never all zero.
    pub trace_id: [u8; 16],
    /// The span; never all zero.
    pub span_id: [u8; 8],
    /// Whether whoever began the trace records it.
    pub sampled: bool,
}

/// Bytes of a `traceparent` of version 00.
const LEN: usize = 55;

impl TraceContext {
    /// A new trace with its first span.
    #[must_use]
    pub fn fresh() -> Self {
        let trace_id = uuid::Uuid::now_v7().into_bytes();
        Self { trace_id, span_id: span_id(), sampled: true }
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span_id: span_id(), ..self }
    }

    /// Reads a `traceparent` header: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, lower-case; of
    /// a later version, what stands where version 00 has it.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let bytes = header.as_bytes();
        let mut fields = header.split('-');
        let version: [u8; 1] = hex(fields.next()?)?;
        let trace_id: [u8; 16] = hex(fields.next()?)?;
        let span_id: [u8; 8] = hex(fields.next()?)?;
        let flags: [u8; 1] = hex(fields.next()?)?;
        let whole = version != [0] || bytes.len() == LEN;
        let valid = version != [0xff] && trace_id != [0; 16] && span_id != [0; 8] && whole;
        valid.then_some(Self { trace_id, span_id, sampled: flags[0] & 1 == 1 })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.sampled))
    }
}

/// The random half of an id that sorts by time.
fn span_id() -> [u8; 8] {
    let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
    random.to_be_bytes()
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut out = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(pairs) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(out)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::TraceContext;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_the_same() {
        assert_eq!(TraceContext::parse(GOOD).unwrap().to_string(), GOOD);
        let fresh = TraceContext::fresh();
        assert_eq!(TraceContext::parse(&fresh.to_string()), Some(fresh));
        assert_eq!(fresh.child().trace_id, fresh.trace_id);
        assert_ne!(fresh.child().span_id, fresh.span_id);
    }

    #[test]
    fn what_does_not_hold_to_the_form_is_none() {
        for bad in [
            "",
            "00",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é1",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
        assert!(TraceContext::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
    }
}
