//! Reading whole request bodies: up to a limit, in limited time, and within the memory that all of them share.

use std::pin::Pin;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use tokio::time::timeout;

use crate::http::Parts;
use crate::http::transport::body_budget::{BodyShare, NoRoom};
use crate::http::transport::error::{Error, Result};
use crate::limits;

/// A whole body, which counts as held until this is dropped.
pub struct HeldBody {
    pub bytes: Bytes,
    _share: BodyShare,
}

/// Why a body was not read to its end.
enum Stopped {
    TooLarge,
    NoRoom(NoRoom),
    Failed(Error),
}

impl From<NoRoom> for Stopped {
    fn from(no_room: NoRoom) -> Stopped {
        Stopped::NoRoom(no_room)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(error)
    }
}

/// The whole body of a request, refused when it has more than `most` bytes.
pub async fn read(request: Request, api: &Parts, most: usize, otherwise: &str) -> Result<HeldBody> {
    let idle = api.client_timeout;
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let waits = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    let stopped = match length {
        Some(length) if length > most as u64 => Stopped::TooLarge,
        _ => {
            let expected = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(most);
            let share = api.bodies.share(Instant::now());
            let collected = collect(&mut body, idle, share, most, expected);
            match timeout(limits::BODY_TIME, collected).await.map_err(|_| Error::too_slow())? {
                Ok(held) => return Ok(held),
                Err(stopped) => stopped,
            }
        }
    };
    let error = match stopped {
        Stopped::Failed(error) => return Err(error),
        Stopped::TooLarge => {
            let size = length.map_or_else(|| "more".to_owned(), |length: u64| format!("{length} bytes"));
            let why = format!("the body has {size}, and the limit is {most} bytes; send less, or {otherwise}");
            Error::too_large(why)
        }
        Stopped::NoRoom(NoRoom::Now) => Error::overloaded(
            "the bodies of other requests take all the memory for them; nothing was done; send the request again in a moment",
            limits::BODY_RETRY,
        ),
        Stopped::NoRoom(NoRoom::Ever) => Error::too_large(format!(
            "the body has more than {} bytes, which is the memory for the bodies of all requests; send less, or start the server with \
             a larger --max-buffered-bodies",
            api.bodies.most()
        )),
    };
    // A client that sent `Expect: 100-continue` has sent nothing yet. Any other is still sending, and would see a
    // broken connection instead of the response if we did not read on for a while.
    if !waits {
        let _ = timeout(limits::DISCARD_TIME, collect_nothing(&mut body, idle)).await;
    }
    Err(error)
}

/// The body's bytes; `expected` is how many there will be at most.
async fn collect(
    body: &mut axum::body::Body,
    idle: Duration,
    mut share: BodyShare,
    most: usize,
    expected: usize,
) -> std::result::Result<HeldBody, Stopped> {
    let mut whole = Vec::new();
    let mut first = Bytes::new();
    loop {
        let data = tokio::select! {
            data = next(body, idle) => data?,
            () = share.must_give_way() => return Err(NoRoom::Now.into()),
        };
        let Some(data) = data else { break };
        let needed = first.len() + whole.len() + data.len();
        if needed > most {
            return Err(Stopped::TooLarge);
        }
        // Most bodies arrive in one piece, which need not be copied.
        if first.is_empty() && whole.is_empty() {
            share.grow(needed, Instant::now())?;
            first = data;
            continue;
        }
        let room = room(whole.capacity(), needed, expected);
        share.grow(room, Instant::now())?;
        whole.reserve_exact(room - whole.len());
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&data);
    }
    share.has_arrived()?;
    Ok(HeldBody { bytes: if whole.is_empty() { first } else { whole.into() }, _share: share })
}

/// How much to have room for: twice as much each time, but never more than will come.
fn room(now: usize, needed: usize, expected: usize) -> usize {
    if needed <= now { now } else { now.saturating_mul(2).min(expected).max(needed) }
}

async fn collect_nothing(body: &mut axum::body::Body, idle: Duration) {
    let mut discarded = 0;
    while let Ok(Some(data)) = next(body, idle).await {
        discarded += data.len();
        if discarded > limits::DISCARD {
            return;
        }
    }
}

async fn next(body: &mut axum::body::Body, idle: Duration) -> Result<Option<Bytes>> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match timeout(idle, frame).await.map_err(|_| Error::too_slow())? {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                return Err(Error::invalid(format!("the body ended early: {error}; send the request again")));
            }
        }
    }
}

/// Discards the body of a request that is refused because of its head, so that its client reads the response.
pub async fn discard(request: Request, api: &Parts) {
    if !request.headers().contains_key(header::EXPECT) {
        let _ = timeout(limits::DISCARD_TIME, collect_nothing(&mut request.into_body(), api.client_timeout)).await;
    }
}

#[cfg(test)]
impl From<&str> for HeldBody {
    fn from(text: &str) -> HeldBody {
        let budget = crate::http::transport::body_budget::BodyBudget::new(usize::MAX);
        HeldBody { bytes: Bytes::copy_from_slice(text.as_bytes()), _share: budget.share(Instant::now()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_doubles_and_never_exceeds_what_will_come() {
        assert_eq!(room(0, 10, 1_000), 10);
        assert_eq!(room(10, 11, 1_000), 20);
        assert_eq!(room(20, 15, 1_000), 20);
        assert_eq!(room(600, 700, 1_000), 1_000);
        // A client that announced less than it sends is stopped elsewhere.
        assert_eq!(room(10, 50, 20), 50);
    }
}
