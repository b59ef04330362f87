//! How many allocation units a device writes in turn without losing speed: the open-unit test of flashbench (`-O`; A. Bergmann,
//! the tool's README), with repeats in random order.
//!
//! A block is written to each of N units, then the next block to each of them, and so on: in the order of the blocks, and in
//! random order. While the device can keep all N units open, a block takes as long as in one unit. With one unit more, every
//! block closes a unit and opens another, which copies the remaining data of the unit. The first block of each unit is not counted:
//! it pays for what the test before left open. Every test has other units.
//!
//! 1. N rises until a block takes [`COLLAPSE`] times as long as in one unit, twice in a row: a test may be slow by chance.
//! 2. One unit, the largest N that was fast, and one more, are tested [`ROUNDS`] times in random order. The answer is that N if the
//!    medians differ by that factor, and the times do by a rank sum (Mann & Whitney 1947, one-sided, Holm's procedure
//!    over the two orders) at a level of 1 %. If no N was slow, there is no limit only where three quarters of the largest
//!    are within 1.3 times of one unit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use fsage_model::quantity::as_f64;
use fsage_model::size::Bytes;
use fsage_model::timed_read::BlockRange;
use fsage_model::timed_write::WrittenRun;
use serde::Serialize;

use super::rank::p_above;
use crate::dice::Dice;
use crate::stats::holm;
use crate::stats::quantile::{count, median, quantile};

/// Fewest and most units that are written in turn.
pub const MOST_UNITS: RangeInclusive<u32> = 2..=64;
/// Smallest and largest allocation unit.
pub const UNIT_BYTES: RangeInclusive<u64> = 128 << 10..=512 << 20;
/// How many times as long a block takes where a unit is closed for it.
pub const COLLAPSE: f64 = 2.0;
/// How often each test is repeated.
pub const ROUNDS: u32 = 8;
/// Blocks of a unit at least, of which [`PASSES`] are written.
const BLOCKS: u64 = 32;
/// Largest block: in larger ones, what closing a unit costs is little of the time, above all where the unit is smaller than was said.
const MOST_BLOCK_BYTES: u64 = 256 << 10;
/// How many times as long a block may take in as many units as were tried, for there to be no limit.
const NO_LIMIT: f64 = 1.3;
/// Blocks that a test writes to each unit.
const PASSES: u64 = 4;
/// Level of the tests.
const LEVEL: f64 = 0.01;

/// Why a device cannot be tested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenUnitError {
    /// No such unit.
    #[error(
        "units of {} are no allocation units of a device with sectors of {sector_bytes} bytes",
        Bytes(*.unit_bytes)
    )]
    Unit {
        /// What was asked for.
        unit_bytes: u64,
        /// Of the device.
        sector_bytes: u32,
    },
    /// Too few or too many units in turn.
    #[error("{units} units in turn are not between {} and {}", MOST_UNITS.start(), MOST_UNITS.end())]
    Units {
        /// What was asked for.
        units: u32,
    },
    /// Too few units.
    #[error("{} holds {units} units of {}, and {needed} are needed", Bytes(*.size_bytes), Bytes(*.unit_bytes))]
    Small {
        /// Of the device.
        size_bytes: u64,
        /// A unit.
        unit_bytes: u64,
        /// How many it holds.
        units: u64,
        /// How many are needed.
        needed: u64,
    },
}

impl OpenUnitError {
    /// The next step.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unit { .. } => format!(
                "give whole sectors from {} to {} with `--unit-size`",
                Bytes(*UNIT_BYTES.start()),
                Bytes(*UNIT_BYTES.end())
            ),
            Self::Units { .. } => format!(
                "give a number from {} to {} with `--most-units`",
                MOST_UNITS.start(),
                MOST_UNITS.end()
            ),
            Self::Small { .. } => "try fewer with `--most-units`, or name a larger device".to_owned(),
        }
    }
}

/// In which order the blocks of a unit are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From its beginning on.
    Linear,
    /// At random.
    Random,
}

/// One test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trial {
    /// Of the blocks.
    pub order: Order,
    /// Units that are written in turn.
    pub units: u32,
}

/// One unit in order: what all other times are compared with.
const ONE: Trial = Trial { order: Order::Linear, units: 1 };

/// Where a device is written to.
#[derive(Debug, Clone)]
pub struct Units {
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The first unit's first byte on the device.
    first_bytes: u64,
    /// Whole units from there on.
    count: u64,
    dice: Dice,
}

/// What is known of a device.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    /// Its size.
    pub size_bytes: u64,
    /// Its sector.
    pub sector_bytes: u32,
    /// Where it begins on its disk, whose units are meant.
    pub start_bytes: u64,
    /// Bytes at its beginning that are left alone.
    pub head_bytes: u64,
    /// The same at its end.
    pub tail_bytes: u64,
}

impl Units {
    /// The units of a device, of which up to `most_units` are written in turn.
    ///
    /// # Errors
    /// No such unit; no such number; too small a device.
    pub fn new(device: &Device, unit_bytes: u64, most_units: u32, seed: u64) -> Result<Self, OpenUnitError> {
        let Device { size_bytes, sector_bytes, start_bytes, head_bytes, tail_bytes } = *device;
        let block = u32::try_from((unit_bytes / BLOCKS).min(MOST_BLOCK_BYTES)).unwrap_or(u32::MAX);
        let whole = unit_bytes.is_multiple_of(BLOCKS)
            && unit_bytes.is_multiple_of(block.into())
            && block.is_multiple_of(sector_bytes.max(1));
        if !UNIT_BYTES.contains(&unit_bytes) || !whole {
            return Err(OpenUnitError::Unit { unit_bytes, sector_bytes });
        }
        if !MOST_UNITS.contains(&most_units) {
            return Err(OpenUnitError::Units { units: most_units });
        }
        let first_bytes = (start_bytes + head_bytes).next_multiple_of(unit_bytes) - start_bytes;
        let count = size_bytes.saturating_sub(tail_bytes).saturating_sub(first_bytes) / unit_bytes;
        // Every other unit, from either of two, and as many again to choose from.
        let needed = 4 * u64::from(most_units);
        if count < needed {
            return Err(OpenUnitError::Small { size_bytes, unit_bytes, units: count, needed });
        }
        Ok(Self { unit_bytes, block_bytes: block, first_bytes, count, dice: Dice::new(seed) })
    }

    /// The writes of a test: four blocks to each of its units, which are chosen at random and do not follow each other.
    pub fn writes(&mut self, trial: Trial) -> Vec<BlockRange> {
        let parity = self.dice.below(2);
        let mut pairs = BTreeSet::new();
        while pairs.len() < usize::try_from(trial.units).unwrap_or(0) {
            pairs.insert(self.dice.below(self.count / 2));
        }
        let mut units: Vec<u64> =
            pairs.into_iter().map(|pair| self.first_bytes + (2 * pair + parity) * self.unit_bytes).collect();
        self.dice.shuffle(&mut units);
        let mut blocks: Vec<u64> = (0..self.unit_bytes / u64::from(self.block_bytes)).collect();
        let passes = usize::try_from(PASSES).unwrap_or(0);
        // By chance the first few may come in their order, which is no random one.
        while trial.order == Order::Random && blocks[..passes].is_sorted() {
            self.dice.shuffle(&mut blocks);
        }
        let block_bytes = u64::from(self.block_bytes);
        let passes = blocks.into_iter().zip(0..PASSES);
        passes
            .flat_map(|(block, _)| units.iter().map(move |unit| unit + block * block_bytes))
            .map(|offset| BlockRange::new(offset, self.block_bytes))
            .collect()
    }
}

/// How long a block of a test took, in ns, with its share of the flush after the last. `None`: these are not the times of that test.
#[must_use]
pub fn block_ns(trial: Trial, run: &WrittenRun) -> Option<f64> {
    let units = usize::try_from(trial.units).ok()?;
    let taken: Vec<u64> = run.times.taken_ns().skip(units).collect();
    let flush_ns = run.flushed_ns.saturating_sub(*run.times.answered_ns.last()?);
    (units > 0 && !taken.is_empty())
        .then(|| as_f64(taken.iter().sum::<u64>() + flush_ns) / count(taken.len()))
}

/// How many units can be written in turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum OpenLimit {
    /// So many; 0: not even one, in this order.
    Units {
        /// How many.
        units: u32,
        /// How many times as long a block takes with one unit more.
        ratio: f64,
        /// Probability of that by chance, corrected for both orders.
        p: f64,
    },
    /// As many as were tried: a block takes `ratio` times as long as in one unit.
    NoLimit {
        /// How many were tried.
        tried: u32,
        /// Median ÷ that of one unit.
        ratio: f64,
    },
    /// No number was slow at once, but many units are slower than one.
    Gradual {
        /// How many were tried.
        tried: u32,
        /// Median ÷ that of one unit.
        ratio: f64,
    },
    /// The times do not say.
    Unclear {
        /// Units with which a block seemed to be fast; 0: one, in order.
        below: u32,
        /// Units with which it seemed to be slow.
        above: u32,
        /// How many times as long a block takes with these.
        ratio: f64,
        /// Probability of that by chance, corrected for both orders.
        p: f64,
    },
}

/// The tests of one number of units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OpenTest {
    /// Of the blocks.
    pub order: Order,
    /// Units that were written in turn.
    pub units: u32,
    /// Median time of a block, in ns.
    pub block_ns: f64,
    /// How many tests.
    pub count: usize,
}

/// The answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenUnits {
    /// In the order of a unit's blocks.
    pub linear: OpenLimit,
    /// In random order.
    pub random: OpenLimit,
    /// What was measured, also before the tests that decide.
    pub tests: Vec<OpenTest>,
}

/// Does tests and gives the time of a block of each, in ns.
pub type Measure<'a, E> = &'a mut dyn FnMut(&[Trial]) -> Result<Vec<f64>, E>;

/// Finds how many units can be written in turn, at most `most_units`.
///
/// # Errors
/// What `measure` says.
pub fn find<E>(most_units: u32, seed: u64, measure: Measure<'_, E>) -> Result<OpenUnits, E> {
    let mut all: BTreeMap<Trial, Vec<f64>> = BTreeMap::new();
    let mut measure = |trials: &[Trial]| -> Result<Vec<f64>, E> {
        let times = measure(trials)?;
        trials.iter().zip(&times).for_each(|(trial, ns)| all.entry(*trial).or_default().push(*ns));
        Ok(times)
    };
    let base = median(&measure(&[ONE; 3])?).unwrap_or(0.0);
    let mut limits = BTreeMap::new();
    for order in [Order::Linear, Order::Random] {
        limits.insert(order, scout(order, base, most_units, &mut measure)?);
    }
    let mut trials = BTreeSet::from([ONE]);
    for (&order, limit) in &limits {
        let units = limit.map_or(most_units..=most_units, |fast| fast..=fast + 1);
        trials.extend(units.filter(|units| *units > 0).map(|units| Trial { order, units }));
    }
    let mut dice = Dice::new(seed);
    let mut planned = Vec::new();
    for _ in 0..ROUNDS {
        let mut round: Vec<Trial> = trials.iter().copied().collect();
        dice.shuffle(&mut round);
        planned.extend(round);
    }
    let mut times: BTreeMap<Trial, Vec<f64>> = BTreeMap::new();
    for (trial, ns) in planned.iter().zip(measure(&planned)?) {
        times.entry(*trial).or_default().push(ns);
    }
    let (linear, random) = judge(&limits, most_units, &times);
    let test = |(trial, ns): (&Trial, &Vec<f64>)| OpenTest {
        order: trial.order,
        units: trial.units,
        block_ns: median(ns).unwrap_or(0.0),
        count: ns.len(),
    };
    Ok(OpenUnits { linear, random, tests: all.iter().map(test).collect() })
}

/// The most units that were fast; `None`: all were.
fn scout<E>(order: Order, base: f64, most_units: u32, measure: Measure<'_, E>) -> Result<Option<u32>, E> {
    let mut slow = 0;
    let first = if order == Order::Linear { 2 } else { 1 };
    for units in first..=most_units {
        let times = measure(&[Trial { order, units }])?;
        slow = if times.first().is_some_and(|ns| *ns > COLLAPSE * base) { slow + 1 } else { 0 };
        if slow == 2 {
            return Ok(Some(units - 2));
        }
    }
    Ok((slow == 1).then(|| most_units - 1))
}

fn judge(
    limits: &BTreeMap<Order, Option<u32>>,
    most_units: u32,
    times: &BTreeMap<Trial, Vec<f64>>,
) -> (OpenLimit, OpenLimit) {
    let of = |trial: Trial| times.get(&trial).map_or(&[][..], Vec::as_slice);
    let centre = |trial: Trial| median(of(trial)).unwrap_or(f64::NAN);
    // The test that is fast, and the one with a unit more.
    let sides = |order: Order, fast: u32| {
        let below = if fast == 0 { ONE } else { Trial { order, units: fast } };
        (below, Trial { order, units: fast + 1 })
    };
    let p = |order: Order| match limits.get(&order).copied().flatten() {
        Some(fast) => {
            let (below, above) = sides(order, fast);
            p_above(of(below), of(above))
        }
        None => f64::NAN,
    };
    let adjusted = holm::adjusted(&[p(Order::Linear), p(Order::Random)]);
    let answer = |order: Order| {
        let p = adjusted[usize::from(order == Order::Random)];
        let Some(fast) = limits.get(&order).copied().flatten() else {
            let most = Trial { order, units: most_units };
            let ratio = centre(most) / centre(ONE);
            let bound = |trial, share| quantile(of(trial), share).unwrap_or(f64::NAN);
            return match bound(most, 0.75) / bound(ONE, 0.25) < NO_LIMIT {
                true => OpenLimit::NoLimit { tried: most_units, ratio },
                false => OpenLimit::Gradual { tried: most_units, ratio },
            };
        };
        let (below, above) = sides(order, fast);
        let ratio = centre(above) / centre(below);
        let is_clear = ratio >= COLLAPSE && centre(below) < COLLAPSE * centre(ONE) && p <= LEVEL;
        match is_clear {
            true => OpenLimit::Units { units: fast, ratio, p },
            false => OpenLimit::Unclear { below: fast, above: fast + 1, ratio, p },
        }
    };
    (answer(Order::Linear), answer(Order::Random))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use fsage_model::timed_read::RunTimes;

    use super::*;

    const DEVICE: Device = Device {
        size_bytes: 1 << 30,
        sector_bytes: 512,
        start_bytes: 1 << 20,
        head_bytes: 4 << 20,
        tail_bytes: 1 << 20,
    };

    #[test]
    fn writes_are_of_whole_units_of_the_disk_that_do_not_follow_each_other() {
        for (order, units) in [(Order::Linear, 1), (Order::Linear, 16), (Order::Random, 7)] {
            let mut device = Units::new(&DEVICE, 4 << 20, 16, 3).unwrap();
            let writes = device.writes(Trial { order, units });
            assert_eq!(writes.len(), 4 * usize::try_from(units).unwrap());
            let unit = |write: &BlockRange| (write.offset_bytes + DEVICE.start_bytes) / (4 << 20);
            let used: BTreeSet<u64> = writes.iter().map(unit).collect();
            assert_eq!(used.len(), usize::try_from(units).unwrap());
            assert!(used.iter().zip(used.iter().skip(1)).all(|(one, next)| next - one > 1), "{used:?}");
            for write in &writes {
                assert!(write.fits(DEVICE.size_bytes, 512) && write.length_bytes == 128 << 10);
                let inside = DEVICE.head_bytes..=DEVICE.size_bytes - DEVICE.tail_bytes;
                assert!(inside.contains(&write.offset_bytes) && inside.contains(&write.end_bytes()));
            }
            let blocks: Vec<u64> = writes
                .chunks(usize::try_from(units).unwrap())
                .map(|pass| (pass[0].offset_bytes + DEVICE.start_bytes) % (4 << 20) / (128 << 10))
                .collect();
            assert_eq!(blocks == [0, 1, 2, 3], order == Order::Linear, "{blocks:?}");
        }
    }

    #[test]
    fn what_cannot_be_tested_is_refused_with_a_next_step() {
        for (unit, most, said) in [
            (1 << 10, 16, "units of 1KiB are no allocation units"),
            ((4 << 20) + 512, 16, "are no allocation units"),
            (4 << 20, 1, "1 units in turn are not between 2 and 64"),
            (4 << 20, 65, "65 units in turn"),
            (64 << 20, 16, "1GiB holds 15 units of 64MiB, and 64 are needed"),
        ] {
            let error = Units::new(&DEVICE, unit, most, 1).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.hint().contains("`--"), "{}", error.hint());
        }
    }

    #[test]
    fn the_first_block_of_each_unit_is_not_counted() {
        let answered_ns: Vec<u64> = (1..=8).map(|write| 100 * write).collect();
        let asked_ns = answered_ns.iter().map(|answered| answered - 10).collect();
        let run = WrittenRun { times: RunTimes { asked_ns, answered_ns }, flushed_ns: 860 };
        let trial = Trial { order: Order::Linear, units: 2 };
        assert_eq!(block_ns(trial, &run), Some(20.0));
        assert_eq!(block_ns(Trial { units: 8, ..trial }, &run), None);
        assert_eq!(block_ns(trial, &WrittenRun::default()), None);
    }

    /// A device whose block takes as long as `ns` says.
    fn found(ns: impl Fn(Trial, u32) -> f64) -> OpenUnits {
        let mut count = 0;
        let measure = &mut |trials: &[Trial]| -> Result<Vec<f64>, Infallible> {
            let time = |trial: &Trial| {
                count += 1;
                ns(*trial, count)
            };
            Ok(trials.iter().map(time).collect())
        };
        find(8, 1, measure).unwrap()
    }

    /// Slightly different times, so that ranks differ.
    fn spread(count: u32) -> f64 {
        1.0 + 0.01 * f64::from(count * 7 % 10)
    }

    #[test]
    fn limits_are_found_and_what_is_unclear_is_said() {
        let limits = |linear: u32, random: u32| {
            move |trial: Trial, count| {
                let limit = if trial.order == Order::Linear { linear } else { random };
                spread(count) * if trial.units > limit { 10.0 } else { 1.0 }
            }
        };
        let units = |limit: &OpenLimit| match limit {
            OpenLimit::Units { units, .. } => Some(*units),
            _ => None,
        };
        for (linear, random) in [(5, 5), (1, 0), (7, 3)] {
            let found = found(limits(linear, random));
            assert_eq!(
                (units(&found.linear), units(&found.random)),
                (Some(linear), Some(random)),
                "{found:?}"
            );
        }
        let page_mapped = found(limits(99, 99));
        assert!(matches!(page_mapped.linear, OpenLimit::NoLimit { tried: 8, .. }), "{page_mapped:?}");
        let gradual = found(|trial, count| spread(count) * (1.0 + 0.3 * f64::from(trial.units)));
        assert!(matches!(gradual.linear, OpenLimit::Unclear { .. }), "{gradual:?}");
        let slower = found(|trial, count| spread(count) * (1.0 + 0.1 * f64::from(trial.units - 1)));
        assert!(matches!(slower.linear, OpenLimit::Gradual { tried: 8, .. }), "{slower:?}");
    }

    #[test]
    fn one_slow_test_is_no_limit() {
        let found = found(|_, count| if count == 6 { 30.0 } else { spread(count) });
        assert!(matches!(found.linear, OpenLimit::NoLimit { .. }), "{found:?}");
        assert!(matches!(found.random, OpenLimit::NoLimit { .. }), "{found:?}");
    }
}
