//! The bodies of a request and of its response, each with a size limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use crate::outbound::Journal;
use crate::outbound::client::OpenRequest;

/// What the guest sends.
pub(super) struct RequestBody {
    inner: WasiBody,
    left: u64,
    too_large: Arc<AtomicBool>,
}

impl RequestBody {
    pub(super) fn new(inner: WasiBody, most: u64, too_large: Arc<AtomicBool>) -> Self {
        RequestBody { inner, left: most, too_large }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            match this.left.checked_sub(length(frame)) {
                Some(left) => this.left = left,
                None => {
                    this.too_large.store(true, Ordering::Relaxed);
                    return Poll::Ready(Some(Err(Error::HttpRequestBodySize(None))));
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What the server sends. It ends after a silence, and when the request's total time is used up, so that a response of
/// one byte now and then cannot go on for ever.
pub(super) struct ResponseBody {
    inner: Incoming,
    left: u64,
    most: u64,
    quiet: Duration,
    over: Instant,
    silence: Pin<Box<Sleep>>,
    _request: OpenRequest,
    journal: Arc<Journal>,
}

impl ResponseBody {
    pub(super) fn new(
        inner: Incoming,
        most: u64,
        quiet: Duration,
        over: Instant,
        (request, journal): (OpenRequest, Arc<Journal>),
    ) -> Self {
        let silence = Box::pin(sleep_until(over.min(Instant::now() + quiet)));
        ResponseBody { inner, left: most, most, quiet, over, silence, _request: request, journal }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let now = Instant::now();
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(_))) if now >= this.over => Poll::Ready(Some(Err(Error::HttpResponseTimeout))),
            Poll::Ready(Some(Ok(frame))) => {
                let Some(left) = this.left.checked_sub(length(&frame)) else {
                    this.journal.too_large();
                    return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(this.most)))));
                };
                this.left = left;
                this.silence.as_mut().reset(this.over.min(now + this.quiet));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Error::Hyper(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match this.silence.as_mut().poll(context) {
                Poll::Ready(()) if now >= this.over => Poll::Ready(Some(Err(Error::HttpResponseTimeout))),
                Poll::Ready(()) => Poll::Ready(Some(Err(Error::ConnectionReadTimeout))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}
