//! `windlass plugin grant` and `revoke`: what the operator allows a plugin, as flags.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;
use windlass_core::plugin::egress::HostPattern;
use windlass_core::plugin::grant::{FolderGrant, Grant};
use windlass_core::plugin::manifest::{HttpLimits, Limits};
use windlass_core::quantity::{Size, Span};
use windlass_core::queue_pattern::QueuePattern;

use crate::cli::client::{Remote, part};
use crate::cli::terminal::show;

/// Grant a plugin something, in addition to what it is already granted
///
/// A plugin gets what it both asks for in its windlass.toml and is granted here; a limit, up to the granted value.
/// `windlass plugin show NAME` shows what it asks for and what was denied.
#[derive(Debug, Args)]
pub struct GrantMore {
    /// The plugin's name
    name: String,
    #[command(flatten)]
    flags: GrantFlags,
    /// Replace the whole grant with this file, in TOML or JSON
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Revoke something that a plugin is granted, or everything if no flag is given
///
/// For a limit, the value does not matter: the grant for it is removed.
#[derive(Debug, Args)]
pub struct Revoke {
    /// The plugin's name
    name: String,
    #[command(flatten)]
    flags: GrantFlags,
}

/// What can be granted. Each flag can be repeated.
#[derive(Debug, Default, Args)]
pub struct GrantFlags {
    /// A host for outbound HTTP: api.example.com, *.example.com, 10.0.0.7:8080
    #[arg(long, value_name = "HOST")]
    http: Vec<HostPattern>,
    /// A host for outbound HTTP, even if its address is not public
    #[arg(long, value_name = "HOST")]
    private_http: Vec<HostPattern>,
    /// A folder to read, as /seen/by/the/plugin=/on/this/server
    #[arg(long, value_name = "GUEST=HOST")]
    read: Vec<String>,
    /// A folder to read and write
    #[arg(long, value_name = "GUEST=HOST")]
    write: Vec<String>,
    /// An environment variable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A secret, by name
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
    /// A queue to spawn jobs into, besides those the plugin serves: bills.send, bills.*
    #[arg(long, value_name = "QUEUE")]
    spawn: Vec<QueuePattern>,
    /// The most memory an attempt may use
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    memory: Option<Size>,
    /// The most processor time an attempt may use
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    cpu_time: Option<Span>,
    /// The most time an attempt may take, from its start to its end
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    attempt_timeout: Option<Span>,
    /// The most time an attempt may go without progress, a checkpoint or a log line
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    stall_timeout: Option<Span>,
    /// The most bytes of log an attempt may write
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    log: Option<Size>,
    /// The largest checkpoint
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    checkpoint: Option<Size>,
    /// The largest result
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    result: Option<Size>,
    /// How many attempts may run at once
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    #[command(flatten)]
    http_limits: HttpLimitFlags,
}

/// Limits of an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
struct HttpLimitFlags {
    /// The most time for an HTTP request to connect
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    http_connect: Option<Span>,
    /// The most time from the connection to the head of the response
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    http_first_byte: Option<Span>,
    /// The longest pause in the middle of a response
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    http_between_bytes: Option<Span>,
    /// The most time for a whole request
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    http_total: Option<Span>,
    /// The largest body of a request
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    http_request: Option<Size>,
    /// The largest body of a response
    #[arg(long, value_name = "SIZE", value_parser = Size::parse)]
    http_response: Option<Size>,
    /// How many requests of an attempt may be open at once
    #[arg(long, value_name = "N")]
    http_at_once: Option<u32>,
}

impl GrantMore {
    pub fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let path = path(&self.name);
        if let Some(file) = &self.from {
            let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            return show_grant(&remote.put(&path, &text)?);
        }
        let mut grant = read(remote, &path)?;
        self.flags.add(&mut grant)?;
        show_grant(&remote.put(&path, &serde_json::to_vec(&grant)?)?)
    }
}

impl Revoke {
    pub fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let path = path(&self.name);
        let mut grant = read(remote, &path)?;
        if self.flags.is_empty() {
            grant = Grant::default();
        }
        self.flags.take(&mut grant);
        show_grant(&remote.put(&path, &serde_json::to_vec(&grant)?)?)
    }
}

impl GrantFlags {
    /// The grant that the flags describe.
    #[cfg(test)]
    fn grant(self) -> anyhow::Result<Grant> {
        let mut grant = Grant::default();
        self.add(&mut grant)?;
        Ok(grant)
    }

    fn add(self, grant: &mut Grant) -> anyhow::Result<()> {
        let more = |list: &mut Vec<HostPattern>, hosts: Vec<HostPattern>| {
            list.extend(hosts);
            list.sort();
            list.dedup();
        };
        more(&mut grant.http, self.http);
        more(&mut grant.private_http, self.private_http);
        let folders = self.read.into_iter().map(|pair| (pair, false));
        for (pair, write) in folders.chain(self.write.into_iter().map(|pair| (pair, true))) {
            let (guest, path) = split(&pair, "/data=/srv/data")?;
            grant.folders.insert(guest, FolderGrant { path, write });
        }
        for pair in self.env {
            let (name, value) = split(&pair, "TZ=UTC")?;
            grant.environment.insert(name, value);
        }
        grant.secrets.extend(self.secret);
        grant.spawn.extend(self.spawn);
        grant.spawn.sort();
        grant.spawn.dedup();
        let limits = &mut grant.limits;
        *limits = Limits {
            memory: self.memory.or(limits.memory),
            cpu_time: self.cpu_time.or(limits.cpu_time),
            attempt_timeout: self.attempt_timeout.or(limits.attempt_timeout),
            stall_timeout: self.stall_timeout.or(limits.stall_timeout),
            log: self.log.or(limits.log),
            checkpoint: self.checkpoint.or(limits.checkpoint),
            result: self.result.or(limits.result),
            concurrency: self.concurrency.or(limits.concurrency),
            http: self.http_limits.over(&limits.http),
        };
        Ok(())
    }

    fn take(self, grant: &mut Grant) {
        grant.http.retain(|host| !self.http.contains(host));
        grant.private_http.retain(|host| !self.private_http.contains(host));
        for pair in self.read.iter().chain(&self.write) {
            grant.folders.remove(pair.split_once('=').map_or(pair.as_str(), |(guest, _)| guest));
        }
        for pair in &self.env {
            grant.environment.remove(pair.split_once('=').map_or(pair.as_str(), |(name, _)| name));
        }
        grant.secrets.retain(|name| !self.secret.contains(name));
        grant.spawn.retain(|queue| !self.spawn.contains(queue));
        let limits = &mut grant.limits;
        limits.memory.take_if(|_| self.memory.is_some());
        limits.cpu_time.take_if(|_| self.cpu_time.is_some());
        limits.attempt_timeout.take_if(|_| self.attempt_timeout.is_some());
        limits.stall_timeout.take_if(|_| self.stall_timeout.is_some());
        limits.log.take_if(|_| self.log.is_some());
        limits.checkpoint.take_if(|_| self.checkpoint.is_some());
        limits.result.take_if(|_| self.result.is_some());
        limits.concurrency.take_if(|_| self.concurrency.is_some());
        self.http_limits.take(&mut limits.http);
    }

    fn is_empty(&self) -> bool {
        let lists = [self.read.len(), self.write.len(), self.env.len(), self.secret.len()];
        let hosts = self.http.len() + self.private_http.len() + self.spawn.len();
        let sizes = [self.memory, self.log, self.checkpoint, self.result];
        let spans = [self.cpu_time, self.attempt_timeout, self.stall_timeout];
        lists.iter().sum::<usize>() + hosts == 0
            && sizes.iter().all(Option::is_none)
            && spans.iter().all(Option::is_none)
            && self.concurrency.is_none()
            && self.http_limits == HttpLimitFlags::default()
    }
}

impl HttpLimitFlags {
    /// The given limits, and otherwise the existing ones.
    fn over(self, limits: &HttpLimits) -> HttpLimits {
        HttpLimits {
            connect: self.http_connect.or(limits.connect),
            first_byte: self.http_first_byte.or(limits.first_byte),
            between_bytes: self.http_between_bytes.or(limits.between_bytes),
            total: self.http_total.or(limits.total),
            request: self.http_request.or(limits.request),
            response: self.http_response.or(limits.response),
            at_once: self.http_at_once.or(limits.at_once),
        }
    }

    fn take(&self, limits: &mut HttpLimits) {
        limits.connect.take_if(|_| self.http_connect.is_some());
        limits.first_byte.take_if(|_| self.http_first_byte.is_some());
        limits.between_bytes.take_if(|_| self.http_between_bytes.is_some());
        limits.total.take_if(|_| self.http_total.is_some());
        limits.request.take_if(|_| self.http_request.is_some());
        limits.response.take_if(|_| self.http_response.is_some());
        limits.at_once.take_if(|_| self.http_at_once.is_some());
    }
}

fn path(name: &str) -> String {
    format!("/plugins/{}/grant", part(name))
}

fn read(remote: &Remote, path: &str) -> anyhow::Result<Grant> {
    serde_json::from_value(remote.get(path)?).context("the server's grant cannot be read by this version of windlass")
}

fn split(pair: &str, example: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = pair.split_once('=').ok_or_else(|| anyhow!("`{pair}` should look like `{example}`"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Shows what is granted now, without empty fields.
fn show_grant(grant: &Value) -> anyhow::Result<()> {
    show::json(&without_empty(grant.clone()))
}

pub fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            let empty = |value: &Value| match value {
                Value::Null => true,
                Value::Object(fields) => fields.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => false,
            };
            Value::Object(kept.filter(|(_, value)| !empty(value)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        flags: GrantFlags,
    }

    fn flags(line: &str) -> GrantFlags {
        let line = line.split_whitespace();
        CommandLine::try_parse_from(["grant"].into_iter().chain(line)).unwrap_or_else(|error| panic!("{error}")).flags
    }

    #[test]
    fn a_denial_names_the_flags_that_grant_it() {
        let text = r#"
            [limits]
            memory = "1GiB"
            [limits.http]
            total = "1h"
            response = "1GiB"
            at_once = 64
            [capabilities]
            http = ["api.example.com", "*.example.org"]
            read = ["/data"]
            write = ["/out"]
            environment = ["TZ"]
            secrets = ["token"]
            spawn = ["bills.*"]
        "#;
        let asked: windlass_core::plugin::manifest::Manifest = toml::from_str(text).expect("a manifest");
        let (_, denied) = windlass_core::plugin::grant::effective(&asked, &Grant::default());
        assert_eq!(denied.len(), 11);
        let mut granted = Grant::default();
        for denied in denied {
            let line = crate::denials::flag(&denied.needed).replace('\'', "");
            flags(&line).add(&mut granted).expect("valid flags");
        }
        let (_, denied) = windlass_core::plugin::grant::effective(&asked, &granted);
        assert_eq!(denied, []);
    }

    #[test]
    fn what_was_granted_can_be_revoked_flag_by_flag() {
        let line = "--http a.com --http b.com --read /d=/srv --env TZ=UTC --secret s --spawn a.* --spawn b --memory 1GiB --concurrency 2 --http-total 1h --http-at-once 9";
        let mut grant = flags(line).grant().expect("valid flags");
        flags("--http a.com --read /d=/srv --spawn a.* --memory 1B --http-total 1s").take(&mut grant);
        assert_eq!(
            grant,
            flags("--http b.com --env TZ=UTC --secret s --spawn b --concurrency 2 --http-at-once 9")
                .grant()
                .expect("valid flags")
        );
        assert!(flags("").is_empty() && !flags("--log 1KiB").is_empty());
    }
}
