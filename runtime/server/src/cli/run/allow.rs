//! What the flags allow, together with the manifest.
//!
//! A flag is a grant. It is also a request: what the manifest does not ask for is added to it with a message, because a
//! server would not allow it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::Args;
use windlass_core::plugin::egress::HostPattern;
use windlass_core::plugin::grant::{FolderGrant, Grant};
use windlass_core::plugin::manifest::Manifest;
use windlass_core::queue_pattern::QueuePattern;
use windlass_executor::Secret;

/// Each flag can be repeated.
#[derive(Clone, Debug, Default, Args)]
pub struct AllowFlags {
    /// Allow HTTP requests to this host: api.example.com, *.example.com, 10.0.0.7:8080. May be repeated, like all below
    #[arg(long, value_name = "HOST", visible_alias = "http")]
    allow_http: Vec<HostPattern>,
    /// Allow HTTP requests to this host even if its address is not public, such as localhost:8080
    #[arg(long, value_name = "HOST", visible_alias = "private-http")]
    allow_private_http: Vec<HostPattern>,
    /// Let it read a folder of this machine: /path/in/the/sandbox=./folder
    #[arg(long, value_name = "GUEST=FOLDER")]
    read: Vec<String>,
    /// Let it read and write a folder of this machine: /path/in/the/sandbox=./folder
    #[arg(long, value_name = "GUEST=FOLDER")]
    write: Vec<String>,
    /// Set an environment variable; without =VALUE, it has the value from your shell
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Give it a secret; without =VALUE, its value is read from the environment variable of that name
    #[arg(long, value_name = "NAME[=VALUE]")]
    secret: Vec<String>,
    /// A queue it may spawn jobs into, besides its own: bills.send, bills.*
    #[arg(long, value_name = "QUEUE")]
    spawn: Vec<QueuePattern>,
    /// Set a config value, instead of the one in windlass.toml
    #[arg(long, value_name = "NAME=VALUE")]
    config: Vec<String>,
}

impl AllowFlags {
    /// The manifest, the grant and the secrets of the one attempt.
    pub fn decide(self, asked: Option<Manifest>) -> anyhow::Result<(Manifest, Grant, BTreeMap<String, Secret>)> {
        let has_manifest = asked.is_some();
        let mut manifest = asked.unwrap_or_default();
        let mut secrets = BTreeMap::new();
        let mut grant = Grant {
            http: self.allow_http,
            private_http: self.allow_private_http,
            spawn: self.spawn,
            // On the user's own machine, the limits the manifest asks for are granted.
            limits: manifest.limits.clone(),
            ..Grant::default()
        };
        for (pair, write) in
            self.read.iter().map(|pair| (pair, false)).chain(self.write.iter().map(|pair| (pair, true)))
        {
            let (guest, folder) = pair.split_once('=').ok_or_else(|| anyhow!("`{pair}` is not /seen/by/it=./here"))?;
            let path = Path::new(folder).canonicalize().with_context(|| format!("cannot find the folder {folder}"))?;
            let path = path.to_str().with_context(|| format!("the path of {folder} is not text"))?.to_owned();
            grant.folders.insert(guest.to_owned(), FolderGrant { path, write });
        }
        for flag in &self.env {
            let (name, value) = value_of(flag)?;
            grant.environment.insert(name, value);
        }
        for flag in &self.secret {
            let (name, value) = value_of(flag)?;
            grant.secrets.insert(name.clone());
            secrets.insert(name, Secret::new(value));
        }
        for flag in &self.config {
            let (name, value) = flag.split_once('=').ok_or_else(|| anyhow!("`{flag}` is not NAME=VALUE"))?;
            manifest.config.insert(name.to_owned(), value.to_owned());
        }
        let missing = ask_for_what_is_granted(&mut manifest, &grant);
        if has_manifest && !missing.is_empty() {
            eprintln!("the manifest does not ask for {}; a server will not allow it", missing.join(", "));
        }
        manifest.check().map_err(|refusal| anyhow!("the manifest is not valid: {refusal}"))?;
        grant.check().map_err(|refusal| anyhow!("{refusal}"))?;
        Ok((manifest, grant, secrets))
    }
}

/// Adds to the manifest what only the flags name, and returns what that was.
fn ask_for_what_is_granted(manifest: &mut Manifest, grant: &Grant) -> Vec<String> {
    let requested = &mut manifest.capabilities;
    let mut missing = Vec::new();
    for host in grant.http.iter().chain(&grant.private_http) {
        if !requested.http.iter().any(|own| own.includes(host) || host.includes(own)) {
            missing.push(format!("HTTP to `{host}`"));
            requested.http.push(host.clone());
        }
    }
    for (guest, folder) in &grant.folders {
        if !requested.read.contains(guest) && !requested.write.contains(guest) {
            missing.push(format!("the folder `{guest}`"));
            if folder.write { &mut requested.write } else { &mut requested.read }.push(guest.clone());
        }
    }
    for name in
        grant.environment.keys().filter(|name| !requested.environment.contains(name)).cloned().collect::<Vec<_>>()
    {
        missing.push(format!("the environment variable `{name}`"));
        requested.environment.push(name);
    }
    for name in grant.secrets.iter().filter(|name| !requested.secrets.contains(name)).cloned().collect::<Vec<_>>() {
        missing.push(format!("the secret `{name}`"));
        requested.secrets.push(name);
    }
    for queue in &grant.spawn {
        if !requested.spawn.iter().any(|own| own.includes(queue) || queue.includes(own)) {
            missing.push(format!("spawning into `{queue}`"));
            requested.spawn.push(queue.clone());
        }
    }
    missing
}

pub fn read_manifest(path: Option<&Path>) -> anyhow::Result<Option<Manifest>> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the manifest {}", path.display()))?;
    let manifest = toml::from_str(&text).with_context(|| format!("the manifest {} is not valid", path.display()))?;
    Ok(Some(manifest))
}

/// `NAME=VALUE`, or the variable of that name in our own environment.
fn value_of(flag: &str) -> anyhow::Result<(String, String)> {
    match flag.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => {
            let value = std::env::var(flag)
                .with_context(|| format!("`{flag}` has no value: write {flag}=VALUE, or set it in the environment"))?;
            Ok((flag.to_owned(), value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_grant_and_a_request() {
        let flags = AllowFlags {
            allow_private_http: vec!["localhost:8080".parse().expect("a host")],
            env: vec!["TZ=UTC".to_owned()],
            secret: vec!["token=s3cret".to_owned()],
            config: vec!["region=eu".to_owned()],
            ..AllowFlags::default()
        };
        let mut asked = Manifest::default();
        asked.capabilities.secrets = vec!["token".to_owned(), "other".to_owned()];
        let (manifest, grant, secrets) = flags.decide(Some(asked)).expect("valid flags");
        let (allowed, denied) = windlass_core::plugin::grant::effective(&manifest, &grant);
        assert!(allowed.http[0].private && allowed.environment.contains_key("TZ") && allowed.secrets.contains("token"));
        assert_eq!(denied.len(), 1, "the manifest's other request: {denied:?}");
        assert_eq!((secrets.len(), manifest.config["region"].as_str()), (1, "eu"));
    }

    #[test]
    fn a_flag_without_a_value_needs_a_variable() {
        let flags = AllowFlags { secret: vec!["WINDLASS_TEST_NOT_SET".to_owned()], ..AllowFlags::default() };
        let refused = flags.decide(None).expect_err("no value").to_string();
        assert!(refused.contains("write WINDLASS_TEST_NOT_SET=VALUE"), "{refused}");
    }
}
