//! `windlass enqueue-rule`: who may enqueue to which queues, also without a key.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::client::Remote;
use crate::cli::terminal::show;
use crate::cli::terminal::show::Column;

/// Set who may enqueue to which queues, with or without a key
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
    Add(Rule),
    /// Replace the rule at a position of the list, counted from 1
    Edit {
        /// The position
        place: usize,
        #[command(flatten)]
        rule: Rule,
    },
    /// Move a rule to another position: the first that covers a queue decides
    Move {
        /// The position it has
        place: usize,
        /// The position it gets
        to: usize,
    },
    /// Remove the rule at a position of the list, counted from 1
    Remove {
        /// The position
        place: usize,
    },
}

#[derive(Debug, Args)]
struct Rule {
    /// The queues it applies to, such as contact or forms.*
    #[arg(required = true, value_delimiter = ',')]
    queues: Vec<String>,
    /// Anybody may enqueue, even without a key; needs --rate
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
}

impl Rule {
    fn to_json(&self) -> anyhow::Result<Value> {
        let who = match (self.anybody, self.roles.is_empty(), self.keys.is_empty()) {
            (true, ..) => json!("anybody"),
            (false, false, _) => json!({ "roles": self.roles }),
            (false, true, false) => json!({ "keys": self.keys }),
            (false, true, true) => bail!("say who: --anybody, --roles or --keys"),
        };
        let mut rule = json!({ "queues": self.queues, "who": who });
        if let Some(text) = &self.rate {
            rule["rate"] = rate(text)?;
        }
        Ok(rule)
    }
}

const LIST: [Column; 4] = [("PLACE", "place"), ("QUEUES", "queues"), ("WHO", "who"), ("RATE", "rate")];

impl EnqueueRule {
    pub fn run(self) -> anyhow::Result<()> {
        let remote = &self.remote;
        let mut rules = known(remote)?;
        match self.action {
            Action::List => return print(remote, rules),
            Action::Add(rule) => rules.push(rule.to_json()?),
            Action::Edit { place, rule } => {
                let at = index(place, &rules)?;
                rules[at] = rule.to_json()?;
            }
            Action::Move { place, to } => {
                let (from, to) = (index(place, &rules)?, index(to, &rules)?);
                let rule = rules.remove(from);
                rules.insert(to, rule);
            }
            Action::Remove { place } => {
                rules.remove(index(place, &rules)?);
            }
        }
        remote.put("/enqueue-rules", &serde_json::to_vec(&rules)?)?;
        print(remote, known(remote)?)
    }
}

/// Where the rule at a place is.
fn index(place: usize, rules: &[Value]) -> anyhow::Result<usize> {
    if place == 0 || place > rules.len() {
        bail!("there are {} rules; `windlass enqueue-rule list` shows their places", rules.len());
    }
    Ok(place - 1)
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
