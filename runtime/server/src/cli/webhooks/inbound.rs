//! `windlass webhook inbound`: queues whose incoming webhooks must be signed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show::Column;
use crate::cli::terminal::{secret, show};
use crate::cli::webhooks::fields;
use crate::http::wire::SchemeName;

/// Accept only signed webhooks of another service for a queue
#[derive(Debug, Args)]
pub struct Inbound {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Accept only signed webhooks for a queue; the sender's secret is typed in or read from standard input
    Set(Set),
    /// List the queues that accept only signed webhooks
    List,
    /// Accept webhooks for a queue without a signature again, from clients with a key
    Remove {
        /// The queue's name
        queue: String,
    },
}

#[derive(Debug, Args)]
struct Set {
    /// The queue's name
    queue: String,
    /// How the sender signs
    #[arg(long, value_enum)]
    scheme: SchemeName,
    /// Read the secret from this file
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Leave the secret as it is
    #[arg(long, conflicts_with = "from")]
    same_secret: bool,
    /// How long the old secret is accepted beside the new one [default: 0]
    #[arg(long, value_name = "DURATION", conflicts_with = "same_secret")]
    keep_previous: Option<String>,
    /// How much the signed time may differ from the server's [default: 5m]
    #[arg(long, value_name = "DURATION")]
    tolerance: Option<String>,
}

const SHOWN: [Column; 5] = [
    ("queue", "queue"),
    ("scheme", "scheme"),
    ("path", "path"),
    ("tolerance", "tolerance"),
    ("previous secret until", "previous_secret_until"),
];
const LIST: [Column; 5] = [
    ("QUEUE", "queue"),
    ("SCHEME", "scheme"),
    ("PATH", "path"),
    ("TOLERANCE", "tolerance"),
    ("PREVIOUS SECRET UNTIL", "previous_secret_until"),
];

impl Inbound {
    pub fn run(self, remote: &Remote) -> anyhow::Result<()> {
        match self.action {
            Action::Set(set) => set.run(remote),
            Action::List => {
                let hooks = remote.get("/inbound-webhooks")?;
                match hooks.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&hooks),
                }
            }
            Action::Remove { queue } => {
                print_answer(remote, &remote.delete(&format!("/inbound-webhooks/{}", part(&queue)))?)
            }
        }
    }
}

impl Set {
    fn run(self, remote: &Remote) -> anyhow::Result<()> {
        let secret = self.secret()?;
        let body = fields(|body| {
            body.put("scheme", &Some(self.scheme));
            body.put("secret", &secret);
            body.put("keep_previous", &self.keep_previous);
            body.put("tolerance", &self.tolerance);
            Ok(())
        })?;
        let path = format!("/inbound-webhooks/{}", part(&self.queue));
        let hook = remote.put(&path, body.to_string().as_bytes())?;
        if remote.json() { show::json(&hook) } else { show::fields(&hook, &SHOWN) }
    }

    fn secret(&self) -> anyhow::Result<Option<String>> {
        if self.same_secret {
            return Ok(None);
        }
        let what = format!("the secret with which {} is signed", self.queue);
        let command = format!("windlass webhook inbound set {}", self.queue);
        match &self.from {
            Some(file) => secret::text_from(file, &what, &command),
            None => secret::text_from_input(&what, &command),
        }
        .map(Some)
    }
}
