//! Dependencies: which jobs must have ended before one may start.

use serde::{Deserialize, Serialize};

use crate::{CheckedJob, JobId, Refusal, bounds};

/// A job that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// One that is stored.
    Job(JobId),
    /// One of the same request, by its place in it.
    Sibling(usize),
}

/// What becomes of a job when one it depends on dies or is cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// It is dead too.
    Fail,
    /// It is cancelled, and so are those that depend on it.
    #[default]
    Cancel,
    /// It runs all the same once the others have ended.
    Continue,
}

impl OnFailure {
    pub const ALL: [OnFailure; 3] = [OnFailure::Fail, OnFailure::Cancel, OnFailure::Continue];

    pub fn as_str(self) -> &'static str {
        match self {
            OnFailure::Fail => "fail",
            OnFailure::Cancel => "cancel",
            OnFailure::Continue => "continue",
        }
    }
}

/// The order in which the jobs of one request can be stored: each after those of the request that it depends on.
/// Refuses a circle, and names the jobs in it by their places.
pub fn order(jobs: &[CheckedJob]) -> Result<Vec<usize>, Refusal> {
    if jobs.iter().all(|job| job.depends_on.is_empty()) {
        return Ok((0..jobs.len()).collect());
    }
    let edges: usize = jobs.iter().map(|job| job.depends_on.len()).sum();
    if edges > bounds::DEPENDENCIES_AT_ONCE {
        let why = format!("at most {} in one request, not {edges}", bounds::DEPENDENCIES_AT_ONCE);
        return Err(Refusal::invalid("depends_on", why));
    }
    let mut left = vec![0usize; jobs.len()];
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    for (index, job) in jobs.iter().enumerate() {
        for dependency in &job.depends_on {
            let Dependency::Sibling(other) = dependency else { continue };
            let Some(list) = dependants.get_mut(*other) else {
                return Err(Refusal::invalid("depends_on", format!("there is no jobs[{other}] (jobs[{index}])")));
            };
            list.push(index);
            left[index] += 1;
        }
    }
    let mut order: Vec<usize> = (0..jobs.len()).filter(|index| left[*index] == 0).collect();
    let mut done = 0;
    while let Some(index) = order.get(done).copied() {
        done += 1;
        for dependant in &dependants[index] {
            left[*dependant] -= 1;
            if left[*dependant] == 0 {
                order.push(*dependant);
            }
        }
    }
    if order.len() == jobs.len() {
        return Ok(order);
    }
    let circle: Vec<String> =
        (0..jobs.len()).filter(|index| left[*index] > 0).take(8).map(|index| format!("jobs[{index}]")).collect();
    Err(Refusal::invalid("depends_on", format!("these wait for each other in a circle: {}", circle.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewJob, Time};

    fn jobs(edges: &[&[usize]]) -> Vec<CheckedJob> {
        let job = |on: &&[usize]| {
            let new = NewJob {
                queue: Some("mail".parse().expect("a queue's name")),
                depends_on: on.iter().map(|index| Dependency::Sibling(*index)).collect(),
                ..NewJob::default()
            };
            new.check(Time::ZERO).expect("a good job")
        };
        edges.iter().map(job).collect()
    }

    #[test]
    fn each_job_comes_after_those_it_depends_on() {
        assert_eq!(order(&jobs(&[&[1, 2], &[2], &[]])).expect("no circle"), [2, 1, 0]);
        assert_eq!(order(&jobs(&[&[], &[]])).expect("no circle"), [0, 1]);
        assert_eq!(order(&[]).expect("nothing"), Vec::<usize>::new());
    }

    #[test]
    fn a_circle_is_refused_and_named() {
        for circle in [vec![&[0][..]], vec![&[1][..], &[0][..], &[][..]], vec![&[2], &[0], &[1]]] {
            let refused = order(&jobs(&circle)).expect_err("a circle").to_string();
            assert!(refused.contains("circle") && refused.contains("jobs[0]"), "{refused}");
            assert!(!refused.contains("jobs[3]"), "{refused}");
        }
    }

    #[test]
    fn a_job_that_is_not_in_the_request_is_refused() {
        assert!(order(&jobs(&[&[7]])).is_err());
    }

    #[test]
    fn jobs_outside_the_request_do_not_matter_to_the_order() {
        let mut all = jobs(&[&[1], &[]]);
        all[1].resolve_siblings(|_| None);
        let stored = NewJob {
            queue: Some("mail".parse().expect("a queue's name")),
            depends_on: vec![Dependency::Job(JobId::new(Time(1), 1))],
            ..NewJob::default()
        };
        all.push(stored.check(Time::ZERO).expect("a good job"));
        assert_eq!(order(&all).expect("no circle"), [1, 2, 0]);
    }

    #[test]
    fn a_request_has_at_most_so_many_dependencies() {
        let many = |count: usize| {
            let each = bounds::DEPENDENCIES;
            let lists: Vec<Vec<usize>> = (0..=count / each)
                .map(|index| (0..each.min(count - index * each)).map(|_| count / each + 1).collect())
                .collect();
            let mut edges: Vec<&[usize]> = lists.iter().map(Vec::as_slice).collect();
            edges.push(&[]);
            order(&jobs(&edges)).map(|order| order.len())
        };
        assert!(many(bounds::DEPENDENCIES_AT_ONCE).is_ok());
        let refused = many(bounds::DEPENDENCIES_AT_ONCE + 1).expect_err("too many").to_string();
        assert!(refused.contains("at most"), "{refused}");
    }

    #[test]
    fn each_way_to_fail_has_its_own_name() {
        assert_eq!(OnFailure::ALL.map(OnFailure::as_str), ["fail", "cancel", "continue"]);
    }
}
