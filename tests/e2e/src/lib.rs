//! The harness of the end-to-end tests: starts the real binary on a free port, sends it HTTP requests, kills it and
//! restarts it.
//!
//! `WINDLASS_BIN` names the binary and `WINDLASS_PLUGINS` the folder with the built plugins; the default is those in
//! `target/`. The standard error of a server is printed when the test that owns it fails.

mod certificates;
mod client;
mod events;
mod origin;
mod provider;
mod server;
mod wait;

pub use certificates::Certificates;
pub use client::{Answer, Client};
pub use events::{Event, Events};
pub use origin::{Gate, Origin, Request, answer};
pub use provider::{Browser, CLIENT_ID, CLIENT_SECRET, Page, Provider};
pub use server::{Data, Refused, Server, state_home, windlass};
pub use wait::{DEADLINE, eventually};

use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// The bytes of a plugin that `make plugins` has built.
pub fn plugin(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("WINDLASS_PLUGINS").map_or_else(|| target().join("plugins"), PathBuf::from);
    let path = folder.join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; `make plugins` builds it", path.display()))
}

/// An address that stays free between two servers on it: its port is below those that the system assigns to connections
/// and to servers that ask for any port.
pub fn address_of_its_own() -> String {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let free = (first..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port");
    format!("127.0.0.1:{free}")
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// All files below a folder that contain these bytes.
pub fn files_holding(folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_holding(&path, needle));
        } else if std::fs::read(&path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|part| part == needle)) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The same component with another digest, because of an additional custom section.
pub fn variant(component: &[u8], version: u8) -> Vec<u8> {
    // Section 0, three bytes long: a name of one letter, and the version.
    [component, &[0, 3, 1, b'v', version]].concat()
}
