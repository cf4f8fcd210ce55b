//! How often somebody may do something: rates of keys, namespaces and enqueue rules, counted in memory.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use windlass_core::Time;
use windlass_core::limits::{Admission, Limiter, Rate};

use super::lock;
use crate::http::transport::error::{Error, Result};
use crate::limits;

/// What has been counted lately, by whose it is. There is an upper bound on how many are remembered.
#[derive(Default)]
pub(super) struct Rates(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    limiters: HashMap<String, (Limiter, Rate)>,
    /// When those that have nothing to remember may be looked for again: not with each request.
    clean_at: Time,
}

impl Rates {
    /// Counts so many of each, or refuses and counts nothing.
    pub(super) fn count(&self, wanted: &[(String, Rate, u32)], now: Time) -> Result<()> {
        let mut counted = lock(&self.0);
        for (of, rate, many) in wanted {
            if *many > rate.count {
                let Rate { count, per } = rate;
                return Err(Error::invalid(format!(
                    "{many} at once are never allowed: the rate is {count} in {} s; send fewer at a time",
                    per.as_secs_f64()
                )));
            }
            match counted.limiter(of, *rate, now)?.admit_many(*many, *rate, now) {
                Admission::Go | Admission::Full => {}
                Admission::Until(at) => {
                    let why = "too many requests; wait, or ask an admin for a higher rate";
                    return Err(Error::rate_limited(why, at.since(now)));
                }
            }
        }
        for (of, rate, many) in wanted {
            let limiter = counted.limiter(of, *rate, now)?;
            for _ in 0..*many {
                // What is counted are requests and jobs that are enqueued, none of which lasts.
                limiter.start(Some(*rate), now);
                limiter.end();
            }
        }
        Ok(())
    }
}

impl Counted {
    fn limiter(&mut self, of: &str, rate: Rate, now: Time) -> Result<&mut Limiter> {
        if !self.limiters.contains_key(of) {
            self.make_room(now)?;
            self.limiters.insert(of.to_owned(), (Limiter::default(), rate));
        }
        let Some((limiter, own)) = self.limiters.get_mut(of) else {
            return Err(Error::internal("a rate that was just stored is not there"));
        };
        // It may have been changed.
        *own = rate;
        Ok(limiter)
    }

    /// Whoever comes when nothing can be forgotten waits: the memory of the server does not depend on how many come.
    fn make_room(&mut self, now: Time) -> Result<()> {
        if self.limiters.len() < limits::RATES {
            return Ok(());
        }
        if self.clean_at <= now {
            self.limiters.retain(|_, (limiter, rate)| !limiter.is_idle(Some(*rate), now));
            self.clean_at = now + CLEAN_EVERY;
        }
        if self.limiters.len() < limits::RATES {
            return Ok(());
        }
        Err(Error::rate_limited("too many others use this rate; wait, and try again", CLEAN_EVERY))
    }
}

/// How often what need not be remembered is looked for, at most.
const CLEAN_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { count: 3, per: Duration::from_secs(60) };

    fn one(of: &str) -> [(String, Rate, u32); 1] {
        [(of.to_owned(), RATE, 1)]
    }

    #[test]
    fn all_are_counted_or_none() {
        let rates = Rates::default();
        let both = [("a".to_owned(), RATE, 2), ("b".to_owned(), RATE, 3)];
        assert!(rates.count(&one("b"), Time(0)).is_ok());
        assert!(rates.count(&both, Time(0)).is_err(), "b has two left");
        assert!(rates.count(&[("a".to_owned(), RATE, 3)], Time(0)).is_ok(), "nothing of it was counted for a");
        assert!(rates.count(&[("c".to_owned(), RATE, 4)], Time(0)).is_err(), "more than the rate");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_its_own_rate() {
        let rates = Rates::default();
        for number in 0..limits::RATES {
            assert!(rates.count(&one(&number.to_string()), Time(0)).is_ok());
        }
        assert!(rates.count(&one("late"), Time(1)).is_err());
        assert!(rates.count(&one("0"), Time(1)).is_ok(), "those that are known are not affected");
        let short = [("short".to_owned(), Rate { per: Duration::from_millis(1), ..RATE }, 1)];
        assert!(rates.count(&short, Time(2_000)).is_err(), "the rate of others is what they are forgotten by");
        assert!(rates.count(&one("late"), Time(61_000)).is_ok());
        assert!(lock(&rates.0).limiters.len() <= 2);
    }
}
