//! What a budget can show, said before anything is run.

use super::design::{blocks, folded};
use super::evidence::{LEAST_PAIRS, least_runs};
use super::fit::{Observation, count, variances};
use super::random::Random;
use super::spending::{below, quantile};
use super::{ERROR, Problem};

/// Power for which budgets are planned.
const POWER: f64 = 0.8;

/// What a search of the method `evidence` can show with its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Foresight {
    /// Runs without which it cannot say anything.
    pub least_runs: usize,
    /// Chance to find an option whose gain is the least that matters; 0 below [`Foresight::least_runs`]. Of the normal distribution and
    /// without what looks cost, but also without what Holm's procedure leaves to an option once others are found.
    pub power: f64,
    /// The smallest gain (as a share) that is found in 80 of 100 searches; infinite below [`Foresight::least_runs`].
    pub detectable: f64,
    /// Runs with which the least gain that matters is found in 80 of 100 searches.
    pub needed_runs: usize,
}

/// Says what a budget can show when one run has this noise (the standard deviation of its score: 0.03 is about 3 %).
/// From the variances of the designs that would be run if no option were dropped.
#[must_use]
pub fn foresee(problem: &Problem, noise: f64) -> Foresight {
    let least_runs = least_runs(problem.options);
    let aim = (1.0 + problem.least_gain).ln();
    let critical = quantile(1.0 - ERROR / count(problem.options.max(1)));
    let shift = critical + quantile(POWER);
    // Of as many runs as are planned, but of at least two designs: the variance then falls with the runs.
    let reserve = 2 * LEAST_PAIRS;
    let planned = problem.budget.saturating_sub(reserve).max(2 * (least_runs - reserve));
    let per_run = variance(problem, planned).unwrap_or(4.0 / count(planned)) * count(planned);
    let error = |runs: usize| noise * (per_run / count(runs.max(1))).sqrt();
    let needed = count(1).max(per_run * (noise * shift / aim).powi(2));
    let needed_runs = usize::try_from(crate::quantity::to_u64(needed.ceil())).unwrap_or(usize::MAX);
    let needed_runs = needed_runs.saturating_add(reserve).max(least_runs);
    if problem.budget < least_runs {
        return Foresight { least_runs, power: 0.0, detectable: f64::INFINITY, needed_runs };
    }
    let now = error(problem.budget - reserve);
    let power = below(aim / now.max(f64::MIN_POSITIVE) - critical);
    Foresight { least_runs, power, detectable: (shift * now).exp_m1(), needed_runs }
}

/// The largest variance of an effect over that of one run, with so many runs.
fn variance(problem: &Problem, runs: usize) -> Option<f64> {
    let mut random = Random::new(problem.seed);
    let all: Vec<usize> = (0..problem.options).collect();
    let mut pairs = Vec::new();
    while 2 * pairs.len() < runs {
        pairs.extend(folded(problem, &all, &mut random));
    }
    pairs.truncate(runs / 2);
    let planned: Vec<Observation> = (0..)
        .zip(blocks(pairs))
        .flat_map(|(block, runs)| {
            runs.into_iter().map(move |configuration| Observation { configuration, block, score: 0.0 })
        })
        .collect();
    variances(problem.options, &planned)?.into_iter().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    fn problem(budget: usize, clashes: &[(usize, usize)]) -> Problem {
        let clashes = clashes.to_vec();
        Problem {
            method: Method::Evidence,
            options: 12,
            clashes,
            budget,
            least_gain: 0.02,
            most_written: None,
            seed: 1,
        }
    }

    #[test]
    fn a_budget_is_judged_by_what_it_can_show() {
        let found = foresee(&problem(100, &[]), 0.03);
        assert_eq!(found.least_runs, 30);
        // Error 2 · 0.03 ÷ √94 = 0.00619; ln 1.02 = 3.20 of it; level 0.05 ÷ 12: 2.638.
        assert!((found.power - 0.71).abs() < 0.02, "{found:?}");
        assert!((found.detectable - 0.0218).abs() < 0.0005, "{found:?}");
        // (3.480 · 0.06 ÷ 0.0198)² = 111.2, and 6 for the confirmation.
        assert!((116..=122).contains(&found.needed_runs), "{found:?}");
        let enough = foresee(&problem(found.needed_runs, &[]), 0.03);
        assert!((enough.power - 0.8).abs() < 0.02, "{enough:?}");
    }

    #[test]
    fn too_small_a_budget_is_told_how_many_runs_it_needs() {
        let found = foresee(&problem(20, &[]), 0.03);
        assert_eq!((found.power, found.detectable), (0.0, f64::INFINITY));
        assert!(found.needed_runs > 100 && found.least_runs == 30, "{found:?}");
        // Clashes make designs less informative.
        let with = foresee(&problem(100, &[(0, 1), (1, 2), (0, 2)]), 0.03);
        assert!(with.power < 0.7 && with.needed_runs > found.needed_runs, "{with:?}");
    }
}
