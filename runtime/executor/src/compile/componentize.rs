//! From a core module to a component: for C and Go, whose compilers do not produce components themselves.
//!
//! Adds the world that the module implements, and the adapter from WASI 0.1, for which it was compiled, to WASI 0.2.
//! Nothing is compiled or run here. Called by `windlass plugin build`.

use std::fmt;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The worlds of `guest-sdk/wit`, each file after those it uses.
const WIT: [(&str, &str); 6] = [
    ("clocks.wit", include_str!("../../../../guest-sdk/wit/deps/wasi-clocks/clocks.wit")),
    ("io.wit", include_str!("../../../../guest-sdk/wit/deps/wasi-io/io.wit")),
    ("http.wit", include_str!("../../../../guest-sdk/wit/deps/wasi-http/http.wit")),
    ("job.wit", include_str!("../../../../wit/0.1.0/job.wit")),
    ("dev.wit", include_str!("../../../../wit/dev/0.1.0/dev.wit")),
    ("guest.wit", include_str!("../../../../guest-sdk/wit/guest.wit")),
];
/// A component does not import what it never calls, so the largest world fits all.
const WORLD: &str = "handler-http";

/// A module that could not be turned into a component.
#[derive(Debug, thiserror::Error)]
#[error("the module cannot be turned into a component: {0}. Build it with the SDK's own bindings, for WASI 0.1")]
pub struct NotComponentized(String);

/// Turns a module that was compiled for WASI 0.1 with an SDK's bindings into a component.
pub fn componentize(mut module: Vec<u8>) -> Result<Vec<u8>, NotComponentized> {
    let (resolve, world) = world()?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(refused)?;
    let encoder = ComponentEncoder::default().validate(true).module(&module).map_err(refused)?;
    let mut encoder = encoder
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        .map_err(refused)?;
    encoder.encode().map_err(refused)
}

fn world() -> Result<(Resolve, WorldId), NotComponentized> {
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for (path, text) in WIT {
        packages.push(resolve.push_source(path, text).map_err(refused)?);
    }
    let guest = &packages[packages.len() - 1..];
    let world = resolve.select_world(guest, Some(WORLD)).map_err(refused)?;
    Ok((resolve, world))
}

/// Includes the whole chain of causes.
fn refused(error: impl fmt::Display) -> NotComponentized {
    NotComponentized(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_valid() {
        let (resolve, world) = world().expect("our own files");
        assert_eq!(resolve.worlds[world].exports.len(), 1);
    }

    #[test]
    fn bytes_that_are_not_a_module_are_refused_with_an_explanation() {
        let error = componentize(b"#include <stdio.h>".to_vec()).expect_err("that is source");
        assert!(error.to_string().starts_with("the module cannot be turned into a component: "), "{error}");
    }

    #[test]
    fn the_error_names_the_export_that_a_module_lacks() {
        let module = wat::parse_str("(module (memory (export \"memory\") 1))").expect("a module");
        let error = componentize(module).expect_err("it exports nothing").to_string();
        assert!(error.contains("windlass:job/run@0.1.0"), "{error}");
    }
}
