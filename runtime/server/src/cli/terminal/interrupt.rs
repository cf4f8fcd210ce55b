//! Ctrl-C in a command that only watches: it says what goes on without it, and ends.

use std::process::exit;
use std::thread;

use anyhow::Context;

/// What shells expect of a process that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// From now on, Ctrl-C calls `farewell` and then ends the process.
pub fn on_interrupt(farewell: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot wait for Ctrl-C")?;
    let (listening, is_listening) = std::sync::mpsc::channel();
    thread::spawn(move || {
        runtime.block_on(async {
            let mut pressed = std::pin::pin!(tokio::signal::ctrl_c());
            // The first poll is what installs the handler.
            let now = futures_util::future::poll_immediate(&mut pressed).await;
            let _ = listening.send(());
            if now.is_none() {
                let _ = pressed.await;
            }
        });
        farewell();
        exit(INTERRUPTED);
    });
    is_listening.recv().context("cannot wait for Ctrl-C")
}
