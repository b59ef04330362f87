//! A confidence interval.

/// A confidence interval, ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The smallest interval that holds this one and `value`.
    #[must_use]
    pub fn with(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }

    /// The same with both ends moved by a rising function, such as from logs back to ratios.
    #[must_use]
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        Self { low: scale(self.low), high: scale(self.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_inside_and_move_together() {
        let logs = Interval { low: -1.0, high: 0.0 };
        assert_eq!((logs.with(2.0).high, logs.with(-0.5)), (2.0, logs));
        assert!(logs.contains(-1.0) && logs.contains(0.0) && !logs.contains(0.1));
        let ratios = logs.map(f64::exp);
        assert!(ratios.high == 1.0 && (ratios.low - (-1.0_f64).exp()).abs() < 1e-15);
    }
}
