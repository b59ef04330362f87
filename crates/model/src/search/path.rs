//! What a search tried, what each option gave, and what came of it.

use serde::{Deserialize, Serialize};

use super::{Block, Configuration, Method, Purpose, Run};

/// The path of a search, as far as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// How it decided.
    pub method: Method,
    /// Blocks that were run, in order.
    pub blocks: Vec<MeasuredBlock>,
    /// What was found of each option, by its index.
    pub findings: Vec<Finding>,
    /// Standard deviation of one run on the scale of the scores (0.03: about 3 %); of `evidence`, once it is known.
    pub noise: Option<f64>,
    /// Options to use; the base as long as nothing is shown, and when nothing beats it.
    pub chosen: Configuration,
    /// The chosen options against the base on runs of their own; of `evidence`, and only where any were chosen.
    pub confirmation: Option<Confirmation>,
    /// What is run next; `None`: the search is over.
    pub pending: Option<Block>,
}

impl Path {
    /// A path on which nothing was done yet.
    pub(super) fn new(method: Method, options: usize) -> Self {
        Self {
            method,
            blocks: Vec::new(),
            findings: vec![Finding { gain: None, written: None, fate: Fate::Undecided }; options],
            noise: None,
            chosen: Configuration::BASE,
            confirmation: None,
            pending: None,
        }
    }

    /// Runs that were done.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.blocks.iter().map(|block| block.runs.len()).sum()
    }

    /// Whether the search is over and nothing beats the base.
    #[must_use]
    pub const fn base_is_best(&self) -> bool {
        self.pending.is_none() && self.chosen.is_empty()
    }
}

/// A block with its scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredBlock {
    /// What for.
    pub purpose: Purpose,
    /// In the order they ran.
    pub runs: Vec<MeasuredRun>,
}

/// A run with its score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// The run.
    pub run: Run,
    /// Natural logarithm, larger is better.
    pub score: f64,
}

/// What was found of an option.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What setting it adds to the score; `None` as long as the runs do not tell.
    pub gain: Option<Gain>,
    /// What setting it adds to the logarithm of what is written to the medium; `None` where nobody knows.
    pub written: Option<Gain>,
    /// What became of it.
    pub fate: Fate,
}

/// A gain on the scale of the scores: 0.05 is a factor of e^0.05, or +5.1 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The estimate. Of options that were kept it is a little too large, because a lucky one is kept more often; the
    /// confirmation is free of that.
    pub value: f64,
    /// Lower and upper end of its 95 % interval, not adjusted for the number of options; `None` of a greedy search, whose
    /// gains are differences of single runs.
    pub interval: Option<(f64, f64)>,
}

/// What became of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
pub enum Fate {
    /// The search is still on it.
    Undecided,
    /// It gains, and is among the chosen.
    Kept {
        /// Runs after which that was shown.
        runs: usize,
    },
    /// It was unlikely to show the least gain that matters within the budget.
    Futile {
        /// Runs after which it was dropped.
        runs: usize,
    },
    /// No gain was shown within the budget.
    NoEvidence,
    /// It gains, but clashes with an option that gains more.
    Clash {
        /// That option.
        with: usize,
    },
    /// It gains, but with it more may be written to the medium than the study allows: the upper end of the interval is
    /// above the limit.
    Wears,
    /// It gains, and the study limits what may be written, but what is written with it is not known.
    WearUnknown,
    /// It gained in the search, and the fresh runs of all chosen options together do not show it.
    NotConfirmed,
    /// A greedy search found no gain from adding it.
    NotBetter,
}

/// The chosen options against the base, on fresh runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Pairs of runs.
    pub pairs: usize,
    /// What the effects of the chosen options add up to.
    pub expected: f64,
    /// What the fresh runs show.
    pub gain: f64,
    /// Its 90 % interval: above 0 exactly where the one-sided test at 5 % confirms it.
    pub interval: (f64, f64),
    /// What that means.
    pub verdict: Verdict,
    /// What the fresh runs with the chosen options wrote to the medium, as the logarithm of its ratio to the base, with
    /// its 90 % interval; `None` where nobody knows.
    pub written: Option<Gain>,
    /// With the chosen options together more may be written than the study allows, or nobody knows: they are not
    /// recommended.
    pub is_too_worn: bool,
}

/// What the fresh runs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The chosen options are better than the base.
    Confirmed,
    /// There were enough fresh runs to show the expected gain, and they do not: the base is not beaten.
    NotConfirmed,
    /// Too few fresh runs to tell: the answer rests on the runs of the search.
    TooFew,
}
