//! `windlass enqueue-rule`: who may enqueue to which queues, also without a key.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::Remote;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Set who may enqueue to which queues, also without a key
#[derive(Debug, Args)]
pub struct EnqueueRule {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the rules in their order: the first that covers a queue decides
    List,
    /// Add a rule after the others
    Add {
        /// The queues it is about, such as contact or forms.*
        #[arg(required = true, value_delimiter = ',')]
        queues: Vec<String>,
        /// Anybody may enqueue, also without a key; needs --rate
        #[arg(long, conflicts_with_all = ["roles", "keys"])]
        anybody: bool,
        /// Only keys of these roles may
        #[arg(long, value_delimiter = ',', conflicts_with = "keys")]
        roles: Vec<String>,
        /// Only these keys may, by their ids
        #[arg(long, value_delimiter = ',')]
        keys: Vec<String>,
        /// How often each of them may, such as 10/1m
        #[arg(long)]
        rate: Option<String>,
    },
    /// Remove the rule at a place of the list, which begins with 1
    Remove {
        /// The place
        place: usize,
    },
}

const LIST: [Column; 4] = [("PLACE", "place"), ("QUEUES", "queues"), ("WHO", "who"), ("RATE", "rate")];

impl EnqueueRule {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let mut rules = known(remote)?;
        match self.action {
            Action::List => return print(remote, rules),
            Action::Add { queues, anybody, roles, keys, rate } => {
                let who = match (anybody, roles.is_empty(), keys.is_empty()) {
                    (true, ..) => json!("anybody"),
                    (false, false, _) => json!({ "roles": roles }),
                    (false, true, false) => json!({ "keys": keys }),
                    (false, true, true) => bail!("say who: --anybody, --roles or --keys"),
                };
                let mut new = json!({ "queues": queues, "who": who });
                if let Some(text) = rate {
                    new["rate"] = self::rate(&text)?;
                }
                rules.push(new);
            }
            Action::Remove { place } => {
                if place == 0 || place > rules.len() {
                    bail!("there are {} rules; `windlass enqueue-rule list` shows their places", rules.len());
                }
                rules.remove(place - 1);
            }
        }
        remote.put("/enqueue-rules", &serde_json::to_vec(&rules)?)?;
        print(remote, known(remote)?)
    }
}

fn known(remote: &Remote) -> anyhow::Result<Vec<Value>> {
    Ok(remote.get("/enqueue-rules")?.as_array().cloned().unwrap_or_default())
}

fn print(remote: &Remote, mut rules: Vec<Value>) -> anyhow::Result<()> {
    if remote.json() {
        return show::json(&Value::Array(rules));
    }
    for (at, rule) in rules.iter_mut().enumerate() {
        rule["place"] = (at + 1).into();
    }
    show::table(&rules, &LIST)
}

/// `100/1m`, as the API has it.
pub fn rate(text: &str) -> anyhow::Result<Value> {
    let (count, per) = text.split_once('/').with_context(|| format!("{text:?} is not a rate; write 100/1m"))?;
    let count: u32 = count.trim().parse().with_context(|| format!("{count:?} is not a number; write 100/1m"))?;
    Ok(json!({ "count": count, "per": per.trim() }))
}
