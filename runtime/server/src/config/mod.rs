//! The settings and their sources: a flag takes precedence over a `WINDLASS_…` variable, a variable over the config
//! file, and the file over the built-in default. The file is the one that `--config` or `WINDLASS_CONFIG` names; no
//! other is read.

mod layer;
mod oidc;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use windlass_core::bounds;
use windlass_core::quantity::Size;

use crate::http::{AllowedHost, TlsFiles};
use crate::limits;
pub use layer::Layer;
pub use oidc::{OidcClient, OidcConfig};

/// Every setting, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub data: PathBuf,
    pub listen: String,
    pub durability: DurabilitySetting,
    pub max_body: usize,
    pub max_buffered_bodies: usize,
    pub slots: usize,
    pub plugin_share: u32,
    pub spawn_depth: u32,
    /// As many as fit if it is not set.
    pub max_connections: Option<usize>,
    /// A share of all connections if it is not set.
    pub max_connections_per_address: Option<usize>,
    pub allowed_host: Vec<AllowedHost>,
    pub client_timeout: Duration,
    pub tls: Option<TlsFiles>,
    /// A proxy stands between the clients and this server, and no client can reach the server around it.
    pub behind_proxy: bool,
    pub api_key: Option<String>,
    /// The file that the key was read from.
    pub api_key_file: Option<PathBuf>,
    pub secret_key_file: Option<PathBuf>,
    pub encrypt_bodies: bool,
    pub insecure: bool,
    /// The provider that vouches for people and programs without keys.
    pub oidc: Option<OidcConfig>,
    pub max_fetches: usize,
    pub webhooks_private: bool,
    pub require_lease_token: bool,
    pub audit_days: Option<u32>,
    pub audit_entries: u64,
    pub paused: bool,
    pub grant_root: Vec<PathBuf>,
    /// The files of the console, instead of those in the binary.
    pub ui_dir: Option<PathBuf>,
    pub accept_missing_commits: u64,
    /// The file that settings were read from: it may contain the API key.
    pub file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilitySetting {
    /// Once it is on the disk: survives a power cut
    #[default]
    Fsync,
    /// Once the operating system has it: survives the death of the process only
    Os,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the config file {}: {source}. Correct --config or WINDLASS_CONFIG", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the config file {} is not valid: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("{0}. Correct --api-key-file or WINDLASS_API_KEY_FILE")]
    KeyFile(String),
    #[error("{0}. Correct --oidc-client-secret-file or WINDLASS_OIDC_CLIENT_SECRET_FILE")]
    OidcSecret(String),
    #[error("both a key and a key file are set; set `api_key` or `api_key_file`")]
    TwoKeys,
    #[error("`{key}` must be {why}")]
    Value { key: &'static str, why: String },
}

impl Config {
    /// Combines the sources: what `flags` does not set is taken from the file, if one is named.
    pub fn load(flags: Layer, file: Option<&Path>) -> Result<Config, ConfigError> {
        let layer = match file {
            Some(path) => Layer::read(path)?,
            None => Layer::default(),
        };
        let config = Config::resolve(flags, layer)?;
        Ok(Config { file: file.map(Path::to_owned), ..config })
    }

    fn resolve(flags: Layer, file: Layer) -> Result<Config, ConfigError> {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let max_body = flags.max_body.or(file.max_body).map_or(limits::BODY, bytes);
        let max_buffered_bodies = flags.max_buffered_bodies.or(file.max_buffered_bodies).map(bytes);
        let (api_key, api_key_file) = match flags.key()? {
            None => file.key()?,
            key => key,
        }
        .unzip();
        let oidc = oidc::resolve(&flags, &file)?;
        let config = Config {
            data: flags.data.or(file.data).unwrap_or_else(|| PathBuf::from("./windlass-data")),
            listen: flags.listen.or(file.listen).unwrap_or_else(|| "127.0.0.1:7070".to_owned()),
            durability: flags.durability.or(file.durability).unwrap_or_default(),
            max_body,
            // A single body must fit.
            max_buffered_bodies: max_buffered_bodies.unwrap_or(limits::BUFFERED_BODIES.max(max_body)),
            slots: flags.slots.or(file.slots).unwrap_or(limits::SLOTS),
            plugin_share: flags.plugin_share.or(file.plugin_share).unwrap_or(limits::PLUGIN_SHARE),
            spawn_depth: flags.spawn_depth.or(file.spawn_depth).unwrap_or(bounds::SPAWN_DEPTH),
            max_connections: flags.max_connections.or(file.max_connections),
            max_connections_per_address: flags.max_connections_per_address.or(file.max_connections_per_address),
            allowed_host: if flags.allowed_host.is_empty() { file.allowed_host } else { flags.allowed_host },
            client_timeout: flags
                .client_timeout
                .or(file.client_timeout)
                .map_or(limits::CLIENT_TIMEOUT, Duration::from_secs),
            tls: tls_files(
                flags.tls_cert.or(file.tls_cert),
                flags.tls_key.or(file.tls_key),
                flags.tls_client_ca.or(file.tls_client_ca),
            )?,
            behind_proxy: flags.behind_proxy || file.behind_proxy,
            api_key,
            api_key_file: api_key_file.flatten(),
            secret_key_file: flags.secret_key_file.or(file.secret_key_file),
            encrypt_bodies: flags.encrypt_bodies || file.encrypt_bodies,
            insecure: flags.insecure || file.insecure,
            oidc,
            max_fetches: flags.max_fetches.or(file.max_fetches).unwrap_or(limits::FETCHES),
            webhooks_private: flags.webhooks_private || file.webhooks_private,
            audit_days: flags.audit_days.or(file.audit_days),
            audit_entries: flags.audit_entries.or(file.audit_entries).unwrap_or(windlass_store::limits::AUDIT_ENTRIES),
            require_lease_token: flags.require_lease_token || file.require_lease_token,
            paused: flags.paused || file.paused,
            grant_root: if flags.grant_root.is_empty() { file.grant_root } else { flags.grant_root },
            ui_dir: flags.ui_dir.or(file.ui_dir),
            file: None,
            // Never from a file: it applies once, to the damage that the operator has examined.
            accept_missing_commits: flags.accept_missing_commits.unwrap_or(0),
        };
        config.check()?;
        Ok(config)
    }

    /// Refuses values that are out of bounds or contradict each other.
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, why: String| Err(ConfigError::Value { key, why });
        if !(1..=limits::BODY_MOST).contains(&self.max_body) {
            return wrong("max_body", format!("between 1 byte and {} MiB", limits::BODY_MOST >> 20));
        }
        if self.max_buffered_bodies < self.max_body {
            return wrong("max_buffered_bodies", "at least as large as `max_body`".to_owned());
        }
        if !(1..=limits::SLOTS_MOST).contains(&self.slots) {
            return wrong("slots", format!("between 1 and {}", limits::SLOTS_MOST));
        }
        if !(1..=100).contains(&self.plugin_share) {
            return wrong("plugin_share", "between 1 and 100 percent".to_owned());
        }
        if self.audit_days == Some(0) {
            return wrong("audit_days", "at least 1; leave it out to keep entries whatever their age".to_owned());
        }
        if self.audit_entries < limits::AUDIT_ENTRIES_LEAST {
            return wrong("audit_entries", format!("at least {}", limits::AUDIT_ENTRIES_LEAST));
        }
        if !(1..=bounds::SPAWN_DEPTH_MOST).contains(&self.spawn_depth) {
            return wrong("spawn_depth", format!("between 1 and {}", bounds::SPAWN_DEPTH_MOST));
        }
        if self.max_connections == Some(0) {
            return wrong("max_connections", "at least 1".to_owned());
        }
        if self.max_connections_per_address == Some(0) {
            return wrong("max_connections_per_address", "at least 1".to_owned());
        }
        if !(1..=limits::CLIENT_TIMEOUT_MOST).contains(&self.client_timeout.as_secs()) {
            return wrong("client_timeout", format!("between 1 and {} seconds", limits::CLIENT_TIMEOUT_MOST));
        }
        if self.is_open() && self.oidc.is_some() {
            return wrong(
                "oidc_issuer",
                "left out with `insecure`: without keys there is nothing to sign in to".to_owned(),
            );
        }
        if self.api_key.as_ref().is_some_and(|key| key.len() < limits::KEY_LEAST || !key.is_ascii()) {
            return wrong(
                "api_key",
                format!("at least {} ASCII characters long; make one with: openssl rand -hex 32", limits::KEY_LEAST),
            );
        }
        Ok(())
    }
}

/// The certificate and the key are given both or not at all.
fn tls_files(
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
) -> Result<Option<TlsFiles>, ConfigError> {
    let missing = |key, what: &str| Err(ConfigError::Value { key, why: format!("set, because {what} is set") });
    match (cert, key, client_ca) {
        (Some(cert), Some(key), client_ca) => Ok(Some(TlsFiles { cert, key, client_ca })),
        (None, None, None) => Ok(None),
        (Some(_), None, _) => missing("tls_key", "`tls_cert`"),
        (None, Some(_), _) => missing("tls_cert", "`tls_key`"),
        (None, None, Some(_)) => missing("tls_cert", "`tls_client_ca`"),
    }
}

impl Config {
    /// Whether everybody who can connect may do everything.
    pub fn is_open(&self) -> bool {
        self.insecure && self.api_key.is_none()
    }
}

impl From<DurabilitySetting> for windlass_store::Durability {
    fn from(durability: DurabilitySetting) -> Self {
        match durability {
            DurabilitySetting::Fsync => windlass_store::Durability::Fsync,
            DurabilitySetting::Os => windlass_store::Durability::Os,
        }
    }
}

#[cfg(test)]
mod tests;
