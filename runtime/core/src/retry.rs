//! How long a failed job waits before its next attempt.

use core::time::Duration;

use crate::{Backoff, BackoffKind};

/// The delay after the `failures`-th failure (from 1), jittered by at most a tenth and never above the cap.
pub fn delay(backoff: Backoff, failures: u32, seed: u64) -> Duration {
    let n = u64::from(failures.max(1));
    let base = u64::try_from(backoff.base.as_millis()).unwrap_or(u64::MAX);
    let plain = match backoff.kind {
        BackoffKind::None => return Duration::ZERO,
        BackoffKind::Fixed => base,
        BackoffKind::Linear => base.saturating_mul(n),
        BackoffKind::Quadratic => base.saturating_mul(n.saturating_mul(n)),
        BackoffKind::Exponential => base.saturating_mul(1u64.checked_shl(failures.max(1) - 1).unwrap_or(u64::MAX)),
    };
    let cap = u64::try_from(backoff.cap.as_millis()).unwrap_or(u64::MAX);
    let plain = plain.min(cap);
    // -100 to +100 thousandths.
    let shift = (mix(seed) % 201) as i64 - 100;
    let jitter = i128::from(plain) * i128::from(shift) / 1_000;
    let jittered = (i128::from(plain) + jitter).clamp(0, i128::from(cap));
    Duration::from_millis(jittered as u64)
}

/// One step of splitmix64: spreads a seed over all bits.
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: BackoffKind, failures: u32, expected_ms: u64) {
        let backoff = Backoff { kind, base: Duration::from_secs(5), cap: Duration::from_secs(600) };
        for seed in 0..500 {
            let got = delay(backoff, failures, seed).as_millis() as u64;
            let tenth = expected_ms / 10;
            assert!((expected_ms - tenth..=expected_ms + tenth).contains(&got), "{kind:?} #{failures}: {got}");
            assert!(got <= 600_000);
        }
    }

    #[test]
    fn each_kind_grows_as_its_name_says() {
        check(BackoffKind::None, 3, 0);
        check(BackoffKind::Fixed, 3, 5_000);
        check(BackoffKind::Linear, 3, 15_000);
        check(BackoffKind::Quadratic, 3, 45_000);
        check(BackoffKind::Exponential, 1, 5_000);
        check(BackoffKind::Exponential, 4, 40_000);
        check(BackoffKind::Exponential, 200, 600_000);
    }
}
