//! `windlass pause` and `windlass resume`: the whole server.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::client::Remote;
use crate::cli::terminal::show;
use crate::http::PAUSED;

/// Pause the whole server: no jobs, timers, schedules or webhooks run until it is resumed
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    remote: Remote,
}

/// Resume a server that was paused, or started with --paused
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    remote: Remote,
}

impl Pause {
    pub fn run(self) -> anyhow::Result<()> {
        print_answer(&self.remote, &self.remote.post("/pause", &json!({}))?, PAUSED)
    }
}

impl Resume {
    pub fn run(self) -> anyhow::Result<()> {
        print_answer(&self.remote, &self.remote.post("/resume", &json!({}))?, "resumed: jobs start again")
    }
}

fn print_answer(remote: &Remote, answer: &Value, text: &str) -> anyhow::Result<()> {
    if remote.json() { show::json(answer) } else { show::print(text) }
}
