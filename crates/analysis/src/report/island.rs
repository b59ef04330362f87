//! The data of the charts: one JSON island in the page that the scripts read.

use std::collections::{BTreeMap, BTreeSet};

use fsage_model::layout::SizeHistogram;
use serde::Serialize;

use super::age_cost;
use super::answer::Chart;
use super::bar::Bar;
use super::cluster;
use super::device;
use super::difference::{Difference, Finding};
use super::lockstep;
use super::medium;
use super::palette::Ink;
use super::percentile::Percentiles;
use super::search_workload::ByWorkload;
use super::series::{FreeMap, Latency, together};
use super::text::rounded;
use super::view::View;
use super::wear;

#[derive(Serialize)]
pub struct Island<'a> {
    panels: &'a [String],
    file_systems: Vec<FileSystem<'a>>,
    ages: Vec<Age<'a>>,
    latencies: Vec<Latencies>,
    differences: Vec<Comparison<'a>>,
    answer: &'a Chart,
    layout_costs: Vec<age_cost::Point>,
    disk_times: Vec<medium::Spending>,
    lockstep: Vec<lockstep::Run>,
    device: Vec<device::Mark>,
    percentiles: &'a Percentiles,
    searches: &'a [ByWorkload],
    wear: Vec<Bar>,
    cluster: Vec<cluster::Mark>,
}

#[derive(Serialize)]
struct FileSystem<'a> {
    name: &'a str,
    ink: Ink,
}

/// Latency over the run, of all repeats of a cell.
#[derive(Serialize)]
struct Latencies {
    file_system: usize,
    panel: usize,
    repeats: usize,
    latency: Latency,
}

/// An ageing stage of a trial.
#[derive(Serialize)]
struct Age<'a> {
    id: &'a str,
    label: &'a str,
    file_system: usize,
    panel: usize,
    repeat: u32,
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
pub fn island<'a>(
    view: &'a View,
    differences: &'a [Difference],
    answer: &'a Chart,
    percentiles: &'a Percentiles,
    searches: &'a [ByWorkload],
) -> Island<'a> {
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
                free: age.free.as_ref(),
                extents: Some(&age.result.layout.extent_histogram),
                files: Some(&age.result.layout.file_histogram),
                free_extents: age.result.free_space.as_ref().map(|free| &free.histogram),
            })
            .collect(),
        latencies: latencies(view),
        differences: differences.iter().map(comparison).collect(),
        answer,
        layout_costs: age_cost::points(view),
        disk_times: medium::all(view),
        lockstep: lockstep::all(view),
        device: device::marks(view),
        percentiles,
        searches,
        wear: wear::bars(view),
        cluster: cluster::marks(view),
    }
}

/// One for each file system in each panel that has any. A run that several trials continue from counts once.
fn latencies(view: &View) -> Vec<Latencies> {
    let mut cells: BTreeMap<(usize, usize), Vec<&Latency>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (trial, age) in view.ages() {
        let Some(latency) = &age.latency else { continue };
        if age.run.as_ref().is_some_and(|run| !seen.insert((run, &age.stage))) {
            continue;
        }
        let place = view.file_systems.iter().position(|name| *name == trial.file_system).unwrap_or(0);
        cells.entry((age.panel, place)).or_default().push(latency);
    }
    let one = |((panel, file_system), repeats): ((usize, usize), Vec<&Latency>)| Latencies {
        file_system,
        panel,
        repeats: repeats.len(),
        latency: together(&repeats),
    };
    cells.into_iter().map(one).collect()
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
