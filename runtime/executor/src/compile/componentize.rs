//! From a core module to a component: for C and Go, whose compilers make no components themselves.
//!
//! It tells the module which world it implements and puts the adapter between WASI 0.1, which it was compiled for, and 0.2. Nothing is
//! compiled or run here. Called by `windlass plugin build`.

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
/// What it never calls, a component does not import; so the largest world fits all.
const WORLD: &str = "handler-http";

/// A module that could not be made a component.
#[derive(Debug, thiserror::Error)]
#[error("the module cannot be made a component: {0}")]
pub struct NotComponentized(String);

/// Makes a component of a module that was compiled for WASI 0.1 with the bindings of an SDK.
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

/// The whole chain of causes.
fn refused(error: impl fmt::Display) -> NotComponentized {
    NotComponentized(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_a_world() {
        let (resolve, world) = world().expect("our own files");
        assert_eq!(resolve.worlds[world].exports.len(), 1);
    }

    #[test]
    fn what_is_no_module_is_refused_in_words() {
        let error = componentize(b"#include <stdio.h>".to_vec()).expect_err("that is source");
        assert!(error.to_string().starts_with("the module cannot be made a component: "), "{error}");
    }

    #[test]
    fn a_module_that_does_not_export_run_is_told_so() {
        let module = wat::parse_str("(module (memory (export \"memory\") 1))").expect("a module");
        let error = componentize(module).expect_err("it exports nothing").to_string();
        assert!(error.contains("windlass:job/run@0.1.0"), "{error}");
    }
}
