//! Where the credentials of a session come from, and the gateways that spend them.
//!
//! All of a session's credentials share one lookup, one vault and one trace. A name that a controller
//! injects is looked up nowhere and may be without a value; every other one that an artifact or a gateway
//! of the shell names must be there at launch: nothing that a manifest declares is silently missing.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use manifest::{Credential, Gateway, Manifest, UpstreamAuth};
use record::Home;
use relay::{Upstream, UpstreamConfig};
use runtime::CredentialTrace;
use secrets::{Keyring, LiveCredential, Lookup, Redactor, Reference, Secret, Source, Vault};
use tools::{GatewayGrant, OpenGateway, ReservedGateway};

use crate::failure::Failure;

/// The places that credentials are read from, and the trace that tells what happens to them.
pub(crate) struct Credentials {
    lookup: Arc<Lookup>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) trace: CredentialTrace,
    redactor: Redactor,
}

impl Credentials {
    /// `injected` are the names that a controller may give a value.
    pub(crate) fn open(home: &Home, injected: Vec<String>, redactor: &Redactor) -> Self {
        Self {
            lookup: Arc::new(Lookup::open(home.path(), |name| std::env::var_os(name))),
            vault: Arc::new(Vault::new(injected)),
            trace: CredentialTrace::default(),
            redactor: redactor.clone(),
        }
    }

    /// The credential of `artifact`, whether or not it has a value now.
    pub(crate) fn keyring(&self, artifact: &str, credential: &Credential) -> Keyring {
        let credential = match reference(credential) {
            None => LiveCredential::keyless(),
            Some(Reference::Literal(value)) => LiveCredential::literal(value, &self.redactor),
            Some(Reference::Name(name)) => LiveCredential::named(&name, &self.lookup, &self.vault, &self.redactor),
        };
        Keyring::new(credential, self.trace.of(artifact))
    }

    /// The gateway of `artifact`. Its credential must be there, or be one that is injected.
    fn gateway(
        &self,
        artifact: &str,
        gateway: &Gateway,
        auth: Option<&UpstreamAuth>,
    ) -> Result<Arc<dyn tools::Gateway>, Failure> {
        let mut config = UpstreamConfig::new(gateway.endpoint.as_str());
        if let Some(auth) = auth.filter(|_| gateway.credential != Credential::Keyless) {
            let keyring = self.keyring(artifact, &gateway.credential);
            let credential = keyring.credential();
            if credential.source() != Source::Injected {
                credential.read().map_err(|error| unresolved(&error))?;
            }
            config.key =
                Some((keyring, relay::UpstreamAuth::new(auth.header.as_str(), auth.value.as_str()).map_err(unusable)?));
        }
        Ok(Arc::new(Service(Upstream::new(config).map_err(unusable)?)))
    }

    /// The gateways of a capsule, each checked.
    pub(crate) fn gateways(&self, manifest: &Manifest) -> Result<Gateways, Failure> {
        let mut gateways = Gateways::default();
        for (artifact, package) in manifest.tools() {
            if let Some(gateway) = &artifact.gateway {
                let name = artifact.name.as_str();
                let opened = self.gateway(name, gateway, package.upstream_auth.as_ref())?;
                gateways.of_tools.push((name.to_owned(), opened));
            }
        }
        for declared in manifest.capabilities.shell.gateways() {
            let name = declared.name.as_str();
            let gateway = self.gateway(&format!("shell:{name}"), &declared.gateway, declared.upstream_auth.as_ref())?;
            let variables = vec![format!("MURMUR_GATEWAY_{name}")];
            gateways.of_shell.push(GatewayGrant { variables, gateway });
        }
        Ok(gateways)
    }
}

/// What a launch would miss of the capsule's credentials now, each once: those of every driver choice, tool and
/// gateway of the shell, but for the names that a controller injects.
pub(crate) fn missing(manifest: &Manifest, home: &Home) -> Vec<Failure> {
    let lookup = Lookup::open(home.path(), |name| std::env::var_os(name));
    let choices = manifest.inference.choices().filter_map(|choice| choice.gateway.as_ref());
    let tools = manifest.tools().filter_map(|(artifact, _)| artifact.gateway.as_ref());
    let shell = manifest.capabilities.shell.gateways();
    let all = choices.chain(tools).chain(shell.iter().map(|declared| &declared.gateway));
    let mut failures: Vec<Failure> = Vec::new();
    for reference in all.filter_map(|gateway| reference(&gateway.credential)) {
        let injected = |name: &String| manifest.control.secrets.iter().any(|secret| secret.as_str() == name);
        if matches!(&reference, Reference::Name(name) if injected(name)) {
            continue;
        }
        let failure = lookup.resolve(&reference).err().map(|error| unresolved(&error));
        failures.extend(failure.filter(|failure| !failures.contains(failure)));
    }
    failures
}

/// The gateways of a capsule.
#[derive(Default)]
pub(crate) struct Gateways {
    of_tools: Vec<(String, Arc<dyn tools::Gateway>)>,
    /// For commands and programs of the shell.
    pub(crate) of_shell: Vec<GatewayGrant>,
}

impl Gateways {
    /// The gateway of the tool of this name.
    pub(crate) fn of_tool(&self, name: &str) -> Option<Arc<dyn tools::Gateway>> {
        self.of_tools.iter().find(|(tool, _)| tool == name).map(|(_, gateway)| Arc::clone(gateway))
    }
}

/// A service behind the relay.
#[derive(Debug)]
struct Service(Upstream);

impl tools::Gateway for Service {
    fn reserve(&self, address: SocketAddr) -> io::Result<Box<dyn ReservedGateway>> {
        let reserved = self.0.reserve(address).map_err(io::Error::other)?;
        Ok(Box::new(Address(reserved)))
    }
}

struct Address(relay::Reserved);

impl ReservedGateway for Address {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn serve(self: Box<Self>, listener: TcpListener) -> io::Result<OpenGateway> {
        Ok(Box::new(self.0.serve(listener).map_err(io::Error::other)?))
    }
}

/// How a credential is found; `None` needs none.
fn reference(credential: &Credential) -> Option<Reference> {
    match credential {
        Credential::Keyless => None,
        Credential::Reference(name) => Some(Reference::Name(name.as_str().to_owned())),
        Credential::Literal(literal) => Some(Reference::Literal(Secret::new(literal.expose().to_owned()))),
    }
}

/// A credential that a launch needs and that is not there.
pub(crate) fn unresolved(error: &secrets::Error) -> Failure {
    Failure::unusable(error.to_string()).code(error.code()).hint(error.hint())
}

fn unusable(error: relay::Error) -> Failure {
    Failure::unusable(error.to_string()).code(error.code()).hint(error.hint())
}
