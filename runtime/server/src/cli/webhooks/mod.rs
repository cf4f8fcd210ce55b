//! `windlass webhook`: addresses to which events are sent, what was delivered to them, and queues that take signed
//! requests.

mod deliveries;
mod inbound;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::jobs::job_flags::Body;
use crate::cli::terminal::show::Column;
use crate::cli::terminal::{secret, show};

/// Send events to your own addresses, and verify the webhooks of other services
#[derive(Debug, Args)]
pub struct Webhook {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Send events to an address, from now on, and print the secret that signs them
    Add {
        /// Where to send them, such as https://example.com/hooks
        #[arg(value_name = "URL")]
        address: String,
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        secret: SecretFlags,
    },
    /// List all webhooks with their deliveries and failures
    List,
    /// Change the address, the events or the retries of a webhook; settings that are not given stay as they are
    Edit {
        /// The webhook's id
        id: String,
        /// Send to this address from now on
        #[arg(long, value_name = "URL")]
        address: Option<String>,
        #[command(flatten)]
        settings: Settings,
        /// Whether events are sent; a webhook that is enabled again gets the events from then on
        #[arg(long, value_name = "true|false")]
        enabled: Option<bool>,
    },
    /// Give a webhook a new secret and print it; for a while, deliveries are signed with the old one as well
    Rotate {
        /// The webhook's id
        id: String,
        #[command(flatten)]
        secret: SecretFlags,
        /// How long deliveries are also signed with the old secret; 0 if it has leaked [default: 24h]
        #[arg(long, value_name = "DURATION")]
        keep_previous: Option<String>,
    },
    /// List the latest deliveries of a webhook, and the responses
    Deliveries {
        /// The webhook's id
        id: String,
    },
    /// Send a test to a webhook now, and print the response
    Test {
        /// The webhook's id
        id: String,
    },
    /// Send one of the listed deliveries again, now, and print the response
    Redeliver {
        /// The webhook's id
        id: String,
        /// The delivery's id
        delivery: String,
    },
    /// Remove a webhook
    Remove {
        /// The webhook's id
        id: String,
    },
    /// Accept only signed webhooks of another service for a queue
    Inbound(inbound::Inbound),
}

#[derive(Debug, Args)]
struct Settings {
    /// Which types of events, separated by commas, such as completed,dead [default: all]
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    events: Vec<String>,
    /// How many times a failed delivery is retried [default: 3]
    #[arg(long, value_name = "N")]
    retry_limit: Option<u32>,
}

#[derive(Debug, Args)]
struct SecretFlags {
    /// Read the secret from this file, or from standard input with `-`; without it the server makes one
    #[arg(long, value_name = "FILE")]
    secret_from: Option<PathBuf>,
}

impl Settings {
    fn write(&self, body: &mut Body<'_>) {
        body.put("events", &Some(&self.events).filter(|events| !events.is_empty()));
        body.put("retry_limit", &self.retry_limit);
    }
}

impl SecretFlags {
    fn write(&self, body: &mut Body<'_>, command: &str) -> anyhow::Result<()> {
        if let Some(file) = &self.secret_from {
            let command = format!("windlass webhook {command} --secret-from -");
            body.put("secret", &Some(secret::text_from(file, "the secret of the webhook", &command)?));
        }
        Ok(())
    }
}

const LIST: [Column; 7] = [
    ("WEBHOOK", "id"),
    ("ADDRESS", "url"),
    ("EVENTS", "events"),
    ("ENABLED", "enabled"),
    ("DELIVERED", "delivered"),
    ("FAILED", "failed"),
    ("LAST ERROR", "last_error"),
];
const SHOWN: [Column; 6] = [
    ("webhook", "id"),
    ("address", "url"),
    ("events", "events"),
    ("enabled", "enabled"),
    ("secret", "secret"),
    ("previous secret until", "previous_secret_until"),
];

impl Webhook {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Add { address, settings, secret } => {
                let body = fields(|body| {
                    body.put("url", &Some(&address));
                    settings.write(body);
                    secret.write(body, &format!("add {address}"))
                })?;
                shown(remote, &remote.post("/webhook-endpoints", &body)?)
            }
            Action::List => {
                let hooks = remote.get("/webhook-endpoints")?;
                match hooks.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&hooks),
                }
            }
            Action::Edit { id, address, settings, enabled } => {
                let body = fields(|body| {
                    body.put("url", &address);
                    body.put("enabled", &enabled);
                    settings.write(body);
                    Ok(())
                })?;
                shown(remote, &remote.patch(&path(&id, ""), &body)?)
            }
            Action::Rotate { id, secret, keep_previous } => {
                let body = fields(|body| {
                    body.put("keep_previous", &keep_previous);
                    secret.write(body, &format!("rotate {id}"))
                })?;
                shown(remote, &remote.post(&path(&id, "/rotate-secret"), &body)?)
            }
            Action::Deliveries { id } => deliveries::list(remote, &id),
            Action::Test { id } => deliveries::print_attempt(remote, &remote.post(&path(&id, "/test"), &json!({}))?),
            Action::Redeliver { id, delivery } => {
                let again = path(&id, &format!("/deliveries/{}/redeliver", part(&delivery)));
                deliveries::print_attempt(remote, &remote.post(&again, &json!({}))?)
            }
            Action::Remove { id } => print_answer(remote, &remote.delete(&path(&id, ""))?),
            Action::Inbound(inbound) => inbound.run(remote),
        }
    }
}

/// The body of a request.
fn fields(write: impl FnOnce(&mut Body<'_>) -> anyhow::Result<()>) -> anyhow::Result<Value> {
    let mut fields = Map::new();
    write(&mut Body(&mut fields))?;
    Ok(Value::Object(fields))
}

fn path(id: &str, rest: &str) -> String {
    format!("/webhook-endpoints/{}{rest}", part(id))
}

/// A webhook as it is now, with its secret if the server has just made one.
fn shown(remote: &Remote, hook: &Value) -> anyhow::Result<()> {
    if remote.json() {
        return show::json(hook);
    }
    show::fields(hook, &SHOWN)?;
    if hook["secret"].is_string() {
        show::note("the secret is not shown again; the receiver needs it to verify what it gets");
    }
    Ok(())
}
