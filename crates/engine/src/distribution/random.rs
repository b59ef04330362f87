//! A stream of random numbers: Xoshiro256++ (Blackman & Vigna 2021), one per thread.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded stream.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea & Flood 2014): advances the state, gives 64 bits.
fn split(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The stream number `stream` of a seed. Streams of one seed start at unrelated states.
    #[must_use]
    pub fn new(seed: u64, stream: u32) -> Self {
        let mut state = seed;
        let mut state = split(&mut state) ^ u64::from(stream);
        let mut bytes = [0; 32];
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = split(&mut state).to_le_bytes();
        }
        Self(Xoshiro256PlusPlus::from_seed(bytes))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number below `bound` (0 when `bound` is 0), by the high half of a product: the bias is below
    /// `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(bound);
        // The high half of a 128-bit number fits 64 bits.
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number strictly between 0 and 1: the middle of one of 2^53 equal steps.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let step = (self.bits() >> 11) as f64;
        (step + 0.5) * (1.0 / 9_007_199_254_740_992.0)
    }

    /// True with this probability; draws nothing when it is 0 or less.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The streams are part of what a seed stands for: these numbers must never change.
    #[test]
    fn the_streams_are_what_they_were() {
        let mut random = Random::new(1, 0);
        let bits: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(bits, GOLDEN_BITS);
        let below: Vec<u64> = (0..6).map(|_| random.below(1000)).collect();
        assert_eq!(below, GOLDEN_BELOW);
        assert_eq!(random.unit().to_bits(), GOLDEN_UNIT);
        assert_ne!(Random::new(1, 1).bits(), Random::new(1, 0).bits());
        assert_ne!(Random::new(2, 0).bits(), Random::new(1, 0).bits());
    }

    const GOLDEN_BITS: [u64; 4] = [
        8_089_978_747_140_965_633,
        5_687_923_198_772_495_674,
        15_915_821_081_677_751_511,
        16_148_157_984_598_114_124,
    ];
    const GOLDEN_BELOW: [u64; 6] = [431, 224, 754, 157, 140, 482];
    const GOLDEN_UNIT: u64 = 4_603_611_967_333_015_084;

    /// Chi-square over 64 cells: mean 63, standard deviation 11; 130 is six of them away.
    #[test]
    fn below_is_even() {
        let mut random = Random::new(7, 3);
        let mut cells = [0.0_f64; 64];
        for _ in 0..64_000 {
            cells[usize::try_from(random.below(64)).expect("small")] += 1.0;
        }
        let chi: f64 = cells.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        assert!((20.0..130.0).contains(&chi), "{chi}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }
}
