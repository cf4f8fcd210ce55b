//! The guest of the gallery that speaks HTTP: one component, and the payload says what it tries.
//!
//! Whatever an answer holds is its result; whatever is refused is its error, in the words it was told. It is a plugin
//! of its own, because a component that imports `wasi:http` is another than one that does not.

use serde::Deserialize;
use windlass::{Context, Result};

#[cfg(target_arch = "wasm32")]
mod http;
#[cfg(not(target_arch = "wasm32"))]
#[path = "native.rs"]
mod http;

/// What to try.
#[derive(Debug, Deserialize)]
#[serde(tag = "try", rename_all = "snake_case", deny_unknown_fields)]
pub enum Attempt {
    /// The status and the text of an answer.
    Get {
        url: String,
        /// Send the request that a redirect asks for, up to ten times.
        #[serde(default)]
        follow: bool,
        #[serde(default)]
        connect_ms: Option<u64>,
        #[serde(default)]
        first_byte_ms: Option<u64>,
    },
    /// Send so many bytes.
    Post { url: String, bytes: usize },
    /// How many bytes an answer has, however many they are.
    Count { url: String },
    /// Open so many requests at once, read none of their answers, and say what became of each.
    Many { url: String, count: usize },
    /// Make so many requests and send none.
    Hoard { count: usize, path_bytes: usize },
    /// Which parts of a request may be this long.
    Long { bytes: usize },
    /// A request with so many headers.
    Headers { url: String, count: usize },
    /// Trap while an answer is open.
    Panic { url: String },
}

fn run(_ctx: &mut Context, attempt: Attempt) -> Result<String> {
    http::attempt(attempt)
}

// One handler, whatever the queue is called.
windlass::handlers! { _ => run }
