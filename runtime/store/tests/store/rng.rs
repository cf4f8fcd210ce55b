//! Reproducible randomness: everything random in these tests comes from a seed.

use windlass_core::retry::mix;

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        // Neighbouring seeds must not give neighbouring runs.
        Rng(mix(mix(seed)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// From zero up to, and without, `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// True so many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let index = self.below(among.len() as u64) as usize;
        among.get(index)
    }

    /// The value, or nothing, so many times in a hundred.
    pub fn maybe<T>(&mut self, percent: u64, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        self.chance(percent).then(|| value(self))
    }
}
