//! The deterministic simulator: the real engine on a disk that crashes, under seeded random commands and a clock that
//! jumps, held against a model that knows nothing of keys, windows or cursors.
//!
//! One seed is one run, and always the same one. A failing seed prints the command that plays it again.
//! `WINDLASS_SEED=n` plays one seed, step by step; `WINDLASS_SEEDS=n` plays the first n; `WINDLASS_SOAK_SECONDS=n`
//! plays new ones for that long.

mod answers;
mod attempts;
mod broken;
mod bulks;
mod causes;
mod check;
mod commands;
mod disk;
mod events;
mod flows;
mod lifetime;
mod model;
mod order;
mod recount;
mod rounds;
mod schedules;
mod settings;
mod silent;
mod told;
mod webhooks;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use world::World;

/// What `make test` plays.
const SEEDS: u64 = 2_000;

#[test]
fn simulator_nothing_acknowledged_is_lost_doubled_or_out_of_order_whatever_crashes() {
    if let Some(seed) = number("WINDLASS_SEED") {
        World::new(seed, true).run();
        return;
    }
    let (first, seeds, deadline) = match number("WINDLASS_SOAK_SECONDS") {
        Some(seconds) => {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
            (since_1970.as_micros() as u64, u64::MAX, Some(Instant::now() + Duration::from_secs(seconds)))
        }
        None => (0, number("WINDLASS_SEEDS").unwrap_or(SEEDS), None),
    };
    println!("playing seeds from {first}");
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        while !failed.load(Ordering::Relaxed) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let ordinal = next.fetch_add(1, Ordering::Relaxed);
            if ordinal >= seeds {
                return;
            }
            let seed = first.wrapping_add(ordinal);
            if catch_unwind(AssertUnwindSafe(|| World::new(seed, false).run())).is_err() {
                failed.store(true, Ordering::Relaxed);
                eprintln!(
                    "seed {seed} fails; play it again with\n  \
                     WINDLASS_SEED={seed} cargo test -p windlass-store --test store simulator -- --nocapture"
                );
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    assert!(!failed.load(Ordering::Relaxed), "a seed failed: see above");
    println!("{} seeds played", next.load(Ordering::Relaxed).min(seeds));
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} should be a number and is `{text}`")))
}
