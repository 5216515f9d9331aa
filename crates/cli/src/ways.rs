//! The way from a process's own network to the hosts that its capsule may reach.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use egress::{AllowList, Egress, Proxy};
use manifest::Manifest;
use tools::{Gateway, GatewayGrant, OpenGateway, ReservedGateway};

/// The variables in which programs look for a proxy. Some know only one spelling.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// The way to `capabilities.network.allow`; nothing where no host is listed. `own` is where the session itself answers:
/// a name that stands for this host does not list it.
pub(crate) fn egress(manifest: &Manifest, own: &[SocketAddr]) -> Option<GatewayGrant> {
    let network = manifest.capabilities.network.as_ref().filter(|network| !network.allow.is_empty())?;
    let mut egress = Egress::new(AllowList::new(&network.allow));
    egress.own = own.to_vec();
    let gateway = Arc::new(Way(Arc::new(egress)));
    Some(GatewayGrant { variables: VARIABLES.map(str::to_owned).into(), gateway })
}

struct Way(Arc<Egress>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}

impl Gateway for Way {
    fn reserve(&self, address: SocketAddr) -> io::Result<Box<dyn ReservedGateway>> {
        Ok(Box::new(Reserved { url: format!("http://{address}"), egress: Arc::clone(&self.0) }))
    }
}

struct Reserved {
    url: String,
    egress: Arc<Egress>,
}

impl ReservedGateway for Reserved {
    fn url(&self) -> &str {
        &self.url
    }

    fn serve(self: Box<Self>, listener: TcpListener) -> io::Result<OpenGateway> {
        Ok(Box::new(Proxy::serve(listener, self.egress)?))
    }
}
