//! What a guest is allowed. This is the only place where a permission is decided.
//!
//! The default is to deny: no files, no network, no environment, no arguments, no standard input. A guest always has
//! clocks, random numbers, and output that is written to its log. What the rules about hosts and addresses mean is defined in
//! `windlass_core::plugin::egress`; they are applied here.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};
use windlass_core::plugin::egress::{HostPattern, Reach, reach};
use windlass_core::plugin::grant::{Denied, HostRule, shell_quoted};
use windlass_core::plugin::manifest::Capabilities;
use windlass_core::queue_pattern::QueuePattern;

use crate::attempt::Secret;
use crate::attempt::log::AttemptLog;
use crate::attempt::stdio::LogPipe;
use crate::folders::{FolderScope, Unusable};
use crate::host::Stream;
use crate::limits::{ERROR_BYTES, RANDOM_BYTES, cut};

/// What one attempt is allowed under the operator's grant. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What `config.get` returns.
    pub config: BTreeMap<String, String>,
    /// The secrets it may read; `None` is granted but not set. Any other name is denied.
    pub secrets: BTreeMap<String, Option<Secret>>,
    /// Its whole environment. Nothing is taken from the server's own.
    pub environment: BTreeMap<String, String>,
    pub folders: Vec<Folder>,
    /// Where on this machine those folders may be.
    pub scope: FolderScope,
    /// The hosts it may send HTTP requests to.
    pub http: Vec<HostRule>,
    /// The queues that the plugin serves. It may read and mark their records and spawn jobs into them.
    pub queues: Vec<String>,
    /// Other queues that it may spawn jobs into.
    pub spawn: Vec<QueuePattern>,
    /// What the plugin's manifest asks for, so that a denial says only what is missing.
    pub asked: Capabilities,
    /// What the plugin asked for and was not granted, each a sentence that says how to grant it. It is added to the error of an
    /// attempt that fails, because it may well be the cause.
    pub denied: Vec<String>,
    /// The start of the command that grants this plugin something, such as `windlass plugin grant mailer`, for messages about
    /// denied capabilities.
    pub grant_command: String,
}

/// A folder that a guest may see. The guest cannot leave it, neither by `..` nor by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its path on this machine.
    pub host: PathBuf,
    /// Its path in the guest.
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
    /// Whether the system ran out of resources, so that the folder itself may be fine.
    pub(crate) fn is_shortage(&self) -> bool {
        self.why.is_shortage()
    }
}

/// The hosts that one attempt may reach, for the HTTP client that connects on its behalf.
#[derive(Clone)]
pub(crate) struct Hosts {
    rules: Arc<[HostRule]>,
    /// What the manifest asks for.
    asked: Arc<[HostPattern]>,
    grant_command: Arc<str>,
}

/// Something that was not allowed: a sentence that says what would allow it, and the same as data, where a grant would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) how: String,
    pub(crate) denied: Option<Box<Denied>>,
}

impl Refused {
    fn by_rule(how: String) -> Refused {
        Refused { how, denied: None }
    }
}

/// The answer to a guest that asks for a secret.
pub(crate) enum SecretAnswer<'a> {
    Given(&'a Secret),
    /// Granted, but not set; the message says how to set it.
    Missing(String),
    Denied(Refused),
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
            None => {
                let asked = self.asked.secrets.iter().any(|asked| asked == name);
                SecretAnswer::Denied(refused(Denied::secret(name), asked, &self.grant_command))
            }
        }
    }

    /// Whether the plugin serves a queue, and so may read and mark its records.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.queues.iter().any(|served| served == queue)
    }

    /// Whether the guest may spawn a job into a queue. Without a grant, only into those that its own plugin serves, because another
    /// plugin may have grants that this one has not.
    pub(crate) fn spawns(&self, queue: &str) -> Result<(), Refused> {
        if self.serves(queue) || self.spawn.iter().any(|pattern| pattern.covers(queue)) {
            return Ok(());
        }
        let Ok(name) = queue.parse::<QueuePattern>() else {
            return Err(Refused::by_rule(format!("{queue:?} is not the name of a queue")));
        };
        let asked = self.asked.spawn.iter().find(|pattern| pattern.covers(queue));
        Err(refused(Denied::spawn(&name, asked), asked.is_some(), &self.grant_command))
    }

    /// Whether the guest may read and mark the records of a queue; `tied` are those that a gate ties to its own.
    pub(crate) fn records(&self, queue: &str, tied: &[String]) -> Result<(), Refused> {
        if self.serves(queue) || tied.iter().any(|other| other == queue) {
            return Ok(());
        }
        Err(Refused::by_rule(format!(
            "this plugin may not read or mark records of the queue `{queue}`; to allow it, let the plugin serve that queue \
             (`queues` in its windlass.toml), or tie the two queues by a gate: windlass queue set QUEUE --gate {queue}:1"
        )))
    }

    /// The WASI context of the guest.
    pub(crate) fn wasi(&self, log: &Arc<AttemptLog>) -> Result<WasiCtx, NoFolder> {
        let pipe = |stream| LogPipe { stream, log: Arc::clone(log) };
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
            self.preopen(&mut wasi, folder).map_err(failed)?;
        }
        Ok(wasi.build())
    }

    fn preopen(&self, wasi: &mut WasiCtxBuilder, folder: &Folder) -> Result<(), Unusable> {
        let Folder { host, guest, write } = folder;
        let perms = if *write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let opened = self.scope.open(host)?;
        let given = wasi.preopened_dir(opened.path(), guest, perms);
        given.map(drop).map_err(|error| Unusable::System(system_error(&error)))
    }

    pub(crate) fn hosts(&self) -> Hosts {
        Hosts {
            rules: self.http.as_slice().into(),
            asked: self.asked.http.as_slice().into(),
            grant_command: self.grant_command.as_str().into(),
        }
    }

    /// The error of a failed attempt, with what the plugin was not granted: what its manifest asks for, and what the attempt tried.
    /// A denial that the message already contains is not repeated.
    pub(crate) fn explain(&self, error: String, tried: &[String]) -> String {
        let mut message = error;
        let mut is_first = true;
        for denial in tried.iter().chain(&self.denied) {
            let command = denial.find(&self.grant_command).map_or(denial.as_str(), |at| &denial[at..]);
            if !contains_phrase(&message, command) {
                if is_first {
                    message.push_str("\nThis plugin asked for capabilities that it was not granted:");
                    is_first = false;
                }
                message.push_str("\n- ");
                message.push_str(denial);
            }
        }
        cut(message, 2 * ERROR_BYTES)
    }
}

impl Hosts {
    /// Whether a request to this host may be tried at all. Each of its addresses is then checked by `address`.
    pub(crate) fn host(&self, host: &str, port: u16) -> Result<(), Refused> {
        if self.rules.iter().any(|rule| rule.pattern.covers(host, port)) {
            return Ok(());
        }
        let asked = self.asked.iter().find(|pattern| pattern.covers(host, port));
        let denied = Denied::http(&HostPattern::exactly(host, port), asked);
        Err(refused(denied, asked.is_some(), &self.grant_command))
    }

    /// Whether the host may be reached at this address, which its name resolved to.
    pub(crate) fn address(&self, host: &str, port: u16, address: IpAddr) -> Result<(), Refused> {
        let private = self.rules.iter().any(|rule| rule.private && rule.pattern.covers(host, port));
        let pattern = HostPattern::exactly(host, port);
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Private(_) if private => Ok(()),
            Reach::Private(kind) => Err(Refused {
                how: format!(
                    "HTTP to `{pattern}` is not granted at its address: {address} is {kind}; to allow it: {} --private-http {}",
                    self.grant_command,
                    shell_quoted(&pattern.to_string())
                ),
                denied: Some(Box::new(Denied::private_address(&pattern))),
            }),
            Reach::Never(kind) => Err(Refused::by_rule(format!(
                "HTTP to `{pattern}` is never allowed at its address: {address} is {kind}; send the request to another host"
            ))),
        }
    }
}

/// The operating system's error among the causes.
fn system_error(error: &wasmtime::Error) -> io::Error {
    let code = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    code.map_or_else(|| io::Error::other(error.root_cause().to_string()), io::Error::from_raw_os_error)
}

/// A denial, with its message: to the operator if the manifest asks for the capability, otherwise to the plugin's author first.
fn refused(denied: Denied, asked: bool, command: &str) -> Refused {
    let how = if asked { denied.sentence(command, None) } else { denied.unasked(command) };
    Refused { how, denied: Some(Box::new(denied)) }
}

/// Whether a text contains this phrase, and not only as the beginning of a longer one.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let rest = &text[at + phrase.len()..];
        let continues = |next: char| next.is_alphanumeric() || ".-_:/*'".contains(next);
        let end = rest.find(|next| !continues(next)).unwrap_or(rest.len());
        // Punctuation at the end of a sentence does not count.
        rest[..end].trim_end_matches(['.', ':']).is_empty()
    })
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
        assert!(
            matches!(permissions.secret("other"), SecretAnswer::Denied(refused) if refused.how.contains("--secret other"))
        );
    }

    #[test]
    fn a_plugin_sees_records_of_the_queues_that_it_serves_or_that_a_gate_ties() {
        let permissions = Permissions { queues: vec!["src".to_owned()], ..Permissions::default() };
        assert_eq!(permissions.records("src", &[]), Ok(()));
        assert_eq!(permissions.records("dst", &["dst".to_owned()]), Ok(()));
        let Refused { how, .. } = permissions.records("other", &["dst".to_owned()]).expect_err("nothing allows it");
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
        let Refused { how, .. } = permissions.spawns("other").expect_err("it is not granted");
        assert!(how.ends_with("windlass plugin grant mailer --spawn other") && how.contains("windlass.toml"), "{how}");
        permissions.asked.spawn = vec!["*".parse().expect("a pattern")];
        let Refused { how, .. } = permissions.spawns("other").expect_err("only the operator is missing");
        assert!(how.ends_with("windlass plugin grant mailer --spawn other") && !how.contains("windlass.toml"), "{how}");
        permissions.asked.spawn = vec!["ot*".parse().expect("a pattern")];
        let Refused { how, .. } = permissions.spawns("other").expect_err("only the operator is missing");
        assert!(how.ends_with("windlass plugin grant mailer --spawn 'ot*'"), "{how}");
    }

    #[test]
    fn a_secret_is_not_shown_by_debug_output() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(…)");
    }

    #[test]
    fn a_failure_names_what_was_denied_and_is_unchanged_when_nothing_was() {
        let mut permissions = Permissions::default();
        assert_eq!(permissions.explain("no".to_owned(), &[]), "no");
        permissions.denied.push("the secret `key` is not granted".to_owned());
        let tried = ["HTTP to `a.com` is not granted".to_owned()];
        let message = permissions.explain("no".to_owned(), &tried);
        assert!(message.ends_with("not granted:\n- HTTP to `a.com` is not granted\n- the secret `key` is not granted"));
    }

    /// An error that already contains the command, in any wording, has it once.
    #[test]
    fn a_denial_is_reported_once() {
        let line = |flag: &str| format!("it is not granted; to allow it: windlass plugin grant mailer {flag}");
        let mut permissions =
            Permissions { grant_command: "windlass plugin grant mailer".to_owned(), ..Permissions::default() };
        permissions.denied = ["--secret key", "--http a.com", "--spawn 'b.*'"].map(line).to_vec();
        let table: [(&str, &[&str], &[&str]); 5] = [
            ("no", &[], &["--secret key", "--http a.com", "--spawn 'b.*'"]),
            ("refused: the secret; windlass plugin grant mailer --secret key", &[], &["--http a.com", "--spawn 'b.*'"]),
            ("no", &["--http a.com"], &["--http a.com", "--secret key", "--spawn 'b.*'"]),
            ("no", &["--http a.com:81"], &["--http a.com:81", "--secret key", "--http a.com", "--spawn 'b.*'"]),
            (
                "(windlass plugin grant mailer --http a.com). windlass plugin grant mailer --secret key. \
                 windlass plugin grant mailer --spawn 'b.*'",
                &[],
                &[],
            ),
        ];
        for (error, tried, expected) in table {
            let tried: Vec<String> = tried.iter().map(|flag| line(flag)).collect();
            let mut whole = error.to_owned();
            if !expected.is_empty() {
                let lines: Vec<String> = expected.iter().map(|flag| format!("\n- {}", line(flag))).collect();
                whole =
                    format!("{error}\nThis plugin asked for capabilities that it was not granted:{}", lines.concat());
            }
            assert_eq!(permissions.explain(error.to_owned(), &tried), whole);
        }
    }

    #[test]
    fn a_request_to_a_private_host_is_denied_with_the_private_grant() {
        let permissions = |asked: &[&str]| {
            let mut permissions =
                Permissions { grant_command: "windlass plugin grant mailer".to_owned(), ..Permissions::default() };
            permissions.asked.http = asked.iter().map(|text| text.parse().expect("a pattern")).collect();
            permissions
        };
        let private_if = "(with --private-http instead if its address is not a public one)";
        for (host, port, flag, note) in [
            ("127.0.0.1", 7070, "--private-http 127.0.0.1:7070", false),
            ("::1", 8080, "--private-http '[::1]:8080'", false),
            ("localhost", 80, "--private-http localhost", false),
            ("host.docker.internal", 9000, "--private-http host.docker.internal:9000", false),
            ("93.184.216.34", 443, "--http 93.184.216.34", false),
            ("db.example.com", 443, "--http db.example.com", true),
        ] {
            let pattern = HostPattern::exactly(host, port).to_string();
            for (asked, by_author) in [(vec![], true), (vec![pattern.as_str()], false)] {
                let Refused { how, .. } = permissions(&asked).hosts().host(host, port).expect_err("it is not granted");
                assert!(how.ends_with(&format!("windlass plugin grant mailer {flag}")), "{how}");
                assert_eq!((how.contains(private_if), how.contains("windlass.toml")), (note, by_author), "{how}");
            }
        }
        let Refused { how, .. } = permissions(&[]).hosts().host("0.0.0.0", 80).expect_err("an unspecified address");
        assert!(how.contains("never allowed") && !how.contains("grant mailer"), "{how}");
    }

    fn hosts(rules: &[(&str, bool)]) -> Hosts {
        let rule = |(text, private): &(&str, bool)| HostRule {
            pattern: text.parse().unwrap_or_else(|why: String| panic!("{why}")),
            private: *private,
        };
        Hosts {
            rules: rules.iter().map(rule).collect(),
            asked: Arc::default(),
            grant_command: "windlass plugin grant mailer".into(),
        }
    }

    #[test]
    fn a_host_is_reached_only_by_a_rule_and_a_private_address_only_by_a_private_one() {
        let hosts = hosts(&[("api.example.com", false), ("db.internal:8080", true)]);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(hosts.host("api.example.com", 443), Ok(()));
        let Refused { how, .. } = hosts.host("evil.org", 8080).expect_err("no rule");
        assert!(
            how.contains("windlass plugin grant mailer --http evil.org:8080") && how.contains("windlass.toml"),
            "{how}"
        );
        assert_eq!(hosts.address("api.example.com", 443, address("93.184.216.34")), Ok(()));
        for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "100.64.0.1"] {
            let Refused { how, .. } = hosts.address("api.example.com", 443, address(inside)).expect_err(inside);
            assert!(how.contains("windlass plugin grant mailer --private-http api.example.com"), "{how}");
            assert_eq!(hosts.address("db.internal", 8080, address(inside)), Ok(()), "{inside}");
        }
        let Refused { how, .. } =
            hosts.address("db.internal", 8080, address("0.0.0.0")).expect_err("an unspecified address");
        assert!(how.contains("never allowed"), "{how}");
    }
}
