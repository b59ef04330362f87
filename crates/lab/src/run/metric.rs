//! Metrics of a trial, out of what its stages left. Names are those of [`name`]; a second and
//! further stage's begin with its name.

mod cluster;
mod fio;
pub(crate) mod lockstep;
mod power_cuts;
mod remedy;

use fsage_model::disk::{COLLECTIONS, DiskTime, FLASH_BYTES, FLASH_WORN, HOST_WRITE_BYTES};
use fsage_model::layout::{FreeSpace, LayoutSummary};
use fsage_model::load::{LoadResult, PaceSpec, Probe};
use fsage_model::measure::{
    DISK_COUNTER, EXTRA_FACTOR, EXTRA_REQUESTS, MeasureMetric, MeasureResult, QUEUE_DEPTH, Work,
    disk_metrics, model_unit,
};
use fsage_model::metric;
use fsage_model::operation::OperationKind;
use fsage_model::quantity::{as_f64, share};

use fsage_model::record::{Metric, StageRecord};

/// Used extents below this size count as small.
const SMALL_EXTENT_BITS: usize = 16;

/// All metrics of a trial.
#[must_use]
pub(super) fn all(stages: &[StageRecord]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    // What a copy was made of is not what was measured afterwards.
    let start = stages.iter().position(|stage| matches!(stage, StageRecord::Copy { .. })).unwrap_or(0);
    // Up to the image they are those of the one run that led to it.
    let image = stages.iter().enumerate().find_map(|(position, stage)| match stage {
        StageRecord::Image { run, .. } if !run.is_empty() => Some((position, run)),
        _ => None,
    });
    let (mut aged, mut measured, mut pointed) = (0, 0, 0);
    let prefix = |earlier: &mut usize, stage: &str| {
        *earlier += 1;
        metric::prefix(stage, *earlier == 1)
    };
    for (position, stage) in stages.iter().enumerate().skip(start) {
        let run = image.filter(|(end, _)| position < *end).map(|(_, run)| run.as_str());
        match stage {
            StageRecord::Age { name, result, probes, .. } => {
                let mut list = List::new(prefix(&mut aged, name), name, run, &mut metrics);
                latency(&mut list, result);
                cost(&mut list, result);
                wear(&mut list, result);
                usage(&mut list, probes);
                state(&mut list, &result.layout, result.free_space.as_ref());
            }
            // A copied folder stands for the stage that filled it.
            StageRecord::Copy { name, folder, layout, free_space, .. } => {
                let mut list = List::new(prefix(&mut aged, folder), name, run, &mut metrics);
                state(&mut list, layout, free_space.as_deref());
            }
            StageRecord::Measure { name, results, .. } => {
                let prefix = prefix(&mut measured, name);
                measures(&mut List::new(prefix, name, run, &mut metrics), results);
            }
            StageRecord::Lockstep { name, volumes, rounds, looks, failed, .. } => {
                let mut list = List::new(prefix(&mut aged, name), name, run, &mut metrics);
                lockstep::push(&mut list, volumes, rounds, looks);
                lockstep::no_space(&mut list, volumes, failed);
            }
            StageRecord::Remedy(remedy) => {
                let prefix = metric::prefix(&remedy.name, false);
                remedy::push(&mut List::new(prefix, &remedy.name, run, &mut metrics), remedy);
                let prefix = String::new();
                remedy::against(&mut List::new(prefix, &remedy.name, run, &mut metrics), stages, position);
            }
            StageRecord::Fio(fio) => {
                let prefix = prefix(&mut pointed, &fio.name);
                fio::push(&mut List::new(prefix, &fio.name, run, &mut metrics), fio);
            }
            StageRecord::PowerCuts(cuts) => {
                let prefix = metric::prefix(&cuts.name, false);
                power_cuts::push(&mut List::new(prefix, &cuts.name, run, &mut metrics), &cuts.report);
            }
            StageRecord::Cluster(cluster) => {
                let prefix = prefix(&mut pointed, &cluster.name);
                cluster::push(&mut List::new(prefix, &cluster.name, run, &mut metrics), cluster);
            }
            StageRecord::Image { .. } | StageRecord::Precondition(_) => {}
        }
    }
    metrics
}

/// Layout and free space at the end of a stage.
fn state(list: &mut List<'_>, files: &LayoutSummary, free: Option<&FreeSpace>) {
    layout(list, files);
    if let Some(free) = free {
        free_space(list, free);
    }
}

/// A measure's unit as metrics spell it.
fn unit_of(metric: &MeasureMetric) -> &str {
    let name = &metric.name;
    match metric.unit.as_str() {
        "B" => "bytes",
        "B/s" => "bytes/s",
        "B/model s" => "bytes/model s",
        "1" if name.ends_with("score") || name.ends_with("share") => "share",
        "1" => "count",
        other => other,
    }
}

/// Whether larger is worse; what a disk counts is neither, but for the time that it took in all, nor is how many requests
/// it had, or what a control added.
fn worse(metric: &MeasureMetric) -> Option<bool> {
    let neither = [QUEUE_DEPTH, EXTRA_FACTOR, EXTRA_REQUESTS].contains(&metric.name.as_str());
    if neither || metric.name.starts_with(DISK_COUNTER) { None } else { Some(metric.larger_is_worse) }
}

/// Each measure's headline under its own name, the rest below it.
fn measures(list: &mut List<'_>, results: &[MeasureResult]) {
    for result in results {
        list.work = Some(result.work());
        for (index, value) in result.metrics.iter().enumerate() {
            list.one(
                &metric::of_measure(&result.name, index, &value.name),
                unit_of(value),
                value.value,
                worse(value),
            );
        }
    }
    list.work = None;
}

struct List<'a> {
    prefix: String,
    stage: &'a str,
    run: Option<&'a str>,
    /// Of the measure whose numbers are pushed.
    work: Option<Work>,
    metrics: &'a mut Vec<Metric>,
}

const WORSE: Option<bool> = Some(true);
const BETTER: Option<bool> = Some(false);

impl<'a> List<'a> {
    const fn new(prefix: String, stage: &'a str, run: Option<&'a str>, metrics: &'a mut Vec<Metric>) -> Self {
        Self { prefix, stage, run, work: None, metrics }
    }

    fn push(&mut self, name: &str, unit: &str, samples: Vec<f64>, larger_is_worse: Option<bool>) {
        let name = format!("{}{name}", self.prefix);
        let run = self.run.map(str::to_owned);
        let (unit, stage) = (unit.to_owned(), Some(self.stage.to_owned()));
        self.metrics.push(Metric { name, unit, samples, larger_is_worse, run, stage, work: self.work });
    }

    fn one(&mut self, name: &str, unit: &str, value: f64, larger_is_worse: Option<bool>) {
        self.push(name, unit, vec![value], larger_is_worse);
    }
}

/// Whether the times of a load are by a virtual disk's clock.
fn is_model(result: &LoadResult) -> bool {
    result.disk.as_ref().is_some_and(|disk| disk.time == DiskTime::Model)
}

fn latency(list: &mut List<'_>, result: &LoadResult) {
    let unit = if is_model(result) { model_unit("ns") } else { "ns".to_owned() };
    for (kind, summary) in &result.latency {
        for (statistic, value) in [
            (metric::MEAN_NS, summary.mean_ns),
            (metric::P50_NS, as_f64(summary.p50_ns)),
            (metric::P99_NS, as_f64(summary.p99_ns)),
            (metric::P999_NS, as_f64(summary.p999_ns)),
            (metric::MAX_NS, as_f64(summary.max_ns)),
        ] {
            list.one(&metric::latency(*kind, statistic), &unit, value, WORSE);
        }
    }
}

/// What ageing took. On a virtual disk in model time the time is the disk's; the wall's is kept beside it
/// under a name of its own.
fn cost(list: &mut List<'_>, result: &LoadResult) {
    let wall = as_f64(result.elapsed_ns) / 1e9;
    let model = result.disk.as_ref().filter(|_| is_model(result));
    let seconds = model.map_or(wall, |disk| as_f64(disk.elapsed_ns) / 1e9);
    let unit = |unit: &str| if model.is_some() { model_unit(unit) } else { unit.to_owned() };
    if seconds > 0.0 {
        list.one(metric::OPERATIONS_PER_S, &unit("1/s"), as_f64(result.operations) / seconds, BETTER);
    }
    list.one(metric::ELAPSED_S, &unit("s"), seconds, None);
    if model.is_some() {
        list.one(metric::WALL_S, "s", wall, None);
    }
    for metric in result.disk.iter().flat_map(disk_metrics) {
        list.one(&metric::of_age(&metric.name), unit_of(&metric), metric.value, worse(&metric));
    }
    if let Some(bytes) = result.device_bytes_written {
        list.one(metric::DEVICE_BYTES, "bytes", as_f64(bytes), WORSE);
    }
    list.one(metric::OVERHEAD_NS, "ns", result.overhead_ns_per_operation, None);
}

/// Days of a Julian year.
const YEAR_DAYS: f64 = 365.25;

/// The days that a paced load stands for: those of a modelled disk's clock, and in real time, where a slow file system may fall behind
/// the pace, those that its operations take at that pace (a sync belongs to the operation before it).
fn days(result: &LoadResult, pace: &PaceSpec) -> f64 {
    match result.disk.as_ref().filter(|_| is_model(result)) {
        Some(disk) => as_f64(disk.elapsed_ns) / 86_400e9,
        None => {
            let syncs = [OperationKind::Fsync, OperationKind::Fdatasync];
            let syncs: u64 = syncs.iter().filter_map(|kind| result.succeeded.get(kind)).sum();
            as_f64(result.operations.saturating_sub(syncs)) / pace.operations_per_day
        }
    }
}

/// What a load at the pace of daily use writes, and what that takes out of flash: the mean over all of it, as if
/// wear were levelled perfectly (003, §4). What is used up by programming counts, because erases come later than
/// the writes that cause them. Of a drive that did not have to collect garbage meanwhile nothing is said: how much
/// is moved for each byte is not known. Of what is no modelled drive only the block layer's count is known.
fn wear(list: &mut List<'_>, result: &LoadResult) {
    let Some(pace) = &result.pace else { return };
    let disk = result.disk.as_ref();
    let counter = |name| disk.and_then(|disk| disk.counter(name)).filter(|value| *value > 0.0);
    let by_kernel = result.device_bytes_written.map(as_f64);
    let written = counter(HOST_WRITE_BYTES).or(by_kernel);
    let days = days(result, pace);
    let Some(written) = written.filter(|written| *written > 0.0 && days > 0.0) else { return };
    list.one(metric::WRITTEN_PER_DAY, "bytes", written / days, WORSE);
    let counts = result.latency.values().map(|latency| as_f64(latency.count));
    let times = result.latency.values().map(|latency| as_f64(latency.count) * latency.mean_ns);
    let (count, time): (f64, f64) = (counts.sum(), times.sum());
    if count > 0.0 {
        let unit = if is_model(result) { model_unit("ns") } else { "ns".to_owned() };
        list.one(metric::OPERATION_NS, &unit, time / count, WORSE);
    }
    let (Some(worn), Some(flash)) = (counter(FLASH_WORN), counter(FLASH_BYTES)) else { return };
    if disk.and_then(|disk| disk.counter(COLLECTIONS)).is_some_and(|count| count < LEAST_COLLECTIONS) {
        return;
    }
    let cycles = worn / flash / days * YEAR_DAYS;
    list.one(metric::DRIVE_AMPLIFICATION, "ratio", worn / written, WORSE);
    list.one(metric::WEAR_CYCLES, "count", cycles, WORSE);
    if let Some(rated) = pace.rated_cycles {
        list.one(metric::LIFETIME_YEARS, "years", f64::from(rated) / cycles, BETTER);
    }
}

/// Blocks that garbage was collected from, at least, for wear to be that of a drive in use.
const LEAST_COLLECTIONS: f64 = 10.0;

fn usage(list: &mut List<'_>, probes: &[Probe]) {
    let over_time: Vec<f64> = probes.iter().map(|p| share(p.used_bytes, p.total_bytes)).collect();
    if let Some(last) = over_time.last() {
        list.one(metric::USE_SHARE, "share", *last, None);
        list.push(metric::USE_SHARE_OVER_TIME, "share", over_time, None);
    }
}

fn layout(list: &mut List<'_>, layout: &LayoutSummary) {
    let fragmented = (1.0 - layout.one_extent_share).clamp(0.0, 1.0);
    let small: u64 = layout.extent_histogram.count.iter().take(SMALL_EXTENT_BITS).sum();
    list.one(metric::EXTENTS_PER_FILE, "count", layout.extents_per_file, WORSE);
    list.one(metric::ONE_EXTENT_SHARE, "share", layout.one_extent_share, BETTER);
    list.one(metric::FRAGMENTED_SHARE, "share", fragmented, WORSE);
    list.one(metric::LAYOUT_SCORE, "share", layout.layout_score, BETTER);
    list.one(metric::NONCONTIGUOUS_FILES, "count", (fragmented * as_f64(layout.mapped_files)).round(), WORSE);
    list.one(metric::SMALL_EXTENTS, "count", as_f64(small), WORSE);
}

fn free_space(list: &mut List<'_>, free: &FreeSpace) {
    list.one(metric::FREE_EXTENTS, "count", as_f64(free.extents), WORSE);
    list.one(metric::FREE_MEDIAN_BYTES, "bytes", as_f64(free.median_bytes), BETTER);
    list.one(metric::FREE_LARGEST_BYTES, "bytes", as_f64(free.largest_bytes), BETTER);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(folder: &str, extents_per_file: f64) -> StageRecord {
        StageRecord::Copy {
            name: "copy".into(),
            folder: folder.into(),
            files: 1,
            bytes: 1,
            digest: String::new(),
            elapsed_ns: 1,
            restored: false,
            layout: Box::new(LayoutSummary { extents_per_file, ..LayoutSummary::default() }),
            free_space: None,
        }
    }

    fn measured(name: &str, value: f64) -> StageRecord {
        let result = MeasureResult {
            name: "grep".into(),
            metrics: vec![
                MeasureMetric::cost("time", "s", value),
                MeasureMetric::cost("allocated", "B", 4096.0),
            ],
            ..MeasureResult::default()
        };
        StageRecord::Measure {
            name: name.into(),
            results: vec![result],
            left_out: Vec::new(),
            before: Box::default(),
            free_before: None,
            after: Box::default(),
            free_after: None,
        }
    }

    #[test]
    fn the_first_stage_of_a_kind_has_the_plain_names() {
        let stages = [copy("a", 1.0), copy("b", 2.0), measured("measure", 3.0), measured("again", 4.0)];
        let metrics = all(&stages);
        let value = |name: &str| {
            let found: Vec<&Metric> = metrics.iter().filter(|metric| metric.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            (found[0].samples[0], found[0].unit.clone())
        };
        assert_eq!(value("layout.extents_per_file").0, 1.0);
        assert_eq!(value("b.layout.extents_per_file").0, 2.0);
        assert_eq!(value("grep"), (3.0, "s".to_owned()));
        assert_eq!(value("again.grep"), (4.0, "s".to_owned()));
        assert_eq!(value("grep.allocated"), (4096.0, "bytes".to_owned()));
    }

    #[test]
    fn what_a_paced_load_writes_per_day_is_known_without_a_model() {
        let result = serde_json::json!({
            "operations": 1_500, "missed": 0, "elapsed_ns": 50_000_000_000_u64, "failed": {},
            "succeeded": {"append": 1_000, "fsync": 400, "fdatasync": 100}, "bytes_written": 1, "bytes_read": 0,
            "cpu_user_ns": 1, "cpu_sys_ns": 1, "device_bytes_written": 4_000_000, "materialise_ns": 0, "digest": "d",
            "digest_caveats": [], "stopped_by": "operations", "latency": {}, "layout": LayoutSummary::default(),
            "overhead_ns_per_operation": 1.0, "files": 10, "live_bytes": 1,
            "pace": {"operations_per_day": 2_000.0, "rated_cycles": 3_000},
        });
        let result: LoadResult = serde_json::from_value(result).unwrap();
        let mut metrics = Vec::new();
        wear(&mut List::new(String::new(), "daily", None, &mut metrics), &result);
        let found: Vec<(&str, f64)> = metrics.iter().map(|one| (one.name.as_str(), one.samples[0])).collect();
        // Half a day of operations; of flash nothing is known.
        assert_eq!(found, [(metric::WRITTEN_PER_DAY, 8_000_000.0)]);
        let unpaced = LoadResult { pace: None, ..result };
        let mut metrics = Vec::new();
        wear(&mut List::new(String::new(), "daily", None, &mut metrics), &unpaced);
        assert!(metrics.is_empty());
    }

    #[test]
    fn what_led_to_an_image_names_its_run_and_what_follows_does_not() {
        let image = StageRecord::Image {
            name: "image".into(),
            key: "k".into(),
            run: "k-1".into(),
            made: false,
            file_bytes: 1,
            used_bytes: 1,
            save_ns: None,
            restore_ns: 1,
        };
        let metrics = all(&[measured("before", 3.0), image.clone(), measured("after", 4.0)]);
        let run = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().run.as_deref();
        assert_eq!((run("grep"), run("after.grep")), (Some("k-1"), None));
        // What a copy of the restored volume is like is its own.
        let metrics = all(&[measured("before", 3.0), image, copy("a", 1.0)]);
        assert!(!metrics.is_empty() && metrics.iter().all(|metric| metric.run.is_none()));
    }
}
