//! Bytes that nobody would build: good components, damaged by chance. Each is turned away in words, or runs within its limits;
//! none is a panic, and the executor goes on. Compiled here, which is quick, and in processes of their own, as a server does; the
//! end-to-end tests send some to a real one.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::{Config, Executor, Rejected};

use crate::compiling::apart;
use crate::support::{Recorder, assembled, hostile, neighbour_is_well, start_on};

const CASES: u64 = 3_000;
/// Each starts a process.
const CASES_APART: u64 = 150;

/// splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Damages a copy in one to four places. The header mostly stays, or nobody would look any further.
fn damaged(good: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let header = if chance.below(50) == 0 { 0 } else { 8 };
    for _ in 0..=chance.below(4) {
        let at = header + chance.below(bytes.len() - header);
        let length = 1 + chance.below((bytes.len() - at).min(32));
        match chance.below(7) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = chance.next() as u8,
            // The largest and the smallest a length can be.
            2 => bytes[at] = [0xff, 0x7f, 0x80, 0][chance.below(4)],
            3 => bytes.truncate(at.max(header + 1)),
            4 => drop(bytes.drain(at..at + length)),
            5 => {
                let piece = bytes[at..at + length].to_vec();
                let to = header + chance.below(bytes.len() - header);
                bytes.splice(to..to, piece);
            }
            _ => bytes[at..at + length].fill(chance.next() as u8),
        }
        if bytes.len() <= header + 1 {
            break;
        }
    }
    bytes
}

#[tokio::test]
async fn damaged_components_are_refused_or_run_within_limits() {
    let executor = Executor::new(Config { places: 4, ..Config::default() }).expect("an executor");
    fuzz(&executor, CASES).await;
}

#[tokio::test]
async fn damaged_components_do_not_crash_a_compiler_in_a_process_of_its_own() {
    fuzz(&apart(|_| {}), CASES_APART).await;
}

async fn fuzz(executor: &Executor, cases: u64) {
    let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x77_696e_646c);
    println!("seed {seed}: set WINDLASS_SEED to it to run the same again");
    let mut chance = Chance(seed);
    let mut corpus: Vec<_> = ["noop", "panic", "spawn-bomb", "memory-bomb-many", "table-bomb"].map(hostile).to_vec();
    corpus.extend(["no-run", "wrong-type"].map(assembled));
    let (mut refused, mut ran) = (0, 0);
    for case in 0..cases {
        let good = &corpus[chance.below(corpus.len())];
        let bytes = damaged(good, &mut chance);
        match executor.compile(bytes.into()).await {
            Err(Rejected::Internal { reason }) => panic!("seed {seed}, case {case}: {reason}"),
            Err(_) => refused += 1,
            Ok(plugin) => {
                let limit = |attempt: &mut windlass_executor::Attempt| {
                    attempt.limits.cpu_time = Some(Duration::from_millis(20));
                    attempt.limits.memory_bytes = 8 << 20;
                };
                let host = Arc::new(Recorder::default());
                start_on(executor, &plugin, "{}", host, limit).ended().await;
                ran += 1;
            }
        }
    }
    println!("{refused} refused, {ran} ran");
    assert!(refused > cases / 2, "{refused} refused, {ran} ran");
    neighbour_is_well().await;
}
