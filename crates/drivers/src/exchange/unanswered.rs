//! Why a request got no answer, or no whole one.

use std::error::Error as _;

use vocab::DriverErrorKind as Kind;

use crate::client::ClientError;
use crate::failure::Fault;

/// Why there is no client: nothing that a second try could cure.
pub(super) fn unmade(error: ClientError) -> Fault {
    match error {
        ClientError::Client(error) => fault(&error).for_good(),
        error => Fault::new(Kind::Network, format!("cannot be called: {error}")).for_good(),
    }
}

/// Why a request got no answer. A certificate that is refused now is refused later too.
pub(super) fn fault(error: &reqwest::Error) -> Fault {
    if error.is_connect() || error.is_builder() {
        let fault = because(Fault::new(Kind::Network, "cannot be reached: "), error);
        return if is_tls(error) || error.is_builder() { fault.for_good() } else { fault };
    }
    because(Fault::new(Kind::Network, "closed the connection without an answer: "), error)
}

/// Goes on with the innermost cause, which names the thing and no URL.
pub(super) fn because(fault: Fault, error: &reqwest::Error) -> Fault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() };
    fault.quoting(text, 200, "")
}

/// Whether TLS failed somewhere beneath. An I/O error hides what it wraps from `source`.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|wrapped| is_tls(wrapped)) || error.source().is_some_and(is_tls)
}
