//! The command line: one file per subcommand.

mod bench;
mod serve;

use clap::{Parser, Subcommand};

/// Durable background jobs whose handlers are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Bench(bench::Bench),
}

impl Cli {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Bench(bench) => bench.run(),
        }
    }
}
