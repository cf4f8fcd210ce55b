//! A certificate authority for the tests, and what it has signed: files as an operator would have them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::client::Client;

/// A folder with `ca.pem`, the authority; `cert.pem` and `key.pem` for a server on this machine; `client.pem` and
/// `client.key` for a client.
pub struct Certificates {
    folder: tempfile::TempDir,
    authority: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// A new authority, which no other trusts.
    #[expect(clippy::new_without_default, reason = "it creates files on disk")]
    pub fn new() -> Certificates {
        let key = KeyPair::generate().expect("a key");
        let mut params = params("the tests' authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let folder = tempfile::tempdir().expect("a folder");
        let made = Certificates { folder, authority: Issuer::new(params, key) };
        made.write("ca.pem", &certificate);
        made.sign(
            "a server",
            &["localhost", "127.0.0.1"],
            ExtendedKeyUsagePurpose::ServerAuth,
            ["cert.pem", "key.pem"],
        );
        made.sign("a client", &[], ExtendedKeyUsagePurpose::ClientAuth, ["client.pem", "client.key"]);
        made
    }

    fn sign(&self, name: &str, names: &[&str], purpose: ExtendedKeyUsagePurpose, [cert, key]: [&str; 2]) {
        let own = KeyPair::generate().expect("a key");
        let mut params = params(name, names);
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(&own, &self.authority).expect("a certificate");
        self.write(cert, &signed.pem());
        self.write(key, &own.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).expect("room");
    }

    /// One of the files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file by one of another authority.
    pub fn replace(&self, name: &str, other: &Certificates) {
        fs::copy(other.file(name), self.file(name)).expect("room");
    }

    /// The flags of a server with this certificate.
    pub fn flags(&self) -> [String; 4] {
        let file = |name| self.file(name).display().to_string();
        ["--tls-cert".to_owned(), file("cert.pem"), "--tls-key".to_owned(), file("key.pem")]
    }

    /// A client that trusts this authority.
    pub fn client(&self, url: String) -> Client {
        Client::with_tls(url, self.trust(None))
    }

    /// The same with a certificate of its own, which this authority has signed.
    pub fn known_client(&self, url: String) -> Client {
        let read = |name| fs::read(self.file(name)).expect("it was written");
        let chain = [Certificate::from_pem(&read("client.pem")).expect("PEM")];
        let key = PrivateKey::from_pem(&read("client.key")).expect("PEM");
        Client::with_tls(url, self.trust(Some(ClientCert::new_with_certs(&chain, key))))
    }

    fn trust(&self, own: Option<ClientCert>) -> TlsConfig {
        let text = fs::read(self.file("ca.pem")).expect("it was written");
        let authority = Certificate::from_pem(&text).expect("PEM");
        TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(vec![authority]))).client_cert(own).build()
    }
}

fn params(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names of hosts");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
