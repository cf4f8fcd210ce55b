//! The terminal of `windlass dev`: single keys in, lines out.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::Sender;
use std::thread;

use ratatui::crossterm::event::{self, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal;

use crate::cli::author::dev::DevEvent;

/// Prints one or more lines. A terminal in raw mode does not return to the first column by itself.
pub fn say(text: &str) {
    let end = if terminal::is_raw_mode_enabled().unwrap_or(false) { "\r\n" } else { "\n" };
    let mut out = std::io::stderr().lock();
    let text = text.replace('\n', end);
    let _ = write!(out, "{text}{end}");
}

/// Restores the terminal while other programs print to it.
pub fn restored<T>(work: impl FnOnce() -> T) -> T {
    let raw = terminal::is_raw_mode_enabled().unwrap_or(false);
    if raw {
        let _ = terminal::disable_raw_mode();
    }
    let done = work();
    if raw {
        let _ = terminal::enable_raw_mode();
    }
    done
}

/// Reads single keys, if there is a terminal, which is restored when this is dropped.
pub struct Keys {
    pub on: bool,
}

impl Keys {
    pub fn listen(sender: Sender<DevEvent>) -> Keys {
        let on = std::io::stdin().is_terminal() && terminal::enable_raw_mode().is_ok();
        if on {
            thread::spawn(move || {
                while let Ok(event) = event::read() {
                    let event::Event::Key(key) = event else { continue };
                    let event = match key.code {
                        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => DevEvent::Stop,
                        KeyCode::Char(letter) => DevEvent::Key(letter),
                        KeyCode::Enter => DevEvent::Key('\n'),
                        _ => continue,
                    };
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            });
        }
        Keys { on }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if self.on {
            let _ = terminal::disable_raw_mode();
        }
    }
}
