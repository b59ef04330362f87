//! The numbers of an answer for its chart: a panel for each device and setting, a row for each measure, a
//! point for each file system.

use serde::Serialize;

use super::effect::{Cause, Effect};
use super::sentence::doing;
use crate::report::difference::Finding;
use crate::report::text::rounded;
use crate::report::view::View;

/// The chart; empty without comparisons.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Devices and settings.
    pub panels: Vec<String>,
    /// Measures.
    pub rows: Vec<String>,
    /// Intervals of file systems.
    pub points: Vec<Point>,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Index in the panels.
    pub panel: usize,
    /// Index in the rows.
    pub row: usize,
    /// Index in the view's file systems.
    pub file_system: usize,
    /// How many times as long.
    pub ratio: f64,
    /// Ends of its interval.
    pub low: Option<f64>,
    /// The upper one.
    pub high: Option<f64>,
    /// Repeats.
    pub n: usize,
    /// Whether it is a finding and not only of this run.
    pub sure: bool,
    /// What was found, in words.
    pub finding: &'static str,
}

impl Chart {
    /// Of all comparisons, in their order.
    pub fn new(view: &View, effects: &[Effect]) -> Self {
        let mut chart = Self::default();
        for effect in effects {
            let settings =
                if effect.settings.is_empty() { String::new() } else { format!(", {}", effect.settings) };
            let panel = place(&mut chart.panels, format!("{}{settings}", effect.device));
            let row = place(&mut chart.rows, row(effect));
            let in_run = !effect.is_general();
            let sure = !in_run && matches!(effect.finding, Finding::Worse | Finding::Better);
            let finding = match (effect.finding, in_run) {
                (Finding::NoEvidence, _) if effect.corrected => "not significant after correction",
                (Finding::NoEvidence, _) => "no evidence of a difference",
                (_, true) => "in this run",
                (Finding::Better, _) => "faster",
                _ => "slower",
            };
            chart.points.push(Point {
                panel,
                row,
                file_system: view
                    .file_systems
                    .iter()
                    .position(|name| *name == effect.file_system)
                    .unwrap_or(0),
                ratio: rounded(effect.estimate.value),
                low: effect.estimate.interval.map(|interval| rounded(interval.low)),
                high: effect.estimate.interval.map(|interval| rounded(interval.high)),
                n: effect.estimate.n,
                sure,
                finding,
            });
        }
        chart
    }

    /// Whether there is nothing to draw.
    pub const fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

fn row(effect: &Effect) -> String {
    let what = doing(&effect.cause, &effect.what);
    match &effect.cause {
        Cause::Ageing | Cause::Remedy | Cause::Running => what,
        Cause::Use => format!("{what}: use"),
        Cause::Fullness => format!("{what}: fullness"),
        Cause::Volumes { above, below } => format!("{what}: {above} ÷ {below}"),
    }
}

/// The index of a text in a list, which gets it where it lacks it.
fn place(list: &mut Vec<String>, text: String) -> usize {
    list.iter().position(|known| *known == text).unwrap_or_else(|| {
        list.push(text);
        list.len() - 1
    })
}
