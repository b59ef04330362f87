//! A device whose options have known effects, for tests.

use super::{Bench, Block, Unknown};
use crate::quantity::as_f64;

/// Adds up effects and normal noise. Every run has noise of its own, which depends on the seed and the run alone: the same run
/// asked for again has the same score.
pub(super) struct Scripted {
    /// Effect of each option on the score.
    pub(super) effects: Vec<f64>,
    /// Effect of two options that are set together, beyond the sum of both.
    pub(super) together: Option<(usize, usize, f64)>,
    /// Standard deviation of a run.
    pub(super) noise: f64,
    /// Change of the score from each run to the next.
    pub(super) drift: f64,
    pub(super) seed: u64,
    /// Runs that were done.
    pub(super) done: usize,
    /// Stops after so many.
    pub(super) stops_after: usize,
}

impl Scripted {
    pub(super) fn new(effects: &[f64], noise: f64, seed: u64) -> Self {
        let effects = effects.iter().map(|effect| effect.ln_1p()).collect();
        Self { effects, together: None, noise, drift: 0.0, seed, done: 0, stops_after: usize::MAX }
    }

    /// Standard normal (Box & Muller 1958).
    fn normal(&self, number: u64) -> f64 {
        let mut random = super::random::Random::new(self.seed.wrapping_mul(1_000_003) ^ number << 20);
        let mut unit = || (as_f64(random.next() >> 11) + 0.5) / 9_007_199_254_740_992.0;
        (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos()
    }
}

impl Bench for Scripted {
    fn measure(&mut self, block: &Block) -> Result<Vec<f64>, Unknown> {
        if self.done + block.runs.len() > self.stops_after {
            return Err(Unknown);
        }
        let mut scores = Vec::new();
        for run in &block.runs {
            let set = run.configuration;
            let sum: f64 = set.options().map(|option| self.effects[option]).sum();
            let more =
                self.together.filter(|(a, b, _)| set.has(*a) && set.has(*b)).map_or(0.0, |(.., more)| more);
            let number = u64::try_from(self.done).unwrap();
            scores.push(sum + more + self.drift * as_f64(number) + self.noise * self.normal(number));
            self.done += 1;
        }
        Ok(scores)
    }
}
