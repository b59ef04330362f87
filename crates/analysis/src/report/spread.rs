//! How the numbers of an ageing stage varied within its trial: blocks of its ticks and probes, which follow each
//! other and are no repeats.

use std::collections::BTreeSet;

use fsage_model::load::{LatencySummary, Probe, Tick};
use fsage_model::metric;
use fsage_model::quantity::{as_f64, share};

use crate::stats::Evidence;
use crate::stats::evidence::{Trend, blocks};

/// How latencies and speed varied within the trial.
pub(super) fn of_ticks(ticks: &[Tick], prefix: &str, evidence: &mut Evidence) {
    let kinds: BTreeSet<_> = ticks.iter().flat_map(|tick| tick.latency.keys().copied()).collect();
    let quarter = ticks.len() / 4;
    for kind in kinds {
        let column = |ticks: &[Tick], pick: fn(&LatencySummary) -> f64| -> Vec<(f64, f64)> {
            let present = ticks.iter().filter_map(|tick| tick.latency.get(&kind));
            present.map(|latency| (as_f64(latency.count), pick(latency))).collect()
        };
        let mut put = |statistic: &str, values: Vec<(f64, f64)>| {
            if let Some(series) =
                evidence.metrics.get_mut(&format!("{prefix}{}", metric::latency(kind, statistic)))
            {
                series.blocks = blocks(&values);
            }
        };
        put(metric::MEAN_NS, column(ticks, |latency| latency.mean_ns));
        put(metric::P50_NS, column(ticks, |latency| as_f64(latency.p50_ns)));
        put(metric::P99_NS, column(ticks, |latency| as_f64(latency.p99_ns)));
        put(metric::P999_NS, column(ticks, |latency| as_f64(latency.p999_ns)));
        let part = |from: usize, to: usize| blocks(&column(&ticks[from..to], |latency| latency.mean_ns));
        let trend =
            Trend { early: part(quarter, 2 * quarter), late: part(ticks.len() - quarter, ticks.len()) };
        evidence.trend.insert(format!("{prefix}{}", kind.name()), trend);
    }
    // The ticks' own time is the wall's.
    if let Some(series) = evidence
        .metrics
        .get_mut(&format!("{prefix}{}", metric::OPERATIONS_PER_S))
        .filter(|series| series.unit == "1/s")
    {
        let speeds: Vec<(f64, f64)> = ticks
            .windows(2)
            .filter_map(|pair| {
                let seconds = as_f64(pair[1].elapsed_ns.checked_sub(pair[0].elapsed_ns)?) / 1e9;
                let operations = as_f64(pair[1].operations.checked_sub(pair[0].operations)?);
                (seconds > 0.0).then(|| (seconds, operations / seconds))
            })
            .collect();
        series.blocks = blocks(&speeds);
    }
}

/// How the state varied over the last half of the probes.
pub(super) fn of_probes(probes: &[Probe], prefix: &str, evidence: &mut Evidence) {
    let late = &probes[probes.len() / 2..];
    let mut put = |metric: &str, pick: &dyn Fn(&Probe) -> Option<f64>| {
        if let Some(series) = evidence.metrics.get_mut(&format!("{prefix}{metric}")) {
            let values: Vec<(f64, f64)> = late.iter().filter_map(pick).map(|value| (1.0, value)).collect();
            series.blocks = blocks(&values);
        }
    };
    put(metric::FREE_EXTENTS, &|probe| Some(as_f64(probe.free_space.as_ref()?.extents)));
    put(metric::FREE_MEDIAN_BYTES, &|probe| Some(as_f64(probe.free_space.as_ref()?.median_bytes)));
    put(metric::FREE_LARGEST_BYTES, &|probe| Some(as_f64(probe.free_space.as_ref()?.largest_bytes)));
    put(metric::USE_SHARE, &|probe| Some(share(probe.used_bytes, probe.total_bytes)));
    put(metric::EXTENTS_PER_FILE, &|probe| Some(probe.layout.as_ref()?.extents_per_file));
    put(metric::ONE_EXTENT_SHARE, &|probe| Some(probe.layout.as_ref()?.one_extent_share));
    put(metric::FRAGMENTED_SHARE, &|probe| Some(1.0 - probe.layout.as_ref()?.one_extent_share));
}
