//! The server that Windlass is compared with: axum with nothing behind it, in a separate process.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures_util::stream;
use tokio::net::TcpListener;
use tokio::time::interval;

/// Returns every body unchanged, on as many threads as the server has.
pub fn run() -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) / 8;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads.max(1)).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let router = Router::new().route("/echo", post(async |body: Bytes| body)).route("/events", get(events));
        // Like the server: a response is one write.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, router).await?;
        Ok(())
    })
}

/// How often a watched job reports progress, on both sides.
pub const EVENT_EVERY: Duration = Duration::from_millis(100);

/// Synthetic events like those of a watched job, to measure what sending them costs.
async fn events() -> Body {
    let line = format!("id: 1\nevent: progress\ndata: {{\"seq\":1,\"text\":\"{}\"}}\n\n", "x".repeat(200));
    let line = Bytes::from(line);
    Body::from_stream(stream::unfold((interval(EVENT_EVERY), line), |(mut clock, line)| async move {
        clock.tick().await;
        Some((Ok::<_, Infallible>(line.clone()), (clock, line)))
    }))
}
