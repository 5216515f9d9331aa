//! What this client says of itself, and what it answers when a server asks.
//!
//! It offers no roots, no sampling and no elicitation: each would let a server read, spend or ask in the
//! operator's name. A server that asks all the same is told that there is no such method.
#![expect(deprecated, reason = "servers of the older protocol still ask for roots, and are refused")]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation,
    ListRootsResult, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};

/// The client of every connection.
pub(crate) struct Asked;

impl ClientHandler for Asked {
    // Sampling is refused by the engine itself.
    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(no_such_method("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(no_such_method("elicitation/create"))
    }

    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("mur", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

fn no_such_method(method: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}
