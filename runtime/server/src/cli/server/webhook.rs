//! `windlass webhook`: addresses to which events are sent.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::client::{Remote, part};
use crate::cli::jobs::job::print_answer;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Send events to your own addresses
#[derive(Debug, Args)]
pub struct Webhook {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Send events to an address, from now on
    Add {
        /// Where to send them, such as https://example.com/hooks
        #[arg(value_name = "URL")]
        address: String,
        /// Which types of events, separated by commas, such as completed,dead [default: all]
        #[arg(long, value_name = "TYPES", value_delimiter = ',')]
        events: Vec<String>,
        /// Sign every delivery with this secret
        #[arg(long, env = "WINDLASS_WEBHOOK_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// How many times a failed delivery is retried [default: 3]
        #[arg(long, value_name = "N")]
        retry_limit: Option<u32>,
    },
    /// List all webhooks with their deliveries and failures
    List,
    /// Remove a webhook
    Remove {
        /// The webhook's id
        id: String,
    },
}

const LIST: [Column; 6] = [
    ("WEBHOOK", "id"),
    ("ADDRESS", "url"),
    ("EVENTS", "events"),
    ("DELIVERED", "delivered"),
    ("FAILED", "failed"),
    ("LAST ERROR", "last_error"),
];

impl Webhook {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        match self.action {
            Action::Add { address, events, secret, retry_limit } => {
                let mut body = Map::from_iter([("url".to_owned(), Value::from(address))]);
                if !events.is_empty() {
                    body.insert("events".to_owned(), json!(events));
                }
                if let Some(secret) = secret {
                    body.insert("secret".to_owned(), Value::from(secret));
                }
                if let Some(limit) = retry_limit {
                    body.insert("retry_limit".to_owned(), json!(limit));
                }
                let hook = remote.post("/webhook-endpoints", &Value::Object(body))?;
                if remote.json() {
                    show::json(&hook)
                } else {
                    show::fields(&hook, &[("webhook", "id"), ("address", "url")])
                }
            }
            Action::List => {
                let hooks = remote.get("/webhook-endpoints")?;
                match hooks.as_array().filter(|_| !remote.json()) {
                    Some(rows) => show::table(rows, &LIST),
                    None => show::json(&hooks),
                }
            }
            Action::Remove { id } => {
                print_answer(remote, &remote.delete(&format!("/webhook-endpoints/{}", part(&id)))?)
            }
        }
    }
}
