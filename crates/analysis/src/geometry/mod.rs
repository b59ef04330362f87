//! The geometry of a flash device, judged from the cost of reading across boundaries.
//!
//! [`boundary`] is our judgement, which needs many boundaries of each alignment and says "no answer" otherwise.
//! [`rules`] are the published ones, which take one number of each alignment and always answer. [`flashbench`] reads that
//! tool's output. [`open`] finds how many units can be written in turn, [`page`] draws
//! both.

pub mod boundary;
pub mod flashbench;
pub mod open;
pub mod page;
mod rank;
pub mod rules;
mod step;

use fsage_model::geometry::BoundaryTimes;
use fsage_model::quantity::as_f64;

use crate::stats::quantile::median;

pub use boundary::{Geometry, NoAnswer, judge};

/// The cost of crossing the boundaries of one alignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The alignment.
    pub align_bytes: u64,
    /// Of each boundary: the time across it less the mean of those before and behind it. In ns.
    pub differences_ns: Vec<f64>,
    /// Median time of reads that cross none, in ns.
    pub read_ns: f64,
}

impl Row {
    /// Median difference in ns.
    #[must_use]
    pub fn difference_ns(&self) -> f64 {
        median(&self.differences_ns).unwrap_or(0.0)
    }
}

/// Boundaries of each alignment that are read where nobody asked for a number.
pub const TRIPLES: u32 = 128;
/// Those that are then read beside them, one round after the other, while there are steps and they are not certain.
pub const MORE_TRIPLES: [u32; 2] = [384, 512];

/// What was read of [`TRIPLES`] boundaries, with as many rounds of [`MORE_TRIPLES`] as it takes for an answer; all that was read is judged
/// together. `more` reads so many, in a round that is counted from 1, and gives `None` where the device has too few. Up to three
/// looks make a wrong answer more likely than the level of one says, and of an alignment with few boundaries some are read in several
/// rounds: the tests on drives of known geometry are of all of that.
///
/// # Errors
/// What `more` says.
pub fn enough<E>(
    mut times: BoundaryTimes,
    mut more: impl FnMut(u32, u64) -> Result<Option<BoundaryTimes>, E>,
) -> Result<BoundaryTimes, E> {
    for (round, triples) in (1..).zip(MORE_TRIPLES) {
        if !judge(&rows(&times)).is_err_and(|reason| reason.may_be_chance()) {
            break;
        }
        let Some(found) = more(triples, round)? else { break };
        times.add(found);
    }
    Ok(times)
}

/// What was measured, as rows.
#[must_use]
pub fn rows(times: &BoundaryTimes) -> Vec<Row> {
    let rows = times.alignments.iter().map(|alignment| {
        let triples = &alignment.triples;
        let beside: Vec<f64> =
            triples.iter().flat_map(|one| [as_f64(one.before_ns), as_f64(one.after_ns)]).collect();
        let difference = |one: &fsage_model::geometry::Triple| {
            as_f64(one.across_ns) - f64::midpoint(as_f64(one.before_ns), as_f64(one.after_ns))
        };
        Row {
            align_bytes: alignment.align_bytes,
            differences_ns: triples.iter().map(difference).collect(),
            read_ns: median(&beside).unwrap_or(0.0),
        }
    });
    rows.collect()
}
