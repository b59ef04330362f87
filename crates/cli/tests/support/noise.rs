//! Random numbers from a seed.

use fsage_model::quantity::as_f64;

/// SplitMix64 (Steele, Lea & Flood 2014).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    /// Uniform between 0 and 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        as_f64((mixed ^ mixed >> 31) >> 11) / as_f64(1 << 53)
    }

    /// Nearly normal, with mean 0 and deviation 1: twelve uniform numbers less six (Irwin 1927, Hall 1927).
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
