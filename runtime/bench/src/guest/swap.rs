//! A new version under load: no job fails, and none is delayed for long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::figure::{Figure, Goal};
use anyhow::anyhow;
use serde_json::Value;

use crate::guest::NOTHING;
use crate::server::{Client, Server};
use crate::setting::{Setting, say};
use crate::stats::percentile;

const CALLERS: usize = 4;

pub fn measure(setting: &Setting, guest: &[u8]) -> anyhow::Result<Figure> {
    let span = Duration::from_secs(if setting.quick { 3 } else { 10 });
    let server = Server::start(setting, "swap")?;
    let client = &server.client;
    client.upload("noop", guest)?;
    let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let taken = Mutex::new(Vec::new());
    let (mut before, mut during) = thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| call(client.clone(), &stop, &failed, &taken));
        }
        let measured = || -> anyhow::Result<_> {
            thread::sleep(span / 4);
            take(&taken);
            thread::sleep(span);
            let before = take(&taken);
            let began = Instant::now();
            // Includes the upload, the compilation, the swap, and the time right after it.
            let mut version = 0;
            while began.elapsed() < span {
                version += 1;
                client.upload("noop", &other_bytes(guest, &version.to_string()))?;
            }
            Ok((before, take(&taken), version))
        };
        let measured = measured();
        stop.store(true, Ordering::Relaxed);
        measured.map(|(before, during, versions)| {
            say(&format!("{versions} versions in {span:?}, {} jobs meanwhile", during.len()));
            (before, during)
        })
    })?;
    if failed.load(Ordering::Relaxed) {
        return Err(anyhow!("a job failed during the swap"));
    }
    let (limit, value) = (percentile(&mut before, 99), percentile(&mut during, 99));
    say(&format!("swap under load: p99 {value:.2} ms, before it {limit:.2} ms; no job failed"));
    let (name, unit, goal) = ("swap_under_load", "ms", Goal::AtMost(2.0));
    Ok(Figure { name, value, unit, limit: Some(limit), ratio: value / limit, goal })
}

/// Runs one job after another.
fn call(client: Client, stop: &AtomicBool, failed: &AtomicBool, taken: &Mutex<Vec<Duration>>) {
    let payload: Value = serde_json::from_str(NOTHING).unwrap_or_default();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let state = client.enqueue("noop", &payload).and_then(|id| client.wait(&id));
        match state {
            Ok(state) if state == "completed" => {
                taken.lock().unwrap_or_else(PoisonError::into_inner).push(began.elapsed());
            }
            Ok(state) => {
                say(&format!("a job ended {state}"));
                failed.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                say(&format!("a job was not accepted: {error:#}"));
                failed.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn take(taken: &Mutex<Vec<Duration>>) -> Vec<Duration> {
    std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The same component with an additional custom section: another version with the same code.
pub fn other_bytes(component: &[u8], note: &str) -> Vec<u8> {
    // The section's id and length, and its name with its own length. All are short enough for one byte.
    let mut bytes = component.to_vec();
    let note = &note.as_bytes()[..note.len().min(100)];
    bytes.extend([0, note.len() as u8 + 1, note.len() as u8]);
    bytes.extend_from_slice(note);
    bytes
}
