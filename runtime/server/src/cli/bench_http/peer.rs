//! The peer of the measurements: axum, and nothing behind it. Runs as a process of its own.

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// Answers every body with itself, on as many threads as the server has.
pub fn run() -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) / 8;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads.max(1)).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let router = Router::new().route("/echo", post(async |body: Bytes| body));
        // As the server does it: an answer is one write.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, router).await?;
        Ok(())
    })
}
