//! Effects of options by least squares, within blocks.
//!
//! score = block + Σ effect of each option that is set + noise. Every block has a level of its own (Fisher 1935), so what a
//! seed or a slow drift does to all runs of a block is in no effect. All runs share one variance, from what the effects
//! leave unexplained.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Configuration, Gain, Run};
use crate::quantity::as_f64;

/// One run with its score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) configuration: Configuration,
    pub(super) block: u32,
    pub(super) score: f64,
}

/// What the runs say about the options.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// By option; `None` where the runs do not tell it from others.
    pub(super) effects: Vec<Option<Effect>>,
    /// Standard deviation of one run.
    pub(super) sd: f64,
    /// Its degrees of freedom, above 0.
    pub(super) freedom: f64,
}

/// The effect of an option: what setting it adds to the score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Effect {
    pub(super) value: f64,
    /// Its variance over that of one run.
    pub(super) variance: f64,
}

impl Fit {
    /// Standard error of an effect.
    pub(super) fn error(&self, effect: &Effect) -> f64 {
        self.sd * effect.variance.sqrt()
    }

    /// Chance of an effect so large when there is none, one-sided; 0 or 1 where there is no noise.
    pub(super) fn p(&self, effect: &Effect) -> f64 {
        above(effect.value, self.error(effect), self.freedom)
    }

    /// What each option adds, with 95 % intervals.
    pub(super) fn gains(&self) -> Vec<Option<Gain>> {
        let gain = |effect: &Effect| {
            let reach = self.reach(self.error(effect));
            Gain { value: effect.value, interval: Some((effect.value - reach, effect.value + reach)) }
        };
        self.effects.iter().map(|effect| effect.as_ref().map(gain)).collect()
    }

    /// Half the width of the two-sided 95 % interval of an effect with this standard error.
    pub(super) fn reach(&self, error: f64) -> f64 {
        reach(0.975, error, self.freedom)
    }
}

/// How far the quantile of this probability is above a value with this standard error.
pub(super) fn reach(probability: f64, error: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(probability) * error)
}

/// One-sided p of a value with this standard error.
pub(super) fn above(value: f64, error: f64, freedom: f64) -> f64 {
    if error <= 0.0 {
        return if value > 0.0 { 0.0 } else { 1.0 };
    }
    let ratio = -value / error;
    // No distribution answers for what is no number: no evidence.
    StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| !ratio.is_nan()).map_or(1.0, |t| t.cdf(ratio))
}

/// What each of so many options adds to a score that runs of a search have beside the one that it decided by, by least
/// squares within blocks, with 95 % intervals. Nothing of an option that the runs do not tell from others.
#[must_use]
pub fn gains(options: usize, scores: &[(Run, f64)]) -> Vec<Option<Gain>> {
    let observed = |(run, score): &(Run, f64)| Observation {
        configuration: run.configuration,
        block: run.replicate,
        score: *score,
    };
    let runs: Vec<Observation> = scores.iter().map(observed).collect();
    fit(options, &runs).map_or_else(|| vec![None; options], |found| found.gains())
}

/// Fits all runs; `None` without a degree of freedom that is left for the noise.
pub(super) fn fit(options: usize, runs: &[Observation]) -> Option<Fit> {
    let (rows, scores, blocks) = centred(options, runs);
    let varied: Vec<usize> =
        (0..options).filter(|option| rows.iter().any(|row| row[*option].abs() > 1e-9)).collect();
    let product = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let matrix: Vec<Vec<f64>> =
        varied.iter().map(|a| varied.iter().map(|b| product(*a, *b)).collect()).collect();
    let with_scores: Vec<f64> =
        varied.iter().map(|a| rows.iter().zip(&scores).map(|(row, score)| row[*a] * score).sum()).collect();
    let inverse = inverse(matrix)?;
    let values: Vec<f64> =
        inverse.iter().map(|row| row.iter().zip(&with_scores).map(|(a, b)| a * b).sum()).collect();
    let freedom = count(runs.len()) - count(blocks) - count(varied.len());
    if freedom < 1.0 {
        return None;
    }
    let rest = |(row, score): (&Vec<f64>, &f64)| {
        let explained: f64 = varied.iter().zip(&values).map(|(option, value)| row[*option] * value).sum();
        (score - explained).powi(2)
    };
    let squares: f64 = rows.iter().zip(&scores).map(rest).sum();
    let mut effects = vec![None; options];
    for (n, option) in varied.iter().enumerate() {
        effects[*option] = Some(Effect { value: values[n], variance: inverse[n][n] });
    }
    Some(Fit { effects, sd: (squares / freedom).sqrt(), freedom })
}

/// Variance of each option's effect over that of one run, of runs that are only planned.
pub(super) fn variances(options: usize, runs: &[Observation]) -> Option<Vec<f64>> {
    let fitted = fit(options, runs)?;
    fitted.effects.into_iter().map(|effect| effect.map(|effect| effect.variance)).collect()
}

/// Options (1 where set) and scores of each run less the means of its block; the number of blocks.
fn centred(options: usize, runs: &[Observation]) -> (Vec<Vec<f64>>, Vec<f64>, usize) {
    let set = |run: &Observation, option: usize| f64::from(u8::from(run.configuration.has(option)));
    let mut blocks: Vec<u32> = runs.iter().map(|run| run.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let (mut rows, mut scores) = (Vec::new(), Vec::new());
    for block in &blocks {
        let own: Vec<&Observation> = runs.iter().filter(|run| run.block == *block).collect();
        let mean =
            |of: &dyn Fn(&Observation) -> f64| own.iter().map(|run| of(run)).sum::<f64>() / count(own.len());
        let means: Vec<f64> = (0..options).map(|option| mean(&|run| set(run, option))).collect();
        let score = mean(&|run| run.score);
        for run in &own {
            rows.push((0..options).map(|option| set(run, option) - means[option]).collect());
            scores.push(run.score - score);
        }
    }
    (rows, scores, blocks.len())
}

/// Gauss–Jordan with the largest pivots; `None` where the matrix is singular.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (n, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| if column == n { 1.0 } else { 0.0 }));
    }
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        let by = matrix[column][column];
        if by.abs() < 1e-6 {
            return None;
        }
        matrix[column].iter_mut().for_each(|entry| *entry /= by);
        let reduced = matrix[column].clone();
        for (n, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if n != column && factor != 0.0 {
                row.iter_mut().zip(&reduced).for_each(|(entry, other)| *entry -= factor * other);
            }
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

/// A number of runs or options as a float.
pub(super) fn count(number: usize) -> f64 {
    as_f64(u64::try_from(number).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(options: &[usize], block: u32, score: f64) -> Observation {
        Observation { configuration: options.iter().copied().collect(), block, score }
    }

    #[test]
    fn what_is_no_number_is_no_evidence() {
        for (value, error) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, f64::INFINITY)] {
            assert!((above(value, error, 3.0) - 1.0).abs() < 1e-12, "{value} {error}");
        }
        assert!(above(10.0, 1.0, 3.0) < 0.01);
    }

    #[test]
    fn effects_are_those_of_a_two_by_two_by_hand() {
        // Block 0: base 1, a 3, b 0, ab 2.4; block 1 the same by 10 higher, b by 0.4 more.
        let mut runs = Vec::new();
        for (block, up, more) in [(0, 0.0, 0.0), (1, 10.0, 0.4)] {
            runs.push(observation(&[], block, up + 1.0));
            runs.push(observation(&[0], block, up + 3.0));
            runs.push(observation(&[1], block, up + more));
            runs.push(observation(&[0, 1], block, up + 2.4));
        }
        let found = fit(3, &runs).unwrap();
        // a: mean of 2, 2.4, 2, 2.0; b: of −1, −0.6, −0.6, −0.6.
        let (a, b) = (found.effects[0].unwrap(), found.effects[1].unwrap());
        assert!((a.value - 2.1).abs() < 1e-12 && (b.value + 0.7).abs() < 1e-12, "{found:?}");
        assert_eq!(found.effects[2], None, "never set");
        // 4 σ² ÷ 8, and 8 runs less 2 blocks less 2 effects.
        assert!((a.variance - 0.5).abs() < 1e-12 && found.freedom == 4.0);
        assert!((found.error(&a) - found.sd * 0.5_f64.sqrt()).abs() < 1e-12);
        // t of 2.1 with 4 degrees of freedom: F(−t) = ½ − ¾ (s − s³ ÷ 3), s = t ÷ √(4 + t²).
        let t = 2.1 / found.error(&a);
        let s = t / (4.0 + t * t).sqrt();
        assert!((found.p(&a) - (0.5 - 0.75 * (s - s.powi(3) / 3.0))).abs() < 1e-9);
        assert!((found.reach(1.0) - 2.776_445).abs() < 1e-5);
    }

    #[test]
    fn gains_of_another_score_are_those_of_the_same_fit() {
        let configurations = [&[][..], &[0], &[1], &[0, 1]];
        let runs = configurations.iter().flat_map(|options| {
            [0, 1].map(|replicate| {
                let configuration: Configuration = options.iter().copied().collect();
                let noise = if (options.len() + replicate as usize).is_multiple_of(2) { 0.01 } else { -0.01 };
                let effect = if configuration.has(0) { 0.2 } else { 0.0 };
                (Run { configuration, replicate }, 3.0 * f64::from(replicate) + effect + noise)
            })
        });
        let runs: Vec<(Run, f64)> = runs.collect();
        let found = gains(3, &runs);
        let gain = found[0].unwrap();
        let (low, high) = gain.interval.unwrap();
        assert!((gain.value - 0.2).abs() < 1e-9 && low < 0.2 && high > 0.2 && low > 0.15, "{gain:?}");
        assert!(found[1].unwrap().interval.is_some_and(|(low, high)| low < 0.0 && high > 0.0));
        assert_eq!(found[2], None, "no run has it");
        assert_eq!(gains(2, &runs[..2]), [None, None]);
    }

    #[test]
    fn options_that_are_always_set_together_are_not_told_apart() {
        let runs: Vec<Observation> = (0..8)
            .map(|n| observation(if n % 2 == 0 { &[] } else { &[0, 1] }, n / 4, f64::from(n)))
            .collect();
        assert_eq!(fit(2, &runs), None);
        assert_eq!(
            fit(1, &[observation(&[], 0, 1.0), observation(&[0], 0, 2.0)]),
            None,
            "nothing left for noise"
        );
    }

    #[test]
    fn without_noise_any_effect_is_certain() {
        assert_eq!((above(0.1, 0.0, 3.0), above(0.0, 0.0, 3.0), above(-0.1, 0.0, 3.0)), (0.0, 1.0, 1.0));
    }
}
