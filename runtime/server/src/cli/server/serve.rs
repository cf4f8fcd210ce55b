//! `windlass serve`: runs the server until a signal stops it.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use tokio::net::TcpListener;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;
use windlass_executor::confinement::{Confinement, of_children};

use crate::app::confinement;
use crate::config::Layer;
use crate::http::{AllowedHost, PAUSED, Tls};
use crate::shutdown::{Shutdown, signalled};
use crate::{App, Config, first_key};

/// Run the server
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// A TOML file with any of the settings below; flags and environment variables override it
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Layer,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        // Before any thread can create a file: files of this process are private to its user.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        log_to_stderr();
        let config = Config::load(self.settings, self.config.as_deref())?;
        // Guests run on the executor's threads; this runtime serves HTTP and dispatches jobs.
        let threads = available_parallelism().map_or(1, usize::from) / 8;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("windlass-net")
            .enable_all()
            .build()
            .context("cannot start the threads of the server")?;
        let served = runtime.block_on(serve(config));
        // Resolving a name blocks a thread that cannot be interrupted until the name server answers. Everything that
        // was promised is done, so the process does not wait for such threads.
        runtime.shutdown_background();
        served
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // The port first: a server that cannot be reached should not touch the data.
    let listener = TcpListener::bind(&config.listen).await.with_context(|| {
        format!("cannot listen on {}; stop what listens there, or choose another address with --listen", config.listen)
    })?;
    let address = listener.local_addr().context("the listening socket has no address")?;
    let open = !address.ip().is_loopback() && config.is_open();
    let is_encrypted = config.tls.is_some() || config.behind_proxy;
    let plain = !address.ip().is_loopback() && !is_encrypted;
    if plain && !config.insecure {
        bail!(
            "{address} can be reached from other machines, and without TLS anyone on the way can read the key and the jobs; set \
             --tls-cert and --tls-key, say --behind-proxy if TLS ends in a proxy in front of the server, listen on 127.0.0.1, or say \
             --insecure if nobody else can read this network"
        );
    }
    let tls = config.tls.clone().map(Tls::load).transpose()?;
    let app = App::start(&config).await?;
    if !config.is_open() {
        first_key::note_place(address, &config.data);
    }
    let (trigger, shutdown) = Shutdown::new();
    if let Some(tls) = &tls {
        tokio::spawn(tls.follow(shutdown.clone())?);
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    info!("windlass {} is listening on {scheme}://{address}", env!("CARGO_PKG_VERSION"));
    if app.is_paused() {
        warn!("{PAUSED}");
    }
    if open {
        warn!("{address} can be reached from other machines, and the API requires no key");
    }
    if plain {
        warn!("{address} can be reached from other machines, and requests are not encrypted");
    }
    if config.is_open() && config.allowed_host.contains(&AllowedHost::Any) {
        warn!(
            "any host name is allowed and no key is required: a web page of another site can use the API through a visitor's browser"
        );
    }
    tokio::task::spawn_blocking(warn_if_unconfined);
    tokio::spawn(async move {
        match signalled().await {
            Ok(signal) => info!("{signal}: stopping; running jobs resume from their last checkpoint at the next start"),
            Err(error) => warn!("cannot wait for signals, so the server stops: {error}"),
        }
        trigger.stop();
    });
    app.run(listener, tls, shutdown).await?;
    info!("stopped");
    Ok(())
}

/// Says it once, if the processes that compile components and run jq filters lack a protection. They run all the same.
fn warn_if_unconfined() {
    let missing = match of_children(&confinement()) {
        Ok(Confinement { landlock, seccomp }) => {
            let named = [("Landlock", landlock), ("seccomp", seccomp)];
            let missing =
                named.into_iter().filter_map(|(name, protection)| Some(format!("{name}: {}", protection.err()?)));
            missing.collect::<Vec<_>>().join("; ")
        }
        Err(why) => why,
    };
    if !missing.is_empty() {
        warn!(
            "the processes that compile components and run jq filters are not fully confined ({missing}); see docs/sandbox.md"
        );
    }
}

/// What is logged unless `RUST_LOG` says otherwise: our own messages, and only warnings of the libraries. Failed
/// requests of guests are excluded, because they are in the jobs' own logs.
const LOGGED: &str = "warn,wasmtime_wasi_http=off,windlass_server=info,windlass_store=info,windlass_executor=info";

/// Log lines go to standard error.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
