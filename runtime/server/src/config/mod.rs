//! The settings and their sources: a flag takes precedence over a `WINDLASS_…` variable, a variable over the config file, and
//! the file over the built-in default. The file is the one that `--config` or `WINDLASS_CONFIG` names; no other is read.

mod oidc;
mod size;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::BoolishValueParser;
use serde::Deserialize;
use windlass_core::access::GroupRole;
use windlass_core::bounds;

use crate::http::{AllowedHost, TlsFiles};
use crate::key_file::FileKey;
use crate::limits;
pub use oidc::{OidcClient, OidcConfig};
pub use size::Size;

/// Every setting, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub data: PathBuf,
    pub listen: String,
    pub durability: Durability,
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
    pub insecure: bool,
    /// The provider that vouches for people and programs without keys.
    pub oidc: Option<OidcConfig>,
    pub max_fetches: usize,
    pub webhooks_private: bool,
    pub paused: bool,
    pub grant_root: Vec<PathBuf>,
    /// The files of the console, instead of those in the binary.
    pub ui_dir: Option<PathBuf>,
    pub accept_missing_commits: u64,
    /// The file that settings were read from: it may contain the API key.
    pub file: Option<PathBuf>,
}

/// The settings of one source. The command line and the file share this type, so that each setting is named once.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Layer {
    /// The data folder; created if it does not exist [default: ./windlass-data]
    #[arg(long, env = "WINDLASS_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// The address to listen on; port 0 picks a free port [default: 127.0.0.1:7070]
    #[arg(long, env = "WINDLASS_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,

    /// When a write is acknowledged [default: fsync]
    #[arg(long, env = "WINDLASS_DURABILITY", value_enum)]
    pub durability: Option<Durability>,

    /// The largest request body, such as 16MiB [default: 16MiB]
    #[arg(long, env = "WINDLASS_MAX_BODY", value_name = "SIZE")]
    pub max_body: Option<Size>,

    /// What the bodies of all requests may take together while they are received and handled; further ones are answered 429 [default: 256MiB]
    #[arg(long, env = "WINDLASS_MAX_BUFFERED_BODIES", value_name = "SIZE")]
    pub max_buffered_bodies: Option<Size>,

    /// How many attempts run at once [default: 64]
    #[arg(long, env = "WINDLASS_SLOTS", value_name = "N")]
    pub slots: Option<usize>,

    /// How much of the slots that other plugins leave one plugin may take, in percent; 100 for all of them [default: 75]
    #[arg(long, env = "WINDLASS_PLUGIN_SHARE", value_name = "PERCENT")]
    pub plugin_share: Option<u32>,

    /// How many generations of children may descend from a job that is enqueued [default: 32]
    #[arg(long, env = "WINDLASS_SPAWN_DEPTH", value_name = "N")]
    pub spawn_depth: Option<u32>,

    /// How many connections are open at once; further ones wait [default: 10000]
    #[arg(long, env = "WINDLASS_MAX_CONNECTIONS", value_name = "N")]
    pub max_connections: Option<usize>,

    /// How many of those connections one address may have [default: half of them]
    #[arg(long, env = "WINDLASS_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N")]
    pub max_connections_per_address: Option<usize>,

    /// Another name that requests may call this server by, such as windlass.example.com or *.example.com; may be given several
    /// times. Requests for other names are refused; loopback names and the listen address are always allowed
    #[arg(long, env = "WINDLASS_ALLOWED_HOST", value_name = "NAME", value_delimiter = ',')]
    pub allowed_host: Vec<AllowedHost>,

    /// How many seconds a client may take to send the head of a request, fall silent in a body, or leave a response unread [default: 30]
    #[arg(long, env = "WINDLASS_CLIENT_TIMEOUT", value_name = "SECONDS")]
    pub client_timeout: Option<u64>,

    /// Serve https with this certificate (PEM, followed by those between it and its authority); read again when it changes
    #[arg(long, env = "WINDLASS_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, env = "WINDLASS_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Require a certificate of every client, signed by one of these authorities (PEM)
    #[arg(long, env = "WINDLASS_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// TLS ends in a proxy in front of the server: take the client's address and protocol from X-Forwarded-For and
    /// X-Forwarded-Proto. Only the proxy may be able to reach the server
    #[arg(long, env = "WINDLASS_BEHIND_PROXY", value_parser = BoolishValueParser::new())]
    pub behind_proxy: bool,

    /// The key that every request must carry; needed on an address that other machines can reach
    #[arg(long, env = "WINDLASS_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,

    /// The file with that key, which keeps it out of the list of processes; give the one or the other
    #[arg(long, env = "WINDLASS_API_KEY_FILE", value_name = "FILE", conflicts_with = "api_key")]
    pub api_key_file: Option<PathBuf>,

    /// The file with the key that encrypts secrets; created at the first start [default: secrets.key in the data folder]
    #[arg(long, env = "WINDLASS_SECRET_KEY_FILE", value_name = "FILE")]
    pub secret_key_file: Option<PathBuf>,

    /// The address of the OpenID Connect provider that people sign in with, such as `https://id.example.com`
    #[arg(long, env = "WINDLASS_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,

    /// What people call that provider, on the button that signs them in [default: its host]
    #[arg(long, env = "WINDLASS_OIDC_NAME", value_name = "NAME")]
    pub oidc_name: Option<String>,

    /// As what the provider knows this server; without it people cannot sign in, and programs can
    #[arg(long, env = "WINDLASS_OIDC_CLIENT_ID", value_name = "ID")]
    pub oidc_client_id: Option<String>,

    /// The file with the secret that the provider has given out with that id, if it has
    #[arg(long, env = "WINDLASS_OIDC_CLIENT_SECRET_FILE", value_name = "FILE")]
    pub oidc_client_secret_file: Option<PathBuf>,

    /// The audience (`aud`) of tokens that programs may send in place of a key; without it none is accepted
    #[arg(long, env = "WINDLASS_OIDC_AUDIENCE", value_name = "NAME")]
    pub oidc_audience: Option<String>,

    /// The claim that lists somebody's groups; dots lead into objects, as in realm_access.roles [default: groups]
    #[arg(long, env = "WINDLASS_OIDC_GROUPS_CLAIM", value_name = "NAME")]
    pub oidc_groups_claim: Option<String>,

    /// The role of a group's members as GROUP=ROLE or GROUP=ROLE@NAMESPACE, with * for all namespaces; may be given several times,
    /// and the first that fits decides
    #[arg(long, env = "WINDLASS_OIDC_ROLE", value_name = "GROUP=ROLE", value_delimiter = ',')]
    pub oidc_role: Vec<GroupRole>,

    /// What to ask the provider for besides openid; may be given several times [default: profile and email, and groups if it has that]
    #[arg(long, env = "WINDLASS_OIDC_SCOPE", value_name = "NAME", value_delimiter = ',')]
    pub oidc_scope: Vec<String>,

    /// Trust the provider if its certificate is signed by one of these authorities (PEM), besides those that browsers trust
    #[arg(long, env = "WINDLASS_OIDC_CA", value_name = "FILE")]
    pub oidc_ca: Option<PathBuf>,

    /// How many fetches may wait on one queue; more are answered 429 [default: 1000]
    #[arg(long, env = "WINDLASS_MAX_FETCHES", value_name = "N")]
    pub max_fetches: Option<usize>,

    /// A folder whose subfolders, and itself, may be granted to plugins; may be given several times. Without it no folder can be granted
    #[arg(long, env = "WINDLASS_GRANT_ROOT", value_name = "DIR", value_delimiter = ',')]
    pub grant_root: Vec<PathBuf>,

    /// Serve the console from this folder instead of from the binary, for those who change it
    #[arg(long, env = "WINDLASS_UI_DIR", value_name = "DIR")]
    pub ui_dir: Option<PathBuf>,

    /// Deliver webhooks to this machine and its private networks, too
    #[arg(long)]
    pub webhooks_private: bool,

    /// Serve other machines without a key or without TLS: anyone who can reach the port, or read the network, may do everything
    #[arg(long)]
    pub insecure: bool,

    /// Start nothing until `windlass resume`: no jobs, timers, schedules, retention or webhooks; for a restored copy
    #[arg(long, env = "WINDLASS_PAUSED", value_parser = BoolishValueParser::new())]
    pub paused: bool,

    /// Open a damaged store that lacks exactly N acknowledged commits, and lose them for good; read docs/operating.md first
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    pub accept_missing_commits: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
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
        let max_body = flags.max_body.or(file.max_body).map_or(limits::BODY, |size| size.0);
        let max_buffered_bodies = flags.max_buffered_bodies.or(file.max_buffered_bodies).map(|size| size.0);
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
            insecure: flags.insecure || file.insecure,
            oidc,
            max_fetches: flags.max_fetches.or(file.max_fetches).unwrap_or(limits::FETCHES),
            webhooks_private: flags.webhooks_private || file.webhooks_private,
            paused: flags.paused || file.paused,
            grant_root: if flags.grant_root.is_empty() { file.grant_root } else { flags.grant_root },
            ui_dir: flags.ui_dir.or(file.ui_dir),
            file: None,
            // Never from a file: it applies once, to the damage that the operator has examined.
            accept_missing_commits: flags.accept_missing_commits.unwrap_or(0),
        };
        let wrong = |key, why: String| Err(ConfigError::Value { key, why });
        if !(1..=limits::BODY_MOST).contains(&config.max_body) {
            return wrong("max_body", format!("between 1 byte and {} MiB", limits::BODY_MOST >> 20));
        }
        if config.max_buffered_bodies < config.max_body {
            return wrong("max_buffered_bodies", "at least as large as `max_body`".to_owned());
        }
        if !(1..=limits::SLOTS_MOST).contains(&config.slots) {
            return wrong("slots", format!("between 1 and {}", limits::SLOTS_MOST));
        }
        if !(1..=100).contains(&config.plugin_share) {
            return wrong("plugin_share", "between 1 and 100 percent".to_owned());
        }
        if !(1..=bounds::SPAWN_DEPTH_MOST).contains(&config.spawn_depth) {
            return wrong("spawn_depth", format!("between 1 and {}", bounds::SPAWN_DEPTH_MOST));
        }
        if config.max_connections == Some(0) {
            return wrong("max_connections", "at least 1".to_owned());
        }
        if config.max_connections_per_address == Some(0) {
            return wrong("max_connections_per_address", "at least 1".to_owned());
        }
        if !(1..=limits::CLIENT_TIMEOUT_MOST).contains(&config.client_timeout.as_secs()) {
            return wrong("client_timeout", format!("between 1 and {} seconds", limits::CLIENT_TIMEOUT_MOST));
        }
        if config.is_open() && config.oidc.is_some() {
            return wrong(
                "oidc_issuer",
                "left out with `insecure`: without keys there is nothing to sign in to".to_owned(),
            );
        }
        if config.api_key.as_ref().is_some_and(|key| key.len() < limits::KEY_LEAST || !key.is_ascii()) {
            return wrong("api_key", format!("at least {} ASCII characters long", limits::KEY_LEAST));
        }
        Ok(config)
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

impl Layer {
    /// The key that this source names, and the file it comes from, if it does.
    fn key(&self) -> Result<Option<(String, Option<PathBuf>)>, ConfigError> {
        match (&self.api_key, &self.api_key_file) {
            (None, None) => Ok(None),
            (Some(key), None) => Ok(Some((key.clone(), None))),
            (None, Some(path)) => {
                let read = FileKey::read(path).map_err(ConfigError::KeyFile)?;
                if read.is_open_to_others() {
                    tracing::warn!(
                        "{0} can be read by other users of this machine; run: chmod 600 {0}",
                        path.display()
                    );
                }
                Ok(Some((read.key, Some(read.path))))
            }
            (Some(_), Some(_)) => Err(ConfigError::TwoKeys),
        }
    }

    fn read(path: &Path) -> Result<Layer, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        // The parser's message names an unknown key, shows its line and lists the known ones.
        toml::from_str(&text)
            .map_err(|error| ConfigError::File { path: path.to_owned(), why: error.to_string().trim_end().to_owned() })
    }
}

impl From<Durability> for windlass_store::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Fsync => windlass_store::Durability::Fsync,
            Durability::Os => windlass_store::Durability::Os,
        }
    }
}

#[cfg(test)]
mod tests;
