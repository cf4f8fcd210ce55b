//! How the commands speak https: which authorities they trust, which certificate they show, and what to do when that
//! fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, InvalidMessage, RootCertStore};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// The files for https.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server and output")]
pub struct TlsFlags {
    /// Trust these authorities for an https address, and no others (PEM) [default: those that browsers trust]
    #[arg(long, env = CA_FILE, value_name = "FILE", global = true)]
    ca_file: Option<PathBuf>,

    /// The certificate to show to a server that requires one (PEM)
    #[arg(long, env = CLIENT_CERT, value_name = "FILE", global = true)]
    client_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, env = CLIENT_KEY, value_name = "FILE", global = true)]
    client_key: Option<PathBuf>,
}

const CA_FILE: &str = "WINDLASS_CA_FILE";
const CLIENT_CERT: &str = "WINDLASS_CLIENT_CERT";
const CLIENT_KEY: &str = "WINDLASS_CLIENT_KEY";

impl TlsFlags {
    /// What a connection to an https address needs.
    pub fn config(&self) -> anyhow::Result<TlsConfig> {
        let mut config = TlsConfig::builder();
        if let Some(path) = &self.ca_file {
            config = config.root_certs(RootCerts::Specific(Arc::new(authorities(path)?)));
        }
        let own = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => Some(own_certificate(cert, key)?),
            (None, None) => None,
            (Some(_), None) => bail!("--client-cert needs its private key; give it with --client-key or {CLIENT_KEY}"),
            (None, Some(_)) => bail!("--client-key needs its certificate; give it with --client-cert or {CLIENT_CERT}"),
        };
        Ok(config.client_cert(own).build())
    }

    /// These flags as one would type them, without those that the environment sets already.
    pub fn typed(&self) -> String {
        let flags = [
            ("--ca-file", CA_FILE, &self.ca_file),
            ("--client-cert", CLIENT_CERT, &self.client_cert),
            ("--client-key", CLIENT_KEY, &self.client_key),
        ];
        let typed = flags.into_iter().filter_map(|(flag, variable, path)| {
            let path = path.as_ref()?;
            let known = std::env::var_os(variable).is_some_and(|set| set == *path);
            (!known).then(|| format!(" {flag} {}", path.display()))
        });
        typed.collect()
    }
}

fn authorities(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let certificates = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        added.with_context(|| format!("{} has a certificate that is not one of an authority", path.display()))?;
    }
    Ok(certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect())
}

fn own_certificate(cert: &Path, key: &Path) -> anyhow::Result<ClientCert> {
    let chain = certificates(cert)?;
    let text = read(key)?;
    let wrong = || format!("{} is not a file with a private key in PEM", key.display());
    let der = PrivateKeyDer::from_pem_slice(&text).with_context(wrong)?;
    // The HTTP client takes for granted that they fit.
    CertifiedKey::from_der(chain.clone(), der, &ring::default_provider())
        .with_context(|| format!("the certificate in {} does not fit the key in {}", cert.display(), key.display()))?;
    let chain: Vec<_> = chain.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    Ok(ClientCert::new_with_certs(&chain, PrivateKey::from_pem(&text).with_context(wrong)?))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let wrong = || format!("{} is not a file with certificates in PEM", path.display());
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().with_context(wrong)?;
    if found.is_empty() {
        bail!("{}: it has none", wrong());
    }
    Ok(found)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What to do about a request that failed because of TLS; `None` if it failed for another reason.
pub fn remedy(error: &ureq::Error) -> Option<&'static str> {
    let cause = match error {
        ureq::Error::Rustls(cause) => cause,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    Some(match cause {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "if an authority of your own has signed its certificate, name that with --ca-file or WINDLASS_CA_FILE"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name; use that name in --url or WINDLASS_URL",
        rustls::Error::InvalidCertificate(_) => "its certificate has to be replaced",
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak https; use http:// in --url or WINDLASS_URL"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            "it requires a certificate of you; give one with --client-cert and --client-key"
        }
        rustls::Error::AlertReceived(_) => "if it requires a certificate of you, it does not accept this one",
        _ => "its TLS settings do not fit those of this program",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(ca_file: Option<&Path>, client_cert: Option<&Path>, client_key: Option<&Path>) -> TlsFlags {
        let [ca_file, client_cert, client_key] =
            [ca_file, client_cert, client_key].map(|path| path.map(Path::to_owned));
        TlsFlags { ca_file, client_cert, client_key }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("room");
            path
        };
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (one, other) = (made(), made());
        let cert = write("cert.pem", &one.cert.pem());
        let key = write("key.pem", &one.signing_key.serialize_pem());
        let other = write("other.key", &other.signing_key.serialize_pem());
        let nothing = write("nothing.pem", "nothing");
        let missing = folder.path().join("missing.pem");
        assert!(flags(Some(&cert), Some(&cert), Some(&key)).config().is_ok());
        for (flags, expected) in [
            (flags(Some(&missing), None, None), "missing.pem"),
            (flags(Some(&nothing), None, None), "nothing.pem"),
            (flags(None, Some(&cert), None), "--client-key"),
            (flags(None, None, Some(&key)), "--client-cert"),
            (flags(None, Some(&cert), Some(&other)), "does not fit"),
            (flags(None, Some(&cert), Some(&nothing)), "nothing.pem"),
        ] {
            let why = format!("{:#}", flags.config().expect_err("it cannot be used"));
            assert!(why.contains(expected), "{why:?} should contain {expected:?}");
        }
    }
}
