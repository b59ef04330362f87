//! Metrics of a `remedy` stage: what it took, what it left, and each measure after it against the same before
//! it.
//!
//! Measures of different work have no ratio (bytes, or files where there are no bytes, more than 1 % apart):
//! after files were deleted there is less to read.

use fsage_model::disk::DiskTime;
use fsage_model::measure::{MeasureResult, disk_metrics, model_unit};
use fsage_model::metric;
use fsage_model::quantity::as_f64;
use fsage_model::record::{RemedyRecord, StageRecord};

use super::{List, WORSE, state, unit_of, worse};

/// Work that differs by more than this share is other work.
const SAME_WORK: f64 = 0.01;

/// What it took and what it left.
pub(super) fn push(list: &mut List<'_>, remedy: &RemedyRecord) {
    let wall = as_f64(remedy.elapsed_ns) / 1e9;
    let disks = || remedy.disk.iter().chain(&remedy.source_disk);
    let model = disks().any(|disk| disk.time == DiskTime::Model);
    if model {
        // Of a copy: the slower of both, as they work at the same time.
        let ns = disks().map(|disk| disk.elapsed_ns).max().unwrap_or(0);
        list.one(metric::REMEDY_ELAPSED_S, &model_unit("s"), as_f64(ns) / 1e9, WORSE);
        list.one(metric::REMEDY_WALL_S, "s", wall, None);
    } else {
        list.one(metric::REMEDY_ELAPSED_S, "s", wall, WORSE);
    }
    for (name, bytes) in
        [(metric::REMEDY_READ_BYTES, remedy.read_bytes), (metric::REMEDY_WRITTEN_BYTES, remedy.written_bytes)]
    {
        if let Some(bytes) = bytes {
            list.one(name, "bytes", as_f64(bytes), WORSE);
        }
    }
    for metric in remedy.disk.iter().flat_map(disk_metrics) {
        list.one(&metric.name, unit_of(&metric), metric.value, worse(&metric));
    }
    // What was not done has no state of its own.
    if remedy.incomplete.is_empty() {
        state(list, &remedy.layout, remedy.free_space.as_ref());
    }
}

/// The `measure` stages around the remedy at `position`, against each other: the first and the second after it
/// against the one before it.
pub(super) fn against(list: &mut List<'_>, stages: &[StageRecord], position: usize) {
    let measured = |stage: &'_ StageRecord| -> bool { matches!(stage, StageRecord::Measure { .. }) };
    let Some(before) = stages[..position].iter().rev().find(|stage| measured(stage)) else { return };
    for after in stages[position..].iter().filter(|stage| measured(stage)).take(2) {
        ratios(list, before, after);
    }
}

fn ratios(list: &mut List<'_>, before: &StageRecord, after: &StageRecord) {
    let (
        StageRecord::Measure { name: below, results: first, .. },
        StageRecord::Measure { name: above, results, .. },
    ) = (before, after)
    else {
        return;
    };
    for result in results {
        let Some(other) = first.iter().find(|other| other.name == result.name) else { continue };
        let (Some(now), Some(then)) = (result.metrics.first(), other.metrics.first()) else { continue };
        if same_work(result, other) && now.unit == then.unit && then.value > 0.0 {
            let larger_is_worse = Some(now.larger_is_worse);
            list.one(
                &metric::over(above, below, &result.name),
                "ratio",
                now.value / then.value,
                larger_is_worse,
            );
        }
    }
}

/// Whether both did the same: as many bytes, or as many files where they moved none.
fn same_work(a: &MeasureResult, b: &MeasureResult) -> bool {
    let alike = |a: u64, b: u64| as_f64(a.abs_diff(b)) <= SAME_WORK * as_f64(a.max(b));
    alike(a.bytes, b.bytes) && alike(a.files, b.files)
}

#[cfg(test)]
mod tests {
    use fsage_model::disk::{DiskCounter, DiskUse};
    use fsage_model::layout::LayoutSummary;
    use fsage_model::measure::MeasureMetric;
    use fsage_model::record::Metric;
    use fsage_model::remedy::Remedy;

    use super::*;
    use crate::run::metric::all;

    fn measured(name: &str, value: f64, bytes: u64) -> StageRecord {
        let result = MeasureResult {
            name: "grep".to_owned(),
            bytes,
            files: 10,
            metrics: vec![MeasureMetric::cost("time", "s", value)],
            ..MeasureResult::default()
        };
        StageRecord::Measure {
            name: name.to_owned(),
            results: vec![result],
            left_out: Vec::new(),
            before: Box::default(),
            free_before: None,
            after: Box::default(),
            free_after: None,
        }
    }

    fn used(elapsed_ns: u64, erases: f64) -> DiskUse {
        let counter = DiskCounter { name: "erases".into(), unit: "1".into(), value: erases, state: false };
        DiskUse { elapsed_ns, counters: vec![counter], ..DiskUse::default() }
    }

    fn remedy() -> RemedyRecord {
        RemedyRecord {
            name: "remedy".to_owned(),
            method: Remedy::Copy,
            command: String::new(),
            said: String::new(),
            incomplete: String::new(),
            elapsed_ns: 9_000_000_000,
            disk: Some(used(2_000_000_000, 3.0)),
            source_disk: Some(used(5_000_000_000, 0.0)),
            read_bytes: Some(7),
            written_bytes: Some(8),
            files: 1,
            bytes: 1,
            layout: LayoutSummary { extents_per_file: 1.5, ..LayoutSummary::default() },
            free_space: None,
        }
    }

    fn value(metrics: &[Metric], name: &str) -> Option<(f64, String)> {
        let found = metrics.iter().find(|metric| metric.name == name)?;
        Some((found.samples[0], found.unit.clone()))
    }

    #[test]
    fn cost_gain_and_what_lasts_are_metrics() {
        let stages = [
            measured("before", 4.0, 1000),
            StageRecord::Remedy(Box::new(remedy())),
            measured("after", 1.0, 1000),
            measured("later", 2.0, 1005),
        ];
        let metrics = all(&stages);
        let is = |name: &str, number: f64, unit: &str| {
            assert_eq!(value(&metrics, name), Some((number, unit.to_owned())), "{name}");
        };
        is("grep", 4.0, "s");
        is("after.grep", 1.0, "s");
        is("after_over_before.grep", 0.25, "ratio");
        is("later_over_before.grep", 0.5, "ratio");
        // The reading side took longer; wear is of the side that was written to.
        is("remedy.elapsed_s", 5.0, "model s");
        is("remedy.wall_s", 9.0, "s");
        is("remedy.read_bytes", 7.0, "bytes");
        is("remedy.written_bytes", 8.0, "bytes");
        is("remedy.disk_erases", 3.0, "count");
        is("remedy.layout.extents_per_file", 1.5, "count");
    }

    #[test]
    fn other_work_has_no_ratio() {
        let stages = [
            measured("before", 4.0, 1000),
            StageRecord::Remedy(Box::new(RemedyRecord { disk: None, source_disk: None, ..remedy() })),
            measured("after", 1.0, 900),
        ];
        let metrics = all(&stages);
        assert_eq!(value(&metrics, "after_over_before.grep"), None);
        assert_eq!(value(&metrics, "remedy.elapsed_s"), Some((9.0, "s".to_owned())));
        assert_eq!(value(&metrics, "remedy.wall_s"), None);
    }
}
