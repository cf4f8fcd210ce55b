//! What a guest is allowed. This is the only place where a permission is decided.
//!
//! Denied is the default: no files, no network, no environment, no arguments, no standard input. What a guest has anyway:
//! clocks, random numbers, and output that ends in its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime_wasi::{WasiCtx, WasiCtxBuilder};

use crate::attempt::Secret;
use crate::host::Stream;
use crate::limits::RANDOM_BYTES;
use crate::logbook::Logbook;
use crate::stdio::LogPipe;

/// What one attempt was granted.
pub(crate) struct Grants {
    config: BTreeMap<String, String>,
    secrets: BTreeMap<String, Option<Secret>>,
}

/// The answer to a guest that asks for a secret.
pub(crate) enum SecretAnswer<'a> {
    Given(&'a Secret),
    /// Granted, but nobody has set it; says how to.
    Missing(String),
    /// Not granted; says what to grant.
    Denied(String),
}

impl Grants {
    pub(crate) fn new(config: BTreeMap<String, String>, secrets: BTreeMap<String, Option<Secret>>) -> Self {
        Grants { config, secrets }
    }

    pub(crate) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    pub(crate) fn secret(&self, name: &str) -> SecretAnswer<'_> {
        match self.secrets.get(name) {
            Some(Some(secret)) => SecretAnswer::Given(secret),
            Some(None) => {
                SecretAnswer::Missing(format!("the secret `{name}` is granted to this plugin, but it is not set"))
            }
            None => SecretAnswer::Denied(format!(
                "this plugin may not read the secret `{name}`; list it under the plugin's secrets and grant it"
            )),
        }
    }

    /// The WASI world this guest lives in.
    pub(crate) fn wasi(&self, logbook: &Arc<Logbook>) -> WasiCtx {
        let pipe = |stream| LogPipe { stream, logbook: Arc::clone(logbook) };
        WasiCtxBuilder::new()
            .stdout(pipe(Stream::Stdout))
            .stderr(pipe(Stream::Stderr))
            .max_random_size(RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_given_only_when_it_is_granted_and_set() {
        let secrets = [("token".to_owned(), Some(Secret::new("s3cret"))), ("unset".to_owned(), None)];
        let grants = Grants::new(BTreeMap::new(), BTreeMap::from(secrets));
        assert!(matches!(grants.secret("token"), SecretAnswer::Given(secret) if secret.reveal() == "s3cret"));
        assert!(matches!(grants.secret("unset"), SecretAnswer::Missing(how) if how.contains("not set")));
        assert!(matches!(grants.secret("other"), SecretAnswer::Denied(how) if how.contains("grant it")));
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
    }
}
