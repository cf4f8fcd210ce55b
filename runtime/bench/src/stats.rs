//! Median and percentiles of samples.

use std::time::Duration;

pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// The sample, in milliseconds, that `percent` of a hundred samples do not exceed.
pub fn percentile(samples: &mut [Duration], percent: usize) -> f64 {
    samples.sort_unstable();
    let at = (samples.len() * percent).div_ceil(100).saturating_sub(1);
    samples.get(at).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample() {
        let mut samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&mut samples, 99), 198.0);
        assert_eq!(percentile(&mut samples, 50), 100.0);
        assert!(percentile(&mut [], 99).is_nan());
    }
}
