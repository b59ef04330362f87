//! Percentile curves of the latency of fio's points.
//!
//! Each repeat has its own percentiles, from fio's histogram; a curve is their geometric mean at each percentile, with
//! the interval of the one estimator: repeats are the units, not operations, of which there are many in each.

use std::collections::BTreeSet;

use fsage_model::fio::{FioPoint, LatencyAt, PERCENTILES};
use serde::Serialize;

use super::device;
use super::point::Point;
use super::text::rounded;
use super::view::View;
use crate::stats::estimator::{self, Trial};

/// Numbers of all curves together, which bounds the page's size: beyond it there are no intervals.
const NUMBERS: usize = 60_000;

/// What the chart gets.
#[derive(Debug, Clone, Serialize)]
pub struct Percentiles {
    /// Percent, in rising order; a curve may end before the last.
    percent: &'static [f64],
    curves: Vec<Curve>,
}

/// One direction of one point on one file system.
#[derive(Debug, Clone, Serialize)]
struct Curve {
    file_system: usize,
    context: String,
    /// Name of the stage, if it is not the first.
    stage: String,
    /// The load's pattern and direction (`randrw70/write`).
    load: String,
    engine: &'static str,
    bs: u64,
    depth: u32,
    jobs: u32,
    files: u32,
    direct: bool,
    memory: Option<u64>,
    /// Repeats.
    n: usize,
    /// Nanoseconds at each percentile.
    ns: Vec<f64>,
    /// Ends of the intervals; empty without.
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Percentiles {
    /// Value and text of each load that has a curve.
    pub fn loads(&self) -> Vec<(String, String)> {
        let all: BTreeSet<&String> = self.curves.iter().map(|curve| &curve.load).collect();
        let text = |load: &str| match load.split_once('/') {
            Some((pattern, way)) => format!("{pattern}, {way}s"),
            None => load.to_owned(),
        };
        all.into_iter().map(|load| (load.clone(), text(load))).collect()
    }

    /// Block sizes that have a curve, in rising order.
    pub fn sizes(&self) -> BTreeSet<u64> {
        self.curves.iter().map(|curve| curve.bs).collect()
    }

    /// Whether any curve has intervals.
    pub fn has_intervals(&self) -> bool {
        self.curves.iter().any(|curve| !curve.low.is_empty())
    }
}

/// Every curve of the view, in the order of trials and points.
pub fn all(view: &View) -> Percentiles {
    let mut curves = Vec::new();
    for (context, own) in device::contexts(view) {
        for (file_system, name) in view.file_systems.iter().enumerate() {
            let here = own.iter().filter(|&&index| view.trials[index].file_system == *name);
            let here: Vec<usize> = here.copied().collect();
            for (prefix, point) in device::points(view, &here) {
                let found = both(view, &here, prefix, point).into_iter();
                curves.extend(found.map(|curve| Curve { file_system, context: context.clone(), ..curve }));
            }
        }
    }
    if curves.iter().map(|curve| 3 * curve.ns.len()).sum::<usize>() > NUMBERS {
        curves.iter_mut().for_each(|curve| (curve.low, curve.high) = (Vec::new(), Vec::new()));
    }
    Percentiles { percent: &PERCENTILES, curves }
}

/// A direction, and where a point has its percentiles.
type Way = (&'static str, fn(&Point) -> &Vec<LatencyAt>);

/// Reads and writes of one point, over trials that differ in nothing but the repeat.
fn both(view: &View, trials: &[usize], prefix: &str, point: &FioPoint) -> Vec<Curve> {
    let ways: [Way; 2] = [("read", |point| &point.read), ("write", |point| &point.write)];
    let own = |index: usize| {
        let found = view.trials[index].points.iter();
        found.filter(move |other| other.prefix == prefix && other.point == *point)
    };
    let curve = |(way, of): Way| {
        let repeats: Vec<(u32, &Vec<LatencyAt>)> = trials
            .iter()
            .flat_map(|&index| own(index).map(move |point| (view.trials[index].repeat, of(point))))
            .filter(|(_, percentiles)| !percentiles.is_empty())
            .collect();
        let [ns, low, high] = over_repeats(&repeats, view.confidence);
        let load = point.load();
        (!ns.is_empty()).then(|| Curve {
            file_system: 0,
            context: String::new(),
            stage: prefix.trim_end_matches('.').to_owned(),
            load: if point.rw.is_mixed() { format!("{load}/{way}") } else { load },
            engine: point.ioengine.name(),
            bs: point.bs.0,
            depth: point.iodepth,
            jobs: point.numjobs,
            files: point.files,
            direct: point.direct,
            memory: point.memory.map(|limit| limit.0),
            n: repeats.iter().map(|(repeat, _)| repeat).collect::<BTreeSet<_>>().len(),
            ns,
            low,
            high,
        })
    };
    ways.into_iter().filter_map(curve).collect()
}

/// Geometric means at [`PERCENTILES`], as far as every repeat has them, and both ends of the intervals, which are
/// missing where one percentile has none.
fn over_repeats(repeats: &[(u32, &Vec<LatencyAt>)], confidence: f64) -> [Vec<f64>; 3] {
    let mut found: [Vec<f64>; 3] = Default::default();
    for percent in PERCENTILES {
        let at = |(seed, percentiles): &(u32, &Vec<LatencyAt>)| {
            let ns = percentiles.iter().find(|at| (at.percent - percent).abs() < 1e-9)?.ns;
            Some(Trial { cell: String::new(), seed: *seed, rounds: vec![ns.max(1.0).ln()] })
        };
        let trials: Option<Vec<Trial>> = repeats.iter().map(at).collect();
        let Some(level) = trials.and_then(|trials| estimator::level(&trials, confidence)) else { break };
        let interval = level.interval.map(|interval| interval.map(f64::exp));
        found[0].push(rounded(level.value.exp()));
        if let Some(interval) = interval {
            found[1].push(rounded(interval.low));
            found[2].push(rounded(interval.high));
        }
    }
    if found[1].len() < found[0].len() {
        (found[1], found[2]) = (Vec::new(), Vec::new());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(scale: f64, number: usize) -> Vec<LatencyAt> {
        PERCENTILES[..number]
            .iter()
            .map(|percent| LatencyAt { percent: *percent, ns: scale * percent })
            .collect()
    }

    #[test]
    fn repeats_are_averaged_by_their_logs_where_all_have_a_percentile() {
        let (one, other) = (repeat(10.0, 20), repeat(40.0, 18));
        let [ns, low, high] = over_repeats(&[(0, &one), (1, &other)], 0.95);
        assert_eq!((ns.len(), low.len(), high.len()), (18, 18, 18));
        assert_eq!((ns[6], PERCENTILES[6]), (1000.0, 50.0));
        assert!(low[6] < 1000.0 && high[6] > 1000.0);
        let [alone, low, _] = over_repeats(&[(0, &one)], 0.95);
        assert_eq!((alone.len(), alone[6], low.len()), (20, 500.0, 0));
        // Percentiles that happen to be equal have no interval, and a band with holes is none.
        let [same, low, _] = over_repeats(&[(0, &one), (1, &one)], 0.95);
        assert_eq!((same.len(), low.len()), (20, 0));
        assert_eq!(over_repeats(&[], 0.95), [const { Vec::<f64>::new() }; 3]);
    }
}
