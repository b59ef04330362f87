//! Counts as floating-point numbers, in one place so that the loss is argued once.

/// A count as `f64`; exact up to 2^53, beyond that rounded to within 1 part in 2^53.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "the loss is the documented contract")]
pub const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// `part / whole`, and 0 when `whole` is 0.
#[must_use]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { as_f64(part) / as_f64(whole) }
}

/// A sum that stays at the largest number where it would go beyond: what is summed may be what a stranger
/// wrote.
#[must_use]
pub fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    counts.into_iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// The nearest whole number that fits, of a finite value; negative values and NaN give 0.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN gives 0")]
pub fn to_u64(value: f64) -> u64 {
    value.round() as u64
}

/// A number as an index; one that does not fit is beyond any slice.
#[must_use]
#[inline]
pub fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
