//! Which alignments are boundaries of a device: ours.
//!
//! The cost of crossing a boundary rises with its alignment, in steps: at the page, at the pages of all planes that load
//! together, at the allocation unit. In this order:
//! 1. Each alignment has at least [`LEAST_TRIPLES`] differences; their median is its cost, which outliers do not move.
//! 2. A rising step function with 0 to 3 steps is fitted by weighted least squares. A step that is smaller than 3 % of
//!    the time of a read, or 10 % of the largest cost, is none. The number of steps is that of the least Bayesian
//!    information criterion (Schwarz 1978), two parameters per step; the noise of a row is that of its median and
//!    what the closest fit leaves besides.
//! 3. Each step is tested between the two alignments beside it: random exchange of their labels, one-sided
//!    (Mann & Whitney 1947), adjusted by Holm's procedure to a level of 1 %. The cost must fall nowhere, by the
//!    same test.
//! 4. The steps must come out the same in 95 % of resamples of every alignment's differences. Their seed is fixed: the
//!    same measurements give the same answer.
//!
//! What fails at 3 or 4 makes the whole answer "no answer": a geometry with one boundary missing is wrong.
//!
//! A boundary is where reading costs more, no more than that. The largest one is called an erase block only if the card's
//! own word, the preferred erase size, is the same. Known limits: sizes that are no powers of two are not found; a drive
//! whose cells were never written shows nothing, nor does one that maps single pages and was written at random.

use fsage_model::geometry::LEAST_TRIPLES;
use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use super::Row;
use super::rank::p_above;
use super::step::{self, Steps};
use crate::stats::holm;
use crate::stats::quantile::{count, median};

/// Most steps: page, planes, unit.
const MOST_STEPS: usize = 3;
/// Least step as a share of the time of a read.
const OF_READ: f64 = 0.03;
/// Least step as a share of the largest cost.
const OF_LARGEST: f64 = 0.1;
/// Level of the tests.
const LEVEL: f64 = 0.01;
/// Resamples.
const RESAMPLES: u32 = 200;
/// Least share of them that must agree.
const AGREEING: f64 = 0.95;
/// Fewest alignments.
const LEAST_ROWS: usize = 4;
/// Seed of the resamples.
const SEED: u64 = 0x67_65_6f_6d;
/// Standard deviation of a normal distribution ÷ its median absolute deviation.
const NORMAL_DEVIATION: f64 = 1.4826;
/// Standard error of a median ÷ that of a mean, of normal values.
const MEDIAN_ERROR: f64 = 1.2533;
/// Resolution of a time as a share of a read, where every difference is the same.
const RESOLUTION: f64 = 1e-3;

/// An alignment at which crossing costs more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Boundary {
    /// The alignment.
    pub bytes: u64,
    /// By how much the cost rises here, in ns.
    pub step_ns: f64,
    /// Probability of such a step by chance, corrected for the number of steps.
    pub p: f64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum NoAnswer {
    /// Not enough was measured.
    #[error(
        "{} alignments with {triples} boundaries each were measured; at least {LEAST_ROWS} with {LEAST_TRIPLES} are needed",
        .alignments
    )]
    TooFew {
        /// Alignments.
        alignments: usize,
        /// Boundaries of the alignment with fewest.
        triples: usize,
    },
    /// Nothing rises.
    #[error("crossing a boundary costs the same at every alignment")]
    Flat,
    /// Something falls.
    #[error("the cost of crossing falls by {:.1} µs at {}, which no geometry explains", .fall_ns / 1000.0, Bytes(*.bytes))]
    Falls {
        /// The alignment that costs less than the one before.
        bytes: u64,
        /// By how much.
        fall_ns: f64,
    },
    /// A step is not certain.
    #[error("the step at {} may be chance (p = {p:.2})", Bytes(*.bytes))]
    Uncertain {
        /// The alignment.
        bytes: u64,
        /// Its probability by chance.
        p: f64,
    },
    /// The steps depend on which boundaries were read.
    #[error("only {:.0} % of resamples have the same boundaries", 100.0 * .agreeing)]
    Unstable {
        /// Share that agrees.
        agreeing: f64,
    },
}

impl NoAnswer {
    /// Whether more boundaries may give an answer: there are steps, and they are not certain.
    #[must_use]
    pub const fn may_be_chance(&self) -> bool {
        matches!(self, Self::Uncertain { .. } | Self::Unstable { .. })
    }

    /// What could be done.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::TooFew { .. } => {
                "measure the device itself, with at least 30 boundaries per alignment (`--triples`)"
            }
            Self::Flat => {
                "drives that map single pages and areas that were never written show no geometry; fill the device, or take what the kernel says"
            }
            Self::Falls { .. } | Self::Uncertain { .. } | Self::Unstable { .. } => {
                "repeat with other boundaries (`--seed 2`) or more of them (`--triples 2000`) while nothing else uses the device or the processor"
            }
        }
    }
}

/// What the times say of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Geometry {
    /// Boundaries, the smallest first.
    pub boundaries: Vec<Boundary>,
    /// Share of resamples that have the same ones.
    pub agreeing: f64,
}

impl Geometry {
    /// The smallest boundary: a page.
    #[must_use]
    pub fn page_bytes(&self) -> Option<u64> {
        self.boundaries.first().map(|one| one.bytes).filter(|bytes| *bytes < UNIT_BYTES)
    }

    /// The largest boundary, where it can be that of an allocation unit.
    #[must_use]
    pub fn unit_bytes(&self) -> Option<u64> {
        self.boundaries.last().map(|one| one.bytes).filter(|bytes| *bytes >= UNIT_BYTES)
    }
}

/// Smallest allocation unit and more than the largest page, of devices that were published.
const UNIT_BYTES: u64 = 128 << 10;

/// The boundaries of a device, or why there is no answer. Costs about 10 ms for 20 alignments with 128 boundaries each.
///
/// # Errors
/// What [`NoAnswer`] says.
pub fn judge(rows: &[Row]) -> Result<Geometry, NoAnswer> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.align_bytes.is_power_of_two()).collect();
    rows.sort_by_key(|row| row.align_bytes);
    let triples = rows.iter().map(|row| row.differences_ns.len()).min().unwrap_or(0);
    let enough = usize::try_from(LEAST_TRIPLES).unwrap_or(usize::MAX);
    if rows.len() < LEAST_ROWS || triples < enough {
        return Err(NoAnswer::TooFew { alignments: rows.len(), triples });
    }
    let read_ns = median(&rows.iter().map(|row| row.read_ns).collect::<Vec<_>>()).unwrap_or(0.0);
    let costs: Vec<Cost> = rows.iter().map(|row| Cost::of(&row.differences_ns, read_ns)).collect();
    let least_ns = least_step(&costs, read_ns);
    never_falls(&rows, &costs, least_ns)?;
    let steps = fitted(&costs, least_ns);
    if steps.places.is_empty() {
        return Err(NoAnswer::Flat);
    }
    let boundaries = tested(&rows, &costs, &steps)?;
    let agreeing = agreeing(&rows, read_ns, &steps);
    if agreeing < AGREEING {
        return Err(NoAnswer::Unstable { agreeing });
    }
    Ok(Geometry { boundaries, agreeing })
}

/// The median of an alignment's differences and its standard error, in ns.
#[derive(Debug, Clone, Copy)]
struct Cost {
    median: f64,
    error: f64,
}

impl Cost {
    fn of(differences: &[f64], read_ns: f64) -> Self {
        let centre = median(differences).unwrap_or(0.0);
        let distances: Vec<f64> = differences.iter().map(|one| (one - centre).abs()).collect();
        let deviation = NORMAL_DEVIATION * median(&distances).unwrap_or(0.0);
        let error = MEDIAN_ERROR * deviation / count(differences.len()).sqrt();
        Self { median: centre, error: error.max(RESOLUTION * read_ns).max(1.0) }
    }
}

/// The least step that is one.
fn least_step(costs: &[Cost], read_ns: f64) -> f64 {
    let largest = costs.iter().map(|cost| cost.median).fold(0.0, f64::max);
    (OF_READ * read_ns).max(OF_LARGEST * largest)
}

/// Condition of rule 3.
fn never_falls(rows: &[&Row], costs: &[Cost], least_ns: f64) -> Result<(), NoAnswer> {
    let level = LEVEL / count(rows.len());
    for place in 1..rows.len() {
        let fall_ns = costs[place - 1].median - costs[place].median;
        let (before, after) = (&rows[place - 1].differences_ns, &rows[place].differences_ns);
        if fall_ns >= least_ns && p_above(after, before) <= level {
            return Err(NoAnswer::Falls { bytes: rows[place].align_bytes, fall_ns });
        }
    }
    Ok(())
}

/// Rule 2.
fn fitted(costs: &[Cost], least_ns: f64) -> Steps {
    let values: Vec<f64> = costs.iter().map(|cost| cost.median).collect();
    let squares: Vec<f64> = costs.iter().map(|cost| cost.error * cost.error).collect();
    // One with more steps need not be closer, as each has to be large enough.
    let closest = step::best(&values, &vec![1.0; values.len()], MOST_STEPS, least_ns)
        .into_iter()
        .min_by(|one, other| one.squares.total_cmp(&other.squares))
        .unwrap_or_default();
    let free = count(values.len().saturating_sub(closest.places.len() + 1)).max(1.0);
    let sampling = squares.iter().sum::<f64>() / count(squares.len());
    let besides = (closest.squares / free - sampling).max(0.0);
    let weights: Vec<f64> = squares.iter().map(|one| 1.0 / (one + besides)).collect();
    let penalty = 2.0 * count(values.len()).ln();
    let criterion = |steps: &Steps| steps.squares + penalty * count(steps.places.len());
    step::best(&values, &weights, MOST_STEPS, least_ns)
        .into_iter()
        .min_by(|one, other| criterion(one).total_cmp(&criterion(other)))
        .unwrap_or_default()
}

/// Rule 3.
fn tested(rows: &[&Row], costs: &[Cost], steps: &Steps) -> Result<Vec<Boundary>, NoAnswer> {
    let by_chance: Vec<f64> = steps
        .places
        .iter()
        .map(|place| p_above(&rows[place - 1].differences_ns, &rows[*place].differences_ns))
        .collect();
    let mean = |from: usize, to: usize| {
        costs[from..to].iter().map(|cost| cost.median).sum::<f64>() / count(to - from)
    };
    let mut boundaries = Vec::new();
    for (number, (&place, p)) in steps.places.iter().zip(holm::adjusted(&by_chance)).enumerate() {
        let bytes = rows[place].align_bytes;
        if p > LEVEL {
            return Err(NoAnswer::Uncertain { bytes, p });
        }
        let from = number.checked_sub(1).map_or(0, |before| steps.places[before]);
        let to = steps.places.get(number + 1).copied().unwrap_or(rows.len());
        boundaries.push(Boundary { bytes, step_ns: mean(place, to) - mean(from, place), p });
    }
    Ok(boundaries)
}

/// Rule 4: the share of resamples with the same steps.
fn agreeing(rows: &[&Row], read_ns: f64, steps: &Steps) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut agree = 0_u32;
    for _ in 0..RESAMPLES {
        let costs: Vec<Cost> = rows
            .iter()
            .map(|row| {
                let drawn: Vec<f64> = row
                    .differences_ns
                    .iter()
                    .map(|_| row.differences_ns[below(&mut random, row.differences_ns.len())])
                    .collect();
                Cost::of(&drawn, read_ns)
            })
            .collect();
        let again = fitted(&costs, least_step(&costs, read_ns));
        agree += u32::from(again.places == steps.places);
    }
    as_f64(u64::from(agree)) / f64::from(RESAMPLES)
}

/// A place below `end`; the bias is below 1 part in 2^50.
fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
    let wide = u128::from(random.next_u64()) * u128::try_from(end).unwrap_or(0);
    usize::try_from(wide >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences around a cost: from −20 to 20 µs, evenly.
    fn row(align_bytes: u64, cost_us: f64, triples: u32) -> Row {
        let spread = |n: u32| f64::from(n % 41) - 20.0;
        let differences_ns = (0..triples).map(|n| 1000.0 * (cost_us + spread(n * 7))).collect();
        Row { align_bytes, differences_ns, read_ns: 740_000.0 }
    }

    fn rows(costs_us: &[f64], triples: u32) -> Vec<Row> {
        let aligns = (0..).map(|power| 2048_u64 << power);
        aligns.zip(costs_us).map(|(align, cost)| row(align, *cost, triples)).collect()
    }

    fn bytes(geometry: &Geometry) -> Vec<u64> {
        geometry.boundaries.iter().map(|one| one.bytes).collect()
    }

    /// The costs of flashbench's README.
    const README_US: [f64; 17] = [
        4.65, 5.85, 53.3, 148.0, 157.0, 159.0, 165.0, 171.0, 165.0, 169.0, 171.0, 317.0, 299.0, 302.0, 294.0,
        300.0, 324.0,
    ];

    #[test]
    fn the_card_of_the_readme_has_three_boundaries() {
        let found = judge(&rows(&README_US, 41)).unwrap();
        assert_eq!(bytes(&found), [8192, 16384, 4 << 20]);
        assert_eq!((found.page_bytes(), found.unit_bytes()), (Some(8192), Some(4 << 20)));
        assert!(found.agreeing >= 0.95 && found.boundaries.iter().all(|one| one.p < 1e-6), "{found:?}");
        assert!((found.boundaries[2].step_ns / 1000.0 - 143.0).abs() < 5.0, "{found:?}");
        assert_eq!(judge(&rows(&README_US, 41)), Ok(found), "the same measurements, the same answer");
    }

    /// Three steps of 3 % of a read cannot be had here without missing both that are there: what such a fit leaves is no noise.
    #[test]
    fn two_steps_are_found_where_a_third_does_not_fit() {
        let costs_us = [2.0, 1.0, 2.0, 4.0, 3.0, 83.0, 78.0, 82.0, 82.0, 80.0, 82.0, 122.0];
        let found = judge(&rows(&costs_us, 512)).unwrap();
        assert_eq!(bytes(&found), [65_536, 4 << 20]);
    }

    #[test]
    fn too_few_boundaries_are_no_answer() {
        assert_eq!(judge(&rows(&README_US, 29)), Err(NoAnswer::TooFew { alignments: 17, triples: 29 }));
        assert_eq!(judge(&rows(&README_US[..3], 41)), Err(NoAnswer::TooFew { alignments: 3, triples: 41 }));
        assert_eq!(judge(&[]), Err(NoAnswer::TooFew { alignments: 0, triples: 0 }));
    }

    #[test]
    fn the_same_cost_everywhere_is_no_answer() {
        assert_eq!(judge(&rows(&[5.0; 12], 41)), Err(NoAnswer::Flat));
        // A drive of 47 µs per read whose costs differ by half a microsecond: page-mapped.
        let mut steady = rows(&[0.5, 0.5, 0.6, 0.5, 1.5, 1.6, 0.5, 0.4], 41);
        for row in &mut steady {
            row.read_ns = 47_500.0;
        }
        assert_eq!(judge(&steady), Err(NoAnswer::Flat));
    }

    #[test]
    fn a_cost_that_falls_is_no_answer() {
        let found = judge(&rows(&[5.0, 5.0, 5.0, 300.0, 300.0, 100.0, 300.0, 300.0], 41));
        assert!(
            matches!(found, Err(NoAnswer::Falls { bytes: 65536, fall_ns }) if (fall_ns - 2e5).abs() < 1e3),
            "{found:?}"
        );
    }

    #[test]
    fn a_step_within_the_noise_is_no_answer() {
        let mut noisy = rows(&[0.0, 0.0, 0.0, 0.0, 30.0, 30.0, 30.0, 30.0], 41);
        for (number, row) in noisy.iter_mut().enumerate() {
            for (n, one) in row.differences_ns.iter_mut().enumerate() {
                *one += 8.0 * 1000.0 * (count((n * 17 + number * 5) % 41) - 20.0);
            }
        }
        let found = judge(&noisy);
        assert!(
            matches!(found, Err(NoAnswer::Uncertain { .. } | NoAnswer::Unstable { .. } | NoAnswer::Flat)),
            "{found:?}"
        );
    }

    #[test]
    fn every_reason_has_words_and_a_next_step() {
        for (reason, words) in [
            (NoAnswer::TooFew { alignments: 17, triples: 1 }, "17 alignments with 1 boundaries each"),
            (NoAnswer::Flat, "the same at every alignment"),
            (NoAnswer::Falls { bytes: 65536, fall_ns: 2e5 }, "falls by 200.0 µs at 64KiB"),
            (NoAnswer::Uncertain { bytes: 4 << 20, p: 0.2 }, "at 4MiB may be chance (p = 0.20)"),
            (NoAnswer::Unstable { agreeing: 0.61 }, "only 61 % of resamples"),
        ] {
            assert!(reason.to_string().contains(words), "{reason}");
            assert!(!reason.hint().is_empty());
        }
    }
}
