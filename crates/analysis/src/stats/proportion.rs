//! The exact interval of a probability of which `hits` of `tries` were seen.

use fsage_model::quantity::as_f64;
use statrs::function::beta::beta_reg;

use super::Interval;

/// Halvings of an interval: more than a double has bits.
const HALVINGS: u32 = 80;

/// The two-sided interval of Clopper and Pearson (Biometrika 26, 1934): its ends are the probabilities with
/// which so many hits or more, and so many or fewer, come with (1 − `confidence`) ÷ 2. It holds the truth at
/// least as often as it says. Without a hit at 95 % its upper end is some 3.69 ÷ `tries`. Without tries: all of
/// 0 to 1.
#[must_use]
pub fn clopper_pearson(hits: u64, tries: u64, confidence: f64) -> Interval {
    let hits = hits.min(tries);
    let tail = (1.0 - confidence) / 2.0;
    let (seen, missed) = (as_f64(hits), as_f64(tries - hits));
    // The probability of `hits` or more is the regularised incomplete beta function of them.
    let low = if hits == 0 { 0.0 } else { rising(tail, |p| beta_reg(seen, missed + 1.0, p)) };
    let high = if hits == tries { 1.0 } else { rising(1.0 - tail, |p| beta_reg(seen + 1.0, missed, p)) };
    Interval { low, high }
}

/// Where a function that rises over 0 to 1 has this value.
fn rising(value: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if function(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-4 * wanted.max(1e-3), "{found} is not {wanted}");
    }

    #[test]
    fn ends_are_those_of_published_tables() {
        // 1 of 1,000: 0.025 to 5.56 per mille.
        let one = clopper_pearson(1, 1000, 0.95);
        assert!((one.low - 0.000_025_3).abs() < 1e-7 && (one.high - 0.005_559).abs() < 1e-6, "{one:?}");
        // Newcombe (Statistics in Medicine 17, 1998), table I: 81 of 263, 15 of 148, 1 of 29.
        for (hits, tries, low, high) in
            [(81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (1, 29, 0.0009, 0.1776)]
        {
            let found = clopper_pearson(hits, tries, 0.95);
            assert!((found.low - low).abs() < 6e-5 && (found.high - high).abs() < 6e-5, "{hits}: {found:?}");
        }
    }

    #[test]
    fn nothing_seen_is_not_never_and_everything_is_not_always() {
        let none = clopper_pearson(0, 600, 0.95);
        assert_eq!(none.low, 0.0);
        near(none.high, fsage_model::crash::at_most(600));
        let all = clopper_pearson(600, 600, 0.95);
        assert_eq!(all.high, 1.0);
        near(1.0 - all.low, none.high);
        assert_eq!(clopper_pearson(0, 0, 0.95), Interval { low: 0.0, high: 1.0 });
    }
}
