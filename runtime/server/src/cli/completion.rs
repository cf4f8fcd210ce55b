//! `windlass completion`: what a shell needs to complete our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::cli::terminal::show;

/// Print a completion script for a shell: `windlass completion bash > /etc/bash_completion.d/windlass`
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell it is for
    shell: Shell,
}

impl Completion {
    pub fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "windlass", &mut script);
        show::print(String::from_utf8_lossy(&script).trim_end())
    }
}
