//! What one source of settings says: the flags and variables of the command line, or the config file.

use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use serde::Deserialize;
use windlass_core::access::GroupRole;
use windlass_core::quantity::Size;

use crate::config::{ConfigError, DurabilitySetting};
use crate::http::AllowedHost;
use crate::key_file::FileKey;

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
    pub durability: Option<DurabilitySetting>,

    /// The largest request body, such as 16MiB [default: 16MiB]
    #[arg(long, env = "WINDLASS_MAX_BODY", value_name = "SIZE", value_parser = size)]
    pub max_body: Option<Size>,

    /// How much memory the bodies of all requests may take together; further requests are answered 429 [default:
    /// 256MiB]
    #[arg(long, env = "WINDLASS_MAX_BUFFERED_BODIES", value_name = "SIZE", value_parser = size)]
    pub max_buffered_bodies: Option<Size>,

    /// How many attempts run at once [default: 64]
    #[arg(long, env = "WINDLASS_SLOTS", value_name = "N")]
    pub slots: Option<usize>,

    /// The largest share of the slots not held by other plugins that one plugin may take, in percent [default: 75]
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

    /// Another name that requests may call this server by, such as windlass.example.com or *.example.com; may be given
    /// several times. Requests for other names are refused; loopback names and the listen address are always allowed
    #[arg(long, env = "WINDLASS_ALLOWED_HOST", value_name = "NAME", value_delimiter = ',')]
    pub allowed_host: Vec<AllowedHost>,

    /// How many seconds a client may take to send the head of a request, fall silent in a body, or leave a response
    /// unread [default: 30]
    #[arg(long, env = "WINDLASS_CLIENT_TIMEOUT", value_name = "SECONDS")]
    pub client_timeout: Option<u64>,

    /// Serve https with this certificate (PEM, followed by those between it and its authority); read again when it
    /// changes
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

    /// The file with the key that encrypts secrets; created at the first start [default: secrets.key in the data
    /// folder]
    #[arg(long, env = "WINDLASS_SECRET_KEY_FILE", value_name = "FILE")]
    pub secret_key_file: Option<PathBuf>,

    /// Encrypt payloads, checkpoints, results, logs and other texts of jobs before they are stored
    #[arg(long, env = "WINDLASS_ENCRYPT_BODIES", value_parser = BoolishValueParser::new())]
    pub encrypt_bodies: bool,

    /// The address of the OpenID Connect provider that people sign in with, such as `https://id.example.com`
    #[arg(long, env = "WINDLASS_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,

    /// What people call that provider, on the button that signs them in [default: its host]
    #[arg(long, env = "WINDLASS_OIDC_NAME", value_name = "NAME")]
    pub oidc_name: Option<String>,

    /// The client id that the provider has for this server; without it only programs can sign in, not people
    #[arg(long, env = "WINDLASS_OIDC_CLIENT_ID", value_name = "ID")]
    pub oidc_client_id: Option<String>,

    /// The file with the secret that belongs to that client id, if the provider issued one
    #[arg(long, env = "WINDLASS_OIDC_CLIENT_SECRET_FILE", value_name = "FILE")]
    pub oidc_client_secret_file: Option<PathBuf>,

    /// The audience (`aud`) of tokens that programs may send in place of a key; without it none is accepted
    #[arg(long, env = "WINDLASS_OIDC_AUDIENCE", value_name = "NAME")]
    pub oidc_audience: Option<String>,

    /// The claim that lists somebody's groups; dots lead into objects, as in realm_access.roles [default: groups]
    #[arg(long, env = "WINDLASS_OIDC_GROUPS_CLAIM", value_name = "NAME")]
    pub oidc_groups_claim: Option<String>,

    /// The role of a group's members as GROUP=ROLE or GROUP=ROLE@NAMESPACE, with * for all namespaces; may be given
    /// several times, and the first that applies decides
    #[arg(long, env = "WINDLASS_OIDC_ROLE", value_name = "GROUP=ROLE", value_delimiter = ',')]
    pub oidc_role: Vec<GroupRole>,

    /// What to ask the provider for besides openid; may be given several times [default: profile and email, and groups
    /// if it has that]
    #[arg(long, env = "WINDLASS_OIDC_SCOPE", value_name = "NAME", value_delimiter = ',')]
    pub oidc_scope: Vec<String>,

    /// Trust the provider if its certificate is signed by one of these authorities (PEM), besides those that browsers
    /// trust
    #[arg(long, env = "WINDLASS_OIDC_CA", value_name = "FILE")]
    pub oidc_ca: Option<PathBuf>,

    /// How many fetches may wait on one queue; more are answered 429 [default: 1000]
    #[arg(long, env = "WINDLASS_MAX_FETCHES", value_name = "N")]
    pub max_fetches: Option<usize>,

    /// A folder whose subfolders, and itself, may be granted to plugins; may be given several times. Without it no
    /// folder can be granted
    #[arg(long, env = "WINDLASS_GRANT_ROOT", value_name = "DIR", value_delimiter = ',')]
    pub grant_root: Vec<PathBuf>,

    /// Serve the console from this folder instead of from the binary, for those who change it
    #[arg(long, env = "WINDLASS_UI_DIR", value_name = "DIR")]
    pub ui_dir: Option<PathBuf>,

    /// Deliver webhooks to this machine and its private networks, too
    #[arg(long)]
    pub webhooks_private: bool,

    /// How many days entries of the audit log are kept; without it, only their number counts
    #[arg(long, env = "WINDLASS_AUDIT_DAYS", value_name = "DAYS")]
    pub audit_days: Option<u32>,

    /// How many entries of the audit log are kept [default: 1000000]
    #[arg(long, env = "WINDLASS_AUDIT_ENTRIES", value_name = "N")]
    pub audit_entries: Option<u64>,

    /// Refuse what workers say about a job without its lease token: older clients do not send it
    #[arg(long)]
    pub require_lease_token: bool,

    /// Serve other machines without a key or without TLS: anyone who can reach the port, or read the network, may do
    /// everything
    #[arg(long)]
    pub insecure: bool,

    /// Start nothing until `windlass resume`: no jobs, timers, schedules, retention or webhooks; for a restored copy
    #[arg(long, env = "WINDLASS_PAUSED", value_parser = BoolishValueParser::new())]
    pub paused: bool,

    /// Open a damaged store that lacks exactly N acknowledged commits, and lose them for good; read docs/operating.md
    /// first
    #[arg(long, value_name = "N")]
    #[serde(skip)]
    pub accept_missing_commits: Option<u64>,
}

impl Layer {
    /// The key that this source names, and the file it comes from, if it does.
    pub(super) fn key(&self) -> Result<Option<(String, Option<PathBuf>)>, ConfigError> {
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

    pub(super) fn read(path: &Path) -> Result<Layer, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        // The parser's message names an unknown key, shows its line and lists the known ones.
        toml::from_str(&text)
            .map_err(|error| ConfigError::File { path: path.to_owned(), why: error.to_string().trim_end().to_owned() })
    }
}

/// A size on the command line, where a bare number is one of bytes.
pub(super) fn size(text: &str) -> Result<Size, String> {
    text.trim().parse().map(Size).or_else(|_| Size::parse(text))
}
