//! The `windlass` binary: reads the command line and reports how it went. All the rest is in the library.

use std::process::ExitCode;

use clap::Parser;
use windlass_server::cli::Cli;

/// The engine makes many small things on one thread that others let go of; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            windlass_server::cli::report(&error);
            ExitCode::FAILURE
        }
    }
}
