//! Bars of several measures of which a chart shows one at a time: an estimate over trials with its interval.

use serde::Serialize;

use crate::stats::Estimate;

/// What the bars of a chart can show.
pub struct Measure {
    /// Its metric.
    pub metric: &'static str,
    /// In words.
    pub words: &'static str,
    /// Its unit on the axis; empty of numbers without one.
    pub unit: &'static str,
    /// How many of the metric's units that is.
    pub scale: f64,
}

/// A bar: one measure of one cell.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// Index of the file system.
    file_system: usize,
    /// File system, stage and other factors in words.
    label: String,
    /// Which measure, by its metric.
    pub measure: &'static str,
    words: &'static str,
    unit: &'static str,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    trials: usize,
}

impl Bar {
    /// What a measure is of a cell, with the index of its file system.
    pub fn new(file_system: usize, label: String, measure: &Measure, estimate: &Estimate) -> Self {
        let &Measure { metric, words, unit, scale } = measure;
        Self {
            file_system,
            label,
            measure: metric,
            words,
            unit,
            value: estimate.value / scale,
            low: estimate.interval.map(|interval| interval.low / scale),
            high: estimate.interval.map(|interval| interval.high / scale),
            trials: estimate.units,
        }
    }
}

/// The measures that any of these bars shows, as a choice.
pub fn choices<'a>(
    measures: &[Measure],
    bars: impl IntoIterator<Item = &'a Bar> + Clone,
) -> Vec<(String, String)> {
    let is_shown = |measure: &&Measure| bars.clone().into_iter().any(|bar| bar.measure == measure.metric);
    let shown = measures.iter().filter(is_shown);
    shown.map(|measure| (measure.metric.to_owned(), measure.words.to_owned())).collect()
}
