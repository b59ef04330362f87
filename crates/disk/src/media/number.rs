//! Whole numbers and floats, converted in one place so that the loss is argued once.
//!
//! Floats are used when a model is made (to fit a curve to published figures) and when its counters are read,
//! never to tell a time.

/// A count as `f64`: exact up to 2^53, rounded beyond.
#[expect(clippy::cast_precision_loss, reason = "the loss is the documented contract")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number; negative values and NaN give 0, too large ones the largest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN gives 0")]
pub(super) fn to_u64(value: f64) -> u64 {
    value.round() as u64
}

/// `part / whole`, and 0 when `whole` is 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { as_f64(part) / as_f64(whole) }
}

/// A number as an index; one that does not fit is beyond any slice.
pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A length as a number.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// `a · b / c` without overflow in between; saturates. `c` is not 0.
pub(super) fn scale(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}
