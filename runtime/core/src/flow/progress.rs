//! How far a job is, and a tree of jobs: each child counts by its weight.

use crate::Job;

/// A job's progress in percent. One that has ended counts as a hundred, however it ended.
pub fn percent(job: &Job) -> f64 {
    if job.is_ended() {
        return 100.0;
    }
    let Some(progress) = &job.progress else { return 0.0 };
    let counted = match (progress.current, progress.total) {
        (Some(current), Some(total)) if total > 0 => Some(100.0 * current as f64 / total as f64),
        _ => None,
    };
    let percent = progress.percent.or(counted).unwrap_or(0.0);
    if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 }
}

/// The mean of (percent, weight). Weights that make no sense count as one.
pub fn rolled_up(parts: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (percent, weight) in parts {
        let weight = if weight.is_finite() && weight >= 0.0 { weight } else { 1.0 };
        sum += percent * weight;
        weights += weight;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, Progress, State, Time};

    #[test]
    fn a_tree_is_as_far_as_its_parts_by_their_weight() {
        let check = |parts: &[(f64, f64)], expected: f64| {
            assert!((rolled_up(parts.iter().copied()) - expected).abs() < 1e-9, "{parts:?}");
        };
        check(&[], 0.0);
        check(&[(100.0, 1.0), (0.0, 1.0)], 50.0);
        check(&[(100.0, 3.0), (0.0, 1.0)], 75.0);
        check(&[(100.0, f64::NAN), (0.0, -1.0)], 50.0);
        check(&[(100.0, 0.0)], 0.0);
    }

    #[test]
    fn a_job_is_as_far_as_it_says_and_through_when_it_has_ended() {
        let progress = |percent, current, total| Some(Progress { percent, current, total, ..Progress::default() });
        let cases = [
            (State::Active, None, 0.0),
            (State::Active, progress(None, None, None), 0.0),
            (State::Active, progress(Some(40.0), None, None), 40.0),
            (State::Active, progress(None, Some(3), Some(4)), 75.0),
            (State::Active, progress(Some(40.0), Some(3), Some(4)), 40.0),
            (State::Active, progress(None, Some(3), None), 0.0),
            (State::Active, progress(None, Some(0), Some(0)), 0.0),
            (State::Active, progress(None, Some(9), Some(4)), 100.0),
            (State::Active, progress(Some(-1.0), None, None), 0.0),
            (State::Active, progress(Some(f64::INFINITY), None, None), 0.0),
            (State::Dead, progress(Some(40.0), None, None), 100.0),
            (State::Completed, None, 100.0),
        ];
        for (state, progress, expected) in cases {
            let new = Job::new(JobId::new(Time(1), 1), "mail".parse().expect("a name"), Time(1));
            let found = percent(&Job { state, progress: progress.clone(), ..new });
            assert!((found - expected).abs() < 1e-9, "{state:?} {progress:?}: {found}");
        }
    }
}
