//! What write amplification should be, from theory.
//!
//! Uniformly random writes of single units to a full drive, `α = flash / capacity`, blocks of `n` units,
//! greedy collection, steady state. Hu et al. (*Write amplification analysis in flash-based solid state
//! drives*, SYSTOR 2009) posed the question with a probabilistic model that is solved numerically. [`greedy`]
//! is the mean-field form of it (after Desnoyers, *Analytic modeling of SSD write performance*, SYSTOR 2012):
//! in the steady state as many blocks lose their `k`-th current unit as their `k+1`-st, so the share of
//! blocks with `k` current units is proportional to `1/k`, from `n` down to the `v` at which greedy
//! collection takes them, and the mean must be what the capacity fills:
//!
//! ```text
//! (n − v) / (H(n) − H(v)) = n / α        H: harmonic numbers
//! A = n / (n − v)
//! ```
//!
//! [`write_amplification`] is its limit for large blocks, which has a closed form (Xiang and Kurkoski, *An
//! improved analytical expression for write amplification in NAND flash*, ICNC 2012, arXiv:1110.4245; also
//! Desnoyers' for collection in the order of writing): small blocks let greedy choice do better than this.
//!
//! ```text
//! A = α / (α + W(−α e^−α))               W: Lambert's function, principal branch
//! ```

use crate::media::number::as_f64;

/// The write amplification of greedy collection with blocks of that many units.
#[must_use]
pub fn greedy(units_per_block: u32, flash_per_capacity: f64) -> f64 {
    if flash_per_capacity <= 1.0 {
        return f64::INFINITY;
    }
    let n = f64::from(units_per_block);
    let (mut below, mut harmonic) = (n, 0.0);
    // From v = n downwards the left side falls; the line between two whole v is close enough.
    for v in (0..units_per_block).rev() {
        harmonic += 1.0 / as_f64(u64::from(v) + 1);
        let mean = (n - f64::from(v)) / harmonic;
        if mean <= n / flash_per_capacity {
            let part = (n / flash_per_capacity - mean) / (below - mean);
            return n / (n - f64::from(v) - part);
        }
        below = mean;
    }
    1.0
}

/// The limit of [`greedy`] for large blocks; infinite without spare.
#[must_use]
pub fn write_amplification(flash_per_capacity: f64) -> f64 {
    if flash_per_capacity <= 1.0 {
        return f64::INFINITY;
    }
    1.0 / (1.0 - (-life(flash_per_capacity)).exp())
}

/// The `L > 0` with `(1 − e^−L) / L = 1 / α`, by bisection.
pub(super) fn life(flash_per_capacity: f64) -> f64 {
    let mean = |l: f64| (1.0 - (-l).exp()) / l;
    let (mut low, mut high) = (1e-9, 2.0 * flash_per_capacity + 2.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if mean(middle) > 1.0 / flash_per_capacity { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that Xiang and Kurkoski print in their abstract.
    #[test]
    fn agrees_with_the_published_example() {
        assert!((write_amplification(1.3) - 2.36).abs() < 0.005, "{}", write_amplification(1.3));
    }

    #[test]
    fn large_blocks_reach_the_limit_from_below() {
        for spare in [1.07, 1.15, 1.28, 2.0] {
            let amplifications = [32, 128, 512, 65_536].map(|n| greedy(n, spare));
            assert!(amplifications.is_sorted(), "{amplifications:?}");
            let limit = write_amplification(spare);
            assert!((amplifications[3] / limit - 1.0).abs() < 0.001, "{amplifications:?} {limit}");
        }
    }
}
