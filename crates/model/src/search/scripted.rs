//! A device whose options have known effects, for tests.

use super::{Bench, Block, Run, Unknown};
use crate::quantity::as_f64;

/// Adds up effects and normal noise. Every run has noise of its own, which depends on the seed and the run alone: the same run
/// asked for again has the same score.
pub(super) struct Scripted {
    /// Effect of each option on the score.
    pub(super) effects: Vec<f64>,
    /// Effect of two options that are set together, beyond the sum of both.
    pub(super) together: Option<(usize, usize, f64)>,
    /// What each option adds to the logarithm of what is written; empty: nobody knows.
    pub(super) writes: Vec<f64>,
    /// Standard deviation of what a run writes.
    pub(super) writes_noise: f64,
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
        let writes = Vec::new();
        Self {
            effects,
            together: None,
            writes,
            writes_noise: 0.0,
            noise,
            drift: 0.0,
            seed,
            done: 0,
            stops_after: usize::MAX,
        }
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

    fn written(&self, run: &Run) -> Option<f64> {
        // Each seed of the load writes another amount.
        let level = 0.3 * self.normal(u64::from(run.replicate) << 32);
        let sum = run.configuration.options().map(|option| self.writes.get(option)).sum::<Option<f64>>()?;
        let of_run = |all: u64, option| all.wrapping_mul(31).wrapping_add(7 + u64::try_from(option).unwrap());
        let own = run.configuration.options().fold(u64::from(run.replicate), of_run);
        let noise = self.writes_noise * self.normal(own ^ 1 << 40);
        (!self.writes.is_empty()).then_some(level + sum + noise)
    }
}
