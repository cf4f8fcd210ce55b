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
    let thousandths = 900 + mix(seed) % 201;
    let jittered = u128::from(plain) * u128::from(thousandths) / 1_000;
    Duration::from_millis(jittered.min(u128::from(cap)) as u64)
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

    fn exponential(base_ms: u64, cap_ms: u64) -> Backoff {
        let (base, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
        Backoff { kind: BackoffKind::Exponential, base, cap }
    }

    #[test]
    fn the_jitter_reaches_a_tenth_to_both_sides_and_no_further() {
        let backoff =
            Backoff { kind: BackoffKind::Fixed, base: Duration::from_secs(100), cap: Duration::from_secs(600) };
        let delays: Vec<u64> = (0..5_000).map(|seed| delay(backoff, 1, seed).as_millis() as u64).collect();
        assert_eq!((delays.iter().min(), delays.iter().max()), (Some(&90_000), Some(&110_000)));
    }

    #[test]
    fn the_cap_bounds_the_jitter_too() {
        let delays: Vec<u64> =
            (0..500).map(|seed| delay(exponential(1_000, 4_000), 9, seed).as_millis() as u64).collect();
        assert_eq!(delays.iter().max(), Some(&4_000));
        assert!(delays.iter().min() >= Some(&3_600));
    }

    #[test]
    fn the_largest_delay_there_is_does_not_wrap() {
        let most = u64::MAX;
        for seed in 0..500 {
            assert!(delay(exponential(most, most), 9, seed) >= Duration::from_millis(most / 10 * 9));
        }
    }

    #[test]
    fn the_first_failure_waits_once_the_base_and_so_does_none() {
        for failures in [0, 1] {
            let got = delay(exponential(1_000, 1_000_000), failures, 3).as_millis() as u64;
            assert!((900..=1_100).contains(&got), "{got}");
        }
    }

    #[test]
    fn a_seed_is_spread_over_all_bits() {
        // The values of the reference implementation of splitmix64 for the seeds 0, 1 and its own increment.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(0x9E37_79B9_7F4A_7C15), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(mix(1), 0x910A_2DEC_8902_5CC1);
    }
}
