//! A component that has passed every check and is ready to run.

use std::fmt;
use std::sync::Arc;

use crate::attempt::state::State;
use crate::bindings::HandlerPre;

/// A compiled and linked component. Cheap to clone; the code is freed with the last clone.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    digest: Arc<str>,
    size: usize,
    imports: Vec<String>,
    from_cache: bool,
    shares: u32,
    /// Sources attached to the component, for a language runtime that reads them.
    sources: Option<Arc<str>>,
    pre: HandlerPre<State>,
}

/// A component as it comes from the compiler or its cache.
pub(crate) struct Compiled<'a> {
    pub(crate) digest: String,
    pub(crate) size: usize,
    pub(crate) imports: Vec<String>,
    pub(crate) from_cache: bool,
    pub(crate) shares: u32,
    pub(crate) sources: Option<&'a str>,
    pub(crate) pre: HandlerPre<State>,
}

impl From<Compiled<'_>> for Plugin {
    fn from(compiled: Compiled<'_>) -> Plugin {
        let Compiled { digest, size, imports, from_cache, shares, sources, pre } = compiled;
        let (digest, sources) = (digest.into(), sources.map(Arc::from));
        Plugin { inner: Arc::new(Inner { digest, size, imports, from_cache, shares, sources, pre }) }
    }
}

impl Plugin {
    /// The sha-256 of the component's bytes, in hex.
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }

    /// The digest, shared instead of borrowed.
    pub(crate) fn version(&self) -> &Arc<str> {
        &self.inner.digest
    }

    /// The component's size in bytes.
    pub fn size(&self) -> usize {
        self.inner.size
    }

    /// The interfaces it imports, with their versions, in the component's order.
    pub fn imports(&self) -> &[String] {
        &self.inner.imports
    }

    /// Whether its code came from the cache instead of the compiler.
    pub fn from_cache(&self) -> bool {
        self.inner.from_cache
    }

    /// How many shares of the instance pool one instance takes.
    pub(crate) fn shares(&self) -> u32 {
        self.inner.shares
    }

    pub(crate) fn sources(&self) -> Option<Arc<str>> {
        self.inner.sources.clone()
    }

    pub(crate) fn pre(&self) -> &HandlerPre<State> {
        &self.inner.pre
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("digest", &self.inner.digest)
            .field("size", &self.inner.size)
            .finish_non_exhaustive()
    }
}
