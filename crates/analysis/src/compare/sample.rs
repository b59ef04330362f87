//! Values of one metric by cell and repeat: what is a pair, and what the estimator is given.
//!
//! Trials of different cells (settings that are held equal) are never mixed: pairs lie in one cell, and sides
//! without pairs are compared within each cell, every cell weighing the same. Only sides that share no cell
//! are compared as wholes.

use std::collections::BTreeMap;

use crate::stats::effect::cliffs_delta;
use crate::stats::estimator::{Estimate, Pair, Trial, apart, paired};
use crate::stats::outlier;
use crate::stats::quantile::mean;
use crate::stats::scale::Scale;

/// The rounds of a trial, by cell and repeat.
pub(super) type Values = Vec<((String, u32), Vec<f64>)>;

/// A cell's trials, each by its mean; partners stand at the same place when the sample is paired.
#[derive(Debug, Clone, Default)]
struct Stratum {
    a: Vec<f64>,
    b: Vec<f64>,
}

/// What is compared of a metric.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Trials of A, by cell and repeat; partners stand at the same place when the sample is paired.
    a: Values,
    /// Trials of B.
    b: Values,
    pub(super) paired: bool,
    /// Values of both sides that have no counterpart.
    pub(super) left_out: usize,
}

impl Sample {
    /// Pairs by cell and repeat where there are two of them and they hold at least half of the side that has
    /// fewer values, or every value has its partner; else sides within cells, which keeps the values that few
    /// pairs would leave out. `None` when a side has no value.
    pub(super) fn new(a: &Values, b: &Values) -> Option<Self> {
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let by_key = |side: &Values| -> BTreeMap<(String, u32), Vec<f64>> { side.iter().cloned().collect() };
        let (of_a, of_b) = (by_key(a), by_key(b));
        let unique = of_a.len() == a.len() && of_b.len() == b.len();
        let both = of_a.keys().filter(|key| of_b.contains_key(*key)).count();
        let most = both >= 2 && 2 * both >= a.len().min(b.len());
        let paired = unique && (most || (both == a.len() && both == b.len()));
        let kept = |own: &Values, other: &BTreeMap<(String, u32), Vec<f64>>| -> Values {
            let counterpart = |(cell, repeat): &(String, u32)| {
                if paired {
                    other.contains_key(&(cell.clone(), *repeat))
                } else {
                    other.keys().any(|(known, _)| known == cell)
                }
            };
            let mut kept: Values = own.iter().filter(|(key, _)| counterpart(key)).cloned().collect();
            kept.sort_by(|(one, _), (next, _)| one.cmp(next));
            kept
        };
        let (mut kept_a, mut kept_b) = (kept(a, &of_b), kept(b, &of_a));
        if kept_a.is_empty() {
            let whole = |side: &Values| -> Values {
                side.iter().map(|((_, repeat), rounds)| ((String::new(), *repeat), rounds.clone())).collect()
            };
            (kept_a, kept_b) = (whole(a), whole(b));
        }
        let left_out = a.len() + b.len() - kept_a.len() - kept_b.len();
        Some(Self { a: kept_a, b: kept_b, paired, left_out })
    }

    pub(super) fn n_a(&self) -> usize {
        self.a.len()
    }

    pub(super) fn n_b(&self) -> usize {
        self.b.len()
    }

    /// The same for a comparison by ratio, without the trials (and their partners) that are 0 or below, and
    /// how many are. Where all of both sides are 0, nothing differs: then none is left out.
    pub(super) fn with_ratios(&self) -> (Self, usize) {
        let has_log = |(_, rounds): &((String, u32), Vec<f64>)| mean(rounds).is_some_and(|value| value > 0.0);
        if self.is_all_0() {
            return (self.clone(), 0);
        }
        let zeros = self.a.iter().chain(&self.b).filter(|trial| !has_log(trial)).count();
        let (a, b) = if self.paired {
            let both = self.a.iter().zip(&self.b).filter(|(a, b)| has_log(a) && has_log(b));
            both.map(|(a, b)| (a.clone(), b.clone())).unzip()
        } else {
            let kept =
                |side: &Values| -> Values { side.iter().filter(|trial| has_log(trial)).cloned().collect() };
            (kept(&self.a), kept(&self.b))
        };
        (Self { a, b, ..*self }, zeros)
    }

    fn is_all_0(&self) -> bool {
        self.a.iter().chain(&self.b).all(|(_, rounds)| mean(rounds) == Some(0.0))
    }

    fn strata(&self) -> Vec<Stratum> {
        let mut strata: BTreeMap<&str, Stratum> = BTreeMap::new();
        for ((cell, _), rounds) in &self.a {
            strata.entry(cell).or_default().a.extend(mean(rounds));
        }
        for ((cell, _), rounds) in &self.b {
            strata.entry(cell).or_default().b.extend(mean(rounds));
        }
        strata.into_values().collect()
    }

    /// Means of A and B over the means of cells.
    pub(super) fn means(&self) -> Option<(f64, f64)> {
        let strata = self.strata();
        let of = |take: fn(&Stratum) -> &Vec<f64>| {
            mean(&strata.iter().map(|stratum| mean(take(stratum))).collect::<Option<Vec<_>>>()?)
        };
        Some((of(|stratum| &stratum.a)?, of(|stratum| &stratum.b)?))
    }

    /// b − a on a scale: by logs what is compared by ratio, which has to have any ([`Self::with_ratios`]).
    /// Where a round is 0 or below, each trial's mean stands for its rounds.
    pub(super) fn estimate(&self, scale: Scale, confidence: f64) -> Option<Estimate> {
        let rounds_have_logs =
            self.a.iter().chain(&self.b).all(|(_, rounds)| rounds.iter().all(|value| *value > 0.0));
        let nothing = self.is_all_0();
        let on = |rounds: &[f64]| -> Vec<f64> {
            match scale {
                Scale::Difference => rounds.to_vec(),
                Scale::Ratio if nothing => vec![0.0],
                Scale::Ratio if rounds_have_logs => rounds.iter().map(|value| value.ln()).collect(),
                Scale::Ratio => mean(rounds).map(f64::ln).into_iter().collect(),
            }
        };
        if self.paired {
            let sides = self.a.iter().zip(&self.b);
            let pairs: Vec<Pair> = sides
                .map(|(((cell, repeat), a), (_, b))| Pair {
                    cell: cell.clone(),
                    seed: *repeat,
                    a: on(a),
                    b: on(b),
                })
                .collect();
            return paired(&pairs, confidence);
        }
        let trials = |side: &Values| -> Vec<Trial> {
            let trial = |((cell, repeat), rounds): &((String, u32), Vec<f64>)| Trial {
                cell: cell.clone(),
                seed: *repeat,
                rounds: on(rounds),
            };
            side.iter().map(trial).collect()
        };
        apart(&trials(&self.a), &trials(&self.b), confidence)
    }

    /// Cliff's delta of B over A, of each cell and averaged; `None` with one trial per side.
    pub(super) fn cliffs_delta(&self) -> Option<f64> {
        let deltas = self.strata().into_iter().map(|stratum| cliffs_delta(&stratum.b, &stratum.a));
        mean(&deltas.collect::<Option<Vec<_>>>()?).filter(|_| self.n_a() > 1 && self.n_b() > 1)
    }

    /// Trials of A and B that are outliers in their cell.
    pub(super) fn outliers(&self) -> (usize, usize) {
        let strata = self.strata();
        let of = |take: fn(&Stratum) -> &Vec<f64>| {
            strata.iter().map(|stratum| outlier::flagged(take(stratum)).len()).sum()
        };
        (of(|stratum| &stratum.a), of(|stratum| &stratum.b))
    }
}
