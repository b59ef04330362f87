//! Random choices from a seed.

use fsage_model::quantity::as_f64;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A source of random numbers; the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `end`, or 0; the bias is below `end` parts in 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// An index of a slice of that length, or 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        as_f64(self.0.next_u64() >> 11) / as_f64(1 << 53)
    }

    /// A multiple of `align` in `from..=to`, where there is one, else `from` rounded down.
    pub fn place(&mut self, from: u64, to: u64, align: u64) -> u64 {
        let (first, last) = (from.div_ceil(align), to / align);
        if last < first { from / align * align } else { (first + self.below(last - first + 1)) * align }
    }

    /// Puts the items into random order (Fisher & Yates, as Durstenfeld 1964 has it).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}
