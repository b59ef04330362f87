//! The published rules, as they are: each names the two alignments at which the cost of a boundary steps, whatever the
//! data. None has a confidence, and they contradict each other; they are shown beside our judgement, not instead.
//!
//! Rows are those of powers of two, smallest first; a step is named by the larger of two neighbours.

use serde::Serialize;

use super::step;

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleAnswer {
    /// Its name.
    pub rule: &'static str,
    /// Alignments of the two steps, the smaller first; fewer where there are fewer rows.
    pub boundaries_bytes: Vec<u64>,
}

/// Every rule on one number of each alignment, in ns: `(alignment, difference)`.
#[must_use]
pub fn all(values: &[(u64, f64)]) -> Vec<RuleAnswer> {
    let rows = powers(values);
    let answer = |rule, mut found: Vec<u64>| {
        found.sort_unstable();
        RuleAnswer { rule, boundaries_bytes: found }
    };
    vec![
        answer("relative steps", largest(&rows, |before, after| ((after - before) / before).abs())),
        answer("absolute steps", largest(&rows, |before, after| (after - before).abs())),
        answer("three segments", three_segments(&rows)),
    ]
}

/// The powers of two, in rising order.
fn powers(values: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut rows: Vec<(u64, f64)> =
        values.iter().copied().filter(|(align, _)| align.is_power_of_two()).collect();
    rows.sort_by_key(|(align, _)| *align);
    rows
}

/// The two largest steps. Relative: paper 003, "the two rows of largest (D[row + 1] − D[row]) / D[row]", by
/// magnitude; on the paper's own table it gives 8 and 16 KiB, where the paper reads 16 KiB and 4 MiB, which
/// are the two largest absolute steps.
fn largest(rows: &[(u64, f64)], size: impl Fn(f64, f64) -> f64) -> Vec<u64> {
    let mut steps: Vec<(f64, u64)> =
        rows.windows(2).map(|pair| (size(pair[0].1, pair[1].1), pair[1].0)).collect();
    steps.sort_by(|one, other| other.0.total_cmp(&one.0));
    steps.into_iter().take(2).map(|(_, align)| align).collect()
}

/// The two places that divide the rows into three segments of least squared distance from their means.
fn three_segments(rows: &[(u64, f64)]) -> Vec<u64> {
    let values: Vec<f64> = rows.iter().map(|(_, value)| *value).collect();
    let weights = vec![1.0; values.len()];
    let sums = step::Sums::new(&values, &weights);
    let mut best = (f64::INFINITY, Vec::new());
    for first in 1..rows.len() {
        for second in first + 1..rows.len() {
            let squares =
                sums.squares(0, first) + sums.squares(first, second) + sums.squares(second, rows.len());
            if squares < best.0 {
                best = (squares, vec![rows[first].0, rows[second].0]);
            }
        }
    }
    best.1
}
