//! The search for the options that make a file system faster on a device.
//!
//! [`search`] is a pure function: it asks a [`Bench`] for runs, block by block, and decides from their scores alone.
//! Its whole state is the list of runs that were done. A search that was interrupted goes on when it is called
//! again with a bench that knows the earlier runs, and a report that calls it with the runs of a store shows the
//! same path. The same problem and scores give the same blocks and decisions.
//!
//! Scores are natural logarithms, larger is better, so effects of options are log ratios and add up. An interaction
//! (two options that together gain more or less than their sum) is no part of the model: a folded design keeps it
//! out of the effects, it widens the intervals, and the confirmation, which measures the chosen options together,
//! shows what it comes to.

mod design;
mod evidence;
mod fit;
mod greedy;
mod path;
mod power;
mod random;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod simulation;
mod spending;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fit::gains;
pub use path::{Confirmation, Fate, Finding, Gain, MeasuredBlock, MeasuredRun, Path, Verdict};
pub use power::{Foresight, foresee};

/// Options of a search, at most.
pub const MOST_OPTIONS: usize = 40;
/// Error of a whole search: the probability of keeping any option that gains nothing.
pub const ERROR: f64 = 0.05;

/// How a search decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Screening design, races of the survivors, confirmation on fresh runs (docs/decisions).
    #[default]
    Evidence,
    /// As published (CEWG 2013, §3.1): one run of each remaining option, the largest gain is added, until none gains.
    /// For comparison: a gain of one run is mostly noise.
    Greedy,
}

impl Method {
    /// As studies have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evidence => "evidence",
            Self::Greedy => "greedy",
        }
    }
}

/// A set of options, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Configuration(u64);

impl Configuration {
    /// No option: the base.
    pub const BASE: Self = Self(0);

    /// Whether it has an option; of indices from 64 on never.
    #[must_use]
    pub const fn has(self, option: usize) -> bool {
        option < 64 && self.0 >> option & 1 == 1
    }

    /// The same with an option.
    #[must_use]
    pub const fn with(self, option: usize) -> Self {
        if option < 64 { Self(self.0 | 1 << option) } else { self }
    }

    /// The same without an option.
    #[must_use]
    pub const fn without(self, option: usize) -> Self {
        if option < 64 { Self(self.0 & !(1 << option)) } else { self }
    }

    /// Indices of its options, rising.
    pub fn options(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |option| self.has(*option))
    }

    /// Number of its options.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether it is the base.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for Configuration {
    fn from_iter<I: IntoIterator<Item = usize>>(options: I) -> Self {
        options.into_iter().fold(Self::BASE, Self::with)
    }
}

/// One run: what is set, and which of the runs of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// Options that are set.
    pub configuration: Configuration,
    /// Number of its block, which all runs of the block share: they do the same operations.
    pub replicate: u32,
}

/// Why a block is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Every option in half of the runs.
    Screening,
    /// The same with the options that are left.
    Race,
    /// The chosen options against the base, on runs that had no part in choosing them.
    Confirmation,
    /// The base, of a greedy search.
    Base,
    /// Each remaining option added to what was chosen, of a greedy search.
    Step,
}

impl Purpose {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Screening => "screening",
            Self::Race => "race",
            Self::Confirmation => "confirmation",
            Self::Base => "base",
            Self::Step => "step",
        }
    }
}

/// Runs that are done one after the other, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What for.
    pub purpose: Purpose,
    /// The runs, in random order; no two are the same.
    pub runs: Vec<Run>,
}

/// The scores of a block are not known: the search stops there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

/// What runs configurations, or remembers their runs.
pub trait Bench {
    /// The score of each run of a block: a natural logarithm, larger is better.
    ///
    /// # Errors
    /// The block was not run to its end.
    fn measure(&mut self, block: &Block) -> Result<Vec<f64>, Unknown>;

    /// What a run that was measured wrote to the medium: a natural logarithm; `None`: nobody knows.
    fn written(&self, _run: &Run) -> Option<f64> {
        None
    }
}

/// What is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// How.
    pub method: Method,
    /// Number of options, 1..=[`MOST_OPTIONS`].
    pub options: usize,
    /// Pairs of options that cannot be set together.
    pub clashes: Vec<(usize, usize)>,
    /// Runs in all, at most.
    pub budget: usize,
    /// The smallest gain that matters, as a share (0.02 is 2 %): options that are unlikely to show so much are
    /// dropped early.
    pub least_gain: f64,
    /// The most that the chosen options may write to the medium, as a ratio to the base.
    pub most_written: Option<f64>,
    /// Random seed of designs and orders.
    pub seed: u64,
}

impl Problem {
    /// Whether two options cannot be set together.
    #[must_use]
    pub fn clash(&self, a: usize, b: usize) -> bool {
        self.clashes.iter().any(|pair| *pair == (a, b) || *pair == (b, a))
    }

    /// Whether an option can be added to a configuration.
    #[must_use]
    pub fn allows(&self, configuration: Configuration, option: usize) -> bool {
        configuration.options().all(|other| !self.clash(option, other))
    }
}

/// Searches until the answer is found, the budget is spent or the bench stops; the path says which.
#[must_use]
pub fn search(problem: &Problem, bench: &mut dyn Bench) -> Path {
    match problem.method {
        Method::Evidence => evidence::search(problem, bench),
        Method::Greedy => greedy::search(problem, bench),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_sets() {
        let two = Configuration::BASE.with(3).with(63).with(3).with(64);
        assert_eq!((two.len(), two.options().collect::<Vec<_>>()), (2, vec![3, 63]));
        assert!(two.has(63) && !two.has(64) && !two.has(0) && !two.is_empty());
        assert_eq!(two.without(3).without(63), Configuration::BASE);
        assert_eq!([3, 63].into_iter().collect::<Configuration>(), two);
    }
}
