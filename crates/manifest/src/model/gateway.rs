//! How an artifact reaches its service: the address and where the credential comes from.

use super::Endpoint;
use super::words::SecretName;
use crate::decode::{Context, Fault, Value};
use crate::table::mapping;
use crate::yaml::Node;

mapping! {
    /// A service and its credential: either `api_key` or `keyless: true`.
    pub(crate) struct GatewayDeclaration {
        /// The base of the service: `http(s)://host[:port][/path]`.
        pub(crate) endpoint: Endpoint;
        /// The credential: `${NAME}`, looked up at launch, or a literal.
        pub(crate) api_key: Option<ApiKey>;
        /// Whether the service needs no credential.
        pub(crate) keyless: bool = false;
    }
}

impl GatewayDeclaration {
    /// The gateway, when exactly one of `api_key` and `keyless: true` stands.
    pub(crate) fn resolve(&self) -> Option<Gateway> {
        let credential = match (&self.api_key, self.keyless) {
            (Some(ApiKey::Reference(name)), false) => Credential::Reference(name.clone()),
            (Some(ApiKey::Literal(literal)), false) => Credential::Literal(literal.clone()),
            (None, true) => Credential::Keyless,
            (Some(_), true) | (None, false) => return None,
        };
        Some(Gateway { endpoint: self.endpoint.clone(), credential })
    }
}

/// A service and where its credential comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// The base of the service.
    pub endpoint: Endpoint,
    /// Where the credential comes from.
    pub credential: Credential,
}

/// Where a credential comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// `${NAME}`: looked up by name.
    Reference(SecretName),
    /// The value itself stands in the manifest.
    Literal(Literal),
    /// The service needs none.
    Keyless,
}

impl Credential {
    /// The name that is looked up, when there is one.
    #[must_use]
    pub const fn reference(&self) -> Option<&SecretName> {
        match self {
            Self::Reference(name) => Some(name),
            Self::Literal(_) | Self::Keyless => None,
        }
    }
}

/// A credential that stands in the manifest. It has no `Display` and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Literal(String);

impl Literal {
    /// The value, for the store of secrets alone.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Literal([redacted])")
    }
}

/// `${NAME}` or a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiKey {
    Reference(SecretName),
    Literal(Literal),
}

impl Value for ApiKey {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node)?;
        if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            if let Ok(name) = SecretName::parse(name) {
                return Some(Self::Reference(name));
            }
            let fault = Fault::new("refers to a credential whose name is not upper-case letters, digits and `_`");
            return cx.fault(node, fault.hint("for example `${CARD_TOKEN}`"));
        }
        // A literal that holds `${` is a reference with something around it, which nothing expands.
        if text.contains("${") {
            let fault = Fault::new("mixes a reference with other text");
            return cx.fault(node, fault.hint("write `${NAME}` alone; `upstream_auth` says how it is sent"));
        }
        if text.is_empty() || !text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
            return cx.fault(node, Fault::new("must be visible ASCII characters, and not empty"));
        }
        Some(Self::Literal(Literal(text.to_owned())))
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Text { pattern: None }
    }
}
