//! A choice among 16 things with given weights in constant time: Vose 1991's alias method.

use super::Random;

/// Things to choose among.
const COLUMNS: usize = 16;

/// 2^53: what a full column's threshold is.
const FULL: f64 = 9_007_199_254_740_992.0;

/// A table of 16 weights ready to draw from.
#[derive(Debug, Clone)]
pub struct Alias {
    /// Of 2^53 equal chances, how many keep the column.
    keep: [u64; COLUMNS],
    /// What the others take instead.
    other: [u8; COLUMNS],
}

impl Alias {
    /// The table of `weights`: finite, none negative, not all 0. A weight of 0 is never drawn.
    #[must_use]
    pub fn new(weights: &[f64; COLUMNS]) -> Self {
        let total: f64 = weights.iter().sum();
        let mut level = weights.map(|weight| weight / total * 16.0);
        let heaviest = (0..16_u8).max_by(|a, b| level[usize::from(*a)].total_cmp(&level[usize::from(*b)]));
        let mut keep = [0.0; COLUMNS];
        let mut other = [heaviest.unwrap_or(0); COLUMNS];
        let mut open = [true; COLUMNS];
        for _ in 0..COLUMNS {
            let pick = |wanted: &dyn Fn(f64) -> bool| {
                (0..16_u8).find(|n| open[usize::from(*n)] && wanted(level[usize::from(*n)]))
            };
            let small = pick(&|share| share < 1.0);
            let large = pick(&|share| share >= 1.0);
            match (small, large) {
                (Some(small), Some(large)) => {
                    let (s, l) = (usize::from(small), usize::from(large));
                    keep[s] = level[s];
                    other[s] = large;
                    level[l] -= 1.0 - level[s];
                    open[s] = false;
                }
                // Rounding may leave a column a hair from full; one without weight stays empty.
                (Some(last), None) | (None, Some(last)) => {
                    let last = usize::from(last);
                    keep[last] = if weights[last] > 0.0 { 1.0 } else { 0.0 };
                    open[last] = false;
                }
                (None, None) => break,
            }
        }
        Self {
            keep: keep.map(|share: f64| fsage_model::quantity::to_u64(share.clamp(0.0, 1.0) * FULL)),
            other,
        }
    }

    /// Draws one of the 16; costs one random number.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> usize {
        let bits = random.bits();
        let column = usize::try_from(bits & 15).unwrap_or(0);
        if bits >> 11 < self.keep[column] { column } else { usize::from(self.other[column]) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The chances in the table are the weights.
        #[test]
        fn chances_are_the_weights(weights in prop::array::uniform16(prop_oneof![Just(0.0), 0.001..100.0_f64])) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let table = Alias::new(&weights);
            let mut chances = [0.0; COLUMNS];
            for column in 0..COLUMNS {
                let keep = fsage_model::quantity::as_f64(table.keep[column]) / FULL;
                chances[column] += keep / 16.0;
                chances[usize::from(table.other[column])] += (1.0 - keep) / 16.0;
            }
            for (chance, weight) in chances.iter().zip(weights) {
                prop_assert!((chance - weight / total).abs() < 1e-12);
                prop_assert!(weight > 0.0 || *chance <= 0.0);
            }
        }
    }
}
