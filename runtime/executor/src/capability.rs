//! What a guest is allowed. This is the only place where a permission is decided.
//!
//! Denied is the default: no files, no network, no environment, no arguments, no standard input. What a guest has anyway:
//! clocks, random numbers, and output that ends in its log. What the rules about hosts and addresses mean stands in
//! `windlass_core::egress`; here they are applied.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};
use windlass_core::egress::{Reach, reach};
use windlass_core::grant::HostRule;
use windlass_core::manifest::Capabilities;
use windlass_core::queue_pattern::QueuePattern;

use crate::attempt::Secret;
use crate::folders::{FolderScope, Unusable};
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
    /// Where on this machine those folders may lie.
    pub scope: FolderScope,
    /// The hosts it may send HTTP requests to.
    pub http: Vec<HostRule>,
    /// The queues that the plugin serves: their records it may read and mark, and jobs it may spawn into them.
    pub queues: Vec<String>,
    /// Other queues that it may spawn jobs into.
    pub spawn: Vec<QueuePattern>,
    /// What the plugin's manifest asks for, so that a denial says only what is missing.
    pub asked: Capabilities,
    /// What the plugin asked for and was not granted, each a sentence that says how to grant it. It goes into the error of an
    /// attempt that fails, because this may well be why.
    pub denied: Vec<String>,
    /// How the command begins that grants this plugin something, such as `windlass plugin grant mailer`: for what it tries and was
    /// not granted.
    pub grant_command: String,
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

/// A granted folder that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the folder {} that is granted to this plugin as `{guest}` cannot be opened: {why}", host.display())]
pub(crate) struct NoFolder {
    host: PathBuf,
    guest: String,
    why: Unusable,
}

impl NoFolder {
    /// Whether it may be there, and the system could not open it.
    pub(crate) fn host_is_in_trouble(&self) -> bool {
        self.why.is_shortage()
    }
}

/// The hosts that one attempt may reach, for whoever connects on its behalf.
#[derive(Clone)]
pub(crate) struct Hosts {
    rules: Arc<[HostRule]>,
    grant_command: Arc<str>,
}

/// A request that was not allowed; says what to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

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
                let how = format!("windlass secret set {name}");
                SecretAnswer::Missing(format!(
                    "the secret `{name}` is granted to this plugin, but it is not set: {how}"
                ))
            }
            None => SecretAnswer::Denied(format!(
                "the secret `{name}` is not granted; to allow it, let the plugin ask for it (`secrets` under `[capabilities]` in \
                 its windlass.toml) and grant it: {} --secret {name}",
                self.grant_command
            )),
        }
    }

    /// Whether the plugin serves a queue, and so may read and mark its records.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.queues.iter().any(|served| served == queue)
    }

    /// Whether the guest may start a job in a queue. With nothing granted, only in those that its own plugin serves: another one may
    /// be granted what this one is not.
    pub(crate) fn spawns(&self, queue: &str) -> Result<(), Refused> {
        if self.serves(queue) || self.spawn.iter().any(|pattern| pattern.covers(queue)) {
            return Ok(());
        }
        let asked = self.asked.spawn.iter().any(|pattern| pattern.covers(queue));
        let what = format!("spawning into the queue `{queue}`");
        Err(Refused(self.denial(&what, asked, "spawn", &format!("--spawn {queue}"))))
    }

    /// What to do about something that is not granted: by the operator alone, or by the plugin's author first.
    fn denial(&self, what: &str, asked: bool, field: &str, flag: &str) -> String {
        let command = &self.grant_command;
        match asked {
            true => format!("{what} is not granted; to allow it: {command} {flag}"),
            false => format!(
                "{what} is not granted; to allow it, let the plugin ask for it (`{field}` under `[capabilities]` in its \
                 windlass.toml) and grant it: {command} {flag}"
            ),
        }
    }

    /// Whether the guest may read and mark the records of a queue; `tied` are those that a gate ties to its own.
    pub(crate) fn records(&self, queue: &str, tied: &[String]) -> Result<(), Refused> {
        if self.serves(queue) || tied.iter().any(|other| other == queue) {
            return Ok(());
        }
        Err(Refused(format!(
            "this plugin may not read or mark records of the queue `{queue}`; to allow it, let the plugin serve that queue \
             (`queues` in its windlass.toml), or tie the two queues by a gate: windlass queue set QUEUE --gate {queue}:1"
        )))
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
        for folder in &self.folders {
            let Folder { host, guest, .. } = folder;
            let failed = |why| NoFolder { host: host.clone(), guest: guest.clone(), why };
            self.give(&mut wasi, folder).map_err(failed)?;
        }
        Ok(wasi.build())
    }

    fn give(&self, wasi: &mut WasiCtxBuilder, folder: &Folder) -> Result<(), Unusable> {
        let Folder { host, guest, write } = folder;
        let perms = if *write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let opened = self.scope.open(host)?;
        let given = wasi.preopened_dir(opened.path(), guest, perms);
        given.map(drop).map_err(|error| Unusable::System(system_error(&error)))
    }

    pub(crate) fn hosts(&self) -> Hosts {
        Hosts { rules: self.http.as_slice().into(), grant_command: self.grant_command.as_str().into() }
    }

    /// The error of a failed attempt, with what it was not granted: what its manifest asked for in vain, and what it tried.
    pub(crate) fn explain(&self, error: String, tried: &[String]) -> String {
        let denied: Vec<&str> = tried.iter().chain(&self.denied).map(String::as_str).collect();
        if denied.is_empty() {
            return error;
        }
        let denied = denied.join("\n- ");
        cut(format!("{error}\nThis plugin asked for what it was not granted:\n- {denied}"), 2 * ERROR_BYTES)
    }
}

impl Hosts {
    /// Whether a request to this host may be tried at all. Where it may connect to is decided for each address it has.
    pub(crate) fn host(&self, host: &str, port: u16) -> Result<(), Refused> {
        if self.rules.iter().any(|rule| rule.pattern.covers(host, port)) {
            return Ok(());
        }
        let pattern = pattern(host, port);
        Err(Refused(format!(
            "HTTP to `{pattern}` is not granted; to allow it, let the plugin ask for it (`http` under `[capabilities]` in its \
             windlass.toml) and grant it: {} --http {pattern}",
            self.grant_command
        )))
    }

    /// Whether the host may be reached under this address, which its name has led to.
    pub(crate) fn address(&self, host: &str, port: u16, address: IpAddr) -> Result<(), Refused> {
        let private = self.rules.iter().any(|rule| rule.private && rule.pattern.covers(host, port));
        let pattern = pattern(host, port);
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Private(_) if private => Ok(()),
            Reach::Private(kind) => Err(Refused(format!(
                "HTTP to `{pattern}` is not granted where it leads: {address} is {kind}; to allow it: {} --private-http {pattern}",
                self.grant_command
            ))),
            Reach::Never(kind) => Err(Refused(format!(
                "HTTP to `{pattern}` is never allowed where it leads: {address} is {kind}; send the request to a host of its own"
            ))),
        }
    }
}

/// The system's own error among the causes.
fn system_error(error: &wasmtime::Error) -> io::Error {
    let code = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    code.map_or_else(|| io::Error::other(error.root_cause().to_string()), io::Error::from_raw_os_error)
}

/// How a host is written in a grant.
fn pattern(host: &str, port: u16) -> String {
    if matches!(port, 80 | 443) { host.to_owned() } else { format!("{host}:{port}") }
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
        assert!(matches!(permissions.secret("other"), SecretAnswer::Denied(how) if how.contains("--secret other")));
    }

    #[test]
    fn records_are_seen_of_queues_that_the_plugin_serves_or_a_gate_ties() {
        let permissions = Permissions { queues: vec!["src".to_owned()], ..Permissions::default() };
        assert_eq!(permissions.records("src", &[]), Ok(()));
        assert_eq!(permissions.records("dst", &["dst".to_owned()]), Ok(()));
        let Refused(how) = permissions.records("other", &["dst".to_owned()]).expect_err("nothing allows it");
        assert!(how.contains("`other`") && how.contains("--gate other:1"), "{how}");
    }

    #[test]
    fn jobs_are_spawned_into_the_plugins_own_queues_and_those_that_are_granted() {
        let mut permissions = Permissions {
            queues: vec!["own".to_owned()],
            spawn: vec!["bills.*".parse().expect("a pattern")],
            grant_command: "windlass plugin grant mailer".to_owned(),
            ..Permissions::default()
        };
        assert_eq!(permissions.spawns("own"), Ok(()));
        assert_eq!(permissions.spawns("bills.send"), Ok(()));
        let Refused(how) = permissions.spawns("other").expect_err("nobody allows it");
        assert!(how.ends_with("windlass plugin grant mailer --spawn other") && how.contains("windlass.toml"), "{how}");
        permissions.asked.spawn = vec!["*".parse().expect("a pattern")];
        let Refused(how) = permissions.spawns("other").expect_err("only the operator is missing");
        assert!(how.ends_with("windlass plugin grant mailer --spawn other") && !how.contains("windlass.toml"), "{how}");
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
    }

    #[test]
    fn a_failure_names_what_was_denied_and_a_plugin_that_got_everything_reads_as_before() {
        let mut permissions = Permissions::default();
        assert_eq!(permissions.explain("no".to_owned(), &[]), "no");
        permissions.denied.push("the secret `key` is not granted".to_owned());
        let tried = ["HTTP to `a.com` is not granted".to_owned()];
        let told = permissions.explain("no".to_owned(), &tried);
        assert!(told.ends_with("not granted:\n- HTTP to `a.com` is not granted\n- the secret `key` is not granted"));
    }

    fn hosts(rules: &[(&str, bool)]) -> Hosts {
        let rule = |(text, private): &(&str, bool)| HostRule {
            pattern: text.parse().unwrap_or_else(|why: String| panic!("{why}")),
            private: *private,
        };
        Hosts { rules: rules.iter().map(rule).collect(), grant_command: "windlass plugin grant mailer".into() }
    }

    #[test]
    fn a_host_is_reached_only_by_a_rule_and_a_private_address_only_by_a_private_one() {
        let hosts = hosts(&[("api.example.com", false), ("db.internal:8080", true)]);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(hosts.host("api.example.com", 443), Ok(()));
        let Refused(how) = hosts.host("evil.org", 8080).expect_err("no rule");
        assert!(
            how.contains("windlass plugin grant mailer --http evil.org:8080") && how.contains("windlass.toml"),
            "{how}"
        );
        assert_eq!(hosts.address("api.example.com", 443, address("93.184.216.34")), Ok(()));
        for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "100.64.0.1"] {
            let Refused(how) = hosts.address("api.example.com", 443, address(inside)).expect_err(inside);
            assert!(how.contains("windlass plugin grant mailer --private-http api.example.com"), "{how}");
            assert_eq!(hosts.address("db.internal", 8080, address(inside)), Ok(()), "{inside}");
        }
        let Refused(how) = hosts.address("db.internal", 8080, address("0.0.0.0")).expect_err("nobody's address");
        assert!(how.contains("never allowed"), "{how}");
    }
}
