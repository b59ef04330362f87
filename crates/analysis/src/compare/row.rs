//! One metric of both sides: the test, the interval, the effect size and the words.

use serde::Serialize;

use super::Options;
use super::sample::{Sample, Values, smallest_p};
use super::words::words;
use crate::stats::effect::magnitude;
use crate::stats::quantile::count;
use crate::stats::repeats::{Design, MOST, more};
use crate::stats::{Series, benjamini_hochberg};

/// A difference smaller than this settles a comparison: 5 %, or five points of a share.
const MARGIN: f64 = 0.05;

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// B ÷ A, geometric means.
    Ratio,
    /// B − A: shares, and what can be 0.
    Difference,
}

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
}

/// A metric of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Dotted name.
    pub metric: String,
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
    /// Values of both sides that were not compared, because they have no counterpart.
    pub left_out: usize,
    /// Mean of A: over pairs, else over the means of cells.
    pub mean_a: f64,
    /// Mean of B.
    pub mean_b: f64,
    /// B ÷ A or B − A.
    pub estimate: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Two-sided p of the t test (Welch's, or of pairs) on the scale.
    pub p: Option<f64>,
    /// The same, adjusted for the number of rows (Benjamini & Hochberg 1995).
    pub p_adjusted: Option<f64>,
    /// Whether the values have no spread: p is then that of the signs or the arrangement alone.
    pub constant: bool,
    /// Two-sided p by ranks (Mann & Whitney 1947), which ignores pairs; nothing over several cells.
    pub mann_whitney_p: Option<f64>,
    /// The estimate that single values hardly move (Hodges & Lehmann 1963), on the scale.
    pub hodges_lehmann: Option<f64>,
    /// Cliff's delta of B over A, −1..=1, of each cell and averaged.
    pub cliffs_delta: Option<f64>,
    /// The same in a word.
    pub magnitude: Option<&'static str>,
    /// What follows.
    pub finding: Finding,
    /// The same in words.
    pub words: String,
    /// More repeats a cell and side that would settle it; nothing when it is settled or cannot be said.
    pub more_repeats: Option<usize>,
    /// Trials of A that lie far out in their cell; they count like any other.
    pub outliers_a: usize,
    /// Trials of B that do.
    pub outliers_b: usize,
    /// `(A, B)` trials of each cell.
    #[serde(skip)]
    pub(super) sizes: Vec<(usize, usize)>,
}

impl Row {
    /// What the estimate is where nothing differs.
    pub(super) fn neutral(&self) -> f64 {
        if self.scale == Scale::Ratio { 1.0 } else { 0.0 }
    }

    /// Why no difference could be proven here, however large; nothing when one could.
    pub(super) fn untestable(&self, level: f64) -> Option<String> {
        let Some(p) = self.p else {
            return Some(match (self.n_a, self.n_b) {
                (1, 1) => "one trial per side".to_owned(),
                (a, b) => format!("{a} and {b} trials tell nothing of the spread"),
            });
        };
        let differs = self.estimate.is_some_and(|estimate| estimate != self.neutral());
        let few = if self.paired {
            format!("{} pairs", self.n_a)
        } else {
            format!("{} and {} trials", self.n_a, self.n_b)
        };
        (self.constant && differs && p > level)
            .then(|| format!("{few} without spread cannot prove a difference"))
    }

    /// What to do or inspect: more repeats, values that lie far out.
    #[must_use]
    pub fn remarks(&self) -> String {
        let mut parts = Vec::new();
        match self.more_repeats {
            Some(1) => parts.push("1 more repeat would settle this".to_owned()),
            Some(more) => parts.push(format!("{more} more repeats would settle this")),
            None => {}
        }
        if self.outliers_a + self.outliers_b > 0 {
            parts.push(format!("outliers: {} of A, {} of B", self.outliers_a, self.outliers_b));
        }
        parts.join("; ")
    }
}

/// Compares a metric; `None` when a side has no value of it.
pub(super) fn row(metric: &str, series: &Series, a: &Values, b: &Values, options: &Options) -> Option<Row> {
    let sample = Sample::new(a, b)?;
    let ratio = sample.all_positive() && series.unit != "share";
    let scale = if ratio { Scale::Ratio } else { Scale::Difference };
    let scaled = sample.scaled(scale);
    let found = scaled.test(&options.bootstrap);
    let back = |value: f64| if ratio { value.exp() } else { value };
    let (mean_a, mean_b) = sample.means()?;
    let (centre_a, centre_b) = scaled.means()?;
    let constant = found.is_some_and(|found| found.freedom == 0.0);
    let estimate = found.filter(|_| constant).map_or(centre_b - centre_a, |found| found.estimate);
    let delta = sample.cliffs_delta();
    let (outliers_a, outliers_b) = sample.outliers();
    Some(Row {
        metric: metric.to_owned(),
        unit: series.unit.clone(),
        larger_is_worse: series.larger_is_worse,
        scale,
        paired: sample.paired,
        n_a: sample.n_a(),
        n_b: sample.n_b(),
        left_out: sample.left_out,
        mean_a,
        mean_b,
        estimate: Some(back(estimate)),
        low: found.map(|found| back(found.interval.low)),
        high: found.map(|found| back(found.interval.high)),
        p: found.map(|found| found.p),
        p_adjusted: None,
        constant,
        mann_whitney_p: found.and_then(|_| sample.mann_whitney_p()),
        hodges_lehmann: scaled.hodges_lehmann().map(back),
        cliffs_delta: delta,
        magnitude: delta.map(|delta| magnitude(delta).name()),
        finding: Finding::NoEvidence,
        words: String::new(),
        more_repeats: None,
        outliers_a,
        outliers_b,
        sizes: sample.sizes(),
    })
}

/// Adjusts p over all rows and says what follows. `cells` is how many cells a repeat has.
pub(super) fn judge(rows: &mut [Row], cells: usize, options: &Options) {
    let p: Vec<f64> = rows.iter().map(|row| row.p.unwrap_or(f64::NAN)).collect();
    let level = 1.0 - options.bootstrap.confidence;
    let tested = count(p.iter().filter(|p| !p.is_nan()).count()).max(1.0);
    for (row, adjusted) in rows.iter_mut().zip(benjamini_hochberg::adjusted(&p)) {
        row.p_adjusted = (!adjusted.is_nan()).then_some(adjusted);
        let neutral = row.neutral();
        let apart = matches!((row.low, row.high), (Some(low), Some(high)) if low > neutral || high < neutral);
        let larger = row.estimate.is_some_and(|estimate| estimate > neutral);
        row.finding = match row.larger_is_worse {
            _ if !apart || adjusted.is_nan() || adjusted > level => Finding::NoEvidence,
            None => Finding::Differs,
            Some(worse) if worse == larger => Finding::Worse,
            Some(_) => Finding::Better,
        };
        // A row that only the number of rows keeps from counting needs an interval at that stricter level.
        let confidence = if apart { 1.0 - level / tested } else { 1.0 - level };
        row.more_repeats = hint(row, cells, confidence);
        row.words = words(row, level);
    }
}

fn hint(row: &Row, cells: usize, confidence: f64) -> Option<usize> {
    if row.finding != Finding::NoEvidence {
        return None;
    }
    let (low, high, estimate) = (row.low?, row.high?, row.estimate?);
    if row.constant {
        let proven = |more: &usize| smallest_p(row.paired, &row.sizes, *more) <= 1.0 - confidence;
        return (1..MOST).find(proven).filter(|_| row.p < Some(1.0));
    }
    let ratio = row.scale == Scale::Ratio;
    let on = |value: f64| if ratio { value.ln() } else { value };
    let half = (on(high) - on(low)) / 2.0;
    let margin = if ratio { MARGIN.ln_1p() } else { MARGIN };
    let design = if row.paired { Design::Pairs } else { Design::Samples };
    let more = more(design, row.n_a.min(row.n_b), half, on(estimate).abs().max(margin), confidence)?;
    let cells = cells.max(1);
    (more > 0).then(|| more.div_ceil(cells))
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
