//! The data of the charts: one JSON island in the page that the scripts read.

use fsage_model::layout::SizeHistogram;
use serde::Serialize;

use super::age_cost;
use super::difference::{Difference, Finding};
use super::lockstep;
use super::medium;
use super::palette::Ink;
use super::series::{FreeMap, Latency};
use super::text::rounded;
use super::view::View;

#[derive(Serialize)]
pub struct Island<'a> {
    panels: &'a [String],
    file_systems: Vec<FileSystem<'a>>,
    ages: Vec<Age<'a>>,
    differences: Vec<Comparison<'a>>,
    age_costs: Vec<Cost>,
    layout_costs: Vec<age_cost::Point>,
    disk_times: Vec<medium::Spending>,
    lockstep: Vec<lockstep::Run>,
}

#[derive(Serialize)]
struct Cost {
    measure: String,
    metric: String,
    file_system: usize,
    against: &'static str,
    context: String,
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
    finding: Finding,
}

#[derive(Serialize)]
struct FileSystem<'a> {
    name: &'a str,
    ink: Ink,
}

/// An ageing stage of a trial.
#[derive(Serialize)]
struct Age<'a> {
    id: &'a str,
    label: &'a str,
    file_system: usize,
    panel: usize,
    repeat: u32,
    latency: Option<&'a Latency>,
    free: Option<&'a FreeMap>,
    extents: Option<&'a SizeHistogram>,
    files: Option<&'a SizeHistogram>,
    free_extents: Option<&'a SizeHistogram>,
}

#[derive(Serialize)]
struct Comparison<'a> {
    metric: &'a str,
    label: String,
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
    basis: &'static str,
    finding: Finding,
    survives: bool,
    zeros: usize,
}

/// JSON as it may stand in a `script` element. Within one, HTML takes `<!--` and `<script` for the beginning
/// of something that reaches beyond the element's end (HTML Living Standard 13.2.5.4, script data states),
/// and old JavaScript took two more characters for line breaks: each is written as an escape, which JSON
/// reads as the same text. Outside of texts JSON has none of them.
#[must_use]
pub fn embedded(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// The island of a view.
pub fn island<'a>(view: &'a View, differences: &'a [Difference]) -> Island<'a> {
    let place = |name: &str| view.file_systems.iter().position(|known| known == name).unwrap_or(0);
    Island {
        panels: &view.panels,
        file_systems: view
            .file_systems
            .iter()
            .map(|name| FileSystem { name, ink: super::palette::of(name) })
            .collect(),
        ages: view
            .ages()
            .map(|(trial, age)| Age {
                id: &trial.id,
                label: &age.label,
                file_system: place(&trial.file_system),
                panel: age.panel,
                repeat: trial.repeat,
                latency: age.latency.as_ref(),
                free: age.free.as_ref(),
                extents: Some(&age.result.layout.extent_histogram),
                files: Some(&age.result.layout.file_histogram),
                free_extents: age.result.free_space.as_ref().map(|free| &free.histogram),
            })
            .collect(),
        differences: differences.iter().map(comparison).collect(),
        age_costs: age_cost::all(view)
            .into_iter()
            .map(|cost| Cost {
                file_system: place(&cost.file_system),
                ratio: rounded(cost.estimate.value),
                low: cost.estimate.interval.map(|interval| rounded(interval.low)),
                high: cost.estimate.interval.map(|interval| rounded(interval.high)),
                n: cost.estimate.n,
                measure: cost.measure,
                metric: cost.metric,
                against: cost.against,
                context: cost.context,
                finding: cost.finding,
            })
            .collect(),
        layout_costs: age_cost::points(view),
        disk_times: medium::all(view),
        lockstep: lockstep::all(view),
    }
}

fn comparison(difference: &Difference) -> Comparison<'_> {
    let context =
        if difference.context.is_empty() { String::new() } else { format!(" · {}", difference.context) };
    Comparison {
        metric: &difference.metric,
        label: format!("{}{context}", difference.sides),
        ratio: rounded(difference.estimate.value),
        low: difference.estimate.interval.map(|interval| rounded(interval.low)),
        high: difference.estimate.interval.map(|interval| rounded(interval.high)),
        n: difference.estimate.n,
        basis: difference.estimate.basis.describe(),
        finding: difference.finding,
        survives: difference.survives,
        zeros: difference.estimate.zeros,
    }
}

#[cfg(test)]
mod tests {
    use super::embedded;

    #[test]
    fn no_text_of_an_island_reaches_beyond_it() {
        let value = serde_json::json!({ "a<b": "<!--<script></script>\u{2028}\u{2029}" });
        let text = embedded(&value.to_string());
        assert!(!text.contains(['<', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
