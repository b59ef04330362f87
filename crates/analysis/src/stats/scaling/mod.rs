//! How a rate depends on load: from which load on more of it gains nothing ([`saturation`]), and Gunther's Universal
//! Scalability Law ([`usl`]).
//!
//! Load is what the rate is measured over: requests under way, jobs, files in use at once, or the size of a block.
//! Rates go by their logs, and **seeds are the units**, as everywhere ([`super::estimator`]): a curve is the geometric
//! mean over seeds at each load, and intervals come from how far the seeds' own curves lie apart. With one seed there is
//! a value and no interval.

pub mod saturation;
#[cfg(test)]
mod tests;
pub mod usl;

use std::collections::BTreeMap;

pub use saturation::Saturation;
pub use usl::{Law, Unfit};

use super::quantile::count;

/// Rates of one thing under rising load.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    loads: Vec<u64>,
    /// Logs of the rates, by seed, then load.
    logs: Vec<Vec<f64>>,
}

impl Curve {
    /// The rates by seed, then load. Loads that a seed lacks are left out, and so are those with a rate that is not above
    /// 0, and load 0.
    #[must_use]
    pub fn new(rates: &BTreeMap<u32, BTreeMap<u64, f64>>) -> Self {
        let usable = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let mut loads: Vec<u64> = rates.values().flat_map(BTreeMap::keys).copied().collect();
        loads.sort_unstable();
        loads.dedup();
        loads.retain(|load| *load > 0 && rates.values().all(|seed| seed.get(load).is_some_and(usable)));
        let logs = rates.values().map(|seed| loads.iter().map(|load| seed[load].ln()).collect()).collect();
        Self { loads, logs }
    }

    /// Loads in rising order.
    #[must_use]
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }

    /// Seeds, each of which has a rate at every load.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.logs.len()
    }

    /// Mean over seeds of the logs at each load.
    fn means(&self) -> Vec<f64> {
        let seeds = count(self.seeds());
        let mean = |load: usize| self.logs.iter().map(|seed| seed[load]).sum::<f64>() / seeds;
        (0..self.loads.len()).map(mean).collect()
    }
}
