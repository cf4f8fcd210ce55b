//! The figures of `windlass bench guest`, without a server: `cargo run --release -p windlass-executor --example bench [--quick]`.
//! The plugins must have been built before (`make plugins`).

use std::path::Path;

use windlass_executor::bench::{self, Setting};

fn main() -> bench::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guest = std::fs::read(root.join("target/plugins/hostile.wasm"))?;
    let setting = Setting {
        noop: guest.into(),
        noop_payload: r#"{"try": "nothing"}"#.into(),
        quick: std::env::args().any(|argument| argument == "--quick"),
        say: Box::new(|text| eprintln!("{text}")),
    };
    for figure in bench::run(&setting)? {
        println!("{figure:?} holds={}", figure.holds());
    }
    Ok(())
}
