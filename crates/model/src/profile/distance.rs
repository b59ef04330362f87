//! How far a volume is from a profile, and what counts as near.

/// Difference in the share of the volume in use that counts as near.
pub const USED_NEAR: f64 = 0.01;

/// Distance of the size distributions ([`size_distance`]) that counts as near.
pub const DISTANCE_NEAR: f64 = 0.05;

/// Difference in the share of files in one extent that counts as near.
pub const ONE_EXTENT_NEAR: f64 = 0.02;

/// Kolmogorov–Smirnov distance of two lists of rows (upper bound, files, bytes): the greatest difference
/// between the shares of files not larger than any bound (0..=1). Within a row it is blind: rows are at most
/// a quarter wide. Empty files count as files of 1 byte, because a load makes none that are smaller. 1 when
/// one side is empty.
#[must_use]
pub fn size_distance(one: &[(u64, u64, u64)], other: &[(u64, u64, u64)]) -> f64 {
    use crate::quantity::share;
    let total = |rows: &[(u64, u64, u64)]| rows.iter().map(|row| row.1).sum::<u64>();
    let totals = (total(one), total(other));
    if totals.0 == 0 || totals.1 == 0 {
        return 1.0;
    }
    let up_to = |rows: &[(u64, u64, u64)], bound: u64| {
        rows.iter().take_while(|row| row.0.max(1) <= bound).map(|row| row.1).sum::<u64>()
    };
    let bounds = one.iter().chain(other).map(|row| row.0.max(1));
    bounds
        .map(|bound| (share(up_to(one, bound), totals.0) - share(up_to(other, bound), totals.1)).abs())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_the_greatest_gap() {
        let one = [(100, 50, 0), (200, 50, 0)];
        assert!(size_distance(&one, &one).abs() < 1e-12);
        assert!((size_distance(&one, &[(100, 20, 0), (200, 80, 0)]) - 0.3).abs() < 1e-12);
        assert!((size_distance(&one, &[(300, 7, 0)]) - 1.0).abs() < 1e-12);
        assert!((size_distance(&one, &[]) - 1.0).abs() < 1e-12);
        // Empty files and files of 1 byte are the same.
        assert!(size_distance(&[(0, 5, 0), (8, 5, 40)], &[(1, 50, 50), (8, 50, 400)]).abs() < 1e-12);
    }
}
