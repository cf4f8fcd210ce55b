//! From bytes to a plugin: every check an upload must pass, in order of cost.
//!
//! Compiling takes from milliseconds to half a minute and up to 500 MB, so it runs on separate threads or in a child
//! process (`process`), at the lowest priority and one component at a time. A slow one delays the next only for some
//! seconds, and is stopped at its limits. Nothing here runs guest code.

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

use crate::bindings::exports::windlass::job::run::{Failure, Job};
use crate::bindings::{Handler, HandlerPre, PACKAGE, RUN, VERSION};
use cache::{Cache, hex, load};
use process::CompilerProcess;

use crate::attempt::state::State;
use crate::error::{Error, Rejected};
use crate::executor::Config;
use crate::host::sources;
use crate::limits::{COMPILE_STARVATION, COMPILE_TURN, COMPILES, FUNCTION_BYTES, TABLES_PER_SHARE};
use crate::outbound;
use crate::plugin::{Compiled, Plugin};
use crate::pool::threads::lower_priority;
use crate::shortage::has_shortage;
use crate::sources::split;

pub(crate) struct Compiler {
    pipeline: Arc<Pipeline>,
    threads: usize,
    time: Duration,
    /// One at a time, as long as it is quick.
    turn: Arc<Semaphore>,
    /// Bounds all running compilations, including those whose caller has gone.
    permit: Arc<Semaphore>,
    /// How long a caller waits. A child process is stopped at its time limit and its result follows soon after.
    caller_timeout: Duration,
}

/// What the compiling threads share.
struct Pipeline {
    engine: Engine,
    linker: Linker<State>,
    cache: Option<Cache>,
    process: Option<CompilerProcess>,
    max_bytes: usize,
    shares: u32,
}

impl Compiler {
    pub(crate) fn new(engine: &Engine, cache: Option<Cache>, config: &Config) -> Result<Self, Error> {
        let linker = linker(engine).map_err(|error| Error::Engine(format!("{error:#}")))?;
        let (max_bytes, shares) = (config.max_component_bytes, config.instances);
        let process = config.compiler.as_ref().map(|command| CompilerProcess {
            command: command.clone(),
            threads: config.compile_threads,
            time: config.compile_time,
            memory: config.compile_memory,
            folder: config.cache.as_ref().map_or_else(std::env::temp_dir, |cache| cache.folder.clone()),
        });
        let caller_timeout = match process {
            Some(_) => config.compile_time.saturating_mul(COMPILE_STARVATION).saturating_add(COMPILE_TURN),
            None => config.compile_time,
        };
        Ok(Compiler {
            pipeline: Arc::new(Pipeline { engine: engine.clone(), linker, cache, process, max_bytes, shares }),
            caller_timeout,
            threads: config.compile_threads,
            time: config.compile_time,
            turn: Arc::new(Semaphore::new(1)),
            permit: Arc::new(Semaphore::new(COMPILES)),
        })
    }

    pub(crate) async fn compile(&self, bytes: Bytes) -> Result<Plugin, Rejected> {
        check_header(&bytes)?;
        let limit = self.pipeline.max_bytes;
        if bytes.len() > limit {
            return Err(Rejected::TooLarge { size: bytes.len(), limit });
        }
        let turn = Arc::clone(&self.turn).acquire_owned();
        let permit = Arc::clone(&self.permit).acquire_owned();
        // A caller waits for other compilations no longer than for its own.
        let entered = timeout(self.time, async { (turn.await, permit.await) }).await;
        let Ok((Ok(turn), Ok(permit))) = entered else { return Err(Rejected::Busy) };

        let mut answered = self.start(bytes, permit)?;
        let quick = timeout(COMPILE_TURN.min(self.caller_timeout), &mut answered).await;
        drop(turn);
        let answer = match quick {
            Ok(answer) => answer,
            Err(_) => match timeout(self.caller_timeout.saturating_sub(COMPILE_TURN), answered).await {
                Ok(answer) => answer,
                Err(_) => return Err(Rejected::TooSlow { limit: self.time }),
            },
        };
        answer.unwrap_or_else(|_| Err(Rejected::Internal { reason: "the compiler's thread has ended".to_owned() }))
    }

    /// Compiles on new threads, which hold the permit until they end, even if the caller has gone.
    fn start(&self, bytes: Bytes, permit: OwnedSemaphorePermit) -> Result<oneshot::Receiver<Answer>, Rejected> {
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|n| format!("windlass-compile-{n}"))
            .start_handler(|_| lower_priority())
            .build()
            // The only reason is that the system has no threads left.
            .map_err(|error| Rejected::Unavailable {
                reason: format!("cannot start a thread to compile on: {error}"),
            })?;
        let (answer, answered) = oneshot::channel();
        let pipeline = Arc::clone(&self.pipeline);
        threads.spawn(move || {
            // Bytes that make the compiler panic must not end the server.
            let made = catch_unwind(AssertUnwindSafe(|| pipeline.make(&bytes)));
            let made = made.unwrap_or_else(|_| Err(Rejected::Internal { reason: "the compiler panicked".to_owned() }));
            drop(permit);
            // The caller may have gone; the next one finds the code in the cache.
            let _ = answer.send(made);
        });
        Ok(answered)
    }
}

type Answer = Result<Plugin, Rejected>;

impl Pipeline {
    fn make(&self, bytes: &[u8]) -> Result<Plugin, Rejected> {
        // Attached sources are not code: the same code with other sources is another version that is already compiled.
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
                let machine_code = match &self.process {
                    Some(process) => process.compile(code)?,
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
        Ok(Compiled { digest, size: bytes.len(), imports, from_cache, shares, sources, pre }.into())
    }
}

/// Everything a guest may import. What an attempt may use of it is decided in `permissions`.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    outbound::add_to_linker(&mut linker)?;
    Handler::add_to_linker::<State, State>(&mut linker, |state| state)?;
    sources::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Recognises the kind of file by its first eight bytes.
fn check_header(bytes: &[u8]) -> Result<(), Rejected> {
    let not_wasm = |found: &str| Err(Rejected::NotWasm { found: found.to_owned() });
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(Rejected::CoreModule),
        [0, b'a', b's', b'm', _, _, _, _, ..] => not_wasm("it begins like WebAssembly, but with an unknown version"),
        [0, b'a', b's', b'm', ..] => not_wasm("the file ends after its first bytes"),
        [] => not_wasm("the body is empty"),
        [0x7f, b'E', b'L', b'F', ..] => not_wasm("it is machine code, which is never accepted"),
        _ if bytes.trim_ascii_start().starts_with(b"(") => {
            not_wasm("it looks like WebAssembly text, which must be assembled first (`wasm-tools parse`)")
        }
        _ => not_wasm("it does not begin with `\\0asm`"),
    }
}

/// The component must export `run` in this version and with these types. Wasmtime's bindings would only notice at the
/// first attempt.
fn check_export(engine: &Engine, component: &Component) -> Result<(), Rejected> {
    let Some(interface) = component.get_export_index(None, RUN) else {
        return Err(not_exported(engine, component));
    };
    let wrong_type = |reason: String| Rejected::WrongType { export: RUN.to_owned(), reason };
    match component.get_export(Some(&interface), "run") {
        Some((ComponentItem::ComponentFunc(run), _)) => run
            .typecheck::<(&Job,), (Result<Vec<u8>, Failure>,)>(&component.component_type().instance_type())
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
            supported: format!("{PACKAGE}@{VERSION}"),
        };
    }
    let found = exports.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { "nothing".to_owned() } else { found };
    Rejected::MissingExport { wanted: RUN.to_owned(), found }
}

/// The packages that `linker` offers. Wasmtime checks whether each function fits.
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
            // A bare type is only named for other imports to use.
            ComponentItem::Type(_) => {}
            _ if offered => imports.push(name.to_owned()),
            _ => foreign.push(name.to_owned()),
        }
    }
    if foreign.is_empty() { Ok(imports) } else { Err(Rejected::ForeignImport { imports: foreign }) }
}

/// The shares of the pool that one instance takes. Memories and tables are mapped in advance and can run out; core
/// instances are only counted, so the pool has plenty of them.
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
        let message = check_header(bytes).expect_err("must be rejected").to_string();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn a_file_that_is_not_a_component_is_rejected_with_what_it_is() {
        check(b"", "empty");
        check(b"\0asm", "ends after");
        check(b"\0asm\x01\0\0\0", "core WebAssembly module");
        check(b"\0asm\x09\0\x01\0", "unknown version");
        check(b"  (component)", "text");
        check(b"\x7fELF....", "machine code");
        check(b"hello, world", "\\0asm");
        assert_eq!(check_header(b"\0asm\x0d\0\x01\0"), Ok(()));
    }
}
