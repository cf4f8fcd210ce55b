//! Good components, damaged at random. Each is rejected with an explanation or runs within its limits; none causes a
//! panic, and the executor continues. Compiled in this process, which is quick, and in child processes, as a server
//! does; the end-to-end tests send some to a real server.

use std::sync::Arc;
use std::time::Duration;

use windlass_executor::{Config, Executor, Rejected};

use crate::compiling::compiling_in_processes;
use crate::support::{Recorder, assembled, hostile, neighbour_still_runs, start_on};

const CASES: u64 = 3_000;
/// Each starts a process.
const CASES_IN_PROCESSES: u64 = 150;

/// splitmix64.
struct Random(u64);

impl Random {
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

/// Damages a copy in one to four places. The header mostly stays intact, because parsing ends at a damaged one.
fn damaged(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let header = if random.below(50) == 0 { 0 } else { 8 };
    for _ in 0..=random.below(4) {
        let at = header + random.below(bytes.len() - header);
        let length = 1 + random.below((bytes.len() - at).min(32));
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            // Bytes that change lengths the most.
            2 => bytes[at] = [0xff, 0x7f, 0x80, 0][random.below(4)],
            3 => bytes.truncate(at.max(header + 1)),
            4 => drop(bytes.drain(at..at + length)),
            5 => {
                let piece = bytes[at..at + length].to_vec();
                let to = header + random.below(bytes.len() - header);
                bytes.splice(to..to, piece);
            }
            _ => bytes[at..at + length].fill(random.next() as u8),
        }
        if bytes.len() <= header + 1 {
            break;
        }
    }
    bytes
}

#[tokio::test]
async fn damaged_components_are_refused_or_run_within_limits() {
    let executor = Executor::new(Config { instances: 4, ..Config::default() }).expect("an executor");
    fuzz(&executor, CASES).await;
}

#[tokio::test]
async fn damaged_components_do_not_crash_a_compiler_in_a_child_process() {
    fuzz(&compiling_in_processes(|_| {}), CASES_IN_PROCESSES).await;
}

async fn fuzz(executor: &Executor, cases: u64) {
    let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x77_696e_646c);
    println!("seed {seed}: set WINDLASS_SEED to it to run the same again");
    let mut random = Random(seed);
    let mut corpus: Vec<_> = ["noop", "panic", "spawn-bomb", "memory-bomb-many", "table-bomb"].map(hostile).to_vec();
    corpus.extend(["no-run", "wrong-type"].map(assembled));
    let (mut refused, mut ran) = (0, 0);
    for case in 0..cases {
        let good = &corpus[random.below(corpus.len())];
        let bytes = damaged(good, &mut random);
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
    neighbour_still_runs().await;
}
