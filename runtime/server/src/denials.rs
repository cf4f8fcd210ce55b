//! What a plugin is not granted, in words: the sentences that handlers, operators and logs get, and the commands and
//! flags of this program that grant it. Core says what is needed, as data; nothing else makes this text.

use std::net::IpAddr;
use std::sync::Arc;

use windlass_core::Denial;
use windlass_core::plugin::egress::HostKind;
use windlass_core::plugin::grant::{Denied, Needed};
use windlass_executor::{DenialText, Wording};

/// The beginning of the command that grants a plugin something.
pub fn grant_command(plugin: &str) -> String {
    format!("windlass plugin grant {plugin}")
}

/// The command that grants what an attempt was denied.
pub fn command_for(denial: &Denial, plugin: &str) -> String {
    let pattern = denial.grant.clone();
    let needed = match &*denial.capability {
        "private_http" => Needed::PrivateHttp(pattern),
        "secrets" => Needed::Secret(pattern),
        "spawn" => Needed::Spawn(pattern),
        _ => Needed::Http(pattern),
    };
    format!("{} {}", grant_command(plugin), flag(&needed))
}

/// How attempts of a plugin are told what they are not granted. `command` is the beginning of the command that grants
/// it.
pub fn wording(command: &str) -> Wording {
    Wording(Arc::new(Commands { command: command.to_owned() }))
}

/// The options of the command that would allow it, as `--http api.example.com`.
pub fn flag(needed: &Needed) -> String {
    let (flag, value) = match needed {
        Needed::Http(pattern) => ("--http", pattern.clone()),
        Needed::PrivateHttp(pattern) => ("--private-http", pattern.clone()),
        Needed::Folder { guest, host, write } => {
            let host = host.as_deref().unwrap_or("/a/folder/of/the/server");
            (if *write { "--write" } else { "--read" }, format!("{guest}={host}"))
        }
        Needed::Environment(name) => ("--env", format!("{name}=VALUE")),
        Needed::Secret(name) => ("--secret", name.clone()),
        Needed::Spawn(pattern) => ("--spawn", pattern.clone()),
        Needed::Limit { name, value } => return format!("--{} {value}", name.replace('_', "-")),
    };
    format!("{flag} {}", shell_quoted(&value))
}

/// The whole sentence, with the very command that grants it. `folders` says what else a folder needs on this server.
pub fn sentence(denied: &Denied, command: &str, folders: Option<&str>) -> String {
    let what = &denied.what;
    match denied.whereabouts {
        Some(HostKind::Never(kind)) => format!("{what} is never allowed: it is {kind}"),
        _ => {
            let flag = flag(&denied.needed);
            format!("{what} is not granted; to allow it{}: {command} {flag}", note(denied, folders))
        }
    }
}

/// The same for what the manifest does not ask for: the plugin's author comes first.
fn unasked(denied: &Denied, command: &str) -> String {
    match denied.whereabouts {
        Some(HostKind::Never(_)) => sentence(denied, command, None),
        _ => format!(
            "{} is not granted; to allow it, let the plugin ask for it (`{}` under `[capabilities]` in its windlass.toml) and grant \
             it{}: {command} {}",
            denied.what,
            denied.needed.field(),
            note(denied, None),
            flag(&denied.needed)
        ),
    }
}

fn note(denied: &Denied, folders: Option<&str>) -> String {
    let note = match &denied.needed {
        Needed::Folder { .. } => folders,
        Needed::Http(pattern) if denied.whereabouts == Some(HostKind::Unknown) && !pattern.contains('*') => {
            Some("with --private-http instead if its address is not a public one")
        }
        _ => None,
    };
    note.map(|note| format!(" ({note})")).unwrap_or_default()
}

/// An argument of a command line: quoted where a shell would interpret it.
fn shell_quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/=:,@+".contains(&byte);
    if text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[derive(Debug)]
struct Commands {
    command: String,
}

impl DenialText for Commands {
    fn denied(&self, denied: &Denied, asked: bool) -> String {
        if asked { sentence(denied, &self.command, None) } else { unasked(denied, &self.command) }
    }

    fn private_address(&self, denied: &Denied, address: IpAddr, kind: &str) -> String {
        let (what, flag) = (&denied.what, flag(&denied.needed));
        format!("{what} is not granted at its address: {address} is {kind}; to allow it: {} {flag}", self.command)
    }

    fn command<'a>(&self, sentence: &'a str) -> &'a str {
        sentence.find(self.command.as_str()).map_or(sentence, |at| &sentence[at..])
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Time;
    use windlass_core::plugin::grant::{Grant, effective};
    use windlass_core::plugin::manifest::Manifest;

    use super::*;

    /// What a manifest asks for and nobody has granted.
    fn denied(capability: &str) -> Denied {
        let manifest: Manifest = toml::from_str(&format!("[capabilities]\n{capability}")).expect("a manifest");
        let (_, mut denied) = effective(&manifest, &Grant::default());
        assert_eq!(denied.len(), 1, "{capability}: {denied:?}");
        denied.remove(0)
    }

    /// Each denial of a manifest, as somebody reads it: the flag is one that works at the first try.
    #[test]
    fn every_denial_names_the_grant_that_works() {
        const PRIVATE_IF: &str = " (with --private-http instead if its address is not a public one)";
        const ROOT: &str = " (the folder must lie in /srv)";
        let table = [
            ("http = ['api.example.com']", PRIVATE_IF, "--http api.example.com"),
            ("http = ['*.example.com:8080']", "", "--http '*.example.com:8080'"),
            ("http = ['*']", "", "--http '*'"),
            ("http = ['93.184.216.34']", "", "--http 93.184.216.34"),
            ("http = ['127.0.0.1:7070']", "", "--private-http 127.0.0.1:7070"),
            ("http = ['10.0.0.7']", "", "--private-http 10.0.0.7"),
            ("http = ['169.254.169.254']", "", "--private-http 169.254.169.254"),
            ("http = ['[fd00::1]:8080']", "", "--private-http '[fd00::1]:8080'"),
            ("http = ['localhost:8080']", "", "--private-http localhost:8080"),
            ("http = ['app.localhost']", "", "--private-http app.localhost"),
            ("http = ['host.docker.internal:9000']", "", "--private-http host.docker.internal:9000"),
            ("http = ['nas.local']", "", "--private-http nas.local"),
            ("http = ['*.lan']", "", "--private-http '*.lan'"),
            ("http = ['database:5984']", "", "--private-http database:5984"),
            ("http = ['local.example.com']", PRIVATE_IF, "--http local.example.com"),
            ("read = ['/data']", ROOT, "--read /data=/a/folder/of/the/server"),
            ("write = ['/out put']", ROOT, "--write '/out put=/a/folder/of/the/server'"),
            ("environment = ['TZ']", "", "--env TZ=VALUE"),
            ("secrets = ['token']", "", "--secret token"),
            ("spawn = ['bills.send']", "", "--spawn bills.send"),
            ("spawn = ['bills.*']", "", "--spawn 'bills.*'"),
            ("[limits]\nattempt_timeout = '2h'", "", "--attempt-timeout 2h"),
            ("[limits.http]\nat_once = 64", "", "--http-at-once 64"),
        ];
        for (asked, note, flag) in table {
            let denied = denied(asked);
            let sentence = sentence(&denied, &grant_command("mailer"), Some("the folder must lie in /srv"));
            let expected =
                format!("{} is not granted; to allow it{note}: windlass plugin grant mailer {flag}", denied.what);
            assert_eq!(sentence, expected, "{asked}");
        }
        let never = denied("http = ['0.0.0.0:80']");
        let expected = "HTTP to `0.0.0.0:80` is never allowed: it is an unspecified address";
        assert_eq!(sentence(&never, "windlass plugin grant mailer", None), expected);
        assert_eq!(unasked(&never, "windlass plugin grant mailer"), expected);
    }

    #[test]
    fn what_the_manifest_does_not_ask_for_is_first_the_authors_affair() {
        let text = Commands { command: grant_command("mailer") };
        let secret = Denied::secret("token");
        let (asked, unasked) = (text.denied(&secret, true), text.denied(&secret, false));
        assert!(!asked.contains("windlass.toml") && unasked.contains("`secrets` under `[capabilities]`"), "{unasked}");
        for sentence in [&asked, &unasked] {
            assert_eq!(text.command(sentence), "windlass plugin grant mailer --secret token");
        }
        let host = "api.example.com".parse().expect("a host");
        let there = IpAddr::from([10, 0, 0, 1]);
        let sentence = text.private_address(&Denied::private_address(&host), there, "a private address");
        assert!(sentence.contains("10.0.0.1 is a private address"), "{sentence}");
        assert_eq!(text.command(&sentence), "windlass plugin grant mailer --private-http api.example.com");
    }

    #[test]
    fn a_stored_denial_names_the_same_command() {
        for asked in ["http = ['a.com']", "http = ['10.0.0.7:8080']", "secrets = ['token']", "spawn = ['bills.*']"] {
            let denied = denied(asked);
            let stored = Denial::of(&denied, Time(5)).expect("it can be granted");
            let command = command_for(&stored, "mailer");
            assert!(sentence(&denied, &grant_command("mailer"), None).ends_with(&command), "{command}");
        }
    }
}
