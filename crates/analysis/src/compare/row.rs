//! One metric of both sides: the estimate, the effect size and the words.

use serde::Serialize;

use super::Options;
use super::sample::{Sample, Values};
use super::words::words;
use crate::stats::effect::magnitude;
use crate::stats::estimator::{Estimate, Method, More};
use crate::stats::quantile::count;
use crate::stats::scale::Scale;
use crate::stats::{Series, Trees, benjamini_hochberg, work};

/// Repeats are planned to find this much: 5 %, or five points of a share.
const MARGIN: f64 = 0.05;

/// What a row says of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Worse than A.
    Worse,
    /// Better than A.
    Better,
    /// Different, where neither direction is good.
    Differs,
    /// Nothing that noise does not explain.
    NoEvidence,
    /// The sides did different work: there is no ratio.
    NotComparable,
}

/// A metric of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Dotted name.
    pub metric: String,
    /// File system and medium, where sides have several: they are never compared together.
    pub context: String,
    /// `ns`, `bytes`, …
    pub unit: String,
    /// Whether a larger value is worse, better or neither.
    pub larger_is_worse: Option<bool>,
    /// How values are compared.
    pub scale: Scale,
    /// Whether trials were compared pair by pair.
    pub paired: bool,
    /// Trials of A that were compared.
    pub n_a: usize,
    /// Trials of B that were.
    pub n_b: usize,
    /// Repeats behind the interval: its units, whatever the number of trials.
    pub units: usize,
    /// How the interval was computed.
    pub method: &'static str,
    /// Values of both sides that were not compared, because they have no counterpart.
    pub left_out: usize,
    /// Trials of both sides that are 0 (or below) in a metric that is compared by ratio: they have none, and
    /// are left out of everything but the means, in pairs with their partners.
    pub zeros: usize,
    /// Arithmetic mean of A over the means of cells.
    pub mean_a: f64,
    /// The same of B.
    pub mean_b: f64,
    /// B ÷ A (of geometric means) or B − A.
    pub estimate: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Two-sided p of the method's test.
    pub p: Option<f64>,
    /// The same, adjusted for the number of rows (Benjamini & Hochberg 1995).
    pub p_adjusted: Option<f64>,
    /// Whether the values have no spread: p is then that of the signs or the arrangement alone.
    pub constant: bool,
    /// Cliff's delta of B over A, −1..=1, of each cell and averaged.
    pub cliffs_delta: Option<f64>,
    /// The same in a word.
    pub magnitude: Option<&'static str>,
    /// What follows.
    pub finding: Finding,
    /// The same in words.
    pub words: String,
    /// In which respect the sides did different work, A's first; there is no estimate then.
    pub different_work: Option<String>,
    /// Whether the trials of the same cell and repeat measured the same tree of files.
    pub trees: Trees,
    /// The smallest ratio above 1 (or difference) that the row could show with 80 % power, uncorrected.
    pub detectable: Option<f64>,
    /// About so many more repeats per cell and side would show [`Row::planned_for`] with 80 % power; nothing
    /// when it is shown already or cannot be said.
    pub more_repeats: Option<usize>,
    /// The same if the spread is as large as it may well be.
    pub more_repeats_at_most: Option<usize>,
    /// Rounds per trial in all that would do instead, where most of the spread lies between rounds.
    pub rounds: Option<usize>,
    /// The ratio (or difference) for which repeats are planned.
    pub planned_for: Option<f64>,
    /// Trials of A that are outliers in their cell; they count like any other.
    pub outliers_a: usize,
    /// Trials of B that do.
    pub outliers_b: usize,
    /// What the estimator found, on the scale.
    #[serde(skip)]
    pub(super) found: Option<Estimate>,
}

impl Row {
    /// What the estimate is where nothing differs.
    pub(super) fn neutral(&self) -> f64 {
        if self.scale == Scale::Ratio { 1.0 } else { 0.0 }
    }

    /// Whether the interval excludes that nothing differs.
    pub(super) fn excludes_none(&self) -> bool {
        let neutral = self.neutral();
        matches!((self.low, self.high), (Some(low), Some(high)) if low > neutral || high < neutral)
    }

    /// The row without everything that takes both sides to have done the same work.
    pub(super) fn refused(self, how: String) -> Self {
        Self {
            estimate: None,
            low: None,
            high: None,
            p: None,
            cliffs_delta: None,
            magnitude: None,
            detectable: None,
            found: None,
            constant: false,
            different_work: Some(how),
            ..self
        }
    }

    /// Whether B is the larger.
    pub(super) fn is_larger(&self) -> bool {
        self.estimate.is_some_and(|estimate| estimate > self.neutral())
    }

    /// A distance from "no difference" on the scale, as the estimate is given.
    pub(super) fn shown_at(&self, distance: f64) -> f64 {
        if self.scale == Scale::Ratio { distance.exp() } else { distance }
    }

    /// Whether every trial of both sides has the same value.
    pub(super) fn is_same(&self) -> bool {
        self.constant && self.zeros == 0 && self.estimate == Some(self.neutral())
    }

    /// Why the row can prove nothing, however large a difference is; nothing when its spread is known.
    pub(super) fn untestable(&self) -> Option<String> {
        if let Some(how) = &self.different_work {
            return Some(work::refusal(how));
        }
        if self.zeros > 0 {
            let zeros = crate::report::text::counted(self.zeros, "trial");
            return Some(format!("{zeros} with value 0 left out (no ratio)"));
        }
        if self.p.is_none() {
            return Some(match (self.n_a, self.n_b) {
                (1, 1) => "one trial per side".to_owned(),
                (a, b) => format!("{a} and {b} trials do not tell how repeats vary"),
            });
        }
        let few = if self.paired {
            format!("{} pairs", self.units)
        } else {
            format!("{} and {} trials", self.n_a, self.n_b)
        };
        self.constant.then(|| format!("{few} without spread cannot prove on which side of the limit it lies"))
    }

    /// What to do or inspect: more repeats, outliers, different trees.
    #[must_use]
    pub fn remarks(&self) -> String {
        let mut parts: Vec<String> = self.wanted().into_iter().collect();
        if self.zeros > 0 {
            parts.push(format!(
                "{} with value 0 left out (no ratio)",
                crate::report::text::counted(self.zeros, "trial")
            ));
        }
        if self.outliers_a + self.outliers_b > 0 {
            parts.push(format!("outliers: {} of A, {} of B", self.outliers_a, self.outliers_b));
        }
        if self.trees.differ() {
            parts.push(format!("trees: {}", self.trees.words()));
        }
        parts.join("; ")
    }

    /// The repeats or rounds that are planned, in words.
    fn wanted(&self) -> Option<String> {
        let what = super::words::distance(self, self.planned_for?);
        if let Some(rounds) = self.rounds {
            return Some(format!("estimate: {rounds} rounds per trial would show {what}"));
        }
        let more = self.more_repeats?;
        let repeats = crate::report::text::counted(more, "more repeat");
        if self.constant {
            return Some(format!("{repeats} would settle this"));
        }
        let reach = match self.more_repeats_at_most {
            Some(most) if most > more => format!(", at most {most}"),
            Some(_) => String::new(),
            None => ", perhaps many more".to_owned(),
        };
        Some(format!("estimate: {repeats}{reach} would show {what}"))
    }
}

/// Compares a metric within a context, by values of this grain ([`crate::stats::grain`]); `None` when a side has no value of it.
pub(super) fn row(
    (metric, context): (&str, &str),
    series: &Series,
    a: &Values,
    b: &Values,
    grain: f64,
    options: &Options,
) -> Option<Row> {
    let whole = Sample::new(a, b)?;
    let scale = Scale::of(metric, &series.unit);
    let ratio = scale == Scale::Ratio;
    let (sample, zeros) = if ratio { whole.with_ratios() } else { (whole.clone(), 0) };
    let found = sample.estimate(scale, options.confidence);
    let found = found.map(|found| found.no_finer_than(grain, options.confidence));
    let back = |value: f64| if ratio { value.exp() } else { value };
    let interval = found.and_then(|found| found.interval);
    let (mean_a, mean_b) = whole.means()?;
    let delta = sample.cliffs_delta();
    let (outliers_a, outliers_b) = sample.outliers();
    Some(Row {
        metric: metric.to_owned(),
        context: context.to_owned(),
        unit: series.unit.clone(),
        larger_is_worse: series.larger_is_worse,
        scale,
        paired: sample.paired,
        n_a: sample.n_a(),
        n_b: sample.n_b(),
        units: found.map_or(0, |found| found.units()),
        method: found.map_or("no ratio: values of 0", |found| found.method.name()),
        left_out: sample.left_out,
        zeros,
        mean_a,
        mean_b,
        estimate: found.map(|found| back(found.value)),
        low: interval.map(|interval| back(interval.low)),
        high: interval.map(|interval| back(interval.high)),
        p: found.and_then(|found| found.p),
        p_adjusted: None,
        constant: found.is_some_and(|found| matches!(found.method, Method::Signs | Method::Arrangement)),
        cliffs_delta: delta,
        magnitude: delta.map(|delta| magnitude(delta).name()),
        finding: Finding::NoEvidence,
        words: String::new(),
        different_work: None,
        trees: Trees::Unknown,
        detectable: found.and_then(|found| found.detectable(1.0 - options.confidence)).map(back),
        more_repeats: None,
        more_repeats_at_most: None,
        rounds: None,
        planned_for: None,
        outliers_a,
        outliers_b,
        found,
    })
}

/// Adjusts p over all rows and says what follows.
pub(super) fn judge(rows: &mut [Row], options: &Options) {
    let p: Vec<f64> = rows.iter().map(|row| row.p.unwrap_or(f64::NAN)).collect();
    let level = 1.0 - options.confidence;
    let tested = count(p.iter().filter(|p| !p.is_nan()).count()).max(1.0);
    for (row, adjusted) in rows.iter_mut().zip(benjamini_hochberg::adjusted(&p)) {
        row.p_adjusted = (!adjusted.is_nan()).then_some(adjusted);
        // Equal values have an interval only where their number proves something.
        let apart = row.excludes_none();
        let larger = row.is_larger();
        row.finding = match row.larger_is_worse {
            _ if row.different_work.is_some() => Finding::NotComparable,
            _ if !apart || adjusted.is_nan() || adjusted > level => Finding::NoEvidence,
            None => Finding::Differs,
            Some(worse) if worse == larger => Finding::Worse,
            Some(_) => Finding::Better,
        };
        // A row that only the number of rows keeps from counting has to pass that stricter level.
        plan(row, if apart { level / tested } else { level });
        row.words = words(row, level);
    }
}

/// Plans repeats for a row that shows no evidence.
fn plan(row: &mut Row, level: f64) {
    let Some(found) = row.found.filter(|_| row.finding == Finding::NoEvidence) else { return };
    // Where nothing differs in any trial, there is nothing to settle.
    if row.constant && row.p >= Some(1.0) {
        return;
    }
    let least = if row.scale == Scale::Ratio { MARGIN.ln_1p() } else { MARGIN };
    let margin = found.value.abs().max(least);
    let more = |all: usize| all.saturating_sub(found.units());
    match found.more(margin, level) {
        Some(More::Seeds(plan)) if more(plan.expected) > 0 => {
            row.more_repeats = Some(more(plan.expected));
            row.more_repeats_at_most = plan.sure.map(more);
        }
        Some(More::Rounds(rounds)) => row.rounds = Some(rounds),
        _ => return,
    }
    row.planned_for = Some(row.shown_at(margin));
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
