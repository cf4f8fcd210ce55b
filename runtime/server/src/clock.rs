//! The only reader of system time. Everything else in Windlass takes the time as an argument.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Time;

/// Wall time that never goes back while the process runs: when the system clock is set back, this one continues at the
/// rate of the monotonic clock until the system clock has caught up. When it is set forward, this one follows.
#[derive(Debug)]
pub struct SystemClock {
    anchor: Mutex<Anchor>,
}

/// A moment that was read from both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    wall: Time,
    at: Instant,
}

impl SystemClock {
    pub fn start() -> SystemClock {
        SystemClock { anchor: Mutex::new(Anchor { wall: wall(), at: Instant::now() }) }
    }
}

impl windlass_store::Clock for SystemClock {
    fn now(&self) -> Time {
        // The anchor is replaced as a whole, so a poisoned lock still holds a valid one.
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner).read(wall(), Instant::now())
    }
}

impl Anchor {
    fn read(&mut self, wall: Time, at: Instant) -> Time {
        let steady = self.wall + at.saturating_duration_since(self.at);
        if wall > steady {
            *self = Anchor { wall, at };
            return wall;
        }
        steady
    }
}

fn wall() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time::ZERO + since
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_continues_when_the_clock_is_set_back_and_follows_when_it_is_set_forward() {
        let begin = Instant::now();
        let mut anchor = Anchor { wall: Time(100_000), at: begin };
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(anchor.read(Time(101_000), after(1)), Time(101_000));
        assert_eq!(anchor.read(Time(50_000), after(2)), Time(102_000), "set back: continues");
        assert_eq!(anchor.read(Time(51_000), after(3)), Time(103_000));
        assert_eq!(anchor.read(Time(900_000), after(4)), Time(900_000), "set forward: follows");
        assert_eq!(anchor.read(Time(899_000), after(5)), Time(901_000));
    }
}
