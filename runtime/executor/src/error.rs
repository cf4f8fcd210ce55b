//! What can go wrong in the executor itself, and why an upload is rejected. What a guest does wrong at run time is an
//! `Outcome`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::shortage::is_shortage;

/// The executor cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the WebAssembly engine cannot start: {0}. Check that this machine lets the server reserve address space (`ulimit -v`)"
    )]
    Engine(String),
    #[error("the executor cannot start a thread: {0}. Raise the limit on processes and threads (`ulimit -u`)")]
    Thread(#[source] std::io::Error),
    #[error("cannot use {path} for compiled plugins: {source}. Make it a folder that the server may write to")]
    Cache { path: PathBuf, source: std::io::Error },
    #[error("the key file {path} cannot be used: {reason}")]
    Key { path: PathBuf, reason: String },
    #[error(
        "a certificate that guests should trust cannot be used: {0}. Pass the authority's own certificate, in DER form"
    )]
    Trust(String),
}

/// Why a component was rejected. The text says what is wrong and what to do instead; the code never changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error(
        "this is not WebAssembly: {found}. Upload a component, the .wasm file that your language's Windlass SDK builds"
    )]
    NotWasm { found: String },
    #[error(
        "this is a core WebAssembly module, and a handler must be a component. Build for wasm32-wasip2 (Rust), or turn the \
         module into a component with `wasm-tools component new`"
    )]
    CoreModule,
    #[error(
        "the component has {size} bytes, and the limit is {limit}. Build it optimised for size and without debug information"
    )]
    TooLarge { size: usize, limit: usize },
    #[error("the component is not valid: {reason}")]
    Invalid { reason: String },
    #[error(
        "the component does not export `{wanted}`, it exports {found}. Implement the world `handler` of windlass:job"
    )]
    MissingExport { wanted: String, found: String },
    #[error(
        "the component is built for {found}, and this server supports {supported}. Rebuild it with an SDK for that version"
    )]
    WrongVersion { found: String, supported: String },
    #[error(
        "the component exports `{export}` with the wrong type: {reason}. Rebuild it from the WIT files of this version"
    )]
    WrongType { export: String, reason: String },
    #[error(
        "the component imports {}, which this server does not offer. A handler may import windlass:job and WASI 0.2 (cli, \
         clocks, filesystem, http, io, random, sockets)",
        names(imports)
    )]
    ForeignImport { imports: Vec<String> },
    #[error("an import of the component does not fit: {reason}. Rebuild it from the WIT files of this version")]
    ImportMismatch { reason: String },
    #[error(
        "the component needs {needed} memories or table groups at once, and the pool has {available}. Build it with fewer \
         core modules"
    )]
    TooManyParts { needed: u32, available: u32 },
    #[error(
        "function {function} of the component has {size} bytes of code, and the limit is {limit}. Split it, or build with \
         less inlining"
    )]
    FunctionTooLarge { function: u32, size: usize, limit: usize },
    #[error(
        "compiling the component took more than {limit:?} of processor time. Build it smaller, or raise the server's limit"
    )]
    TooSlow { limit: Duration },
    #[error(
        "compiling the component took more than {limit} bytes of memory. Build it smaller, or raise the server's limit"
    )]
    TooMuchMemory { limit: u64 },
    #[error("the compiler is busy with other components; try again later")]
    Busy,
    /// The machine has run out of something; the component is not at fault.
    #[error(
        "this server cannot compile components now: {reason}. Nothing was done; free disk space, memory or file descriptors \
         and try again"
    )]
    Unavailable { reason: String },
    #[error("compiling the component failed inside the server: {reason}. Try again, and report it if it fails again")]
    Internal { reason: String },
}

impl Rejected {
    /// A failure of the server itself: a shortage on this machine, or an internal error that should be looked into.
    pub(crate) fn ours(what: &str, error: &io::Error) -> Rejected {
        let reason = format!("{what}: {error}");
        if is_shortage(error) { Rejected::Unavailable { reason } } else { Rejected::Internal { reason } }
    }

    /// Whether the same component may be accepted later, because it was not rejected for its own sake.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Rejected::Busy | Rejected::Unavailable { .. })
    }

    /// A stable name for programs, as the HTTP API returns it.
    pub fn code(&self) -> &'static str {
        match self {
            Rejected::NotWasm { .. } => "NOT_WASM",
            Rejected::CoreModule => "CORE_MODULE",
            Rejected::TooLarge { .. } => "COMPONENT_TOO_LARGE",
            Rejected::Invalid { .. } => "INVALID_COMPONENT",
            Rejected::MissingExport { .. } => "MISSING_EXPORT",
            Rejected::WrongVersion { .. } => "WRONG_INTERFACE_VERSION",
            Rejected::WrongType { .. } => "WRONG_EXPORT_TYPE",
            Rejected::ForeignImport { .. } => "FOREIGN_IMPORT",
            Rejected::ImportMismatch { .. } => "IMPORT_MISMATCH",
            Rejected::TooManyParts { .. } => "COMPONENT_TOO_COMPLEX",
            Rejected::FunctionTooLarge { .. } => "COMPONENT_TOO_COMPLEX",
            Rejected::TooSlow { .. } => "COMPILE_TOO_SLOW",
            Rejected::TooMuchMemory { .. } => "COMPILE_TOO_LARGE",
            Rejected::Busy => "COMPILER_BUSY",
            Rejected::Unavailable { .. } => "STORE_UNAVAILABLE",
            Rejected::Internal { .. } => "COMPILE_FAILED",
        }
    }
}

/// `a`, `b` and `c`, in backquotes.
fn names(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    }
}
