//! The `windlass` binary: parses the command line and reports the error. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use windlass_server::cli::Cli;

/// The engine allocates many small objects on one thread that other threads free; the system's allocator is slow at
/// that.
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
