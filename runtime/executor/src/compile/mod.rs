//! From bytes to a plugin: every check an upload must pass, in order of cost.
//!
//! Compiling takes from milliseconds to half a minute and up to 500 MB, so it happens apart, at the lowest priority, one component
//! at a time; but a slow one soon goes on beside the next, and is stopped at its limits (`apart`). Nothing here runs guest
//! code.

pub(crate) mod cache;
mod complexity;
pub(crate) mod componentize;
pub(crate) mod process;
pub(crate) mod strip;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};

use crate::bindings::exports::windlass::job::run::{Failure, Job, Output};
use crate::bindings::{Handler, HandlerPre, PACKAGE, RUN, VERSION};
use cache::{Cache, hex, load};
use process::Apart;

use crate::attempt::state::State;
use crate::error::{Error, Rejected};
use crate::executor::Config;
use crate::host::sources;
use crate::limits::{COMPILE_TURN, COMPILES, FUNCTION_BYTES, TABLES_PER_SHARE};
use crate::outbound;
use crate::plugin::Plugin;
use crate::pool::threads::lower_priority;
use crate::sources::split;
use crate::trouble::has_shortage;

pub(crate) struct Compiler {
    bench: Arc<Bench>,
    threads: usize,
    time: Duration,
    /// One at a time, for as long as it is quick.
    turn: Arc<Semaphore>,
    /// All that go on, also those that nobody waits for any more.
    room: Arc<Semaphore>,
    /// How long an answer is waited for. A process of its own is stopped at its time; then there is an answer soon.
    patience: Duration,
}

/// What the compiling threads share.
struct Bench {
    engine: Engine,
    linker: Linker<State>,
    cache: Option<Cache>,
    apart: Option<Apart>,
    max_bytes: usize,
    shares: u32,
}

impl Compiler {
    pub(crate) fn new(engine: &Engine, cache: Option<Cache>, config: &Config) -> Result<Self, Error> {
        let linker = linker(engine).map_err(|error| Error::Engine(format!("{error:#}")))?;
        let (max_bytes, shares) = (config.max_component_bytes, config.places);
        let apart = config.compiler.as_ref().map(|command| Apart {
            command: command.clone(),
            threads: config.compile_threads,
            time: config.compile_time,
            memory: config.compile_memory,
            folder: config.cache.as_ref().map_or_else(std::env::temp_dir, |cache| cache.folder.clone()),
        });
        let grace = if apart.is_some() { COMPILE_TURN } else { Duration::ZERO };
        Ok(Compiler {
            bench: Arc::new(Bench { engine: engine.clone(), linker, cache, apart, max_bytes, shares }),
            patience: config.compile_time.saturating_add(grace),
            threads: config.compile_threads,
            time: config.compile_time,
            turn: Arc::new(Semaphore::new(1)),
            room: Arc::new(Semaphore::new(COMPILES)),
        })
    }

    pub(crate) async fn compile(&self, bytes: Bytes) -> Result<Plugin, Rejected> {
        check_header(&bytes)?;
        let limit = self.bench.max_bytes;
        if bytes.len() > limit {
            return Err(Rejected::TooLarge { size: bytes.len(), limit });
        }
        let turn = Arc::clone(&self.turn).acquire_owned();
        let room = Arc::clone(&self.room).acquire_owned();
        // Nobody waits longer for others than for his own.
        let entered = timeout(self.time, async { (turn.await, room.await) }).await;
        let Ok((Ok(turn), Ok(room))) = entered else { return Err(Rejected::Busy) };

        let mut answered = self.start(bytes, room)?;
        let quick = timeout(COMPILE_TURN.min(self.patience), &mut answered).await;
        drop(turn);
        let answer = match quick {
            Ok(answer) => answer,
            Err(_) => match timeout(self.patience.saturating_sub(COMPILE_TURN), answered).await {
                Ok(answer) => answer,
                Err(_) => return Err(Rejected::TooSlow { limit: self.time }),
            },
        };
        answer.unwrap_or_else(|_| Err(Rejected::Internal { reason: "the compiler's thread is gone".to_owned() }))
    }

    /// Compiles on threads of its own, which end with it. They keep the room until then, whoever still waits.
    fn start(&self, bytes: Bytes, room: OwnedSemaphorePermit) -> Result<oneshot::Receiver<Answer>, Rejected> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|n| format!("windlass-compile-{n}"))
            .start_handler(|_| lower_priority())
            .build()
            // Only the system refuses one: it has no more.
            .map_err(|error| Rejected::Unavailable { reason: format!("no thread to compile on: {error}") })?;
        let (answer, answered) = oneshot::channel();
        let bench = Arc::clone(&self.bench);
        threads.spawn(move || {
            // A compiler that panics on somebody's bytes must not take the server along.
            let made = catch_unwind(AssertUnwindSafe(|| bench.make(&bytes)));
            let made = made.unwrap_or_else(|_| Err(Rejected::Internal { reason: "the compiler panicked".to_owned() }));
            drop(room);
            // Whoever asked may have gone; the cache has the code for the next one.
            let _ = answer.send(made);
        });
        Ok(answered)
    }
}

type Answer = Result<Plugin, Rejected>;

impl Bench {
    fn make(&self, bytes: &[u8]) -> Result<Plugin, Rejected> {
        // Sources at its end are no code: with others it is another version, compiled already.
        let (code, sources) = split(bytes);
        let of_code = Sha256::new_with_prefix(code);
        let whole = of_code.clone().chain_update(&bytes[code.len()..]);
        let (digest, compiled) = (hex(&whole.finalize()), hex(&of_code.finalize()));
        let cached = self.cache.as_ref().and_then(|cache| cache.load(&self.engine, &compiled));
        let from_cache = cached.is_some();
        let component = match cached {
            Some(component) => component,
            None => {
                complexity::check(code, FUNCTION_BYTES)?;
                let invalid = |error: wasmtime::Error| Rejected::Invalid { reason: format!("{error:#}") };
                let machine_code = match &self.apart {
                    Some(apart) => apart.compile(code)?,
                    None => self.engine.precompile_component(code).map_err(invalid)?,
                };
                let component =
                    load(&self.engine, &machine_code).map_err(|error| match has_shortage(error.chain()) {
                        true => Rejected::Unavailable { reason: error.root_cause().to_string() },
                        false => invalid(error),
                    })?;
                if let Some(cache) = &self.cache {
                    cache.store(&compiled, &machine_code);
                }
                component
            }
        };
        check_export(&self.engine, &component)?;
        let imports = check_imports(&self.engine, &component)?;
        let shares = shares(&component);
        if shares > self.shares {
            return Err(Rejected::TooManyParts { needed: shares, available: self.shares });
        }
        let pre = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| Rejected::ImportMismatch { reason: format!("{error:#}") })?;
        let pre = HandlerPre::new(pre)
            .map_err(|error| Rejected::WrongType { export: RUN.to_owned(), reason: format!("{error:#}") })?;
        Ok(Plugin::new(digest, bytes.len(), imports, from_cache, shares, sources, pre))
    }
}

/// Everything a guest may import. What is granted of it is decided per attempt, in `capability`.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    outbound::add_to_linker(&mut linker)?;
    Handler::add_to_linker::<State, State>(&mut linker, |state| state)?;
    sources::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// The first eight bytes tell what kind of file this is.
fn check_header(bytes: &[u8]) -> Result<(), Rejected> {
    let not_wasm = |found: &str| Err(Rejected::NotWasm { found: found.to_owned() });
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(Rejected::CoreModule),
        [0, b'a', b's', b'm', _, _, _, _, ..] => {
            not_wasm("it has the mark of WebAssembly, but a version that nobody knows")
        }
        [0, b'a', b's', b'm', ..] => not_wasm("the file ends after its first bytes"),
        [] => not_wasm("the body is empty"),
        [0x7f, b'E', b'L', b'F', ..] => not_wasm("it is machine code, which is never accepted"),
        _ if bytes.trim_ascii_start().starts_with(b"(") => {
            not_wasm("it looks like WebAssembly text, which must be assembled first (`wasm-tools parse`)")
        }
        _ => not_wasm("it does not begin with the mark `\\0asm`"),
    }
}

/// It must export `run`, of our version and with our types. Wasmtime's bindings would find out at the first attempt only.
fn check_export(engine: &Engine, component: &Component) -> Result<(), Rejected> {
    let Some(interface) = component.get_export_index(None, RUN) else {
        return Err(not_exported(engine, component));
    };
    let wrong_type = |reason: String| Rejected::WrongType { export: RUN.to_owned(), reason };
    match component.get_export(Some(&interface), "run") {
        Some((ComponentItem::ComponentFunc(run), _)) => run
            .typecheck::<(&Job,), (Result<Output, Failure>,)>(&component.component_type().instance_type())
            .map_err(|error| wrong_type(format!("{error:#}"))),
        _ => Err(wrong_type("it has no function `run`".to_owned())),
    }
}

fn not_exported(engine: &Engine, component: &Component) -> Rejected {
    let component = component.component_type();
    let exports: Vec<&str> = component.exports(engine).map(|(name, _)| name).collect();
    let (run, _) = RUN.split_once('@').unwrap_or((RUN, VERSION));
    let other_version = exports.iter().find_map(|name| name.strip_prefix(run)?.strip_prefix('@'));
    if let Some(version) = other_version {
        return Rejected::WrongVersion {
            found: format!("{PACKAGE}@{version}"),
            spoken: format!("{PACKAGE}@{VERSION}"),
        };
    }
    let found = exports.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { "nothing".to_owned() } else { found };
    Rejected::MissingExport { wanted: RUN.to_owned(), found }
}

/// The packages that `linker` offers. Whether a function in them fits is for wasmtime to say.
const OFFERED: [&str; 9] = [
    "windlass:job/",
    "windlass:dev/",
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:http/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

fn check_imports(engine: &Engine, component: &Component) -> Result<Vec<String>, Rejected> {
    let mut imports = Vec::new();
    let mut foreign = Vec::new();
    for (name, item) in component.component_type().imports(engine) {
        let offered = OFFERED.iter().any(|package| name.starts_with(package));
        match item.ty {
            // A bare type names something that another import uses; it asks for nothing.
            ComponentItem::Type(_) => {}
            _ if offered => imports.push(name.to_owned()),
            _ => foreign.push(name.to_owned()),
        }
    }
    if foreign.is_empty() { Ok(imports) } else { Err(Rejected::ForeignImport { imports: foreign }) }
}

/// What one instance takes from the pool. Memories and tables are mapped in advance and can run out; core instances are only
/// counted there, so the pool is given plenty of them.
fn shares(component: &Component) -> u32 {
    let needs = component.resources_required();
    let (memories, tables) = needs.map_or((0, 0), |needs| (needs.num_memories, needs.num_tables));
    memories.max(tables.div_ceil(TABLES_PER_SHARE)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let message = check_header(bytes).expect_err("must be turned away").to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn what_is_not_a_component_is_told_what_it_is() {
        check(b"", "empty");
        check(b"\0asm", "ends after");
        check(b"\0asm\x01\0\0\0", "core WebAssembly module");
        check(b"\0asm\x09\0\x01\0", "nobody knows");
        check(b"  (component)", "text");
        check(b"\x7fELF....", "machine code");
        check(b"hello, world", "\\0asm");
        assert_eq!(check_header(b"\0asm\x0d\0\x01\0"), Ok(()));
    }
}
