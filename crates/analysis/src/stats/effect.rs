//! Effect size: Cliff's delta (Cliff 1993), the chance that a sample of one group is larger than one of the
//! other, minus the reverse. It asks nothing of the distributions.

use super::quantile::count;

/// How large a delta is, by the thresholds of Romano et al. 2006.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Magnitude {
    /// |δ| < 0.147
    Negligible,
    /// |δ| < 0.33
    Small,
    /// |δ| < 0.474
    Medium,
    /// The rest.
    Large,
}

impl Magnitude {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Negligible => "negligible",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// Cliff's delta of `a` over `b`, −1..=1; positive when `a` tends to be larger; `None` when one is empty.
#[must_use]
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for x in a {
        for y in b {
            sum += if x > y { 1.0 } else { 0.0 } - if x < y { 1.0 } else { 0.0 };
        }
    }
    Some(sum / (count(a.len()) * count(b.len())))
}

/// What a delta is called.
#[must_use]
pub fn magnitude(delta: f64) -> Magnitude {
    match delta.abs() {
        d if d < 0.147 => Magnitude::Negligible,
        d if d < 0.33 => Magnitude::Small,
        d if d < 0.474 => Magnitude::Medium,
        _ => Magnitude::Large,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_deltas() {
        assert_eq!(cliffs_delta(&[4.0, 5.0], &[1.0, 2.0]), Some(1.0));
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[4.0, 5.0]), Some(-1.0));
        assert_eq!(cliffs_delta(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), Some(0.0));
        // 9 pairs: 5 larger, 3 smaller, 1 equal
        let delta = cliffs_delta(&[1.0, 4.0, 6.0], &[2.0, 4.0, 5.0]).unwrap();
        assert!((delta - 0.0).abs() < 1e-12, "{delta}");
        assert_eq!(cliffs_delta(&[], &[1.0]), None);
    }

    #[test]
    fn magnitudes_have_their_thresholds() {
        assert_eq!(magnitude(-0.1), Magnitude::Negligible);
        assert_eq!(magnitude(0.3), Magnitude::Small);
        assert_eq!(magnitude(-0.4), Magnitude::Medium);
        assert_eq!(magnitude(0.9), Magnitude::Large);
    }
}
