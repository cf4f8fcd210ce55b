//! What a guest is allowed. This is the only place where a permission is decided.
//!
//! The default is to deny: no files, no network, no environment, no arguments, no standard input. A guest always has
//! clocks, random numbers, and output that is written to its log. What the rules about hosts and addresses mean is
//! defined in `windlass_core::plugin::egress`; they are applied here.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};
use windlass_core::plugin::egress::{HostPattern, Reach, reach};
use windlass_core::plugin::grant::{Denied, HostRule};
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
    /// What the plugin asked for and was not granted, each a sentence that says how to grant it. It is added to the
    /// error of an attempt that fails, because it may well be the cause.
    pub denied: Vec<String>,
    /// How messages about denied capabilities are worded.
    pub wording: Wording,
}

/// Says in words what was denied, and how it is granted: the commands for that are the server's.
pub trait DenialText: fmt::Debug + Send + Sync {
    /// The sentence about a denial. `asked` says whether the manifest asks for it: if not, the plugin's author comes
    /// first.
    fn denied(&self, denied: &Denied, asked: bool) -> String;

    /// The same of a host that may be reached, but not at this address, which is of this kind.
    fn private_address(&self, denied: &Denied, address: IpAddr, kind: &str) -> String;

    /// The part of such a sentence that is said only once, however often it is denied: the command.
    fn command<'a>(&self, sentence: &'a str) -> &'a str;
}

/// A [`DenialText`]; the default says what was denied and no more.
#[derive(Clone, Debug)]
pub struct Wording(pub Arc<dyn DenialText>);

#[derive(Debug)]
struct Plain;

impl DenialText for Plain {
    fn denied(&self, denied: &Denied, _: bool) -> String {
        format!("{} is not granted", denied.what)
    }

    fn private_address(&self, denied: &Denied, address: IpAddr, kind: &str) -> String {
        format!("{} is not granted at its address: {address} is {kind}", denied.what)
    }

    fn command<'a>(&self, sentence: &'a str) -> &'a str {
        sentence
    }
}

impl Default for Wording {
    fn default() -> Wording {
        Wording(Arc::new(Plain))
    }
}

/// Permissions are the same however their denials are worded.
impl PartialEq for Wording {
    fn eq(&self, _: &Wording) -> bool {
        true
    }
}

impl Eq for Wording {}

impl Wording {
    fn refused(&self, denied: Denied, asked: bool) -> Refused {
        Refused { how: self.0.denied(&denied, asked), denied: Some(Box::new(denied)) }
    }
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
    wording: Wording,
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
                SecretAnswer::Denied(self.wording.refused(Denied::secret(name), asked))
            }
        }
    }

    /// Whether the plugin serves a queue, and so may read and mark its records.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.queues.iter().any(|served| served == queue)
    }

    /// Whether the guest may spawn a job into a queue. Without a grant, only into those that its own plugin serves,
    /// because another plugin may have grants that this one has not.
    pub(crate) fn spawns(&self, queue: &str) -> Result<(), Refused> {
        if self.serves(queue) || self.spawn.iter().any(|pattern| pattern.covers(queue)) {
            return Ok(());
        }
        let Ok(name) = queue.parse::<QueuePattern>() else {
            return Err(Refused::by_rule(format!("{queue:?} is not the name of a queue")));
        };
        let asked = self.asked.spawn.iter().find(|pattern| pattern.covers(queue));
        Err(self.wording.refused(Denied::spawn(&name, asked), asked.is_some()))
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
            wording: self.wording.clone(),
        }
    }

    /// The error of a failed attempt, with what the plugin was not granted: what its manifest asks for, and what the
    /// attempt tried. A denial that the message already contains is not repeated.
    pub(crate) fn explain(&self, error: String, tried: &[String]) -> String {
        let mut message = error;
        let mut is_first = true;
        for denial in tried.iter().chain(&self.denied) {
            let command = self.wording.0.command(denial);
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
        Err(self.wording.refused(denied, asked.is_some()))
    }

    /// Whether the host may be reached at this address, which its name resolved to.
    pub(crate) fn address(&self, host: &str, port: u16, address: IpAddr) -> Result<(), Refused> {
        let private = self.rules.iter().any(|rule| rule.private && rule.pattern.covers(host, port));
        let pattern = HostPattern::exactly(host, port);
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Private(_) if private => Ok(()),
            Reach::Private(kind) => {
                let denied = Denied::private_address(&pattern);
                let how = self.wording.0.private_address(&denied, address, kind);
                Err(Refused { how, denied: Some(Box::new(denied)) })
            }
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

    /// Says what is needed, and whether the manifest asks for it.
    #[derive(Debug)]
    struct Short;

    impl DenialText for Short {
        fn denied(&self, denied: &Denied, asked: bool) -> String {
            format!("{}: {:?}", if asked { "asked" } else { "unasked" }, denied.needed)
        }

        fn private_address(&self, denied: &Denied, _: IpAddr, kind: &str) -> String {
            format!("{kind}: {:?}", denied.needed)
        }

        fn command<'a>(&self, sentence: &'a str) -> &'a str {
            sentence.split_once(": ").map_or(sentence, |(_, command)| command)
        }
    }

    fn short() -> Wording {
        Wording(Arc::new(Short))
    }

    #[test]
    fn a_secret_is_given_only_when_it_is_granted_and_set() {
        let secrets = [("token".to_owned(), Some(Secret::new("s3cret"))), ("unset".to_owned(), None)];
        let permissions = Permissions { secrets: BTreeMap::from(secrets), wording: short(), ..Permissions::default() };
        assert!(matches!(permissions.secret("token"), SecretAnswer::Given(secret) if secret.reveal() == "s3cret"));
        assert!(matches!(permissions.secret("unset"), SecretAnswer::Missing(how) if how.contains("not set")));
        let SecretAnswer::Denied(refused) = permissions.secret("other") else { panic!("it is not granted") };
        assert_eq!(refused.how, "unasked: Secret(\"other\")");
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
            wording: short(),
            ..Permissions::default()
        };
        assert_eq!(permissions.spawns("own"), Ok(()));
        assert_eq!(permissions.spawns("bills.send"), Ok(()));
        let mut how = |asked: &[&str]| {
            permissions.asked.spawn = asked.iter().map(|text| text.parse().expect("a pattern")).collect();
            permissions.spawns("other").expect_err("it is not granted").how
        };
        assert_eq!(how(&[]), "unasked: Spawn(\"other\")");
        assert_eq!(how(&["*"]), "asked: Spawn(\"other\")");
        assert_eq!(how(&["ot*"]), "asked: Spawn(\"ot*\")");
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
        let line = |flag: &str| format!("it is not granted; to allow it: grant mailer {flag}");
        let mut permissions = Permissions { wording: short(), ..Permissions::default() };
        permissions.denied = ["--secret key", "--http a.com", "--spawn 'b.*'"].map(line).to_vec();
        let table: [(&str, &[&str], &[&str]); 5] = [
            ("no", &[], &["--secret key", "--http a.com", "--spawn 'b.*'"]),
            ("refused: the secret; grant mailer --secret key", &[], &["--http a.com", "--spawn 'b.*'"]),
            ("no", &["--http a.com"], &["--http a.com", "--secret key", "--spawn 'b.*'"]),
            ("no", &["--http a.com:81"], &["--http a.com:81", "--secret key", "--http a.com", "--spawn 'b.*'"]),
            ("(grant mailer --http a.com). grant mailer --secret key. grant mailer --spawn 'b.*'", &[], &[]),
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
        let how = |asked: &[&str], host: &str, port| {
            let mut permissions = Permissions { wording: short(), ..Permissions::default() };
            permissions.asked.http = asked.iter().map(|text| text.parse().expect("a pattern")).collect();
            permissions.hosts().host(host, port).expect_err("it is not granted").how
        };
        for (host, port, needed) in [
            ("127.0.0.1", 7070, "PrivateHttp(\"127.0.0.1:7070\")"),
            ("::1", 8080, "PrivateHttp(\"[::1]:8080\")"),
            ("localhost", 80, "PrivateHttp(\"localhost\")"),
            ("host.docker.internal", 9000, "PrivateHttp(\"host.docker.internal:9000\")"),
            ("93.184.216.34", 443, "Http(\"93.184.216.34\")"),
            ("db.example.com", 443, "Http(\"db.example.com\")"),
        ] {
            let pattern = HostPattern::exactly(host, port).to_string();
            assert_eq!(how(&[], host, port), format!("unasked: {needed}"));
            assert_eq!(how(&[pattern.as_str()], host, port), format!("asked: {needed}"));
        }
    }

    fn hosts(rules: &[(&str, bool)]) -> Hosts {
        let rule = |(text, private): &(&str, bool)| HostRule {
            pattern: text.parse().unwrap_or_else(|why: String| panic!("{why}")),
            private: *private,
        };
        Hosts { rules: rules.iter().map(rule).collect(), asked: Arc::default(), wording: short() }
    }

    #[test]
    fn a_host_is_reached_only_by_a_rule_and_a_private_address_only_by_a_private_one() {
        let hosts = hosts(&[("api.example.com", false), ("db.internal:8080", true)]);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(hosts.host("api.example.com", 443), Ok(()));
        let Refused { how, .. } = hosts.host("evil.org", 8080).expect_err("no rule");
        assert_eq!(how, "unasked: Http(\"evil.org:8080\")");
        assert_eq!(hosts.address("api.example.com", 443, address("93.184.216.34")), Ok(()));
        for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "100.64.0.1"] {
            let Refused { how, .. } = hosts.address("api.example.com", 443, address(inside)).expect_err(inside);
            assert!(how.ends_with(": PrivateHttp(\"api.example.com\")"), "{how}");
            assert_eq!(hosts.address("db.internal", 8080, address(inside)), Ok(()), "{inside}");
        }
        let Refused { how, .. } =
            hosts.address("db.internal", 8080, address("0.0.0.0")).expect_err("an unspecified address");
        assert!(how.contains("never allowed"), "{how}");
    }
}
