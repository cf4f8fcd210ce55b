//! The `windlass` binary: reads the command line and reports how it went. All the rest is in the library.

use std::process::ExitCode;

use clap::Parser;
use windlass_server::cli::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes in one line; people get no stack trace.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
