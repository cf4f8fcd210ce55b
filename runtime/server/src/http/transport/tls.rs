//! TLS of the listening socket: the certificate, its key and the authority of clients are read from files, and read
//! again when they change or the process gets SIGHUP.
//!
//! A new pair that cannot be used is refused with a line in the log, and the one before it stays in use. Open
//! connections keep the configuration that they began with.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tracing::{info, warn};

use crate::{Shutdown, limits};

/// The files, as the settings name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those between it and its authority, in PEM.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// If it is set, every client must show a certificate of one of these authorities.
    pub client_ca: Option<PathBuf>,
}

/// What new connections are encrypted with. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a file with {what} in PEM: {why}", path.display())]
    NotPem { path: PathBuf, what: &'static str, why: String },
    #[error("the certificate in {} does not fit the key in {}; replace both files", cert.display(), key.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("the certificate in {} and the key in {} cannot be used: {source}", cert.display(), key.display())]
    Unusable { cert: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("the certificates in {} cannot be used to check clients: {source}", path.display())]
    ClientAuthority { path: PathBuf, source: VerifierBuilderError },
    #[error("cannot wait for SIGHUP: {0}")]
    Signal(#[source] io::Error),
}

impl Tls {
    /// Reads the files, which must be usable.
    pub fn load(files: TlsFiles) -> Result<Tls, TlsError> {
        let config = config(&files)?;
        Ok(Tls(Arc::new(Shared { files, current: RwLock::new(config) })))
    }

    /// What the next connection is encrypted with.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads the files again when they have changed and at each SIGHUP, until shutdown. The signal is caught from the
    /// call on, not only from the first poll, before which it would end the process.
    pub fn follow(&self, shutdown: Shutdown) -> Result<impl Future<Output = ()> + Send + 'static, TlsError> {
        let mut hangup = Hangup::catch().map_err(TlsError::Signal)?;
        let tls = self.clone();
        let mut seen = Seen::new(stamps(&self.0.files));
        Ok(async move {
            loop {
                let asked = tokio::select! {
                    () = shutdown.requested() => return,
                    () = hangup.next() => true,
                    () = sleep(limits::TLS_LOOK) => false,
                };
                if seen.is_new(stamps(&tls.0.files), asked) {
                    tls.replace();
                }
            }
        })
    }

    fn replace(&self) {
        let files = &self.0.files;
        match config(files) {
            Ok(config) => {
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                info!("new connections use the certificate that is now in {}", files.cert.display());
            }
            Err(error) => warn!("{error}; the certificate from before stays in use"),
        }
    }
}

/// What the files say.
fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let unusable = |source: rustls::Error| {
        let (cert, key) = (files.cert.clone(), files.key.clone());
        match source {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { cert, key },
            source => TlsError::Unusable { cert, key, source },
        }
    };
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|error| not_pem(&files.key, "a private key", &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(unusable)?;
    let builder = match &files.client_ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| not_pem(path, "certificates", &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let wrong = |source| TlsError::ClientAuthority { path: path.clone(), source };
            builder.with_client_cert_verifier(verifier.map_err(wrong)?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// All certificates of a PEM file, of which there must be one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match found {
        Ok(found) if found.is_empty() => Err(not_pem(path, "certificates", &"it has none")),
        Ok(found) => Ok(found),
        Err(error) => Err(not_pem(path, "certificates", &error)),
    }
}

fn not_pem(path: &Path, what: &'static str, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::NotPem { path: path.to_owned(), what, why: why.to_string() }
}

/// What shows that a file has been replaced or written; `None` for a file that is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

/// The certificate, the key, and the authority of clients.
type Stamps = [Stamp; 3];

fn stamps(files: &TlsFiles) -> Stamps {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len(), identity(&found)))
    };
    [stamp(&files.cert), stamp(&files.key), files.client_ca.as_deref().and_then(stamp)]
}

#[cfg(unix)]
fn identity(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> u64 {
    0
}

/// What the files looked like so far.
struct Seen {
    used: Stamps,
    last: Stamps,
}

impl Seen {
    fn new(first: Stamps) -> Seen {
        Seen { used: first, last: first }
    }

    /// Whether what is found now should be used. Unless somebody asks, it must have been the same at the last look:
    /// whoever replaces several files may be in the middle of it.
    fn is_new(&mut self, found: Stamps, asked: bool) -> bool {
        let is_settled = std::mem::replace(&mut self.last, found) == found;
        let is_new = asked || (is_settled && self.used != found);
        if is_new {
            self.used = found;
        }
        is_new
    }
}

/// SIGHUP, where there are signals.
struct Hangup {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Hangup {
    fn catch() -> io::Result<Hangup> {
        let kind = tokio::signal::unix::SignalKind::hangup();
        Ok(Hangup { signal: tokio::signal::unix::signal(kind)? })
    }

    async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
impl Hangup {
    fn catch() -> io::Result<Hangup> {
        Ok(Hangup {})
    }

    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        /// A folder with a certificate, its key, and another key.
        fn new() -> Folder {
            let folder = Folder(tempfile::tempdir().expect("a folder"));
            for (cert, key) in [("cert.pem", "key.pem"), ("other.pem", "other.key")] {
                let CertifiedKey { cert: made, signing_key } =
                    generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
                folder.write(cert, &made.pem());
                folder.write(key, &signing_key.serialize_pem());
            }
            folder.write("nothing.pem", "nothing");
            folder
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).expect("room");
        }

        fn files(&self, cert: &str, key: &str, client_ca: Option<&str>) -> TlsFiles {
            let path = |name: &str| self.0.path().join(name);
            TlsFiles { cert: path(cert), key: path(key), client_ca: client_ca.map(path) }
        }

        fn refusal(&self, cert: &str, key: &str, client_ca: Option<&str>) -> String {
            let refused = Tls::load(self.files(cert, key, client_ca)).err();
            refused.unwrap_or_else(|| panic!("{cert} and {key} were accepted")).to_string()
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_with_their_name_and_the_reason() {
        let folder = Folder::new();
        assert!(Tls::load(folder.files("cert.pem", "key.pem", None)).is_ok());
        assert!(Tls::load(folder.files("cert.pem", "key.pem", Some("other.pem"))).is_ok());
        for (cert, key, client_ca, expected) in [
            ("missing.pem", "key.pem", None, "missing.pem"),
            ("nothing.pem", "key.pem", None, "certificates in PEM: it has none"),
            ("cert.pem", "nothing.pem", None, "a private key in PEM"),
            ("cert.pem", "cert.pem", None, "a private key in PEM"),
            ("cert.pem", "other.key", None, "does not fit the key"),
            ("cert.pem", "key.pem", Some("missing.pem"), "missing.pem"),
            ("cert.pem", "key.pem", Some("nothing.pem"), "nothing.pem"),
        ] {
            let why = folder.refusal(cert, key, client_ca);
            assert!(why.contains(expected), "{why:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_broken_new_pair_leaves_the_old_one_in_use() {
        let folder = Folder::new();
        let files = folder.files("cert.pem", "key.pem", None);
        let tls = Tls::load(files.clone()).expect("a good pair");
        let current = || Arc::clone(&tls.0.current.read().expect("nobody panics with it"));
        let first = current();
        folder.write("key.pem", "broken");
        tls.replace();
        assert!(Arc::ptr_eq(&first, &current()));
        std::fs::copy(folder.0.path().join("other.pem"), &files.cert).expect("room");
        std::fs::copy(folder.0.path().join("other.key"), &files.key).expect("room");
        tls.replace();
        assert!(!Arc::ptr_eq(&first, &current()));
    }

    #[test]
    fn files_are_used_once_they_are_settled_and_at_once_when_somebody_asks() {
        let [first, second, third] = [1, 2, 3].map(|size| [Some((SystemTime::UNIX_EPOCH, size, 0)); 3]);
        let gone = [None; 3];
        let mut seen = Seen::new(first);
        assert!(!seen.is_new(first, false));
        // The certificate has been replaced, and the key a moment later.
        assert!(!seen.is_new(second, false));
        assert!(!seen.is_new(third, false));
        assert!(seen.is_new(third, false));
        assert!(!seen.is_new(third, false), "each is tried once");
        assert!(seen.is_new(second, true));
        assert!(!seen.is_new(second, false));
        // Files that are gone are reported once as well.
        assert!(!seen.is_new(gone, false));
        assert!(seen.is_new(gone, false));
        assert!(!seen.is_new(gone, false));
    }
}
