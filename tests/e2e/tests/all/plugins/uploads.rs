//! Damaged components uploaded to a real server: each is refused with an explanation or accepted, and jobs run
//! meanwhile.

use serde_json::json;
use windlass_e2e::{Server, plugin};

const CASES: u64 = 120;

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

/// A component with one to three bytes changed or a piece removed; the header stays intact, because parsing ends at a
/// damaged one.
fn damaged(good: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=chance.below(3) {
        let at = 8 + chance.below(bytes.len() - 8);
        match chance.below(4) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = [0xff, 0x7f, 0x80, 0][chance.below(4)],
            2 => bytes.truncate(at.max(9)),
            _ => drop(bytes.drain(at..(at + 1 + chance.below(32)).min(bytes.len()))),
        }
        if bytes.len() < 10 {
            break;
        }
    }
    bytes
}

#[test]
fn damaged_uploads_are_refused_with_an_explanation_and_the_server_continues() {
    let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x75_706c_6f61);
    println!("seed {seed}: set WINDLASS_SEED to it to run the same again");
    let mut chance = Chance(seed);
    let server = Server::start();
    server.upload("digest", "digest");
    let good = plugin("test-c");
    let (mut refused, mut taken) = (0, 0);
    for case in 0..CASES {
        let answer = server.put("/api/v1/plugins/damaged?activate=false", &damaged(&good, &mut chance));
        match answer.status {
            200 | 201 => taken += 1,
            400 | 413 | 422 => {
                let (code, words) = (&answer.body["code"], &answer.body["error"]);
                assert!(code.is_string() && words.is_string(), "seed {seed}, case {case}: {answer:?}");
                refused += 1;
            }
            _ => panic!("seed {seed}, case {case}: {answer:?}"),
        }
        if case % 30 == 0 {
            let id = server.enqueue(&json!({"queue": "digest", "payload": {"text": "hello"}}));
            server.wait_for(&id, "completed");
        }
    }
    println!("{refused} refused, {taken} taken");
    assert!(refused > CASES / 2, "{refused} refused, {taken} taken");
    assert!(!server.said().contains("panicked"), "{}", server.said());
}
