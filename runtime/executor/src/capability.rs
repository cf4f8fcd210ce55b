//! What a guest is allowed. This is the only place where a permission is decided.
//!
//! Denied is the default: no files, no network, no environment, no arguments, no standard input. What a guest has anyway:
//! clocks, random numbers, and output that ends in its log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use crate::attempt::Secret;
use crate::host::Stream;
use crate::limits::{ERROR_BYTES, RANDOM_BYTES, cut};
use crate::logbook::Logbook;
use crate::stdio::LogPipe;

/// What one attempt is allowed, as the operator's grant has left it. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What `config.get` finds.
    pub config: BTreeMap<String, String>,
    /// The secrets it may read; `None` is granted but not set. A name that is not here is denied.
    pub secrets: BTreeMap<String, Option<Secret>>,
    /// Its whole environment. Nothing is taken from the server's own.
    pub environment: BTreeMap<String, String>,
    pub folders: Vec<Folder>,
    /// What the plugin asked for and was not granted, each a sentence that says how to grant it. It goes into the error of an
    /// attempt that fails, because this may well be why.
    pub denied: Vec<String>,
}

/// A folder that a guest may see. It cannot leave it, neither by `..` nor by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it lies on this machine.
    pub host: PathBuf,
    /// The path under which the guest finds it.
    pub guest: String,
    pub write: bool,
}

/// A granted folder that is not there.
#[derive(Debug, thiserror::Error)]
#[error("the folder {} that is granted to this plugin as `{guest}` cannot be opened: {reason}. Create it, or change the grant",
    host.display())]
pub(crate) struct NoFolder {
    host: PathBuf,
    guest: String,
    reason: String,
}

/// The answer to a guest that asks for a secret.
pub(crate) enum SecretAnswer<'a> {
    Given(&'a Secret),
    /// Granted, but nobody has set it; says how to.
    Missing(String),
    /// Not granted; says what to grant.
    Denied(String),
}

impl Permissions {
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
    pub(crate) fn wasi(&self, logbook: &Arc<Logbook>) -> Result<WasiCtx, NoFolder> {
        let pipe = |stream| LogPipe { stream, logbook: Arc::clone(logbook) };
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(pipe(Stream::Stdout))
            .stderr(pipe(Stream::Stderr))
            .max_random_size(RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false);
        for (name, value) in &self.environment {
            wasi.env(name, value);
        }
        for Folder { host, guest, write } in &self.folders {
            let perms = if *write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            if let Err(error) = wasi.preopened_dir(host, guest, perms) {
                let reason = error.root_cause().to_string();
                return Err(NoFolder { host: host.clone(), guest: guest.clone(), reason });
            }
        }
        Ok(wasi.build())
    }

    /// The error of a failed attempt, with what it was not granted.
    pub(crate) fn explain(&self, error: String) -> String {
        if self.denied.is_empty() {
            return error;
        }
        let denied = self.denied.join("\n- ");
        cut(format!("{error}\nThis plugin asked for what it was not granted:\n- {denied}"), 2 * ERROR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_given_only_when_it_is_granted_and_set() {
        let secrets = [("token".to_owned(), Some(Secret::new("s3cret"))), ("unset".to_owned(), None)];
        let permissions = Permissions { secrets: BTreeMap::from(secrets), ..Permissions::default() };
        assert!(matches!(permissions.secret("token"), SecretAnswer::Given(secret) if secret.reveal() == "s3cret"));
        assert!(matches!(permissions.secret("unset"), SecretAnswer::Missing(how) if how.contains("not set")));
        assert!(matches!(permissions.secret("other"), SecretAnswer::Denied(how) if how.contains("grant it")));
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
    }

    #[test]
    fn a_failure_names_what_was_denied_and_a_plugin_that_got_everything_reads_as_before() {
        let mut permissions = Permissions::default();
        assert_eq!(permissions.explain("no".to_owned()), "no");
        permissions.denied.push("the secret `key` is not granted".to_owned());
        assert!(permissions.explain("no".to_owned()).ends_with("not granted:\n- the secret `key` is not granted"));
    }
}
