//! How the tables write samples.

/// Median, least and most, with so many places: `1.25 (1.10..1.31)`; `–` without a sample.
#[must_use]
pub fn spread(mut values: Vec<f64>, places: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return "–".to_owned() };
    let median = values[values.len() / 2];
    format!("{median:.places$} ({least:.places$}..{most:.places$})")
}
