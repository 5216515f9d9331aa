//! Connections as sessions use them: the store that is asked at each call, the seal of their values, and the mods of
//! a capsule.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manifest::{ArtifactBody, Loaded, ModPackage};
use policy::{Catalog, Connection, Connections, Connectors, Pinned, Reach, Unreadable};
use record::Home;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};
use secrets::Secret;
use store::{Seal, Store, StoreConfig, StoredConnectors};
use tokio::sync::OnceCell;
use tools::{ModSpec, Unopened, Unseal};
use vocab::{BoxFuture, SessionId, SystemClock};

use crate::failure::Failure;
use crate::settings::hostname;

/// The longest file of a mod's package that is part of what its grants rest on.
const LONGEST: u64 = 64 << 20;

/// The id of a new connection: it says nothing of the connection.
pub(crate) fn new_id() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::failed("the system gave no random bytes").hint("check that getrandom is available"))?;
    Ok(bytes.iter().fold("mcp_".to_owned(), |id, byte| id + &format!("{byte:02x}")))
}

/// What values are sealed with: the key that `MURMUR_STORE_KEY_FILE` names, or the home's own.
pub(crate) fn seal(home: &Home) -> Seal {
    match std::env::var_os("MURMUR_STORE_KEY_FILE").filter(|path| !path.is_empty()) {
        Some(path) => Seal::with_key_file(path.into()),
        None => Seal::in_home(home.path()),
    }
}

/// A PEM file of certificates that are trusted beside those compiled in.
pub(crate) fn extra_roots() -> Option<PathBuf> {
    std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Opens sealed values.
pub(crate) struct Sealed(Seal);

impl Sealed {
    pub(crate) fn new(seal: Seal) -> Self {
        Self(seal)
    }
}

impl Unseal for Sealed {
    fn open(&self, connection: &Connection, name: &str) -> Result<Secret, Unopened> {
        let sealed = connection.secrets.get(name).ok_or_else(|| Unopened::new(format!("there is no `{name}`")))?;
        self.0.open(&connection.id, name, sealed).map_err(|error| Unopened::new(format!("{error} ({})", error.code())))
    }
}

/// The connections and grants of a store that is opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct LateConnectors {
    config: StoreConfig,
    who: String,
    open: OnceCell<StoredConnectors>,
}

impl LateConnectors {
    pub(crate) fn new(config: StoreConfig, session: &SessionId) -> Self {
        Self { config, who: format!("session {session}@{}", hostname()), open: OnceCell::new() }
    }

    async fn stored(&self) -> Result<&StoredConnectors, Unreadable> {
        let open = async || {
            let store = Store::open(&self.config, Arc::new(SystemClock)).await?;
            Ok::<_, Unreadable>(StoredConnectors::new(Arc::new(store), self.who.as_str()))
        };
        self.open.get_or_try_init(open).await
    }
}

impl Connectors for LateConnectors {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>> {
        Box::pin(async move { self.stored().await?.current().await })
    }

    fn catalog<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>> {
        Box::pin(async move { self.stored().await?.catalog(connection).await })
    }

    fn suspend<'a>(&'a self, pinned: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>> {
        Box::pin(async move { self.stored().await?.suspend(pinned).await })
    }
}

/// The mods that a capsule declares, each with the digest of what it consists of.
pub(crate) fn mods(loaded: &Loaded) -> Result<Vec<ModSpec>, Failure> {
    let declared = loaded.manifest.artifacts.iter().filter_map(|artifact| match &artifact.body {
        ArtifactBody::Mod(package) => Some((artifact.name.as_str(), package)),
        _ => None,
    });
    declared.map(|(name, package)| Ok(ModSpec::new(name, package, digest(name, package)?))).collect()
}

/// A mod as an operator's look at it starts it: by its program, outside of any session.
pub(crate) fn started(spec: &ModSpec) -> Connection {
    let mut words = spec.argv.iter().map(|arg| arg.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    // A name is looked for in PATH; everything else lies in the package.
    let command = if program.contains('/') { spec.dir.join(program).display().to_string() } else { program };
    Connection { reach: Reach::Stdio { command, args: words.collect() }, ..spec.connection() }
}

/// Of the package's manifest, its arguments and every argument that is a file of the package.
fn digest(name: &str, package: &ModPackage) -> Result<String, Failure> {
    let mut context = Context::new(&SHA256);
    let mut take = |bytes: &[u8]| {
        context.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        context.update(bytes);
    };
    take(&read(name, &package.dir.join("murmur.yaml"))?);
    for arg in &package.argv {
        take(arg.as_encoded_bytes());
        let file = package.dir.join(arg);
        if file.is_file() {
            take(&read(name, &file)?);
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(name: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    let bad = |why: String| {
        Failure::unusable(format!("the mod `{name}`: `{}` cannot be read: {why}", file.display()))
            .code("E-RUN-003")
            .hint("check the package of the mod")
    };
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > LONGEST => Err(bad(format!("it is longer than {LONGEST} bytes"))),
        _ => std::fs::read(file).map_err(|error| bad(error.to_string())),
    }
}
