//! From a function to a handler, and from handlers to a component.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::{Error, Result};

/// Something that does a job's work. There are two kinds: typed functions,
/// `fn(&mut Context, Payload) -> Result<Value>`, whose payload and result are JSON, and [`raw`] ones, which work on
/// bytes. `Kind` only distinguishes the two.
pub trait Handler<Kind> {
    fn handle(self, ctx: &mut Context) -> Result<Vec<u8>>;
}

/// The kind of handlers whose payload and result are JSON.
pub struct Typed<Payload, Value>(PhantomData<(Payload, Value)>);

impl<F, Payload, Value> Handler<Typed<Payload, Value>> for F
where
    F: FnOnce(&mut Context, Payload) -> Result<Value>,
    Payload: DeserializeOwned,
    Value: Serialize,
{
    fn handle(self, ctx: &mut Context) -> Result<Vec<u8>> {
        // The same bytes would not parse in the next attempt either.
        let payload = serde_json::from_slice(&ctx.job().payload)
            .map_err(|error| Error::fatal(format_args!("the payload is not what this handler takes: {error}")))?;
        let value = self(ctx, payload)?;
        serde_json::to_vec(&value)
            .map_err(|error| Error::fatal(format_args!("the result cannot be written as JSON: {error}")))
    }
}

/// A handler of bytes. The payload is in `ctx.job().payload`.
pub struct Raw<F>(F);

/// Makes a handler of a function that reads the job's bytes and returns bytes: `"thumbs" => raw(thumbnail)`.
pub fn raw<F: FnOnce(&mut Context) -> Result<Vec<u8>>>(handler: F) -> Raw<F> {
    Raw(handler)
}

impl<F: FnOnce(&mut Context) -> Result<Vec<u8>>> Handler<Raw<()>> for Raw<F> {
    fn handle(self, ctx: &mut Context) -> Result<Vec<u8>> {
        (self.0)(ctx)
    }
}

#[doc(hidden)]
pub fn run<Kind>(handler: impl Handler<Kind>, ctx: &mut Context) -> Result<Vec<u8>> {
    handler.handle(ctx)
}

#[doc(hidden)]
pub fn no_handler(queue: &str) -> Result<Vec<u8>> {
    Err(Error::fatal(format_args!("this plugin has no handler for the queue `{queue}`")))
}

/// Says which handler serves which queue, and makes the crate a component. Use it once per crate.
///
/// A queue is a string pattern. The patterns are tried in order, and `_` matches every other queue.
///
/// ```
/// # use windlass::{Context, Result};
/// # fn send(_: &mut Context, _: String) -> Result<()> { Ok(()) }
/// # fn rest(_: &mut Context) -> Result<Vec<u8>> { Ok(Vec::new()) }
/// windlass::handlers! {
///     "emails.send" | "emails.resend" => send,
///     _ => windlass::raw(rest),
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! handlers {
    ($($queue:pat => $handler:expr),+ $(,)?) => {
        /// Chooses the handler by the job's queue.
        #[doc(hidden)]
        #[allow(unreachable_patterns)]
        pub fn windlass_dispatch(ctx: &mut $crate::Context) -> $crate::Result<Vec<u8>> {
            match ctx.job().queue.clone().as_str() {
                $($queue => $crate::run($handler, ctx),)+
                queue => $crate::no_handler(queue),
            }
        }

        #[cfg(target_arch = "wasm32")]
        $crate::__component!(windlass_dispatch);
    };
}
