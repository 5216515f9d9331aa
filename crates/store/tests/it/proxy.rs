//! A way to the server that can be cut, stopped and wrapped in TLS.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testkit::postgres::Database;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_rustls::TlsAcceptor;

/// What the way does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Connections are ended, and new ones as soon as they come.
    Cut,
    /// Connections stay and nothing moves.
    Stopped,
}

/// A listener on loopback that leads to a test's server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    way: watch::Sender<Way>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) async fn to(database: &Database) -> Self {
        Self::start(database, None).await
    }

    /// With TLS, by the certificate of that name in `tls/`.
    pub(crate) async fn with_tls(database: &Database, certificate: &str) -> Self {
        let file = |end: &str| format!("{}/tests/it/tls/{certificate}.{end}", env!("CARGO_MANIFEST_DIR"));
        let chain = vec![CertificateDer::from_pem_file(file("pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start(database, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start(database: &Database, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let way = watch::Sender::new(Way::Open);
        let (server, seen) = (database.host(), way.subscribe());
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, server.clone(), tls.clone(), seen.clone()));
            }
        });
        Self { address, way, task }
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn carry(
    client: TcpStream,
    server: tokio_postgres::Config,
    tls: Option<TlsAcceptor>,
    mut way: watch::Receiver<Way>,
) {
    loop {
        let state = *way.borrow_and_update();
        match state {
            Way::Cut => return,
            Way::Stopped => way.changed().await.unwrap_or_default(),
            Way::Open => break,
        }
    }
    let mut meeting = pin!(join(client, server, tls));
    loop {
        tokio::select! {
            biased;
            changed = way.changed() => {
                changed.unwrap_or_default();
                let state = *way.borrow_and_update();
                // A server that hangs does not come back in these tests: it is cut, and another one comes.
                if state == Way::Stopped {
                    let _ = way.wait_for(|way| *way == Way::Cut).await;
                }
                if state != Way::Open {
                    return;
                }
            }
            _ = &mut meeting => return,
        }
    }
}

async fn join(mut client: TcpStream, server: tokio_postgres::Config, tls: Option<TlsAcceptor>) -> std::io::Result<()> {
    let Some(tls) = tls else { return meet(client, &server).await };
    let mut request = [0; 8];
    client.read_exact(&mut request).await?;
    assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "nothing is said in clear before TLS");
    client.write_all(b"S").await?;
    meet(tls.accept(client).await?, &server).await
}

async fn meet(
    mut client: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    server: &tokio_postgres::Config,
) -> std::io::Result<()> {
    let port = server.get_ports().first().copied().unwrap_or(5432);
    match &server.get_hosts()[0] {
        Host::Unix(directory) => {
            let mut server = UnixStream::connect(directory.join(format!(".s.PGSQL.{port}"))).await?;
            copy_bidirectional(&mut client, &mut server).await?;
        }
        Host::Tcp(name) => {
            let mut server = TcpStream::connect((name.as_str(), port)).await?;
            copy_bidirectional(&mut client, &mut server).await?;
        }
    }
    Ok(())
}
