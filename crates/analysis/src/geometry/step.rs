//! The least-squares fit of a rising step function.

/// Weighted sums of a series, so that the squares of any segment cost the same.
#[derive(Debug)]
pub(super) struct Sums {
    /// Of weights, weighted values and weighted squares, before each place.
    before: Vec<[f64; 3]>,
}

impl Sums {
    pub(super) fn new(values: &[f64], weights: &[f64]) -> Self {
        // Near zero, so that squares lose no digits.
        let origin = values.first().copied().unwrap_or(0.0);
        let mut before = vec![[0.0; 3]];
        let mut sum = [0.0; 3];
        for (value, weight) in values.iter().zip(weights) {
            let value = value - origin;
            sum = [sum[0] + weight, sum[1] + weight * value, sum[2] + weight * value * value];
            before.push(sum);
        }
        Self { before }
    }

    fn of(&self, from: usize, to: usize) -> [f64; 3] {
        let (low, high) = (self.before[from], self.before[to]);
        [high[0] - low[0], high[1] - low[1], high[2] - low[2]]
    }

    /// Weighted squared distances of `from..to` from their mean.
    pub(super) fn squares(&self, from: usize, to: usize) -> f64 {
        let [weight, first, second] = self.of(from, to);
        if weight > 0.0 { (second - first * first / weight).max(0.0) } else { 0.0 }
    }

    /// Their mean, less the first value of the series.
    fn mean(&self, from: usize, to: usize) -> f64 {
        let [weight, first, _] = self.of(from, to);
        if weight > 0.0 { first / weight } else { 0.0 }
    }
}

/// A step function: the places (from 1) at which it rises, and the squares that are left.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Steps {
    pub(super) places: Vec<usize>,
    pub(super) squares: f64,
}

/// The best fits with 0 to `most` steps that rise by at least `least` each; one with more steps than can be so is
/// missing.
pub(super) fn best(values: &[f64], weights: &[f64], most: usize, least: f64) -> Vec<Steps> {
    let sums = Sums::new(values, weights);
    let mut found: Vec<Option<Steps>> = vec![None; most + 1];
    let mut search = Search { sums: &sums, end: values.len(), least, found: &mut found };
    search.go(&mut Vec::new(), 0.0, f64::NEG_INFINITY);
    found.into_iter().flatten().collect()
}

/// A search through all places.
struct Search<'a> {
    sums: &'a Sums,
    end: usize,
    least: f64,
    found: &'a mut [Option<Steps>],
}

impl Search<'_> {
    /// Every way to go on from `places`, whose closed segments leave `squares` and whose last has the mean `below`.
    fn go(&mut self, places: &mut Vec<usize>, squares: f64, below: f64) {
        let from = places.last().copied().unwrap_or(0);
        if self.sums.mean(from, self.end) >= below + self.least {
            let total = squares + self.sums.squares(from, self.end);
            let known = &mut self.found[places.len()];
            if known.as_ref().is_none_or(|known| total < known.squares) {
                *known = Some(Steps { places: places.clone(), squares: total });
            }
        }
        if places.len() + 1 == self.found.len() {
            return;
        }
        for place in from + 1..self.end {
            let mean = self.sums.mean(from, place);
            if mean >= below + self.least {
                places.push(place);
                self.go(places, squares + self.sums.squares(from, place), mean);
                places.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_where_they_are() {
        let values = [1.0, 1.1, 0.9, 5.0, 5.1, 9.0, 9.1, 8.9];
        let found = best(&values, &[1.0; 8], 3, 0.5);
        assert_eq!(found[1].places, [3]);
        assert_eq!(found[2].places, [3, 5]);
        assert!(found[0].squares > found[1].squares && found[1].squares > found[2].squares);
        assert!(found[2].squares < 0.05, "{found:?}");
    }

    #[test]
    fn what_falls_is_no_step() {
        let found = best(&[5.0, 5.0, 1.0, 1.0], &[1.0; 4], 2, 0.5);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].places.is_empty());
    }
}
