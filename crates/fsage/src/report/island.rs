//! The data of the charts: one JSON island in the page that the scripts read.

use fsage_engine::layout::SizeHistogram;
use serde::Serialize;

use super::difference::{Difference, Finding};
use super::palette::Ink;
use super::series::{FreeMap, Latency};
use super::text::rounded;
use super::view::View;

#[derive(Serialize)]
pub struct Island<'a> {
    panels: &'a [String],
    file_systems: Vec<FileSystem<'a>>,
    trials: Vec<Trial<'a>>,
    differences: Vec<Comparison<'a>>,
}

#[derive(Serialize)]
struct FileSystem<'a> {
    name: &'a str,
    ink: Ink,
}

#[derive(Serialize)]
struct Trial<'a> {
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
        trials: view
            .trials
            .iter()
            .map(|trial| Trial {
                id: &trial.id,
                label: &trial.label,
                file_system: place(&trial.file_system),
                panel: trial.panel,
                repeat: trial.repeat,
                latency: trial.age.as_ref().and_then(|age| age.latency.as_ref()),
                free: trial.age.as_ref().and_then(|age| age.free.as_ref()),
                extents: trial.layout().map(|layout| &layout.extent_histogram),
                files: trial.layout().map(|layout| &layout.file_histogram),
                free_extents: trial
                    .age
                    .as_ref()
                    .and_then(|age| age.result.free_space.as_ref())
                    .map(|free| &free.histogram),
            })
            .collect(),
        differences: differences.iter().map(comparison).collect(),
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
    }
}
