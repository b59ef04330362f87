//! Components of variance: how much of the spread lies between seeds, between trials of a seed, and between
//! rounds of a trial (Kalibera & Jones 2013, "Rigorous benchmarking in reasonable time", ISMM '13, §6–7).
//!
//! With S² the variance of a level's means around the mean of the level above, and r the number of members,
//! a level's own component is T² = S² − S²(below) ÷ r(below). Below 0, which chance can make it, it is 0.
//! More rounds shrink only the lowest component; where most of the spread lies between seeds they are wasted.

use crate::stats::quantile::{count, index, mean};

/// Where the spread of one unit lies, as variances on the scale of the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Between seeds; with one trial per seed, what differs between trials is part of it.
    pub seed: f64,
    /// Between trials of one seed; `None` where no seed has two in a cell.
    pub trial: Option<f64>,
    /// Between rounds of one trial; `None` where no trial has two.
    pub round: Option<f64>,
    /// Trials per seed and cell (harmonic mean).
    pub trials: f64,
    /// Rounds per trial (harmonic mean).
    pub rounds: f64,
}

/// A seed's trials in a cell, with the values of their rounds.
pub(super) type Nest = Vec<Vec<f64>>;

/// A pooled variance with its degrees of freedom.
#[derive(Default)]
struct Pool {
    squares: f64,
    freedom: f64,
    inverse: f64,
    groups: f64,
}

impl Pool {
    fn add(&mut self, values: &[f64]) {
        let Some(centre) = mean(values) else { return };
        self.squares += values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        self.freedom += count(values.len()) - 1.0;
        self.inverse += 1.0 / count(values.len());
        self.groups += 1.0;
    }

    fn variance(&self) -> Option<f64> {
        (self.freedom > 0.0).then(|| self.squares / self.freedom)
    }

    /// Harmonic mean of the groups' sizes; 1 without any.
    fn size(&self) -> f64 {
        if self.inverse > 0.0 { self.groups / self.inverse } else { 1.0 }
    }
}

impl Components {
    /// Of units grouped by cell. `None` without two units in any cell.
    pub(super) fn new(cells: &[Vec<&Nest>]) -> Option<Self> {
        let (mut of_rounds, mut of_trials, mut of_seeds) =
            (Pool::default(), Pool::default(), Pool::default());
        for cell in cells {
            let mut units = Vec::new();
            for nest in cell {
                nest.iter().for_each(|rounds| of_rounds.add(rounds));
                let trials: Vec<f64> = nest.iter().filter_map(|rounds| mean(rounds)).collect();
                of_trials.add(&trials);
                units.extend(mean(&trials));
            }
            of_seeds.add(&units);
        }
        Self::of(&of_rounds, &of_trials, of_seeds.variance()?)
    }

    /// Of differences of pairs: the seeds' variance is that of the differences, what lies below is the sum of
    /// both sides'.
    pub(super) fn of_pairs(cells: &[Vec<(&Nest, &Nest)>]) -> Option<Self> {
        let mut of_seeds = Pool::default();
        let (mut rounds, mut trials): ([Pool; 2], [Pool; 2]) = Default::default();
        for cell in cells {
            let mut units = Vec::new();
            for (a, b) in cell {
                let mut means = [0.0; 2];
                for (side, nest) in [a, b].into_iter().enumerate() {
                    nest.iter().for_each(|values| rounds[side].add(values));
                    let own: Vec<f64> = nest.iter().filter_map(|values| mean(values)).collect();
                    trials[side].add(&own);
                    means[side] = mean(&own)?;
                }
                units.push(means[1] - means[0]);
            }
            of_seeds.add(&units);
        }
        let sum = |[a, b]: [Pool; 2]| Pool {
            // Two variances of equal weight add; so do their degrees of freedom cancel out of the quotient.
            squares: a.variance().unwrap_or(0.0) + b.variance().unwrap_or(0.0),
            freedom: if a.freedom + b.freedom > 0.0 { 1.0 } else { 0.0 },
            inverse: a.inverse + b.inverse,
            groups: a.groups + b.groups,
        };
        Self::of(&sum(rounds), &sum(trials), of_seeds.variance()?)
    }

    fn of(of_rounds: &Pool, of_trials: &Pool, of_seeds: f64) -> Option<Self> {
        let (rounds, trials) = (of_rounds.size(), of_trials.size());
        let round = of_rounds.variance();
        let below_trial = round.unwrap_or(0.0) / rounds;
        let trial = of_trials.variance().map(|variance| (variance - below_trial).max(0.0));
        let below_seed = of_trials.variance().unwrap_or(below_trial) / trials;
        let seed = (of_seeds - below_seed).max(0.0);
        seed.is_finite().then_some(Self { seed, trial, round, trials, rounds })
    }

    /// Rounds per trial at which the variance of one unit is no more than `target`, all else as it is; `None`
    /// when no number of rounds does that.
    #[must_use]
    pub fn rounds_for(&self, target: f64) -> Option<usize> {
        let rest = target - self.seed - self.trial.unwrap_or(0.0) / self.trials;
        let rounds = (self.round? / self.trials / rest).ceil();
        (rest > 0.0 && rounds.is_finite()).then(|| index(rounds).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_keeps_what_is_its_own() {
        // Seeds 0 and 10, trials at ±1 of them, rounds at ±0.1 of those: 4 trials with 2 rounds.
        let nest = |centre: f64| -> Nest {
            [-1.0, 1.0].iter().map(|by| vec![centre + by - 0.1, centre + by + 0.1]).collect()
        };
        let (low, high) = (nest(0.0), nest(10.0));
        let found = Components::new(&[vec![&low, &high]]).unwrap();
        // Variances of two values a apart are a² / 2: 0.02, 2 and 50.
        assert!((found.round.unwrap() - 0.02).abs() < 1e-12);
        assert!((found.trial.unwrap() - (2.0 - 0.01)).abs() < 1e-12);
        assert!((found.seed - (50.0 - 1.0)).abs() < 1e-9, "{found:?}");
        assert_eq!((found.trials, found.rounds), (2.0, 2.0));
    }

    #[test]
    fn what_was_not_repeated_is_not_known() {
        let (a, b): (Nest, Nest) = (vec![vec![1.0]], vec![vec![3.0]]);
        let found = Components::new(&[vec![&a, &b]]).unwrap();
        assert_eq!((found.seed, found.trial, found.round), (2.0, None, None));
        assert_eq!(found.rounds_for(1.0), None);
        assert_eq!(Components::new(&[vec![&a]]), None);
    }

    #[test]
    fn cells_are_no_part_of_the_spread() {
        let (a, b): (Nest, Nest) = (vec![vec![1.0]], vec![vec![3.0]]);
        let (far, farther): (Nest, Nest) = (vec![vec![101.0]], vec![vec![103.0]]);
        let found = Components::new(&[vec![&a, &b], vec![&far, &farther]]).unwrap();
        assert_eq!(found.seed, 2.0);
    }

    #[test]
    fn pairs_keep_what_both_sides_share_out() {
        let nest = |values: &[f64]| -> Nest { vec![values.to_vec()] };
        let (a, b) = ([nest(&[1.0, 1.2]), nest(&[9.0, 9.2])], [nest(&[2.0, 2.2]), nest(&[10.2, 10.4])]);
        let cell: Vec<(&Nest, &Nest)> = a.iter().zip(&b).collect();
        let found = Components::of_pairs(&[cell]).unwrap();
        // Differences 1 and 1.2: variance 0.02; rounds 0.02 on each side, two of them.
        assert!((found.round.unwrap() - 0.04).abs() < 1e-12, "{found:?}");
        assert!(found.seed.abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn rounds_pay_where_rounds_vary() {
        let noisy = Components { seed: 1.0, trial: None, round: Some(16.0), trials: 1.0, rounds: 1.0 };
        assert_eq!(noisy.rounds_for(3.0), Some(8));
        assert_eq!(noisy.rounds_for(0.9), None, "rounds cannot do away with what seeds differ by");
        let quiet = Components { seed: 1.0, round: Some(0.1), ..noisy };
        assert_eq!(quiet.rounds_for(3.0), Some(1));
    }
}
