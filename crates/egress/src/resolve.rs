//! How a name becomes addresses: the system's resolver, or one that a test brings.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Lookups at a time. One that the resolver sits on holds its thread long after it was given up, and a
/// process must not be able to take all the threads that the runtime has for blocking work.
const LOOKUPS: usize = 32;

/// What a lookup will find.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Looks names up. Only names that are listed are asked for.
pub trait Resolve: Send + Sync {
    /// The addresses of `name` (lower-case, without a dot at its end), in the order in which they are to be
    /// tried. Whether they may be reached is not decided here.
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a>;
}

/// The system's resolver, with its hosts file and search list.
#[derive(Debug)]
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let place = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let lookup = move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                drop(place);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            };
            tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)?
        })
    }
}
