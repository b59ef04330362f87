//! Distribution of latencies, as fio's JSON (`json+`) has it in the `bins` of each direction.
//!
//! fio's histogram has 64 bins per power of two (`FIO_IO_U_PLAT_BITS` 6 in its `stat.h`); values up to 127 ns have a
//! bin each. A bin is named by the middle of its range, so that a value is known to within 1/128 of itself. Percentiles
//! are by nearest rank, as fio's own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::as_f64;

/// Percentiles that are kept, in percent: even steps at first, then three or more per decade of the rest.
pub const PERCENTILES: [f64; 30] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.0, 98.0, 99.0,
    99.5, 99.7, 99.8, 99.9, 99.95, 99.97, 99.98, 99.99, 99.995, 99.998, 99.999, 99.9999,
];

/// A percentile of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// Percent of the operations that took no longer.
    pub percent: f64,
    /// Nanoseconds.
    pub ns: f64,
}

/// Latencies in bins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Operations by the middle of their bin in nanoseconds.
    bins: BTreeMap<u64, u64>,
}

impl Distribution {
    /// Adds operations to the bin around `middle_ns`.
    pub fn add(&mut self, middle_ns: u64, operations: u64) {
        if operations > 0 {
            let bin = self.bins.entry(middle_ns).or_default();
            *bin = bin.saturating_add(operations);
        }
    }

    /// Operations in all bins.
    #[must_use]
    pub fn operations(&self) -> u64 {
        crate::quantity::sum(self.bins.values())
    }

    /// Middle of each bin in nanoseconds and operations in it, the shortest first.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bins.iter().map(|(middle_ns, operations)| (*middle_ns, *operations))
    }

    /// [`PERCENTILES`] that so many operations have: as long as one of them or more lies beyond. None is below `min_ns`
    /// or above `max_ns`, which are known exactly where the middle of a bin is not.
    #[must_use]
    pub fn percentiles(&self, min_ns: f64, max_ns: f64) -> Vec<LatencyAt> {
        let all = as_f64(self.operations());
        let known = |percent: &f64| all * (100.0 - percent) >= 100.0 * (1.0 - 1e-9);
        let (mut seen, mut bins, mut at) = (0_u64, self.bins(), 0.0);
        let mut found = Vec::new();
        for percent in PERCENTILES.into_iter().take_while(known) {
            // The rank is a whole number, but for rounding.
            let rank = (all * percent / 100.0 * (1.0 - 1e-12)).ceil();
            while as_f64(seen) < rank {
                let Some((middle_ns, operations)) = bins.next() else { break };
                (seen, at) = (seen.saturating_add(operations), as_f64(middle_ns));
            }
            found.push(LatencyAt { percent, ns: at.max(min_ns).min(max_ns) });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bins: &[(u64, u64)]) -> Distribution {
        let mut found = Distribution::default();
        bins.iter().for_each(|(middle, operations)| found.add(*middle, *operations));
        found
    }

    #[test]
    fn percentiles_rise_and_end_where_no_operation_lies_beyond() {
        assert!(PERCENTILES.windows(2).all(|pair| pair[0] < pair[1]));
        let hundred: Vec<(u64, u64)> = (1..=100).map(|ns| (ns, 1)).collect();
        let found = of(&hundred).percentiles(1.0, 100.0);
        assert_eq!(found.last(), Some(&LatencyAt { percent: 99.0, ns: 99.0 }));
        // Nearest rank: the value of that rank itself.
        assert!(found.iter().all(|at| (at.ns - at.percent.ceil()).abs() < 1e-9), "{found:?}");
        assert_eq!(of(&hundred[..99]).percentiles(1.0, 99.0).last().unwrap().percent, 98.0);
        let million = of(&[(10, 999_999), (1000, 1)]).percentiles(9.0, 1003.0);
        assert_eq!(million.last(), Some(&LatencyAt { percent: 99.9999, ns: 10.0 }));
        assert_eq!(million.len(), PERCENTILES.len());
    }

    #[test]
    fn bins_add_up_and_values_stay_within_what_was_seen() {
        let mut found = of(&[(724, 1), (788, 2)]);
        found.add(724, 7);
        found.add(9000, 0);
        assert_eq!((found.operations(), found.bins().collect::<Vec<_>>()), (10, vec![(724, 8), (788, 2)]));
        let at: Vec<f64> = found.percentiles(730.0, 780.0).iter().map(|at| at.ns).collect();
        assert_eq!(
            at,
            [730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 730.0, 780.0, 780.0]
        );
        assert_eq!(Distribution::default().percentiles(0.0, 0.0), []);
        let huge = of(&[(1, u64::MAX), (2, u64::MAX)]);
        assert_eq!(huge.operations(), u64::MAX);
        assert_eq!(huge.percentiles(1.0, 2.0).len(), PERCENTILES.len());
    }
}
